"""What was found, as points: energy against latency, or, if a memory's usage was an objective, cost against capacity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from fusiest.base.objective import OBJECTIVES, cost_of
from fusiest.mapper import Mapping, Result
from fusiest.report.charts.chart import Cloud, Marker, Points


def front_charts(result: Result, unfused: Result | None) -> dict[str, Points]:
    """By the names that they have in the page and as files."""
    if result.options.usage is None:
        return {"front": front(result, unfused)}
    costs = result.objective
    return {"front" if len(costs) == 1 else f"front-{cost}": capacity(result, unfused, cost) for cost in costs}


def front(result: Result, unfused: Result | None) -> Points:
    """Energy and latency of everything that was found, and of the unfused optimum."""
    clouds = [_cloud(result, mapping_name(result), "circle", lambda m: m.latency, lambda m: m.energy)]
    if unfused is not None:
        clouds.append(_cloud(unfused, "unfused optimum", "diamond", lambda m: m.latency, lambda m: m.energy))
    return Points(title="Energy and latency", x_axis="latency", x_unit="s", y_axis="energy", y_unit="J", clouds=clouds)


def mapping_name(result: Result) -> str:
    return "optimal mapping" if result.optimal else "mapping"


def _cloud(
    result: Result, name: str, marker: Marker, x: Callable[[Mapping], float], y: Callable[[Mapping], float]
) -> Cloud:
    mappings = result.mappings
    return Cloud(
        name=name, color="found" if marker == "circle" else "other", marker=marker, steps=True,
        xs=[x(m) for m in mappings], ys=[y(m) for m in mappings], numbers=list(range(len(mappings))) if marker == "circle" else (),
        labels=[f"{name} {i}" if len(mappings) > 1 else name for i in range(1, len(mappings) + 1)],
    )  # fmt: skip


def used_bytes(mapping: Mapping, memory: str) -> float:
    """What a mapping needs of a memory, per instance."""
    return mapping.evaluation.peak_occupancy_bits.get(memory, 0) / 8


def capacity(result: Result, unfused: Result | None, cost: str) -> Points:
    """A cost against what it takes of the memory: steps through the least that is possible with each size of it."""
    memory, objective = result.options.usage, OBJECTIVES[cost]
    assert memory is not None
    slopes = [_Slope(result, memory, cost)] + ([_Slope(unfused, memory, cost)] if unfused is not None else [])
    sizes = [size for slope in slopes for size in slope.used_bytes]
    zero = None if all(sizes) else min((size for size in sizes if size), default=1.0) / 4
    clouds = [slopes[0].cloud(f"least {objective.title} for its capacity", "circle", slopes[0].best, zero)]
    others = [i for i in range(len(result.mappings)) if i not in set(slopes[0].best)]
    if others:
        name = "other optimal mappings" if result.optimal else "other mappings"
        clouds.append(slopes[0].cloud(name, "small", others, zero))
    if unfused is not None:
        clouds.append(slopes[1].cloud("unfused optimum", "diamond", slopes[1].best, zero))
    values = [y for cloud in clouds for y in cloud.ys if y > 0]
    return Points(
        title=f"{objective.title.capitalize()} against the capacity of {memory}", x_axis=f"capacity of {memory}", x_unit="B",
        y_axis=objective.title, y_unit=objective.unit, clouds=clouds, log_x=True, zero_x=zero,
        log_y=bool(values) and max(values) > 10 * min(values) and all(y for cloud in clouds for y in cloud.ys),
    )  # fmt: skip


@dataclass(frozen=True)
class _Slope:
    """What the mappings of a result need of a memory, and what they cost."""

    result: Result
    memory: str
    cost: str

    @cached_property
    def used_bytes(self) -> list[float]:
        return [used_bytes(m, self.memory) for m in self.result.mappings]

    @cached_property
    def values(self) -> list[float]:
        return [cost_of(m, self.cost) for m in self.result.mappings]

    @cached_property
    def best(self) -> list[int]:
        """Mappings that cost less than all that need no more, the smallest first."""
        numbers: list[int] = []
        for i in sorted(range(len(self.used_bytes)), key=lambda i: (self.used_bytes[i], self.values[i])):
            if not numbers or self.values[i] < self.values[numbers[-1]]:
                numbers.append(i)
        return numbers

    def cloud(self, name: str, marker: Marker, chosen: list[int], zero: float | None) -> Cloud:
        ours = marker != "diamond"
        return Cloud(
            name=name, color="found" if ours else "other", marker=marker, steps=marker != "small",
            xs=[self.used_bytes[i] or zero or 0 for i in chosen], ys=[self.values[i] for i in chosen],
            labels=[f"{'mapping' if ours else name} {i + 1}" for i in chosen], numbers=chosen if ours else (),
        )  # fmt: skip
