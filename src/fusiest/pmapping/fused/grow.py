"""The fused part of a nest: the nodes and loops above the innermost shared backing node.

The tile at that node is the innermost fused tile of each variable. With at most one fused loop per rank variable, the
place of each loop then fixes everything above it; where more are allowed, all chains of tiles further out are added to
the rows. So we enumerate structures (`structures`, `structure_plans`); costs are computed for all rows at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from fusiest.base.interrupt import check
from fusiest.pmapping.fused.by_compatibility import Ancestry, FusedOrigin, FusedRows, Gathered, Piece
from fusiest.pmapping.fused.fused_tiles import FusedTiles, TileClass
from fusiest.pmapping.fused.kernels import HoldersAbove, SeedRows, assemble
from fusiest.pmapping.fused.structure_plans import FusedLayout, FusedPlan, bits_per_value
from fusiest.pmapping.fused.structures import Situation
from fusiest.pmapping.lattice.move_costs import BUSY, ENERGY
from fusiest.pmapping.lattice.states import Seed
from fusiest.pmapping.lattice.tile_problem import FOOTPRINT
from fusiest.pmapping.lattice.tile_search import Lattice
from fusiest.pmapping.nest.rules import HeldTensor
from fusiest.pmapping.pareto import Floats, Ints
from fusiest.pmapping.reuse.symbolic_throughput import closed_costs, open_costs


def persistent_bits(search: Lattice, memories: tuple[int, ...], on_top: Iterable[HeldTensor], shared: bool) -> Floats:
    """Bits of persistent tensors per memory: those of this Einsum alone, or those that are shared."""
    nest, persistent = search.nest, search.problem.info.persistent
    holders = [
        h for h in on_top if search.problem.tensors[h.tensor].name in persistent and nest.is_shared(h.tensor) == shared
    ]
    return np.array([sum(nest.persistent_bits(h) for h in holders if h.memory == m) for m in memories], np.float64)


def top_bits(search: Lattice, memories: tuple[int, ...], on_top: Iterable[HeldTensor]) -> Floats:
    """Bits per memory that tensors of this Einsum alone take above all loops, unless they are persistent."""
    p, bits = search.problem, np.zeros(len(memories))
    for m, t in on_top:
        name = p.tensors[t].name
        if m in memories and not search.nest.is_shared(t) and name not in p.info.persistent:
            width = p.path.components[m].bits_per_value[name]
            bits[memories.index(m)] += float(p.amounts[t, FOOTPRINT, -1]) * width
    return bits


class FusedPart:
    """All fused parts above one seed, for one way to hold tensors further out."""

    def __init__(
        self,
        search: Lattice,
        seed: Seed,
        outer: int,
        memories: tuple[int, ...],
        tiles: FusedTiles,
    ) -> None:
        self.search, self.seed, self.memories, self.tiles = search, seed, memories, tiles
        self.problem, nest = search.problem, search.nest
        stretch = search.steps.extended(outer, seed.stretch)
        remaining = tuple(h for h in stretch.holders if h not in seed.placed)
        options = dict(zip(stretch.memories, nest.order_options(stretch), strict=True))
        options.update(zip(seed.stretch.memories, seed.options, strict=True))
        orders = nest.orders(frozenset(seed.placed), tuple(options.values()), stretch)
        self.situation = Situation(nest, stretch, remaining, tuple(orders), seed.key.kept, frozenset(memories))
        self.on_top = seed.key.on_top | stretch.on_top
        self.tolls = tuple(HeldTensor(toll, h.tensor) for h in remaining for toll in stretch.sources[h].tolls)
        self.exchanged_on_top = tuple(sorted(h for h in self.on_top if nest.is_shared(h.tensor)))
        columns = search.columns
        self.columns = [ENERGY, *range(BUSY, columns.time), columns.time]
        zeros = np.zeros((2, len(self.columns) - 1))
        weights = (search.outlook.holder_weights(stretch, h)[:2, self.columns[:-1]] for h in remaining)
        self.prices = np.array([zeros, *weights])
        """Per value of traffic and of first pass: the seed, whose costs are known, then the remaining holders."""
        alone, shared = (persistent_bits(search, memories, self.on_top, shared=flag) for flag in (False, True))
        self.fixed = np.column_stack([alone, top_bits(search, memories, self.on_top)]).reshape(-1, 2)
        self.room = np.array([self.problem.path.components[m].size for m in memories]) - alone - shared
        """Per memory, what persistent tensors leave."""

    def gather(self, groups: dict[object, Gathered], prune: bool) -> None:
        """Add the rows of every compatibility."""
        nest, stretch, tensor = self.situation.nest, self.situation.stretch, self.seed.holder.tensor
        number = np.searchsorted(self.tiles.shapes[tensor], self.search.layers[self.seed.layer].shape)
        unfused = nest.unfused(self.seed.holder, stretch)
        for tile_class in self.tiles.classes(tensor, unfused, len(self.situation.remaining)):
            count = int((tile_class.first[number + 1] - tile_class.first[number]).sum())
            if count:
                self._gather(tile_class, number, count, groups, prune)

    def _gather(
        self, tile_class: TileClass, number: Ints, count: int, groups: dict[object, Gathered], prune: bool
    ) -> None:
        """Add the rows of every structure to those of its compatibility. `number`: of the tile shape of each row."""
        plan = self._plan(tile_class)
        for layout in plan.layouts:
            check()
            rows = self._rows(tile_class, number, plan.shapes, layout, count)
            if rows is not None:
                key = tile_class.loops, layout.chain, layout.meeting, self.exchanged_on_top
                if key not in groups:
                    groups[key] = Gathered(plan.compatibility(layout, self.exchanged_on_top))
                origin = FusedOrigin(self.seed.layer, Ancestry(self.on_top, layout.above, self.tolls))
                groups[key].add(Piece(origin, tile_class, rows), prune)

    def _plan(self, tile_class: TileClass) -> FusedPlan:
        plans, key = self.tiles.plans, (id(tile_class), self.seed.holder, self.situation.key)
        if key not in plans:
            plans[key] = FusedPlan(self.situation, self.seed.holder, self.memories, tile_class)
        plan: FusedPlan = plans[key]
        return plan

    # --- rows ---------------------------------------------------------------------------------------------------------

    @cached_property
    def _base(self) -> Floats:
        """Per row of the seed, energy, busy times and time."""
        return np.ascontiguousarray(self.search.layers[self.seed.layer].criteria[:, self.columns])

    @cached_property
    def _space(self) -> Floats:
        """Per row of the seed and memory to track, bits inside all fused loops, but for the seed's own."""
        layer, columns = self.search.layers[self.seed.layer], self.search.columns
        space = np.zeros((len(layer.shape), len(self.memories)))
        for i, m in enumerate(self.memories):
            column = columns.bits_column(m)
            if column is not None:
                space[:, i] = layer.criteria[:, column]
            if m == self.seed.holder.memory:
                footprint = self.problem.amounts[self.seed.holder.tensor, FOOTPRINT, layer.shape]
                space[:, i] -= footprint * bits_per_value(self.problem, self.seed.holder)
        return space

    @cached_property
    def _scale(self) -> Floats:
        """Watts of leakage, number of instances."""
        return np.array([self.search.watts(self.seed.key.used), self.problem.info.n_instances], np.float64)

    def _rows(
        self, tile_class: TileClass, number: Ints, shapes: Ints, layout: FusedLayout, count: int
    ) -> FusedRows | None:
        """Rows of one structure, at most `count` of them; None if none fits."""
        out = self.tiles.space(count, 2 + len(self.memories) * (len(layout.chain) + 1))
        seed = SeedRows(number, tile_class.first, self._base, self._space)
        above = HoldersAbove(self.problem.amounts, shapes, layout.holders, self.prices, layout.reserved)
        fitting = assemble(seed, above, self.room, self.fixed, self._scale, out)
        if not fitting:
            return None
        rows = FusedRows(out[0][:fitting].copy(), out[1][:fitting].copy(), out[2][:fitting].copy())
        if self._expressed:
            amounts, watts = self._amounts(rows, shapes, layout.holders), float(self._scale[0])
            rows.criteria[:, :2] = np.column_stack(closed_costs(self.search, amounts, watts))
            rows = rows._replace(criteria=np.column_stack([rows.criteria, open_costs(self.search, amounts, watts)]))
        if layout.met is not None:
            rows = rows.take(np.flatnonzero(layout.met[rows.tiles]))
        good = self.search.pruning.final(rows.criteria[:, 0], rows.criteria[:, 1])
        if good is not None:
            rows = rows.take(np.flatnonzero(good))
        return rows if len(rows.row) else None

    @cached_property
    def _expressed(self) -> bool:
        """Whether some `total_latency` is an expression of its own kind, or open."""
        return any(busy.counts for busy in self.search.columns.busy)

    def _amounts(self, rows: FusedRows, shapes: Ints, holders: Ints) -> Floats:
        """All criteria of the search, for these rows."""
        criteria = np.zeros((len(rows.row), self.search.columns.count))
        criteria[:, self.columns] = self._base[rows.row]
        for number, tensor, point, _ in holders.tolist():
            amounts = self.problem.amounts[tensor][:FOOTPRINT, shapes[point, rows.tiles]]
            criteria[:, self.columns[:-1]] += amounts.T @ self.prices[number]
        return criteria
