"""What the backing holders of all tensors hold: real numbers, and only for as long as a loop above them does not go on.

When it does, what was held is dropped: its place is filled with garbage, so that nobody can use it by mistake. An input
comes in when the first Einsum of a turn uses it. A tensor that is made is there, piece by piece, once it is made.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tests.reference.nest import SimulatedNest, TileBox, box_around, element
from tests.reference.windows import times_down_to, window_loops

ValueArray: TypeAlias = NDArray[np.uint64]
"""Whole numbers modulo 2^64, which sums and products of any size respect."""
Prefix: TypeAlias = tuple[int, ...]
"""The iteration of each Temporal loop above a backing holder: in it, the holder keeps one tile."""
Element: TypeAlias = tuple[int, ...]
UsedTiles: TypeAlias = dict[Prefix, set[Element]]
"""What an Einsum uses of a tensor in each iteration."""


@dataclass(frozen=True, slots=True)
class TensorArray:
    """A box of elements with their values."""

    box: TileBox
    values: ValueArray

    def view(self, box: TileBox) -> ValueArray:
        """A view of the elements of a box inside this one."""
        return self.values[tuple(slice(lo - at, hi - at + 1) for (lo, hi), (at, _) in zip(box, self.box, strict=True))]

    def place(self, elements: Sequence[Element]) -> tuple[NDArray[np.int64], ...]:
        """Where these elements are in `values`."""
        lows = np.array([low for low, _ in self.box], dtype=np.int64)
        return tuple((np.array(elements, dtype=np.int64).reshape(len(elements), len(self.box)) - lows).T)

    def copy(self) -> TensorArray:
        return TensorArray(self.box, self.values.copy())


def zeros(box: TileBox) -> TensorArray:
    return TensorArray(box, np.zeros([high - low + 1 for low, high in box], dtype=np.uint64))


class Backings:
    """Every tensor as its backing holder sees it now, and what has been made of it in the end.

    Inputs are small positive numbers: as long as a sum is not finished, it is less than what it will be.
    """

    def __init__(self, nests: Sequence[SimulatedNest]) -> None:
        self.nests = nests
        self.random = np.random.default_rng(0)
        self.produced = {nest.info.output for nest in nests}
        self.now = {tensor: zeros(box_around(elements)) for tensor, elements in self._touched().items()}
        for tensor in sorted(self.now.keys() - self.produced):
            values = self.now[tensor].values
            values[...] = self.random.integers(1, 9, size=values.shape, dtype=np.uint64)
        self.start = {tensor: array.copy() for tensor, array in self.now.items()}
        self.record = {tensor: array.copy() for tensor, array in self.now.items()}
        self.times = {t: nest.backing(t).times for nest in nests for t in nest.info.accesses}
        self.pieces = {t: self._pieces(t) for t, times in self.times.items() if times}
        self.held: dict[str, Prefix | None] = dict.fromkeys(self.pieces)
        self.windows = {t: loops[0] for t in self.now if (loops := window_loops(nests, t))}
        self.ends = {t: self._ends(t, number) for t, number in self.windows.items()}
        self.dropped: dict[str, set[Element]] = {t: set() for t in self.now}
        for tensor in self.pieces.keys() - self.produced:
            self.now[tensor].values[...] = self._garbage(self.now[tensor].values)

    def __getitem__(self, tensor: str) -> TensorArray:
        return self.now[tensor]

    def turn(self, nest: SimulatedNest, time: tuple[int, ...]) -> None:
        """An Einsum is about to take a step: what was held in another iteration of the loops above is gone."""
        for tensor in nest.info.accesses:
            prefix = time[: self.times[tensor]]
            if tensor in self.pieces and self.held[tensor] != prefix:
                self._drop(tensor)
                self.held[tensor] = prefix
                self.dropped[tensor].clear()
                came = self.now[tensor].place(self.pieces[tensor].get(prefix, ()))
                # What is made is made from nothing, also where it has been made and dropped before.
                self.now[tensor].values[came] = self.start[tensor].values[came]
            if tensor in self.windows:
                self._move_on(tensor, time[: times_down_to(nest, self.windows[tensor])])

    def _move_on(self, tensor: str, prefix: Prefix) -> None:
        """A window has moved: what nobody is to touch any more is gone."""
        expired = {
            coordinates for coordinates, last in self.ends[tensor].items() if last < prefix and last[:-1] == prefix[:-1]
        }
        places = self._give_up(tensor, expired)
        self.dropped[tensor] |= expired
        self.now[tensor].values[places] = self._garbage(self.now[tensor].values[places])

    def _give_up(self, tensor: str, elements: Iterable[Element]) -> tuple[NDArray[np.int64], ...]:
        """Keep on record what these elements were, and where they are."""
        places = self.now[tensor].place(
            [coordinates for coordinates in elements if coordinates not in self.dropped[tensor]]
        )
        self.record[tensor].values[places] = self.now[tensor].values[places]
        return places

    def finish(self) -> dict[str, TensorArray]:
        """Every tensor as it was when it was held for the last time."""
        for tensor in self.now:
            if tensor in self.pieces:
                self._drop(tensor)
            else:
                self._give_up(tensor, itertools.product(*(range(low, high + 1) for low, high in self.now[tensor].box)))
        return self.record

    def _drop(self, tensor: str) -> None:
        prefix = self.held[tensor]
        if prefix is not None:
            places = self._give_up(tensor, self.pieces[tensor].get(prefix, ()))
            self.now[tensor].values[places] = self._garbage(self.now[tensor].values[places])

    def _garbage(self, values: ValueArray) -> ValueArray:
        return self.random.integers(1 << 62, 1 << 63, size=values.shape, dtype=np.uint64)

    def _touched(self) -> dict[str, set[Element]]:
        touched: dict[str, set[Element]] = {}
        for nest in self.nests:
            for tensor, access in nest.info.accesses.items():
                touched.setdefault(tensor, set()).update(element(access, point.values) for point in nest.points)
                for corner in itertools.product(*((0, bound - 1) for bound in nest.info.bounds.values())):
                    touched[tensor].add(element(access, dict(zip(nest.info.bounds, corner, strict=True))))
        return touched

    def _ends(self, tensor: str, number: int) -> dict[Element, Prefix]:
        """When each element is touched for the last time, in iterations of the loop that moves the window."""
        ends: dict[Element, Prefix] = {}
        for nest in self.nests:
            if tensor in nest.info.accesses:
                times = times_down_to(nest, number)
                for point in nest.points:
                    coordinates = element(nest.info.accesses[tensor], point.values)
                    ends[coordinates] = max(point.time[:times], ends.get(coordinates, ()))
        return ends

    def _pieces(self, tensor: str) -> dict[Prefix, list[Element]]:
        """The elements of each tile: of a tensor that is made, those made then, by whomever; of an input, all that lie, in
        the ranks that the loops step, where those of the first Einsum that uses it then do. Where its own range ends, the tile
        goes on to what others use then, if they step it alike.
        """
        pieces: dict[Prefix, list[Element]] = {}
        if tensor in self.produced:
            for nest in (nest for nest in self.nests if nest.info.output == tensor):
                for prefix, tile in self._tiles(tensor, nest).items():
                    pieces[prefix] = sorted({*pieces.get(prefix, ()), *tile})
            return pieces
        users = [self._tiles(tensor, nest) for nest in self.nests if tensor in nest.info.accesses]
        for i, tiles in enumerate(users):
            alike = [others for others in users[i + 1 :] if _steps_alike(tiles, others)]
            for prefix, tile in tiles.items():
                if prefix not in pieces:
                    beyond = tile.union(*(others.get(prefix, ()) for others in alike))
                    pieces[prefix] = self._slab(tensor, beyond, _stepped_ranks(tile, tiles))
        return pieces

    def _tiles(self, tensor: str, nest: SimulatedNest) -> UsedTiles:
        tiles: UsedTiles = {}
        for point in nest.points:
            coordinates = element(nest.info.accesses[tensor], point.values)
            tiles.setdefault(point.time[: self.times[tensor]], set()).add(coordinates)
        return tiles

    def _slab(self, tensor: str, tile: set[Element], stepped: Sequence[bool]) -> list[Element]:
        by_rank = _by_rank(tile)
        box = self.now[tensor].box
        inside: list[Element] = [()]
        for rank, (low, high) in enumerate(box):
            coordinates = sorted(by_rank[rank]) if stepped[rank] else range(low, high + 1)
            inside = [(*start, coordinate) for start in inside for coordinate in coordinates]
        return inside


def _by_rank(tile: Iterable[Element]) -> list[set[int]]:
    return [set(coordinates) for coordinates in zip(*tile, strict=True)]


def _stepped_ranks(tile: set[Element], tiles: UsedTiles) -> list[bool]:
    """Whether a tile is another one than others, rank by rank."""
    return [
        any(_by_rank(other_tile)[rank] != coordinates for other_tile in tiles.values())
        for rank, coordinates in enumerate(_by_rank(tile))
    ]


def _steps_alike(tiles: UsedTiles, others: UsedTiles) -> bool:
    """Whether two Einsums mean the same elements by a tile, as far as there are elements that the first one uses at all."""
    reach = _by_rank(set().union(*tiles.values()))
    return all(
        {at for at in other if min(own_reach) <= at <= max(own_reach)} == own
        for prefix in tiles.keys() & others.keys()
        for own, other, own_reach in zip(_by_rank(tiles[prefix]), _by_rank(others[prefix]), reach, strict=True)
    )
