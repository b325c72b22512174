"""What a stream can show: its characters, its colours, its width."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import RenderableType

_ASCII = str.maketrans(
    {"µ": "u", "…": "...", "×": "x", "├": "|", "└": "`", "│": "|", "─": "-", "≤": "<=", "→": "->", "·": "-", "━": "#"}
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


def render(parts: list[RenderableType], stream: TextIO) -> str:
    """Text for the stream: as wide as its terminal, with colours if it has any; in a pipe plain, and no line broken.

    `NO_COLOR` means no styles at all. Rich is imported here, as most commands do without it.
    """
    from rich.console import Console

    plain = bool(os.environ.get("NO_COLOR"))
    console = Console(file=stream, color_system=None if plain else "auto", highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = _UNLIMITED
    with console.capture() as capture:
        for part in parts:
            console.print(part, soft_wrap=isinstance(part, str))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())
