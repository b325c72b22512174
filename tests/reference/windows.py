"""Which tensors are made in windows, and what is kept of them: read off the paths, node by node and point by point.

Below a tensor's backing holder, the Temporal loops that come first make windows of it if all its users share them, each
moves on along the same rank in each of them, and its producer does so in uneven tiles.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.reference.nest import LoopOnPath, SimulatedNest, box_around, element


def window_loops(nests: Sequence[SimulatedNest], tensor: str) -> list[int]:
    """The loops, by their number on the path, that make windows of a tensor below its backing holder."""
    users = [nest for nest in nests if tensor in nest.info.accesses]
    makers = [nest for nest in users if nest.info.output == tensor]
    if not makers or len(users) < 2 or users[0].backing(tensor).persistent:
        return []
    maker = makers[0]
    numbers: list[int] = []
    for node in maker.nodes[maker.backing(tensor).position + 1 :]:
        if isinstance(node, LoopOnPath):
            number = maker.loops.index(node)
            if not _makes_windows(users, tensor, number):
                break
            numbers.append(number)
    return numbers


def _makes_windows(users: Sequence[SimulatedNest], tensor: str, number: int) -> bool:
    ranks: set[str] = set()
    chains: set[tuple[int, ...]] = set()
    uneven = False
    for nest in users:
        if number >= len(nest.loops) or nest.loops[number].address != users[0].loops[number].address:
            return False
        loop, access = nest.loops[number], nest.info.accesses[tensor]
        forwards = [rank for rank, affine in access.ranks.items() if affine.coefficients.get(loop.variable, 0) > 0]
        if loop.spatial or len(forwards) != 1:
            return False
        if access.output and len(access.ranks[forwards[0]].coefficients) > 1:
            return False
        ranks.add(forwards[0])
        chains.add(tuple(i for i in range(number + 1) if nest.loops[i].variable == loop.variable))
        uneven = uneven or (access.output and loop.uneven)
    return uneven and len(ranks) == len(chains) == 1


def window_rank(nests: Sequence[SimulatedNest], tensor: str, number: int) -> int:
    """The place, in alphabetical order, of the rank that loop `number` moves the window along."""
    maker = next(nest for nest in nests if nest.info.output == tensor)
    access, variable = maker.info.accesses[tensor], maker.loops[number].variable
    return next(i for i, rank in enumerate(sorted(access.ranks)) if variable in access.ranks[rank].coefficients)


def times_down_to(nest: SimulatedNest, number: int) -> int:
    """How many Temporal loops there are down to and with loop `number`."""
    return sum(not loop.spatial for loop in nest.loops[: number + 1])


def longest_window(nests: Sequence[SimulatedNest], tensor: str, number: int) -> int:
    """The most positions of the rank that all users together touch in one iteration of loop `number`."""
    rank = window_rank(nests, tensor, number)
    touched: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for nest in nests:
        if tensor in nest.info.accesses:
            times, access = times_down_to(nest, number), nest.info.accesses[tensor]
            for point in nest.points:
                touched.setdefault(point.time[:times], set()).add(element(access, point.values))
    sides = (box_around(elements)[rank] for elements in touched.values())
    return max(high - low + 1 for low, high in sides)
