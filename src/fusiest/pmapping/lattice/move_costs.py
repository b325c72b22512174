"""Costs of moving a tensor, per value moved: charges, and from them the weights of the search over tile shapes.

With perfect tiles a child's total traffic with its parent depends on the tile shape at the child alone (proof 1). So
every energy and busy time is a sum of amounts (traffic, and the part of it that is an output's first pass, which is
skipped) times weights. Below a fanout some of these are open: how traffic is shared across the fanout, and how many
first passes there are. They are carried as criteria of their own up to the fanout.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fusiest.base.errors import SpecError
from fusiest.pmapping.lattice.tile_problem import FIRST, FOOTPRINT, TRAFFIC, Problem
from fusiest.pmapping.nest.rules import HolderSource
from fusiest.pmapping.pareto import Floats
from fusiest.spec import LARGEST, BoundComponent, parse_expression


class Busy(NamedTuple):
    """A column of a component's busy time; or of calls, for a `total_latency` of its own kind."""

    component: int
    action: str | None
    """The action that it counts. None: all actions, one after the other."""
    counts: bool
    """Whether the column counts calls."""

    def amount(self, component: int, action: str, calls: float, throughput: float) -> float:
        """The share of this column that calls of one component add."""
        if component != self.component or self.action not in (None, action):
            return 0.0
        return calls if self.counts else calls / throughput


Leakage = Callable[[Mapping[tuple[str, str], int]], float]
"""Watts of the whole architecture, given the instances in use of gated dimensions (component, name)."""
ENERGY, BUSY = 0, 1
_SEPARATE_PORTS = parse_expression("max(a.n_calls / a.throughput for a in actions)")


def has_separate_ports(total_latency: str) -> bool:
    """Whether a component is as slow as its slowest action, however that is spelled: each action then has its own time.

    >>> has_separate_ports("max((x.n_calls/x.throughput) for x in actions)"), has_separate_ports("max(a.n_calls for a in actions)")
    (True, False)
    """
    tree = parse_expression(total_latency)
    match tree:
        case ast.Call(args=[ast.GeneratorExp(generators=[ast.comprehension(target=ast.Name(id=name))])]):
            return ast.dump(tree).replace(f"Name(id='{name}'", "Name(id='a'") == ast.dump(_SEPARATE_PORTS)
    return False


@dataclass(frozen=True)
class Columns:
    """The criteria of a row: dynamic energy, busy times, amounts that are open below a fanout, and bits per memory."""

    busy: tuple[Busy, ...]
    """One column per component, or per action where `total_latency` needs them apart."""
    carried: int
    """Number of tensors whose traffic is carried up to a fanout; 0 without fanouts."""
    bits: tuple[int, ...]
    """Memories of limited size."""
    rates: frozenset[str] = frozenset()
    """Components whose calls stay apart to the end: their throughputs are open."""

    @cached_property
    def time(self) -> int:
        """Time of the busiest of all components whose busy time is complete."""
        return BUSY + len(self.busy)

    @cached_property
    def credit(self) -> int:
        """Energy and busy times that first passes save (as negative numbers), per first pass: they multiply at fanouts."""
        return self.time + 1

    @cached_property
    def traffic(self) -> int:
        """Traffic of each tensor that is still unpaid."""
        return self.credit + (1 + len(self.busy) if self.carried else 0)

    @cached_property
    def first(self) -> int:
        """The output's first pass, of traffic that is still unpaid; as a negative number."""
        return self.traffic + self.carried

    @cached_property
    def first_bits(self) -> int:
        return self.first + (1 if self.carried else 0)

    @cached_property
    def count(self) -> int:
        return self.first_bits + len(self.bits)

    def bits_column(self, memory: int) -> int | None:
        return self.first_bits + self.bits.index(memory) if memory in self.bits else None


def make_columns(problem: Problem, rates: frozenset[str] = frozenset()) -> Columns:
    """Choose the criteria of the search; a component that can never be the slowest has none.

    `rates`: whose throughputs are open.
    """
    components = problem.path.components
    limited = (i for i, c in enumerate(components) if c.kind == "memory" and math.isfinite(c.size))
    fanouts = any(c.dimensions for c in components)
    return Columns(busy_columns(problem, rates), len(problem.tensors) if fanouts else 0, tuple(limited), rates)


def busy_columns(problem: Problem, rates: frozenset[str] = frozenset()) -> tuple[Busy, ...]:
    """Components that can be a bottleneck."""
    columns: list[Busy] = []
    for index, component in enumerate(problem.path.components):
        if component.kind == "container":
            continue
        finite = [name for name, action in component.actions.items() if math.isfinite(action.throughput)]
        if component.name in rates:
            columns += [Busy(index, action, True) for action in component.actions]
        elif component.total_latency is None:
            columns += [Busy(index, None, False)] if finite else []
        elif has_separate_ports(component.total_latency):
            columns += [Busy(index, action, False) for action in finite]
        else:
            columns += [Busy(index, action, True) for action in component.actions]
    return tuple(columns)


class PaidAction(NamedTuple):
    """An action that a component pays for each value that moves."""

    action: str
    skipped: bool = False
    """Whether it is instead saved, on an output's first pass."""

    def calls(self, component: BoundComponent, tensor: str) -> float:
        """Calls of the action per value; negative for a skipped one."""
        action = component.actions[self.action]
        return (-1.0 if self.skipped else 1.0) * action.actions_scale / action.values_per_action[tensor]


def fill_charges(memory: BoundComponent, output: bool) -> Iterator[PaidAction]:
    """Actions that a storage node pays per value that it gets from further out and, for an output, gives back."""
    yield PaidAction("write")
    if output:
        yield PaidAction("read")
        if memory.skip_initial_output_write:
            yield PaidAction("write", skipped=True)


def exchange_charges(component: BoundComponent, tensor: str, output: bool, skips: bool) -> Iterator[PaidAction]:
    """What a holder or Toll pays per value that it exchanges with the next holder further in. `skips`: an output's first pass does
    not come from further out."""
    direction = component.direction[tensor] if component.kind == "toll" else ""
    if direction != "up":
        yield PaidAction("read")
        if output and skips:
            yield PaidAction("read", skipped=True)
    if output and direction != "down":
        yield PaidAction("read" if direction else "write")


@dataclass(frozen=True)
class Costs:
    """Weights per amount (rows, as in `Problem.amounts`) and criterion."""

    problem: Problem
    columns: Columns
    _known: dict[object, Floats] = field(default_factory=dict)

    def filled(self, tensor: int, memory: int) -> Floats:
        """Weights of filling (and draining) a memory with tiles of a tensor, and of the space for one tile."""
        key = tensor, memory
        if key not in self._known:
            self._known[key] = self._filled(tensor, memory)
        return self._known[key].copy()

    def fetched(self, tensor: int, skips: bool, source: HolderSource) -> Floats:
        """What the holder further out and the Tolls on the way pay. `skips`: the child skips an output's first pass."""
        key = tensor, skips and source.skips, source.stations
        if key not in self._known:
            self._known[key] = self._fetched(*key)
        return self._known[key]

    def _filled(self, tensor: int, memory: int) -> Floats:
        weights = np.zeros((3, self.columns.count))
        t = self.problem.tensors[tensor]
        component = self.problem.path.components[memory]
        for charge in fill_charges(component, t.output):
            self._charge(weights, memory, t.name, charge)
        column = self.columns.bits_column(memory)
        if column is not None:
            weights[FOOTPRINT, column] = component.bits_per_value[t.name]
        return weights

    def _fetched(self, tensor: int, skips: bool, stations: tuple[int, ...]) -> Floats:
        weights = np.zeros((3, self.columns.count))
        t = self.problem.tensors[tensor]
        for at in stations:
            for charge in exchange_charges(self.problem.path.components[at], t.name, t.output, skips):
                self._charge(weights, at, t.name, charge)
        return weights

    def carried(self, tensor: int, skips: bool) -> Floats:
        """Weights of traffic to be paid at the next fanout."""
        weights = np.zeros((3, self.columns.count))
        weights[TRAFFIC, self.columns.traffic + tensor] = 1.0
        if self.problem.tensors[tensor].output and skips:
            weights[FIRST, self.columns.first] = -1.0
        return weights

    def credit(self, component: int) -> int:
        """Column offset of first passes at a component: apart, if a fanout further out multiplies them."""
        inside = any(c.dimensions for c in self.problem.path.components[: component + 1])
        return self.columns.credit if inside else 0

    def _charge(self, weights: Floats, at: int, tensor: str, charge: PaidAction) -> None:
        component = self.problem.path.components[at]
        a, calls = component.actions[charge.action], charge.calls(component, tensor)
        into, offset = (weights[FIRST], self.credit(at)) if charge.skipped else (weights[TRAFFIC], 0)
        into[offset + ENERGY] += calls * a.energy
        for column, busy in enumerate(self.columns.busy, start=offset + BUSY):
            into[column] += busy.amount(at, charge.action, calls, a.throughput)


def finish(problem: Problem, columns: Columns, criteria: Floats, watts: float | Floats) -> tuple[Floats, Floats]:
    """Total energy and latency of complete rows, `n_instances` included, but for components whose calls stay apart."""
    latency = criteria[:, columns.time].copy()
    calls: dict[int, dict[str, Floats]] = {}
    for column, busy in enumerate(columns.busy, start=BUSY):
        if not busy.counts:
            np.maximum(latency, criteria[:, column], out=latency)
        elif busy.action is not None and problem.path.components[busy.component].name not in columns.rates:
            calls.setdefault(busy.component, {})[busy.action] = criteria[:, column]
    for index, counts in calls.items():
        np.maximum(latency, expression_latency(problem.path.components[index], counts), out=latency)
    instances = problem.info.n_instances
    energy = criteria[:, ENERGY] + watts * latency
    return energy * instances, latency * instances


def expression_latency(component: BoundComponent, calls: Mapping[str, Floats]) -> Floats:
    """A component's `total_latency` over arrays of calls."""
    assert component.total_latency is not None
    with np.errstate(all="ignore"):  # what is no number is refused below
        result: Floats = np.asarray(component.evaluate_latency(calls), np.float64)
    if not ((result >= 0) & (result <= LARGEST)).all():
        wrong = "negative, or no number," if (result < 0).any() or np.isnan(result).any() else f"more than {LARGEST:g}"
        raise SpecError(f"total_latency of {component.name} is {wrong} for some mappings", component.total_latency)
    return result
