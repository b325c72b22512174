"""The fused part of a nest: what stands above the innermost shared backing holder.

The tile at that holder is the innermost fused tile of each variable. With at most one fused loop per rank variable, the
place of each loop then fixes everything above it; where more are allowed, all chains of tiles further out are added to
the rows. So we enumerate orders of the remaining holders and, for each, which loops are above it; costs are computed for
all rows at once, and once per (holder, loops above it).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from fusiest.interrupt import check
from fusiest.pmapping.costs import finish
from fusiest.pmapping.fused_tiles import split_members, with_chains
from fusiest.pmapping.layers import Holder, Seed
from fusiest.pmapping.pareto import Floats, Ints
from fusiest.pmapping.search import Search
from fusiest.pmapping.spatial import satisfies
from fusiest.pmapping.table import Backing, Compatibility, FusedLimits, FusedLoop, Holding, Rows, make_compatibility

Cut = frozenset[FusedLoop]
"""The fused loops above a point."""


@dataclass(frozen=True)
class Piece:
    """Rows of one form from one seed, with the holders above the seed and the loops above each."""

    form: Compatibility
    rows: Rows
    above: tuple[tuple[Holder, Cut], ...]


def persistent_columns(search: Search, memories: tuple[int, ...], count: int) -> Floats:
    """Bits of persistent tensors of this Einsum alone, per row and memory."""
    return np.tile([search.nest.persistent_bits(memory, shared=False) for memory in memories], (count, 1)).reshape(
        count, -1
    )


def _is_gap(above: Cut, loops: Cut) -> bool:
    """Whether loops may stand in one gap below others: one over a variable, and that the next one of it."""
    return all(loop.number == sum(o.variable == loop.variable for o in above) for loop in loops)


class FusedPart:
    """All fused parts above one seed."""

    def __init__(
        self,
        search: Search,
        seed: Seed,
        memories: tuple[int, ...],
        limits: FusedLimits,
        agreed: Mapping[str, frozenset[str]],
    ) -> None:
        self.search, self.seed, self.memories, self.limits = search, seed, memories, limits
        self.agreed = agreed
        self.problem = search.problem
        self.members = [m for v in self.problem.variables for m in v.members]
        self.variable_of = {m: i for i, v in enumerate(self.problem.variables) for m in v.members}
        layer = search.layers[seed.layer]
        relevant = self.problem.tensors[seed.holder[1]].full
        self.rows, self.tiles = split_members(self.problem, layer.shape, relevant)
        self.criteria = layer.criteria[self.rows]
        self.bounds = np.array([self.problem.info.bounds[m] for m in self.members], np.int64)
        self.persistent = persistent_columns(search, memories, 1)
        shared = [search.nest.persistent_bits(memory, shared=True) for memory in memories]
        sizes = [self.problem.path.components[memory].size for memory in memories]
        self.room = np.array(sizes) - self.persistent[0] - np.array(shared)
        """Per memory, what persistent tensors leave."""

    def pieces(self) -> Iterator[Piece]:
        """Rows by the variables that have fused loops, by how many each has, and by the structure above the seed."""
        incomplete = self.tiles < self.bounds
        codes = incomplete @ (1 << np.arange(len(self.members)))
        for code in np.unique(codes):
            rows = np.flatnonzero(codes == code)
            for counts in self._counts([i for i in range(len(self.members)) if code >> i & 1]):
                own, tiles = self._with_chains(rows, counts)
                loops = tuple(FusedLoop(self.members[i], n) for i, count in counts.items() for n in range(count))
                if len(own):
                    yield from _LoopClass(self, loops, own, tiles).pieces()

    def _counts(self, incomplete: list[int]) -> Iterator[dict[int, int]]:
        """How many fused loops each of these members may have. Of one gap, only one loop is over a given variable."""
        most = min(self.limits.per_variable, len(self.seed.remaining) + 1)
        for counts in itertools.product(range(1, most + 1), repeat=len(incomplete)):
            if self.limits.loops is None or sum(counts) <= self.limits.loops:
                yield dict(zip(incomplete, counts, strict=True))

    def _with_chains(self, rows: Ints, counts: dict[int, int]) -> tuple[Ints, Ints]:
        """Rows with all chains of as many fused loops: row numbers, and tiles (rows × loops)."""
        own, tiles = with_chains(self.tiles[rows][:, list(counts)], self.bounds[list(counts)], list(counts.values()))
        return rows[own], tiles


class _LoopClass:
    """Rows that have exactly these fused loops, with the tile of each."""

    def __init__(self, part: FusedPart, loops: tuple[FusedLoop, ...], rows: Ints, tiles: Ints) -> None:
        self.part, self.loops, self.rows, self.tiles = part, loops, rows, tiles
        self.columns: list[Floats] = list(np.ascontiguousarray(tiles.T, np.float64))
        self.problem, self.search = part.problem, part.search
        self.several = any(loop.number for loop in loops)
        self.criteria = part.criteria[rows]
        self.cache: dict[tuple[Holder, Cut], tuple[Floats, Floats]] = {}

    def full(self, holder: Holder) -> Cut:
        """Loops whose variable indexes the holder's tensor fully."""
        full = self.problem.tensors[holder[1]].full
        return frozenset(loop for loop in self.loops if self.part.variable_of[loop.variable] in full)

    def partial(self, holder: Holder) -> Cut:
        partial = self.problem.tensors[holder[1]].partial
        return frozenset(loop for loop in self.loops if self.part.variable_of[loop.variable] in partial)

    def pieces(self) -> Iterator[Piece]:
        everything = frozenset(self.loops)
        for order in self._orders():
            for cuts in self._cuts(order, everything):
                if self._resends(order, cuts):
                    continue
                for lowered in self._lowerings(order, cuts):
                    check()
                    piece = self._piece(order, cuts, lowered)
                    if piece is not None:
                        yield piece

    def _orders(self) -> Iterator[tuple[Holder, ...]]:
        """Orders of the remaining holders, innermost first: memory by memory, any order inside one."""
        by_memory: dict[int, list[Holder]] = {}
        for holder in self.part.seed.remaining:
            by_memory.setdefault(holder[0], []).append(holder)
        choices = [itertools.permutations(holders) for _, holders in sorted(by_memory.items(), reverse=True)]
        for combination in itertools.product(*choices):
            order = tuple(holder for holders in combination for holder in holders)
            if self._order_allowed(order):
                yield order

    def _order_allowed(self, order: tuple[Holder, ...]) -> bool:
        """`tensor_order_options`: in each memory, one of them agrees with the order of all holders."""
        search, seed = self.search, self.part.seed
        options = {seed.holder[0]: seed.options}
        for i, (index, t) in enumerate(order):
            left = [o for k, o in order[i + 1 :] if k == index]
            held = [o for o, chain in enumerate(search.nested) if index in chain]
            before = options[index] if index in options else search.nest.order_options(index)
            options[index] = search.nest.options_left(index, before, frozenset(held) - frozenset(left) - {t}, t)
            if not options[index]:
                return False
        return True

    def _cuts(self, order: tuple[Holder, ...], below: Cut) -> Iterator[tuple[Cut, ...]]:
        """For each holder, the loops above it: fewer and fewer outwards."""
        if not order:
            if not self.several or _is_gap(frozenset(), below):
                yield ()
            return
        holder, rest = order[0], order[1:]
        for count in range(len(below) + 1):
            for chosen in itertools.combinations(sorted(below), count):
                cut = frozenset(chosen)
                if self.several and not _is_gap(cut, below - cut):
                    continue
                if self._cut_allowed(holder, cut, below - cut):
                    for others in self._cuts(rest, cut):
                        yield (cut, *others)

    def _cut_allowed(self, holder: Holder, above: Cut, zone: Cut) -> bool:
        """`zone`: the loops right below the holder."""
        search = self.search
        index, t = holder
        sets = search.placement.sets[index]
        assert sets is not None
        name = self.problem.tensors[t].name
        backing = search.nest.is_backing(index, t)
        if (backing or name in sets.no_refetch_from_above) and not above <= self.full(holder):
            return False
        if backing and name in search.shared and any(loop.variable in sets.no_fused_loops for loop in above):
            return False
        return not (zone and zone <= self.full(holder) and not self._staying(holder, zone))

    def _staying(self, holder: Holder, zone: Cut) -> Cut:
        """Fully relevant loops right below a holder that rule 1 does not move it below.

        These are loops that neighbours may have to hold the tensor above, and all where one of them might then meet
        another over its variable.
        """
        nest, full = self.search.nest, zone & self.full(holder)
        several = any(loop.number for loop in zone)
        if several or not nest.rules.sink or nest.is_backing(*holder) or nest.fixed_tile(holder[0]):
            return full
        agreed = self.part.agreed.get(self.problem.tensors[holder[1]].name, frozenset())
        return frozenset(loop for loop in full if loop.variable in agreed)

    def _resends(self, order: tuple[Holder, ...], cuts: tuple[Cut, ...]) -> bool:
        """`no_resend_to_below`: a loop that does not index a tensor fully stands between a holder and the next below."""
        everything, above = frozenset(self.loops), dict(zip(order, cuts, strict=True))
        for t, chain in enumerate(self.search.chains):
            ends = [*chain, len(self.problem.path.components) - 1]
            for parent, child in zip(ends, ends[1:], strict=False):
                sets = self.search.placement.sets[parent]
                if sets is None or self.problem.tensors[t].name not in sets.no_resend_to_below:
                    continue
                outer: Cut = frozenset() if parent == 0 else above.get((parent, t), everything)
                if not above.get((child, t), everything) - outer <= self.full((parent, t)):
                    return True
        return False

    def _tile_shapes_met(self, order: tuple[Holder, ...], cuts: tuple[Cut, ...]) -> np.ndarray:
        """Rows that obey `tile_shape` at the outermost holder of each memory, where that stands in the fused part."""
        outermost = {index: cut for (index, _), cut in zip(order, cuts, strict=True)}
        met = np.ones(len(self.rows), np.bool_)
        for index, cut in outermost.items():
            sets = self.search.placement.sets[index]
            if sets is None or not sets.tile_shape:
                continue
            at = np.tile(self.part.bounds, (len(self.rows), 1))
            for loop in sorted(cut):
                at[:, self.part.members.index(loop.variable)] = self.tile(loop)
            extents, inverse = np.unique(at, axis=0, return_inverse=True)
            named = [dict(zip(self.part.members, row, strict=True)) for row in extents.tolist()]
            met &= np.array([all(satisfies(c, own) for c in sets.tile_shape) for own in named])[inverse.reshape(-1)]
        return met

    def _lowerings(self, order: tuple[Holder, ...], cuts: tuple[Cut, ...]) -> Iterator[tuple[Cut, ...]]:
        """Per holder: loops right below it that its space sinks through."""
        below = [frozenset(self.loops), *cuts[:-1]] if cuts else []
        zones = (outer - cut for outer, cut in zip(below, cuts, strict=True))
        yield from itertools.product(*(self._sunk(holder, zone) for holder, zone in zip(order, zones, strict=True)))

    def _sunk(self, holder: Holder, zone: Cut) -> list[Cut]:
        """What a holder's space can sink through, depending on the order of the loops right below it.

        Fully relevant loops, of which the first is one that rule 1 does not move the holder itself below; then one
        partially relevant loop or whatever stops it: an irrelevant loop, or the next holder.
        """
        if self.search.nest.is_backing(*holder) or holder[0] not in self.part.memories:
            return [frozenset()]
        full, partial = zone & self.full(holder), zone & self.partial(holder)
        staying = self._staying(holder, zone)
        subsets = (frozenset(c) for n in range(len(full) + 1) for c in itertools.combinations(sorted(full), n))
        runs = [run for run in subsets if not run or run & staying]
        stopped = [run for run in runs if run == zone or zone - full - partial]
        return [*stopped, *(run | {last} for run in runs for last in sorted(partial))]

    def _at(self, holder: Holder, above: Cut) -> tuple[Floats, Floats]:
        """Cost increments and footprint of a holder that has these loops above it."""
        key = holder, above
        if key not in self.cache:
            self.cache[key] = self._evaluate(holder, above)
        return self.cache[key]

    def _extents(self, above: Cut) -> list[Floats]:
        innermost = {loop.variable: loop for loop in sorted(above)}
        extents = []
        for variable in self.problem.variables:
            extent: Floats = np.ones(())
            for m in variable.members:
                extent = extent * (self.tile(innermost[m]) if m in innermost else self.problem.info.bounds[m])
            extents.append(extent)
        return extents

    def tile(self, loop: FusedLoop) -> Floats:
        return self.columns[self.loops.index(loop)]

    def _evaluate(self, holder: Holder, above: Cut) -> tuple[Floats, Floats]:
        search, p = self.search, self.problem
        index, t = holder
        extents = self._extents(above)
        footprint = p.tensors[t].footprint(extents) * np.ones(len(self.rows))
        increment = np.zeros((len(self.rows), search.columns.count))
        if not search.nest.is_backing(index, t):
            edge = search.edges[index, t]
            counts = [v.bound / e for v, e in zip(p.variables, extents, strict=True)]
            increment = math.prod(counts, start=footprint)[:, None] * edge.outside
            if edge.skipped_outside.any():
                skipped = math.prod((counts[v] for v in p.tensors[t].relevant), start=footprint)
                increment -= skipped[:, None] * edge.skipped_outside
        return increment, footprint

    def _piece(self, order: tuple[Holder, ...], cuts: tuple[Cut, ...], lowered: tuple[Cut, ...]) -> Piece | None:
        search, p, part = self.search, self.problem, self.part
        criteria = self.criteria.copy()
        everything = frozenset(self.loops)
        charged: list[tuple[int, Cut, Floats]] = [(0, frozenset(), np.full(len(criteria), self.search.top_bits))]
        exchanged: list[tuple[Holder, Cut, Floats]] = []
        held: list[tuple[Holder, Cut, Cut, Floats]] = []
        levels = {everything, *cuts}  # a holder between loops fixes which are above it, whatever its memory's size
        for holder, cut, passed in zip(order, cuts, lowered, strict=True):
            increment, footprint = self._at(holder, cut)
            criteria += increment
            reserved = cut | passed
            levels |= {cut | (passed & self.full(holder)), reserved}
            if passed:
                footprint = p.tensors[holder[1]].footprint(self._extents(reserved)) * np.ones(len(self.rows))
            bits = footprint * p.path.components[holder[0]].bits_per_value[p.tensors[holder[1]].name]
            shared = p.tensors[holder[1]].name in search.shared
            if search.nest.is_backing(*holder) and shared:
                exchanged.append((holder, reserved, bits))
            elif shared and cut != everything:
                held.append((holder, cut, reserved, bits))
            else:
                charged.append((holder[0], reserved, bits))
        seed_column = search.columns.bits_column(part.seed.holder[0])
        own = criteria[:, seed_column].copy() if seed_column is not None else np.zeros(len(criteria))
        seed_bits = (
            self._at(part.seed.holder, everything)[1]
            * p.path.components[part.seed.holder[0]].bits_per_value[p.tensors[part.seed.holder[1]].name]
        )
        exchanged.append((part.seed.holder, everything, seed_bits))
        inside: dict[int, Floats] = {
            m: criteria[:, search.columns.bits_column(m)]
            for m in part.memories
            if search.columns.bits_column(m) is not None
        }
        if part.seed.holder[0] in inside:
            inside[part.seed.holder[0]] = own - seed_bits
        return self._assemble(order, cuts, levels, criteria, inside, charged, exchanged, held)

    def _assemble(
        self,
        order: tuple[Holder, ...],
        cuts: tuple[Cut, ...],
        levels: set[Cut],
        criteria: Floats,
        inside: dict[int, Floats],
        charged: list[tuple[int, Cut, Floats]],
        exchanged: list[tuple[Holder, Cut, Floats]],
        held: list[tuple[Holder, Cut, Cut, Floats]],
    ) -> Piece | None:
        p, part = self.problem, self.part
        zones, depth = [], {frozenset[FusedLoop](): 0}
        above: Cut = frozenset()
        for cut in sorted(levels, key=len):
            if cut - above:
                zones.append(tuple(sorted(cut - above)))
                above = cut
            depth[cut] = len(zones)
        bits = np.zeros((len(criteria), len(part.memories), len(zones) + 1))
        fits = self._tile_shapes_met(order, cuts)
        for i, memory in enumerate(part.memories):
            bits[:, i, len(zones)] += inside.get(memory, 0)
            for m, cut, own in charged:
                if m == memory:
                    bits[:, i, depth[cut]] += own
            total = bits[:, i].sum(axis=1)
            total += sum((b for (m, _), _, b in exchanged if m == memory), np.zeros(len(bits)))
            total += sum((b for (m, _), _, _, b in held if m == memory), np.zeros(len(bits)))
            fits &= total <= part.room[i]
        which = np.flatnonzero(fits)
        if not len(which):
            return None
        names = p.path.components
        backings = [Backing(p.tensors[t].name, names[m].name, depth[cut]) for (m, t), cut, _ in exchanged]
        backings += [
            Backing(t.name, names[self.search.chains[i][0]].name, 0)
            for i, t in enumerate(p.tensors)
            if t.name in self.search.shared and self.search.on_top[i]
        ]
        holdings = [
            Holding(p.tensors[t].name, names[m].name, depth[cut], depth[reserved]) for (m, t), cut, reserved, _ in held
        ]
        form = make_compatibility(zones, backings, holdings)
        columns = [self.loops.index(loop) for loop in form.loops]
        energy, latency = finish(p, self.search.columns, criteria[which])
        rows = Rows(
            self.tiles[:, columns][which],
            energy,
            latency,
            bits[which],
            np.zeros(len(which), np.int64),
            part.rows[self.rows[which]],
            np.broadcast_to(part.persistent, (len(which), len(part.memories))),
        )
        return Piece(form, rows, tuple(zip(order, cuts, strict=True)))
