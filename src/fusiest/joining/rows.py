"""Joining rows: sums of energy and latency, and the consolidation of reservations, for all fitting pairs at once.

Per account of a memory and zone of open loops a partial mapping keeps two numbers: what is reserved right above the zone
by Einsums inside it (`reserved`), and the most that any finished branch beside it needs (`beside`); and one more of
these below the last zone. The whole needs  u[k] = max(beside[k], reserved[k] + u[k + 1]),  u[last] = beside[last].
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fusiest.joining.holders import Ledger, merge_accounts
from fusiest.joining.incumbents import Incumbents
from fusiest.joining.joints import PERSISTENT, Joint
from fusiest.objective import Least
from fusiest.pmapping import Floats, Ints, Rows, group_numbers, pareto_rows

BUCKETS = 8
"""In so many steps, how much of a memory is reserved above the loops that are open where a stretch begins."""


@dataclass(frozen=True)
class Trail:
    """Where rows came from: all that is needed once others have been joined to them."""

    source: Ints
    """Which pair (finished set, Einsum) was joined."""
    before_group: Ints
    before_row: Ints
    """Of the partial mapping: number of its compatibility, and row."""
    einsum_group: Ints
    einsum_row: Ints
    """Of the Einsum's pmapping."""
    joint: Ints
    """In which of the ways that the two compatibilities can be joined."""

    def __len__(self) -> int:
        return len(self.source)

    def take(self, which: Ints) -> Trail:
        return Trail(*(getattr(self, f.name)[which] for f in fields(self)))


@dataclass(frozen=True)
class PartialRows:
    """Partial mappings of one compatibility."""

    tiles: Ints
    energy: Floats
    latency: Floats
    reserved: Floats
    beside: Floats
    """Rows × accounts × zones: of each memory the first account, then the others (`holders`)."""
    persistent: Floats
    """Bits that persistent tensors take in each account throughout."""
    crossing: Ints
    """Of a stretch of Einsums: which of the given beginnings it has."""
    taken: Ints
    """And with how much space taken at first, in steps: more is better."""
    apart: Floats
    """Space that is not consolidated, per Einsum and memory: only where that is switched off."""
    trail: Trail

    def __len__(self) -> int:
        return len(self.energy)

    def in_accounts(self, which: list[int]) -> PartialRows:
        """With these accounts in place of its own."""
        return replace(
            self,
            reserved=self.reserved[:, which],
            beside=self.beside[:, which],
            persistent=self.persistent[:, which],
        )

    def take(self, which: Ints) -> PartialRows:
        return replace(self, trail=self.trail.take(which), **{name: getattr(self, name)[which] for name in _ARRAYS})

    def criteria(self) -> Floats:
        """Space counts by sums from the outermost in: the whole needs max over k of (reserved above k) + beside[k]."""
        columns = []
        for m in range(self.beside.shape[1]):
            above = self.persistent[:, m]
            for z in range(self.beside.shape[2]):
                above = above + self.reserved[:, m, z - 1] if z else above
                columns += [above, above + self.beside[:, m, z]]
        columns.append((BUCKETS - self.taken).astype(np.float64))  # never negative: dominance has a relative slack
        varying = [c for c in columns if len(c) and (c != c[0]).any()]
        return np.column_stack([self.energy, self.latency, *varying, self.apart])

    def groups(self) -> Ints:
        """Rows with the same number compete with each other."""
        return group_numbers(np.column_stack([self.tiles, self.crossing]))

    def usage(self) -> Floats:
        """What each account needs at least (rows × accounts)."""
        return fold(self.reserved, self.beside, 0)[1][:, :, 0] + self.persistent


_ARRAYS = [f.name for f in fields(PartialRows) if f.name != "trail"]


def start_rows(memories: int, count: int = 1, zones: int = 0) -> PartialRows:
    """Nothing mapped yet, so many times, in so many zones of open loops."""
    zeros = np.zeros(count, np.int64)
    return PartialRows(
        tiles=np.empty((count, 0), np.int64), energy=np.zeros(count), latency=np.zeros(count),
        reserved=np.zeros((count, memories, zones)), beside=np.zeros((count, memories, zones + 1)),
        persistent=np.zeros((count, memories)), crossing=zeros, taken=zeros, apart=np.empty((count, 0)),
        trail=Trail(*(zeros for _ in fields(Trail))),
    )  # fmt: skip


def fold(reserved: Floats, beside: Floats, to: int) -> tuple[Floats, Floats]:
    """Close the zones from `to` inwards: sum along a branch, maximum across branches."""
    beside = beside.copy()
    for k in range(reserved.shape[2] - 1, to - 1, -1):
        beside[:, :, k] = np.maximum(beside[:, :, k], reserved[:, :, k] + beside[:, :, k + 1])
    return reserved[:, :, :to], beside[:, :, : to + 1]


def tile_keys(left: Ints, right: Ints, bounds: list[int]) -> tuple[Ints, Ints]:
    """One number per row of either side, equal where all tiles are; `bounds` are the largest tiles per column."""
    if math.prod(bound + 1 for bound in bounds) >= 1 << 62:
        _, numbers = np.unique(np.concatenate([left, right]), axis=0, return_inverse=True)
        numbers = numbers.reshape(-1)
        return numbers[: len(left)], numbers[len(left) :]
    keys = np.zeros(len(left), np.int64), np.zeros(len(right), np.int64)
    for column, bound in enumerate(bounds):
        keys = keys[0] * (bound + 1) + left[:, column], keys[1] * (bound + 1) + right[:, column]
    return keys


def matching_pairs(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """All (i, j) with left[i] == right[j]."""
    order = np.argsort(right, kind="stable")
    keys = right[order]
    first = np.searchsorted(keys, left, "left")
    count = np.searchsorted(keys, left, "right") - first
    i = np.repeat(np.arange(len(left)), count)
    offset = np.arange(len(i)) - np.repeat(np.cumsum(count) - count, count)
    return i, order[first[i] + offset]


def compared_pairs(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """All (i, j) with equal rows of tiles, found by comparing each with each."""
    equal = [np.flatnonzero((right == row).all(axis=1)) for row in left]
    return np.repeat(np.arange(len(left)), [len(j) for j in equal]), np.concatenate([np.empty(0, np.int64), *equal])


class Pairing(NamedTuple):
    """What is joined, by numbers: a pair (finished set, Einsum), a compatibility of each, and one of the ways to join them."""

    source: int
    before_group: int
    einsum_group: int
    joint: int


class Charge(NamedTuple):
    """Bits per row of the Einsum that is joined, in these accounts, below so many zones."""

    accounts: list[int]
    zones: int
    bits: Floats


@dataclass(frozen=True)
class Room:
    """The memories of a workload that Einsums share."""

    memories: tuple[str, ...]
    sizes: Floats
    settled: npt.NDArray[np.bool_]
    """Memories in which nothing persistent can come later. What a branch beside all open loops needs there is compared with the
    size once and for all: nothing else will ever be held at the same time."""


class Switches(NamedTuple):
    """Parts of the search that can be left out, to measure what they are good for."""

    grouping: bool = True
    """Partial mappings are joined group by group; else each is compared with each."""
    consolidation: bool = True
    """Space that finished Einsums take is summed up; else each Einsum's stays a criterion of its own."""


ALL_PARTS = Switches()


@dataclass(frozen=True)
class RowJoin:
    """How the rows of two compatibilities are joined."""

    joint: Joint
    tile_bounds: list[int]
    """The largest tile per pair of columns that must be equal."""
    accounts: Ledger
    room: Room
    incumbents: Incumbents
    least: Least
    """What is still to come at least."""
    switches: Switches = ALL_PARTS

    def rows(self, before: PartialRows, einsum: Rows, charges: Iterable[Charge], pairing: Pairing) -> PartialRows:
        """Every fitting pair that the memories can hold and that can still beat what is known.

        `charges`: for the shared tensors that this join adds.
        """
        sizes, settled = self.room.sizes, self.room.settled
        if self.accounts.spread:
            before, einsum = before.in_accounts(self.accounts.before), einsum.in_accounts(self.accounts.memory)
            sizes, settled = sizes[self.accounts.memory], settled[self.accounts.memory]
        i, j = self._pairs(before, einsum)
        energy, latency = before.energy[i] + einsum.energy[j], before.latency[i] + einsum.latency[j]
        promising = np.flatnonzero(self.incumbents.promising(energy, latency, self.least))
        i, j, energy, latency = i[promising], j[promising], energy[promising], latency[promising]
        reserved, beside, persistent, leaf = self._reserve(before, einsum, i, j, charges)
        _, total = fold(reserved, beside, 0)
        reserved, beside = fold(reserved, beside, self.joint.open_zones)
        fits = self._fitting(energy, latency, total[:, :, 0] + persistent, sizes)
        if self.switches.consolidation:
            beside[:, settled, 0] = 0.0
            apart = before.apart[i[fits]]
        else:
            apart = np.column_stack([before.apart[i[fits]], leaf[fits, : len(self.room.memories)]])
        i, j, reserved, beside, persistent = i[fits], j[fits], reserved[fits], beside[fits], persistent[fits]
        if self.accounts.spread:
            after = self.accounts.after
            reserved, beside = merge_accounts(reserved, beside, after)
            persistent = persistent[:, [after.index(k) for k in range(reserved.shape[1])]]
        source, before_group, einsum_group, way = (np.full(len(i), number) for number in pairing)
        return PartialRows(
            einsum.tiles[j][:, list(self.joint.tiles)], energy[fits], latency[fits], reserved, beside, persistent,
            before.crossing[i], before.taken[i], apart, Trail(source, before_group, i, einsum_group, j, way),
        )  # fmt: skip

    def _pairs(self, before: PartialRows, einsum: Rows) -> tuple[Ints, Ints]:
        """Rows of both sides with equal tiles of the loops they have in common."""
        columns = [a for a, _ in self.joint.matched], [b for _, b in self.joint.matched]
        tiles = before.tiles[:, columns[0]], einsum.tiles[:, columns[1]]
        if not self.switches.grouping:
            return compared_pairs(*tiles)
        return matching_pairs(*tile_keys(*tiles, self.tile_bounds))

    def _reserve(
        self, before: PartialRows, einsum: Rows, i: Ints, j: Ints, charges: Iterable[Charge]
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """What is reserved in the zones of the refinement, needed beside them, persistent, and needed inside all."""
        joint, accounts = self.joint, before.beside.shape[1]
        reserved = np.zeros((len(i), accounts, joint.zones))
        beside = np.zeros((len(i), accounts, joint.zones + 1))
        for z in range(before.reserved.shape[2]):
            reserved[:, :, joint.open_boundaries[z]] += before.reserved[i, :, z]
        for z in range(before.beside.shape[2]):
            beside[:, :, joint.open_boundaries[z]] = before.beside[i, :, z]
        for z in range(einsum.bits.shape[2] - 1):
            reserved[:, :, joint.einsum_boundaries[z]] += einsum.bits[j, :, z]
        leaf = einsum.bits[j, :, -1]
        persistent = before.persistent[i] + einsum.persistent[j]
        for charge in charges:
            for account in charge.accounts:
                if charge.zones == PERSISTENT:
                    persistent[:, account] += charge.bits[j]
                elif charge.zones == joint.zones:
                    leaf[:, account] += charge.bits[j]
                else:
                    reserved[:, account, charge.zones] += charge.bits[j]
        beside[:, :, joint.zones] = np.maximum(beside[:, :, joint.zones], leaf)
        return reserved, beside, persistent, leaf

    def _fitting(self, energy: Floats, latency: Floats, usage: Floats, sizes: Floats) -> Ints:
        """Those that the memories can hold; if the usage of one is watched, those that can still beat what is known."""
        fit = (usage <= sizes * (1 + 1e-12)).all(axis=1)
        if self.incumbents.watched is not None:
            watched = [k for k, memory in enumerate(self.accounts.memory) if memory == self.incumbents.watched]
            fit &= self.incumbents.promising(energy, latency, self.least, usage[:, watched].max(axis=1))
        return np.flatnonzero(fit)


def merge_partial(parts: list[PartialRows]) -> PartialRows:
    """All parts of one compatibility, pruned group by group."""
    arrays = {name: np.concatenate([getattr(p, name) for p in parts]) for name in _ARRAYS}
    trail = Trail(*(np.concatenate([getattr(p.trail, f.name) for p in parts]) for f in fields(Trail)))
    rows = PartialRows(trail=trail, **arrays)
    return rows.take(pareto_rows(rows.groups(), rows.criteria()))
