"""Pmappings of one Einsum, grouped by compatibility: how they meet other Einsums. Rows say with which tiles and at what cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np

from fusiest.looptree import Node, Storage, Toll
from fusiest.pmapping.pareto import Floats, Ints, pareto_rows


class FusedLoop(NamedTuple):
    """A fused loop of one Einsum."""

    variable: str
    number: int = 0
    """Among the Einsum's fused loops over this variable, from the outermost in."""
    place: tuple[str, str] | None = None
    """Component and dimension of a Spatial loop."""


@dataclass(frozen=True)
class FusedLimits:
    """How many fused loops a pmapping may have: in all (None: any number), and over one rank variable."""

    loops: int | None = None
    per_variable: int = 1


@dataclass(frozen=True)
class Backing:
    """Where a shared tensor is exchanged: its outermost memory, below the first `zones` zones of fused loops."""

    tensor: str
    memory: str
    zones: int


@dataclass(frozen=True)
class Holding:
    """Another holder of a shared tensor between the fused loops, below the first `zones` zones.

    Its space sinks through loops that index the tensor, right below the holder: it is counted below `depth` zones.
    """

    tensor: str
    memory: str
    zones: int
    depth: int
    over: tuple[tuple[str, str], ...] = ()
    """If it sinks, it stands last in its place: below these of the Einsum's holdings (tensor, memory)."""


@dataclass(frozen=True)
class Compatibility:
    """What neighbours must agree on: the fused loops from the outermost in, and what is exchanged below how many of them.

    Loops of one zone may stand in any order: nothing is held between them.
    """

    zones: tuple[tuple[FusedLoop, ...], ...]
    backings: tuple[Backing, ...]
    holdings: tuple[Holding, ...] = ()
    """Other holders of shared tensors between the fused loops. Their space is counted when joining: a neighbour that
    holds the same tensor at the same place shares it."""

    @property
    def loops(self) -> tuple[FusedLoop, ...]:
        return tuple(loop for zone in self.zones for loop in zone)


def make_compatibility(
    zones: Iterable[tuple[FusedLoop, ...]], backings: Iterable[Backing], holdings: Iterable[Holding]
) -> Compatibility:
    """A compatibility, in canonical order, whose sunk holdings know those that stand above them in the same place."""
    held = list(holdings)
    return Compatibility(
        tuple(zones),
        tuple(sorted(backings, key=lambda b: b.tensor)),
        tuple(sorted((_over(h, held) for h in held), key=lambda h: (h.tensor, h.memory))),
    )


def _over(holding: Holding, held: list[Holding]) -> Holding:
    if holding.depth == holding.zones:
        return holding
    beside = sorted((h.tensor, h.memory) for h in held if h.zones == holding.zones and h != holding)
    return replace(holding, over=tuple(beside))


@dataclass(frozen=True)
class Branch:
    """One Einsum's nest: holders of the outermost memory, holders between fused loops, and what is below them all."""

    top: tuple[Storage, ...]
    between: tuple[tuple[Storage | Toll, frozenset[FusedLoop]], ...]
    """Holders and Tolls of the fused part, outermost first, each with the fused loops above it."""
    inside: tuple[Node, ...]


class Origin(Protocol):
    """How rows came about: enough to turn one into its nest."""

    def branch(self, row: int, tiles: dict[FusedLoop, int]) -> Branch:
        """The nest of one row, given the tiles of its fused loops."""


class TablePiece(NamedTuple):
    """Rows of one compatibility."""

    compatibility: Compatibility
    rows: Rows
    origins: Sequence[Origin]
    """How rows came about, by the numbers that they have for it."""
    explored: int
    """How many candidates there were."""
    is_pruned: bool = False
    """Whether rows are as `merge_rows` leaves them."""


@dataclass
class Rows:
    """Pmappings of one compatibility. `bits[:, m, z]`: in memory m, reserved below z zones (the last: inside all)."""

    tiles: Ints
    energy: Floats
    latency: Floats
    bits: Floats
    origin: Ints
    row: Ints
    persistent: Floats
    """Bits of persistent tensors that no other Einsum uses, per memory: taken throughout the workload."""
    calls: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """Of components whose throughputs are open, then watts of leakage: see `openrates`. No columns if costs are settled."""

    def __post_init__(self) -> None:
        if self.calls.shape == (0, 0):
            self.calls = np.empty((len(self.energy), 0))

    def __len__(self) -> int:
        return len(self.energy)

    def take(self, which: Ints) -> Rows:
        return Rows(*(getattr(self, name)[which] for name in self.__dataclass_fields__))

    def criteria(self) -> Floats:
        """Space counts by what is reserved at or above each boundary: lower down it is in the way of fewer others."""
        columns = list(self.calls.T)
        for m in range(self.bits.shape[1]):
            columns.append(self.persistent[:, m])
            for z in range(self.bits.shape[2]):
                columns.append(columns[-1] + self.bits[:, m, z])
        varying = [c for c in columns if len(c) and (c != c[0]).any()]
        return np.column_stack([self.energy, self.latency, *varying])


@dataclass
class Table:
    """All Pareto-optimal pmappings of one Einsum."""

    einsum: str
    memories: tuple[str, ...]
    groups: dict[Compatibility, Rows]
    origins: list[Origin]
    explored: int = 0
    candidates: dict[Compatibility, Ints] = field(default_factory=dict)
    """Per row, how many pmappings its group had before pruning; empty unless asked for."""

    def __len__(self) -> int:
        return sum(len(rows) for rows in self.groups.values())


def group_numbers(tiles: Ints) -> Ints:
    """One number per distinct row of tiles."""
    key = np.zeros(len(tiles), np.int64)
    radix = 1
    for column in tiles.T:
        largest = int(column.max(initial=0)) + 1
        if radix * largest >= 1 << 62:
            key = np.unique(key, return_inverse=True)[1]
            radix = int(key.max(initial=0)) + 1
        key = key * largest + column
        radix *= largest
    return key


def merge_rows(parts: list[Rows]) -> Rows:
    """All parts of one compatibility, pruned group by group."""
    rows = Rows(*(np.concatenate([getattr(p, name) for p in parts]) for name in Rows.__dataclass_fields__))
    return rows.take(pareto_rows(group_numbers(rows.tiles), rows.criteria()))


def group_sizes(parts: list[Rows], merged: Rows) -> Ints:
    """For each row of the merged parts, how many rows all parts have in its group."""
    groups = group_numbers(np.concatenate([merged.tiles, *(part.tiles for part in parts)]))
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    numbers = inverse.reshape(-1)[: len(merged)]
    result: Ints = (counts - np.bincount(numbers, minlength=len(counts)))[numbers]
    return result
