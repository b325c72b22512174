"""Where Einsums need no fused loops: all that they exchange on chip has room there whole, in any order of Einsums.

Fused loops save only space (proof 6c). Take a mapping whose Einsums exchange tensors only in the outermost memory and
the one right below it. Put the backing storage nodes of shared tensors above all loops, each Einsum's loops below them.
A backing node is never filled, and traffic of the other nodes depends on tile shapes at them and at their children,
which have not changed. Each tensor is finished before it is used. Only space grows: the memory now holds all live
tensors whole. If they fit, some mapping without fused loops is optimal.
"""

from __future__ import annotations

import functools
import math

from fusiest.model import footprint
from fusiest.pmapping.nest.constraints import may_bar_top
from fusiest.pmapping.nest.memory_sizes import all_paths
from fusiest.pmapping.placements.placement import fact_of_placements, first_alike, graph_of
from fusiest.spec import Path, PlacementSets, Spec, paths_of


@functools.lru_cache(maxsize=4)
def roomy_memories(spec: Spec) -> frozenset[str] | None:
    """Memories in which Einsums may exchange tensors, if all live tensors always fit there whole.

    No loop need then be fused (proof 6c). None if they do not fit, or if a constraint may forbid a storage node above
    all loops.
    """
    sizes = exchange_memories(spec)
    if sizes is None or any(size < alive_bits(spec, m) for m, size in sizes.items() if math.isfinite(size)):
        return None
    return frozenset(sizes)


@functools.lru_cache(maxsize=4)
def exchange_memories(spec: Spec) -> dict[str, float] | None:
    """On-chip memories in which Einsums may exchange tensors whole if there is room, with their sizes.

    None if a constraint may forbid a storage node above all loops, or another memory is in between.
    """
    sizes: dict[str, float] = {}
    paths = [path for path in all_paths(spec) if path.runs]
    for path in paths:
        first = first_alike(spec, path)
        names = zip(path.einsum.accesses, first.einsum.accesses, strict=True)
        shared = frozenset(name for tensor, name in names if tensor in spec.info.shared)
        find = functools.partial(_backings, spec, first, shared)
        backing = fact_of_placements(spec, first, ("backings", shared), find)
        if backing is None:
            return None
        sizes.update({path.components[m].name: math.inf for m in backing})
    for component in (component for path in paths for component in path.components if component.name in sizes):
        sizes[component.name] = min(sizes[component.name], component.size)
    outermost = {path.components[path.memories[0]].name for path in paths}
    return {m: size for m, size in sizes.items() if m not in outermost}


def _backings(spec: Spec, path: Path, shared: frozenset[str]) -> frozenset[int] | None:
    """Memories that may hold one of these tensors outermost; None if one of them cannot stand above all loops."""
    graph = graph_of(spec, path)
    backings = (
        [] if graph is None else [backing for backing in graph.backings(path.memories) if backing.tensor in shared]
    )
    if not all(_can_be_on_top(path, backing.memory, backing.sets) for backing in backings):
        return None
    return frozenset(backing.memory for backing in backings)


def _can_be_on_top(path: Path, memory: int, sets: PlacementSets | None) -> bool:
    """Whether nodes of a memory may stand above all loops: it is the outermost memory, or the next and unconstrained."""
    memories = path.memories
    if memory == memories[0]:
        return True
    if memory != memories[1] or any(c.dimensions for c in path.components[: memory + 1]):
        return False
    return sets is not None and not may_bar_top(sets)


def alive_bits(spec: Spec, memory: str) -> float:
    """The most bits that a memory may have to hold, in any order of Einsums, without loops above tensors (proof 6c).

    While an Einsum runs, these are its own tensors, all persistent ones, and live shared ones. A shared tensor cannot
    be live if all its users must come before the Einsum, or all after it. Copies of a tensor count as one tensor with
    it, which lives as long as any of them.
    """
    info = spec.info
    number = {einsum: 1 << i for i, einsum in enumerate(info.einsums)}
    before = dict.fromkeys(info.einsums, 0)
    after = dict.fromkeys(info.einsums, 0)
    for einsum in info.einsums:  # as listed, producers come first
        for producer in info.needs[einsum]:
            before[einsum] |= before[producer] | number[producer]
    for einsum, earlier in before.items():
        for other in info.einsums:
            if earlier & number[other]:
                after[other] |= number[einsum]
    users: dict[str, int] = {}
    bits: dict[str, float] = {}
    always: set[str] = set()
    for tensor, family in _families(spec).items():
        users[family] = users.get(family, 0) | sum(number[e] for e in info.users[tensor])
        bits[family] = bits.get(family, 0.0) + _tensor_bits(spec, memory, tensor)
        if any(tensor in info.einsums[e].persistent for e in info.users[tensor]):
            always.add(family)
    most = 0.0
    for einsum in info.einsums:
        early, late = before[einsum], after[einsum]
        einsum_bit = number[einsum]
        alive = (
            t
            for t, by in users.items()
            if t in always or by == einsum_bit or (by.bit_count() > 1 and by & ~early and by & ~late)
        )
        most = max(most, sum(bits[t] for t in alive))
    return most


def _families(spec: Spec) -> dict[str, str]:
    """Per tensor, the one that it is a copy of; or itself."""
    family = {tensor: tensor for tensor in spec.info.users}
    for info in spec.info.einsums.values():
        if info.is_copy_operation:
            (first, *others) = (family[t] for t in info.accesses)
            family = {t: first if root in others else root for t, root in family.items()}
    return family


def _tensor_bits(spec: Spec, memory: str, tensor: str) -> float:
    """Bits of a whole tensor in a memory: for the Einsum that uses most of it, or all parts if several make it."""
    bits = []
    for einsum in spec.info.users[tensor]:
        info = spec.info.einsums[einsum]
        values = footprint(info.accesses[tensor], info.bounds) * info.n_instances
        components = (c for path in paths_of(spec, einsum) for c in path.components)
        widths = [c.bits_per_value[tensor] for c in components if c.name == memory]
        bits.append(values * max(widths, default=0.0))
    return max(bits) if len(spec.info.producers.get(tensor, ())) < 2 else sum(bits)
