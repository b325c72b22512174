"""Conditions of the search over tile shapes: where it applies, and which variables it may merge."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from fusiest.model import footprint
from fusiest.pmapping.lattice.tile_problem import Problem
from fusiest.pmapping.nest.spatial import satisfies
from fusiest.pmapping.placements.placement import Placement, graph_of
from fusiest.pmapping.placements.placement_graph import PlacementNode
from fusiest.spec import Path, PlacementSets, Spec
from fusiest.spec import architecture as arch


def beside(spec: Spec, path: Path) -> frozenset[tuple[int, int]]:
    """Pairs of memories, by index on the path, that stand in one `!Parallel`; the first listed first."""
    names = [c.name for c in path.components]
    neighbours = arch.beside(spec.require_arch().nodes)
    return frozenset(
        (i, j) for i, name in enumerate(names) for j in range(i + 1, len(names)) if names[j] in neighbours.get(name, ())
    )


def free_pairs(
    path: Path, all_sets: Iterable[tuple[int, PlacementSets | None]], together: frozenset[tuple[int, int]]
) -> frozenset[tuple[int, int]]:
    """Pairs of memories whose nodes may stand in any order, but for the outermost memory: its nodes stand on top.

    `all_sets`: by component, the constraints that may apply. `together`: pairs that stand in one `!Parallel`.
    """
    loose = {i for i, sets in all_sets if sets is not None and not sets.force_memory_hierarchy_order}
    pairs = itertools.combinations(path.memories[1:], 2)
    return together | frozenset((i, j) for i, j in pairs if i in loose or j in loose)


def is_plain(problem: Problem, placement: Placement, free: frozenset[tuple[int, int]]) -> bool:
    """Whether the fast search applies."""
    held, path = placement.held, problem.path
    backings = (placement.holders(t.name, path)[0] for t in problem.tensors)
    at_once = ((held[i], held[j]) for i, j in free if are_apart(path, i, j))
    return _is_plain(problem, backings, zip(itertools.count(), held, placement.sets), at_once)


def all_plain(problem: Problem, graph: PlacementNode, free: frozenset[tuple[int, int]]) -> bool:
    """Whether the fast search applies to all placements."""
    backings = (backing.memory for backing in graph.backings(problem.path.memories))
    choices = ((i, choice.held, choice.sets) for i, choice in graph.all_choices())
    apart = (graph.pairs(i, j) for i, j in free if are_apart(problem.path, i, j))
    return _is_plain(problem, backings, choices, ((outer.held, inner.held) for p in apart for outer, inner in p))


def _is_plain(
    problem: Problem,
    backings: Iterable[int],
    choices: Iterable[tuple[int, frozenset[str], PlacementSets | None]],
    at_once: Iterable[tuple[frozenset[str], frozenset[str]]],
) -> bool:
    """Whether the fast search applies.

    No tensor is backed or never refetched below a fanout. Memories whose nodes may stand in any order are not apart (by
    a fanout or a Toll) if both hold something. `at_once`: the tensors that two memories hold that are apart.
    """
    components = problem.path.components
    fanout = next((i for i, c in enumerate(components) if c.dimensions), len(components))
    if any(memory >= fanout for memory in backings):
        return False
    if fanout < len(components) and any(t.output and t.ranks for t in problem.tensors):
        return False
    if any(i >= fanout and sets is not None and sets.no_refetch_from_above & held for i, held, sets in choices):
        return False
    return not any(outer and inner for outer, inner in at_once)


def are_apart(path: Path, outer: int, inner: int) -> bool:
    """Whether a fanout or a Toll lies between two memories."""
    between = path.components[outer + 1 : inner + 1]
    return any(c.dimensions or c.kind == "toll" for c in between)


def near_pairs(path: Path, free: frozenset[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    """Pairs of memories that are not apart."""
    return frozenset((i, j) for i, j in free if not are_apart(path, i, j))


def top_fits(path: Path, placement: Placement) -> bool:
    """Whether memories can hold whole all tensors above all loops: those of the outermost memory, and persistent ones."""
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
