"""Sizes of memories as the search sees them: a memory that has a size for some Einsums has one for all."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterator
from dataclasses import replace

from fusiest.model import footprint
from fusiest.spec import BoundComponent, EinsumInfo, Path, Spec, paths_of


def sized_paths(spec: Spec, einsum: str, ample: frozenset[str] = frozenset()) -> list[Path]:
    """An Einsum on every compute. A memory that is unlimited for it, but not for another, is as large as all tensors.

    The contents of such a memory have to be counted, as they may still be there when an Einsum runs for which it is
    limited. Memories in `ample` are unlimited.
    """
    paths, large = paths_of(spec, einsum), large_enough(spec)
    if not large and not ample:
        return paths

    def sized(c: BoundComponent) -> BoundComponent:
        size = math.inf if c.name in ample else min(c.size, large.get(c.name, math.inf))
        return c if size == c.size else replace(c, size=size)

    return [replace(path, components=tuple(map(sized, path.components))) for path in paths]


def with_room_for_copies(spec: Spec, path: Path, memories: Collection[str]) -> Path:
    """Enlarge memories where tensors of the Einsum that are copies of each other may lie in one space.

    Exploring counts each copy by itself. It counts too much by no more than the whole of all but the largest, because
    the largest tile of a group counts, and it is no smaller than any one of them. Joining counts exactly.
    """
    info = path.einsum
    groups = copies_used(spec, info.name)

    def doubled(c: BoundComponent) -> float:
        bits = [[_whole(info, t) * c.bits_per_value[t] for t in group] for group in groups]
        return sum(sum(alike) - max(alike) for alike in bits)

    components = (replace(c, size=c.size + doubled(c)) if c.name in memories else c for c in path.components)
    return replace(path, components=tuple(components)) if groups and not info.is_copy_operation else path


def copies_used(spec: Spec, einsum: str) -> frozenset[frozenset[str]]:
    """Groups of tensors of an Einsum that are copies of each other, or of the same tensor."""
    used = frozenset(spec.info.einsums[einsum].accesses)
    return frozenset(group & used for group in _copies(spec) if len(group & used) > 1)


@functools.lru_cache(maxsize=4)
def _copies(spec: Spec) -> tuple[frozenset[str], ...]:
    groups: list[frozenset[str]] = []
    for copy in (info for info in spec.info.einsums.values() if info.is_copy_operation):
        alike = frozenset(copy.accesses).union(*(group for group in groups if group & copy.accesses.keys()))
        groups = [*(group for group in groups if not group & alike), alike]
    return tuple(groups)


def _whole(info: EinsumInfo, tensor: str) -> int:
    return footprint(info.accesses[tensor], info.bounds) * (info.n_instances if tensor in info.persistent else 1)


@functools.lru_cache(maxsize=4)
def large_enough(spec: Spec) -> dict[str, float]:
    """Memories that have a size for some Einsums and none for others, each with more bits than it could ever hold."""
    sizes = sizes_by_einsum(spec)
    mixed = {m: per_einsum for m, per_einsum in sizes.items() if math.inf in per_einsum and min(per_einsum) < math.inf}
    return {
        m: max(most_bits(spec)[m], *(size for size in per_einsum if size < math.inf)) for m, per_einsum in mixed.items()
    }


@functools.lru_cache(maxsize=4)
def ample_memories(spec: Spec) -> frozenset[str]:
    """Memories of limited size into which everything that they could ever hold fits: their space is no criterion."""
    most = most_bits(spec)
    return frozenset(m for m, sizes in sizes_by_einsum(spec).items() if most[m] <= min(sizes) < math.inf)


@functools.lru_cache(maxsize=4)
def least_bits_per_value(spec: Spec) -> dict[tuple[str, str], float]:
    """By Einsum and tensor, the fewest bits that a value has in any memory on chip; if there is none, in the outermost one."""
    bits: dict[tuple[str, str], float] = {}
    for path in all_paths(spec):
        for component in (path.components[i] for i in path.memories[1:] or path.memories):
            for tensor, own in component.bits_per_value.items():
                key = path.einsum.name, tensor
                bits[key] = min(bits.get(key, math.inf), own)
    return bits


def all_paths(spec: Spec) -> Iterator[Path]:
    """Every Einsum on every compute, also on those that cannot run it."""
    for einsum in spec.info.einsums:
        yield from paths_of(spec, einsum)


def sizes_by_einsum(spec: Spec) -> dict[str, list[float]]:
    """The size of each memory for each Einsum, on each compute."""
    sizes: dict[str, list[float]] = {}
    for path in all_paths(spec):
        for i in path.memories:
            sizes.setdefault(path.components[i].name, []).append(path.components[i].size)
    return sizes


def most_bits(spec: Spec) -> dict[str, float]:
    """Bits of all tensors of all Einsums in each memory.

    At any time a memory holds each tensor of each Einsum at most once, and no tile is larger than the whole.
    """
    by_memory: dict[str, dict[str, float]] = {}
    for path in all_paths(spec):
        info = path.einsum
        for c in (path.components[i] for i in path.memories):
            bits = sum(footprint(a, info.bounds) * c.bits_per_value[t] for t, a in info.accesses.items())
            by_memory.setdefault(c.name, {})[info.name] = bits * info.n_instances
    return {m: sum(by_einsum.values()) for m, by_einsum in by_memory.items()}
