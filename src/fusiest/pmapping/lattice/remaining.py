"""Bounds on what a row still lacks: the most time that components can be busy, the least cost of the remaining nodes.

Where a whole pmapping must beat a known one (`Cutoff`), rows that cannot are dropped (proof 9).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fusiest.base.objective import CLOSE
from fusiest.pmapping.lattice.move_costs import ENERGY, Columns, Costs, finish
from fusiest.pmapping.lattice.tile_problem import FIRST, TRAFFIC, Problem
from fusiest.pmapping.nest.rules import BEYOND, HeldTensor, HolderSource, Stretch
from fusiest.pmapping.nest.spatial import Fanout
from fusiest.pmapping.pareto import Floats, Ints, pareto_rows
from fusiest.pmapping.placements.open_choices import Outers, Steps


@dataclass(frozen=True)
class Cutoff:
    """Energy and latency of known pmappings: others must beat each of them in one of both."""

    points: Floats

    def keeps(self, energy: Floats, latency: Floats) -> np.ndarray:
        """Which pmappings may matter, given their least costs."""
        keep = np.ones(len(energy), np.bool_)
        for e, seconds in self.beaten():
            keep &= (energy < e) | (latency < seconds)
        return keep

    def beaten(self) -> Floats:
        """Costs just below the known points: a pmapping must be below each of them in one of both."""
        return self.points * (1 - CLOSE)

    def with_points(self, energy: Floats, latency: Floats) -> Cutoff:
        points = np.concatenate([self.points, np.column_stack([energy, latency])])
        return Cutoff(points[pareto_rows(np.zeros(len(points), np.int64), points)])


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
    togo: Floats | None = None
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
        if prospect.togo is None:
            least = self.least_crossed(shape, criteria, prospect) + self.least(prospect)
            return finish(self.problem, self.columns, least, prospect.watts)
        togo = prospect.togo[:, shape].T
        least = self.least_crossed(shape, criteria, prospect).copy()
        least[:, : self.columns.time] += np.where(np.isfinite(togo), togo, 0)
        energy, latency = finish(self.problem, self.columns, least, prospect.watts)
        return np.where(np.isfinite(togo[:, ENERGY]), energy, np.inf), latency

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
                apart = np.minimum(iterations, math.prod(f.apart[:, t].max(initial=1.0) for f in crossing))
                result[:, ENERGY] += criteria[:, columns.credit] * apart
            price = self._price(prospect, t)
            if price:
                shared = np.minimum(iterations, math.prod(f.shared[:, t].max(initial=1.0) for f in crossing))
                result[:, ENERGY] += criteria[:, columns.traffic + t] / shared * price
        return result

    def most_units(self, levels: Iterable[int]) -> float:
        """The most units that work in parallel across fanouts."""
        return math.prod(float(self.fanouts[level].units.max(initial=1.0)) for level in levels)

    def least_matrix(self, fanout: Fanout, prospect: Prospect) -> Floats:
        """Choices at a fanout × criteria below × energy, busy times and time at least, once all fanouts are crossed."""
        columns = self.columns
        other_fanouts = [self.fanouts[level] for level in prospect.levels if level != fanout.level]
        matrix = np.zeros((len(fanout), columns.count, columns.time + 1))
        matrix[:, columns.time, columns.time] = 1 / fanout.units / self.most_units(f.level for f in other_fanouts)
        matrix[:, ENERGY, ENERGY] = 1
        for t, tensor in enumerate(self.problem.tensors):
            if tensor.output:
                apart = fanout.apart[:, t] * math.prod(f.apart[:, t].max(initial=1.0) for f in other_fanouts)
                matrix[:, columns.credit, ENERGY] += apart
            shared = fanout.shared[:, t] * math.prod(f.shared[:, t].max(initial=1.0) for f in other_fanouts)
            matrix[:, columns.traffic + t, ENERGY] = self._price(prospect, t) / shared
        return matrix

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
