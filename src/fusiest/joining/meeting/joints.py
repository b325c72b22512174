"""How a partial mapping and the pmappings of the next Einsum are joined, by their compatibilities alone.

A pmapping fits if both agree on every tensor that they share, if all open loops are among its fused loops and can be
put before its others, and if no tensor is used before it is finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from fusiest.joining.meeting.compatibility import APART, OpenCompatibility, OpenHolding, OpenLoop
from fusiest.joining.meeting.fits import Fit
from fusiest.joining.meeting.shared_nodes import (
    HolderPlace,
    HolderUser,
    SharedHolder,
    SpreadHolder,
    moved,
    place_of,
    spread_holders,
    still_held,
    with_copy,
)
from fusiest.pmapping import Backing, FusedLoop
from fusiest.spec import Stepping

PERSISTENT = -1
"""In place of a number of fusion levels: the tensor takes its space throughout the workload."""


@dataclass(frozen=True)
class Exchanged:
    """A tensor that begins to take space with this join, below `zones` fusion levels of the refinement.

    It stays for as long as the loop right below it is open: its tile lives through all iterations of that loop.
    """

    tensor: str
    memory: str
    zones: int
    columns: tuple[tuple[Stepping, int], ...]
    """Its ranks that are stepped above it, each with the Einsum's tile column."""
    charged: bool = False
    """Whether it takes its space already: then only the extra space of its copy is charged."""


@dataclass(frozen=True)
class Joint:
    """How a partial mapping's compatibility and that of the next Einsum's pmappings become a new one.

    Fusion levels in its fields are those of the common refinement of both sides, outermost first.
    """

    compatibility: OpenCompatibility
    """The compatibility of the joined partial mappings."""
    matched: tuple[tuple[int, int], ...]
    """Pairs of tile columns, one of each side, that must be equal."""
    open_boundaries: tuple[int, ...]
    """Per boundary of the partial mapping's fusion levels, its boundary in the refinement."""
    einsum_boundaries: tuple[int, ...]
    """Per boundary of the Einsum's fusion levels, its boundary in the refinement."""
    zones: int
    """Number of fusion levels in the refinement."""
    open_zones: int
    """Number of them that stay open."""
    tiles: tuple[int, ...]
    """Tile columns of the Einsum that stay open, in the new compatibility's order."""
    exchanged: tuple[Exchanged, ...]
    """Tensors that begin to take space."""
    copies: tuple[frozenset[str], ...]
    """Groups of tensors that share their space: one of them is charged for all."""
    shared_holders: tuple[SharedHolder, ...]
    """The Einsum's further storage nodes of shared tensors."""
    spread: tuple[SpreadHolder, ...]
    """Shared storage nodes with space at several depths."""


class BackingDepth(NamedTuple):
    """Where a tensor is exchanged."""

    memory: str
    """Its backing memory."""
    zones: int
    """Number of fusion levels of the refinement above it."""


class LiveTensors(NamedTuple):
    """Tensors that matter to a join."""

    shared: frozenset[str]
    """Tensors of the Einsum that were live before."""
    after: frozenset[str]
    """All tensors that are live after it."""


@dataclass(frozen=True)
class Meeting:
    """A partial mapping and an Einsum's pmappings that fit it."""

    fit: Fit
    before: OpenCompatibility
    live: frozenset[str]
    """Tensors that are live after the join."""

    def joint(self) -> Joint:
        """Join the two compatibilities into one."""
        fit = self.fit
        assert fit.blocks is not None
        assert fit.orders is not None
        user = self.fit.view.info.name
        holdings = still_held(
            [*self.open_holdings, *(OpenHolding(h, user) for h in self.fit.einsum_holdings)],
            fit.orders,
            self.live,
            self.open_zones,
        )
        zones = self._open_loops(holdings)
        users = self._users()
        return Joint(
            compatibility=self._joined([[loop for _, loop in zone] for zone in zones], holdings),
            matched=tuple((i, self.fit.column[v]) for i, v in self.fit.match.items()),
            open_boundaries=self.fit.open_boundaries,
            einsum_boundaries=self.fit.einsum_boundaries,
            zones=len(fit.blocks),
            open_zones=self.open_zones,
            tiles=tuple(self.fit.column[v] for zone in zones for v, _ in zone),
            exchanged=tuple(self._exchanged()),
            copies=self.copies,
            shared_holders=tuple(self._shared_holders(users)),
            spread=spread_holders(self.open_holdings, self.fit.einsum_holdings, holdings, users, self.open_zones),
        )

    # --- tensors ------------------------------------------------------------------------------------------------------

    @cached_property
    def depth(self) -> dict[str, BackingDepth]:
        """The backing memory and depth of each tensor of either side."""
        before = {b.tensor: BackingDepth(b.memory, self.fit.open_boundaries[b.zones]) for b in self.before.backings}
        return before | {
            b.tensor: BackingDepth(b.memory, self.fit.einsum_boundaries[b.zones]) for b in self.fit.einsum.backings
        }

    @cached_property
    def copies(self) -> tuple[frozenset[str], ...]:
        if not self.fit.view.info.is_copy_operation:
            return self.before.copies
        return with_copy(self.before.copies, self.fit.einsum.backings)

    @cached_property
    def alive(self) -> dict[str, BackingDepth]:
        """Tensors that are live after the join, and dead copies that share a live tensor's space but need more of it."""
        partners = frozenset[str]().union(*(group for group in self.copies if group & self.live))
        tensors = self.live | (partners & self.fit.rules.uneven_copies)
        return {t: depth for t, depth in self.depth.items() if t in tensors}

    @cached_property
    def open_zones(self) -> int:
        return max((zones for _, zones in self.alive.values()), default=0)

    def _stepping(self, tensor: str, v: FusedLoop) -> Stepping | None:
        """How a loop steps a tensor of either side."""
        stepping = self.fit.view.stepping(tensor, v.variable) if tensor in self.fit.view.tensors else None
        if stepping is None and v in self.fit.open_column:
            stepping = self.before.loops[self.fit.open_column[v]].stepping(tensor)
        return stepping

    def _exchanged(self) -> Iterator[Exchanged]:
        """Tensors to charge with this join.

        Tensors that were live before are charged already, in the branch that is still open.
        """
        persistent, open_before = self.fit.rules.persistent, self.fit.open_boundaries[-1]
        charged = {
            b.tensor for b in self.before.backings if self.depth[b.tensor].zones < open_before or b.tensor in persistent
        }
        fresh = self.depth.keys() - charged
        for tensor, (memory, at) in self.depth.items():
            if tensor in charged and not any(tensor in group and group & fresh for group in self.copies):
                continue
            columns: dict[Stepping, int] = {}  # of several loops over a rank the innermost counts
            for v in self.fit.above(at):
                stepping = self._stepping(tensor, v)
                assert stepping is not None
                columns[stepping] = self.fit.column[v]
            zones = PERSISTENT if tensor in persistent else at
            yield Exchanged(tensor, memory, zones, tuple(columns.items()), tensor in charged)

    # --- further holders ----------------------------------------------------------------------------------------------

    @cached_property
    def open_holdings(self) -> list[OpenHolding]:
        return [OpenHolding(moved(h, self.fit.open_boundaries), user) for h, user in self.before.holdings]

    def _users(self) -> dict[tuple[HolderPlace, int], tuple[HolderUser, ...]]:
        """Einsums in the open loops that hold a tensor, by place and depth, with the tiles above that depth."""
        users: dict[tuple[HolderPlace, int], tuple[HolderUser, ...]] = {}
        for held, user in self.open_holdings:
            above = set(self.fit.above(held.depth))
            loops = ((self.before.loops[i], self.fit.column[v]) for i, v in self.fit.match.items() if v in above)
            names = sorted((v, column) for loop, column in loops for einsum, v in loop.names if einsum == user)
            key = place_of(held), held.depth
            users[key] = (*users.get(key, ()), HolderUser(user, tuple(names)))
        return users

    def _shared_holders(
        self, users: Mapping[tuple[HolderPlace, int], tuple[HolderUser, ...]]
    ) -> Iterator[SharedHolder]:
        """The Einsum's further storage nodes of shared tensors, each with the open Einsums that have the same node."""
        for h in self.fit.einsum_holdings:
            stepped = tuple((v.variable, self.fit.column[v]) for v in sorted(self.fit.above(h.depth)))
            place = place_of(h)
            yield SharedHolder(
                place, h.depth, HolderUser(self.fit.view.info.name, stepped), users.get((place, h.depth), ())
            )

    # --- what stays open ----------------------------------------------------------------------------------------------

    def _open_loops(self, holdings: tuple[OpenHolding, ...]) -> list[list[tuple[FusedLoop, OpenLoop]]]:
        """The loops that stay open, with the live tensors' ranks below each, in a canonical order per fusion level."""
        assert self.fit.blocks is not None
        zones = []
        for z, block in enumerate(self.fit.blocks[: self.open_zones]):
            users = {user for h, user in holdings if h.depth > z}
            zone = [(v, self._open_loop(v, z, users)) for v in block]
            zones.append(sorted(zone, key=lambda item: item[1].sort_key))
        return zones

    def _open_loop(self, v: FusedLoop, z: int, users: set[str]) -> OpenLoop:
        info = self.fit.view.info
        before = self.before.loops[self.fit.open_column[v]] if v in self.fit.open_column else None
        names = {(info.name, v.variable)} if info.name in users else set()
        produced: set[tuple[str, Stepping | None]] = set()
        if before is not None:
            names |= {name for name in before.names if name[0] in users}
            produced |= {item for item in before.produced if item[0] in self.alive}
        if self.fit.rules.only_finished and info.output in self.alive and self.alive[info.output].zones <= z:
            apart = any(h.tensor == info.output and h.zones <= z for h in self.fit.einsum_holdings)
            produced.add((info.output, APART if apart else self.fit.view.stepping(info.output, v.variable)))
        below = ((t, self._stepping(t, v)) for t, depth in self.alive.items() if depth.zones > z)
        ranks = frozenset((t, stepping) for t, stepping in below if stepping is not None)
        return OpenLoop(ranks, info.bounds[v.variable], frozenset(produced), frozenset(names), v.place)

    def _joined(self, zones: list[list[OpenLoop]], holdings: tuple[OpenHolding, ...]) -> OpenCompatibility:
        inside = {t: self.fit.open_boundaries[zones] for t, zones in self.before.inside}
        if not self.fit.view.info.is_copy_operation:
            inside |= dict.fromkeys(self.fit.view.info.accesses, self.open_zones)
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
