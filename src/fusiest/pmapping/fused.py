"""The fused part of a nest: what stands above the innermost shared backing holder.

The tile at that holder is the innermost fused tile of each variable. With at most one fused loop per rank variable, the
place of each loop then fixes everything above it; where more are allowed, all chains of tiles further out are added to
the rows. So we enumerate structures (`fused_structures`); costs are computed for all rows at once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator

import numpy as np

from fusiest.interrupt import check
from fusiest.pmapping.costs import BUSY, ENERGY, finish
from fusiest.pmapping.factors import divisors
from fusiest.pmapping.fused_kernels import assemble
from fusiest.pmapping.fused_structures import Above, LoopSet, Situation, Structures
from fusiest.pmapping.fused_tiles import split_members, with_chains
from fusiest.pmapping.gathered import Ancestry, FusedRows, Gathered, Piece
from fusiest.pmapping.lattice import Lattice
from fusiest.pmapping.nest import HeldTensor
from fusiest.pmapping.pareto import Floats, Ints
from fusiest.pmapping.problem import FOOTPRINT
from fusiest.pmapping.spatial import satisfies
from fusiest.pmapping.states import Seed
from fusiest.pmapping.table import Backing, Compatibility, FusedLimits, FusedLoop, Holding, make_compatibility


def persistent_bits(search: Lattice, memories: tuple[int, ...], on_top: Iterable[HeldTensor], shared: bool) -> Floats:
    """Bits of persistent tensors per memory: those of this Einsum alone, or those that are shared."""
    nest, persistent = search.nest, search.problem.info.persistent
    own = [
        h for h in on_top if search.problem.tensors[h.tensor].name in persistent and nest.is_shared(h.tensor) == shared
    ]
    return np.array([sum(nest.persistent_bits(h) for h in own if h.memory == m) for m in memories], np.float64)


def top_bits(search: Lattice, memories: tuple[int, ...], on_top: Iterable[HeldTensor]) -> Floats:
    """Bits per memory that tensors of this Einsum alone take above all loops, unless they are persistent."""
    p, found = search.problem, np.zeros(len(memories))
    for m, t in on_top:
        name = p.tensors[t].name
        if m in memories and not search.nest.is_shared(t) and name not in p.info.persistent:
            bits = p.path.components[m].bits_per_value[name]
            found[memories.index(m)] += float(p.amounts[t, FOOTPRINT, -1]) * bits
    return found


class FusedPart:
    """All fused parts above one seed, for one way to hold tensors further out."""

    def __init__(
        self,
        search: Lattice,
        seed: Seed,
        outer: int,
        memories: tuple[int, ...],
        limits: FusedLimits,
    ) -> None:
        self.search, self.seed, self.memories, self.limits = search, seed, memories, limits
        self.problem, nest = search.problem, search.nest
        stretch = search.steps.outer_part(outer, seed.stretch)
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
        nothing = np.zeros((2, len(self.columns) - 1))
        weights = (search.outlook.holder_weights(stretch, h)[:2, self.columns[:-1]] for h in remaining)
        self.prices = np.array([nothing, *weights])
        """Per value of traffic and of first pass: the seed, whose costs are known, then the remaining holders."""
        own, shared = (persistent_bits(search, memories, self.on_top, shared=which) for which in (False, True))
        self.fixed = np.column_stack([own, top_bits(search, memories, self.on_top)]).reshape(-1, 2)
        self.room = np.array([self.problem.path.components[m].size for m in memories]) - own - shared
        """Per memory, what persistent tensors leave."""

    def gather(self, found: dict[object, Gathered], prune: bool) -> None:
        """Add the rows of every compatibility."""
        p = self.problem
        members = [m for v in p.variables for m in v.members]
        bounds = np.array([p.info.bounds[m] for m in members], np.int64)
        layer = self.search.layers[self.seed.layer]
        rows, tiles = split_members(p, layer.shape, p.tensors[self.seed.holder.tensor].full)
        codes = (tiles < bounds) @ (1 << np.arange(len(members)))
        unfused = self.situation.nest.unfused(self.seed.holder, self.situation.stretch)
        barred = sum(1 << i for i, m in enumerate(members) if m in unfused)
        for code in np.unique(codes[codes & barred == 0]):
            which = np.flatnonzero(codes == code)
            for counts in self._counts([i for i in range(len(members)) if code >> i & 1]):
                loops = tuple(FusedLoop(members[i], n) for i, count in counts.items() for n in range(count))
                chosen = tiles[which][:, list(counts)]
                own, chains = with_chains(chosen, bounds[list(counts)], list(counts.values()))
                if len(own):
                    _LoopClass(self, loops, rows[which[own]], chains).gather(found, prune)

    def _counts(self, incomplete: list[int]) -> Iterator[dict[int, int]]:
        """How many fused loops each of these members may have. Of one gap, only one loop is over a given variable."""
        most = min(self.limits.per_variable, len(self.situation.remaining) + 1)
        for counts in itertools.product(range(1, most + 1), repeat=len(incomplete)):
            if self.limits.loops is None or sum(counts) <= self.limits.loops:
                yield dict(zip(incomplete, counts, strict=True))


class _LoopClass:
    """Rows of a seed's layer that have exactly these fused loops, with the tile of each."""

    def __init__(self, part: FusedPart, loops: tuple[FusedLoop, ...], rows: Ints, tiles: Ints) -> None:
        self.part, self.problem = part, part.problem
        self.structures = Structures(part.situation, loops)
        self.found = list(self.structures)
        self.fused = FusedRows(part.seed.layer, loops, rows, tiles, self._groups(loops, tiles))
        criteria = part.search.layers[part.seed.layer].criteria[rows]
        self.base = np.ascontiguousarray(criteria[:, part.columns].T)
        points = {self.structures.everything: 0}
        for above in itertools.chain.from_iterable(self.found):
            points.setdefault(above.loops, len(points))
            points.setdefault(above.space, len(points))
        self.points: dict[LoopSet, int] = points
        """Where holders and their space stand: a number for the loops above."""
        self.shapes: Ints = np.array([self._shape(above) for above in points])
        self.space = self._space(criteria)

    def _groups(self, loops: tuple[FusedLoop, ...], tiles: Ints) -> Ints:
        number = np.zeros(len(tiles), np.int64)
        for loop, tile in zip(loops, tiles.T, strict=True):
            options = divisors(self.problem.info.bounds[loop.variable])
            number = number * len(options) + np.searchsorted(options, tile)
        return number

    def _space(self, criteria: Floats) -> Floats:
        """Per memory to track and row, bits inside all fused loops, but for the seed's own."""
        part, columns = self.part, self.part.search.columns
        space = np.zeros((len(part.memories), len(criteria)))
        for i, m in enumerate(part.memories):
            column = columns.bits_column(m)
            if column is not None:
                space[i] = criteria[:, column]
            if m == part.seed.holder.memory:
                footprint = self.problem.amounts[part.seed.holder.tensor, FOOTPRINT, self.shapes[0]]
                space[i] -= footprint * self._bits(part.seed.holder)
        return space

    def _bits(self, holder: HeldTensor) -> float:
        component = self.problem.path.components[holder.memory]
        return float(component.bits_per_value[self.problem.tensors[holder.tensor].name])

    # --- amounts ------------------------------------------------------------------------------------------------------

    def _shape(self, above: LoopSet) -> Ints:
        """The tile shape below these loops."""
        p = self.problem
        shape = np.full(len(self.fused.rows), p.shapes - 1)
        innermost = {loop.variable: i for i, loop in enumerate(self.fused.loops) if above >> i & 1}
        for variable, stride in zip(p.variables, p.strides, strict=True):
            own = [innermost[m] for m in variable.members if m in innermost]
            if own:
                whole = math.prod(p.info.bounds[m] for m in variable.members if m not in innermost)
                extent = math.prod((self.fused.tiles[:, i] for i in own), start=whole)
                shape += (np.searchsorted(variable.divisors, extent) - (variable.radix - 1)) * stride
        return shape

    # --- rows ---------------------------------------------------------------------------------------------------------

    def gather(self, found: dict[object, Gathered], prune: bool) -> None:
        """Add the rows of every structure to those of its compatibility."""
        part, everything = self.part, self.structures.everything
        for structure in self.found:
            check()
            levels = {0, everything}  # a holder between loops fixes which are above it, whatever its memory's size
            for holder, above, space in structure:
                levels |= {above, above | (space & self.structures.full[holder.tensor]), space}
            chain = sorted(levels, key=int.bit_count)
            held = [Above(part.seed.holder, everything, everything), *structure]
            piece = self._piece(held, chain)
            if piece is not None:
                meeting = tuple(sorted(above for above in held if self._meets(above)))
                key = self.fused.loops, tuple(chain), meeting, part.exchanged_on_top
                if key not in found:
                    found[key] = Gathered(self._compatibility(meeting, chain))
                found[key].add(piece, prune)

    def _meets(self, above: Above) -> bool:
        """Whether a holder's space is counted when joining: of a shared tensor, exchanged here or held above a fused loop."""
        backing = self.part.situation.stretch.is_backing(above.holder)
        meets = backing or above.loops != self.structures.everything
        return meets and self.part.search.nest.is_shared(above.holder.tensor)

    def _compatibility(self, meeting: tuple[Above, ...], chain: list[LoopSet]) -> Compatibility:
        names, components = [t.name for t in self.problem.tensors], self.problem.path.components
        depth = {loops: z for z, loops in enumerate(chain)}
        zones = [tuple(sorted(self.structures.named(inner ^ outer))) for outer, inner in itertools.pairwise(chain)]
        backings = [Backing(names[t], components[m].name, 0) for m, t in self.part.exchanged_on_top]
        holdings = []
        for (m, t), above, space in meeting:
            if self.part.situation.stretch.is_backing(HeldTensor(m, t)):
                backings.append(Backing(names[t], components[m].name, depth[space]))
            else:
                holdings.append(Holding(names[t], components[m].name, depth[above], depth[space]))
        return make_compatibility(zones, backings, holdings)

    def _piece(self, held: list[Above], chain: list[LoopSet]) -> Piece | None:
        """Rows of one structure; None if none fits."""
        part = self.part
        holders = np.empty((len(held), 4), np.int64)
        reserved = np.empty((len(held), 3))
        for i, above in enumerate(held):
            holder = above.holder
            memory = part.memories.index(holder.memory) if holder.memory in part.memories else -1
            number = 1 + part.situation.remaining.index(holder) if i else 0
            zone = -1 if self._meets(above) else chain.index(above.space)
            holders[i] = number, holder.tensor, self.points[above.loops], self.points[above.space]
            reserved[i] = memory, zone, self._bits(holder)
        out = np.empty((len(self.fused.rows), 2 + len(part.memories) * (len(chain) + 1)))
        scale = np.array([part.search.watts(part.seed.key.used), self.problem.info.n_instances])
        which = assemble(
            self.base, self.space, self.problem.amounts, self.shapes, holders, part.prices, reserved, part.room,
            part.fixed, scale, out,
        )  # fmt: skip
        out = out[: len(which)]
        if any(busy.counts for busy in part.search.columns.busy):
            out[:, 0], out[:, 1] = self._costs(which, holders, scale[0])
        met = self._tile_shapes_met(held)
        if met is not None:
            good = met[which]
            which, out = which[good], out[good]
        if not len(which):
            return None
        over = tuple((own.holder, self.structures.named(own.loops)) for own in held[1:])
        return Piece(self.fused, Ancestry(part.on_top, over, part.tolls), which, out.copy())

    def _costs(self, which: Ints, holders: Ints, watts: float) -> tuple[Floats, Floats]:
        """Energy and latency where `total_latency` is an expression of its own kind."""
        criteria = np.zeros((len(which), self.part.search.columns.count))
        criteria[:, self.part.columns] = self.base[:, which].T
        for number, tensor, point, _ in holders.tolist():
            amounts = self.problem.amounts[tensor][:FOOTPRINT, self.shapes[point, which]]
            criteria[:, self.part.columns[:-1]] += amounts.T @ self.part.prices[number]
        return finish(self.problem, self.part.search.columns, criteria, watts)

    def _tile_shapes_met(self, held: list[Above]) -> np.ndarray | None:
        """Rows that obey `tile_shape` at the outermost holder of each memory, where that stands in the fused part."""
        nest, stretch = self.part.situation.nest, self.part.situation.stretch
        met: np.ndarray | None = None
        for number, (holder, loops, _) in enumerate(held[1:], start=2):
            comparisons = nest.tile_shape(holder, (above.holder for above in held[number:]), stretch)
            if not comparisons:
                continue
            names = list(self.problem.info.bounds)
            at = np.tile(np.array(list(self.problem.info.bounds.values())), (len(self.fused.rows), 1))
            for i, loop in enumerate(self.fused.loops):
                if loops >> i & 1:
                    at[:, names.index(loop.variable)] = self.fused.tiles[:, i]
            extents, inverse = np.unique(at, axis=0, return_inverse=True)
            named = [dict(zip(names, row, strict=True)) for row in extents.tolist()]
            own = np.array([all(satisfies(c, values) for c in comparisons) for values in named])[inverse.reshape(-1)]
            met = own if met is None else met & own
        return met
