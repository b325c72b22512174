"""What moving a tensor between two of its holders costs, per value moved: the coefficients of the search.

With perfect tiles a child's total traffic with its parent is X = footprint · number of tiles, taken at the child. Every
energy and busy time is then a·X − b·G, where G is the part that an output skips because nothing was there to read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fusiest.errors import SpecError
from fusiest.pmapping.pareto import Floats
from fusiest.pmapping.placement import Placement
from fusiest.pmapping.problem import Problem
from fusiest.pmapping.spatial import SpatialChoice, fanout_levels, reused
from fusiest.spec.binding import BoundComponent


class Busy(NamedTuple):
    """A column of time that a component is busy; or, for a `total_latency` of its own kind, of calls."""

    component: int
    action: str | None
    """None: all actions, one after the other."""
    counts: bool

    def amount(self, component: int, action: str, calls: float, throughput: float) -> float:
        """What calls of one component add to this column."""
        if component != self.component or self.action not in (None, action):
            return 0.0
        return calls if self.counts else calls / throughput


@dataclass(frozen=True)
class Columns:
    """The criteria of a row: dynamic energy, busy times, leakage, traffic still unpaid, and bits per memory."""

    busy: tuple[Busy, ...]
    """One column per component, or per action where `total_latency` needs them apart."""
    carried: tuple[int, ...]
    """Tensors whose traffic across the outermost fanout is paid when the fanout is crossed."""
    bits: tuple[int, ...]
    """Memories of limited size."""

    @property
    def first_carried(self) -> int:
        return 2 + len(self.busy)

    @property
    def first_bits(self) -> int:
        return self.first_carried + len(self.carried)

    @property
    def count(self) -> int:
        return self.first_bits + len(self.bits)

    def carried_column(self, tensor: int) -> int | None:
        return self.first_carried + self.carried.index(tensor) if tensor in self.carried else None

    def bits_column(self, memory: int) -> int | None:
        return self.first_bits + self.bits.index(memory) if memory in self.bits else None


ENERGY, WATTS = 0, 1
_SEPARATE_PORTS = "max(a.n_calls/a.throughputforainactions)"


def busy_columns(problem: Problem) -> tuple[Busy, ...]:
    """Components that can be a bottleneck."""
    found: list[Busy] = []
    for index, component in enumerate(problem.path.components):
        if component.kind == "container":
            continue
        finite = [name for name, action in component.actions.items() if math.isfinite(action.throughput)]
        if component.total_latency is None:
            found += [Busy(index, None, False)] if finite else []
        elif "".join(component.total_latency.split()) == _SEPARATE_PORTS:
            found += [Busy(index, action, False) for action in finite]
        else:
            found += [Busy(index, action, True) for action in component.actions]
    return tuple(found)


def limited_memories(problem: Problem) -> tuple[int, ...]:
    return tuple(i for i, c in enumerate(problem.path.components) if c.kind == "memory" and math.isfinite(c.size))


@dataclass(frozen=True)
class EdgeCost:
    """Cost per value of X and of G, over the columns; apart for what lies inside the outermost fanout and outside."""

    inside: Floats
    outside: Floats
    skipped_inside: Floats
    skipped_outside: Floats


class Costs:
    """Coefficients for one placement and one choice of all but the outermost fanout's Spatial loops."""

    def __init__(self, problem: Problem, placement: Placement, columns: Columns, fixed: SpatialChoice) -> None:
        self.problem, self.placement, self.columns, self.fixed = problem, placement, columns, fixed
        levels = fanout_levels(problem)
        self.outermost = levels[0] if levels else len(problem.path.components)
        self.inner_levels = levels[1:]

    def factors(self, tensor: int, level: int) -> tuple[int, int, int]:
        """At one fanout: all factors, those over variables that do not index the tensor, those reused."""
        return spatial_factors(self.problem, self.fixed, tensor, level)

    def edge(self, tensor: int, child: int, parent: int) -> EdgeCost:
        """A holder (or compute) at component `child` exchanging a tensor with its holder at component `parent`."""
        t = self.problem.tensors[tensor]
        components = self.problem.path.components
        count = self.columns.count
        moved = {True: np.zeros(count), False: np.zeros(count)}
        skipped = {True: np.zeros(count), False: np.zeros(count)}
        copies = math.prod(self.factors(tensor, k)[1] for k in self.inner_levels if k <= child)

        def charge(at: int, action: str, per_x: float, per_g: float) -> None:
            inside = at >= self.outermost
            self._charge(moved[inside], at, action, t.name, per_x)
            self._charge(skipped[inside], at, action, t.name, per_g)

        out = 1.0 if t.output else 0.0
        child_skips = out if components[child].skip_initial_output_write else 0.0
        if components[child].kind == "memory":
            charge(child, "write", 1.0, child_skips * copies)
            charge(child, "read", out, 0.0)
        for at in [*self.placement.tolls(t.name, self.problem.path), parent]:
            if not parent <= at < child:
                continue
            shared = math.prod(self.factors(tensor, k)[2] for k in self.inner_levels if at < k <= child)
            skips = child_skips if components[at].skip_initial_output_write else 0.0
            if components[at].kind == "toll":
                direction = components[at].direction[t.name]
                if direction != "up":
                    charge(at, "read", 1.0 / shared, skips * copies / shared)
                if direction != "down":
                    charge(at, "read", out / shared, 0.0)
            else:
                charge(at, "read", 1.0 / shared, skips * copies / shared)
                charge(at, "write", out / shared, 0.0)
        return EdgeCost(moved[True], moved[False], skipped[True], skipped[False])

    def _charge(self, into: Floats, at: int, action: str, tensor: str, count: float) -> None:
        a = self.problem.path.components[at].actions[action]
        actions = count * a.actions_scale / a.values_per_action[tensor]
        into[ENERGY] += actions * a.energy
        units = math.prod(math.prod(self.fixed.total(k)) for k in self.inner_levels if k <= at)
        for column, busy in enumerate(self.columns.busy, start=2):
            into[column] += busy.amount(at, action, actions / units, a.throughput)


def spatial_factors(problem: Problem, choice: SpatialChoice, tensor: int, level: int) -> tuple[int, int, int]:
    total = choice.total(level)
    apart = math.prod(f for v, f in enumerate(total) if v not in problem.tensors[tensor].relevant)
    return math.prod(total), apart, reused(problem, choice, tensor, level)


def finish(problem: Problem, columns: Columns, criteria: Floats) -> tuple[Floats, Floats]:
    """Total energy and latency of complete rows, `n_instances` included."""
    latency = np.zeros(len(criteria))
    calls: dict[int, dict[str, Floats]] = {}
    for column, busy in enumerate(columns.busy, start=2):
        if not busy.counts:
            np.maximum(latency, criteria[:, column], out=latency)
        elif busy.action is not None:
            calls.setdefault(busy.component, {})[busy.action] = criteria[:, column]
    for index, own in calls.items():
        np.maximum(latency, expression_latency(problem.path.components[index], own), out=latency)
    instances = problem.info.n_instances
    energy = criteria[:, ENERGY] + criteria[:, WATTS] * latency
    return energy * instances, latency * instances


def expression_latency(component: BoundComponent, calls: Mapping[str, Floats]) -> Floats:
    """A component's `total_latency` over arrays of calls."""
    assert component.total_latency is not None
    result: Floats = np.asarray(component.evaluate_latency(calls), np.float64)
    if not (result >= 0).all():
        raise SpecError(f"total_latency of {component.name} is negative for some mappings", component.total_latency)
    return result
