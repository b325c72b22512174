"""Where the search over tile shapes applies, and what it may merge."""

from __future__ import annotations

import itertools

from fusiest.model import footprint
from fusiest.pmapping.placement import Placement, graph_of
from fusiest.pmapping.placement_graph import PlacementNode
from fusiest.pmapping.problem import Problem
from fusiest.pmapping.spatial import satisfies
from fusiest.spec import Path, Spec
from fusiest.spec import architecture as arch


def beside(spec: Spec, path: Path) -> frozenset[tuple[int, int]]:
    """Pairs of memories, by index on the path, that stand in one `!Parallel`; the first listed first."""
    names = [c.name for c in path.components]
    neighbours = arch.beside(spec.require_arch().nodes)
    return frozenset(
        (i, j) for i, name in enumerate(names) for j in range(i + 1, len(names)) if names[j] in neighbours.get(name, ())
    )


def free_pairs(path: Path, placement: Placement, together: frozenset[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    """Pairs of memories whose holders may stand in any order, but for the outermost memory: its holders stand on top.

    `together`: those that stand in one `!Parallel`.
    """
    memories = path.memories[1:]
    loose = {i for i in memories if (sets := placement.sets[i]) is not None and not sets.force_memory_hierarchy_order}
    return together | frozenset((i, j) for i in memories for j in memories if i < j and (i in loose or j in loose))


def is_plain(problem: Problem, placement: Placement, free: frozenset[tuple[int, int]]) -> bool:
    """Whether the fast search applies: nothing backed or never refetched below a fanout, and memories whose holders may
    stand in any order are not apart (by a fanout or a Toll) if they hold something."""
    components = problem.path.components
    fanout = next((i for i, c in enumerate(components) if c.dimensions), len(components))
    for t in problem.tensors:
        chain = placement.holders(t.name, problem.path)
        for index in chain:
            sets = placement.sets[index]
            assert sets is not None
            if index >= fanout and (index == chain[0] or t.name in sets.no_refetch_from_above):
                return False
        if t.output and t.ranks and fanout < len(components):
            return False
    return not any(placement.held[i] and placement.held[j] and are_apart(problem.path, i, j) for i, j in free)


def all_free_pairs(
    path: Path, graph: PlacementNode, together: frozenset[tuple[int, int]]
) -> frozenset[tuple[int, int]]:
    """Those of any placement."""
    loose = {i for i, sets in graph.all_sets() if not sets.force_memory_hierarchy_order}
    pairs = itertools.combinations(path.memories[1:], 2)
    return together | frozenset((i, j) for i, j in pairs if i in loose or j in loose)


def all_plain(problem: Problem, graph: PlacementNode, free: frozenset[tuple[int, int]]) -> bool:
    """Whether the fast search applies to all placements."""
    path = problem.path
    fanout = next((i for i, c in enumerate(path.components) if c.dimensions), len(path.components))
    held = (c.sets.no_refetch_from_above & c.held for i, c in graph.all_choices() if i >= fanout and c.sets is not None)
    if any(backing.memory >= fanout for backing in graph.backings(path.memories)) or any(held):
        return False
    if fanout < len(path.components) and any(t.output and t.ranks for t in problem.tensors):
        return False
    apart = (graph.pairs(i, j) for i, j in free if are_apart(path, i, j))
    return not any(outer.held and inner.held for pairs in apart for outer, inner in pairs)


def are_apart(path: Path, outer: int, inner: int) -> bool:
    """Whether a fanout or a Toll lies between two memories."""
    between = path.components[outer + 1 : inner + 1]
    return any(c.dimensions or c.kind == "toll" for c in between)


def near_pairs(path: Path, free: frozenset[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    """Pairs of memories that are not apart."""
    return frozenset((i, j) for i, j in free if not are_apart(path, i, j))


def top_fits(path: Path, placement: Placement) -> bool:
    """Whether memories can hold whole what stands above all loops: the outermost memory's and persistent tensors."""
    info, outermost = path.einsum, path.memories[0]
    on_top: dict[int, list[str]] = {}
    for tensor in info.accesses:
        backing = placement.holders(tensor, path)[0]
        if backing == outermost or tensor in info.persistent:
            on_top.setdefault(backing, []).append(tensor)
    for index, tensors in on_top.items():
        sets, memory = placement.sets[index], path.components[index]
        if sets is not None and not all(satisfies(c, dict(info.bounds)) for c in sets.tile_shape):
            return False
        times = {t: info.n_instances if t in info.persistent else 1 for t in tensors}
        bits = (footprint(info.accesses[t], info.bounds) * memory.bits_per_value[t] * times[t] for t in tensors)
        if sum(bits) > memory.size:
            return False
    return True


def constrained_variables(spec: Spec, path: Path) -> tuple[frozenset[frozenset[str]], frozenset[str]]:
    """Sets of variables that a constraint names as a whole, and variables that one names singly."""
    wholes: set[frozenset[str]] = set()
    single: set[str] = set()
    comparisons = [c for component in path.components for d in component.dimensions for c in d.loop_bounds]
    graph = graph_of(spec, path)
    for _, sets in graph.all_sets() if graph is not None else ():
        comparisons += sets.tile_shape
        wholes |= {sets.no_fused_loops} if sets.no_fused_loops else set()
    for comparison in comparisons:
        is_one = comparison.operator in ("==", "<=") and comparison.value == 1
        if comparison.operator.startswith("product") or is_one:
            wholes.add(comparison.variables)
        else:
            single |= comparison.variables
    return frozenset(wholes), frozenset(single)
