"""Storage nodes that several Einsums share, and accounts of the space that they take.

A further storage node of a tensor above a common loop serves all Einsums inside that loop. Its space counts once, at
the size that its largest user needs. The space may sink through the loops right below the node, for each user through
other loops. So users have the node at several depths; of depths on one path, the largest counts.

Reservations of a memory are sums along a path, so a maximum inside them cannot be written as one sum. An *account* is
one way to count a memory: in it, every such node counts at one of its depths alone. A memory has one account for each
combination of depths. It needs as much as its largest account, because the largest of sums is the sum of the largest.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from fusiest.joining.meeting.compatibility import OpenHolding
from fusiest.pmapping import Backing, Floats, Holding

CLOSED = 1 << 30
"""The depth of space that sank below all open loops: no later Einsum sees it."""


class HolderUser(NamedTuple):
    """An Einsum that has a storage node."""

    einsum: str
    stepped: tuple[tuple[str, int], ...]
    """Its variables that are stepped above the node's space, each with the tile column of the Einsum that is joined."""


class HolderPlace(NamedTuple):
    """The place of a storage node."""

    tensor: str
    memory: str
    zones: int
    """Number of fusion levels above the node."""


@dataclass(frozen=True)
class SharedHolder:
    """A storage node of the joined Einsum. At this depth it is charged only what it needs beyond earlier users."""

    place: HolderPlace
    depth: int
    """The number of fusion levels above its space."""
    user: HolderUser
    """The joined Einsum."""
    before: tuple[HolderUser, ...]
    """Einsums that have the same node at the same depth already."""


@dataclass(frozen=True)
class SpreadHolder:
    """A storage node with space at several depths."""

    place: HolderPlace
    depths: tuple[int, ...]
    """Its depths with this join; the first is right below the node."""
    before: tuple[int, ...]
    """Its depths before the join."""
    after: tuple[int, ...]
    """The depth that each becomes after the join; empty if no later Einsum can share the node."""
    unsunk: tuple[HolderUser, ...]
    """Users before the join whose space is right below the node: a new depth's account begins without them."""


def place_of(held: Holding) -> HolderPlace:
    """The place of a holding."""
    return HolderPlace(held.tensor, held.memory, held.zones)


def moved(held: Holding, boundaries: tuple[int, ...]) -> Holding:
    """Convert a holding to other fusion levels. `boundaries`: the new boundary for each old one."""
    depth = CLOSED if held.depth == CLOSED else boundaries[held.depth]
    return replace(held, zones=boundaries[held.zones], depth=depth)


def orders(holdings: Iterable[Holding]) -> dict[HolderPlace, set[HolderPlace]] | None:
    """The storage nodes that must stand above each node in the same place; None if no order satisfies all."""
    above: dict[HolderPlace, set[HolderPlace]] = {}
    for h in holdings:
        if h.over:
            above.setdefault(place_of(h), set()).update(HolderPlace(t, m, h.zones) for t, m in h.over)
    for _ in above:
        for places in above.values():
            places.update(*(above.get(p, ()) for p in tuple(places)))
    return None if any(place in places for place, places in above.items()) else above


def agree(
    open_side: Iterable[Holding], einsum_side: Iterable[Holding], inside: Mapping[str, int], tensors: Iterable[str]
) -> bool:
    """Whether both sides have the same storage nodes above every common loop, for each of the Einsum's tensors."""
    for tensor in tensors:
        if tensor in inside:
            open_places, einsum_places = (
                {place_of(h) for h in side if h.tensor == tensor and h.zones < inside[tensor]}
                for side in (open_side, einsum_side)
            )
            if open_places != einsum_places:
                return False
    return True


def still_held(
    users: Iterable[OpenHolding], above: Mapping[HolderPlace, set[HolderPlace]], live: frozenset[str], open_zones: int
) -> tuple[OpenHolding, ...]:
    """Storage nodes that a later Einsum can share, each with the Einsums that have it. `above`: as `orders` gives it."""
    held = set()
    for h, user in users:
        if h.tensor in live and h.zones < open_zones:
            over = sorted((p.tensor, p.memory) for p in above.get(place_of(h), ()) if p.tensor in live)
            closed = h.depth >= open_zones
            sunk = replace(h, depth=CLOSED if closed else h.depth, over=tuple(over))
            held.add(OpenHolding(sunk if h.depth != h.zones else h, "" if closed else user))
    return tuple(sorted(held, key=lambda item: (place_of(item.holding), item.holding.depth, item.user)))


def spread_holders(
    open_side: Sequence[OpenHolding],
    einsum_side: Iterable[Holding],
    after: Iterable[OpenHolding],
    users: Mapping[tuple[HolderPlace, int], tuple[HolderUser, ...]],
    open_zones: int,
) -> tuple[SpreadHolder, ...]:
    """Shared storage nodes with space at several depths. `users`: those before the join, by place and depth."""
    shared = {place_of(h) for h, _ in (*open_side, *after)}
    sunk = {place_of(h) for h in (*(h for h, _ in open_side), *einsum_side) if h.depth != h.zones} & shared
    spread = []
    for place in sorted(sunk):
        before = {h.depth for h, _ in open_side if place_of(h) == place}
        depths = sorted({place.zones} | before | {h.depth for h in einsum_side if place_of(h) == place})
        stays = any(place_of(h) == place for h, _ in after)
        depths_before = sorted({place.zones} | before) if before - {place.zones} else [place.zones]
        later = [d if d < open_zones else CLOSED for d in depths] if stays else []
        unsunk = users.get((place, place.zones), ())
        spread.append(SpreadHolder(place, tuple(depths), tuple(depths_before), tuple(later), unsunk))
    return tuple(spread)


def with_copy(copies: tuple[frozenset[str], ...], backings: Sequence[Backing]) -> tuple[frozenset[str], ...]:
    """Groups of tensors that share their space, after a copy Einsum: its two form one if both lie in one memory."""
    pair = frozenset(b.tensor for b in backings)
    if len(pair) < 2 or len({b.memory for b in backings}) > 1:
        return copies
    return (*(group for group in copies if not group & pair), pair.union(*(group for group in copies if group & pair)))


class Account(NamedTuple):
    """One way to count the bits in a memory."""

    memory: str
    depths: tuple[int, ...]
    """The depth at which each of the memory's spread nodes counts."""


def _numbered(spread: Sequence[tuple[str, tuple[int, ...]]], memories: tuple[str, ...]) -> dict[Account, int]:
    """Number all accounts: the first of each memory, then all others. `spread`: memory and depths of each spread node."""
    options = {m: list(itertools.product(*(depths for memory, depths in spread if memory == m))) for m in memories}
    first = [Account(m, options[m][0]) for m in memories]
    others = (Account(m, depths) for m in memories for depths in options[m][1:])
    return {account: i for i, account in enumerate([*first, *others])}


@dataclass(frozen=True)
class Ledger:
    """The accounts of a join."""

    spread: tuple[SpreadHolder, ...]
    memories: tuple[str, ...]

    @cached_property
    def accounts(self) -> list[Account]:
        """All accounts, by number."""
        return list(_numbered([(s.place.memory, s.depths) for s in self.spread], self.memories))

    @cached_property
    def memory(self) -> list[int]:
        """The memory of each account, by number."""
        return [self.memories.index(account.memory) for account in self.accounts]

    @cached_property
    def _of_memory(self) -> dict[str, list[int]]:
        return {m: [i for i, account in enumerate(self.accounts) if account.memory == m] for m in self.memories}

    def of(self, memory: str) -> list[int]:
        """The accounts of a memory."""
        return self._of_memory[memory]

    def _counted(self, account: Account) -> list[tuple[SpreadHolder, int]]:
        """The spread nodes of an account's memory, each with the depth at which it counts there."""
        return list(zip((s for s in self.spread if s.place.memory == account.memory), account.depths, strict=True))

    @cached_property
    def before(self) -> list[int]:
        """For each account, the account of the partial mapping that it continues."""
        spread_before = [s for s in self.spread if len(s.before) > 1]
        numbers = _numbered([(s.place.memory, s.before) for s in spread_before], self.memories)
        begins = []
        for account in self.accounts:
            depths = tuple(d if d in s.before else s.before[0] for s, d in self._counted(account) if s in spread_before)
            begins.append(numbers[Account(account.memory, depths)])
        return begins

    @cached_property
    def after(self) -> list[int]:
        """For each account, the account of the joined mapping that it is merged into."""
        lasting = [s for s in self.spread if s.after]
        numbers = _numbered([(s.place.memory, tuple(dict.fromkeys(s.after))) for s in lasting], self.memories)
        becomes = []
        for account in self.accounts:
            depths = tuple(s.after[s.depths.index(d)] for s, d in self._counted(account) if s in lasting)
            becomes.append(numbers[Account(account.memory, depths)])
        return becomes

    def counting(self, place: HolderPlace, depth: int) -> list[int]:
        """Accounts in which a storage node counts at this depth."""
        numbers = []
        for i, account in enumerate(self.accounts):
            chosen = {s.place: d for s, d in self._counted(account)}
            if account.memory == place.memory and chosen.get(place, depth) == depth:
                numbers.append(i)
        return numbers

    def opened(self, holder: SpreadHolder) -> list[int]:
        """Accounts that begin with this join: of a depth at which the node had no space before."""
        return [i for d in holder.depths if d not in holder.before for i in self.counting(holder.place, d)]


@lru_cache(maxsize=10_000)
def ledger(spread: tuple[SpreadHolder, ...], memories: tuple[str, ...]) -> Ledger:
    """The accounts of a join, for these memories."""
    return Ledger(tuple(s for s in spread if s.place.memory in memories), memories)


def merge_accounts(reserved: Floats, beside: Floats, into: Sequence[int]) -> tuple[Floats, Floats]:
    """Merge accounts that no later Einsum can tell apart: the larger at every depth counts.

    All later joins add the same to both.
    """
    above = np.zeros(beside.shape)
    np.cumsum(reserved, axis=2, out=above[:, :, 1:])
    total = above + beside
    most = np.zeros((2, len(reserved), max(into) + 1, beside.shape[2]))
    for i, number in enumerate(into):
        most[0, :, number] = np.maximum(most[0, :, number], above[:, i])
        most[1, :, number] = np.maximum(most[1, :, number], total[:, i])
    return np.diff(most[0], axis=2), most[1] - most[0]
