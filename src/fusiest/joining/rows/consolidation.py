"""Joining rows: sums of energy and latency, and the consolidation of reservations, for all fitting pairs at once.

Per account of a memory and zone of open loops a partial mapping keeps two numbers: what is reserved right above the zone
by Einsums inside it (`reserved`), and the most that any finished branch beside it needs (`beside`); and one more of
these below the last zone. The whole needs  u[k] = max(beside[k], reserved[k] + u[k + 1]),  u[last] = beside[last].
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fusiest.base.objective import Least
from fusiest.joining.meeting.joints import PERSISTENT, Joint
from fusiest.joining.meeting.shared_nodes import Ledger, merge_accounts
from fusiest.joining.rows.incumbents import Incumbents
from fusiest.joining.rows.kernels import BeforeArrays, EinsumArrays, JointArrays, joined_rows
from fusiest.pmapping import Floats, Ints, Rows, group_numbers, pareto_rows

MANY_ROWS = 50_000
"""Of one part: from so many on, those that others of the same part dominate are left out before all parts are put together."""
MANY_RIVALS = 8
"""For that, so many on average must have the same tiles."""
BUCKETS = 8
"""In so many steps, how much of a memory is reserved above the loops that are open where a stretch begins."""


@dataclass(frozen=True)
class Trail:
    """Where rows came from: all that is needed once others have been joined to them."""

    pairing: npt.NDArray[np.int32]
    """Which two compatibilities were joined, and how: a number in the state's list, given once that is whole."""
    before_row: npt.NDArray[np.int32]
    einsum_row: npt.NDArray[np.int32]
    """Which row of either."""

    def __len__(self) -> int:
        return len(self.pairing)

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

    @property
    def is_start(self) -> bool:
        """Whether it is nothing, in one row: what the first Einsum is joined to."""
        empty = len(self) == 1 and self.beside.shape[2] == 1 and not self.tiles.shape[1]
        return empty and not any(array.any() for array in (self.energy, self.latency, self.beside, self.persistent))

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

    def best(self) -> Ints:
        """Those that none of the same group dominates."""
        return pareto_rows(self.groups(), self.criteria())

    def without_many(self) -> PartialRows:
        """Without those that others dominate, if there are very many: that saves space, and time in the end."""
        if len(self) < MANY_ROWS:
            return self
        groups = self.groups()
        if len(self) < MANY_RIVALS * (int(groups.max()) + 1):
            return self
        return self.take(np.sort(pareto_rows(groups, self.criteria())))

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
        trail=Trail(*(zeros.astype(np.int32) for _ in fields(Trail))),
    )  # fmt: skip


def fold(reserved: Floats, beside: Floats, to: int) -> tuple[Floats, Floats]:
    """Close the zones from `to` inwards: sum along a branch, maximum across branches."""
    beside = beside.copy()
    for k in range(reserved.shape[2] - 1, to - 1, -1):
        beside[:, :, k] = np.maximum(beside[:, :, k], reserved[:, :, k] + beside[:, :, k + 1])
    return reserved[:, :, :to], beside[:, :, : to + 1]


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
    accounts: Ledger
    room: Room
    incumbents: Incumbents
    least: Least
    """What is still to come at least."""
    switches: Switches = ALL_PARTS

    def rows(self, before: PartialRows, charged: ChargedRows) -> PartialRows | None:
        """Every fitting pair that the memories can hold and that can still beat what is known; None if there is none."""
        einsum, joint = charged.arrays, self._arrays(charged.targets)
        if before.is_start:
            pairs, reserved, beside, persistent, inside = self._first(einsum, joint)
        else:
            rows = BeforeArrays(
                before.tiles, before.energy, before.latency, before.reserved, before.beside, before.persistent
            )
            known, least = self.incumbents.arrays, np.array(self.least)
            pairs, reserved, beside, persistent, inside = joined_rows(rows, einsum, joint, known, least)
        if not len(pairs):
            return None
        i, j = pairs[:, 0], pairs[:, 1]
        apart = before.apart[i]
        if not self.switches.consolidation:
            apart = np.column_stack([apart, inside[:, : len(self.room.memories)]])
        if self.accounts.spread:
            after = self.accounts.after
            reserved, beside = merge_accounts(reserved, beside, after)
            persistent = persistent[:, [after.index(k) for k in range(reserved.shape[1])]]
        trail = Trail(np.zeros(len(i), np.int32), i.astype(np.int32), j.astype(np.int32))
        return PartialRows(
            einsum.tiles[j][:, list(self.joint.tiles)], before.energy[i] + einsum.energy[j],
            before.latency[i] + einsum.latency[j], reserved, beside, persistent, before.crossing[i], before.taken[i], apart, trail,
        )  # fmt: skip

    def _first(self, einsum: EinsumArrays, joint: JointArrays) -> tuple[Ints, Floats, Floats, Floats, Floats]:
        """The same for the first Einsum, which is joined to nothing: a workload of one Einsum needs no compiled loops here."""
        count = len(einsum.energy)
        reserved, beside = (
            np.zeros((count, len(joint.memory), joint.zones)),
            np.zeros((count, len(joint.memory), joint.zones + 1)),
        )
        persistent = einsum.persistent[:, joint.memory]
        for z, boundary in enumerate(joint.einsum_boundaries[:-1]):
            reserved[:, :, boundary] += einsum.bits[:, joint.memory, z]
        beside[:, :, -1] = einsum.bits[:, joint.memory, -1]
        for account, zones, number in joint.charges:
            if zones == PERSISTENT:
                persistent[:, account] += einsum.charges[number]
            else:
                (beside if zones == joint.zones else reserved)[:, account, zones] += einsum.charges[number]
        need = fold(reserved, beside, 0)[1][:, :, 0] + persistent
        watched = (
            need[:, joint.memory == self.incumbents.watched].max(axis=1)
            if self.incumbents.watched is not None
            else None
        )
        fits = (need <= joint.sizes * (1 + 1e-12)).all(axis=1)
        fits &= self.incumbents.promising(einsum.energy, einsum.latency, self.least, watched)
        inside = beside[:, :, -1].copy()
        reserved, beside = fold(reserved, beside, joint.open_zones)
        beside[:, joint.settles, 0] = 0.0
        j = np.flatnonzero(fits)
        pairs = np.column_stack([np.zeros(len(j), np.int64), j])
        return pairs, reserved[j], beside[j], persistent[j], inside[j]

    def _arrays(self, targets: Ints) -> JointArrays:
        joint, memory = self.joint, np.array(self.accounts.memory, np.int64)
        settles = self.room.settled[memory] if self.switches.consolidation else np.zeros(len(memory), np.bool_)
        return JointArrays(
            np.array(joint.matched, np.int64).reshape(-1, 2),
            np.array(joint.open_boundaries, np.int64),
            np.array(joint.einsum_boundaries, np.int64),
            joint.zones,
            joint.open_zones,
            np.array(self.accounts.before, np.int64),
            memory,
            targets,
            self.switches.grouping,
            settles,
            self.room.sizes[memory],
        )


class ChargedRows(NamedTuple):
    """Pmappings of one compatibility, and what each is charged where for shared tensors."""

    arrays: EinsumArrays
    targets: Ints
    """As `JointArrays.charges`."""


def charged_rows(rows: Rows, charges: Iterable[Charge]) -> ChargedRows:
    """The rows with these charges for the shared tensors that a join adds."""
    listed = list(charges)
    bits = np.array([c.bits for c in listed], np.float64).reshape(-1, len(rows))
    floats = rows.energy, rows.latency, rows.bits, rows.persistent, bits
    arrays = EinsumArrays(np.ascontiguousarray(rows.tiles), *(np.ascontiguousarray(array) for array in floats))
    targets = [(account, c.zones, k) for k, c in enumerate(listed) for account in c.accounts]
    return ChargedRows(arrays, np.array(targets, np.int64).reshape(-1, 3))


def all_parts(parts: Sequence[PartialRows], pairings: Sequence[int]) -> PartialRows:
    """All parts of one compatibility. `pairings`: what was joined, by number."""
    arrays = {name: np.concatenate([getattr(p, name) for p in parts]) for name in _ARRAYS}
    pairing = np.repeat(np.array(pairings, np.int32), [len(p) for p in parts])
    before, einsum = (np.concatenate([getattr(p.trail, name) for p in parts]) for name in ("before_row", "einsum_row"))
    return PartialRows(trail=Trail(pairing, before, einsum), **arrays)
