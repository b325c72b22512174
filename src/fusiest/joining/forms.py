"""How partial mappings meet: the structure of open loops and exchanged tensors, without tile shapes or costs.

A partial mapping's form lists its open loops (those above a tensor that Einsums still to come will use) in zones, and
where each live tensor is exchanged. A form of the next Einsum fits if both agree on every tensor that they share, and
if all open loops come before the Einsum's other fused loops.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fusiest.joining.held import Held, Place, Split, User, agree, moved, orders, place_of, splits, still_held, with_copy
from fusiest.model.exchange import keeps_behind
from fusiest.pmapping.table import Backing, Compatibility, FusedLoop, Holding
from fusiest.spec.analysis import EinsumInfo, Stepping

Names = frozenset[tuple[str, str]]
Steppings = frozenset[tuple[str, Stepping]]
"""Tensors, each with how a loop steps one of its ranks."""
APART = Stepping("", 0, 0)
"""In place of how a loop steps a tensor: its producer holds it elsewhere above the loop until it is finished."""


@dataclass(frozen=True)
class OpenLoop:
    """A loop by what it steps of every live tensor below it, and how many elements it goes through.

    `produced`: live tensors that are exchanged above the loop but produced inside it, each with how the loop steps them,
    or None where the tensor is finished only with the loop, or APART where its producer holds it elsewhere above the
    loop. A tensor that several Einsums make has an entry for each of them. A consumer inside the loop takes turns with the producer,
    so it must step the same rank and never get ahead.
    `names`: the loop's variable in Einsums that hold live tensors below it, by Einsum.
    `place`: component and dimension of a Spatial loop.
    """

    ranks: Steppings
    bound: int
    produced: frozenset[tuple[str, Stepping | None]] = frozenset()
    names: Names = frozenset()
    place: tuple[str, str] | None = None

    @property
    def sort_key(self) -> tuple[object, ...]:
        produced = sorted((t, stepping or ()) for t, stepping in self.produced)
        return sorted(self.ranks), produced, sorted(self.names), [self.place] if self.place else []


@dataclass(frozen=True)
class OpenCompatibility:
    """Open loops in zones, outermost first, and the live tensors."""

    zones: tuple[tuple[OpenLoop, ...], ...]
    backings: tuple[Backing, ...]
    holdings: tuple[tuple[Holding, str], ...] = ()
    """Further holders of live tensors between the open loops, each with an Einsum that has it: they share its space."""
    inside: tuple[tuple[str, int], ...] = ()
    """Live tensors that an Einsum inside open loops has used, each with the number of those zones. A holder above a common
    loop serves all Einsums inside: the next one that uses such a tensor must hold it above these zones just the same."""
    copies: tuple[frozenset[str], ...] = ()
    """Tensors that are copies of each other in one memory: they share their space, for as long as one of them is live."""

    @property
    def loops(self) -> tuple[OpenLoop, ...]:
        return tuple(loop for zone in self.zones for loop in zone)


EMPTY = OpenCompatibility((), ())
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
    """How a form of a partial mapping and a form of the next Einsum join into a new form.

    Zones below are those of the common refinement, outermost first. `matched` pairs tile columns of both sides that
    must be equal. `left` and `right` give, per zone boundary of each side, its boundary in the refinement.
    """

    form: OpenCompatibility
    matched: tuple[tuple[int, int], ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    zones: int
    open_zones: int
    tiles: tuple[int, ...]
    """Tile columns of the Einsum that stay open, in the new form's order."""
    exchanged: tuple[Exchanged, ...]
    copies: tuple[frozenset[str], ...]
    """Tensors of which one is charged for all."""
    held: tuple[Held, ...]
    splits: tuple[Split, ...]


@dataclass(frozen=True)
class EinsumView:
    """What joining needs to know of an Einsum: which variable steps which rank of which tensor."""

    info: EinsumInfo

    def stepping(self, tensor: str, variable: str) -> Stepping | None:
        """The rank of a tensor that a variable steps alone, and how."""
        return self.info.accesses[tensor].stepping(variable)

    def variable_of(self, tensor: str, stepping: Stepping) -> str | None:
        """The variable that steps a tensor in just this way: the same elements in the same iteration."""
        for v in self.info.accesses[tensor].ranks[stepping.rank].variables:
            if self.stepping(tensor, v) == stepping:
                return v
        return None


Signature = tuple[tuple[str, tuple[str, frozenset[Stepping | None]]], ...]


def left_signature(form: OpenCompatibility, shared: frozenset[str]) -> Signature:
    """What both sides must agree on, as seen from the partial mapping: memory and ranks above each shared tensor."""
    found = []
    for b in form.backings:
        if b.tensor in shared:
            above = [loop for zone in form.zones[: b.zones] for loop in zone]
            ranks: frozenset[Stepping | None] = frozenset(r for loop in above for t, r in loop.ranks if t == b.tensor)
            found.append((b.tensor, (b.memory, ranks)))
    return tuple(sorted(found, key=lambda item: item[0]))


def right_signature(form: Compatibility, view: EinsumView, shared: frozenset[str]) -> Signature:
    """The same, as seen from the Einsum."""
    found = []
    for b in form.backings:
        if b.tensor in shared:
            above = [loop for zone in form.zones[: b.zones] for loop in zone]
            ranks = frozenset(view.stepping(b.tensor, loop.variable) for loop in above)
            found.append((b.tensor, (b.memory, ranks)))
    return tuple(sorted(found, key=lambda item: item[0]))


def join_forms(
    left: OpenCompatibility,
    right: Compatibility,
    view: EinsumView,
    shared: frozenset[str],
    live: frozenset[str],
    persistent: frozenset[str] = frozenset(),
    finished: bool = True,
) -> tuple[Joint, ...]:
    """All ways to join two forms that agree by signature; none if their loops cannot be put in one order.

    `finished`: Einsums use only tensors that are finished.
    """
    matches = _matches(left, right, view, shared)
    joints = (_join(left, right, view, match, live, persistent, finished) for match in matches)
    return tuple(joint for joint in joints if joint is not None)


def _join(
    left: OpenCompatibility,
    right: Compatibility,
    view: EinsumView,
    match: Mapping[int, FusedLoop],
    live: frozenset[str],
    persistent: frozenset[str],
    finished: bool,
) -> Joint | None:
    """Join two forms, given which of the Einsum's loops each open loop is."""
    left_zone = {i: z for z, i in _columns(left.zones)}
    right_zone = {v: z for z, zone in enumerate(right.zones) for v in zone}
    right_columns = {v: i for i, v in enumerate(right.loops)}
    matched = {match[i]: left_zone[i] for i in range(len(left.loops))}
    blocks = _refine(matched, right_zone)
    if blocks is None or not _finished(left, right, view, match, right_zone):
        return None
    left_boundary = _boundaries(
        len(left.zones), [max((matched[v] for v in b if v in matched), default=len(left.zones)) for b in blocks]
    )
    right_boundary = _boundaries(len(right.zones), [right_zone[b[0]] for b in blocks])
    depth: dict[str, tuple[str, int]] = {}
    for b in left.backings:
        depth[b.tensor] = b.memory, left_boundary[b.zones]
    for b in right.backings:
        at = right_boundary[b.zones]
        if b.tensor in depth and depth[b.tensor][1] != at:
            return None
        depth[b.tensor] = b.memory, at
    copies = left.copies if not view.info.is_copy_operation else with_copy(left.copies, right.backings)
    kept = live.union(*(group for group in copies if group & live))
    alive = {t: d for t, d in depth.items() if t in kept}
    open_zones = max((zones for _, zones in alive.values()), default=0)
    old = [(moved(h, left_boundary), user) for h, user in left.holdings]
    own = [moved(h, right_boundary) for h in right.holdings]
    inside = {t: left_boundary[zones] for t, zones in left.inside}
    if not view.info.is_copy_operation:  # whose further holders are ignored
        if not agree([h for h, _ in old], own, inside, view.info.accesses):
            return None
        inside |= dict.fromkeys(view.info.accesses, open_zones)
    above = orders([*(h for h, _ in old), *own])
    if above is None:
        return None
    holdings = still_held([*old, *((h, view.info.name) for h in own)], above, live, open_zones)
    users = _users(left, match, blocks, old, right_columns)
    zones = _open_zones(left, match, view, blocks[:open_zones], alive, own, holdings, finished)
    still = {group & frozenset(alive) for group in copies}
    order = [[right_columns[v] for v, _ in zone] for zone in zones]
    form = OpenCompatibility(
        tuple(tuple(loop for _, loop in zone) for zone in zones),
        tuple(Backing(t, memory, at) for t, (memory, at) in sorted(alive.items())),
        holdings,
        tuple(sorted((t, min(zones, open_zones)) for t, zones in inside.items() if t in live and open_zones)),
        tuple(sorted((group for group in still if len(group) > 1), key=sorted)),
    )
    return Joint(
        form=form,
        matched=tuple((i, right_columns[v]) for i, v in match.items()),
        left=left_boundary,
        right=right_boundary,
        zones=len(blocks),
        open_zones=open_zones,
        tiles=tuple(c for zone in order for c in zone),
        exchanged=_exchanged(left, view, match, blocks, depth, copies, right_columns, persistent, left_boundary[-1]),
        copies=copies,
        held=tuple(_held(view, blocks, own, users, right_columns)),
        splits=splits(old, own, holdings, users, open_zones),
    )


def _finished(
    left: OpenCompatibility,
    right: Compatibility,
    view: EinsumView,
    match: Mapping[int, FusedLoop],
    right_zone: Mapping[FusedLoop, int],
) -> bool:
    """Whether every tensor that the Einsum uses is finished by then, or piece by piece in the loops it shares."""
    for i, loop in enumerate(left.loops):
        for tensor, stepping in loop.produced:
            if tensor not in view.info.accesses:
                continue
            if tensor == view.info.output:
                if stepping == APART:  # who makes another part holds it elsewhere above the loop
                    return False
            elif stepping in (None, APART) or not keeps_behind(view.info, tensor, match[i].variable, stepping):
                return False
            if any(h.tensor == tensor and h.zones <= right_zone[match[i]] for h in right.holdings):
                return False
    return True


def _users(
    left: OpenCompatibility,
    match: Mapping[int, FusedLoop],
    blocks: list[list[FusedLoop]],
    old: Sequence[tuple[Holding, str]],
    right_columns: Mapping[FusedLoop, int],
) -> dict[tuple[Place, int], tuple[User, ...]]:
    """Einsums in the open loops that hold a tensor, by place and depth, with the tiles above that depth."""
    found: dict[tuple[Place, int], tuple[User, ...]] = {}
    for held, user in old:
        above = {v for block in blocks[: held.depth] for v in block}
        open_above = ((left.loops[i], right_columns[v]) for i, v in match.items() if v in above)
        names = sorted((v, column) for loop, column in open_above for einsum, v in loop.names if einsum == user)
        key = place_of(held), held.depth
        found[key] = (*found.get(key, ()), (user, tuple(names)))
    return found


def _held(
    view: EinsumView,
    blocks: list[list[FusedLoop]],
    own: Sequence[Holding],
    users: Mapping[tuple[Place, int], tuple[User, ...]],
    right_columns: Mapping[FusedLoop, int],
) -> Iterator[Held]:
    """The Einsum's further holders of shared tensors, each with the Einsums in the open loops that have the same."""
    for h in own:
        above = sorted(v for block in blocks[: h.depth] for v in block)
        stepped = tuple((v.variable, right_columns[v]) for v in above)
        place = place_of(h)
        yield Held(place, h.depth, (view.info.name, stepped), users.get((place, h.depth), ()))


def _exchanged(
    left: OpenCompatibility,
    view: EinsumView,
    match: Mapping[int, FusedLoop],
    blocks: list[list[FusedLoop]],
    depth: Mapping[str, tuple[str, int]],
    copies: tuple[frozenset[str], ...],
    right_columns: Mapping[FusedLoop, int],
    persistent: frozenset[str],
    open_before: int,
) -> tuple[Exchanged, ...]:
    """Tensors to be charged now. One that was live before is already charged in the branch that is still open."""
    charged = {b.tensor for b in left.backings if depth[b.tensor][1] < open_before or b.tensor in persistent}
    fresh = depth.keys() - charged
    column_of = {v: i for i, v in match.items()}
    found = []
    for tensor, (memory, at) in depth.items():
        if tensor in charged and not any(tensor in group and group & fresh for group in copies):
            continue
        columns: dict[Stepping, int] = {}  # of several loops over a rank the innermost counts
        for v in (v for block in blocks[:at] for v in block):
            rank = view.stepping(tensor, v.variable) if tensor in view.info.accesses else None
            if rank is None and v in column_of:
                rank = next((r for t, r in left.loops[column_of[v]].ranks if t == tensor), None)
            assert rank is not None
            columns[rank] = right_columns[v]
        zones = PERSISTENT if tensor in persistent else at
        found.append(Exchanged(tensor, memory, zones, tuple(columns.items()), tensor in charged))
    return tuple(found)


def _columns(zones: tuple[tuple[OpenLoop, ...], ...]) -> list[tuple[int, int]]:
    """(zone, column) of each loop."""
    return [(z, column) for column, z in enumerate(z for z, zone in enumerate(zones) for _ in zone)]


def _matches(
    left: OpenCompatibility, right: Compatibility, view: EinsumView, shared: frozenset[str]
) -> Iterator[dict[int, FusedLoop]]:
    """Which loop of the Einsum is each open loop. It must have all of them: it runs inside them.

    A loop above a shared tensor steps that tensor's rank. Below it, any fused loop of the Einsum with as many iterations
    will do: two Einsums that share nothing there may still take turns for the sake of a third.
    """
    candidates = []
    for loop in left.loops:
        tied = {view.variable_of(t, rank) for t, rank in loop.ranks if t in shared}
        if len(tied) > 1:
            return
        same = [v for v in right.loops if view.info.bounds[v.variable] == loop.bound and v.place == loop.place]
        candidates.append([v for v in same if not tied or v.variable in tied])
    outer = [_outer(left, i) for i in range(len(left.loops))]
    for chosen in itertools.product(*candidates):
        follows = (
            v.number == 0 if o is None else v == chosen[o]._replace(number=chosen[o].number + 1, place=v.place)
            for v, o in zip(chosen, outer, strict=True)
        )
        if len(set(chosen)) == len(chosen) and all(follows):
            yield dict(enumerate(chosen))


def _outer(form: OpenCompatibility, i: int) -> int | None:
    """The next open loop outwards that steps the same ranks: an open loop divides its tile, else the whole rank."""
    same = (j for j in reversed(range(i)) if form.loops[j].ranks & form.loops[i].ranks)
    return next(same, None)


def _refine(matched: Mapping[FusedLoop, int], right_zone: Mapping[FusedLoop, int]) -> list[list[FusedLoop]] | None:
    """The Einsum's fused loops in the coarsest order that respects both sides, open loops first."""
    last = len(matched) + 1
    key = {v: (matched.get(v, last), z) for v, z in right_zone.items()}
    order = sorted(key, key=lambda v: key[v])
    for outer, inner in zip(order, order[1:], strict=False):
        if key[outer][1] > key[inner][1]:
            return None
    blocks: list[list[FusedLoop]] = []
    for v in order:
        if blocks and key[blocks[-1][0]] == key[v]:
            blocks[-1].append(v)
        else:
            blocks.append([v])
    return blocks


def _boundaries(zones: int, zone_of_block: list[int]) -> tuple[int, ...]:
    """Per boundary below k zones: how many blocks of the refinement lie above it."""
    return tuple(sum(1 for z in zone_of_block if z < k) for k in range(zones + 1))


def _open_zones(
    left: OpenCompatibility,
    match: Mapping[int, FusedLoop],
    view: EinsumView,
    blocks: list[list[FusedLoop]],
    alive: Mapping[str, tuple[str, int]],
    held: Sequence[Holding],
    holdings: Sequence[tuple[Holding, str]],
    finished: bool,
) -> list[list[tuple[FusedLoop, OpenLoop]]]:
    """The loops that stay open, each with the ranks of the live tensors below it, in a canonical order per zone.

    If tensors need not be finished, nothing is said of what is produced inside.
    """
    column_of = {v: i for i, v in match.items()}
    zones = []
    for z, block in enumerate(blocks):
        zone = []
        for v in block:
            users = {user for h, user in holdings if h.depth > z}
            names = {(user, v.variable) for user in users if user == view.info.name}
            names |= {n for n in left.loops[column_of[v]].names if n[0] in users} if v in column_of else set()
            ranks: set[tuple[str, Stepping]] = set()
            produced = {p for p in left.loops[column_of[v]].produced if p[0] in alive} if v in column_of else set()
            if finished and view.info.output in alive and alive[view.info.output][1] <= z:
                apart = any(b.tensor == view.info.output and b.zones <= z for b in held)
                produced.add((view.info.output, APART if apart else view.stepping(view.info.output, v.variable)))
            for t, (_, depth) in alive.items():
                if depth <= z:
                    continue
                rank = view.stepping(t, v.variable) if t in view.info.accesses else None
                if rank is None and v in column_of:
                    rank = next((r for name, r in left.loops[column_of[v]].ranks if name == t), None)
                if rank is not None:
                    ranks.add((t, rank))
            bound = view.info.bounds[v.variable]
            loop = OpenLoop(frozenset(ranks), bound, frozenset(produced), frozenset(names), v.place)
            zone.append((v, loop))
        zones.append(sorted(zone, key=lambda item: item[1].sort_key))
    return zones
