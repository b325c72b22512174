"""All pmappings of a copy Einsum, literally: two backing holders, loops above and between them, then single elements.

Other holders cost nothing and hold nothing, so none are written.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from fusiest.looptree.nodes import Compute, Node, Storage, Temporal
from fusiest.reference.choices import Held, placements
from fusiest.spec.binding import Path, bind, computes
from fusiest.spec.spec import Spec


def copy_nests(
    spec: Spec, einsum: str, imperfect: bool = False, fused_loops_per_variable: int = 1
) -> Iterator[tuple[Node, ...]]:
    """Every nest, on every compute; without Spatial loops."""
    seen: set[object] = set()
    for compute in computes(spec.require_arch()):
        path = bind(spec, einsum, compute)
        seen.clear()
        for placement in placements(spec, path):
            backing = tuple(h for h in placement.holders if h.backing)
            shared = [h for h in backing if h.tensor in spec.info.shared]
            barred = {h.tensor: placement.sets[h.level].no_fused_loops for h in shared}
            if (backing, key := tuple(barred.items())) not in seen:
                seen.add((backing, key))
                for order in itertools.permutations(backing):
                    if order[0].level <= order[1].level and order[0].on_top >= order[1].on_top:
                        yield from _nests(path, order, barred, imperfect, fused_loops_per_variable)


def _nests(
    path: Path, order: tuple[Held, ...], barred: Mapping[str, frozenset[str]], imperfect: bool, most: int
) -> Iterator[tuple[Node, ...]]:
    """All loops for two holders in this order: above the first, between them, and below both."""
    bounds = path.einsum.bounds
    options = [list(_chains(path, order, barred, v, imperfect, most)) for v in bounds]
    for chains in itertools.product(*options):
        tiles = dict(zip(bounds, chains, strict=True))
        gaps = [[v for v, own in tiles.items() if own[gap]] for gap in range(3)]
        for first in itertools.permutations(gaps[0]):
            for second in itertools.permutations(gaps[1]):
                yield _written(path, order, (first, second, tuple(gaps[2])), tiles)


def _chains(
    path: Path, order: tuple[Held, ...], barred: Mapping[str, frozenset[str]], v: str, imperfect: bool, most: int
) -> Iterator[tuple[int, int, int]]:
    """The tile of each gap's loop over a variable, 0 for none; at most so many loops above the inner holder."""
    bound = path.einsum.bounds[v]

    def tiles(extent: int, gap: int) -> list[int]:
        if any(h.on_top or v not in path.einsum.accesses[h.tensor].fully_relevant for h in order[gap:]):
            return [0]
        if any(v in barred.get(h.tensor, ()) for h in order[gap:]):
            return [0]
        return [0, *sorted({-(-extent // n) for n in range(2, extent + 1) if imperfect or extent % n == 0})]

    for first in tiles(bound, 0):
        for second in tiles(first or bound, 1):
            if (first > 0) + (second > 0) <= most:
                yield first, second, 1 if (second or first or bound) > 1 else 0


def _written(
    path: Path, order: tuple[Held, ...], gaps: tuple[tuple[str, ...], ...], tiles: Mapping[str, tuple[int, int, int]]
) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for gap, variables in enumerate(gaps):
        nodes += [Temporal(rank_variable=v, tile_shape=tiles[v][gap]) for v in variables]
        if gap < len(order):
            held = order[gap]
            persistent = held.tensor in path.einsum.persistent
            component = path.components[held.level].name
            nodes.append(Storage(tensors=(held.tensor,), component=component, persistent=persistent))
    return (*nodes, Compute(einsum=path.einsum.name, component=path.compute.name))
