"""Pmappings of one compatibility, gathered from all structures that lead to it, and pruned."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fusiest.pmapping.fused_tiles import TileClass
from fusiest.pmapping.nest import HeldTensor
from fusiest.pmapping.pareto import Floats, Ints, pareto_rows
from fusiest.pmapping.table import Compatibility, FusedLoop, Rows

_MANY = 1 << 18
"""Rows that wait to be pruned."""


@dataclass(frozen=True)
class FusedRows:
    """Rows of a layer that have the same fused loops."""

    layer: int
    tile_class: TileClass
    rows: Ints
    tiles: Ints
    """Which tiles of the class each row has: rows of one compatibility with equal ones are compared."""


@dataclass(frozen=True)
class Ancestry:
    """How rows go on above their layer."""

    on_top: frozenset[HeldTensor]
    above: tuple[tuple[HeldTensor, frozenset[FusedLoop]], ...] = ()
    """From the innermost out: each holder with the fused loops above it."""
    tolls: tuple[HeldTensor, ...] = ()
    """Tolls that tensors pass on their way to these holders."""


@dataclass(frozen=True)
class Piece:
    """Rows of one structure, and their criteria: energy, latency, per memory running sums of bits down to each zone; then what is
    open of their costs."""

    fused: FusedRows
    ancestry: Ancestry
    rows: Ints
    """Their numbers among those of `fused`."""
    criteria: Floats


@dataclass
class Gathered:
    """All pieces of one compatibility."""

    compatibility: Compatibility
    pieces: list[Piece] = field(default_factory=list)
    waiting: int = 0
    explored: int = 0

    def add(self, piece: Piece, prune: bool) -> None:
        self.pieces.append(piece)
        self.waiting += len(piece.rows)
        self.explored += len(piece.rows)
        if prune and self.waiting > _MANY:
            self.prune()

    def prune(self) -> None:
        """Leave out rows that another one of the same tiles dominates."""
        self.waiting = 0
        groups = np.concatenate([piece.fused.tile_class.groups[piece.fused.tiles[piece.rows]] for piece in self.pieces])
        keep = pareto_rows(groups, np.concatenate([piece.criteria for piece in self.pieces]))
        keep.sort()
        ends = np.cumsum([0, *(len(piece.rows) for piece in self.pieces)])
        cuts = np.searchsorted(keep, ends)
        pieces = []
        for piece, begin, first, last in zip(self.pieces, ends[:-1], cuts[:-1], cuts[1:], strict=True):
            if last > first:
                rows = keep[first:last] - begin
                pieces.append(Piece(piece.fused, piece.ancestry, piece.rows[rows], piece.criteria[rows]))
        self.pieces = pieces

    def rows(self, piece: Piece, memories: int) -> Rows:
        """A piece as rows of a table."""
        fused, count = piece.fused, len(piece.rows)
        columns = [fused.tile_class.loops.index(loop) for loop in self.compatibility.loops]
        zones = len(self.compatibility.zones) + 2
        settled = 2 + memories * zones
        running = piece.criteria[:, 2:settled].reshape(count, memories, zones)
        return Rows(
            fused.tile_class.tiles[fused.tiles[piece.rows]][:, columns], piece.criteria[:, 0], piece.criteria[:, 1],
            np.diff(running, axis=2), np.zeros(count, np.int64), fused.rows[piece.rows], running[:, :, 0],
            piece.criteria[:, settled:],
        )  # fmt: skip
