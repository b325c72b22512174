"""Where Einsums meet on chip: memories whose space they share."""

from __future__ import annotations

import functools
import math

from fusiest.pmapping.nest.memory_sizes import sized_paths
from fusiest.pmapping.placements.placement import fact_of_placements, first_alike, graph_of
from fusiest.spec import Path, Spec


def meeting_memories(spec: Spec, usage: bool, ample: frozenset[str]) -> tuple[str, ...]:
    """Memories whose space Einsums share and that can run full; none if Einsums do not meet on chip. With `usage` all."""
    if usage:
        return shared_memories(spec)
    return tuple(m for m in shared_memories(spec) if m not in ample) if can_fuse(spec) else ()


@functools.lru_cache(maxsize=4)
def shared_memories(spec: Spec) -> tuple[str, ...]:
    """Memories of limited size where tensors of several Einsums can meet: outside every fanout, or all."""
    memories: list[str] = []
    first = next(iter(spec.info.einsums))
    deep = meet_below_fanouts(spec)
    for path in sized_paths(spec, first):
        for component in path.components:
            if component.dimensions and not deep:
                break
            if component.kind == "memory" and math.isfinite(component.size) and component.name not in memories:
                memories.append(component.name)
    return tuple(memories)


def meet_below_fanouts(spec: Spec) -> bool:
    """Whether memories below a fanout may hold something above a fused loop: a tensor that is exchanged there, or, where
    memories need not stand in hierarchy order, any."""
    for einsum, info in spec.info.einsums.items():
        shared = [t for t in info.accesses if t in spec.info.shared]
        for path in sized_paths(spec, einsum) if shared else ():
            below = [i for i, c in enumerate(path.components) if any(o.dimensions for o in path.components[: i + 1])]
            if not path.runs or not any(path.components[i].kind == "memory" for i in below):
                continue
            first = first_alike(spec, path)
            old = dict(zip(info.accesses, first.einsum.accesses, strict=True))
            exchanged = frozenset(old[t] for t in shared)
            meet = functools.partial(_hold_below, spec, first, exchanged, frozenset(below))
            if fact_of_placements(spec, first, ("below", exchanged, tuple(below)), meet):
                return True
    return False


def _hold_below(spec: Spec, path: Path, shared: frozenset[str], below: frozenset[int]) -> bool:
    """Whether some placement holds one of these tensors there outermost, or lets memories stand in any order."""
    graph = graph_of(spec, path)
    if graph is None:
        return False
    if any(not sets.force_memory_hierarchy_order for _, sets in graph.all_sets()):
        return True
    return any(b.memory in below and b.tensor in shared for b in graph.backings(path.memories))


@functools.lru_cache(maxsize=4)
def can_fuse(spec: Spec) -> bool:
    """Whether a tensor of several Einsums, or a persistent one, may be backed elsewhere than in an unlimited outermost
    memory: where not, Einsums do not meet on chip."""
    for einsum, info in spec.info.einsums.items():
        tensors = [t for t in info.accesses if t in spec.info.shared or t in info.persistent]
        for path in sized_paths(spec, einsum) if tensors else ():
            graph = graph_of(spec, path) if path.runs else None
            backings = () if graph is None else graph.backings(path.memories)
            memories = (path.components[b.memory] for b in backings if b.tensor in tensors)
            if any(c is not path.components[0] or math.isfinite(c.size) for c in memories):
                return True
    return False
