"""What an experiment leaves: a CSV file, figures, and a page of Markdown that puts our numbers beside the paper's."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fusiest.base.files import make_folder, write_atomically
from fusiest.base.frames import DataTable
from fusiest.experiments.reproduce.pieces import Study
from fusiest.report import plain_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OutputRow = dict[str, Any]

STYLE: Any = {
    "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9, "legend.fontsize": 8, "xtick.labelsize": 8, "ytick.labelsize": 8,
    "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True, "axes.grid": True, "legend.frameon": False,
    "grid.color": "#e4e8ed", "grid.linewidth": 0.6, "lines.linewidth": 1.6, "svg.fonttype": "none", "svg.hashsalt": "fusiest",
}  # fmt: skip
_DOTS_PER_INCH = 200


@dataclass(frozen=True)
class Output:
    """All of an experiment's results."""

    rows: Sequence[OutputRow]
    summary: str
    """Markdown, without a title."""
    draw: Callable[[Figure], None] | None = None
    size: tuple[float, float] = (5.0, 3.2)
    """Size of the figure, in inches."""
    svg: str | None = None
    """A drawing that is not made with Matplotlib."""


def write(study: Study, name: str, title: str, output: Output) -> list[Path]:
    """Write the files; the summary is last, so that it only exists if all is there."""
    make_folder(study.out)
    columns = tuple(output.rows[0]) if output.rows else ()
    figures = DataTable(columns, [tuple(row.get(column) for column in columns) for row in output.rows])
    files: dict[str, str | bytes] = {f"{name}.csv": figures.to_csv()}
    if output.svg is not None:
        files[f"{name}.svg"] = output.svg
    if output.draw is not None:
        files |= {f"{name}.{form}": _picture(output, form) for form in ("svg", "png")}
    files[f"{name}.md"] = f"# {title}\n\n![{title}]({name}.svg)\n\n{output.summary.strip()}\n"
    for file, content in files.items():
        write_atomically(study.out / file, content)
    return [study.out / file for file in files]


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; all columns but the first are numbers."""
    lines = [header, ["---", *(["---:"] * (len(header) - 1))], *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def percent(value: float | np.floating[Any] | None) -> str:
    """Three significant digits at most.

    >>> percent(0.0123), percent(1.5), percent(None)
    ('1.23%', '150%', '-')
    """
    if value is None:
        return "-"
    return f"{100 * value:.3g}%" if 100 * value < 1000 else f"{100 * value:,.0f}%"


def _picture(output: Output, form: str) -> bytes:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    assert output.draw is not None
    with mpl.rc_context(plain_style(STYLE)):
        figure = Figure(figsize=output.size, layout="constrained")
        output.draw(figure)
        stream = io.BytesIO()
        metadata: Any = {"svg": {"Date": None}, "png": {}}[form]
        figure.savefig(stream, format=form, dpi=_DOTS_PER_INCH, metadata=metadata)
    return stream.getvalue()
