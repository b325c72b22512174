"""A graph drawn with Matplotlib, where its layout says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fusiest.report.charts.chart import ChartBox, Graph
from fusiest.report.charts.layout import Arrangement
from fusiest.report.charts.palette import colour, ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PIXEL = 0.0088
"""Inches of a pixel of a graph's layout."""
ROOM = 860
"""Pixels in a row of a graph."""


def draw_graph(chart: Graph, arrangement: Arrangement, axes: Axes) -> None:
    """Edges with arrowheads, thick and in colour where they stay on chip, and boxes in the colours of their sets."""
    for edge, points in sorted(zip(chart.edges, arrangement.edges, strict=True), key=lambda pair: pair[0].strong):
        color = colour(edge.color)[0] if edge.strong else "#545d68"
        axes.plot([x for x, _ in points], [y for _, y in points], color=color, linewidth=1.7 if edge.strong else 0.8,
                  linestyle="-" if edge.strong else ":", solid_joinstyle="round", zorder=2 if edge.strong else 1)  # fmt: skip
        head = {
            "arrowstyle": "-|>,head_width=0.28,head_length=0.6",
            "color": color,
            "linewidth": 0.1,
            "mutation_scale": 9,
        }
        axes.annotate("", points[-1], points[-2], arrowprops={**head, "shrinkA": 0, "shrinkB": 0}, zorder=2)
    for box, place in zip(chart.boxes, arrangement.boxes, strict=True):
        _box(box, place, axes)
    for name, label, shape in chart.legend:
        if shape:
            width, style = (1.7, "-") if shape == "line" else (0.8, ":")
            axes.plot([], [], color="#545d68", linewidth=width, linestyle=style, label=label)
        else:
            axes.scatter([], [], marker="s", color=colour(name)[0], label=label)
    axes.set_xlim(0, arrangement.width)
    axes.set_ylim(arrangement.height, -8)
    axes.set_aspect("equal")
    axes.axis("off")


def _box(box: ChartBox, place: tuple[float, float, float, float], axes: Axes) -> None:
    from matplotlib.patches import FancyBboxPatch

    x, y, width, height = place
    plain = box.color == "other"
    color = "#b6bec8" if plain else colour(box.color)[0]
    tint = {"facecolor": color, "edgecolor": "none", "alpha": 0 if plain else 0.14}
    looks = (
        {"facecolor": "white", "edgecolor": "none"},
        tint,
        {"facecolor": "none", "edgecolor": color, "linewidth": 1.4},
    )
    for look in looks:
        axes.add_patch(FancyBboxPatch((x, y), width, height, "round,pad=0,rounding_size=6", zorder=3, **look))
    middle = x + width / 2
    text: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 4}
    axes.text(middle, y + (12 if box.note else 14), box.name, fontsize=7.5, fontweight="bold", **text)
    axes.text(middle, y + 27, box.note, fontsize=6, color="#545d68", **text)
    if box.tag:
        sign = {"facecolor": color, "edgecolor": "none", "boxstyle": "round,pad=0.2"}
        axes.text(x, y, box.tag, fontsize=5.5, fontweight="bold", color=ink(color), bbox=sign, **text)
