"""Costs of a nest as sums of products: every count and footprint is a product of one factor per variable.

A factor depends on the variable's tile chain alone, so costs of all combinations of chains are sums over a few terms. What
each factor counts is exactly what `fusiest.model.accesses` and `fusiest.model.occupancy` count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from fusiest.pmapping.general_chains import COUNTED, FIRST, PAST, Chains
from fusiest.pmapping.general_nest import Held, Skeleton, Slot
from fusiest.pmapping.pareto import Floats
from fusiest.spec.analysis import Access

Factor = tuple[str, str | tuple[int, ...], int]
"""Kind, which query or slots, and coefficient: see `_values`."""
ONE: Factor = ("one", "", 0)
Product = tuple[float, dict[str, Factor]]


def _values(chains: Chains, factor: Factor) -> Floats:
    kind, which, a = factor
    if kind == "one":
        return np.ones(len(chains))
    if isinstance(which, tuple):
        extra = chains.extent(which) - 1
        return (1 + a * extra if kind == "box" else extra).astype(np.float64)
    count, extent = chains.visits(which)
    return {"tiles": count, "boxes": count + a * (extent - count), "extra": extent - count}[kind].astype(np.float64)


@dataclass
class Terms:
    """Terms of all criteria, equal products merged. A criterion is named by any hashable value."""

    variables: tuple[str, ...]
    criteria: dict[Hashable, int] = field(default_factory=dict)
    weights: dict[tuple[Factor, ...], dict[int, float]] = field(default_factory=dict)

    def criterion(self, name: Hashable) -> int:
        return self.criteria.setdefault(name, len(self.criteria))

    def add(self, products: list[Product], weights: Mapping[Hashable, float]) -> None:
        for times, factors in products:
            key = tuple(factors.get(v, ONE) for v in self.variables)
            own = self.weights.setdefault(key, {})
            for name, weight in weights.items():
                index = self.criterion(name)
                own[index] = own.get(index, 0.0) + times * weight

    def matrix(self) -> Floats:
        """Terms × criteria."""
        result = np.zeros((len(self.weights), len(self.criteria)))
        for i, own in enumerate(self.weights.values()):
            for criterion, weight in own.items():
                result[i, criterion] = weight
        return result

    def factor_numbers(self) -> np.ndarray:
        """Terms × variables: which of the variable's factors each term has."""
        numbers: list[dict[Factor, int]] = [{} for _ in self.variables]
        return np.array(
            [[n.setdefault(f, len(n)) for n, f in zip(numbers, key, strict=True)] for key in self.weights], np.int64
        ).reshape(len(self.weights), len(self.variables))

    def values(self, variable: str, chains: Chains) -> Floats:
        """Chains × terms: the factor of each chain in each term."""
        at = self.variables.index(variable)
        distinct = {key[at]: None for key in self.weights}
        found = {factor: _values(chains, factor) for factor in distinct}
        return np.column_stack([found[key[at]] for key in self.weights])


def expand(access: Access, variables: tuple[str, ...], factor: Callable[[str, str, int], Factor]) -> list[Product]:
    """A sum of footprints as products: `factor(v, kind, a)` for v alone in its rank with coefficient a (box), in a rank
    with others (tiles and extra), or in none (tiles)."""
    products: list[Product] = [(1.0, {v: factor(v, "tiles", 0) for v in variables if v not in access.variables})]
    for affine in access.ranks.values():
        terms = {v: abs(a) for v, a in affine.coefficients.items()}
        if len(terms) == 1:
            options: list[Product] = [(1.0, {v: factor(v, "box", a) for v, a in terms.items()})]
        else:
            plain = {v: factor(v, "tiles", 0) for v in terms}
            options = [(1.0, plain), *((a, {**plain, v: factor(v, "extra", 0)}) for v, a in terms.items())]
        products = [(x * y, {**one, **two}) for x, one in products for y, two in options]
    return products


@dataclass(frozen=True)
class Counter:
    """Counts of values moved, as terms of energy and of busy times."""

    skeleton: Skeleton
    slots: Mapping[str, tuple[Slot, ...]]
    busy: tuple[tuple[int, str | None], ...]
    terms: Terms

    def add_all(self) -> None:
        self._compute()
        for tensor in self.skeleton.path.einsum.accesses:
            self._tensor(tensor)

    def _compute(self) -> None:
        path = self.skeleton.path
        level = len(path.components) - 1
        action = path.compute.actions["compute"]
        every = self._visits(lambda slot: COUNTED)
        steps = self._visits(lambda slot: COUNTED if slot.dimension is None else FIRST)
        self.terms.add(every, {"energy": action.actions_scale * action.energy})
        self.terms.add(steps, self._busy(level, "compute", action.actions_scale, action.throughput))

    def _visits(self, what: Callable[[Slot], str]) -> list[Product]:
        queries = {v: "".join(what(slot) for slot in slots) for v, slots in self.slots.items()}
        return [(1.0, {v: ("tiles", query, 0) for v, query in queries.items()})]

    def _busy(self, level: int, action: str, calls: float, throughput: float) -> dict[Hashable, float]:
        found: dict[Hashable, float] = {}
        for i, (component, only) in enumerate(self.busy):
            if component == level and only is None and math.isfinite(throughput):
                found["busy", i] = calls / throughput
            elif component == level and only == action:
                found["busy", i] = calls
        return found

    def _tensor(self, tensor: str) -> None:
        """Reads and writes of every holder and Toll of one tensor."""
        skeleton = self.skeleton
        components = skeleton.path.components
        access = skeleton.path.einsum.accesses[tensor]
        places = skeleton.own(tensor)
        for i, place in enumerate(places):
            holder = skeleton.holder(place, tensor)
            below = places[i + 1] if i + 1 < len(places) else len(skeleton.holders)
            child = skeleton.holders[below].level if i + 1 < len(places) else len(components) - 1
            self._edge(access, holder.level, below, child)
            for _, toll in skeleton.tolls:
                if toll.tensor == tensor and holder.level < toll.level < child:
                    self._edge(access, toll.level, below, child)
            if i:
                own = components[holder.level]
                self._charge(access, holder.level, "write", 1.0, holder.level, place, holder.level, False)
                if access.output:
                    self._charge(access, holder.level, "read", 1.0, holder.level, place, holder.level, False)
                    if own.skip_initial_output_write:
                        self._charge(access, holder.level, "write", -1.0, holder.level, place, holder.level, True)

    def _edge(self, access: Access, at: int, below: int, child: int) -> None:
        """What a holder or Toll at component `at` exchanges with the child holder at place `below`."""
        components = self.skeleton.path.components
        component = components[at]
        direction = component.direction[access.tensor] if component.kind == "toll" else ""
        skips = component.skip_initial_output_write and components[child].skip_initial_output_write
        if direction != "up":
            self._charge(access, at, "read", 1.0, at, below, child, False)
            if access.output and skips:
                self._charge(access, at, "read", -1.0, at, below, child, True)
        if access.output and direction != "down":
            self._charge(access, at, "read" if direction else "write", 1.0, at, below, child, False)

    def _charge(
        self, access: Access, level: int, action: str, sign: float, at: int, below: int, child: int, first: bool
    ) -> None:
        a = self.skeleton.path.components[level].actions[action]
        calls = sign * a.actions_scale / a.values_per_action[access.tensor]
        self.terms.add(self._moved(access, at, below, child, False, first), {"energy": calls * a.energy})
        busy = self._busy(level, action, calls, a.throughput)
        if busy:
            self.terms.add(self._moved(access, at, below, child, True, first), busy)

    def _moved(
        self, access: Access, at: int, below: int, child: int, per_unit: bool, first_pass: bool
    ) -> list[Product]:
        """`fusiest.model.accesses._moved`, between component `at` and a holder at place `below` in component `child`."""
        queries: dict[str, str] = {}
        for v, slots in self.slots.items():
            queries[v] = "".join(self._use(access, v, slot, at, below, child, per_unit, first_pass) for slot in slots)

        def factor(v: str, kind: str, a: int) -> Factor:
            return ("boxes" if kind == "box" else kind), queries[v].rstrip(PAST), a

        return expand(access, self.terms.variables, factor)

    def _use(
        self, access: Access, v: str, slot: Slot, at: int, below: int, child: int, per_unit: bool, first_pass: bool
    ) -> str:
        if slot.dimension is None:
            if slot.gap > below:
                return PAST
            return FIRST if first_pass and v not in access.fully_relevant else COUNTED
        level, d = self.skeleton.dimensions[slot.dimension]
        if level > child:
            return PAST
        once = per_unit if level <= at else v not in access.variables and access.tensor in d.may_reuse
        return FIRST if once else COUNTED


def tile_products(
    skeleton: Skeleton, slots: Mapping[str, tuple[Slot, ...]], holder: Held, place: int, passed: frozenset[str]
) -> list[Product]:
    """Elements that a holder reserves. `passed`: variables whose loop right below it the reservation sinks through."""

    def counts(v: str, slot: Slot) -> bool:
        if slot.dimension is not None:
            return skeleton.dimensions[slot.dimension][0] <= holder.level
        return slot.gap <= place or (slot.gap == place + 1 and v in passed)

    def factor(v: str, kind: str, a: int) -> Factor:
        if kind == "tiles":
            return ONE
        return kind, tuple(i for i, slot in enumerate(slots[v]) if counts(v, slot)), a

    return expand(skeleton.access(holder), tuple(slots), factor)


def reservations(
    skeleton: Skeleton, slots: Mapping[str, tuple[Slot, ...]], passed: Mapping[int, frozenset[str]]
) -> Iterator[tuple[int, Held, list[Product]]]:
    """Per holder: its place (-1 on top) and what it reserves, in bits."""
    info = skeleton.path.einsum
    for place, holder in [*((-1, h) for h in skeleton.top), *enumerate(skeleton.holders)]:
        bits = float(skeleton.path.components[holder.level].bits_per_value[holder.tensor])
        if holder.backing and holder.tensor in info.persistent:
            bits *= info.n_instances
        products = tile_products(skeleton, slots, holder, place, passed.get(place, frozenset()))
        yield place, holder, [(times * bits, factors) for times, factors in products]
