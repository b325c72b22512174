"""Tables that fit: where the terminal is too narrow, columns that can be spared go, and no text is ever cut or broken up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from fusiest.terminal.console import printable


@dataclass
class Grid:
    """Columns without lines. A title starts with `<` for words on the left or `>` for numbers on the right, and before
    that with `?` if the column can be spared."""

    titles: tuple[str, ...]
    header: bool = True
    rows: list[tuple[tuple[str | Text, ...], str]] = field(default_factory=list)
    """Cells, and the row's style."""

    def add(self, *cells: str | Text, style: str = "") -> None:
        self.rows.append((cells, style))

    def fitting(self, console: Console, width: int) -> RenderableType:
        """The table with all columns if they fit, else without those that can be spared, however wide that is."""
        whole = self._table([*range(len(self.titles))])
        if console.measure(whole).maximum <= width:
            return whole
        return self._table([i for i, title in enumerate(self.titles) if not title.startswith("?")])

    def _table(self, columns: list[int]) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=self.header)
        for i in columns:
            title = self.titles[i].removeprefix("?")
            table.add_column(title[1:], justify="left" if title[0] == "<" else "right", no_wrap=True)
        for cells, style in self.rows:
            table.add_row(*(harmless(cells[i]) for i in columns if i < len(cells)), style=style)
        return table


def harmless(text: str | Text) -> Text:
    """Text in which control characters of names are gone, with the styles that it has."""
    safe = text.copy() if isinstance(text, Text) else Text(text)
    safe.plain = printable(safe.plain)
    return safe


Part: TypeAlias = str | Text | Grid
"""Something to print, on lines of its own."""


def grid(*titles: str, header: bool = True) -> Grid:
    return Grid(titles, header)
