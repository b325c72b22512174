"""Pruning of rows of the search over tile shapes: drop dominated rows, and rows that cannot beat a known pmapping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fusiest.pmapping.lattice.bound_kernels import Bar, Lacks, ToBeat, promising
from fusiest.pmapping.lattice.cost_to_go import MOST_SHAPES, ToGo
from fusiest.pmapping.lattice.fanout import Beaten
from fusiest.pmapping.lattice.growth import Ahead
from fusiest.pmapping.lattice.layers import Layer, union
from fusiest.pmapping.lattice.move_costs import BUSY
from fusiest.pmapping.lattice.remaining import Cutoff, Outlook, Prospect
from fusiest.pmapping.lattice.states import Key, Last, Place, Used
from fusiest.pmapping.nest.rules import HeldTensor, Nest, Stretch
from fusiest.pmapping.pareto import Floats


@dataclass(frozen=True)
class Pruning:
    nest: Nest
    outlook: Outlook
    togo: ToGo
    watts: Callable[[Used], float]
    cutoff: Cutoff | None
    """Costs of known pmappings, to be beaten."""
    beam: int | None
    """Rows to keep per state in a quick look, which is not exact. None: all."""
    nearest: Floats = field(default_factory=lambda: np.empty(0))
    """Receives the least excess over each line of the cutoff of all rows that it leaves out; then space for one row's."""
    hasty: bool = False
    """Whether a quick look follows only the most promising order of storage nodes."""

    def merged(
        self, layers: list[Layer], stretch: Stretch, key: Key, placed: frozenset[HeldTensor], last: Last | None
    ) -> Layer:
        """Merge and prune the rows of these layers, with some nodes of a memory group placed.

        No `last`: the fused part follows.
        """
        self._raise_times(layers, stretch, key, placed)
        start = stretch.memories.start
        levels = tuple(level for level in self.outlook.levels if level <= start)
        prospect = Prospect(key.outers, start, levels, 0.0 if levels else self.watts(key.used), stretch, placed)
        if self._looks_ahead:
            if last is None:
                togo = self.togo.fused(stretch, key.outers, placed)
            else:
                togo = self.togo.within(stretch, key.outers, placed, last.holder if last.hoists else None, key.kept)
            prospect = prospect._replace(togo=togo)
        return self._promising(union(layers), prospect)

    def ahead(
        self,
        stretch: Stretch,
        key: Key,
        place: Place,
        holder: HeldTensor,
        growing: frozenset[int],
    ) -> Ahead | None:
        """What rows lack before a node of a memory group is placed, and after. None: it is not known."""
        levels = tuple(level for level in self.outlook.levels if level <= stretch.memories.start)
        goal = self._goal(0.0 if levels else self.watts(key.used))
        if goal is None or not self._looks_ahead or self.beam is not None:
            return None
        placed, variables = place.placed | {holder}, tuple(sorted(growing))
        before = self.togo.before(self.togo.at(stretch, key.outers, place.placed, holder, key.kept), variables)
        if stretch.is_backing(holder) and self.nest.is_shared(holder.tensor):
            after = self.togo.fused(stretch, key.outers, placed)
        else:
            last = holder if self.nest.hoists(holder, stretch) else None
            after = self.togo.within(stretch, key.outers, placed, last, key.kept)
        return Ahead(variables, Lacks(before, after, goal, self.outlook.across(key.outers, levels)))

    def crossed(self, layers: list[Layer], level: int, key: Key) -> Layer:
        """Merge and prune the rows of these layers, above a fanout."""
        return self._promising(union(layers), self.after_crossing(level, key))

    def after_crossing(self, level: int, key: Key) -> Prospect:
        """The remaining nodes and fanouts for rows above a fanout."""
        levels = tuple(outer for outer in self.outlook.levels if outer < level)
        togo = None
        if self._looks_ahead:
            last = key.last.holder if key.last is not None and key.last.hoists else None
            togo = self.togo.after(key.outers, level, levels, last, key.kept)
        return Prospect(key.outers, level, levels, 0.0 if levels else self.watts(key.used), togo=togo)

    def beaten(self, level: int, key: Key) -> Beaten | None:
        """Costs that rows above a fanout must beat. None if there are none."""
        return self._beaten(self.after_crossing(level, key))

    def _beaten(self, prospect: Prospect) -> Beaten | None:
        goal = self._goal(prospect.watts)
        if goal is None or prospect.togo is None:
            return None
        return Beaten(Bar(prospect.togo, goal), self.outlook.across(prospect.outers, prospect.levels))

    def _goal(self, watts: float) -> ToBeat | None:
        """Costs that rows must beat; None if there are none."""
        if self.cutoff is None:
            return None
        scale = np.array([watts, self.outlook.problem.info.n_instances], np.float64)
        is_time = np.array([not busy.counts for busy in self.outlook.columns.busy], np.bool_)
        return ToBeat(is_time, scale, self.cutoff.beaten(), self.cutoff.lines, self.nearest)

    @property
    def _looks_ahead(self) -> bool:
        """Whether to compute the cost-to-go from each shape on."""
        return self.cutoff is not None and self.outlook.problem.shapes <= MOST_SHAPES

    def _promising(self, layer: Layer, prospect: Prospect) -> Layer:
        """Drop rows that cannot beat the cutoff; in a quick look, all but the most promising rows."""
        if (self.cutoff is None and self.beam is None) or not len(layer.shape):
            return layer
        if self.beam is None and (beaten := self._beaten(prospect)) is not None:
            good = promising(layer.shape, layer.criteria, beaten.bar, beaten.across)
            if not good.all():
                layer = layer.take(np.flatnonzero(good))
            if beaten.bar.goal.is_time.all():
                return layer
        energy, latency = self.outlook.bounds(layer.shape, layer.criteria, prospect)
        keep = np.isfinite(energy)
        promise = float((energy[keep] * latency[keep]).min(initial=np.inf))
        if self.cutoff is not None:
            keep &= self.cutoff.keeps(energy, latency)
        if self.beam is not None and keep.sum() > self.beam:
            best = np.zeros(len(energy), np.bool_)
            for measure in (energy * latency, energy, latency):
                best[np.argsort(np.where(keep, measure, np.inf), kind="stable")[: self.beam // 3]] = True
            keep &= best
        kept = layer if keep.all() else layer.take(np.flatnonzero(keep))
        kept.promise = promise
        return kept

    def final(self, energy: Floats, latency: Floats) -> np.ndarray | None:
        """Which complete pmappings beat the cutoff; None: all of them."""
        if self.cutoff is None:
            return None
        good = self.cutoff.keeps(energy, latency)
        if good.all():
            return None
        missed = ~good & self.cutoff.beats_points(energy, latency)
        for k, (by_energy, by_latency, most) in enumerate(self.cutoff.lines if missed.any() else ()):
            totals = by_energy * energy[missed] + by_latency * latency[missed]
            self.nearest[k] = min(self.nearest[k], totals.min() / most)
        return good

    def going_on(self, reached: dict[Place, Layer]) -> dict[Place, Layer]:
        """The states to follow: all of them; in haste the most promising one."""
        alive = {place: layer for place, layer in reached.items() if len(layer.shape)}
        if not self.hasty or len(alive) < 2:
            return alive
        best = min(alive, key=lambda place: alive[place].promise)
        return {best: alive[best]}

    # --- busy times ---------------------------------------------------------------------------------------------------

    def _raise_times(self, layers: list[Layer], stretch: Stretch, key: Key, placed: frozenset[HeldTensor]) -> None:
        """Raise busy times as far as that changes no latency (proof 6b).

        Let a component be busy for b, with at most m to come, and a complete component for t. If b + m ≤ t, the first
        cannot be the slowest, so b counts as t - m if it is less. With nothing to come, a component is complete.
        """
        columns = self.outlook.columns
        weights = self.outlook.most(stretch, key.outers, placed)
        components = range(self.outlook.region(stretch.memories.start), stretch.memories.stop)
        for i, busy in enumerate(columns.busy, start=BUSY):
            if busy.component not in components or busy.counts:
                continue
            still = weights[:, i].any() or any(self._pending(i, layer.criteria) for layer in layers)
            for layer in layers:
                time = layer.criteria[:, columns.time]
                if still:
                    most = weights[:, i] @ self.outlook.problem.most_traffic[:, layer.shape]
                    np.maximum(layer.criteria[:, i], time - most, out=layer.criteria[:, i])
                else:
                    self._complete(i, layer.criteria)

    def settle(self, criteria: Floats, component: int) -> None:
        """Mark components from this one inwards as complete: only the busiest of them matters (proof 6b)."""
        for i, busy in enumerate(self.outlook.columns.busy, start=BUSY):
            if busy.component >= component and not busy.counts and not self._pending(i, criteria):
                self._complete(i, criteria)

    def _complete(self, column: int, criteria: Floats) -> None:
        time = criteria[:, self.outlook.columns.time]
        np.maximum(time, criteria[:, column], out=time)
        criteria[:, column] = 0

    def _pending(self, column: int, criteria: Floats) -> bool:
        """Whether a busy time depends on first passes that a fanout further out multiplies."""
        columns = self.outlook.columns
        return bool(columns.carried) and bool(criteria[:, columns.credit + 1 + column - BUSY].any())
