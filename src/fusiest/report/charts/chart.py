"""Charts as plain data: what is drawn, not how. The page draws them with Plotly, `figures` with Matplotlib for papers.

A colour is a palette and a number, such as `weight:3`, so that a tensor looks the same in every chart and theme.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

ChartNumber: TypeAlias = int | float | None
"""None where there is nothing to draw."""
Marker: TypeAlias = Literal["circle", "square", "triangle", "cross", "diamond", "right", "small"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Numbers of one colour, one per category of the chart."""

    name: str
    color: str
    values: Sequence[ChartNumber]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Bars per category, stacked or beside each other. `ends` are texts at the bars' ends, `limit` a line per category."""

    title: str
    axis: str
    unit: str
    categories: Sequence[str]
    series: Sequence[Series]
    ends: Sequence[str] = ()
    limit: Sequence[ChartNumber] = ()
    limit_name: str = ""
    """What the line is; without a line, what it would be."""
    widths: Sequence[float] = ()
    """Widths of vertical bars in seconds, if they are to be as wide as what they stand for takes."""
    level: ChartNumber = None
    """A line across all bars, at this value."""
    level_name: str = ""
    starts: Sequence[float] = ()
    """Where each bar of a waterfall begins; a negative value goes back from there."""
    stacked: bool = True
    vertical: bool = False
    log: bool = False
    kind: Literal["bars"] = "bars"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """Points of one colour, each with its own name."""

    name: str
    color: str
    xs: Sequence[float]
    ys: Sequence[float]
    labels: Sequence[str]
    marker: Marker = "circle"
    """A diamond is drawn hollow and below the others; `right` says that the point is further to the right."""
    steps: bool = False
    """Whether a line of steps goes through them, as through a front."""
    numbers: Sequence[int] = ()
    """Numbers of the mappings that the points stand for, if they can be chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line for orientation."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    color: str = "other"
    dashed: bool = True
    listed: bool = True
    """Whether the legend has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A text beside a point: to the right (1), to the left (-1) or at it (0), and so upwards."""

    x: float
    y: float
    text: str
    right: int
    up: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Clouds of points in a plane, on linear or logarithmic axes."""

    title: str
    x_axis: str
    x_unit: str
    y_axis: str
    y_unit: str
    clouds: Sequence[Cloud]
    lines: Sequence[Line] = ()
    notes: Sequence[Note] = ()
    log_x: bool = False
    log_y: bool = False
    zero_x: ChartNumber = None
    """What stands for 0 on a logarithmic axis, if need be."""
    kind: Literal["points"] = "points"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """A table of shares between 0 and 1, shaded."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[ChartNumber]]
    """Per row, per column."""
    kind: Literal["heat"] = "heat"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartBox:
    """A node of a graph: its name, a note below it, and what is said when one points at it."""

    name: str
    note: str
    color: str
    hover: str
    tag: str = ""
    """A short sign at its corner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """From one box to another, by their numbers; `strong` ones are drawn thick and in colour."""

    name: str
    source: int
    target: int
    color: str
    strong: bool
    hover: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Boxes and the edges between them. Where they go is worked out where they are drawn."""

    title: str
    boxes: Sequence[ChartBox]
    edges: Sequence[Edge]
    legend: Sequence[tuple[str, str, str]] = ()
    """Colour, what it stands for, and `line` or `dash` if it is an edge's."""
    kind: Literal["graph"] = "graph"


Chart: TypeAlias = Bars | Points | Heat | Graph


def is_empty(chart: Chart) -> bool:
    """Whether there is nothing to see: no bar of any length, no point, no cell, no box."""
    if isinstance(chart, Bars):
        return not any(value for series in chart.series for value in series.values)
    if isinstance(chart, Points):
        return not any(cloud.xs for cloud in chart.clouds)
    return not (chart.columns if isinstance(chart, Heat) else chart.boxes)
