"""Progress of a search in a notebook: one line with a bar that is redrawn, and gone when the search ends.

Nothing is shown for a search that takes but a moment, nor outside notebooks. IPython is used where it runs, and not needed.
"""

from __future__ import annotations

import contextlib
import html
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from fusiest.mapper.progress import Progress, Step

SECONDS_BEFORE, SECONDS_BETWEEN = 0.5, 0.2


@contextlib.contextmanager
def notebook_progress() -> Iterator[Progress | None]:
    """Who listens to a search that was started in a notebook; None elsewhere."""
    display = _display()
    if display is None:
        yield None
        return
    line = NotebookLine(display)
    try:
        yield line
    finally:
        line.erase()


class NotebookLine:
    """The line. `display` is IPython's: of HTML, with an id by which it can be shown anew."""

    def __init__(self, display: Callable[..., Any], clock: Callable[[], float] = time.perf_counter) -> None:
        self.display, self.clock = display, clock
        self.begin = clock()
        self.next = self.begin + SECONDS_BEFORE
        self.handle: Any = None

    def __call__(self, step: Step) -> None:
        now = self.clock()
        if now < self.next:
            return
        self.next = now + SECONDS_BETWEEN
        bar = f'<progress value="{step.done}" max="{step.total}"></progress> ' if step.total else ""
        self._show(f"<pre>{now - self.begin:6.1f} s  {bar}{html.escape(str(step))}</pre>")

    def erase(self) -> None:
        """Leave nothing behind."""
        if self.handle is not None:
            self._show("")

    def _show(self, text: str) -> None:
        shown = {"text/html": text, "text/plain": ""}
        if self.handle is None:
            self.handle = self.display(shown, raw=True, display_id=True)
        else:
            self.handle.update(shown, raw=True)


def _display() -> Callable[..., Any] | None:
    """IPython's `display`, if this is a notebook: a shell whose output goes to a kernel's client."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display

    function: Callable[..., Any] = display
    return function
