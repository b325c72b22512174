"""The roofline: how fast each Einsum runs, and how fast its computes and the outermost memory would let it run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from fusiest.report.chart import Cloud, Line, Points
from fusiest.report.limits import Limit, Rate, outermost
from fusiest.report.names import Names


def roofline(names: Names, own: Mapping[str, Rate], limit: Mapping[str, Limit], unfused: Mapping[str, Rate]) -> Points:
    """A point per Einsum and a roof per compute. Einsums that leave the outermost memory alone stand at the right edge."""
    memory = outermost(names.spec)[0]
    known = [rate.intensity for rate in (*own.values(), *unfused.values()) if rate.intensity]
    ridges = [x.peak / (x.bandwidth / 8) for x in limit.values() if x.operations and x.bandwidth < math.inf]
    inside = [x for x in (*known, *ridges) if 0 < x < math.inf] or [1.0]
    low, edge = min(inside) / 3, max(inside) * 4
    clouds = [_cloud("this mapping", "found", "circle", own)]
    if unfused:
        clouds.append(_cloud("unfused optimum", "other", "diamond", unfused))
    alone = {e: rate for e, rate in own.items() if rate.speed and not rate.intensity}
    if alone:
        clouds.append(
            Cloud(name=f"this mapping, without {memory} traffic", color="found", marker="triangle", labels=list(alone),
                  xs=[edge] * len(alone), ys=[rate.speed or 0 for rate in alone.values()])
        )  # fmt: skip
    return Points(
        title="Roofline", x_axis=f"operations per byte of {memory} traffic", x_unit="op/B", y_axis="operations per second",
        y_unit="op/s", clouds=[cloud for cloud in clouds if cloud.xs], lines=_roofs(limit, low, edge), log=True,
    )  # fmt: skip


def _cloud(name: str, color: str, marker: Literal["circle", "diamond"], rates: Mapping[str, Rate]) -> Cloud:
    shown = {e: rate for e, rate in rates.items() if rate.intensity and rate.speed}
    return Cloud(
        name=name, color=color, marker=marker, labels=[f"{e}, {name}" for e in shown],
        xs=[rate.intensity or 0 for rate in shown.values()], ys=[rate.speed or 0 for rate in shown.values()],
    )  # fmt: skip


def _roofs(limit: Mapping[str, Limit], low: float, edge: float) -> list[Line]:
    """Up with the memory's bandwidth, then flat at the compute's peak."""
    roofs: dict[str, Line] = {}
    for x in limit.values():
        if x.operations and x.peak < math.inf and x.compute not in roofs:
            slope = x.bandwidth / 8
            xs = [low, *([x.peak / slope] if low < x.peak / slope < edge else []), edge]
            roofs[x.compute] = Line(name=f"limit of {x.compute}", xs=xs, ys=[min(x.peak, slope * at) for at in xs])
    return list(roofs.values())
