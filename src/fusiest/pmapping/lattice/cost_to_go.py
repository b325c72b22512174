"""Cost-to-go of a row, per tile shape: the search over tile shapes run backwards, one criterion at a time.

From the outermost memory inwards it finds, for every state and shape, the least energy, and the least time that each
component is still busy. Memories are taken to fit if each storage node alone fits, and orders of tensors to be free. So
the result is a lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fusiest.pmapping.lattice import kernels
from fusiest.pmapping.lattice.remaining import Outlook
from fusiest.pmapping.lattice.tile_problem import FOOTPRINT, Problem
from fusiest.pmapping.nest.rules import HeldTensor, Nest, Stretch
from fusiest.pmapping.pareto import Floats
from fusiest.pmapping.placements.open_choices import Outers

MOST_SHAPES = 2_000_000
"""Most tile shapes for which it is computed: arrays over more take too much memory."""


@dataclass
class ToGo:
    """Cost-to-go of states outside of all fanouts."""

    nest: Nest
    outlook: Outlook
    groups: list[range]
    """Memory groups from the inside out."""
    _known: dict[object, Floats] = field(default_factory=dict)

    @property
    def problem(self) -> Problem:
        return self.nest.problem

    @property
    def _columns(self) -> int:
        """Energy and busy times."""
        return self.outlook.columns.time

    def after(self, outers: Outers, boundary: int, last: HeldTensor | None, kept: frozenset[int]) -> Floats:
        """Cost-to-go once all memories from a component inwards are done (columns × shapes).

        `last`: where rule 2 applies.
        """
        outers = self.outlook.steps.outside(outers, boundary)
        key = outers, boundary, last, kept
        if key not in self._known:
            self._known[key] = self._after(outers, boundary, last, kept)
        return self._known[key]

    def _after(self, outers: Outers, boundary: int, last: HeldTensor | None, kept: frozenset[int]) -> Floats:
        steps = self.outlook.steps
        group = next((g for g in self.groups if g.stop <= boundary), None)
        togo = np.full((self._columns, self.problem.shapes), np.inf)
        if group is None:
            outermost = range(steps.outermost, steps.outermost + 1)
            for stretch, _ in steps.stretches(steps.outside(outers, outermost.stop), outermost, 0):
                growing = self.nest.finishing(last, kept, stretch, frozenset())
                complete = np.ones(self.problem.shapes, np.bool_)
                for v in range(len(self.problem.variables)):
                    if v not in growing:
                        complete &= self.problem.complete[v]
                togo[:, complete] = 0
            return togo
        for stretch, still_open in steps.stretches(steps.outside(outers, group.stop), group, 0):
            kept_below = kept | {h.tensor for h in stretch.on_top if self.nest.keeps(h, stretch)}
            np.minimum(togo, self.within(stretch, still_open, frozenset(), last, kept_below), out=togo)
        return togo

    def within(
        self,
        stretch: Stretch,
        outers: Outers,
        placed: frozenset[HeldTensor],
        last: HeldTensor | None,
        kept: frozenset[int],
    ) -> Floats:
        """Cost-to-go with some nodes of a memory group placed."""
        if len(placed) == len(stretch.holders):
            return self.after(outers, stretch.memories.start, last, kept)
        key = stretch, outers, placed, last, kept
        if key not in self._known:
            togo = np.full((self._columns, self.problem.shapes), np.inf)
            for holder in stretch.holders:
                if holder not in placed and self.nest.may_follow(holder, placed, stretch):
                    np.minimum(togo, self._placing(stretch, outers, placed, holder, last, kept), out=togo)
            self._known[key] = togo
        return self._known[key]

    def _placing(
        self,
        stretch: Stretch,
        outers: Outers,
        placed: frozenset[HeldTensor],
        holder: HeldTensor,
        last: HeldTensor | None,
        kept: frozenset[int],
    ) -> Floats:
        p, after = self.problem, placed | {holder}
        weights = self.outlook.holder_weights(stretch, holder)[:FOOTPRINT, : self._columns]
        togo: Floats = weights.T @ p.amounts[holder.tensor, :FOOTPRINT]
        if stretch.is_backing(holder) and self.nest.is_shared(holder.tensor):
            unplaced = (h for h in stretch.holders if h not in after)
            togo += self.outlook.least_of(stretch, unplaced, outers)[: self._columns, None]
        else:
            new_last = holder if self.nest.hoists(holder, stretch) else None
            togo += self.within(stretch, outers, after, new_last, kept)
        allowed = self.nest.allowed(holder, placed, stretch)
        fits = self._fits(stretch, holder)
        togo[:, ~(fits if allowed is None else fits & allowed)] = np.inf
        for v in self.nest.growing(holder, placed, last, kept, stretch):
            kernels.least_above(togo, p.strides[v], *p.variables[v].steps)
        return togo

    def _fits(self, stretch: Stretch, holder: HeldTensor) -> np.ndarray:
        """Shapes at which the node alone fits, its space being that of the tile below some partially relevant loop."""
        p, (memory, t) = self.problem, holder
        room = p.path.components[memory].size
        room -= sum(self.nest.persistent_bits(h) for h in stretch.on_top if h.memory == memory)
        least = p.amounts[t, FOOTPRINT].copy()
        for v in () if stretch.is_backing(holder) else p.tensors[t].partial:
            extents = [e if i != v else np.ones(p.shapes) for i, e in enumerate(p.extents)]
            np.minimum(least, p.tensors[t].footprint(extents), out=least)
        result: np.ndarray = least * p.path.components[memory].bits_per_value[p.tensors[t].name] <= room
        return result
