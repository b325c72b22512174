"""Joining rows: sums of energy and latency, and the consolidation of reservations, for all fitting pairs at once.

Per memory and zone of open loops a partial mapping keeps two numbers: what is reserved right above the zone by Einsums
inside it (`own`), and the most that any finished branch beside it needs (`done`); and one more below the last zone.
The usage of the whole is then  u[k] = max(done[k], own[k] + u[k + 1]),  u[last] = done[last].
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fusiest.joining.bounds import BUCKETS, Incumbents, Least
from fusiest.joining.forms import PERSISTENT, Joint
from fusiest.joining.held import Ledger, merge_accounts
from fusiest.pmapping.pareto import Floats, Ints, pareto_rows
from fusiest.pmapping.table import Rows, group_numbers


@dataclass
class PartialRows:
    """Partial mappings of one form. Pointers say which two rows each came from."""

    tiles: Ints
    energy: Floats
    latency: Floats
    own: Floats
    done: Floats
    """Rows × accounts × zones: of each memory the first account, then the others (`held`)."""
    persistent: Floats
    """Bits that persistent tensors take in each account throughout."""
    source: Ints
    """Which pair (finished set, Einsum) was joined."""
    left_form: Ints
    left_row: Ints
    right_form: Ints
    right_row: Ints
    joint: Ints
    """In which of the ways that the two forms can be joined."""
    entry: Ints
    """Which of the given beginnings it has, and with how much space taken at first: more is better."""
    taken: Ints
    apart: Floats
    """Space that is not consolidated, per Einsum and memory: only where that is switched off."""

    def __len__(self) -> int:
        return len(self.source)

    def forget(self) -> None:
        """Keep only where rows came from: all that is needed once others have been joined to them."""
        self.tiles = np.empty((0, 0), np.int64)
        self.energy = self.latency = self.persistent = self.own = self.done = np.empty(0)
        self.entry = self.taken = np.empty(0, np.int64)

    def in_accounts(self, which: list[int]) -> PartialRows:
        """With these accounts in place of its own."""
        return replace(self, own=self.own[:, which], done=self.done[:, which], persistent=self.persistent[:, which])

    def take(self, which: Ints) -> PartialRows:
        return PartialRows(*(getattr(self, name)[which] for name in self.__dataclass_fields__))

    def criteria(self) -> Floats:
        """Space counts by sums from the outermost in: the whole needs max over k of (own above k) + done[k]."""
        columns = []
        for m in range(self.done.shape[1]):
            above = self.persistent[:, m]
            for z in range(self.done.shape[2]):
                above = above + self.own[:, m, z - 1] if z else above
                columns += [above, above + self.done[:, m, z]]
        columns.append((BUCKETS - self.taken).astype(np.float64))  # never negative: dominance has a relative slack
        varying = [c for c in columns if len(c) and (c != c[0]).any()]
        return np.column_stack([self.energy, self.latency, *varying, self.apart])

    def usage(self) -> Floats:
        """What each account needs at least (rows × accounts)."""
        return fold(self.own, self.done, 0)[1][:, :, 0] + self.persistent


def start_rows(memories: int) -> PartialRows:
    """Nothing mapped yet."""
    one = np.zeros(1, np.int64)
    return PartialRows(
        np.empty((1, 0), np.int64), np.zeros(1), np.zeros(1), np.zeros((1, memories, 0)), np.zeros((1, memories, 1)),
        np.zeros((1, memories)), one, one, one, one, one, one, one, one, np.empty((1, 0)),
    )  # fmt: skip


def fold(own: Floats, done: Floats, to: int) -> tuple[Floats, Floats]:
    """Close the zones from `to` inwards: sum along a branch, maximum across branches."""
    done = done.copy()
    for k in range(own.shape[2] - 1, to - 1, -1):
        done[:, :, k] = np.maximum(done[:, :, k], own[:, :, k] + done[:, :, k + 1])
    return own[:, :, :to], done[:, :, : to + 1]


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
    found = [np.flatnonzero((right == row).all(axis=1)) for row in left]
    counts = [len(own) for own in found]
    return np.repeat(np.arange(len(left)), counts), np.concatenate([np.empty(0, np.int64), *found])


Charge = tuple[list[int], int, Floats]
"""Accounts, zones above, and bits per row of the Einsum that is joined."""


@dataclass(frozen=True)
class Filter:
    """Which pairs are worth keeping: what is still to come at least, and the test against known mappings."""

    least: Least
    incumbents: Incumbents


def join_rows(
    left: PartialRows,
    right: Rows,
    joint: Joint,
    bounds: list[int],
    accounts: Ledger,
    charges: Iterable[Charge],
    sizes: Floats,
    settled: npt.NDArray[np.bool_],
    wanted: Filter,
    grouping: bool = True,
    consolidation: bool = True,
) -> PartialRows:
    """Every fitting pair of rows that the memories can hold and that can still beat what is known.

    `charges`: for the shared tensors that this join adds.
    `settled`: memories in which nothing persistent can come later. What a branch beside all open loops needs there is
    compared with the size once and for all: nothing else will ever be held at the same time.
    """
    if accounts.splits:
        left, right = left.in_accounts(accounts.left), right.in_accounts(accounts.memory)
        sizes, settled = sizes[accounts.memory], settled[accounts.memory]
    columns = [a for a, _ in joint.matched], [b for _, b in joint.matched]
    tiles = left.tiles[:, columns[0]], right.tiles[:, columns[1]]
    i, j = matching_pairs(*tile_keys(*tiles, bounds)) if grouping else compared_pairs(*tiles)
    energy, latency = left.energy[i] + right.energy[j], left.latency[i] + right.latency[j]
    promising = np.flatnonzero(wanted.incumbents.promising(energy, latency, wanted.least))
    i, j, energy, latency = i[promising], j[promising], energy[promising], latency[promising]
    count = left.done.shape[1]
    own = np.zeros((len(i), count, joint.zones))
    done = np.zeros((len(i), count, joint.zones + 1))
    for z in range(left.own.shape[2]):
        own[:, :, joint.left[z]] += left.own[i, :, z]
    for z in range(left.done.shape[2]):
        done[:, :, joint.left[z]] = left.done[i, :, z]
    for z in range(right.bits.shape[2] - 1):
        own[:, :, joint.right[z]] += right.bits[j, :, z]
    leaf = right.bits[j, :, -1]
    persistent = left.persistent[i] + right.persistent[j]
    for charged, at, bits in charges:
        for account in charged:
            if at == PERSISTENT:
                persistent[:, account] += bits[j]
            elif at == joint.zones:
                leaf[:, account] += bits[j]
            else:
                own[:, account, at] += bits[j]
    done[:, :, joint.zones] = np.maximum(done[:, :, joint.zones], leaf)
    _, total = fold(own, done, 0)
    own, done = fold(own, done, joint.open_zones)
    usage = total[:, :, 0] + persistent
    fit = (usage <= sizes * (1 + 1e-12)).all(axis=1)
    if wanted.incumbents.watched is not None:
        watched = [k for k, memory in enumerate(accounts.memory) if memory == wanted.incumbents.watched]
        fit &= wanted.incumbents.promising(energy, latency, wanted.least, usage[:, watched].max(axis=1))
    fits = np.flatnonzero(fit)
    if consolidation:
        done[:, settled, 0] = 0.0
    i, j, own, done, persistent = i[fits], j[fits], own[fits], done[fits], persistent[fits]
    if accounts.splits:
        own, done = merge_accounts(own, done, accounts.after)
        persistent = persistent[:, [accounts.after.index(k) for k in range(own.shape[1])]]
    apart = left.apart[i] if consolidation else np.column_stack([left.apart[i], leaf[fits, : len(accounts.memories)]])
    nothing = np.zeros(len(i), np.int64)
    return PartialRows(
        right.tiles[j][:, list(joint.tiles)], energy[fits], latency[fits], own, done,
        persistent, nothing, nothing.copy(), i, nothing.copy(), j, nothing.copy(), left.entry[i], left.taken[i], apart,
    )  # fmt: skip


def merge_partial(parts: list[PartialRows]) -> PartialRows:
    """All parts of one form, pruned group by group."""
    rows = PartialRows(
        *(np.concatenate([getattr(p, name) for p in parts]) for name in PartialRows.__dataclass_fields__)
    )
    groups = group_numbers(np.column_stack([rows.tiles, rows.entry]))
    return rows.take(pareto_rows(groups, rows.criteria()))


def footprint_constants(users: tuple[Mapping[str, int], ...], fused: frozenset[str]) -> int:
    """Elements of a tensor's tile apart from the fused ranks' tiles: of all users, the largest."""
    return max(math.prod(n for rank, n in extents.items() if rank not in fused) for extents in users)
