"""Streams that pass for terminals."""

from __future__ import annotations

import io


class Terminal(io.StringIO):
    """A terminal that keeps what is written to it."""

    def __init__(self, encoding: str = "utf-8", tty: bool = True) -> None:
        super().__init__()
        self._encoding, self._tty = encoding, tty

    @property
    def encoding(self) -> str:
        return self._encoding

    def isatty(self) -> bool:
        return self._tty
