"""What an exhaustive mapper may choose for one Einsum on one compute, read literally from the spec dialect.

Placements (`keep`, `may_keep`, `back`), orders of the holders, and Spatial loops. Nothing here is pruned, and nothing is
taken from `fusiest.pmapping`: this is the other side of its tests.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fusiest.spec import (
    BoundComparison,
    BoundDimension,
    EinsumNames,
    Path,
    PlacementSets,
    Spec,
    architecture_names,
    placement_sets,
)
from fusiest.spec import architecture as arch

COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip


def obeys(comparison: BoundComparison, values: Mapping[str, int]) -> bool:
    """Each compared value, or with `product…` their product, stands in the given relation to the number.

    >>> obeys(BoundComparison(frozenset("mn"), "product<=", 6), {"m": 2, "n": 3, "k": 5})
    True
    """
    compared = [values[v] for v in sorted(comparison.variables)]
    if comparison.operator.startswith("product"):
        compared = [math.prod(compared)]
    return all(COMPARE[comparison.operator.removeprefix("product")](value, comparison.value) for value in compared)


@dataclass(frozen=True, slots=True)
class HolderAt:
    """A tensor in one component of the path."""

    tensor: str
    level: int
    """Index of the component on the path."""
    backing: bool = False
    on_top: bool = False
    """In the outermost memory, or persistent: no loop stands above it."""


@dataclass(frozen=True, slots=True)
class ReferencePlacement:
    holders: tuple[HolderAt, ...]
    """Outer memories first."""
    tolls: tuple[HolderAt, ...]
    sets: Mapping[int, PlacementSets]
    """Per memory and Toll (by index on the path), the constraints that apply."""
    beside: Mapping[int, frozenset[int]]
    """For each memory in a `!Parallel`, the others in it."""


def placements(spec: Spec, path: Path) -> Iterator[ReferencePlacement]:
    """Each memory and Toll takes its `keep` and any subset of its `may_keep`, outermost first."""
    nodes = arch.path_nodes(spec.require_arch().nodes, path.compute.name)
    assert nodes is not None
    names = [str(node.name) for node in nodes]
    neighbours = arch.beside(spec.require_arch().nodes)
    beside = {
        i: frozenset(names.index(neighbour) for neighbour in neighbours[name])
        for i, name in enumerate(names)
        if name in neighbours
    }

    def choose(
        level: int, names: EinsumNames, chosen: dict[int, tuple[PlacementSets, frozenset[str]]]
    ) -> Iterator[ReferencePlacement]:
        if level == len(nodes):
            placement = _placement(path, chosen, beside)
            if placement is not None and _once_beside(placement):
                yield placement
            return
        node = nodes[level]
        if not isinstance(node, (arch.Memory, arch.TollStation)) or not path.components[level].enabled:
            yield from choose(level + 1, names, chosen)
            return
        outer = [at for at in chosen if path.components[at].kind == "memory" and at not in beside.get(level, ())]
        above = frozenset(t for at in outer for t in chosen[at][1])
        sets = placement_sets(node, names, above)
        if sets.back & above:
            return
        for extra in subsets(sorted(sets.may_keep)):
            held = sets.keep | extra
            inner = names.choose(str(node.name), held) if isinstance(node, arch.Memory) else names
            yield from choose(level + 1, inner, {**chosen, level: (sets, held)})

    yield from choose(0, architecture_names(spec, path.einsum), {})


def subsets(items: Sequence[str]) -> Iterator[frozenset[str]]:
    for count in range(len(items) + 1):
        yield from (frozenset(chosen) for chosen in itertools.combinations(items, count))


def _once_beside(placement: ReferencePlacement) -> bool:
    """Whether every tensor is held in at most one of the memories of each `!Parallel`."""
    return not any(
        a.tensor == b.tensor and b.level in placement.beside.get(a.level, ())
        for a, b in itertools.permutations(placement.holders, 2)
    )


def _placement(
    path: Path, chosen: Mapping[int, tuple[PlacementSets, frozenset[str]]], beside: Mapping[int, frozenset[int]]
) -> ReferencePlacement | None:
    """None where a tensor is held nowhere."""
    outermost = next(i for i, c in enumerate(path.components) if c.kind == "memory")
    holders, tolls = [], []
    first: dict[str, int] = {}
    for level, (_, held) in chosen.items():
        for tensor in sorted(held):
            if path.components[level].kind == "toll":
                tolls.append(HolderAt(tensor, level))
                continue
            backing = first.setdefault(tensor, level) == level
            on_top = level == outermost or (backing and tensor in path.einsum.persistent)
            holders.append(HolderAt(tensor, level, backing, on_top))
    if any(tensor not in first for tensor in path.einsum.accesses):
        return None
    return ReferencePlacement(
        tuple(holders), tuple(tolls), {level: sets for level, (sets, _) in chosen.items()}, beside
    )


# --------------------------------------------------------------------------------------------------------- holder order


def holder_orders(placement: ReferencePlacement, shared: frozenset[str]) -> Iterator[tuple[HolderAt, ...]]:
    """All orders of the holders, those on top first (in one order: no loop can stand between them)."""
    top = tuple(h for h in placement.holders if h.on_top)

    def extend(order: tuple[HolderAt, ...], remaining: tuple[HolderAt, ...]) -> Iterator[tuple[HolderAt, ...]]:
        if not remaining:
            if all(_order_option_met(order, level, sets) for level, sets in placement.sets.items()):
                yield order
            return
        for holder in remaining:
            if not any(
                _must_stand_above(other, holder, placement, shared) for other in remaining if other is not holder
            ):
                yield from extend((*order, holder), tuple(h for h in remaining if h is not holder))

    yield from extend(top, tuple(h for h in placement.holders if not h.on_top))


def _must_stand_above(outer: HolderAt, inner: HolderAt, placement: ReferencePlacement, shared: frozenset[str]) -> bool:
    if outer.level >= inner.level or inner.level in placement.beside.get(outer.level, ()):
        return False
    if outer.tensor == inner.tensor or (outer.backing and outer.tensor in shared):
        return True
    return all(placement.sets[h.level].force_memory_hierarchy_order for h in (outer, inner))


def _order_option_met(order: Sequence[HolderAt], level: int, sets: PlacementSets) -> bool:
    """`tensor_order_options`: at least one option agrees with where this memory's tensors stand."""
    holders = [h for h in order if h.level == level]
    if not sets.tensor_order_options:
        return True
    for option in sets.tensor_order_options:
        rank = {tensor: i for i, group in enumerate(option) for tensor in group}
        listed = [(rank[h.tensor], h.on_top) for h in holders if h.tensor in rank]
        pairs = itertools.combinations(listed, 2)
        if all(a <= b or (a_top and b_top) for (a, a_top), (b, b_top) in pairs):
            return True
    return False


# -------------------------------------------------------------------------------------------------------- Spatial loops


@dataclass(frozen=True, slots=True)
class SpatialLoop:
    level: int
    component: str
    dimension: str
    variable: str
    iterations: int


def spatial_choices(path: Path, imperfect: bool = False) -> list[tuple[SpatialLoop, ...]]:
    """Sets of Spatial loops, outer fanouts first, less those that `min_usage` rules out."""
    if imperfect:
        return _most_used(list(_imperfect_choices(path)))
    choices: list[tuple[tuple[SpatialLoop, ...], tuple[float, ...]]] = []
    dimensions = [(level, d) for level, c in enumerate(path.components) for d in c.dimensions]

    def extend(at: int, extents: dict[str, int], loops: tuple[SpatialLoop, ...], usage: tuple[float, ...]) -> None:
        if at == len(dimensions):
            choices.append((loops, usage))
            return
        level, d = dimensions[at]
        for factors in _factors(path, d, extents):
            used = math.prod(factors.values())
            new_loops = tuple(SpatialLoop(level, d.component, d.name, v, n) for v, n in factors.items() if n > 1)
            inner_extents = {v: extents[v] // n for v, n in factors.items()}
            extend(
                at + 1, inner_extents, (*loops, *new_loops), (*usage, min(used * d.usage_scale / d.fanout, d.min_usage))
            )

    extend(0, dict(path.einsum.bounds), (), ())
    return _most_used(choices)


def _most_used(choices: list[tuple[tuple[SpatialLoop, ...], tuple[float, ...]]]) -> list[tuple[SpatialLoop, ...]]:
    usages = {usage for _, usage in choices}

    def beaten(usage: tuple[float, ...]) -> bool:
        return any(u != usage and all(a >= b for a, b in zip(u, usage, strict=True)) for u in usages)

    best = {usage for usage in usages if not beaten(usage)}
    return [loops for loops, usage in choices if usage in best]


def _factors(path: Path, d: BoundDimension, extents: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Iterations of each variable's loop on one dimension."""
    banned = {v for t in d.reuse for v in path.einsum.accesses[t].variables}
    choices = [
        [n for n in range(1, size + 1) if size % n == 0 and (n == 1 or v not in banned)] for v, size in extents.items()
    ]
    for combination in itertools.product(*choices):
        factors = dict(zip(extents, combination, strict=True))
        if math.prod(combination) <= d.most and all(obeys(c, factors) for c in d.loop_bounds):
            yield factors


def _imperfect_choices(path: Path) -> Iterator[tuple[tuple[SpatialLoop, ...], tuple[float, ...]]]:
    """Iterations that loops with tiles ⌈S/n⌉ can have, Temporal loops standing above any fanout."""
    dimensions = [(level, d) for level, c in enumerate(path.components) for d in c.dimensions]
    variables = list(path.einsum.bounds)
    options = [sorted(_reachable(path, v, dimensions, path.einsum.bounds[v])) for v in variables]
    for combination in itertools.product(*options):
        loops: list[SpatialLoop] = []
        usage: list[float] = []
        for at, (level, d) in enumerate(dimensions):
            factors = {v: iterations[at] for v, iterations in zip(variables, combination, strict=True)}
            used = math.prod(factors.values())
            if used > d.most or not all(obeys(c, factors) for c in d.loop_bounds):
                break
            loops += [SpatialLoop(level, d.component, d.name, v, n) for v, n in factors.items() if n > 1]
            usage.append(min(used * d.usage_scale / d.fanout, d.min_usage))
        else:
            yield tuple(loops), tuple(usage)


def _reachable(
    path: Path, v: str, dimensions: Sequence[tuple[int, BoundDimension]], extent: int, above: int = -1
) -> set[tuple[int, ...]]:
    """Iterations of one variable's loops on these dimensions. `above`: the component of the dimension before."""
    if not dimensions:
        return {()}
    (level, d), inner_dimensions = dimensions[0], dimensions[1:]
    banned = any(v in path.einsum.accesses[t].variables for t in d.reuse)
    reachable = set()
    for start in {-(-extent // n) for n in range(1, extent + 1)} if level != above else {extent}:
        for n in range(1, 1 if banned else start + 1) or [1]:
            tile = -(-start // n)
            iterations = -(-start // tile)
            if iterations <= d.most:
                reachable |= {(iterations, *inner) for inner in _reachable(path, v, inner_dimensions, tile, level)}
    return reachable
