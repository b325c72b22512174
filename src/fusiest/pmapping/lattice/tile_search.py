"""The search over tile shapes for one Einsum on one compute: from the compute outwards, one storage node at a time.

A state is the placements that are still open, the last node placed, and the tile shape there; its value is a Pareto set
of criteria (proof 2). Between two nodes any variable may grow that `nest` allows; a node then adds its cost, which
depends on the shape alone (proof 1). All placements and all orders of nodes share their inner nests, and no nest is
evaluated twice.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fusiest.base.interrupt import check
from fusiest.pmapping.lattice.cost_to_go import ToGo
from fusiest.pmapping.lattice.fanout import Crossing
from fusiest.pmapping.lattice.growth import Growth, Put
from fusiest.pmapping.lattice.layers import Layer, union
from fusiest.pmapping.lattice.move_costs import BUSY, ENERGY, Columns, Costs, Leakage, make_columns
from fusiest.pmapping.lattice.pruning import Pruning
from fusiest.pmapping.lattice.remaining import Cutoff, Outlook
from fusiest.pmapping.lattice.states import Key, Last, Place, Seed, Used
from fusiest.pmapping.lattice.tile_problem import Problem
from fusiest.pmapping.nest.rules import BEYOND, HeldTensor, HolderSource, Nest, Stretch
from fusiest.pmapping.nest.spatial import Fanout, usage
from fusiest.pmapping.pareto import Floats
from fusiest.pmapping.placements.open_choices import Outers, Steps, memory_groups
from fusiest.pmapping.placements.placement import Placement

FIRST_LOOK_CHOICES = 48
"""Number of choices of Spatial loops that a first look takes: those with the most parallelism."""


@dataclass(frozen=True)
class LatticeSpace:
    """The mapspace of one Einsum on one compute, as far as it is searched over tile shapes."""

    nest: Nest
    placements: Sequence[Placement]
    fanouts: Mapping[int, Fanout]
    best: frozenset[tuple[float, ...]] | None
    """Usages of all dimensions that `min_usage` leaves."""
    tracked: frozenset[int]
    """Memories whose bits stay a criterion to the end."""
    leakage: Leakage
    lifted: frozenset[HeldTensor] = frozenset()
    """Nodes that stand above all loops where they are their tensor's outermost."""
    rates: frozenset[str] = frozenset()
    """Components whose throughputs are open: their calls stay criteria to the end."""


class GatedPower:
    """Leakage power as a function of the instances in use."""

    def __init__(self, space: LatticeSpace) -> None:
        self.leakage, self.fanouts, self.levels = space.leakage, space.fanouts, sorted(space.fanouts)
        self.known: dict[Used, float] = {}

    @functools.cached_property
    def least(self) -> float:
        """The least leakage power in watts, whatever is in use."""
        dimensions = [d for level in self.levels for d in self.fanouts[level].dimensions if d.power_gateable]
        return self.leakage({(d.component, d.name): 1 for d in dimensions})

    def __call__(self, used: Used) -> float:
        """Leakage power in watts."""
        if used not in self.known:
            gated = {}
            for level, entry in zip(self.levels[len(self.levels) - len(used) :], used, strict=True):
                dimensions = [d for d in self.fanouts[level].dimensions if d.power_gateable]
                gated.update({(d.component, d.name): int(n) for d, n in zip(dimensions, entry, strict=False)})
            self.known[used] = self.leakage(gated)
        return self.known[used]


class RowLimitReached(Exception):
    """A search has more rows than its limit."""


class Lattice:
    """One run of the search. `cutoff`, `beam`, `hasty`: see `Pruning`. `row_limit`: most rows of all layers together."""

    def __init__(
        self,
        space: LatticeSpace,
        cutoff: Cutoff | None = None,
        beam: int | None = None,
        row_limit: float = math.inf,
        hasty: bool = False,
    ) -> None:
        self.space, self.nest, self.fanouts, self.row_limit = space, space.nest, space.fanouts, row_limit
        self.problem: Problem = space.nest.problem
        self.columns: Columns = make_columns(self.problem, space.rates)
        self.steps = Steps(self.problem, space.placements, space.lifted)
        self.watts = GatedPower(space)  # not a method: with it in `pruning`, a search would hold itself
        self.levels = self.watts.levels
        self.groups = memory_groups(self.problem, space.nest.free)
        self.outlook = Outlook(self.problem, self.columns, Costs(self.problem, self.columns), self.steps, space.fanouts)
        togo = ToGo(space.nest, self.outlook, self.groups, cutoff or Cutoff(), self.watts.least)
        self.pruning = Pruning(
            space.nest, self.outlook, togo, self.watts, cutoff, beam, np.full(2 * len(togo.cutoff.lines), np.inf), hasty
        )
        self._choices: dict[int, list[tuple[tuple[float, ...], Fanout]]] = {}
        self._begin()

    def _begin(self) -> None:
        self.layers: list[Layer] = []
        self.growth = Growth(self.problem, self.layers)
        self.seeds: list[Seed] = []
        self.finals: list[tuple[Key, int]] = []
        """Rows without fused loops."""

    def again(self, cutoff: Cutoff) -> Lattice:
        """Make another run over the same mapspace, with another cutoff."""
        other = copy.copy(self)
        togo = self.pruning.togo
        if not togo.cutoff.has_weights_of(cutoff):
            togo = ToGo(self.nest, self.outlook, self.groups, cutoff, self.watts.least)
        other.pruning = replace(self.pruning, togo=togo, cutoff=cutoff, nearest=np.full(2 * len(cutoff.lines), np.inf))
        other._begin()
        return other

    def forgotten(self) -> Lattice:
        """The same mapspace without rows and costs-to-go."""
        other = copy.copy(self)
        cutoff = Cutoff()
        other.pruning = replace(
            self.pruning, togo=ToGo(self.nest, self.outlook, self.groups, cutoff, self.watts.least), cutoff=cutoff
        )
        other._begin()
        return other

    @property
    def nearest(self) -> Floats:
        """Per line of the cutoff, the least ratio to it of what the cutoff has left out: infinite if that is nothing."""
        return self.pruning.nearest[: len(self.pruning.nearest) // 2]

    # --- the run ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Fill `layers`, `seeds` and `finals`."""
        components = self.problem.path.components
        compute = len(components) - 1
        states = self.begin()
        groups = {group.stop - 1: group for group in self.groups}
        at = compute
        while at > self.steps.outermost:
            if at in groups:
                states = self._group(groups[at], states)
                at = groups[at].start
            if at in self.fanouts:
                states = self._cross(at, states)
            at -= 1
        self._finish(states)

    def _count(self, layers: Iterable[Layer]) -> None:
        self.row_limit -= sum(len(layer.shape) for layer in layers)
        if self.row_limit < 0:
            raise RowLimitReached

    def _add(self, layer: Layer) -> int:
        check()
        self.layers.append(layer)
        return len(self.layers) - 1

    def begin(self) -> dict[Key, int]:
        """Begin at the compute: one operation, no node placed."""
        compute = len(self.problem.path.components) - 1
        action = self.problem.path.compute.actions["compute"]
        skips = self.problem.path.compute.skip_initial_output_write
        criteria = np.zeros(self.columns.count)
        steps = float(self.problem.tiles[0]) * action.actions_scale
        criteria[ENERGY] = steps * action.energy
        for column, busy in enumerate(self.columns.busy, start=BUSY):
            criteria[column] = busy.amount(compute, "compute", steps, action.throughput)
        everything = self.steps.outside(range(len(self.space.placements)), compute)
        zero = np.zeros(1, np.int64)
        states = {}
        tensors = range(len(self.problem.tensors))
        for sources, outers in self.steps.split(everything, tensors, compute, self.outlook.region(compute)):
            paid = criteria + sum(
                self.problem.amounts[t, :, 0] @ self.outlook.weights(t, skips, source) for t, source in sources.items()
            )
            self.pruning.settle(paid[None], compute)
            layer = Layer("begin", None, zero, paid[None], zero - 1, zero, zero - 1, _tolls(sources))
            for alike in self._alike_outside(outers):
                states[Key(alike, None, (), frozenset(), frozenset())] = self._add(layer)
        return states

    def _alike_outside(self, outers: Outers) -> list[Outers]:
        """Split placements by where tensors come from beyond each fanout, where there is a cutoff.

        That makes more states, but what remains for each is known better.
        """
        split = [outers]
        if self.pruning.cutoff is not None and len(self.pruning.cutoff.lines):
            tensors = range(len(self.problem.tensors))
            for level in self.levels:
                split = [same for part in split for _, same in self.steps.split(part, tensors, level, 0)]
        return split

    # --- memories -----------------------------------------------------------------------------------------------------

    def _group(self, memories: range, states: dict[Key, int]) -> dict[Key, int]:
        """Place all nodes of a memory group, in every order that they may stand in."""
        region = self.outlook.region(memories.start)
        begun: dict[tuple[Stretch, Key], list[tuple[Last | None, int]]] = {}
        reached: dict[Key, list[int]] = {}
        for key, state in states.items():
            outers = self.steps.outside(key.outers, memories.stop)
            for stretch, still_open in self.steps.stretches(outers, memories, region):
                lasting = {t for m, t in stretch.on_top if self.nest.keeps(HeldTensor(m, t), stretch)}
                after = Key(still_open, None, key.used, key.on_top | stretch.on_top, key.kept | lasting)
                begun.setdefault((stretch, after), []).append((key.last, state))
        for (stretch, after), starts in begun.items():
            for last, state in self._orders(stretch, after, starts):
                reached.setdefault(after._replace(last=last), []).append(state)
        return {key: self._close(memories, ways) for key, ways in reached.items()}

    def _orders(
        self, stretch: Stretch, after: Key, begun: list[tuple[Last | None, int]]
    ) -> Iterator[tuple[Last | None, int]]:
        """Place the nodes of a memory group in every order."""
        frontier: dict[Place, list[int]] = {}
        for last, state in begun:
            frontier.setdefault(Place(frozenset(), last, self.nest.order_options(stretch)), []).append(state)
        for count in range(len(stretch.holders)):
            reached: dict[Place, list[Layer]] = {}
            for place, ways in frontier.items():
                for holder, options in self.nest.followers(place.placed, place.options, stretch):
                    check()
                    put = self._put(stretch, holder, place, after)
                    layers = [layer for state in ways for layer in self.growth.placed(put, state)]
                    self._count(layers)
                    placed = place.placed | {holder}
                    if stretch.is_backing(holder) and self.nest.is_shared(holder.tensor):
                        self._seed(Seed(-1, holder, stretch, placed, options, after), layers)
                        continue
                    last = Last(holder, self.nest.hoists(holder, stretch))
                    complete = count + 1 == len(stretch.holders)
                    reached.setdefault(Place(placed, last, () if complete else options), []).extend(layers)
            merged = {
                place: self.pruning.merged(layers, stretch, after, place.placed, place.last)
                for place, layers in reached.items()
            }
            frontier = {place: [self._add(layer)] for place, layer in self.pruning.going_on(merged).items()}
        for place, ways in frontier.items():
            for state in ways:
                yield place.last, state

    def _limits(self, stretch: Stretch) -> Floats:
        """The most that each criterion may be: persistent tensors take their part of the memories."""
        limits = np.full(self.columns.count, np.inf)
        for m in stretch.memories:
            column = self.columns.bits_column(m)
            if column is not None:
                persistent = sum(self.nest.persistent_bits(h) for h in stretch.on_top if h.memory == m)
                limits[column] = self.problem.path.components[m].size - persistent
        return limits

    def _put(self, stretch: Stretch, holder: HeldTensor, place: Place, after: Key) -> Put:
        """Collect what is needed to place a node."""
        last = place.last.holder if place.last is not None and place.last.hoists else None
        growing = self.nest.growing(holder, place.placed, last, after.kept, stretch)
        allowed = self.nest.allowed(holder, place.placed, stretch)
        whole = self.nest.whole(holder, stretch) | self._settled_loops(stretch, holder, place, after)
        if whole:
            complete = np.logical_and.reduce([self.problem.complete[v] for v in whole])
            allowed = complete if allowed is None else allowed & complete
        weights, limits = self.outlook.holder_weights(stretch, holder), self._limits(stretch)
        backing = stretch.is_backing(holder)
        tolls = () if backing else _tolls({holder.tensor: stretch.sources[holder]})
        ahead = self.pruning.ahead(stretch, after, place, holder, growing)
        return Put(holder, weights, limits, growing, whole, allowed, not backing, tolls, ahead)

    def _settled_loops(self, stretch: Stretch, holder: HeldTensor, place: Place, after: Key) -> frozenset[int]:
        """Variables that can have no loop above the node because it is the last one below those on top."""
        backing = stretch.is_backing(holder) and self.nest.is_shared(holder.tensor)
        if backing or len(place.placed) + 1 < len(stretch.holders) or self.outlook.region(stretch.memories.start):
            return frozenset()
        growing = frozenset[int]()
        for outer in after.outers:
            extended = self.steps.extended(outer, stretch)
            if len(extended.holders) > len(stretch.holders):
                return frozenset()
            last = holder if self.nest.hoists(holder, stretch) else None
            growing |= self.nest.finishing(last, after.kept, extended, frozenset(stretch.holders))
        return frozenset(v for v in range(len(self.problem.variables)) if v not in growing)

    def _close(self, memories: range, ways: list[int]) -> int:
        """Drop the bits of memories that no other Einsum's data can share: once they fit, they matter no more."""
        closed = [
            column
            for m in memories
            if m not in self.space.tracked and (column := self.columns.bits_column(m)) is not None
        ]
        layers = []
        for state in ways:
            layer = self.layers[state]
            criteria = layer.criteria.copy()
            criteria[:, closed] = 0
            self.pruning.settle(criteria, memories.start)
            count = len(criteria)
            source, rows = np.full(count, state), np.arange(count)
            layers.append(Layer("close", None, layer.shape, criteria, source, rows, np.full(count, -1)))
        return self._add(union(layers))

    # --- fanouts ------------------------------------------------------------------------------------------------------

    def _cross(self, level: int, states: dict[Key, int]) -> dict[Key, int]:
        """Put every choice of Spatial loops on a fanout."""
        region = self.outlook.region(level - 1)
        reached: dict[Key, list[Layer]] = {}
        for key, state in states.items():
            for used, fanout in self._by_use(level, key):
                if self.pruning.beam is not None:
                    fanout = fanout.take(np.arange(min(len(fanout), FIRST_LOOK_CHOICES)))
                crossing = Crossing(self.outlook, state, self.layers[state], fanout)
                outside = self.steps.outside(key.outers, level)
                for sources, outers in self.steps.split(outside, self._carried(key, level), level, region):
                    check()
                    after = key._replace(outers=outers, used=used)
                    layer = crossing.layer_above(sources, self.pruning.beaten(level, after))
                    self._count([layer])
                    self.pruning.settle(layer.criteria, level)
                    reached.setdefault(after, []).append(layer)
        crossed = {}
        for key, layers in reached.items():
            whole = self.pruning.crossed(layers, level, key)
            if len(whole.shape):
                crossed[key] = self._add(whole)
        return crossed

    def _carried(self, key: Key, level: int) -> list[int]:
        """Tensors whose traffic is still to be paid: their next node is outside of the fanout."""
        outer = next(iter(key.outers))
        region = self.outlook.region(level)
        return [
            t for t in range(len(self.problem.tensors)) if self.steps.source(outer, t, level, region).memory == BEYOND
        ]

    def _by_use(self, level: int, key: Key) -> Iterator[tuple[Used, Fanout]]:
        """Group choices by what leakage and `min_usage` depend on."""
        for use, fanout in self._uses(level):
            after = (use, *key.used)
            if not self._several or self._can_be_best(after):
                yield after, fanout

    def _uses(self, level: int) -> list[tuple[tuple[float, ...], Fanout]]:
        if level not in self._choices:
            fanout = self.fanouts[level]
            gated = [i for i, d in enumerate(fanout.dimensions) if d.power_gateable]
            if len(fanout) and not gated and not self._several:
                self._choices[level] = [((), fanout)]
                return self._choices[level]
            choices: dict[tuple[float, ...], list[int]] = {}
            for i, used in enumerate(fanout.used.tolist()):
                use = tuple(float(used[n]) for n in gated)
                choices.setdefault(use + (usage(fanout.dimensions, used) if self._several else ()), []).append(i)
            self._choices[level] = [(use, fanout.take(np.array(n, np.int64))) for use, n in choices.items()]
        return self._choices[level]

    @property
    def _several(self) -> bool:
        """Whether `min_usage` leaves several usages."""
        return self.space.best is not None and len(self.space.best) > 1

    def _can_be_best(self, used: Used) -> bool:
        """Whether usages of inner fanouts are part of some that `min_usage` leaves."""
        assert self.space.best is not None
        inner_usages: tuple[float, ...] = ()
        for level, entry in zip(self.levels[-len(used) :], used, strict=True):
            inner_usages += entry[-len(self.fanouts[level].dimensions) :]
        return any(usages[len(usages) - len(inner_usages) :] == inner_usages for usages in self.space.best)

    # --- the ends -----------------------------------------------------------------------------------------------------

    def _seed(self, seed: Seed, layers: list[Layer]) -> None:
        """Record that the innermost shared backing node is placed: all nodes above it are the fused part."""
        merged = self.pruning.merged(layers, seed.stretch, seed.key, seed.placed, None)
        if len(merged.shape):
            seed.layer = self._add(merged)
            self.seeds.append(seed)

    def _finish(self, states: dict[Key, int]) -> None:
        """Grow to the whole Einsum below the outermost memory, where no shared tensor is backed on chip."""
        p, outermost = self.problem, self.steps.outermost
        reached: dict[Key, list[Layer]] = {}
        for key, state in states.items():
            outers = self.steps.outside(key.outers, outermost + 1)
            for stretch, _ in self.steps.stretches(outers, range(outermost, outermost + 1), 0):
                last = key.last.holder if key.last is not None and key.last.hoists else None
                growing = self.nest.finishing(last, key.kept, stretch, frozenset())
                layer = self.layers[state]
                complete = np.ones(len(layer.shape), np.bool_)
                for v in range(len(p.variables)):
                    if v not in growing:
                        complete &= p.complete[v][layer.shape]
                rows = np.flatnonzero(complete)
                full = np.full(len(rows), p.shapes - 1)
                source, note = np.full(len(rows), state), np.full(len(rows), -1)
                after = Key(frozenset(), None, key.used, key.on_top | stretch.on_top, frozenset())
                finished = Layer("finish", None, full, layer.criteria[rows], source, rows, note)
                reached.setdefault(after, []).append(finished)
        for key, layers in reached.items():
            merged = union(layers)
            if len(merged.shape):
                self.finals.append((key, self._add(merged)))


def _tolls(sources: Mapping[int, HolderSource]) -> tuple[HeldTensor, ...]:
    return tuple(HeldTensor(toll, t) for t, source in sources.items() for toll in source.tolls)
