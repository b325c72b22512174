"""Cost-to-go of a row, per tile shape: the search over tile shapes run backwards, one column at a time.

From the outermost memory inwards it finds, for every state and shape, the least energy, and the least time that each
component is still busy; and for each line of the cutoff the least weighted sum of energy and each of these times.
Memories are taken to fit if each storage node alone fits, orders of tensors to be free, and each tensor's traffic to be
shared at fanouts as well as any choice shares it. So the result is a lower bound (proof 9a).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fusiest.pmapping.lattice.bound_kernels import Singles, grow_back, least_of_both, placing
from fusiest.pmapping.lattice.move_costs import BUSY, ENERGY
from fusiest.pmapping.lattice.remaining import Cutoff, Outlook
from fusiest.pmapping.lattice.tile_problem import FOOTPRINT, Problem
from fusiest.pmapping.nest.rules import HeldTensor, Nest, Stretch
from fusiest.pmapping.pareto import Floats, Ints
from fusiest.pmapping.placements.open_choices import Outers

MOST_SHAPES = 2_000_000
"""Most tile shapes for which it is computed: arrays over more take too much memory."""


@dataclass
class ToGo:
    """Cost-to-go of states."""

    nest: Nest
    outlook: Outlook
    groups: list[range]
    """Memory groups from the inside out."""
    cutoff: Cutoff
    """The points and lines to be below. Of lines, only their weights matter here."""
    watts: float
    """Least leakage power."""
    _known: dict[object, Any] = field(default_factory=dict)

    @property
    def problem(self) -> Problem:
        return self.nest.problem

    def after(
        self, outers: Outers, boundary: int, levels: tuple[int, ...], last: HeldTensor | None, kept: frozenset[int]
    ) -> Singles:
        """Cost-to-go once all memories from a component inwards are done (shapes × columns).

        `levels`: fanouts still to be crossed. `last`: where rule 2 applies.
        """
        outers = self.outlook.steps.outside(outers, boundary)
        key = outers, boundary, levels, last, kept
        if key not in self._known:
            self._known[key] = self._after(outers, boundary, levels, last, kept)
        result: Singles = self._known[key]
        return result

    def _after(
        self, outers: Outers, boundary: int, levels: tuple[int, ...], last: HeldTensor | None, kept: frozenset[int]
    ) -> Singles:
        group = self._next_group(boundary)
        if levels and (group is None or levels[-1] >= group.stop):
            return self._across(outers, levels, last, kept)
        if group is None:
            return self._finishing(outers, last, kept)
        steps, togo = self.outlook.steps, self._never()
        for stretch, still_open in steps.stretches(
            steps.outside(outers, group.stop), group, self.outlook.region(group.start)
        ):
            kept_below = kept | {h.tensor for h in stretch.on_top if self.nest.keeps(h, stretch)}
            least_of_both(togo, self.within(stretch, still_open, frozenset(), last, kept_below))
        return togo

    def _next_group(self, boundary: int) -> range | None:
        return next((group for group in self.groups if group.stop <= boundary), None)

    def _finishing(self, outers: Outers, last: HeldTensor | None, kept: frozenset[int]) -> Singles:
        """Zero where what may still grow makes the shape whole."""
        steps, togo = self.outlook.steps, self._never()
        outermost = range(steps.outermost, steps.outermost + 1)
        for stretch, _ in steps.stretches(steps.outside(outers, outermost.stop), outermost, 0):
            growing = self.nest.finishing(last, kept, stretch, frozenset())
            togo[self._completed_by(growing)] = 0
        return togo

    def _across(
        self, outers: Outers, levels: tuple[int, ...], last: HeldTensor | None, kept: frozenset[int]
    ) -> Singles:
        """Cost-to-go below a fanout: any variable may have a Spatial loop there that some choice has."""
        level = levels[-1]
        togo = self.after(outers, level, levels[:-1], last, kept).copy()
        self._grow(togo, self.outlook.fanouts[level].spread)
        return togo

    def within(
        self,
        stretch: Stretch,
        outers: Outers,
        placed: frozenset[HeldTensor],
        last: HeldTensor | None,
        kept: frozenset[int],
    ) -> Singles:
        """Cost-to-go with some nodes of a memory group placed."""
        if len(placed) == len(stretch.holders):
            return self.after(outers, stretch.memories.start, self.levels_above(stretch), last, kept)
        key = stretch, outers, placed, last, kept
        if key not in self._known:
            togo: Singles | None = None
            for holder in stretch.holders:
                if holder not in placed and self.nest.may_follow(holder, placed, stretch):
                    below = self.at(stretch, outers, placed, holder, kept)
                    self._grow(below, sorted(self.nest.growing(holder, placed, last, kept, stretch)))
                    if togo is None:
                        togo = below
                    else:
                        least_of_both(togo, below)
            self._known[key] = self._never() if togo is None else togo
        result: Singles = self._known[key]
        return result

    def before(self, placed: Singles, growing: Sequence[int]) -> Singles:
        """Cost-to-go before each of these variables grows, one after the other, and before a node is placed.

        `placed`: as `at` gives it.
        """
        stack = np.empty((len(growing) + 1, *placed.shape), np.float32)
        stack[-1] = placed
        for level in range(len(growing) - 1, -1, -1):
            stack[level] = stack[level + 1]
            self._grow(stack[level], [growing[level]])
        return stack

    def at(
        self,
        stretch: Stretch,
        outers: Outers,
        placed: frozenset[HeldTensor],
        holder: HeldTensor,
        kept: frozenset[int],
    ) -> Singles:
        """Cost-to-go if this node of a memory group is placed at each shape."""
        after = placed | {holder}
        if stretch.is_backing(holder) and self.nest.is_shared(holder.tensor):
            togo = self.fused(stretch, outers, after)
        else:
            new_last = holder if self.nest.hoists(holder, stretch) else None
            togo = self.within(stretch, outers, after, new_last, kept)
        allowed, fits = self.nest.allowed(holder, placed, stretch), self._fits(stretch, holder)
        return self._placing(togo, stretch, outers, holder, fits if allowed is None else fits & allowed)

    def _placing(
        self, after: Singles, stretch: Stretch, outers: Outers, holder: HeldTensor, allowed: np.ndarray
    ) -> Singles:
        togo: Singles = placing(after, *self._node(stretch, outers, holder), allowed)
        return togo

    # --- the fused part -----------------------------------------------------------------------------------------------

    def fused(self, stretch: Stretch, outers: Outers, placed: frozenset[HeldTensor]) -> Singles:
        """Cost-to-go of the fused part, with its innermost backing node placed.

        Loops above a backing node index its tensor fully. Nodes further out may stand in any order and take no space.
        """
        backing = next(h for h in placed if self._exchanges(h, stretch))
        return self._fused_within(stretch, outers, placed, self._fused_above(backing, stretch))

    def _exchanges(self, holder: HeldTensor, stretch: Stretch) -> bool:
        return stretch.is_backing(holder) and self.nest.is_shared(holder.tensor)

    def _fused_above(self, backing: HeldTensor, stretch: Stretch) -> frozenset[int]:
        """Variables that may have loops above a backing node."""
        names = self.nest.full[backing.tensor] - self.nest.unfused(backing, stretch)
        return frozenset(
            v for v, variable in enumerate(self.problem.variables) if not names.isdisjoint(variable.members)
        )

    def _fused_within(
        self, stretch: Stretch, outers: Outers, placed: frozenset[HeldTensor], growing: frozenset[int]
    ) -> Singles:
        if len(placed) == len(stretch.holders):
            return self._fused_after(outers, stretch.memories.start, growing)
        key = "fused", stretch, outers, placed, growing
        if key not in self._known:
            togo, everywhere = self._never(), np.ones(self.problem.shapes, np.bool_)
            for holder in stretch.holders:
                if holder not in placed and self.nest.may_follow(holder, placed, stretch):
                    less = self._fused_above(holder, stretch) if self._exchanges(holder, stretch) else growing
                    after = self._fused_within(stretch, outers, placed | {holder}, growing & less)
                    least_of_both(togo, self._placing(after, stretch, outers, holder, everywhere))
            self._grow(togo, sorted(growing))
            self._known[key] = togo
        result: Singles = self._known[key]
        return result

    def _fused_after(self, outers: Outers, boundary: int, growing: frozenset[int]) -> Singles:
        """Cost-to-go of the fused part once all memories from a component inwards are done."""
        steps, group = self.outlook.steps, self._next_group(boundary)
        key = "fused after", steps.outside(outers, boundary), boundary, growing
        if key not in self._known:
            togo = self._never()
            if group is None:
                togo[self._completed_by(growing)] = 0
            else:
                for stretch, still_open in steps.stretches(steps.outside(outers, group.stop), group, 0):
                    least_of_both(togo, self._fused_within(stretch, still_open, frozenset(), growing))
            self._known[key] = togo
        result: Singles = self._known[key]
        return result

    # --- nodes --------------------------------------------------------------------------------------------------------

    def levels_above(self, stretch: Stretch) -> tuple[int, ...]:
        """Fanouts outside of a memory group."""
        return tuple(level for level in self.outlook.levels if level <= stretch.memories.start)

    def _node(self, stretch: Stretch, outers: Outers, holder: HeldTensor) -> tuple[Floats, Floats]:
        """Amounts of a node per shape, and the columns of each."""
        key = "node", stretch, outers, holder
        if key not in self._known:
            amounts, prices = self.outlook.node(stretch, outers, self.levels_above(stretch), holder)
            self._known[key] = amounts, self._columns(prices)
        result: tuple[Floats, Floats] = self._known[key]
        return result

    def _columns(self, costs: Floats) -> Floats:
        """Energies and busy times (the last axis) as columns of the cost-to-go."""
        energy, times = costs[:, ENERGY : ENERGY + 1], costs[:, BUSY:]
        sums = [
            by_energy * energy + (by_latency + by_energy * self.watts) * times
            for by_energy, by_latency, _ in self.cutoff.lines
        ]
        return np.ascontiguousarray(
            np.concatenate([energy, *([times] if len(self.cutoff.points) else []), *sums], axis=1)
        )

    @cached_property
    def _count(self) -> int:
        """Number of columns."""
        return len(self._columns(np.zeros((1, self.outlook.columns.time)))[0])

    def _never(self) -> Singles:
        return np.full((self.problem.shapes, self._count), np.inf, np.float32)

    def _grow(self, togo: Singles, variables: Sequence[int] | Ints) -> None:
        grow_back(togo, self.problem.predecessors, np.asarray(variables, np.int64))

    def _completed_by(self, growing: frozenset[int]) -> np.ndarray:
        """Shapes that are whole once these variables are."""
        complete = np.ones(self.problem.shapes, np.bool_)
        for v in range(len(self.problem.variables)):
            if v not in growing:
                complete &= self.problem.complete[v]
        return complete

    def _fits(self, stretch: Stretch, holder: HeldTensor) -> np.ndarray:
        """Shapes at which the node alone fits, its space being that of the tile below some partially relevant loop."""
        p, (memory, t) = self.problem, holder
        room = p.path.components[memory].size
        room -= sum(self.nest.persistent_bits(h) for h in stretch.on_top if h.memory == memory)
        key = "fits", holder, room, stretch.is_backing(holder)
        if key not in self._known:
            least = p.amounts[t, FOOTPRINT].copy()
            for v in () if stretch.is_backing(holder) else p.tensors[t].partial:
                extents = [e if i != v else np.ones(p.shapes) for i, e in enumerate(p.extents)]
                np.minimum(least, p.tensors[t].footprint(extents), out=least)
            self._known[key] = least * p.path.components[memory].bits_per_value[p.tensors[t].name] <= room
        result: np.ndarray = self._known[key]
        return result
