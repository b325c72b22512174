"""Windows: which part of a tensor a user needs, and its producer makes, in each iteration of the loops that they share.

A consumer that reads `H: a·p + r` needs, in each tile of p, rows that overlap with those of the tile before. Either the
tensor is held above the loop, where the rows in between stay, or below it, and the producer makes them again.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from fusiest.model.nest import EinsumNest, KeptWindow, NestLoop
from fusiest.spec import EinsumInfo, Stepping

Positions: TypeAlias = tuple[int, int]
"""From a first to an end, which is excluded."""
Turns: TypeAlias = dict[tuple[int, ...], Positions]
"""What a variable ranges over, by the index of each loop that steps it."""


def keep_windows(nests: Sequence[EinsumNest]) -> list[EinsumNest]:
    """The nests, each with what backing holders keep of tensors that are made in windows below them."""
    windows: list[dict[str, KeptWindow]] = [{} for _ in nests]
    for tensor in dict.fromkeys(nest.einsum.output for nest in nests):
        users = [nest for nest in nests if tensor in nest.tensors]
        window = _kept_window(users, tensor) if len(users) > 1 else None
        if window is not None:
            for nest, nest_windows in zip(nests, windows, strict=True):
                if tensor in nest.tensors:
                    nest_windows[tensor] = window
    return [
        replace(nest, kept_windows=nest_windows) if nest_windows else nest
        for nest, nest_windows in zip(nests, windows, strict=True)
    ]


def _kept_window(users: Sequence[EinsumNest], tensor: str) -> KeptWindow | None:
    """The window that a tensor's backing holder keeps, if the loops below it make windows for all users.

    All loops above a common one are common. In each iteration of the first such loop the holder has room for what all
    users touch: as everyone moves on in the same direction, nothing before that is needed again.
    """
    producer = next(nest for nest in users if nest.einsum.output == tensor)
    holder = producer.tensors[tensor].holders[0]
    if holder.persistent or tensor in producer.einsum.persistent:
        return None
    first: NestLoop | None = None
    loops = 0
    for index, loop in enumerate(producer.loops):
        if loop.position < holder.position:
            continue
        if not _moves_together(users, tensor, index):
            break
        first, loops = first or loop, loops + 1
    if first is None:
        return None
    stepping = producer.tensors[tensor].access.stepping(first.variable)
    assert stepping is not None
    index = producer.loops.index(first)
    return KeptWindow(stepping.rank, _longest(users, tensor, stepping.rank, index), loops)


def _moves_together(users: Sequence[EinsumNest], tensor: str, index: int) -> bool:
    """Whether loop `index` is common, steps one rank of the tensor in all users forwards, and makes windows of it."""
    rank, windowed = "", False
    for nest in users:
        if index >= len(nest.loops) or nest.numbers[: index + 1] != users[0].numbers[: index + 1]:
            return False
        loop, access = nest.loops[index], nest.tensors[tensor].access
        ranks = [r for r, affine in access.ranks.items() if affine.coefficients.get(loop.variable, 0) > 0]
        if loop.is_spatial or len(ranks) != 1 or (rank and rank != ranks[0]):
            return False
        if access.output and access.stepping(loop.variable) is None:
            return False
        if _chain(nest, index) != _chain(users[0], index):
            return False
        rank = ranks[0]
        windowed = windowed or (access.output and loop.tiling.windowed)
    return windowed


def _chain(nest: EinsumNest, index: int) -> list[int]:
    """The loops down to loop `index` that step the same variable."""
    return [i for i, loop in enumerate(nest.loops[: index + 1]) if loop.variable == nest.loops[index].variable]


def _longest(users: Sequence[EinsumNest], tensor: str, rank: str, index: int) -> int:
    """The most positions of a rank that the users touch together in one iteration of loop `index`."""
    lows: dict[tuple[int, ...], int] = {}
    highs: dict[tuple[int, ...], int] = {}
    for nest in users:
        variable = nest.loops[index].variable
        chain = [nest.loops[i] for i in _chain(nest, index)]
        extents = dict(nest.reach)
        for loop in nest.loops[: index + 1]:
            extents[loop.variable] = max(loop.tiles(extents[loop.variable]))
        for indices, span in turns(chain, nest.reach[variable]).items():
            spans = {**{v: (0, extent) for v, extent in extents.items()}, variable: span}
            low, high = touched(nest.einsum, tensor, rank, spans)
            lows[indices], highs[indices] = min(low, lows.get(indices, low)), max(high, highs.get(indices, high))
    return max(highs[indices] - lows[indices] for indices in lows)


def turns(chain: Sequence[NestLoop], bound: int) -> Turns:
    """The tiles that a chain of loops over one variable leads to; those that are not empty."""
    tiles: Turns = {(): (0, bound)}
    for loop in chain:
        tiles = {
            (*indices, index): (start + low, start + high)
            for indices, (start, end) in tiles.items()
            for index, (low, high) in enumerate(loop.ranges(end - start))
            if high > low
        }
    return tiles


def touched(info: EinsumInfo, tensor: str, rank: str, spans: Mapping[str, Positions]) -> Positions:
    """Positions of a rank that an Einsum touches when its variables range over these spans."""
    affine = info.accesses[tensor].ranks[rank]
    ends = [(a * spans[v][0], a * (spans[v][1] - 1)) for v, a in affine.coefficients.items()]
    return affine.constant + sum(min(pair) for pair in ends), affine.constant + sum(max(pair) for pair in ends) + 1


def missing(
    source: EinsumNest, user: EinsumNest, tensor: str, stepping: Stepping, pairs: Sequence[tuple[NestLoop, NestLoop]]
) -> bool:
    """Whether the user needs anything of a rank, in some turn, that its source does not hold for it then.

    `pairs` are the loops that they share and that step the rank: in the source, which alone steps it as `stepping` says, and
    in the user. What is made in a loop above the tensor's holder is dropped in the next iteration; below it, it stays.
    """
    drops = [loop in source.tensors[tensor].gaps[0] for loop, _ in pairs]
    source_variable, variable = pairs[0][0].variable, pairs[0][1].variable
    held: dict[tuple[int, ...], list[tuple[tuple[int, ...], Positions]]] = {}
    for indices, span in turns([loop for loop, _ in pairs], source.reach[source_variable]).items():
        held.setdefault(_chosen(indices, drops, True), []).append((_chosen(indices, drops, False), span))
    whole = {v: (0, bound) for v, bound in user.reach.items()}
    for indices, span in turns([loop for _, loop in pairs], user.reach[variable]).items():
        wanted = needed(user, tensor, stepping, {**whole, variable: span}, source.einsum.bounds[source_variable])
        pieces = held.get(_chosen(indices, drops, True), [])
        ready = bisect.bisect_right(pieces, _chosen(indices, drops, False), key=lambda piece: piece[0])
        if wanted[1] > wanted[0] and not _covers((pieces[i][1] for i in reversed(range(ready))), wanted):
            return True
    return False


def _chosen(indices: tuple[int, ...], drops: Sequence[bool], dropped: bool) -> tuple[int, ...]:
    """The indices of loops above the tensor's holder, or of those below it."""
    return tuple(i for i, drop in zip(indices, drops, strict=True) if drop == dropped)


def needed(user: EinsumNest, tensor: str, stepping: Stepping, spans: Mapping[str, Positions], bound: int) -> Positions:
    """The values of the variable that alone steps a rank as `stepping` says, whose elements a user touches."""
    low, high = touched(user.einsum, tensor, stepping.rank, spans)
    a = abs(stepping.coefficient)
    first, last = (low, high - 1) if stepping.coefficient > 0 else (-(high - 1), -low)
    constant = stepping.constant if stepping.coefficient > 0 else -stepping.constant
    return max(0, -(-(first - constant) // a)), min(bound, (last - constant) // a + 1)


def _covers(spans: Iterator[Positions], wanted: Positions) -> bool:
    """Whether the spans, from the last to the first, cover all that is wanted."""
    first, end = wanted
    for low, high in spans:
        if low < end <= high:
            end = low
        if end <= first:
            return True
    return False
