"""In which order a LoopTree's Einsums take their steps, and which loops they really share.

A loop above a split is shared only if data is exchanged below it: otherwise the first branch runs through it alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tests.reference.nest import SimulatedNest
from tests.reference.windows import window_loops


@dataclass(frozen=True, slots=True)
class ScheduleStep:
    """One Einsum does what it does at this index of its Temporal loops, on all instances at once."""

    einsum: int
    time: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """One Einsum is left for another: every tile of it below this many loops is given up.

    A loop that the Einsum goes through only once is over then.
    """

    einsum: int
    loops: int


Event: TypeAlias = ScheduleStep | Leave


def users(nests: Sequence[SimulatedNest], tensor: str) -> list[int]:
    return [i for i, nest in enumerate(nests) if tensor in nest.info.accesses]


def common_loops(first: SimulatedNest, second: SimulatedNest) -> int:
    """How many leading loops the two paths have in common."""
    count = 0
    for a, b in zip(first.loops, second.loops, strict=False):
        if a.address != b.address:
            break
        count += 1
    return count


def exchanged_across(nests: Sequence[SimulatedNest], cut: int) -> list[str]:
    """Tensors with a user at or before the cut and another after it."""
    tensors = dict.fromkeys(t for nest in nests for t in nest.info.accesses)
    return [t for t in tensors if users(nests, t)[0] <= cut < users(nests, t)[-1]]


def backing_depth(nest: SimulatedNest, tensor: str) -> int:
    """How many leading loops of the path must run together for the tile that the backing holder keeps."""
    backing = nest.backing(tensor)
    if backing.persistent:
        return 0
    deepest, times, places = 0, 0, 0
    for position, loop in enumerate(nest.loops, start=1):
        if loop.spatial:
            deepest = position if places in backing.places else deepest
            places += 1
        else:
            deepest = position if times < backing.times else deepest
            times += 1
    return deepest


def shared_depth(nests: Sequence[SimulatedNest], i: int, j: int) -> int:
    """How many leading loops two Einsums run in step."""
    i, j = min(i, j), max(i, j)
    depth = common_loops(nests[i], nests[j])
    for cut in range(i, j):
        crossing = exchanged_across(nests, cut)
        backed = [backing_depth(nests[k], t) for t in crossing for k in users(nests, t)]
        windows = [number + 1 for t in crossing for number in window_loops(nests, t)]
        depth = min(depth, max(backed + windows, default=0))
    return depth


def schedule(nests: Sequence[SimulatedNest]) -> Iterator[Event]:
    """Every step of every Einsum, in time order."""
    times = [sorted({point.time for point in nest.points}) for nest in nests]
    adjacent = [shared_depth(nests, i, i + 1) for i in range(len(nests) - 1)]

    def run(group: list[int], depth: int, prefix: tuple[int, ...]) -> Iterator[Event]:
        if len(group) == 1:
            yield from (ScheduleStep(group[0], t) for t in times[group[0]] if t[: len(prefix)] == prefix)
            return
        subgroups = _subgroups(group, [adjacent[i] > depth for i in group[:-1]])
        if len(subgroups) > 1:
            for subgroup in subgroups:
                yield from run(subgroup, depth, prefix)
                yield from (Leave(i, _repeated(nests[i], depth)) for i in subgroup)
        elif nests[group[0]].loops[depth].spatial:
            yield from run(group, depth + 1, prefix)
        else:
            indices = {t[len(prefix)] for i in group for t in times[i] if t[: len(prefix)] == prefix}
            for index in sorted(indices):
                yield from run(group, depth + 1, (*prefix, index))

    yield from run(list(range(len(nests))), 0, ())
    yield from (Leave(i, 0) for i in range(len(nests)))


def _repeated(nest: SimulatedNest, depth: int) -> int:
    """How many of the first loops are left without those, from the innermost out, that have one iteration."""
    while depth and not nest.loops[depth - 1].spatial:
        time = sum(not loop.spatial for loop in nest.loops[: depth - 1])
        if len({point.time[time] for point in nest.points}) > 1:
            break
        depth -= 1
    return depth


def _subgroups(group: list[int], together: list[bool]) -> list[list[int]]:
    subgroups = [[group[0]]]
    for i, joined in zip(group[1:], together, strict=True):
        if joined:
            subgroups[-1].append(i)
        else:
            subgroups.append([i])
    return subgroups
