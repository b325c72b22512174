"""Where the search over tile shapes applies, and what it may merge."""

from __future__ import annotations

from fusiest.model.visits import footprint
from fusiest.pmapping.placement import Placement, placements
from fusiest.pmapping.problem import Problem
from fusiest.pmapping.spatial import satisfies
from fusiest.spec.binding import Path
from fusiest.spec.spec import Spec


def is_plain(problem: Problem, placement: Placement) -> bool:
    """Whether the fast search applies: memories in hierarchy order, nothing backed or never refetched below a fanout."""
    fanout = next((i for i, c in enumerate(problem.path.components) if c.dimensions), len(problem.path.components))
    for t in problem.tensors:
        chain = placement.holders(t.name, problem.path)
        for index in chain:
            sets = placement.sets[index]
            assert sets is not None
            if index >= fanout and (index == chain[0] or t.name in sets.no_refetch_from_above):
                return False
            if not sets.force_memory_hierarchy_order:
                return False
        if t.output and t.ranks and fanout < len(problem.path.components):
            return False
    return True


def free_pairs(plain: list[Placement]) -> frozenset[tuple[int, int]]:
    """Pairs of memories whose holders may stand in any order."""
    return frozenset()


def top_fits(path: Path, placement: Placement) -> bool:
    """Whether memories can hold whole what stands above all loops: the outermost memory's and persistent tensors."""
    info = path.einsum
    outermost = next(i for i, c in enumerate(path.components) if c.kind == "memory")
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
    for placement in placements(spec, path):
        comparisons += [c for sets in placement.sets if sets is not None for c in sets.tile_shape]
        wholes |= {sets.no_fused_loops for sets in placement.sets if sets is not None and sets.no_fused_loops}
    for comparison in comparisons:
        if comparison.operator.startswith("product") or (comparison.operator, comparison.value) in (
            ("==", 1),
            ("<=", 1),
        ):
            wholes.add(comparison.variables)
        else:
            single |= comparison.variables
    return frozenset(wholes), frozenset(single)
