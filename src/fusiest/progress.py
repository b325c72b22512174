"""Progress on a terminal: one line that is rewritten; elsewhere plain lines, a few per second at most."""

from __future__ import annotations

import shutil
import time
from types import TracebackType
from typing import TextIO


class Progress:
    """Says what is going on, on a stream that is not the result's."""

    def __init__(self, stream: TextIO, quiet: bool) -> None:
        self.stream, self.quiet = stream, quiet
        self.live = stream.isatty()
        self.begin = time.perf_counter()
        self.last = ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.live and not self.quiet and self.last:
            self.stream.write("\r\x1b[K")
            self.stream.flush()

    def say(self, text: str) -> None:
        if self.quiet or text == self.last:
            return
        self.last = text
        line = f"{time.perf_counter() - self.begin:6.1f} s  {text}"
        if self.live:
            width = shutil.get_terminal_size().columns
            self.stream.write("\r\x1b[K" + line[: width - 1])
        else:
            self.stream.write(line + "\n")
        self.stream.flush()
