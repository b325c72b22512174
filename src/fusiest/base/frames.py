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


@dataclass(frozen=True)
class DataTable:
    """Named columns, and rows of text and numbers; None where there is no value."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]

    def to_csv(self) -> str:
        """With a line of names.

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

    def to_frame(self) -> pandas.DataFrame:
        """As a pandas DataFrame."""
        try:
            import pandas
        except ImportError:
            raise FusiestError("data frames need pandas: pip install 'fusiest[pandas]'") from None
        return pandas.DataFrame(list(self.rows), columns=list(self.columns))
