"""Pmappings of one compatibility, gathered from all structures that lead to it, and pruned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fusiest.pmapping.fused.fused_tiles import TileClass
from fusiest.pmapping.lattice import kernels
from fusiest.pmapping.nest.rules import HeldTensor
from fusiest.pmapping.pareto import Floats, Ints
from fusiest.pmapping.table import Compatibility, FusedLoop, Rows, group_numbers

_MANY = 1 << 18
"""Number of rows from which on they are pruned before more are added."""


@dataclass(frozen=True)
class Ancestry:
    """The storage nodes above the layer in which rows end."""

    on_top: frozenset[HeldTensor]
    """Nodes above all loops."""
    above: tuple[tuple[HeldTensor, frozenset[FusedLoop]], ...] = ()
    """From the innermost out: each node with the fused loops above it."""
    tolls: tuple[HeldTensor, ...] = ()
    """Tolls that tensors pass on their way to these nodes."""


class FusedOrigin(NamedTuple):
    """The origin of fused rows."""

    layer: int
    """The layer in which they end."""
    ancestry: Ancestry
    """The nodes above it."""


class FusedRows(NamedTuple):
    """Rows of one compatibility, each in three arrays."""

    row: Ints
    """Its number in its layer."""
    tiles: Ints
    """The number of its tiles in their class."""
    criteria: Floats
    """Energy, latency, per memory running sums of bits down to each fusion level; then open parts of the costs."""

    def take(self, which: Ints) -> FusedRows:
        return FusedRows(self.row[which], self.tiles[which], self.criteria[which])


class Piece(NamedTuple):
    """Rows of one structure."""

    origin: FusedOrigin
    tile_class: TileClass
    rows: FusedRows


@dataclass
class Gathered:
    """All pieces of one compatibility."""

    compatibility: Compatibility
    pieces: list[Piece] = field(default_factory=list)
    waiting: int = 0
    explored: int = 0

    def add(self, piece: Piece, prune: bool) -> None:
        self.pieces.append(piece)
        self.waiting += len(piece.rows.row)
        self.explored += len(piece.rows.row)
        if prune and self.waiting > _MANY:
            self.prune()

    def prune(self) -> None:
        """Drop rows that another one of the same tiles dominates."""
        self.waiting = 0
        best = _best(*self._tiles(), self._criteria(), in_order=False)
        best.sort()
        ends = np.cumsum([0, *(len(piece.rows.row) for piece in self.pieces)])
        cuts = np.searchsorted(best, ends)
        self.pieces = [
            piece._replace(rows=piece.rows.take(best[first:last] - begin))
            for piece, begin, first, last in zip(self.pieces, ends[:-1], cuts[:-1], cuts[1:], strict=True)
            if last > first
        ]

    def taken(self, first: Ints, memories: int, prune: bool) -> tuple[Rows, list[FusedOrigin]]:
        """Move all pieces out, as rows of a table, pruned or not, with their origins.

        `first`: per layer, the number of its first row among those of all layers. Numbers of rows are such numbers.
        """
        options, tiles = self._tiles()
        criteria = self._criteria()
        number = np.repeat(np.arange(len(self.pieces)), [len(piece.rows.row) for piece in self.pieces])
        row = np.concatenate([piece.rows.row for piece in self.pieces])
        if prune:
            best = _best(options, tiles, criteria, in_order=True)
            row, tiles, criteria, number = row[best], tiles[best], criteria[best], number[best]
        left = np.flatnonzero(np.bincount(number, minlength=len(self.pieces)))
        origins = [self.pieces[i].origin for i in left.tolist()]
        self.pieces = []
        origin = np.searchsorted(left, number)
        row += first[[layer for layer, _ in origins]][origin]
        zones = len(self.compatibility.zones) + 2
        settled = 2 + memories * zones
        running = criteria[:, 2:settled].reshape(len(row), memories, zones)
        rows = Rows(
            options[tiles], criteria[:, 0].copy(), criteria[:, 1].copy(), np.diff(running, axis=2), origin, row,
            running[:, :, 0].copy(), criteria[:, settled:].copy(),
        )  # fmt: skip
        return rows, origins

    def _criteria(self) -> Floats:
        return np.concatenate([piece.rows.criteria for piece in self.pieces])

    def _tiles(self) -> tuple[Ints, Ints]:
        """All tiles that rows may have, by loops of the compatibility, and the number of each row's."""
        first: dict[int, int] = {}
        options: list[Ints] = []
        columns = [self.pieces[0].tile_class.loops.index(loop) for loop in self.compatibility.loops]
        for _, tile_class, _ in self.pieces:
            if id(tile_class) not in first:
                first[id(tile_class)] = sum(map(len, options))
                options.append(tile_class.tiles[:, columns])
        chosen = [piece.rows.tiles + first[id(piece.tile_class)] for piece in self.pieces]
        return np.concatenate(options), np.concatenate(chosen)


def _best(options: Ints, tiles: Ints, criteria: Floats, in_order: bool) -> Ints:
    """Rows that no other one of the same tiles dominates."""
    distinct, group = np.unique(group_numbers(options), return_inverse=True)
    best: Ints = kernels.pareto(group.reshape(-1)[tiles], len(distinct), criteria, in_order)
    return best
