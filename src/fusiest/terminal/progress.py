"""Progress of a search: on a terminal one line with a bar that is rewritten, elsewhere a line per phase and few more.

No thread redraws it: the search forks processes, and a fork must not find a lock held.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from fusiest.mapper.progress import Step
from fusiest.terminal.console import fitting, printable, silence

_BAR = 20
_SECONDS_BETWEEN_LINES = 10.0
_ERASE = "\r\x1b[K"


class Progress:
    """Says what is going on, on a stream that is not the result's; nothing any more once that cannot be written."""

    def __init__(self, stream: TextIO | None, quiet: bool, clock: Callable[[], float] = time.perf_counter) -> None:
        self.stream, self.quiet, self.clock = stream, quiet or stream is None, clock
        self.live = stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
        self.begin = clock()
        self.phase = ""
        self.next_line = 0.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.live and not self.quiet and self.phase:
            self._write(_ERASE)

    def __call__(self, step: Step) -> None:
        if self.quiet:
            return
        seconds = self.clock() - self.begin
        if self.live:
            width = shutil.get_terminal_size().columns
            bar = _bar(step, min(_BAR, width // 4))
            self._write(_ERASE + fitting(f"{seconds:6.1f} s  {bar}{printable(str(step))}", self.stream)[: width - 1])
        elif step.phase != self.phase or seconds >= self.next_line:
            self._write(fitting(f"{seconds:6.1f} s  {printable(str(step))}\n", self.stream))
            self.next_line = seconds + _SECONDS_BETWEEN_LINES
        self.phase = step.phase

    def _write(self, text: str) -> None:
        assert self.stream is not None
        try:
            self.stream.write(text)
            self.stream.flush()
        except OSError:
            self.quiet = True
            silence(self.stream)


def _bar(step: Step, length: int) -> str:
    if not step.total:
        return ""
    filled = length * step.done // step.total
    return "━" * filled + " " * (length - filled) + "  "
