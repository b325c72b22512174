"""Costs of a nest as sums of products: every count and footprint is a product of one factor per variable.

A factor depends on the variable's tile chain alone, so costs of all combinations of chains are sums over a few terms.
Factors count exactly as `fusiest.model.accesses` and `fusiest.model.occupancy` do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fusiest.pmapping.chains.skeleton import Skeleton, Slot
from fusiest.pmapping.chains.tile_chains import COUNTED, FIRST, PAST, Chains
from fusiest.pmapping.lattice.move_costs import Busy, PaidAction, exchange_charges, fill_charges
from fusiest.pmapping.nest.rules import HeldTensor, Nest
from fusiest.pmapping.pareto import Floats
from fusiest.spec import Access

Which = str | tuple[int, ...]
"""A query of `Chains.visits`, or slots of `Chains.extent`."""
TermFactor = tuple[str, Which, int]
"""Kind, query or slots, and coefficient: see `factor_values`."""
ONE: TermFactor = ("one", "", 0)
Product = tuple[float, tuple[TermFactor, ...]]
"""A number times one factor per variable."""


def factor_values(chains: Chains, factor: TermFactor) -> Floats:
    """The factor of every chain."""
    kind, which, a = factor
    if kind == "one":
        return np.ones(len(chains))
    if isinstance(which, tuple):
        extra = chains.extent(which) - 1
        return (1 + a * extra if kind == "box" else extra).astype(np.float64)
    count, extent = chains.visits(which)
    values = {
        "tiles": count, "box": count + a * (extent - count), "extra": extent - count, "cover": extent
    }  # fmt: skip
    return values[kind].astype(np.float64)


@dataclass
class Terms:
    """Terms of all criteria, equal products merged. A criterion is named by any hashable value."""

    variables: tuple[str, ...]
    criteria: dict[Hashable, int] = field(default_factory=dict)
    weights: dict[tuple[TermFactor, ...], dict[int, float]] = field(default_factory=dict)
    skipped: dict[tuple[TermFactor, ...], set[tuple[TermFactor, ...]]] = field(default_factory=dict)
    """Products that are subtracted, each with the products that it is a part of: no factor of it is larger."""

    def criterion(self, name: Hashable) -> int:
        return self.criteria.setdefault(name, len(self.criteria))

    def add(self, products: list[Product], weights: Mapping[Hashable, float]) -> None:
        for times, key in products:
            term = self.weights.setdefault(key, {})
            for name, weight in weights.items():
                index = self.criterion(name)
                term[index] = term.get(index, 0.0) + times * weight

    def matrix(self) -> Floats:
        """Terms × criteria."""
        result = np.zeros((len(self.weights), len(self.criteria)))
        for i, term in enumerate(self.weights.values()):
            for criterion, weight in term.items():
                result[i, criterion] = weight
        return result

    def factor_numbers(self) -> np.ndarray:
        """Terms × variables: the number of each variable's factor."""
        numbers: list[dict[TermFactor, int]] = [{} for _ in self.variables]
        return np.array(
            [[n.setdefault(f, len(n)) for n, f in zip(numbers, key, strict=True)] for key in self.weights], np.int64
        ).reshape(len(self.weights), len(self.variables))

    def parts(self) -> dict[int, list[int]]:
        """`skipped`, by number of term."""
        number = {key: i for i, key in enumerate(self.weights)}
        return {number[key]: [number[of] for of in wholes] for key, wholes in self.skipped.items()}


@dataclass(frozen=True)
class Footprints:
    """Sums of footprints as products, each made once."""

    nest: Nest
    known: dict[object, list[Product]] = field(default_factory=dict)

    @cached_property
    def variables(self) -> tuple[str, ...]:
        return tuple(self.nest.path.einsum.bounds)

    def products(self, tensor: int, which: tuple[Which, ...], whole: bool = False) -> list[Product]:
        """Sum of footprints of a tensor. `which`, per variable: a query for all tiles, or slots for one tile.

        `whole`: of all tiles together, each element once, as `model.elements` says.
        """
        key = tensor, which, whole
        if key not in self.known:
            self.known[key] = self._products(tensor, dict(zip(self.variables, which, strict=True)), whole)
        return self.known[key]

    def _products(self, tensor: int, which: Mapping[str, Which], whole: bool) -> list[Product]:
        """Per variable: alone in its rank with coefficient a (box), with others (tiles and extra), in none (tiles)."""

        def tiles(v: str) -> TermFactor:
            return ONE if whole or isinstance(which[v], tuple) else ("tiles", which[v], 0)

        products: list[tuple[float, dict[str, TermFactor]]] = [(1.0, {v: tiles(v) for v in self.variables})]
        info = self.nest.path.einsum
        for affine in info.accesses[self.nest.names[tensor]].ranks.values():
            rank = {v: abs(a) for v, a in affine.coefficients.items()}
            options: list[tuple[float, dict[str, TermFactor]]] = [(1.0, {})]
            if len(rank) == 1:
                options = [
                    (1.0, {v: ("cover", which[v], 0) if whole else ("box", which[v], a) for v, a in rank.items()})
                ]
            elif whole:  # no loop over one of several variables stands above a backing holder: all of each is there
                options = [(float(affine.positions(info.bounds)), {})]
            else:
                options += [(float(a), {v: ("extra", which[v], 0)}) for v, a in rank.items()]
            products = [(m * n, {**factors, **more}) for m, factors in products for n, more in options]
        return [(times, tuple(factors[v] for v in self.variables)) for times, factors in products]


class MovedEdge(NamedTuple):
    """A transfer of a tensor's values."""

    access: Access
    at: int
    """Component that pays."""
    below: int
    """Place of the node further in."""
    child: int
    """Component of that node."""


@dataclass(frozen=True)
class Charges:
    """Counts of values moved, as terms of energy and of busy times."""

    skeleton: Skeleton
    slots: Mapping[str, tuple[Slot, ...]]
    busy: tuple[Busy, ...]
    terms: Terms
    footprints: Footprints

    def add_all(self) -> None:
        self._compute()
        for tensor in range(len(self.skeleton.nest.names)):
            self._tensor(tensor)

    def _compute(self) -> None:
        path = self.skeleton.path
        level = len(path.components) - 1
        action = path.compute.actions["compute"]
        every = self._visits(lambda slot: COUNTED)
        steps = self._visits(lambda slot: COUNTED if slot.dimension is None else FIRST)
        self.terms.add(every, {"energy": action.actions_scale * action.energy})
        self.terms.add(steps, self._busy(level, "compute", action.actions_scale, action.throughput))

    def _visits(self, mark: Callable[[Slot], str]) -> list[Product]:
        return [(1.0, tuple(("tiles", "".join(mark(slot) for slot in slots), 0) for slots in self.slots.values()))]

    def _busy(self, level: int, action: str, calls: float, throughput: float) -> dict[Hashable, float]:
        weights: dict[Hashable, float] = {}
        for i, busy in enumerate(self.busy):
            amount = busy.amount(level, action, calls, throughput)
            if amount:
                weights["busy", i] = amount
        return weights

    def _tensor(self, tensor: int) -> None:
        """Add reads and writes of every storage node and Toll of one tensor."""
        skeleton = self.skeleton
        components = skeleton.path.components
        access = skeleton.path.einsum.accesses[skeleton.nest.names[tensor]]
        places = skeleton.places[tensor]
        for i, place in enumerate(places):
            holder = skeleton.holder(place, tensor)
            below = places[i + 1] if i + 1 < len(places) else len(skeleton.holders)
            child = skeleton.holders[below].memory if i + 1 < len(places) else len(components) - 1
            tolls = (t.memory for _, t in skeleton.tolls if t.tensor == tensor and holder.memory < t.memory < child)
            skips = all(components[i].skip_initial_output_write for i in (holder.memory, child))
            for at in (holder.memory, *tolls):
                for charge in exchange_charges(components[at], access.tensor, access.output, skips):
                    self._charge(MovedEdge(access, at, below, child), charge)
            if i:
                for charge in fill_charges(components[holder.memory], access.output):
                    self._charge(MovedEdge(access, holder.memory, place, holder.memory), charge)

    def _charge(self, edge: MovedEdge, charge: PaidAction) -> None:
        """Add calls of an action; subtract those of the first pass, which is skipped."""
        component = self.skeleton.path.components[edge.at]
        a, calls = component.actions[charge.action], charge.calls(component, edge.access.tensor)
        self._add(edge, False, charge.skipped, {"energy": calls * a.energy})
        busy = self._busy(edge.at, charge.action, calls, a.throughput)
        if busy:
            self._add(edge, True, charge.skipped, busy)

    def _add(self, edge: MovedEdge, per_unit: bool, first: bool, weights: Mapping[Hashable, float]) -> None:
        moved = self._moved(edge, per_unit, first)
        self.terms.add(moved, weights)
        if first:
            for (_, key), (_, whole) in zip(moved, self._moved(edge, per_unit, False), strict=True):
                self.terms.skipped.setdefault(key, set()).add(whole)

    def _moved(self, edge: MovedEdge, per_unit: bool, first: bool) -> list[Product]:
        """Count the values moved, as `fusiest.model.accesses._moved` does."""
        tensor = self.skeleton.nest.number[edge.access.tensor]
        full, relevant = self.skeleton.nest.full[tensor], self.skeleton.nest.relevant[tensor]

        def use(v: str, slot: Slot) -> str:
            if slot.dimension is None:
                if slot.gap > edge.below:
                    return PAST
                return FIRST if first and v not in full else COUNTED
            level, d = self.skeleton.dimensions[slot.dimension]
            if level > edge.child:
                return PAST
            reused = v not in relevant and edge.access.tensor in d.may_reuse
            return FIRST if (per_unit if level <= edge.at else reused) else COUNTED

        queries = ("".join(use(v, slot) for slot in slots).rstrip(PAST) for v, slots in self.slots.items())
        return self.footprints.products(tensor, tuple(queries))


class HolderBits(NamedTuple):
    """The reservation of a storage node."""

    place: int
    """Its place, -1 on top."""
    holder: HeldTensor
    products: list[Product]
    """Its bits."""


def reservations(
    skeleton: Skeleton,
    slots: Mapping[str, tuple[Slot, ...]],
    sinks: Callable[[int, str, int], bool],
    footprints: Footprints,
) -> Iterator[HolderBits]:
    """Reservations of all storage nodes.

    `sinks`: whether the reservation of the node at a place sinks through the loop over a variable in a slot of this
    number.
    """
    for place, holder in skeleton.everywhere:
        name = skeleton.nest.names[holder.tensor]

        def counts(v: str, i: int, slot: Slot, place: int = place, holder: HeldTensor = holder) -> bool:
            if slot.dimension is not None:
                return skeleton.dimensions[slot.dimension][0] <= holder.memory
            return slot.gap <= place or sinks(place, v, i)

        which = tuple(tuple(i for i, slot in enumerate(v_slots) if counts(v, i, slot)) for v, v_slots in slots.items())
        bits = float(skeleton.path.components[holder.memory].bits_per_value[name])
        if skeleton.is_persistent(holder):
            bits *= skeleton.path.einsum.n_instances
        products = [(times * bits, key) for times, key in footprints.products(holder.tensor, which)]
        yield HolderBits(place, holder, products)
