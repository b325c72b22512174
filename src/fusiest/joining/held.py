"""Holders that several Einsums share: a further holder of a tensor above a common loop serves all Einsums inside it.

Its space counts once, as much as its largest user needs. It may sink through the loops right below the holder, and for each
user through others, so users have it at several depths. Of those that lie on one path the largest counts. To keep
sums of space, we keep several accounts: in each, every such holder counts at one of its depths alone. The largest account
is what is needed, as the largest of sums is the sum of the largest.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from fusiest.pmapping.pareto import Floats
from fusiest.pmapping.table import Backing, Holding

CLOSED = 1 << 30
"""The depth of space that sank below all open loops: no later Einsum sees it."""
Stepped = tuple[tuple[str, int], ...]
"""Variables of an Einsum, each with the tile column of the Einsum that is joined."""
User = tuple[str, Stepped]
"""An Einsum and its variables that are stepped above a point."""


class Place(NamedTuple):
    """A holder: tensor, memory, and the zones above it."""

    tensor: str
    memory: str
    zones: int


@dataclass(frozen=True)
class Held:
    """A holder of the Einsum that is joined: at this depth, only what it needs more than those before is to be charged."""

    place: Place
    depth: int
    user: User
    before: tuple[User, ...]


@dataclass(frozen=True)
class Split:
    """A holder with space at several depths, the first of them right below itself."""

    place: Place
    depths: tuple[int, ...]
    left: tuple[int, ...]
    """Those known before the join."""
    after: tuple[int, ...]
    """What each becomes; empty if no later Einsum can share the holder."""
    unsunk: tuple[User, ...]
    """Users before the join whose space is right below the holder: a new depth's account begins without them."""


def place_of(held: Holding) -> Place:
    return Place(held.tensor, held.memory, held.zones)


def moved(held: Holding, boundaries: tuple[int, ...]) -> Holding:
    """The same in other zones."""
    depth = CLOSED if held.depth == CLOSED else boundaries[held.depth]
    return replace(held, zones=boundaries[held.zones], depth=depth)


def orders(holdings: Iterable[Holding]) -> dict[Place, set[Place]] | None:
    """Of each holder, those that must stand above it in the same place; None if they cannot all do so."""
    found: dict[Place, set[Place]] = {}
    for h in holdings:
        if h.over:
            found.setdefault(place_of(h), set()).update(Place(t, m, h.zones) for t, m in h.over)
    for _ in found:
        for own in found.values():
            own.update(*(found.get(p, ()) for p in tuple(own)))
    return None if any(place in own for place, own in found.items()) else found


def agree(old: Iterable[Holding], own: Iterable[Holding], inside: Mapping[str, int], tensors: Iterable[str]) -> bool:
    """Whether both sides hold the same above every common loop, of each of the Einsum's tensors that both use."""
    for tensor in tensors:
        if tensor in inside:
            before, now = (
                {place_of(h) for h in side if h.tensor == tensor and h.zones < inside[tensor]} for side in (old, own)
            )
            if before != now:
                return False
    return True


def still_held(
    users: Iterable[tuple[Holding, str]], above: Mapping[Place, set[Place]], live: frozenset[str], open_zones: int
) -> tuple[tuple[Holding, str], ...]:
    """Holders that a later Einsum can share, with the Einsums that have them. `above`: as `orders` says."""
    found = set()
    for h, user in users:
        if h.tensor in live and h.zones < open_zones:
            over = sorted((p.tensor, p.memory) for p in above.get(place_of(h), ()) if p.tensor in live)
            closed = h.depth >= open_zones
            sunk = replace(h, depth=CLOSED if closed else h.depth, over=tuple(over))
            found.add((sunk if h.depth != h.zones else h, "" if closed else user))
    return tuple(sorted(found, key=lambda item: (place_of(item[0]), item[0].depth, item[1])))


def splits(
    old: Sequence[tuple[Holding, str]],
    own: Iterable[Holding],
    after: Iterable[tuple[Holding, str]],
    users: Mapping[tuple[Place, int], tuple[User, ...]],
    open_zones: int,
) -> tuple[Split, ...]:
    """Holders with space at several depths. `users`: those before the join, by place and depth."""
    shared = {place_of(h) for h, _ in (*old, *after)}
    sunk = {place_of(h) for h in (*(h for h, _ in old), *own) if h.depth != h.zones} & shared
    found = []
    for place in sorted(sunk):
        left = {h.depth for h, _ in old if place_of(h) == place}
        depths = sorted({place.zones} | left | {h.depth for h in own if place_of(h) == place})
        stays = any(place_of(h) == place for h, _ in after)
        known = sorted({place.zones} | left) if left - {place.zones} else [place.zones]
        later = [d if d < open_zones else CLOSED for d in depths] if stays else []
        found.append(Split(place, tuple(depths), tuple(known), tuple(later), users.get((place, place.zones), ())))
    return tuple(found)


def with_copy(copies: tuple[frozenset[str], ...], backings: Sequence[Backing]) -> tuple[frozenset[str], ...]:
    """Tensors that share their space, after a copy Einsum: with its two, if it puts its output where its input is."""
    own = frozenset(b.tensor for b in backings)
    if len(own) < 2 or len({b.memory for b in backings}) > 1:
        return copies
    return (*(group for group in copies if not group & own), own.union(*(group for group in copies if group & own)))


Choice = tuple[int, ...]
"""Of each split holder in a memory, the depth at which it counts."""


def _columns(depths: Sequence[tuple[str, tuple[int, ...]]], memories: tuple[str, ...]) -> dict[tuple[str, Choice], int]:
    """Accounts by number: of each memory the first, then all others."""
    options = {m: list(itertools.product(*(own for memory, own in depths if memory == m))) for m in memories}
    first = [(m, options[m][0]) for m in memories]
    return {key: i for i, key in enumerate([*first, *((m, choice) for m in memories for choice in options[m][1:])])}


@dataclass(frozen=True)
class Ledger:
    """The accounts of a join."""

    splits: tuple[Split, ...]
    memories: tuple[str, ...]

    @cached_property
    def accounts(self) -> list[tuple[str, Choice]]:
        return list(_columns([(s.place.memory, s.depths) for s in self.splits], self.memories))

    @cached_property
    def memory(self) -> list[int]:
        """Of each account, its memory."""
        return [self.memories.index(m) for m, _ in self.accounts]

    def of(self, memory: str) -> list[int]:
        return [i for i, (m, _) in enumerate(self.accounts) if m == memory]

    def _of(self, memory: str) -> list[Split]:
        return [s for s in self.splits if s.place.memory == memory]

    @cached_property
    def left(self) -> list[int]:
        """Of each account, that of the partial mapping from which it begins."""
        known = [s for s in self.splits if len(s.left) > 1]
        numbers = _columns([(s.place.memory, s.left) for s in known], self.memories)
        found = []
        for m, choice in self.accounts:
            pairs = zip(self._of(m), choice, strict=True)
            found.append(numbers[m, tuple(d if d in s.left else s.left[0] for s, d in pairs if s in known)])
        return found

    @cached_property
    def after(self) -> list[int]:
        """Of each account, that of the joined mapping which it becomes a part of."""
        lasting = [s for s in self.splits if s.after]
        numbers = _columns([(s.place.memory, tuple(dict.fromkeys(s.after))) for s in lasting], self.memories)
        found = []
        for m, choice in self.accounts:
            pairs = zip(self._of(m), choice, strict=True)
            found.append(numbers[m, tuple(s.after[s.depths.index(d)] for s, d in pairs if s in lasting)])
        return found

    def counting(self, place: Place, depth: int) -> list[int]:
        """Accounts in which a holder counts at this depth."""
        found = []
        for i, (m, choice) in enumerate(self.accounts):
            chosen = {s.place: d for s, d in zip(self._of(m), choice, strict=True)}
            if m == place.memory and chosen.get(place, depth) == depth:
                found.append(i)
        return found

    def opened(self, split: Split) -> list[int]:
        """Accounts that begin with this join, of a depth at which the holder had no space before."""
        return [i for d in split.depths if d not in split.left for i in self.counting(split.place, d)]


@lru_cache(maxsize=10_000)
def ledger(splits: tuple[Split, ...], memories: tuple[str, ...]) -> Ledger:
    """The accounts of a join, of memories that are tracked."""
    return Ledger(tuple(s for s in splits if s.place.memory in memories), memories)


def merge_accounts(own: Floats, done: Floats, into: Sequence[int]) -> tuple[Floats, Floats]:
    """Accounts that differ no more become one: the larger at every depth, since all that follows adds the same to both."""
    above = np.zeros(done.shape)
    np.cumsum(own, axis=2, out=above[:, :, 1:])
    beside = above + done
    count = max(into) + 1
    most = np.zeros((2, len(own), count, done.shape[2]))
    for i, number in enumerate(into):
        most[0, :, number] = np.maximum(most[0, :, number], above[:, i])
        most[1, :, number] = np.maximum(most[1, :, number], beside[:, i])
    return np.diff(most[0], axis=2), most[1] - most[0]
