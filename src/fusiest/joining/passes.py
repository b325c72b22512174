"""One pass over all Einsums: it joins partial mappings level by level, over sets of finished Einsums (proof 8).

A pass is a value: bounds, incumbents, pruning, orders. `levels` is a pure function of a problem and a pass. It yields
each level once the level is whole: all partial mappings with the same number of finished Einsums. A caller that stops
early holds the last level, and so knows from where a better mapping could still be reached.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from fusiest.base.interrupt import Check
from fusiest.base.objective import NOTHING, Least
from fusiest.joining.bounds.cuts import Seam
from fusiest.joining.meeting.compatibility import EMPTY, OpenCompatibility, Relaxed, merged, relaxed_open
from fusiest.joining.meeting.joints import Joint, LiveTensors
from fusiest.joining.meeting.shared_nodes import ledger
from fusiest.joining.problem import AgreeingGroups, JoinProblem, Potential
from fusiest.joining.reuse.equal_joins import StandIn
from fusiest.joining.rows.coarse import Coarse, thinned
from fusiest.joining.rows.consolidation import (
    ChargedRows,
    Pairing,
    PartialRows,
    RowJoin,
    Trail,
    all_parts,
    charged_rows,
    start_rows,
)
from fusiest.joining.rows.incumbents import Incumbents
from fusiest.pmapping import Floats, Ints


class Bounds(Protocol):
    """Lower bounds on the cost of the remaining Einsums."""

    def least(self, finished: frozenset[str], live: Relaxed) -> Least:
        """The least cost, given the finished Einsums and the relaxed compatibility of live tensors."""

    def seam(self, finished: frozenset[str]) -> Seam | None:
        """The cut that is reached with these Einsums, if any: bounds are tighter there."""


class NoBounds:
    """No bounds: every partial mapping may be completed for free, even if its Einsums disagree."""

    def least(self, finished: frozenset[str], live: Relaxed) -> Least:
        """Zero costs."""
        return NOTHING

    def seam(self, finished: frozenset[str]) -> None:
        """No cut."""


class PartialGroup(NamedTuple):
    """Partial mappings of one compatibility."""

    compatibility: OpenCompatibility
    rows: PartialRows


class JoinSource(NamedTuple):
    """A set of finished Einsums, and the Einsum joined to it."""

    finished: frozenset[str]
    einsum: str


@dataclass(frozen=True)
class State:
    """All partial mappings of one set of finished Einsums."""

    finished: frozenset[str]
    groups: tuple[PartialGroup, ...]
    sources: tuple[JoinSource, ...] = ()
    pairings: tuple[Pairing, ...] = ()

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self.groups)

    def trails(self) -> Trails:
        """The part of a state that tracing back needs once its rows are joined."""
        trails = tuple(rows.trail for _, rows in self.groups)
        return Trails(tuple(c for c, _ in self.groups), trails, self.sources, self.pairings)


class Trails(NamedTuple):
    """The origins of a state's rows, group by group."""

    compatibilities: tuple[OpenCompatibility, ...]
    """The compatibility of each group."""
    rows: tuple[Trail, ...]
    """The origins of each group's rows."""
    sources: tuple[JoinSource, ...]
    """The joins that led to the state."""
    pairings: tuple[Pairing, ...]
    """The pairs of groups that were joined, in the order to which `Trail.pairing` refers."""


@dataclass(frozen=True)
class Level:
    """All partial mappings with the same number of finished Einsums, and counts of the work to find them."""

    states: tuple[State, ...]
    compatible: int = 0
    """Pairs of rows in compatible groups."""
    pairs: int = 0
    """Pairs of rows that match, fit the memories and may lead to a better mapping."""
    exact: bool = True
    """Whether no state was pruned coarsely."""

    def __len__(self) -> int:
        return sum(len(state) for state in self.states)

    @property
    def finished(self) -> int:
        """Number of finished Einsums in every state."""
        return len(self.states[0].finished) if self.states else 0

    def groups(self) -> int:
        """Number of groups in all states."""
        return sum(len(state.groups) for state in self.states)


@dataclass(frozen=True)
class JoinPass:
    """Settings of one join pass: bounds, incumbents, pruning, orders."""

    potential: Potential
    """Lower bounds on each Einsum's groups by themselves."""
    bounds: Bounds
    """Lower bounds on the remaining Einsums."""
    incumbents: Incumbents
    """Costs that a partial mapping must be able to beat."""
    coarse: Coarse | None = None
    """Lossy pruning of large states (ε-pruning). None: prune exactly."""
    all_orders: bool = False
    """Whether to join in every order of Einsums; else only in the listed one."""
    stretch: frozenset[str] | None = None
    """The Einsums of the segment to join. None: all of the problem."""

    def joins(self, problem: JoinProblem) -> int:
        """Number of joins that the pass makes."""
        return len(problem.order if self.stretch is None else self.stretch)

    def next_einsums(self, problem: JoinProblem, finished: frozenset[str]) -> list[str]:
        """Einsums to join next."""
        ready = problem.workload.next_in_turn(finished) if self.all_orders else problem.ready(finished)
        joined = (e for e in ready if self.stretch is None or e in self.stretch)
        return list(joined if self.all_orders else itertools.islice(joined, 1))

    def least(self, problem: JoinProblem, state: State) -> list[Least]:
        """Lower bounds on the remaining Einsums for each group of a state."""
        live = problem.live(state.finished)
        return [self.bounds.least(state.finished, relaxed_open(c, live)) for c, _ in state.groups]


def first_level(problem: JoinProblem) -> Level:
    """The level before any join: one empty partial mapping."""
    rows = start_rows(len(problem.memories))
    return Level((State(frozenset(), (PartialGroup(EMPTY, rows),)),))


def levels(problem: JoinProblem, how: JoinPass, check: Check, start: Level | None = None) -> Iterator[Level]:
    """Join Einsum after Einsum, from nothing or from `start`.

    A level without states ends the search: no better mapping is left.
    """
    level = start or first_level(problem)
    charged: dict[object, ChargedRows] = {}
    for _ in range(how.joins(problem) - (level.finished if how.stretch is None else 0)):
        level = _next_level(problem, how, check, level, charged)
        yield level


def _next_level(
    problem: JoinProblem, how: JoinPass, check: Check, level: Level, charged: dict[object, ChargedRows]
) -> Level:
    reached: dict[frozenset[str], list[_Join]] = {}
    for state in level.states:
        for einsum in how.next_einsums(problem, state.finished):
            siblings = reached.setdefault(state.finished | {einsum}, [])
            siblings.append(_Join(problem, how, check, state, einsum, len(siblings), charged))
    joins = [join for siblings in reached.values() for join in siblings]
    for join in joins:
        join.run()
    states = [_merged(problem, how, check, finished, siblings) for finished, siblings in reached.items()]
    thin = [how.coarse is not None and len(state) > how.coarse.most for state in states]
    pruned = [
        _thinned(problem, how, check, state) if is_thin else state for state, is_thin in zip(states, thin, strict=True)
    ]
    return Level(
        tuple(state for state in pruned if len(state)),
        compatible=sum(join.compatible for join in joins),
        pairs=sum(join.pairs for join in joins),
        exact=level.exact and not any(thin),
    )


class _JoinedPart(NamedTuple):
    """Rows of two compatibilities, joined in one way."""

    pairing: Pairing
    compatibility: OpenCompatibility
    rows: PartialRows


class _Ways(NamedTuple):
    """The next Einsum's groups that are compatible with one group of a state."""

    numbers: Ints
    """Numbers of the Einsum's groups."""
    after: Floats
    """Lower bound on the cost of the Einsums that remain after each."""
    least: Floats
    """That bound plus the least cost of the group itself."""


@dataclass
class _Join:
    """One Einsum, joined to all partial mappings of a state."""

    problem: JoinProblem
    how: JoinPass
    check: Check
    state: State
    einsum: str
    source: int
    """Number of this join among those that lead to the same set of finished Einsums."""
    charged: dict[object, ChargedRows]
    """Groups of all Einsums with the charges of a join, remembered for the whole pass."""
    ways: dict[tuple[Relaxed, Relaxed], _Ways | None] = field(default_factory=dict)
    """Compatible groups of the Einsum, by relaxed compatibility of the tensors shared with the state and of those that
    stay live."""
    parts: list[_JoinedPart] = field(default_factory=list)
    """The joined rows so far."""
    compatible: int = 0
    """Pairs of rows in compatible groups."""
    pairs: int = 0
    """Pairs of rows that match, fit the memories and may lead to a better mapping."""

    @cached_property
    def live(self) -> LiveTensors:
        return self.problem.live_around(self.state.finished, self.einsum)

    @cached_property
    def stand_in(self) -> StandIn:
        """The Einsum in whose place this one is joined."""
        return self.problem.stand_in(self.state.finished, self.einsum)

    @cached_property
    def _group_leasts(self) -> Floats:
        """Least costs of each of the Einsum's groups."""
        return np.array(self.how.potential.groups[self.einsum])

    def run(self) -> None:
        """Join the Einsum's groups to the groups of the state, where a better mapping may come out."""
        for number in range(len(self.state.groups)):
            self._join_group(number)

    def _join_group(self, number: int) -> None:
        problem, einsum, live = self.problem, self.stand_in.einsum, self.stand_in.live
        promising = self._promising(number)
        if not promising:
            return
        before = self.stand_in.renamed(self.state.groups[number].compatibility)
        outline = problem.outline(before, einsum, live)
        for n, least in promising:
            if problem.fits(before, outline, einsum, n, live):
                self._pair(number, n, problem.joints(before, einsum, n, live, outline), Least(*least))

    def _promising(self, number: int) -> list[tuple[int, list[float]]]:
        """Compatible groups that may lead to a better mapping, each with the bound on the Einsums after it (proof 9)."""
        compatibility, rows = self.state.groups[number]
        key = relaxed_open(compatibility, self.live.shared), relaxed_open(compatibility, self.live.after)
        if key not in self.ways:
            self.ways[key] = self._find_ways(*key)
        ways = self.ways[key]
        if ways is None or not len(rows):
            return []
        self.check()
        promising = self.how.incumbents.promising_groups(rows.energy, rows.latency, ways.least)
        return list(zip(ways.numbers[promising].tolist(), ways.after[promising].tolist(), strict=True))

    def _find_ways(self, shared: Relaxed, lasting: Relaxed) -> _Ways | None:
        groups = self._lookup(self.problem.agreeing(self.einsum, self.live), shared)
        if groups is None:
            return None
        least, finished = self.how.bounds.least, self.state.finished | {self.einsum}
        after: Floats = np.array([least(finished, merged(lasting, way)) for way in groups.ways])[groups.way]
        return _Ways(groups.numbers, after, after + self._group_leasts[groups.numbers])

    def _lookup(self, agreeing: Mapping[Relaxed, AgreeingGroups], shared: Relaxed) -> AgreeingGroups | None:
        """Find the compatible groups by lookup; without grouping, by comparing one after the other."""
        if self.problem.switches.grouping:
            return agreeing.get(shared)
        return next((groups for relaxed, groups in agreeing.items() if relaxed == shared), None)

    def _pair(self, number: int, n: int, joints: Sequence[Joint], least: Least) -> None:
        """Join a group of the state and one of the Einsum, in every way that there is."""
        problem, rows, group = self.problem, self.state.groups[number].rows, self.problem.groups[self.einsum][n].rows
        for k, joint in enumerate(joints):
            self.check()
            self.compatible += len(rows) * len(group)
            accounts = ledger(joint.spread, problem.memories)
            join = RowJoin(joint, accounts, problem.room, self.how.incumbents, least, problem.switches)
            key = id(group.energy), joint.exchanged, joint.copies, joint.shared_holders, joint.spread
            if key not in self.charged:
                self.charged[key] = charged_rows(group, problem.charges.of(joint, accounts, group))
            joined = join.rows(rows, self.charged[key])
            if joined is not None:
                compatibility = self.stand_in.own(joint.compatibility)
                self.pairs += len(joined)
                self.parts.append(_JoinedPart(Pairing(self.source, number, n, k), compatibility, joined.without_many()))


def _merged(
    problem: JoinProblem, how: JoinPass, check: Check, finished: frozenset[str], joins: Sequence[_Join]
) -> State:
    """Prune all joined rows group by group (proof 7)."""
    parts = [part for join in joins for part in join.parts]
    by_compatibility: dict[OpenCompatibility, list[int]] = {}
    for number, part in enumerate(parts):
        by_compatibility.setdefault(part.compatibility, []).append(number)
    groups = []
    seam = how.bounds.seam(finished)
    for compatibility, numbers in by_compatibility.items():
        check()
        joined = all_parts([parts[number].rows for number in numbers], numbers)
        rows = joined.take(joined.best())
        if seam is not None:
            rows = seam.promising(compatibility, rows, how.incumbents)
        groups.append(PartialGroup(compatibility, rows))
    sources = tuple(JoinSource(join.state.finished, join.einsum) for join in joins)
    return State(finished, tuple(groups), sources, tuple(part.pairing for part in parts))


def _thinned(problem: JoinProblem, how: JoinPass, check: Check, state: State) -> State:
    """A large state, pruned coarsely."""
    assert how.coarse is not None
    bounded = [(rows, least) for (_, rows), least in zip(state.groups, how.least(problem, state), strict=True)]
    thin = thinned(bounded, how.incumbents, how.coarse, how.joins(problem), check)
    groups = (PartialGroup(group.compatibility, rows) for group, rows in zip(state.groups, thin, strict=True))
    return replace(state, groups=tuple(groups))
