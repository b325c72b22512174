"""The order in which Einsums take turns: which loops they really share, where arrays take room, and where lanes run side by side.

Einsums share a loop only as deep as they exchange a tensor, as the model says (`Sharing`). A Spatial loop stands around each step
that is taken in its lanes: all take it together. For people, it stands as far out as it is written, but never around what happens
once for all lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from fusiest.code.lowering.arrays import Room
from fusiest.code.lowering.moves import Leaf
from fusiest.code.lowering.statements import Array
from fusiest.model import EinsumNest, NestLoop, Sharing


@dataclass(frozen=True, eq=False)
class Around:
    """A loop, Temporal or Spatial, around blocks of some Einsums."""

    nests: tuple[EinsumNest, ...]
    loop: int
    depth: int
    inner: tuple[Block, ...]


@dataclass(frozen=True, eq=False)
class Taking:
    """Arrays that take room from here on, or (`free`) no longer."""

    arrays: tuple[Array, ...]
    free: bool


@dataclass(frozen=True, eq=False)
class Named:
    """These Einsums follow."""

    einsums: tuple[str, ...]


Block: TypeAlias = Around | Taking | Named | Leaf


def blocks(
    common: Sharing, rooms: Sequence[Room], leaves: Mapping[str, Sequence[Leaf]], as_written: bool
) -> list[Block]:
    """The whole mapping. `as_written`: Spatial loops stand around the loops that are written inside of them, if they can."""
    return _Turns(common, rooms, leaves, as_written).whole()


class _Turns:
    """Groups of Einsums that run together, loop by loop."""

    def __init__(
        self, common: Sharing, rooms: Sequence[Room], leaves: Mapping[str, Sequence[Leaf]], as_written: bool
    ) -> None:
        self.nests, self.rooms, self.leaves, self.as_written = common.nests, rooms, leaves, as_written
        self.adjacent = [common.loops(i, i + 1) for i in range(len(self.nests) - 1)]
        self.splits: dict[int, list[int]] = {i: [] for i in range(len(self.nests))}
        self._split(range(len(self.nests)))

    def _split(self, group: range) -> None:
        """Note at which depths the Einsums of a group part."""
        if len(group) > 1:
            depth = min(self.adjacent[i] for i in group[:-1])
            for i in group:
                self.splits[i].append(depth)
            for part in self._parts(group, depth):
                self._split(part)

    def _parts(self, group: range, depth: int) -> list[range]:
        """The groups that share the loop at a depth."""
        cuts = [i + 1 for i in group[:-1] if self.adjacent[i] <= depth]
        return [range(a, b) for a, b in zip([group.start, *cuts], [*cuts, group.stop], strict=True)]

    def whole(self) -> list[Block]:
        persistent = tuple(room.array for room in self.rooms if room.level < 0)
        inner = _laned(self._group(range(len(self.nests)), 0, set()), frozenset(), self.as_written)
        return [*_taking(persistent, False), *inner, *_taking(persistent, True)]

    def _group(self, group: range, depth: int, held: set[int]) -> list[Block]:
        """All that Einsums do inside of the loops down to a depth. `held`: arrays that have room here already."""
        parts = self._parts(group, depth)
        if len(parts) > 1:
            return list(self._in_parts(group, parts, depth, held))
        rooms = [room for room in self._rooms(group, depth) if id(room) not in held]
        arrays = tuple(room.array for room in rooms)
        own = [leaf for i in group for leaf in self.leaves[self.nests[i].einsum.name] if self._depth(i, leaf) == depth]
        return [
            *_taking(arrays, False),
            *(leaf for leaf in own if not leaf.after),
            *self._loop(group, depth, held),
            *(leaf for leaf in reversed(own) if leaf.after),
            *_taking(arrays, True),
        ]

    def _loop(self, group: range, depth: int, held: set[int]) -> list[Block]:
        """The loop at a depth; a Spatial one is put in place when all is known that happens in its lanes."""
        loops = self.nests[group.start].loops
        if depth == len(loops):
            return []
        inner = self._group(group, depth + 1, held)
        if loops[depth].is_spatial:
            return inner
        return [Around(tuple(self.nests[i] for i in group), loops[depth].number, depth, tuple(inner))]

    def _in_parts(self, group: range, parts: Sequence[range], depth: int, held: set[int]) -> Iterator[Block]:
        """Groups one after the other, and what several of them use."""
        shared = [room for room in self._rooms(group, depth) if not any(_within(room, part) for part in parts)]
        held = held | {id(room) for room in shared}
        for part in parts:
            yield from _taking([room.array for room in shared if room.first in part], False)
            yield Named(tuple(self.nests[i].einsum.name for i in part))
            yield from self._group(part, depth, held)
            yield from _taking([room.array for room in shared if room.last in part], True)

    def _rooms(self, group: range, depth: int) -> list[Room]:
        return [room for room in self.rooms if room.level == depth and _within(room, group)]

    def _depth(self, i: int, leaf: Leaf) -> int:
        """How deep a leaf stands. A loop with one iteration comes between nothing: what stands right above the loops that an Einsum
        shares with others moves to its own turn, if they have but one."""
        loops = self.nests[i].loops
        for depth in reversed(self.splits[i]):
            if depth > leaf.depth and all(not x.is_spatial and x.iterations == 1 for x in loops[leaf.depth : depth]):
                return depth
        return leaf.depth


def _within(room: Room, group: range) -> bool:
    return room.first in group and room.last in group


def _taking(arrays: Iterable[Array], free: bool) -> Iterator[Taking]:
    if found := tuple(arrays):
        yield Taking(found, free)


# --- lanes ----------------------------------------------------------------------------------------------------------


def _laned(blocks: Sequence[Block], around: frozenset[int], as_written: bool) -> list[Block]:
    """Blocks with Spatial loops in place; those in `around` are already."""
    found: list[Block] = []
    i = 0
    while i < len(blocks):
        block = blocks[i]
        lanes = _lanes(block, around, as_written)
        if not lanes:
            inner = _laned(block.inner, around, as_written) if isinstance(block, Around) else []
            found.append(replace(block, inner=tuple(inner)) if isinstance(block, Around) else block)
            i += 1
            continue
        lane = lanes[0]
        others = range(i, len(blocks))
        end = next((j for j in others if lane not in _lanes(blocks[j], around, as_written)), len(blocks))
        run = blocks[i:end]
        nests = tuple({leaf.nest.einsum.name: leaf.nest for block in run for leaf in _leaves(block)}.values())
        depth = nests[0].numbers.index(lane)
        found.append(Around(nests, lane, depth, tuple(_laned(run, around | {lane}, as_written))))
        i = end
    return found


def _lanes(block: Block, around: frozenset[int], as_written: bool) -> list[int]:
    """The Spatial loops that may stand around a block: all that it does happens in their lanes, and they are written there."""
    leaves = list(_leaves(block)) if as_written or isinstance(block, Leaf) else []
    if not leaves:
        return []
    common = set.intersection(*({lane.number for lane in leaf.lanes} for leaf in leaves)) - around
    if isinstance(block, Around):
        common &= set(block.nests[0].numbers[: block.depth])
    return [number for number in leaves[0].nest.numbers if number in common]


def _leaves(block: Block) -> Iterator[Leaf]:
    if isinstance(block, Leaf):
        yield block
    elif isinstance(block, Around):
        for inner in block.inner:
            yield from _leaves(inner)


def members(block: Block) -> tuple[EinsumNest, ...]:
    """The Einsums that do anything in a block."""
    if isinstance(block, Around):
        return block.nests
    return (block.nest,) if isinstance(block, Leaf) else ()


def loop_of(nest: EinsumNest, number: int) -> NestLoop:
    """A loop of a nest, by its number."""
    return next(loop for loop in nest.loops if loop.number == number)
