"""Charts as files for papers, drawn with Matplotlib: no browser and no network, and text stays text in SVG and PDF."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusiest.base.errors import FusiestError, shown
from fusiest.base.files import make_folder, write_atomically
from fusiest.report.charts.chart import Bars, Chart, Graph, Heat, Points
from fusiest.report.charts.graphs import PIXEL, ROOM, draw_graph
from fusiest.report.charts.layout import Arrangement, arranged, check_dukpy
from fusiest.report.charts.palette import colour
from fusiest.report.charts.ticks import binary_ticks, legend_columns, log_ticks, with_room, words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("svg", "png", "pdf")
_STYLE: Any = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True, "axes.grid": True,
    "grid.color": "#e4e8ed", "svg.fonttype": "none", "svg.hashsalt": "fusiest", "pdf.fonttype": 42, "hatch.linewidth": 0.8,
    "text.parse_math": False,
}  # fmt: skip
_DOTS_PER_INCH = 300


def check_matplotlib() -> None:
    """Raise, with what to install, if charts cannot be drawn."""
    try:
        import matplotlib  # noqa: F401  (is it installed?)
    except ImportError:
        raise FusiestError("charts as files need Matplotlib: pip install 'fusiest[charts]'") from None
    except (ValueError, OSError) as error:  # it reads a matplotlibrc of the working folder first
        raise FusiestError(f"matplotlibrc: Matplotlib cannot read its settings: {shown(str(error))}") from None
    check_dukpy()


def plain_style(style: Any) -> Any:
    """Settings of Matplotlib for a picture: its own defaults and these, whatever a matplotlibrc of the working folder says."""
    import matplotlib as mpl

    kept = {"backend", "backend_fallback"}  # to set a backend loads a module
    return {**{name: value for name, value in mpl.rcParamsDefault.items() if name not in kept}, **style}


def write_charts(
    charts: Mapping[str, Chart], folder: str | Path, formats: Sequence[str] = ("svg", "png")
) -> list[Path]:
    """A file per chart and format in the folder, which is made if need be."""
    check_matplotlib()
    for name in formats:
        if name not in FORMATS:
            raise FusiestError(f"format '{name}' is none of {', '.join(FORMATS)}")
    make_folder(folder)
    written = []
    for name, chart in charts.items():
        arrangement = arranged(chart, ROOM) if isinstance(chart, Graph) else None
        for form in formats:
            path = Path(folder) / f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.{form}"
            write_atomically(path, picture(chart, form, arrangement))
            written.append(path)
    return written


def picture(chart: Chart, form: str, arrangement: Arrangement | None = None) -> bytes:
    """One chart as the content of a file; a graph where its layout says."""
    import io

    import matplotlib as mpl

    with mpl.rc_context(plain_style(_STYLE)):
        stream = io.BytesIO()
        still = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[form]
        drawn(chart, arrangement).savefig(stream, format=form, dpi=_DOTS_PER_INCH, metadata=still)
    return stream.getvalue()


def drawn(chart: Chart, arrangement: Arrangement | None = None) -> Figure:
    """One chart as Matplotlib's figure, in the style that is set."""
    from matplotlib.figure import Figure

    if isinstance(chart, Graph):
        arrangement = arrangement or arranged(chart, ROOM)
        size = arrangement.width * PIXEL, arrangement.height * PIXEL + 0.7
    else:
        size = _size(chart)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(chart.title, loc="left", fontweight="bold", fontsize=10)
    _draw(chart, axes, figure, arrangement)
    return figure


def _size(chart: Bars | Heat | Points) -> tuple[float, float]:
    """Inches."""
    if isinstance(chart, Bars) and not chart.vertical:
        return 5.0, 1.1 + (0.2 if chart.stacked else 0.26) * max(len(chart.categories), 3) + 0.06 * len(chart.series)
    if isinstance(chart, Bars):
        return max(5.0, 1.5 + 0.35 * len(chart.categories)), 3.0
    if isinstance(chart, Heat):
        return max(5.0, 1.5 + 0.35 * len(chart.columns)), 1.4 + 0.28 * len(chart.rows)
    return 4.5, 2.7 + 0.1 * (len(chart.clouds) + len(chart.lines))


def _draw(chart: Chart, axes: Axes, figure: Figure, arrangement: Arrangement | None) -> None:
    if isinstance(chart, Bars):
        _bars(chart, axes)
    elif isinstance(chart, Points):
        _points(chart, axes)
    elif isinstance(chart, Heat):
        _heat(chart, axes)
    elif arrangement is not None:
        draw_graph(chart, arrangement, axes)
    _, labels = axes.get_legend_handles_labels()
    if len(labels) > 1 or isinstance(chart, Graph):
        columns = legend_columns(labels, figure.get_figwidth())
        figure.legend(
            loc="outside lower center", ncols=columns, fontsize=7, frameon=False, handlelength=1.4, columnspacing=1.2
        )


def _ticks(axis: Any, unit: str) -> None:
    """Round numbers with their units. Matplotlib's own ticks of logarithmic axes are few, or overlap, below a decade."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, MultipleLocator, NullLocator

    low, high = sorted(axis.get_view_interval())
    if axis.get_scale() == "log":
        ticks = binary_ticks(low, high) if unit == "B" else log_ticks(low, high)
        if axis.axis_name == "x":
            ticks = with_room(ticks, unit, axis.axes.figure.get_figwidth() * axis.axes.get_position().width)
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_minor_locator(NullLocator())
    elif unit == "B" and high > low:
        axis.set_major_locator(MultipleLocator(2.0 ** math.ceil(math.log2((high - low) / 5))))
    else:
        axis.set_major_locator(MaxNLocator(5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: words(value, unit)))


def _paint(name: str) -> dict[str, Any]:
    color, hatch = colour(name)
    return {
        "facecolor": color,
        "edgecolor": "white",
        "linewidth": 0.4,
        "hatch": {"": "", "/": "////", "x": "xxxx", ".": "...."}[hatch],
    }


def _totals(chart: Bars) -> list[float]:
    return [sum(s.values[i] or 0 for s in chart.series) for i in range(len(chart.categories))]


def _tips(chart: Bars) -> list[float]:
    """Where each bar, or the longest of those beside each other, ends to the right."""
    if chart.starts:
        return [start + max(total, 0) for start, total in zip(chart.starts, _totals(chart), strict=True)]
    if chart.stacked:
        return _totals(chart)
    return [max((s.values[i] or 0 for s in chart.series), default=0) for i in range(len(chart.categories))]


def _bars(chart: Bars, axes: Axes) -> None:
    if chart.vertical:
        _columns(chart, axes)
        return
    count = len(chart.series)
    place = range(len(chart.categories))
    left = list(chart.starts) or [0.0] * len(chart.categories)
    height = 0.72 if chart.stacked else 0.8 / max(count, 1)
    for k, series in enumerate(chart.series):
        values = [v or 0 for v in series.values]
        shift = 0 if chart.stacked else (k - (count - 1) / 2) * height
        axes.barh([i + shift for i in place], values, height, left if chart.stacked else None, label=series.name,
                  **_paint(series.color))  # fmt: skip
        left = [a + b for a, b in zip(left, values, strict=True)] if chart.stacked and not chart.starts else left
    for i, (start, value) in enumerate(list(zip(chart.starts, _totals(chart), strict=False))[:-1]):
        # Each bar begins where the one before ends.
        axes.plot([start + value] * 2, [i - 0.36, i + 1.36], color="#545d68", linewidth=0.6)
    if chart.log and any(v for s in chart.series for v in s.values):
        axes.set_xscale("log")
    if chart.level is not None:
        axes.axvline(chart.level, color="black", linewidth=1, linestyle="--", label=chart.level_name)
    axes.set_yticks(list(place), chart.categories)
    axes.invert_yaxis()
    axes.set_xlabel(chart.axis)
    axes.grid(visible=False, axis="y")
    _ends(chart, axes)
    _ticks(axes.xaxis, chart.unit)


def _ends(chart: Bars, axes: Axes) -> None:
    """Totals of stacked bars, and what is to be said at each."""
    tips = _tips(chart)
    for i, total in enumerate(_totals(chart)):
        parts = [words(total, chart.unit)] if chart.stacked else []
        parts += [chart.ends[i]] if chart.ends and chart.ends[i] else []
        if parts:
            place = (tips[i], i) if tips[i] or not chart.log else (axes.get_xlim()[0], i)
            axes.annotate(" · ".join(parts), place, (3, 0), textcoords="offset points", va="center", fontsize=7, color="#545d68",
                          annotation_clip=False)  # fmt: skip
    if chart.stacked and not chart.log:
        axes.set_xlim(0, max(tips, default=0) * (1.35 if any(chart.ends) else 1.2) or 1)


def _columns(chart: Bars, axes: Axes) -> None:
    place = list(range(len(chart.categories)))
    bottom = [0.0] * len(place)
    for series in chart.series:
        values = [v or 0 for v in series.values]
        axes.bar(place, values, 1.0, bottom, label=series.name, **_paint(series.color))
        bottom = [a + b for a, b in zip(bottom, values, strict=True)]
    if any(v is not None for v in chart.limit):
        edges = [i - 0.5 for i in range(len(place) + 1)]
        axes.stairs([math.nan if v is None else v for v in chart.limit], edges, baseline=None, color="black", linestyle="--",
                    label=chart.limit_name)  # fmt: skip
    elif chart.limit_name:
        axes.plot([], [], " ", label=chart.limit_name)
    axes.set_xticks(place, chart.categories, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.5, len(place) - 0.5)
    axes.set_ylim(0, axes.get_ylim()[1] * 1.02 or 1)
    axes.set_ylabel(chart.axis)
    axes.grid(visible=False, axis="x")
    _ticks(axes.yaxis, chart.unit)


MARKS = {"circle": "o", "square": "s", "triangle": "^", "cross": "X", "diamond": "D", "right": ">", "small": "."}


def _points(chart: Points, axes: Axes) -> None:
    for line in chart.lines:
        axes.plot(line.xs, line.ys, label=line.name if line.listed else "_", color=colour(line.color)[0], linewidth=1.2,
                  linestyle="--" if line.dashed else "-", zorder=1)  # fmt: skip
    for cloud in chart.clouds:
        hollow, color = cloud.marker == "diamond", colour(cloud.color)[0]
        pairs = sorted(zip(cloud.xs, cloud.ys, strict=True))
        axes.plot(
            [x for x, _ in pairs], [y for _, y in pairs], label=cloud.name, color=color,
            marker=MARKS[cloud.marker], markersize=7 if hollow else 5, markerfacecolor="none" if hollow else color,
            drawstyle="steps-post", linewidth=1, linestyle="-" if cloud.steps else "none", zorder=2 if hollow else 3,
        )  # fmt: skip
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log")
    for note in chart.notes:
        sides = {-1: ("right", "top"), 0: ("center", "center"), 1: ("left", "bottom")}
        axes.annotate(note.text, (note.x, note.y), (5 * note.right, 4 * note.up), textcoords="offset points", fontsize=7,
                      ha=sides[note.right][0], va=sides[note.up][1])  # fmt: skip
    axes.set_xlabel(chart.x_axis)
    axes.set_ylabel(chart.y_axis)
    axes.margins(0.08)
    _ticks(axes.xaxis, chart.x_unit)
    _ticks(axes.yaxis, chart.y_unit)
    if chart.zero_x is not None:
        ticks = [chart.zero_x, *(tick for tick in axes.get_xticks() if tick > 1.5 * chart.zero_x)]
        axes.set_xticks(ticks, [words(0 if tick == chart.zero_x else tick, chart.x_unit) for tick in ticks])


def _heat(chart: Heat, axes: Axes) -> None:
    values = [[math.nan if v is None else v for v in row] for row in chart.values]
    axes.imshow(values, cmap="Blues", vmin=0, vmax=1.25, aspect="auto")
    for r, row in enumerate(chart.values):
        for c, value in enumerate(row):
            if value is not None:
                axes.text(
                    c,
                    r,
                    f"{100 * value:.0f}",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="white" if value > 0.7 else "black",
                )
    axes.set_xticks(range(len(chart.columns)), chart.columns, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(chart.rows)), chart.rows)
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set_visible(False)
