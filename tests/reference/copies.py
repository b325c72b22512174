"""All pmappings of a copy Einsum, literally: two backing holders, loops above and between them, then single elements.

Other holders cost nothing and hold nothing, so none are written. Spatial loops stand only above a holder that is below
their fanout: nothing else about a copy depends on them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

from fusiest.looptree import Compute, Node, Spatial, Storage, Temporal
from fusiest.spec import BoundDimension, Path, Spec, paths_of
from tests.reference.choices import HolderAt, obeys, placements

CopySlot = tuple[int, BoundDimension | None]
"""A place for a loop above the first holder (0) or between the two (1): Temporal, or on a fanout dimension."""
CopyChain = Mapping[CopySlot, tuple[int, int]]
"""Of one variable: iterations and tile of its loop in each slot that has one."""


def copied_from(spec: Spec) -> dict[str, str]:
    """Every tensor's source, through all copies."""
    sources: dict[str, str] = {}
    for info in spec.info.einsums.values():
        if info.is_copy_operation:
            (source,) = (t for t in info.accesses if t != info.output)
            sources[info.output] = source
    roots = {}
    for tensor in sources:
        root = tensor
        while root in sources:
            root = sources[root]
        roots[tensor] = root
    return roots


def copy_nests(spec: Spec, einsum: str, imperfect: bool, fused_loops_per_variable: int) -> Iterator[tuple[Node, ...]]:
    """Every nest, on every compute."""
    for path in paths_of(spec, einsum):
        seen: set[object] = set()
        for placement in placements(spec, path):
            backing = tuple(h for h in placement.holders if h.backing)
            shared = [h for h in backing if h.tensor in spec.info.shared]
            barred = {h.tensor: placement.sets[h.level].no_fused_loops for h in shared}
            if (backing, key := tuple(barred.items())) not in seen:
                seen.add((backing, key))
                for order in itertools.permutations(backing):
                    downwards = order[0].level <= order[1].level
                    beside = order[1].level in placement.beside.get(order[0].level, ())
                    if (downwards or beside) and order[0].on_top >= order[1].on_top:
                        yield from _nests(path, order, barred, imperfect, fused_loops_per_variable)


def _nests(
    path: Path, order: tuple[HolderAt, ...], barred: Mapping[str, frozenset[str]], imperfect: bool, most: int
) -> Iterator[tuple[Node, ...]]:
    """All loops for two holders in this order."""
    slots: list[CopySlot] = []
    above = -1
    for gap, holder in enumerate(order):
        slots.append((gap, None))
        slots += [(gap, d) for c in path.components[above + 1 : holder.level + 1] for d in c.dimensions]
        above = holder.level
    options = [list(_chains(path, order, barred, slots, v, imperfect, most)) for v in path.einsum.bounds]
    for chains in itertools.product(*options):
        chosen = dict(zip(path.einsum.bounds, chains, strict=True))
        if all(_fits(slot, chosen) for slot in slots):
            groups = [itertools.permutations(v for v, chain in chosen.items() if slot in chain) for slot in slots]
            for orders in itertools.product(*groups):
                yield _written(path, order, dict(zip(slots, orders, strict=True)), chosen)


def _fits(slot: CopySlot, chosen: Mapping[str, CopyChain]) -> bool:
    """A dimension's fanout and `loop_bounds`; nothing asks a copy to use as much of it as `min_usage` says."""
    d = slot[1]
    if d is None:
        return True
    used = {v: chain[slot][0] if slot in chain else 1 for v, chain in chosen.items()}
    return math.prod(used.values()) <= d.most and all(obeys(c, used) for c in d.loop_bounds)


def _chains(
    path: Path,
    order: tuple[HolderAt, ...],
    barred: Mapping[str, frozenset[str]],
    slots: list[CopySlot],
    v: str,
    imperfect: bool,
    most: int,
) -> Iterator[CopyChain]:
    """Loops over one variable, at most so many."""

    def extend(extent: int, remaining: list[CopySlot], chain: CopyChain) -> Iterator[CopyChain]:
        if not remaining:
            yield chain
            return
        slot, inner = remaining[0], remaining[1:]
        yield from extend(extent, inner, chain)
        if len(chain) < most and _may_loop(path, order, barred, slot, v):
            for tile in sorted({-(-extent // n) for n in range(2, extent + 1) if imperfect or extent % n == 0}):
                yield from extend(tile, inner, {**chain, slot: (-(-extent // tile), tile)})

    yield from extend(path.einsum.bounds[v], slots, {})


def _may_loop(
    path: Path, order: tuple[HolderAt, ...], barred: Mapping[str, frozenset[str]], slot: CopySlot, v: str
) -> bool:
    gap, d = slot
    accesses = path.einsum.accesses
    if any(h.on_top or v not in accesses[h.tensor].fully_relevant for h in order[gap:]):
        return False
    if any(v in barred.get(h.tensor, ()) for h in order[gap:]):
        return False
    return d is None or not any(v in accesses[t].variables for t in d.reuse)


def _written(
    path: Path, order: tuple[HolderAt, ...], loops: Mapping[CopySlot, tuple[str, ...]], chosen: Mapping[str, CopyChain]
) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for gap, holder in enumerate(order):
        for slot, variables in loops.items():
            for v in variables if slot[0] == gap else ():
                tile, d = chosen[v][slot][1], slot[1]
                nodes.append(
                    Temporal(rank_variable=v, tile_shape=tile)
                    if d is None
                    else Spatial(rank_variable=v, tile_shape=tile, component=d.component, name=d.name)
                )
        persistent = holder.tensor in path.einsum.persistent
        component = path.components[holder.level].name
        nodes.append(Storage(tensors=(holder.tensor,), component=component, persistent=persistent))
    for v, bound in path.einsum.bounds.items():
        if min([bound, *(tile for _, tile in chosen[v].values())]) > 1:
            nodes.append(Temporal(rank_variable=v, tile_shape=1))
    return (*nodes, Compute(einsum=path.einsum.name, component=path.compute.name))
