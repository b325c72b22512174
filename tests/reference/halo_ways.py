"""All that one Einsum may do within given common loops, literally: what it holds where, and its own loops, each evaluated by the model.

Orders of an Einsum's own loops in a gap matter only for the space of the node above: loops that index its tensor fully come first, then
each of those that do so partially.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from fusiest.base.errors import FusiestError
from fusiest.base.frozen import FrozenDict
from fusiest.looptree import Compute, Node, Spatial, Storage, Temporal, Tiling
from fusiest.model import TreeNode, build_nest, evaluate_einsum, reservations
from fusiest.spec import BoundDimension, Path, Spec, bind_all, paths_of
from tests.reference.choices import HolderAt, ReferencePlacement, holder_orders, obeys, placements
from tests.reference.halo_groups import CommonLoop, ExchangePlace

Slot: TypeAlias = tuple[int, BoundDimension | None]
"""A place for an own loop: a gap, and the dimension of a Spatial one."""


class TooManyTogether(Exception):
    """There are more mappings than the caller wants to try."""


class CommonNode(NamedTuple):
    """A storage node that several Einsums have, and what one of them reserves there."""

    tensor: str
    memory: str
    depth: int
    """Common loops above it."""
    level: int
    bits: float

    @property
    def place(self) -> tuple[str, str, int]:
        return self.tensor, self.memory, self.depth


@dataclass(frozen=True)
class EinsumWay:
    """One way, with its costs."""

    energy: float
    latency: float
    bits: FrozenDict[tuple[str, int], float]
    """By memory and level: own reservations, not those of exchanged tensors; level -1 stays throughout."""
    common: tuple[CommonNode, ...]
    """Further storage nodes of shared tensors above common loops, which serve others, too."""
    held: tuple[tuple[Node, ...], ...]
    """Storage nodes above each common loop, and right below the last."""
    inside: tuple[Node, ...]

    def criteria(self, memories: Sequence[str], depth: int) -> tuple[float, ...]:
        """Costs, and bits down to each level."""
        columns = [self.energy, self.latency]
        for m in memories:
            total = 0.0
            for level in range(-1, depth):
                total += self.bits.get((m, level), 0.0)
                columns.append(total)
            columns.append(total + sum(b for (at, level), b in self.bits.items() if at == m and level >= depth))
        return tuple(columns)


@dataclass
class WaysOf:
    """All ways of the Einsums of a spec; those of one Einsum within the same loops are found once."""

    spec: Spec
    imperfect: bool = False
    most: int = 1_000_000
    """Nests that are evaluated."""
    evaluated: int = 0
    known: dict[object, list[EinsumWay]] = field(default_factory=dict)

    def find(
        self, einsum: str, loops: tuple[CommonLoop, ...], shared: Mapping[str, ExchangePlace], alone: Mapping[str, int]
    ) -> list[EinsumWay]:
        """Ways that no other is better than in everything.

        `shared`: places of exchanged tensors; `alone`: from which depth on this Einsum alone uses each.
        """
        info = self.spec.info.einsums[einsum]
        own = tuple(
            (loop.variables[einsum], loop.tiling(einsum, info.bounds[loop.variables[einsum]]), loop.times)
            for loop in loops
        )
        key = einsum, own, tuple(sorted(shared.items())), tuple(sorted(alone.items()))
        if key not in self.known:
            self.known[key] = self._best(_OneEinsum(self.spec, einsum, own, shared, alone, self.imperfect), len(loops))
        return self.known[key]

    def _best(self, one: _OneEinsum, depth: int) -> list[EinsumWay]:
        kept: dict[tuple[CommonNode, ...], list[tuple[tuple[float, ...], EinsumWay]]] = {}
        ways: list[tuple[tuple[float, ...], EinsumWay]] = []
        for way in one.ways():
            ways.append((way.criteria(one.limited, depth), way))
            if self.evaluated + one.evaluated > self.most:
                raise TooManyTogether
        self.evaluated += one.evaluated
        for criteria, way in sorted(ways, key=lambda pair: pair[0]):
            alike = kept.setdefault(way.common, [])
            if not any(all(a <= b for a, b in zip(other, criteria, strict=True)) for other, _ in alike):
                alike.append((criteria, way))
        return [way for alike in kept.values() for _, way in alike]


@dataclass
class _OneEinsum:
    spec: Spec
    einsum: str
    loops: tuple[tuple[str, Tiling, int], ...]
    """Common loops: variable, tiling, iterations."""
    shared: Mapping[str, ExchangePlace]
    alone: Mapping[str, int]
    imperfect: bool
    evaluated: int = 0

    def __post_init__(self) -> None:
        self.info = self.spec.info.einsums[self.einsum]
        self.bound = bind_all(self.spec, self.info)
        self.limited = [c.name for c in self.bound.values() if c.kind == "memory" and math.isfinite(c.size)]
        self.lengths: dict[str, tuple[int, ...]] = {}
        for v, bound in self.info.bounds.items():
            found = [(tiling, times) for variable, tiling, times in self.loops if variable == v]
            lengths = [bound]
            for tiling, times in found:  # of several, each cuts what is left
                lengths = sorted({n for extent in lengths for n in tiling.lengths(extent, times)})
            self.lengths[v] = tuple(lengths)

    def ways(self) -> Iterator[EinsumWay]:
        seen: set[object] = set()
        for path in paths_of(self.spec, self.einsum):
            if not path.compute.enabled:
                continue
            for placement in placements(self.spec, path):
                if not self._is_placed(path, placement):
                    continue
                for order in holder_orders(placement, frozenset(self.shared)):
                    for gaps in itertools.combinations_with_replacement(range(len(order) + 1), len(self.loops)):
                        if self._may_stand(path, placement, order, gaps):
                            yield from self._tiled(path, placement, order, gaps, seen)

    def _is_placed(self, path: Path, placement: ReferencePlacement) -> bool:
        """Whether tensors are exchanged where they should be."""
        backed = {h.tensor: path.components[h.level].name for h in placement.holders if h.backing}
        return all(backed[t] == place.memory for t, place in self.shared.items())

    # --- common loops -------------------------------------------------------------------------------------------------

    def _may_stand(
        self, path: Path, placement: ReferencePlacement, order: Sequence[HolderAt], gaps: Sequence[int]
    ) -> bool:
        """Whether common loops may stand in these gaps among the storage nodes."""
        for i, holder in enumerate(order):
            above = [number for number, gap in enumerate(gaps) if gap <= i]
            if holder.on_top and above:
                return False
            place = self.shared.get(holder.tensor)
            if place is not None and holder.backing and len(above) != place.depth:
                return False
            if not all(self._may_be_above(placement, order, i, self.loops[n][0], gaps[n]) for n in above):
                return False
        for i, holder in enumerate(order):
            below = next((j for j in range(i + 1, len(order)) if order[j].tensor == holder.tensor), len(order))
            if holder.tensor in placement.sets[holder.level].no_resend_to_below:
                full = self.info.accesses[holder.tensor].fully_relevant
                if any(i < gap <= below and v not in full for (v, _, _), gap in zip(self.loops, gaps, strict=True)):
                    return False
        return True

    def _may_be_above(
        self, placement: ReferencePlacement, order: Sequence[HolderAt], i: int, variable: str, gap: int
    ) -> bool:
        holder, sets = order[i], placement.sets[order[i].level]
        access = self.info.accesses[holder.tensor]
        if holder.backing:
            exchanged = holder.tensor in self.shared
            if exchanged and variable in sets.no_fused_loops:
                return False
            return variable in (access.variables if exchanged else access.fully_relevant)
        outermost = next(j for j, h in enumerate(order) if h.tensor == holder.tensor)
        once = holder.tensor in sets.no_refetch_from_above and variable not in access.fully_relevant
        return not (once and outermost < gap <= i)

    # --- own loops ----------------------------------------------------------------------------------------------------

    def _tiled(
        self,
        path: Path,
        placement: ReferencePlacement,
        order: Sequence[HolderAt],
        gaps: Sequence[int],
        seen: set[object],
    ) -> Iterator[EinsumWay]:
        first = gaps[-1] if gaps else 0
        slots = self._slots(path, placement, order, first)
        if slots is None:
            return
        options = [list(self._chains(path, placement, order, v, slots)) for v in self.info.bounds]
        for chains in itertools.product(*options):
            chosen = dict(zip(self.info.bounds, chains, strict=True))
            if not self._spreads(slots, chosen) or not self._obeys(path, placement, order, gaps, chosen):
                continue
            by_gap = {
                gap: [(v, chain[gap, None]) for v, chain in chosen.items() if (gap, None) in chain]
                for gap in range(first, len(order) + 1)
            }
            orders = [self._orders(order, gap, loops) for gap, loops in by_gap.items()]
            for written in itertools.product(*orders):
                yield from self._evaluated(
                    path, order, gaps, dict(zip(by_gap, written, strict=True)), slots, chosen, seen
                )

    def _slots(
        self, path: Path, placement: ReferencePlacement, order: Sequence[HolderAt], first: int
    ) -> list[Slot] | None:
        """Slots for own loops below the common ones; None if a fanout would have to stand above one of these."""
        where: dict[int, list[BoundDimension]] = {}
        for level, component in enumerate(path.components):
            gap = 1 + max((i for i, h in enumerate(order) if h.level < level), default=-1)
            if component.dimensions and gap < first:
                return None
            where.setdefault(gap, []).extend(component.dimensions)
        return [(gap, d) for gap in range(first, len(order) + 1) for d in (None, *where.get(gap, ()))]

    def _chains(
        self, path: Path, placement: ReferencePlacement, order: Sequence[HolderAt], v: str, slots: Sequence[Slot]
    ) -> Iterator[dict[Slot, int]]:
        """Every way to split what common loops leave of a variable into tiles; the first one divides one of its lengths."""

        def extend(extent: int, lengths: Sequence[int], remaining: Sequence[Slot]) -> Iterator[dict[Slot, int]]:
            if extent == 1:
                yield {}
                return
            if not remaining:
                return
            slot, inner = remaining[0], remaining[1:]
            yield from extend(extent, lengths, inner)
            if self._may_loop(path, placement, order, v, slot):
                for tile in sorted({t for n in lengths for t in self._tiles(n) if t < extent}):
                    for rest in extend(tile, (tile,), inner):
                        yield {slot: tile, **rest}

        yield from extend(max(self.lengths[v]), self.lengths[v], list(slots))

    def _tiles(self, extent: int) -> set[int]:
        if self.imperfect:
            return {-(-extent // n) for n in range(1, extent + 1)}
        return {t for t in range(1, extent + 1) if extent % t == 0}

    def _may_loop(
        self, path: Path, placement: ReferencePlacement, order: Sequence[HolderAt], v: str, slot: Slot
    ) -> bool:
        gap, dimension = slot
        if dimension is not None and any(v in self.info.accesses[t].variables for t in dimension.reuse):
            return False
        for i, holder in enumerate(order):
            indexed = v in self.info.accesses[holder.tensor].fully_relevant and holder.tensor not in self.shared
            if i >= gap and (holder.on_top or (holder.backing and not indexed)):
                return False
        if dimension is not None:
            return True
        for i, holder in enumerate(order):
            if v in self.info.accesses[holder.tensor].fully_relevant:
                continue
            places = [j for j, h in enumerate(order) if h.tensor == holder.tensor]
            sets = placement.sets[holder.level]
            if holder.tensor in sets.no_refetch_from_above and places[0] < gap <= i:
                return False
            below = next((j for j in places if j > i), len(order))
            if holder.tensor in sets.no_resend_to_below and i < gap <= below:
                return False
        return True

    def _spreads(self, slots: Sequence[Slot], chosen: Mapping[str, Mapping[Slot, int]]) -> bool:
        """Whether fanouts suffice, and `loop_bounds` are obeyed."""
        for slot in slots:
            d = slot[1]
            if d is not None:
                used = {v: self._iterations(v, chain, slot) for v, chain in chosen.items()}
                if math.prod(used.values()) > d.most or not all(obeys(c, used) for c in d.loop_bounds):
                    return False
        return True

    def _iterations(self, v: str, chain: Mapping[Slot, int], slot: Slot) -> int:
        if slot not in chain:
            return 1
        outer = [tile for other, tile in chain.items() if list(chain).index(other) < list(chain).index(slot)]
        return -(-min([max(self.lengths[v]), *outer]) // chain[slot])

    def _obeys(
        self,
        path: Path,
        placement: ReferencePlacement,
        order: Sequence[HolderAt],
        gaps: Sequence[int],
        chosen: Mapping[str, Mapping[Slot, int]],
    ) -> bool:
        """`tile_shape`: extents, as written, at each memory's outermost node."""
        outermost: dict[int, int] = {}
        for i, holder in enumerate(order):
            outermost.setdefault(holder.level, i)
        for level, i in outermost.items():
            comparisons = placement.sets[level].tile_shape
            if comparisons:
                extents = dict(self.info.bounds)
                for (v, tiling, times), gap in zip(self.loops, gaps, strict=True):
                    if gap <= i:
                        extents[v] = min(extents[v], max(tiling.lengths(extents[v], times)))
                for v, chain in chosen.items():
                    extents[v] = min([extents[v], *(tile for (gap, _), tile in chain.items() if gap <= i)])
                if not all(obeys(c, extents) for c in comparisons):
                    return False
        return True

    def _orders(
        self, order: Sequence[HolderAt], gap: int, loops: list[tuple[str, int]]
    ) -> list[tuple[tuple[str, int], ...]]:
        """Orders of own loops in a gap, as far as they change what the node above reserves."""
        if gap == 0:
            return [tuple(loops)]
        access = self.info.accesses[order[gap - 1].tensor]
        full = [loop for loop in loops if loop[0] in access.fully_relevant]
        partial = [loop for loop in loops if loop[0] in access.partially_relevant]
        rest = [loop for loop in loops if loop not in full and loop not in partial]
        if not partial:
            return [(*full, *rest)]
        return [(*full, last, *(p for p in partial if p != last), *rest) for last in partial]

    def _evaluated(
        self,
        path: Path,
        order: Sequence[HolderAt],
        gaps: Sequence[int],
        written: Mapping[int, Sequence[tuple[str, int]]],
        slots: Sequence[Slot],
        chosen: Mapping[str, Mapping[Slot, int]],
        seen: set[object],
    ) -> Iterator[EinsumWay]:
        """The nodes, evaluated by the model; nothing if it refuses them or a memory is too small."""
        depth = len(self.loops)
        parts: list[list[Node]] = [[] for _ in range(depth + 1)]
        inside: list[Node] = []
        for gap in range(len(order) + 1):
            at = sum(g <= gap for g in gaps)
            own: list[Node] = [Temporal(rank_variable=v, tile_shape=tile) for v, tile in written.get(gap, ())]
            for slot in slots:
                if slot[0] == gap and (d := slot[1]) is not None:
                    own += [
                        Spatial(rank_variable=v, tile_shape=chain[slot], component=d.component, name=d.name)
                        for v, chain in chosen.items()
                        if slot in chain
                    ]
            inside += own
            if gap < len(order):
                holder = order[gap]
                persistent = holder.backing and holder.tensor in self.info.persistent
                node = Storage(
                    tensors=(holder.tensor,), component=path.components[holder.level].name, persistent=persistent
                )
                if inside:
                    inside.append(node)
                else:
                    parts[at].append(node)
        leaf = Compute(einsum=self.einsum, component=path.compute.name)
        key = tuple(map(tuple, parts)), tuple(inside), leaf
        if key in seen:
            return
        seen.add(key)
        yield from self._costed(path, key)

    def _costed(
        self, path: Path, key: tuple[tuple[tuple[Node, ...], ...], tuple[Node, ...], Node]
    ) -> Iterator[EinsumWay]:
        parts, inside, leaf = key
        nodes: list[Node] = []
        even: dict[int, int] = {}
        for number, part in enumerate(parts):
            nodes += part
            if number < len(self.loops):
                v, tiling, times = self.loops[number]
                even[len(nodes)] = times
                first, tile, step = tiling
                nodes.append(
                    Temporal(
                        rank_variable=v, tile_shape=FrozenDict({self.einsum: tile}),
                        initial_tile_shape=FrozenDict({self.einsum: first}), step=FrozenDict({self.einsum: step}),
                    )
                )  # fmt: skip
        nodes += [*inside, leaf]
        self.evaluated += 1
        try:
            nest = build_nest(tuple(TreeNode(i, node) for i, node in enumerate(nodes)), path, even)
        except FusiestError:
            return
        bits: dict[tuple[str, int], float] = {}
        held: dict[str, float] = {}
        common: list[CommonNode] = []
        depths = {
            (n.tensors[0], n.component): d for d, part in enumerate(parts) for n in part if isinstance(n, Storage)
        }
        for r in reservations(nest):
            if r.backing and r.tensor in self.shared:
                continue
            held[r.memory] = held.get(r.memory, 0.0) + r.bits
            level, depth = min(r.level, len(self.loops)), depths.get((r.tensor, r.memory), len(self.loops))
            if r.tensor in self.shared and depth < self.alone[r.tensor]:
                common.append(CommonNode(r.tensor, r.memory, depth, level, r.bits))
            elif r.memory in self.limited:
                bits[r.memory, level] = bits.get((r.memory, level), 0.0) + r.bits
        if any(b > self.bound[m].size for m, b in held.items()):
            return
        cost = evaluate_einsum(self.spec, nest, self.bound)
        yield EinsumWay(cost.energy, cost.latency, FrozenDict(bits), tuple(sorted(common)), parts, (*inside, leaf))
