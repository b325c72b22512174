"""Progress of a search: on a terminal one line with a bar that is rewritten, elsewhere a line per phase and few more.

A timer shows that a long step goes on. It is a signal and no thread: the search forks processes, and a fork must not find a
lock held.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from fusiest.mapper import Step
from fusiest.terminal.console import fitting, printable, silence

_BAR = 20
_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_OF_SILENCE = 30.0
_ERASE = "\r\x1b[K"


class ProgressLine:
    """Says what is going on, on a stream that is not the result's; nothing any more once that cannot be written."""

    def __init__(self, stream: TextIO | None, quiet: bool, clock: Callable[[], float] = time.perf_counter) -> None:
        self.stream, self.quiet, self.clock = stream, quiet or stream is None, clock
        self.live = stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
        self.begin = clock()
        self.step: Step | None = None
        self.next_line = self.next_beat = 0.0
        self.busy = False

    def __enter__(self) -> ProgressLine:
        self.timer = None
        if not self.quiet and hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
            self.timer = signal.signal(signal.SIGALRM, lambda *_: self.beat())
            signal.siginterrupt(signal.SIGALRM, False)
            signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.timer is not None:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, self.timer)
        if self.live and not self.quiet and self.step is not None:
            self._write(_ERASE)

    def __call__(self, step: Step) -> None:
        if self.quiet:
            return
        seconds = self.clock() - self.begin
        if self.live:
            self._redraw(seconds, step)
        elif self.step is None or step.phase != self.step.phase or seconds >= self.next_line:
            self._line(seconds, step)
        self.step = step

    def beat(self) -> None:
        """Show that the last step goes on. May come at any time, also in the middle of writing."""
        if self.quiet or self.busy or self.step is None:
            return
        seconds = self.clock() - self.begin
        if self.live:
            self._redraw(seconds, self.step)
        elif seconds >= self.next_beat:
            self._line(seconds, self.step)

    def _redraw(self, seconds: float, step: Step) -> None:
        width = shutil.get_terminal_size().columns
        bar = _bar(step, min(_BAR, width // 4))
        self._write(_ERASE + fitting(f"{seconds:6.1f} s  {bar}{printable(str(step))}", self.stream)[: width - 1])

    def _line(self, seconds: float, step: Step) -> None:
        self._write(fitting(f"{seconds:6.1f} s  {printable(str(step))}\n", self.stream))
        self.next_line, self.next_beat = seconds + _SECONDS_BETWEEN_LINES, seconds + _SECONDS_OF_SILENCE

    def _write(self, text: str) -> None:
        assert self.stream is not None
        self.busy = True
        try:
            self.stream.write(text)
            self.stream.flush()
        except OSError:
            self.quiet = True
            silence(self.stream)
        finally:
            self.busy = False


def _bar(step: Step, length: int) -> str:
    if not step.total:
        return ""
    filled = length * step.done // step.total
    return "━" * filled + " " * (length - filled) + "  "
