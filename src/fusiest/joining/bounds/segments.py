"""Tight bounds for long workloads: the exact least cost of segments of Einsums, from cut to cut.

A segment's least cost is searched exactly for every way in which the tensors at its two cuts can cross, up to a little
above the best; every other way costs at least that limit. The other side of a cut takes space as well: the more it
takes, the dearer the segment. From the last cut backwards these costs add up to bounds that stay close to the truth,
however many layers there are. Equal layers have equal segments, searched once.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fusiest.base.interrupt import Check
from fusiest.base.objective import ENERGY, IMPOSSIBLE, Least, Weights
from fusiest.joining.bounds.cuts import Seam, SeamBounds, SeamStretch, buckets
from fusiest.joining.bounds.reduced import reduced
from fusiest.joining.bounds.relaxed import NOTHING_AFTER, LowerBounds, RelaxedLeast
from fusiest.joining.meeting.compatibility import (
    OpenCompatibility,
    OpenLoop,
    TensorCompatibility,
    TensorCrossing,
    crossing,
)
from fusiest.joining.passes import JoinPass, Level, PartialGroup, State, levels
from fusiest.joining.problem import Group, JoinProblem, Potential, potential
from fusiest.joining.rows.consolidation import BUCKETS, PartialRows, Room, start_rows
from fusiest.joining.rows.incumbents import Incumbents, KnownCosts
from fusiest.pmapping import Backing, Ints, Rows, merge_rows
from fusiest.spec import Affine

_LEAST_EINSUMS = 2
_LEAST_FUSED_EINSUMS = 12
_MOST_ROWS = 3_000_000
_SLACK = 0.01
"""How far above the best a segment's costs are told apart."""
_STEPS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
"""How far above the relaxed bound the search goes, step by step until it has found enough."""


class _TooLarge(Exception):
    """A segment's search has too many rows to be worth it."""


class _Transition(NamedTuple):
    """How a segment begins and ends."""

    first: TensorCrossing
    """How the first tensor comes in."""
    taken: int
    """How much of its memory is taken at first, in steps."""
    last: TensorCrossing | None
    """How the last tensor goes out; None at the end of the workload."""
    bucket: int
    """How much of the last tensor's memory is then taken, in steps."""


@dataclass(frozen=True)
class _Transitions:
    """Least costs of a segment by how its first tensor comes in and its last one goes out."""

    costs: Mapping[_Transition, float]
    beginnings: list[TensorCrossing]
    most: float
    """Lower bound on all transitions that are not in `costs`, each with its entry of `potentials`."""
    potentials: Mapping[TensorCompatibility, float]
    """Extra cost after the segment, above the least, by how its last tensor goes out (relaxed)."""

    def least(self, first: TensorCrossing, taken: int, after: Seam | None, name: str) -> float:
        """The least cost of the segment and all that comes after it."""
        if after is None:
            totals = [self.most]
        else:
            following = {how: getattr(least, name) for how, least in after.relaxed.items()}
            totals = [
                max(0.0, self.most - self.potentials.get(how, self.most)) + cost for how, cost in following.items()
            ]
        for transition, cost in self.costs.items():
            if transition.first == first and transition.taken >= taken:
                last, following_cost = transition.last, 0.0
                if after is not None and last is not None:
                    following_cost = getattr(after.after(last, transition.bucket), name)
                totals.append(cost + following_cost)
        return min(totals, default=np.inf)


class _Range(NamedTuple):
    """The Einsums of a segment, and those that are finished before it."""

    finished: frozenset[str]
    einsums: list[str]


def seam_bounds(
    problem: JoinProblem,
    costs: Potential,
    searched: Sequence[str],
    all_orders: bool,
    unfused: Container[frozenset[str]],
    check: Check,
) -> SeamBounds:
    """Find bounds that are tighter than the relaxed ones on these costs (names of `Least`).

    `unfused`: sets of finished Einsums where a good mapping has no open loops. Cuts are best there: the two sides then
    have little in common.
    """
    transitions: dict[object, _Transitions | None] = {}
    stretches: list[SeamStretch] = []
    after: Seam | None = None
    for span in reversed(_ranges(problem, all_orders, unfused)):
        bounds = _span_bounds(problem, costs, span, after.by_tensors() if after is not None else NOTHING_AFTER)
        seam = None
        if span.finished:
            (tensor,) = problem.live(span.finished)
            seam = Seam(span.finished, tensor, problem.room, _relaxed_leasts(bounds, span, tensor))
            for name in searched:
                key = name, _key(problem, span)
                if key not in transitions:
                    transitions[key] = _StretchSearch(problem, costs, name, span, after, check, all_orders).run()
                seam = _improved(seam, transitions[key], after, name)
        stretches.append(SeamStretch(seam, frozenset(span.einsums), bounds))
        after = seam
    return SeamBounds(costs.bounds(problem), stretches[::-1])


def _ranges(problem: JoinProblem, all_orders: bool, unfused: Container[frozenset[str]]) -> list[_Range]:
    """Cut the workload into segments. Each uses the tensor at its beginning.

    Where orders may differ, all Einsums after a cut need all before it (proof 8).
    """
    ranges: list[_Range] = []
    needs = _all_needs(problem) if all_orders else None
    finished: frozenset[str] = frozenset()
    begin, einsums = finished, list[str]()
    for einsum in problem.order:
        einsums.append(einsum)
        finished = finished | {einsum}
        is_short = len(einsums) < (_LEAST_EINSUMS if finished in unfused else _LEAST_FUSED_EINSUMS)
        alone = len(problem.live(finished)) == 1 and not problem.views[einsum].info.is_copy_operation
        goes_on = not begin or any(problem.live(begin) & problem.views[e].tensors for e in einsums)
        if (
            not is_short
            and alone
            and goes_on
            and (needs is None or all(finished <= needs[e] for e in problem.order if e not in finished))
        ):
            ranges.append(_Range(begin, einsums))
            begin, einsums = finished, []
    return [*ranges, _Range(begin, einsums)] if einsums else ranges


def _relaxed_leasts(bounds: LowerBounds, span: _Range, tensor: str) -> dict[TensorCompatibility, Least]:
    """Least cost of all Einsums after a cut, by the relaxed compatibilities that users of its tensor have."""
    ways = (how for e in span.einsums for relaxed in bounds.options[e] for t, how in relaxed if t == tensor)
    leasts = {how: bounds.least(span.finished, ((tensor, how),)) for how in dict.fromkeys(ways)}
    return {how: least for how, least in leasts.items() if least != IMPOSSIBLE}


def _all_needs(problem: JoinProblem) -> dict[str, frozenset[str]]:
    """The Einsums that each Einsum needs, directly or through others."""
    needs: dict[str, frozenset[str]] = {}
    for einsum in problem.order:
        direct = problem.workload.needs[einsum]
        needs[einsum] = direct.union(*(needs[e] for e in direct))
    return needs


def _span_bounds(problem: JoinProblem, costs: Potential, span: _Range, end: RelaxedLeast) -> LowerBounds:
    """Relaxed bounds on a segment, and on all that comes after it."""
    options = {e: costs.options[e] for e in span.einsums}
    return LowerBounds(options, problem.workload.users, span.einsums, end)


def _improved(seam: Seam, transitions: _Transitions | None, after: Seam | None, name: str) -> Seam:
    """Raise a cut's bounds on one cost to the exact least costs of the segment after it."""
    if transitions is None:
        return seam
    exact, relaxed = dict(seam.exact), dict(seam.relaxed)
    by_relaxed: dict[TensorCompatibility, float] = {}
    for how in transitions.beginnings:
        if how.relaxed not in seam.relaxed:
            continue
        bound = seam.relaxed[how.relaxed]
        costs = [transitions.least(how, bucket, after, name) for bucket in range(BUCKETS)]
        before = seam.exact.get(how, [bound] * BUCKETS)
        exact[how] = [
            least._replace(**{name: max(getattr(bound, name), cost)}) for least, cost in zip(before, costs, strict=True)
        ]
        by_relaxed[how.relaxed] = min(by_relaxed.get(how.relaxed, np.inf), costs[0])
    for how_relaxed, cost in by_relaxed.items():
        bound = relaxed[how_relaxed]
        relaxed[how_relaxed] = bound._replace(**{name: max(getattr(bound, name), cost)})
    return replace(seam, relaxed=relaxed, exact=exact)


def _key(problem: JoinProblem, span: _Range) -> object:
    """Describe a segment without names: equal for segments that differ only by names."""
    number: dict[str, int] = {}
    einsums = []
    for einsum in span.einsums:
        info = problem.workload.einsums[einsum]
        variables = {v: i for i, v in enumerate(info.bounds)}
        tensors = tuple(
            (number.setdefault(t, len(number)), tuple((rank, _index(a, variables)) for rank, a in access.ranks.items()))
            for t, access in info.accesses.items()
        )
        einsums.append((tensors, problem.kinds[einsum]))
    live = problem.live(span.finished), problem.live(span.finished | frozenset(span.einsums))
    return tuple(einsums), tuple(frozenset(number[t] for t in side if t in number) for side in live)


def _index(affine: Affine, number: Mapping[str, int]) -> object:
    return frozenset((number[v], a) for v, a in affine.coefficients.items()), affine.constant


# ----------------------------------------------------------------------------------------------- the search of a stretch


@dataclass(frozen=True)
class _StretchSearch:
    """The search for the least costs of one kind (`name` of `Least`) of a segment."""

    problem: JoinProblem
    costs: Potential
    name: str
    span: _Range
    after: Seam | None
    check: Check
    all_orders: bool

    def run(self) -> _Transitions | None:
        """Find all transitions up to a little above the best; None if the search is too large."""
        problem = self._with_one_cost()
        costs = potential(problem)
        usual = _SLACK * sum(min(least.energy for least in costs.options[e].values()) for e in self.span.einsums)
        potentials = self._potentials(usual)
        end = NOTHING_AFTER
        if self.after is not None:
            end = {((self.after.tensor, how),): Least(cost, 0.0, 0.0) for how, cost in potentials.items()}
        bounds = _span_bounds(problem, costs, self.span, end)
        start = _start(problem, self.span)
        if start is None:
            return None
        (tensor,) = problem.live(self.span.finished)
        beginnings = [crossing(c, tensor) for c, _ in start.groups]
        least = bounds.least_of_all(self.span.finished).energy
        transitions: dict[_Transition, float] = {}
        most = least
        stretch = frozenset(self.span.einsums)
        for share in _STEPS:
            totals = (cost + (potentials[t.last.relaxed] if t.last else 0.0) for t, cost in transitions.items())
            best = min(totals, default=np.inf)
            if best * (1 + _SLACK) <= most:
                break
            most = min(least * (1 + share), best * (1 + _SLACK))
            incumbents = Incumbents(ENERGY, (KnownCosts(most, 0.0),))
            how = JoinPass(costs, bounds, incumbents, all_orders=self.all_orders, stretch=stretch)
            reduced_problem = reduced(problem, bounds, incumbents, self.span.finished)
            try:
                transitions = _transitions(problem, _end(reduced_problem, how, start, self.check), beginnings)
            except _TooLarge:
                return None
        return _Transitions(transitions, beginnings, most * (1 - 2e-9), potentials)

    def _potentials(self, usual: float) -> dict[TensorCompatibility, float]:
        """Extra cost after the segment, above the least, by how the last tensor goes out (relaxed)."""
        if self.after is None:
            return {}
        costs = {how: float(getattr(least, self.name)) for how, least in self.after.relaxed.items()}
        base = min(costs.values(), default=0.0)
        return {how: min(cost - base, usual) for how, cost in costs.items()}

    def _with_one_cost(self) -> JoinProblem:
        """Make a problem of the segment alone, with the weighted cost in place of energy."""
        weights = {"energy": Weights(1.0, 0.0), "latency": Weights(0.0, 1.0), "both": self.costs.weights}[self.name]
        summed: dict[int, Rows] = {}  # of Einsums that have rows in common once
        for rows in (rows for e in self.span.einsums for _, rows in self.problem.groups[e]):
            if id(rows.energy) not in summed:
                cost = weights.energy * rows.energy + weights.latency * rows.latency
                summed[id(rows.energy)] = merge_rows([replace(rows, energy=cost, latency=np.zeros(len(rows)))])
        groups = {
            e: [Group(c, summed[id(rows.energy)]) for c, rows in self.problem.groups[e]] for e in self.span.einsums
        }
        return replace(self.problem, groups=groups)


def _end(problem: JoinProblem, how: JoinPass, start: State, check: Check) -> State | None:
    """Join all Einsums of a segment; None if nothing below the limit is left."""
    end = start
    for level in levels(problem, how, check, Level((start,))):
        if len(level) > _MOST_ROWS:
            raise _TooLarge
        if not level.states:
            return None
        end = level.states[0]
    return end


def _transitions(problem: JoinProblem, end: State | None, beginnings: list[TensorCrossing]) -> dict[_Transition, float]:
    costs: dict[_Transition, float] = {}
    if end is None:
        return costs
    live = problem.live(end.finished)
    for compatibility, rows in end.groups:
        last, last_buckets = None, np.zeros(len(rows), np.int64)
        for tensor in live:
            last, last_buckets = crossing(compatibility, tensor), buckets(compatibility, rows, problem.room)
        kinds, kind_of_row = np.unique(
            np.column_stack([rows.crossing, rows.taken, last_buckets]), axis=0, return_inverse=True
        )
        least = np.full(len(kinds), np.inf)
        np.minimum.at(least, kind_of_row.reshape(-1), rows.energy)
        for (first, taken, bucket), cost in zip(kinds.tolist(), least.tolist(), strict=True):
            key = _Transition(beginnings[first], taken, last, bucket)
            costs[key] = min(costs.get(key, np.inf), cost)
    return costs


def _start(problem: JoinProblem, span: _Range) -> State | None:
    """Partial mappings at the beginning of a segment: its live tensor in every way that the first user knows, for free.

    Each comes with every amount of space taken.
    """
    (tensor,) = problem.live(span.finished)
    user = next(e for e in span.einsums if tensor in problem.workload.einsums[e].accesses)
    view = problem.views[user]
    tiles: dict[tuple[str, tuple[OpenLoop, ...]], list[Ints]] = {}
    for compatibility, rows in problem.groups[user]:
        backing = next(b for b in compatibility.backings if b.tensor == tensor)
        loops: list[tuple[OpenLoop, int]] = []
        for v in (v for zone in compatibility.zones[: backing.zones] for v in zone):
            stepping = view.stepping(tensor, v.variable)
            if stepping is None or v.place or any(loop.ranks == {(tensor, stepping)} for loop, _ in loops):
                return None
            loop = OpenLoop(frozenset({(tensor, stepping)}), view.info.bounds[v.variable])
            loops.append((loop, compatibility.loops.index(v)))
        loops.sort(key=lambda item: sorted(item[0].ranks))
        columns = [column for _, column in loops]
        tiles.setdefault((backing.memory, tuple(loop for loop, _ in loops)), []).append(rows.tiles[:, columns])
    groups: list[PartialGroup] = []
    for (memory, open_loops), tile_rows in tiles.items():
        combinations = np.unique(np.concatenate(tile_rows), axis=0)
        for zones in _in_zones(open_loops):
            columns = [open_loops.index(loop) for zone in zones for loop in zone]
            begun = OpenCompatibility(zones, (Backing(tensor, memory, len(zones)),))
            groups.append(PartialGroup(begun, _free_rows(combinations[:, columns], begun, problem.room, len(groups))))
    return State(span.finished, tuple(groups))


def _in_zones(loops: tuple[OpenLoop, ...]) -> Iterator[tuple[tuple[OpenLoop, ...], ...]]:
    """All loops on one fusion level, and in every way on two."""
    yield (loops,) if loops else ()
    for count in range(1, len(loops)):
        for outer in itertools.combinations(loops, count):
            yield outer, tuple(loop for loop in loops if loop not in outer)


def _free_rows(tiles: Ints, compatibility: OpenCompatibility, room: Room, number: int) -> PartialRows:
    """Rows that cost nothing, each with every amount of space taken above the innermost fusion level."""
    memory = compatibility.backings[0].memory
    steps = BUCKETS if compatibility.zones and memory in room.memories else 1
    rows = start_rows(len(room.memories), len(tiles) * steps, len(compatibility.zones))
    taken = np.tile(np.arange(steps), len(tiles))
    if steps > 1:
        m = room.memories.index(memory)
        rows.reserved[:, m, -1] = taken * (room.sizes[m] / BUCKETS)
    return replace(rows, tiles=np.repeat(tiles, steps, axis=0), crossing=np.full(len(rows), number), taken=taken)
