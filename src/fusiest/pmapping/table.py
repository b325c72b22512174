"""Pmappings of one Einsum, grouped by compatibility: how they meet other Einsums. Rows hold tiles and costs."""

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
    """Its number among the Einsum's fused loops over this variable, from the outermost in."""
    place: tuple[str, str] | None = None
    """Component and dimension of a Spatial loop."""


@dataclass(frozen=True)
class FusedLimits:
    """Limits on the number of fused loops of a pmapping."""

    loops: int | None = None
    """Most fused loops in all. None: any number."""
    per_variable: int = 1
    """Most fused loops over one rank variable."""


@dataclass(frozen=True)
class Backing:
    """Where a shared tensor is exchanged: its outermost memory, below the first `zones` fusion levels."""

    tensor: str
    memory: str
    zones: int


@dataclass(frozen=True)
class Holding:
    """A further storage node of a shared tensor between the fused loops, below the first `zones` fusion levels.

    Its space sinks through loops that index the tensor, right below the node: it is counted below `depth` levels.
    """

    tensor: str
    memory: str
    zones: int
    depth: int
    over: tuple[tuple[str, str], ...] = ()
    """The Einsum's other holdings (tensor, memory) in the same place, if this one sinks: it stands below them."""


@dataclass(frozen=True)
class Compatibility:
    """What neighbours must agree on: fused loops, and the places between them where tensors are exchanged.

    Loops of one fusion level may stand in any order: no storage node is between them.
    """

    zones: tuple[tuple[FusedLoop, ...], ...]
    """The fused loops of each fusion level."""
    backings: tuple[Backing, ...]
    """Where shared tensors are exchanged."""
    holdings: tuple[Holding, ...] = ()
    """Further storage nodes of shared tensors between the fused loops. Their space is counted when joining: a neighbour
    that holds the same tensor at the same place shares it."""

    @property
    def loops(self) -> tuple[FusedLoop, ...]:
        return tuple(loop for zone in self.zones for loop in zone)


def make_compatibility(
    zones: Iterable[tuple[FusedLoop, ...]], backings: Iterable[Backing], holdings: Iterable[Holding]
) -> Compatibility:
    """Make a compatibility in canonical order. Sunk holdings get those that stand above them in the same place."""
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
    """One Einsum's nest."""

    top: tuple[Storage, ...]
    """Storage nodes of the outermost memory, and of persistent tensors."""
    between: tuple[tuple[Storage | Toll, frozenset[FusedLoop]], ...]
    """Storage nodes and Tolls between fused loops, outermost first, each with the fused loops above it."""
    inside: tuple[Node, ...]
    """All nodes below the fused loops."""


class Origin(Protocol):
    """The origin of rows: enough to write the nest of each."""

    def branch(self, row: int, tiles: dict[FusedLoop, int]) -> Branch:
        """The nest of one row, given the tiles of its fused loops."""


class TablePiece(NamedTuple):
    """Rows of one compatibility."""

    compatibility: Compatibility
    rows: Rows
    origins: Sequence[Origin]
    """Origins of rows; `Rows.origin` has their numbers."""
    explored: int
    """Number of candidates before pruning."""
    is_pruned: bool = False
    """Whether rows are as `merge_rows` leaves them."""


@dataclass
class Rows:
    """Pmappings of one compatibility."""

    tiles: Ints
    """Tiles of the fused loops (rows × loops)."""
    energy: Floats
    latency: Floats
    bits: Floats
    """Bits reserved in memory m below z fusion levels, `bits[:, m, z]`; the last z is inside all."""
    origin: Ints
    """Number of the origin of each row."""
    row: Ints
    """Number of each row for its origin."""
    persistent: Floats
    """Bits of persistent tensors that no other Einsum uses, per memory: taken throughout the workload."""
    calls: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """Calls of components whose throughputs are open, then watts of leakage (see `symbolic_throughput`). No columns if
    costs are final."""

    def __post_init__(self) -> None:
        if self.calls.shape == (0, 0):
            self.calls = np.empty((len(self.energy), 0))

    def __len__(self) -> int:
        return len(self.energy)

    def take(self, which: Ints) -> Rows:
        return Rows(*(getattr(self, name)[which] for name in self.__dataclass_fields__))

    def criteria(self) -> Floats:
        """Criteria of dominance.

        Space counts by bits reserved at or above each boundary: space further in obstructs fewer others.
        """
        columns = list(self.calls.T)
        for m in range(self.bits.shape[1]):
            columns.append(self.persistent[:, m])
            for z in range(self.bits.shape[2]):
                columns.append(columns[-1] + self.bits[:, m, z])
        varying = [c for c in columns if len(c) and (c != c[0]).any()]
        return np.column_stack([self.energy, self.latency, *varying])


@dataclass
class Table:
    """All Pareto-optimal pmappings of one Einsum that beat a cutoff, if there is one."""

    einsum: str
    memories: tuple[str, ...]
    groups: dict[Compatibility, Rows]
    origins: list[Origin]
    explored: int = 0
    candidates: dict[Compatibility, Ints] = field(default_factory=dict)
    """Per row, the number of pmappings in its group before pruning; empty unless asked for."""
    is_whole: bool = True
    """Whether no cutoff has left out any."""

    def __len__(self) -> int:
        return sum(len(rows) for rows in self.groups.values())


def group_numbers(tiles: Ints) -> Ints:
    """Number the rows by their tiles: equal tiles have equal numbers."""
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
    """Concatenate all parts of one compatibility, and prune them group by group (proof 7)."""
    rows = Rows(*(np.concatenate([getattr(p, name) for p in parts]) for name in Rows.__dataclass_fields__))
    return rows.take(pareto_rows(group_numbers(rows.tiles), rows.criteria()))


def group_sizes(parts: list[Rows], merged: Rows) -> Ints:
    """Count, for each merged row, the rows of its group in all parts."""
    groups = group_numbers(np.concatenate([merged.tiles, *(part.tiles for part in parts)]))
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    numbers = inverse.reshape(-1)[: len(merged)]
    result: Ints = (counts - np.bincount(numbers, minlength=len(counts)))[numbers]
    return result
