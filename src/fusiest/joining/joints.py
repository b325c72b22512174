"""How a partial mapping and the pmappings of the next Einsum meet, told by their compatibilities alone.

A pmapping fits if both agree on every tensor that they share, if all open loops are among its fused loops and can be put
before its others, and if no tensor is used before it is finished.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from fusiest.joining.compatibility import APART, EinsumView, OpenCompatibility, OpenHolding, OpenLoop
from fusiest.joining.holders import (
    HolderPlace,
    HolderUser,
    SharedHolder,
    SpreadHolder,
    agree,
    moved,
    orders,
    place_of,
    spread_holders,
    still_held,
    with_copy,
)
from fusiest.joining.matches import LoopMatch, matches
from fusiest.model import keeps_behind
from fusiest.pmapping import Backing, Compatibility, FusedLoop, Holding
from fusiest.spec import Stepping

PERSISTENT = -1
"""In place of a number of zones: a tensor that takes its space throughout the workload."""


@dataclass(frozen=True)
class Exchanged:
    """A tensor that begins to take space with this join, below `zones` zones of the refinement.

    It stays for as long as the loop right below it is open: its tile lives through all iterations of that loop.
    """

    tensor: str
    memory: str
    zones: int
    columns: tuple[tuple[Stepping, int], ...]
    """Its ranks that are stepped above it, each with the Einsum's tile column."""
    charged: bool = False
    """It takes its space already, and is here for a copy of it: only what the copy needs more is to be charged."""


@dataclass(frozen=True)
class Joint:
    """How a partial mapping's compatibility and that of the next Einsum's pmappings become a new one.

    Zones below are those of the common refinement, outermost first. `matched` pairs tile columns of both sides that
    must be equal. `open_boundaries` and `einsum_boundaries` give, per zone boundary of each side, its boundary in the
    refinement.
    """

    compatibility: OpenCompatibility
    matched: tuple[tuple[int, int], ...]
    open_boundaries: tuple[int, ...]
    einsum_boundaries: tuple[int, ...]
    zones: int
    open_zones: int
    tiles: tuple[int, ...]
    """Tile columns of the Einsum that stay open, in the new compatibility's order."""
    exchanged: tuple[Exchanged, ...]
    copies: tuple[frozenset[str], ...]
    """Tensors of which one is charged for all."""
    shared_holders: tuple[SharedHolder, ...]
    spread: tuple[SpreadHolder, ...]


@dataclass(frozen=True)
class JoinRules:
    """What holds for all joins of a workload."""

    persistent: frozenset[str] = frozenset()
    """Tensors that take their space throughout."""
    only_finished: bool = True
    """Einsums use only tensors that are finished."""
    uneven_copies: frozenset[str] = frozenset()
    """Tensors that are larger or smaller than their copies: what shares their space must know of them when they are dead."""


class BackingDepth(NamedTuple):
    """Where a tensor is exchanged: its memory, and how many zones of the refinement are above it."""

    memory: str
    zones: int


def meetings(
    before: OpenCompatibility, einsum: Compatibility, view: EinsumView, live: LiveTensors, rules: JoinRules
) -> tuple[LoopMatch, ...]:
    """All ways in which both can meet, if they agree relaxed; none if their loops cannot be put in one order."""
    found = matches(before, einsum, view, live.shared)
    return tuple(match for match in found if Meeting(before, einsum, view, match, live.after, rules).fits())


class LiveTensors(NamedTuple):
    """Tensors that matter to a join: those of the Einsum that were live before, and all that are live after it."""

    shared: frozenset[str]
    after: frozenset[str]


@dataclass(frozen=True)
class Meeting:
    """Both sides, given which of the Einsum's loops each open loop is."""

    before: OpenCompatibility
    einsum: Compatibility
    view: EinsumView
    match: LoopMatch
    live: frozenset[str]
    rules: JoinRules

    def fits(self) -> bool:
        """Whether they fit. Only what `outline` has of the partial mapping is looked at."""
        agreed = self.blocks is not None and self._in_turn() and self._backings_agree() and self._holders_agree()
        return agreed and self._orders is not None

    @cached_property
    def _orders(self) -> dict[HolderPlace, set[HolderPlace]] | None:
        return orders([*(h for h, _ in self.open_holdings), *self.einsum_holdings])

    def joint(self) -> Joint:
        """The two as one, if they fit."""
        above = self._orders
        assert self.blocks is not None
        assert above is not None
        user = self.view.info.name
        holdings = still_held(
            [*self.open_holdings, *(OpenHolding(h, user) for h in self.einsum_holdings)],
            above,
            self.live,
            self.open_zones,
        )
        zones = self._open_loops(holdings)
        users = self._users()
        return Joint(
            compatibility=self._joined([[loop for _, loop in zone] for zone in zones], holdings),
            matched=tuple((i, self.column[v]) for i, v in self.match.items()),
            open_boundaries=self.open_boundaries,
            einsum_boundaries=self.einsum_boundaries,
            zones=len(self.blocks),
            open_zones=self.open_zones,
            tiles=tuple(self.column[v] for zone in zones for v, _ in zone),
            exchanged=tuple(self._exchanged()),
            copies=self.copies,
            shared_holders=tuple(self._shared_holders(users)),
            spread=spread_holders(self.open_holdings, self.einsum_holdings, holdings, users, self.open_zones),
        )

    # --- zones --------------------------------------------------------------------------------------------------------

    @cached_property
    def zone(self) -> dict[FusedLoop, int]:
        """Of each loop of the Einsum, its zone there."""
        return {v: z for z, zone in enumerate(self.einsum.zones) for v in zone}

    @cached_property
    def column(self) -> dict[FusedLoop, int]:
        return {v: i for i, v in enumerate(self.einsum.loops)}

    @cached_property
    def open_column(self) -> dict[FusedLoop, int]:
        """Of each loop of the Einsum that is open, which one it is there."""
        return {v: i for i, v in self.match.items()}

    @cached_property
    def open_zone(self) -> dict[FusedLoop, int]:
        """Of each loop of the Einsum that is open, its zone there."""
        numbers = [z for z, zone in enumerate(self.before.zones) for _ in zone]
        return {v: numbers[i] for i, v in self.match.items()}

    @cached_property
    def blocks(self) -> list[list[FusedLoop]] | None:
        """The Einsum's fused loops in the coarsest order that respects both sides, open loops first."""
        last = len(self.match) + 1
        key = {v: (self.open_zone.get(v, last), z) for v, z in self.zone.items()}
        order = sorted(key, key=lambda v: key[v])
        if any(key[outer][1] > key[inner][1] for outer, inner in itertools.pairwise(order)):
            return None
        return [list(block) for _, block in itertools.groupby(order, key=lambda v: key[v])]

    def _above(self, zones: int) -> Iterator[FusedLoop]:
        """Loops above a boundary of the refinement."""
        assert self.blocks is not None
        return itertools.chain.from_iterable(self.blocks[:zones])

    @cached_property
    def open_boundaries(self) -> tuple[int, ...]:
        zones = len(self.before.zones)
        blocks = self.blocks or []
        return _boundaries(
            zones, [max((self.open_zone[v] for v in b if v in self.open_zone), default=zones) for b in blocks]
        )

    @cached_property
    def einsum_boundaries(self) -> tuple[int, ...]:
        return _boundaries(len(self.einsum.zones), [self.zone[block[0]] for block in self.blocks or []])

    # --- tensors ------------------------------------------------------------------------------------------------------

    @cached_property
    def depth(self) -> dict[str, BackingDepth]:
        """Where each tensor of either side is exchanged."""
        found = {b.tensor: BackingDepth(b.memory, self.open_boundaries[b.zones]) for b in self.before.backings}
        return found | {b.tensor: BackingDepth(b.memory, self.einsum_boundaries[b.zones]) for b in self.einsum.backings}

    def _backings_agree(self) -> bool:
        return all(self.depth[b.tensor].zones == self.open_boundaries[b.zones] for b in self.before.backings)

    @cached_property
    def copies(self) -> tuple[frozenset[str], ...]:
        if not self.view.info.is_copy_operation:
            return self.before.copies
        return with_copy(self.before.copies, self.einsum.backings)

    @cached_property
    def alive(self) -> dict[str, BackingDepth]:
        """Tensors that are live after the join, and those that share their space with one but need more of it."""
        partners = frozenset[str]().union(*(group for group in self.copies if group & self.live))
        kept = self.live | (partners & self.rules.uneven_copies)
        return {t: depth for t, depth in self.depth.items() if t in kept}

    @cached_property
    def open_zones(self) -> int:
        return max((zones for _, zones in self.alive.values()), default=0)

    def _in_turn(self) -> bool:
        """Whether every tensor that the Einsum uses is finished by then, or piece by piece in the loops it shares."""
        for i, loop in enumerate(self.before.loops):
            v = self.match[i]
            for tensor, made in loop.produced:
                if tensor not in self.view.tensors:
                    continue
                if tensor == self.view.info.output:
                    if made == APART:  # who makes another part holds it elsewhere above the loop
                        return False
                elif made is None or made == APART or not keeps_behind(self.view.info, tensor, v.variable, made):
                    return False
                if any(h.tensor == tensor and h.zones <= self.zone[v] for h in self.einsum.holdings):
                    return False
        return True

    def _stepping(self, tensor: str, v: FusedLoop) -> Stepping | None:
        """How a loop steps a tensor of either side."""
        stepping = self.view.stepping(tensor, v.variable) if tensor in self.view.tensors else None
        if stepping is None and v in self.open_column:
            stepping = self.before.loops[self.open_column[v]].stepping(tensor)
        return stepping

    def _exchanged(self) -> Iterator[Exchanged]:
        """Tensors to be charged now. One that was live before is already charged in the branch that is still open."""
        persistent, open_before = self.rules.persistent, self.open_boundaries[-1]
        charged = {
            b.tensor for b in self.before.backings if self.depth[b.tensor].zones < open_before or b.tensor in persistent
        }
        fresh = self.depth.keys() - charged
        for tensor, (memory, at) in self.depth.items():
            if tensor in charged and not any(tensor in group and group & fresh for group in self.copies):
                continue
            columns: dict[Stepping, int] = {}  # of several loops over a rank the innermost counts
            for v in self._above(at):
                stepping = self._stepping(tensor, v)
                assert stepping is not None
                columns[stepping] = self.column[v]
            zones = PERSISTENT if tensor in persistent else at
            yield Exchanged(tensor, memory, zones, tuple(columns.items()), tensor in charged)

    # --- further holders ----------------------------------------------------------------------------------------------

    @cached_property
    def open_holdings(self) -> list[OpenHolding]:
        return [OpenHolding(moved(h, self.open_boundaries), user) for h, user in self.before.holdings]

    @cached_property
    def einsum_holdings(self) -> list[Holding]:
        return [moved(h, self.einsum_boundaries) for h in self.einsum.holdings]

    @cached_property
    def inside(self) -> dict[str, int]:
        """Tensors that an Einsum inside open loops has used, each with the number of those zones."""
        return {t: self.open_boundaries[zones] for t, zones in self.before.inside}

    def _holders_agree(self) -> bool:
        if self.view.info.is_copy_operation:  # whose further holders are ignored
            return True
        return agree([h for h, _ in self.open_holdings], self.einsum_holdings, self.inside, self.view.tensors)

    def _users(self) -> dict[tuple[HolderPlace, int], tuple[HolderUser, ...]]:
        """Einsums in the open loops that hold a tensor, by place and depth, with the tiles above that depth."""
        found: dict[tuple[HolderPlace, int], tuple[HolderUser, ...]] = {}
        for held, user in self.open_holdings:
            above = set(self._above(held.depth))
            loops = ((self.before.loops[i], self.column[v]) for i, v in self.match.items() if v in above)
            names = sorted((v, column) for loop, column in loops for einsum, v in loop.names if einsum == user)
            key = place_of(held), held.depth
            found[key] = (*found.get(key, ()), HolderUser(user, tuple(names)))
        return found

    def _shared_holders(
        self, users: Mapping[tuple[HolderPlace, int], tuple[HolderUser, ...]]
    ) -> Iterator[SharedHolder]:
        """The Einsum's further holders of shared tensors, each with the Einsums in the open loops that have the same."""
        for h in self.einsum_holdings:
            stepped = tuple((v.variable, self.column[v]) for v in sorted(self._above(h.depth)))
            place = place_of(h)
            yield SharedHolder(
                place, h.depth, HolderUser(self.view.info.name, stepped), users.get((place, h.depth), ())
            )

    # --- what stays open ----------------------------------------------------------------------------------------------

    def _open_loops(self, holdings: tuple[OpenHolding, ...]) -> list[list[tuple[FusedLoop, OpenLoop]]]:
        """The loops that stay open, each with the ranks of the live tensors below it, in a canonical order per zone."""
        assert self.blocks is not None
        zones = []
        for z, block in enumerate(self.blocks[: self.open_zones]):
            users = {user for h, user in holdings if h.depth > z}
            zone = [(v, self._open_loop(v, z, users)) for v in block]
            zones.append(sorted(zone, key=lambda item: item[1].sort_key))
        return zones

    def _open_loop(self, v: FusedLoop, z: int, users: set[str]) -> OpenLoop:
        info = self.view.info
        before = self.before.loops[self.open_column[v]] if v in self.open_column else None
        names = {(info.name, v.variable)} if info.name in users else set()
        produced: set[tuple[str, Stepping | None]] = set()
        if before is not None:
            names |= {name for name in before.names if name[0] in users}
            produced |= {item for item in before.produced if item[0] in self.alive}
        if self.rules.only_finished and info.output in self.alive and self.alive[info.output].zones <= z:
            apart = any(h.tensor == info.output and h.zones <= z for h in self.einsum_holdings)
            produced.add((info.output, APART if apart else self.view.stepping(info.output, v.variable)))
        below = ((t, self._stepping(t, v)) for t, depth in self.alive.items() if depth.zones > z)
        ranks = frozenset((t, stepping) for t, stepping in below if stepping is not None)
        return OpenLoop(ranks, info.bounds[v.variable], frozenset(produced), frozenset(names), v.place)

    def _joined(self, zones: list[list[OpenLoop]], holdings: tuple[OpenHolding, ...]) -> OpenCompatibility:
        inside = dict(self.inside)
        if not self.view.info.is_copy_operation:
            inside |= dict.fromkeys(self.view.info.accesses, self.open_zones)
        copies = {group & frozenset(self.alive) for group in self.copies}
        return OpenCompatibility(
            tuple(tuple(zone) for zone in zones),
            tuple(Backing(t, memory, at) for t, (memory, at) in sorted(self.alive.items())),
            holdings,
            tuple(
                sorted((t, min(z, self.open_zones)) for t, z in inside.items() if t in self.live and self.open_zones)
            ),
            tuple(sorted((group for group in copies if len(group) > 1), key=sorted)),
        )


def _boundaries(zones: int, zone_of_block: list[int]) -> tuple[int, ...]:
    """Per boundary below k zones: how many blocks of the refinement lie above it."""
    return tuple(sum(1 for z in zone_of_block if z < k) for k in range(zones + 1))
