"""Figures as tables: CSV, and pandas data frames where pandas is installed."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fusiest.base.errors import FusiestError

if TYPE_CHECKING:
    import pandas


MOST_PRINTED = 60


@dataclass(frozen=True)
class DataTable:
    """Named columns, and rows of text and numbers; None where there is no value."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]

    def to_csv(self) -> str:
        """Text of comma-separated values, after a line of names.

        >>> print(DataTable(("a", "b"), [("x, y", 1.5), ("z", None)]).to_csv().replace("\\r", ""), end="")
        a,b
        "x, y",1.5
        z,
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return text.getvalue()

    def __str__(self) -> str:
        """The first rows, in columns.

        >>> print(DataTable(("name", "joules"), [("a", 1.5e-9), ("bcd", None)]))
        name   joules
        a     1.5e-09
        bcd         -
        """
        shown = [tuple(map(_cell, row)) for row in self.rows[:MOST_PRINTED]]
        kinds = [
            all(isinstance(row[i], (int, float, type(None))) for row in self.rows) for i in range(len(self.columns))
        ]
        widths = [max(map(len, cells)) for cells in zip(self.columns, *shown, strict=True)]
        lines = [
            "  ".join(
                cell.rjust(width) if number else cell.ljust(width)
                for cell, width, number in zip(cells, widths, kinds, strict=True)
            ).rstrip()
            for cells in (self.columns, *shown)
        ]
        more = len(self.rows) - len(shown)
        return "\n".join([*lines, f"… and {more:,} more rows"] if more else lines)

    def to_frame(self) -> pandas.DataFrame:
        """Make a pandas DataFrame."""
        try:
            import pandas
        except ImportError:
            raise FusiestError("data frames need pandas: pip install 'fusiest[pandas]'") from None
        return pandas.DataFrame(list(self.rows), columns=list(self.columns))


def _cell(value: object) -> str:
    """A value as a printed table has it."""
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
