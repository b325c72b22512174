"""Joining rows: sums of energy and latency, and the consolidation of reservations, for all fitting pairs at once.

A partial mapping keeps two numbers per account of a memory and fusion level of open loops: the bits reserved right
above the level by Einsums inside it (`reserved`), and the most that any finished branch beside it needs (`beside`). One
more `beside` stands below the last level. The whole needs u[k] = max(beside[k], reserved[k] + u[k + 1]),  u[last] =
beside[last].
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
"""Rows of one part from which it is pruned by itself, before all parts are put together."""
MANY_RIVALS = 8
"""Least average number of rows with the same tiles for which a part is pruned by itself."""
BUCKETS = 8
"""Number of steps in which the reserved part of a memory is told apart at a cut."""


@dataclass(frozen=True)
class Trail:
    """The origins of rows: all that is needed once other rows have been joined to them."""

    pairing: npt.NDArray[np.int32]
    """Number of the joined pair of compatibilities, in the state's list (`State.pairings`)."""
    before_row: npt.NDArray[np.int32]
    """Row of the partial mappings."""
    einsum_row: npt.NDArray[np.int32]
    """Row of the Einsum's pmappings."""

    def __len__(self) -> int:
        return len(self.pairing)

    def take(self, which: Ints) -> Trail:
        return Trail(*(getattr(self, f.name)[which] for f in fields(self)))


@dataclass(frozen=True)
class PartialRows:
    """Partial mappings of one compatibility."""

    tiles: Ints
    """Tiles of the open loops (rows × loops)."""
    energy: Floats
    latency: Floats
    reserved: Floats
    """Bits reserved right above each fusion level by Einsums inside it (rows × accounts × levels)."""
    beside: Floats
    """Most bits that a finished branch beside each fusion level needs (rows × accounts × levels + 1). The first account
    of each memory comes first, then the others (`shared_nodes`)."""
    persistent: Floats
    """Bits that persistent tensors take in each account throughout."""
    crossing: Ints
    """Number of the beginning from which a segment's partial mapping started (see `segments`)."""
    taken: Ints
    """Space taken at that beginning, in steps; more is better."""
    apart: Floats
    """Space per Einsum and memory, used only where consolidation is switched off."""
    trail: Trail

    def __len__(self) -> int:
        return len(self.energy)

    @property
    def is_start(self) -> bool:
        """Whether it is one empty row: the beginning, to which the first Einsum is joined."""
        empty = len(self) == 1 and self.beside.shape[2] == 1 and not self.tiles.shape[1]
        return empty and not any(array.any() for array in (self.energy, self.latency, self.beside, self.persistent))

    def take(self, which: Ints) -> PartialRows:
        return replace(self, trail=self.trail.take(which), **{name: getattr(self, name)[which] for name in _ARRAYS})

    def criteria(self) -> Floats:
        """Criteria of dominance: energy, latency, and space by sums from the outermost level in.

        The whole needs the maximum over k of (reserved above k) + beside[k].
        """
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
        """Number the rows: those with the same number compete with each other."""
        return group_numbers(np.column_stack([self.tiles, self.crossing]))

    def best(self) -> Ints:
        """Rows that no row of the same group dominates (proof 7)."""
        return pareto_rows(self.groups(), self.criteria())

    def without_many(self) -> PartialRows:
        """Drop dominated rows if there are very many rows: that saves space, and time in the end."""
        if len(self) < MANY_ROWS:
            return self
        groups = self.groups()
        if len(self) < MANY_RIVALS * (int(groups.max()) + 1):
            return self
        return self.take(np.sort(pareto_rows(groups, self.criteria())))

    def usage(self) -> Floats:
        """Bits that each account needs at least (rows × accounts)."""
        return fold(self.reserved, self.beside, 0)[1][:, :, 0] + self.persistent


_ARRAYS = [f.name for f in fields(PartialRows) if f.name != "trail"]


def start_rows(memories: int, count: int = 1, zones: int = 0) -> PartialRows:
    """Make `count` rows with no Einsum mapped yet, with this many fusion levels of open loops."""
    zeros = np.zeros(count, np.int64)
    return PartialRows(
        tiles=np.empty((count, 0), np.int64), energy=np.zeros(count), latency=np.zeros(count),
        reserved=np.zeros((count, memories, zones)), beside=np.zeros((count, memories, zones + 1)),
        persistent=np.zeros((count, memories)), crossing=zeros, taken=zeros, apart=np.empty((count, 0)),
        trail=Trail(*(zeros.astype(np.int32) for _ in fields(Trail))),
    )  # fmt: skip


def fold(reserved: Floats, beside: Floats, to: int) -> tuple[Floats, Floats]:
    """Close the fusion levels from `to` inwards: sum along a branch, maximum across branches."""
    beside = beside.copy()
    for k in range(reserved.shape[2] - 1, to - 1, -1):
        beside[:, :, k] = np.maximum(beside[:, :, k], reserved[:, :, k] + beside[:, :, k + 1])
    return reserved[:, :, :to], beside[:, :, : to + 1]


class Pairing(NamedTuple):
    """A pair of groups that were joined, by numbers."""

    source: int
    """Number of the pair (finished set, Einsum)."""
    before_group: int
    """Group of the partial mappings."""
    einsum_group: int
    """Group of the Einsum's pmappings."""
    joint: int
    """Number of the way in which the two were joined."""


class Charge(NamedTuple):
    """Bits that the joined Einsum's rows take for a shared tensor."""

    accounts: list[int]
    """Accounts that are charged."""
    zones: int
    """Number of fusion levels above the tensor; PERSISTENT if it takes its space throughout."""
    bits: Floats
    """Bits per row."""


@dataclass(frozen=True)
class Room:
    """The memories that Einsums share."""

    memories: tuple[str, ...]
    sizes: Floats
    """Their sizes in bits."""
    settled: npt.NDArray[np.bool_]
    """Memories in which no persistent tensor can come later. The needs of a branch beside all open loops are compared
    there with the size once and for all: no later tensor is held at the same time."""


class Switches(NamedTuple):
    """Parts of the search that can be switched off, to measure what they are good for."""

    grouping: bool = True
    """Join partial mappings group by group; else compare each with each."""
    consolidation: bool = True
    """Sum up the space of finished Einsums; else each Einsum's space stays a criterion of its own."""


ALL_PARTS = Switches()


@dataclass(frozen=True)
class RowJoin:
    """How the rows of two compatibilities are joined."""

    joint: Joint
    accounts: Ledger
    room: Room
    incumbents: Incumbents
    least: Least
    """Lower bound on the cost of the remaining Einsums."""
    switches: Switches = ALL_PARTS

    def rows(self, before: PartialRows, charged: ChargedRows) -> PartialRows | None:
        """Join every pair that matches, fits the memories and can still beat the incumbents; None if none does."""
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
        """Join the first Einsum to the empty partial mapping, without compiled loops: one Einsum alone needs none."""
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
    """Pmappings of one compatibility, with their charges for shared tensors."""

    arrays: EinsumArrays
    targets: Ints
    """Targets of the charges, as in `JointArrays.charges`."""


def charged_rows(rows: Rows, charges: Iterable[Charge]) -> ChargedRows:
    """Attach to an Einsum's rows their charges for the shared tensors of a join."""
    listed = list(charges)
    bits = np.array([c.bits for c in listed], np.float64).reshape(-1, len(rows))
    floats = rows.energy, rows.latency, rows.bits, rows.persistent, bits
    arrays = EinsumArrays(np.ascontiguousarray(rows.tiles), *(np.ascontiguousarray(array) for array in floats))
    targets = [(account, c.zones, k) for k, c in enumerate(listed) for account in c.accounts]
    return ChargedRows(arrays, np.array(targets, np.int64).reshape(-1, 3))


def all_parts(parts: Sequence[PartialRows], pairings: Sequence[int]) -> PartialRows:
    """Concatenate all parts of one compatibility. `pairings`: the number of the joined pair of each part."""
    arrays = {name: np.concatenate([getattr(p, name) for p in parts]) for name in _ARRAYS}
    pairing = np.repeat(np.array(pairings, np.int32), [len(p) for p in parts])
    before, einsum = (np.concatenate([getattr(p.trail, name) for p in parts]) for name in ("before_row", "einsum_row"))
    return PartialRows(trail=Trail(pairing, before, einsum), **arrays)
