"""Bounds on what a row still lacks: the most time that components can be busy, the least cost of the remaining nodes.

Where a whole pmapping must beat a known one (`Cutoff`), rows that cannot are dropped (proof 9).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fusiest.base.objective import CLOSE
from fusiest.pmapping.lattice.bound_kernels import NOTHING_ACROSS, Across, Singles
from fusiest.pmapping.lattice.move_costs import BUSY, ENERGY, Columns, Costs, finish
from fusiest.pmapping.lattice.tile_problem import FIRST, FOOTPRINT, TRAFFIC, Problem
from fusiest.pmapping.nest.rules import BEYOND, HeldTensor, HolderSource, Stretch
from fusiest.pmapping.nest.spatial import Fanout
from fusiest.pmapping.pareto import Floats, Ints, pareto_rows
from fusiest.pmapping.placements.open_choices import Outers, Steps


@dataclass(frozen=True)
class Cutoff:
    """Costs that pmappings must beat to matter."""

    points: Floats = field(default_factory=lambda: np.empty((0, 2)))
    """Energies and latencies of known pmappings: others must beat each of them in one of both."""
    lines: Floats = field(default_factory=lambda: np.empty((0, 3)))
    """Weights of energy and of latency, and a weighted sum: pmappings must be below one of these lines, if there are
    any."""

    def keeps(self, energy: Floats, latency: Floats) -> np.ndarray:
        """Which pmappings may matter, given their least costs."""
        keep = self.beats_points(energy, latency)
        if len(self.lines):
            below = (by_energy * energy + by_latency * latency < most for by_energy, by_latency, most in self.lines)
            keep &= np.logical_or.reduce(list(below))
        return keep

    def beats_points(self, energy: Floats, latency: Floats) -> np.ndarray:
        """Which pmappings beat all known points."""
        keep = np.ones(len(energy), np.bool_)
        for e, seconds in self.beaten():
            keep &= (energy < e) | (latency < seconds)
        return keep

    def beaten(self) -> Floats:
        """Costs just below the known points: a pmapping must be below each of them in one of both."""
        return self.points * (1 - CLOSE)

    def has_weights_of(self, other: Cutoff) -> bool:
        """Whether costs-to-go for this cutoff are those for another one."""
        same_lines = np.array_equal(self.lines[:, :2], other.lines[:, :2])
        return same_lines and bool(len(self.points)) == bool(len(other.points))

    def with_points(self, energy: Floats, latency: Floats) -> Cutoff:
        points = np.concatenate([self.points, np.column_stack([energy, latency])])
        return replace(self, points=points[pareto_rows(np.zeros(len(points), np.int64), points)])


class Prospect(NamedTuple):
    """What remains for a row, besides loops: nodes to place, fanouts to put Spatial loops on."""

    outers: Outers
    """Placements that are still open."""
    boundary: int
    """Component from which inwards memories are done, but for the nodes of `stretch` that are not in `placed`."""
    levels: tuple[int, ...]
    """Components of the remaining fanouts."""
    watts: float
    """Leakage power."""
    stretch: Stretch | None = None
    """The memory group in progress, if any."""
    placed: frozenset[HeldTensor] = frozenset()
    togo: Singles | None = None
    """Cost-to-go per shape: least energy and busy times of the remaining nodes. None if not computed."""


@dataclass
class Outlook:
    """Bounds on the costs of the remaining nodes."""

    problem: Problem
    columns: Columns
    costs: Costs
    steps: Steps
    fanouts: Mapping[int, Fanout]
    _known: dict[object, Floats] = field(default_factory=dict)
    _across: dict[object, Across] = field(default_factory=dict)

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """Components with a fanout, outermost first."""
        return tuple(sorted(self.fanouts))

    def region(self, component: int) -> int:
        """The outermost component that no fanout separates from this one."""
        return max((level for level in self.levels if level <= component), default=0)

    def weights(self, tensor: int, skips: bool, source: HolderSource) -> Floats:
        """What is paid further out for what a holder, or the compute, exchanges; or carried on, if a fanout is between."""
        weights = self.costs.fetched(tensor, skips, source)
        if source.memory == BEYOND:
            weights = weights + self.costs.carried(tensor, skips)
        return weights

    def holder_weights(self, stretch: Stretch, holder: HeldTensor) -> Floats:
        """Weights of a storage node: its costs per amount and criterion."""
        memory, t = holder
        weights = self.costs.filled(t, memory)
        if stretch.is_backing(holder):
            weights[:2] = 0
            return weights
        skips = self.problem.path.components[memory].skip_initial_output_write
        return weights + self.weights(t, skips, stretch.sources[holder])

    # --- the most -----------------------------------------------------------------------------------------------------

    def most(self, stretch: Stretch, outers: Outers, placed: frozenset[HeldTensor]) -> Floats:
        """Per tensor and criterion, the most that a value of its traffic can still cost (proof 6b)."""
        key = "most", stretch, outers, placed
        if key not in self._known:
            inner = np.zeros((len(self.problem.tensors), self.columns.count))
            for h in stretch.holders:
                if h not in placed:
                    inner[h.tensor] += self.holder_weights(stretch, h)[TRAFFIC]
            outer = [self._outer_most(o, stretch.memories.start) for o in outers]
            self._known[key] = inner + np.max(outer, axis=0)
        return self._known[key]

    def _outer_most(self, placement: int, boundary: int) -> Floats:
        key = "outer most", self.steps.outside([placement], boundary), boundary
        if key not in self._known:
            most = np.zeros((len(self.problem.tensors), self.columns.count))
            outer = self.steps.outer_stretch(placement, boundary)
            for h in outer.holders:
                most[h.tensor] += self.holder_weights(outer, h)[TRAFFIC]
            self._known[key] = most
        return self._known[key]

    # --- the least ----------------------------------------------------------------------------------------------------

    def least(self, prospect: Prospect) -> Floats:
        """Per criterion, the least that the remaining nodes add."""
        key = "least", prospect.outers, prospect.boundary, prospect.stretch, prospect.placed
        if key not in self._known:
            least = np.min([self._outer_least(o, prospect.boundary) for o in prospect.outers], axis=0)
            if prospect.stretch is not None:
                unplaced = (h for h in prospect.stretch.holders if h not in prospect.placed)
                least = self.least_of(prospect.stretch, unplaced, prospect.outers)
            self._known[key] = least
        return self._known[key]

    def least_of(self, stretch: Stretch, holders: Iterable[HeldTensor], outers: Outers) -> Floats:
        """Per criterion, the least that some nodes of a memory group, and all nodes further out, add."""
        outer: Floats = np.min([self._outer_least(o, stretch.memories.start) for o in outers], axis=0)
        return outer + sum(self._least(stretch, h) for h in holders)

    def _outer_least(self, placement: int, boundary: int) -> Floats:
        key = "outer", self.steps.outside([placement], boundary), boundary
        if key not in self._known:
            least = np.zeros(self.columns.count)
            outer = self.steps.outer_stretch(placement, boundary)
            for h in outer.holders:
                least += self._least(outer, h)
            self._known[key] = least
        return self._known[key]

    def _least(self, stretch: Stretch, holder: HeldTensor) -> Floats:
        """The least that a node adds to energy and, outside of all fanouts, to busy times.

        An output's first pass is no more than all its traffic, so it saves at most that much. At a fanout, only loops
        that do not index a tensor share its traffic: each of its values comes at least once.
        """
        key = "holder", holder, stretch.sources[holder]
        if key not in self._known:
            amounts = self.problem.amounts[holder.tensor]
            least = np.zeros(self.columns.count)
            if any(level <= holder.memory for level in self.fanouts):
                if not stretch.is_backing(holder):
                    weights = self.costs.filled(holder.tensor, holder.memory)
                    saved = weights[FIRST, self.columns.credit]
                    price = self._fetch_price(holder.tensor, stretch.sources[holder])
                    least[ENERGY] = amounts[TRAFFIC].min() * (weights[TRAFFIC, ENERGY] + saved + price)
            else:
                traffic, first, _ = self.holder_weights(stretch, holder)[:, : self.columns.time]
                if first.any():
                    paid = amounts[TRAFFIC][:, None] * traffic + amounts[FIRST][:, None] * first
                    least[: self.columns.time] = paid.min(axis=0)
                else:
                    least[: self.columns.time] = amounts[TRAFFIC].min() * traffic
            self._known[key] = np.maximum(least, 0)
        return self._known[key]

    # --- bounds -------------------------------------------------------------------------------------------------------

    def bounds(self, shape: Ints, criteria: Floats, prospect: Prospect) -> tuple[Floats, Floats]:
        """The least energy and latency that rows can end with."""
        least = self.least_crossed(shape, criteria, prospect) + self.least(prospect)
        return finish(self.problem, self.columns, least, prospect.watts)

    def least_crossed(self, shape: Ints, criteria: Floats, prospect: Prospect) -> Floats:
        """The least that criteria can be above the fanouts: traffic shared, and work spread, as far as possible."""
        columns, p = self.columns, self.problem
        crossing = [self.fanouts[level] for level in prospect.levels]
        if not crossing:
            return criteria
        result = np.zeros_like(criteria)
        result[:, columns.time] = criteria[:, columns.time] / self.most_units(prospect.levels)
        result[:, ENERGY] = criteria[:, ENERGY]
        for t, tensor in enumerate(p.tensors):
            irrelevant = [v for v in range(len(p.variables)) if v not in tensor.relevant]
            iterations = math.prod(
                (p.variables[v].bound / p.extents[v][shape] for v in irrelevant), start=np.ones(len(shape))
            )
            if tensor.output:
                apart = np.minimum(iterations, math.prod(f.most_apart[t] for f in crossing))
                result[:, ENERGY] += criteria[:, columns.credit] * apart
            price = self._price(prospect, t)
            if price:
                shared = np.minimum(iterations, math.prod(f.most_shared[t] for f in crossing))
                result[:, ENERGY] += criteria[:, columns.traffic + t] / shared * price
        return result

    def across(self, outers: Outers, levels: tuple[int, ...]) -> Across:
        """How criteria below some fanouts turn into energy, busy times and time above them, at least.

        Each criterion takes its own best way across: work is spread over all units, traffic shared as far as any choice
        does and there are iterations left.
        """
        if not levels:
            return NOTHING_ACROSS
        key = outers, levels
        if key not in self._across:
            floors = np.full(self.columns.count, -np.inf)
            floors[self.columns.traffic : self.columns.first] = self.problem.amounts[:, TRAFFIC].min(axis=1)
            self._across[key] = Across(self._matrix(outers, levels), self._factors(levels), floors)
        return self._across[key]

    def _matrix(self, outers: Outers, levels: tuple[int, ...]) -> Floats:
        columns = self.columns
        matrix = np.zeros((columns.count, columns.time + 1))
        matrix[ENERGY, ENERGY] = matrix[columns.credit, ENERGY] = 1
        matrix[columns.time, columns.time] = 1 / self.most_units(levels)
        for i, busy in enumerate(columns.busy):
            inside = [level for level in levels if level <= busy.component]
            matrix[BUSY + i, BUSY + i] = 1 / self.most_units(inside)
            matrix[columns.credit + 1 + i, BUSY + i] = matrix[BUSY + i, BUSY + i]
        for t in range(len(self.problem.tensors)):
            sources = {self.steps.source(o, t, max(levels), 0) for o in outers}
            matrix[columns.traffic + t] = np.min([self._fetched(t, source) for source in sources], axis=0)
        return matrix

    def _factors(self, levels: tuple[int, ...]) -> Floats:
        """Per shape and criterion, the factor of first passes and of carried traffic."""
        key = "factors", levels
        if key not in self._known:
            p, columns, fanouts = self.problem, self.columns, [self.fanouts[level] for level in levels]
            factors = np.ones((p.shapes, columns.count))
            for t, tensor in enumerate(p.tensors):
                left = np.ones(p.shapes)
                for v in set(range(len(p.variables))) - tensor.relevant:
                    left *= p.variables[v].bound / p.extents[v]
                shared = math.prod(f.most_shared[t] for f in fanouts)
                factors[:, columns.traffic + t] = 1 / np.minimum(left, shared)
                if tensor.output:
                    apart = math.prod(f.most_apart[t] for f in fanouts)
                    factors[:, columns.credit : columns.traffic] = np.minimum(left, apart)[:, None]
            self._known[key] = factors
        return self._known[key]

    def node(
        self, stretch: Stretch, outers: Outers, levels: tuple[int, ...], holder: HeldTensor
    ) -> tuple[Floats, Floats]:
        """Amounts of a node per shape, and energy and busy times for each, at least: traffic, first passes, carried traffic.

        All first passes together are no more than all traffic.
        """
        columns, t = self.columns, holder.tensor
        weights, amounts = self.holder_weights(stretch, holder)[:FOOTPRINT], self.problem.amounts[t, :FOOTPRINT]
        prices, nothing = np.zeros((3, columns.time)), np.zeros((1, amounts.shape[1]))
        if not levels:
            prices[:FOOTPRINT] = weights[:, : columns.time]
            return np.concatenate([amounts, nothing]), prices
        matrix, factors, floors = self.across(outers, levels)
        own, carried = slice(columns.traffic), columns.traffic + t
        prices[:2] = (weights[:, own] @ matrix[own])[:, : columns.time]
        prices[2] = weights[TRAFFIC, carried] * matrix[carried, : columns.time]
        traffic, first = amounts
        first = np.minimum(first * factors[:, columns.credit], traffic)
        return np.stack([traffic, first, np.maximum(traffic * factors[:, carried], floors[carried])]), prices

    def _fetched(self, tensor: int, source: HolderSource) -> Floats:
        """The least that a value costs that is fetched, or drained: energy, busy times, no time of what is complete."""
        columns, (traffic, first, _) = self.columns, self.costs.fetched(tensor, True, source)
        least = np.zeros(columns.time + 1)
        least[: columns.time] = traffic[: columns.time] + first[: columns.time]
        least[: columns.time] += first[columns.credit : columns.credit + columns.time]
        for i, busy in enumerate(columns.busy, start=BUSY):
            least[i] /= self.most_units(level for level in self.levels if level <= busy.component)
        result: Floats = np.maximum(least, 0)
        return result

    def most_units(self, levels: Iterable[int]) -> float:
        """The most units that work in parallel across fanouts."""
        return math.prod(self.fanouts[level].most_units for level in levels)

    def _price(self, prospect: Prospect, tensor: int) -> float:
        """The least energy for a value that is carried through fanouts to the next node.

        Only components outside of the next fanout count: Tolls inside of it have been paid by whoever exchanges the
        value.
        """
        innermost = max(prospect.levels)
        sources = {self.steps.source(o, tensor, innermost, 0) for o in prospect.outers}
        return min(self._fetch_price(tensor, source) for source in sources)

    def _fetch_price(self, tensor: int, source: HolderSource) -> float:
        """The least energy for a value that is fetched, or drained."""
        traffic, first, _ = self.costs.fetched(tensor, True, source)
        return max(0.0, float(traffic[ENERGY] + first[ENERGY] + first[self.columns.credit]))
