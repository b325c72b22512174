"""What a stream can show: its characters, its colours, its width."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from fusiest.terminal.grid import Part

_ASCII = str.maketrans(
    {
        "µ": "u",
        "…": "...",
        "×": "x",
        "²": "2",
        "├": "|",
        "└": "`",
        "│": "|",
        "─": "-",
        "≤": "<=",
        "→": "->",
        "·": "-",
        "━": "#",
    }
)
_UNLIMITED = 10_000


def fitting(text: str, stream: TextIO | None) -> str:
    """The text in characters that the stream can write: µ becomes u on an ASCII terminal."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return text


_CONTROLS = {code: "?" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    """Without control characters: a name in a file must not be able to give orders to the terminal.

    >>> printable("X\\x1b[31m red")
    'X?[31m red'
    """
    return text.translate(_CONTROLS)


def silence(stream: TextIO | None) -> None:
    """A stream that cannot be written: what is left in its buffer must not fail once more, when the program ends."""
    if stream is not None:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def render(parts: list[Part], stream: TextIO) -> str:
    """Text for the stream, with colours if it has any. Sentences wrap between words, other lines are left to the
    terminal to wrap; a pipe gets them whole.

    `NO_COLOR` means no styles at all. Rich is imported here, as most commands do without it.
    """
    from rich.console import Console
    from rich.text import Text

    from fusiest.terminal.grid import Grid, harmless

    plain = bool(os.environ.get("NO_COLOR"))
    console = Console(file=stream, color_system=None if plain else "auto", highlight=False, emoji=False, markup=False)
    available = console.width if console.is_terminal else _UNLIMITED
    # Rich would squeeze a table that is too wide until names are gone; a line that the terminal wraps is still whole.
    console.width = _UNLIMITED
    with console.capture() as capture:
        for part in parts:
            if isinstance(part, Text):
                console.print(harmless(part), width=available)
            else:
                console.print(
                    part.fitting(console, available) if isinstance(part, Grid) else harmless(part), soft_wrap=True
                )
    return "\n".join(line.rstrip() for line in capture.get().splitlines())
