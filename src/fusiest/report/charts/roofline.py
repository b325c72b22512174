"""The roofline: how fast each Einsum runs, under the peaks of the computes and the bandwidth of every memory level.

An Einsum has a point per memory whose bandwidth is limited, at the operations that it does per byte of that memory's
traffic. All of them are at the same height. A point on a slope waits for that memory, one at a flat roof is at the peak.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from fusiest.report.charts.chart import Cloud, Line, Marker, Note, Points
from fusiest.report.charts.placing import placed
from fusiest.report.data.background import Background
from fusiest.report.data.limits import Rate
from fusiest.show import si

MARKERS: tuple[Marker, ...] = ("circle", "square", "triangle", "cross")
MOST_NAMED = 40


def roofline(background: Background, rates: Mapping[str, Rate]) -> Points:
    """Points of this mapping by memory, of the unfused optimum by the outermost memory, and all roofs."""
    outer = background.machine.outermost[0]
    low, edge = _range(background, rates)
    clouds = []
    for memory, marker in zip(_levels(background, rates), itertools.cycle(MARKERS)):
        bandwidth = background.machine.bandwidths[memory]
        speed = f", {si(bandwidth, 'B/s')}" if bandwidth < math.inf else ""
        clouds.append(
            _cloud(f"by {memory} traffic{speed}", background.names.component_color(memory), marker, rates, memory)
        )
    if background.unfused:
        clouds.append(_cloud(f"unfused, by {outer} traffic", "other", "diamond", background.unfused, outer))
    alone = {e: rate for e, rate in rates.items() if rate.speed and not any(rate.intensities.values())}
    if alone:
        ys = [rate.speed or 0 for rate in alone.values()]
        clouds.append(
            Cloud(
                name="without traffic", color="found", marker="right", labels=list(alone), xs=[edge] * len(alone), ys=ys
            )
        )
    clouds = [cloud for cloud in clouds if cloud.xs]
    lines = _roofs(background, rates, low, edge)
    return Points(
        title="Roofline", x_axis="operations per byte of traffic", x_unit="op/B", y_axis="operations per second",
        y_unit="op/s", clouds=clouds, lines=lines, log_x=True, log_y=True, notes=_notes(rates, edge, clouds, lines),
    )  # fmt: skip


def _levels(background: Background, rates: Mapping[str, Rate]) -> list[str]:
    """Memories that have points."""
    return [m for m in background.machine.bandwidths if any(r.intensities.get(m) and r.speed for r in rates.values())]


def _range(background: Background, rates: Mapping[str, Rate]) -> tuple[float, float]:
    """Operations per byte: from below the least to beyond the most, ridges included."""
    all_rates = [*rates.values(), *background.unfused.values()]
    intensities = [x for rate in all_rates for x in rate.intensities.values() if x and rate.speed]
    machine = background.machine
    ridges = [
        p / b for p in machine.peaks.values() for b in machine.bandwidths.values() if p < math.inf and b < math.inf
    ]
    inside = [x for x in (*intensities, *ridges) if 0 < x < math.inf] or [1.0]
    return min(inside) / 3, max(inside) * 4


def _cloud(name: str, color: str, marker: Marker, rates: Mapping[str, Rate], memory: str) -> Cloud:
    shown = {e: rate for e, rate in rates.items() if rate.intensities.get(memory) and rate.speed}
    return Cloud(
        name=name, color=color, marker=marker, labels=[f"{e}, {name}" for e in shown],
        xs=[rate.intensities[memory] or 0 for rate in shown.values()], ys=[rate.speed or 0 for rate in shown.values()],
    )  # fmt: skip


def _roofs(background: Background, rates: Mapping[str, Rate], low: float, edge: float) -> list[Line]:
    """A slope per memory up to the highest peak, and a flat roof per compute from where the fastest memory reaches it."""
    machine, names = background.machine, background.names
    computes = {limit.compute for limit in background.limits.values() if limit.operations}
    peaks = {c: p for c, p in machine.peaks.items() if c in computes and p < math.inf}
    slopes = {m: machine.bandwidths[m] for m in _levels(background, rates) if machine.bandwidths[m] < math.inf}
    top = max(peaks.values(), default=math.inf)
    roofs = []
    for memory, bandwidth in slopes.items():
        end = min(edge, top / bandwidth)
        roofs.append(
            Line(name=f"bandwidth of {memory}", color=names.component_color(memory), xs=[low, end],
                 ys=[bandwidth * low, bandwidth * end], dashed=False, listed=False)
        )  # fmt: skip
    fastest = max(slopes.values(), default=math.inf)
    for compute, peak in peaks.items():
        start, name = max(low, peak / fastest), f"peak of {compute}, {si(peak, 'op/s')}"
        roofs.append(Line(name=name, color=names.component_color(compute), xs=[start, edge], ys=[peak, peak]))
    return roofs


def _notes(rates: Mapping[str, Rate], edge: float, clouds: Sequence[Cloud], lines: Sequence[Line]) -> list[Note]:
    """The Einsums' names, each at its outermost point."""
    places = {}
    for einsum, rate in rates.items():
        if rate.speed:
            places[einsum] = next((x for x in rate.intensities.values() if x), edge), rate.speed
    if len(places) > MOST_NAMED:
        return []
    points = [(x, y) for cloud in clouds for x, y in zip(cloud.xs, cloud.ys, strict=True)]
    return placed(places, points, [((o.xs[0], o.ys[0]), (o.xs[-1], o.ys[-1])) for o in lines])
