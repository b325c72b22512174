"""One pass over all Einsums: partial mappings are joined, over sets of finished Einsums, level by level.

A pass is a value: bounds, known mappings to beat, how coarsely to prune, which orders. `levels` is a pure function of a
problem and a pass. It yields each level once it is whole: all partial mappings with so many finished Einsums. Whoever
stops in between knows the last level, and so from where better mappings could still be reached.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

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
from fusiest.joining.work.processes import Check
from fusiest.joining.work.shares import Cut, JoinedPart, run_joins, shared_kept
from fusiest.pmapping import Floats, Ints


class Bounds(Protocol):
    """What remaining Einsums need at least."""

    def least(self, finished: frozenset[str], live: Relaxed) -> Least:
        """Given the finished ones, and the relaxed compatibility of live tensors."""

    def seam(self, finished: frozenset[str]) -> Seam | None:
        """Where more is known than that."""


class NoBounds:
    """Nothing is known of what remaining Einsums need, not even whether they agree."""

    def least(self, finished: frozenset[str], live: Relaxed) -> Least:
        """Nothing."""
        return NOTHING

    def seam(self, finished: frozenset[str]) -> None:
        """Nowhere is more known."""


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
        """What has to be kept of it to find the way back."""
        trails = tuple(rows.trail for _, rows in self.groups)
        return Trails(tuple(c for c, _ in self.groups), trails, self.sources, self.pairings)


class Trails(NamedTuple):
    """Of a state: its compatibilities, where the rows of each came from, and what was joined there."""

    compatibilities: tuple[OpenCompatibility, ...]
    rows: tuple[Trail, ...]
    sources: tuple[JoinSource, ...]
    pairings: tuple[Pairing, ...]


@dataclass(frozen=True)
class Level:
    """All partial mappings with so many finished Einsums, and what it took to find them."""

    states: tuple[State, ...]
    compatible: int = 0
    """Pairs of partial mappings and pmappings in the groups that were brought together."""
    pairs: int = 0
    """Of these, pairs that were joined."""
    exact: bool = True
    """Whether nothing was pruned coarsely."""

    def __len__(self) -> int:
        return sum(len(state) for state in self.states)

    @property
    def finished(self) -> int:
        """Einsums, in all that is there."""
        return len(self.states[0].finished) if self.states else 0

    def groups(self) -> int:
        """How many compatibilities there are."""
        return sum(len(state.groups) for state in self.states)

    def fingerprint(self) -> bytes:
        """Equal for the same partial mappings in the same order, in this process and its forks."""
        hashes = [hash(c) for state in self.states for c, _ in state.groups]
        costs = (rows.energy.tobytes() for state in self.states for _, rows in state.groups)
        return hash((tuple(hashes), *costs)).to_bytes(8, "little", signed=True)


@dataclass(frozen=True)
class JoinPass:
    """How to go about it."""

    potential: Potential
    bounds: Bounds
    incumbents: Incumbents
    coarse: Coarse | None = None
    """How to prune large sets: what is left is still valid, not always the best. By default exactly."""
    all_orders: bool = False
    """Every order of Einsums; else only the listed one."""
    stretch: frozenset[str] | None = None
    """Only these Einsums."""

    def joins(self, problem: JoinProblem) -> int:
        """How many there are."""
        return len(problem.order if self.stretch is None else self.stretch)

    def next_einsums(self, problem: JoinProblem, finished: frozenset[str]) -> list[str]:
        """Einsums to join next."""
        ready = problem.workload.next_in_turn(finished) if self.all_orders else problem.ready(finished)
        joined = (e for e in ready if self.stretch is None or e in self.stretch)
        return list(joined if self.all_orders else itertools.islice(joined, 1))

    def least(self, problem: JoinProblem, state: State) -> list[Least]:
        """What the groups of a state still need at least."""
        live = problem.live(state.finished)
        return [self.bounds.least(state.finished, relaxed_open(c, live)) for c, _ in state.groups]


def first_level(problem: JoinProblem) -> Level:
    """Nothing is joined, so everything is still to be reached."""
    rows = start_rows(len(problem.memories))
    return Level((State(frozenset(), (PartialGroup(EMPTY, rows),)),))


def levels(problem: JoinProblem, how: JoinPass, check: Check, start: Level | None = None) -> Iterator[Level]:
    """Join Einsum after Einsum, from nothing or from `start`. Levels may be empty: then nothing better is left."""
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
    run_joins(joins, level.fingerprint, check)
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


class _Ways(NamedTuple):
    """An Einsum's groups that agree with one of a state."""

    numbers: Ints
    after: Floats
    """What is to come at least after each, and with it."""
    least: Floats


@dataclass
class _Join:
    """One Einsum, put after everything that is finished."""

    problem: JoinProblem
    how: JoinPass
    check: Check
    state: State
    einsum: str
    source: int
    """Of all joins that lead to the same set of finished Einsums, which one."""
    charged: dict[object, ChargedRows]
    """Groups of all Einsums of this pass, by how they are joined."""
    ways: dict[tuple[Relaxed, Relaxed, Cut], _Ways | None] = field(default_factory=dict)
    """By what a group of the state says of the Einsum's tensors, and of those that stay live."""
    parts: list[JoinedPart] = field(default_factory=list)
    """What has been joined."""
    compatible: int = 0
    pairs: int = 0
    """Of rows: those that agree in groups, and those that fit and can lead to something better."""

    @property
    def count(self) -> int:
        """Of groups to join the Einsum to."""
        return len(self.state.groups)

    @cached_property
    def live(self) -> LiveTensors:
        return self.problem.live_around(self.state.finished, self.einsum)

    @cached_property
    def stand_in(self) -> StandIn:
        """In whose stead the Einsum is joined."""
        return self.problem.stand_in(self.state.finished, self.einsum)

    @cached_property
    def _group_leasts(self) -> Floats:
        """Of each of the Einsum's groups."""
        return np.array(self.how.potential.groups[self.einsum])

    def run(self, number: int, cut: Cut) -> None:
        """Join to the group of this number all that agree and can lead to something better, of those in this cut."""
        problem, einsum, live = self.problem, self.stand_in.einsum, self.stand_in.live
        promising = self._promising(number, cut)
        if not promising:
            return
        before = self.stand_in.renamed(self.state.groups[number].compatibility)
        outline = problem.outline(before, einsum, live)
        for n, least in promising:
            if problem.fits(before, outline, einsum, n, live):
                self._pair(number, n, problem.joints(before, einsum, n, live, outline), Least(*least))

    def _promising(self, number: int, cut: Cut) -> list[tuple[int, list[float]]]:
        """The Einsum's groups that agree with the state's of this number, if that is promising, and what is to come after."""
        compatibility, rows = self.state.groups[number]
        key = relaxed_open(compatibility, self.live.shared), relaxed_open(compatibility, self.live.after), cut
        if key not in self.ways:
            self.ways[key] = self._find_ways(*key)
        ways = self.ways[key]
        if ways is None or not len(rows):
            return []
        self.check()
        promising = self.how.incumbents.promising_groups(rows.energy, rows.latency, ways.least)
        return list(zip(ways.numbers[promising].tolist(), ways.after[promising].tolist(), strict=True))

    def _find_ways(self, shared: Relaxed, lasting: Relaxed, cut: Cut) -> _Ways | None:
        groups = self._lookup(self.problem.agreeing(self.einsum, self.live), shared)
        if groups is None:
            return None
        least, finished = self.how.bounds.least, self.state.finished | {self.einsum}
        in_cut = groups.numbers % cut.of == cut.number
        after: Floats = np.array([least(finished, merged(lasting, way)) for way in groups.ways])[groups.way[in_cut]]
        numbers = groups.numbers[in_cut]
        return _Ways(numbers, after, after + self._group_leasts[numbers])

    def _lookup(self, agreeing: Mapping[Relaxed, AgreeingGroups], shared: Relaxed) -> AgreeingGroups | None:
        """Groups that agree, looked up, or without grouping compared one by one."""
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
                self.parts.append(JoinedPart(Pairing(self.source, number, n, k), compatibility, joined.without_many()))


def _merged(
    problem: JoinProblem, how: JoinPass, check: Check, finished: frozenset[str], joins: Sequence[_Join]
) -> State:
    """All that was joined, pruned group by group. Whoever has joined what: the order of parts is the same."""
    parts = sorted((part for join in joins for part in join.parts), key=lambda part: part.pairing)
    by_compatibility: dict[OpenCompatibility, list[int]] = {}
    for number, part in enumerate(parts):
        by_compatibility.setdefault(part.compatibility, []).append(number)
    groups = []
    seam = how.bounds.seam(finished)
    for compatibility, rows in zip(
        by_compatibility, _pruned(parts, list(by_compatibility.values()), check), strict=True
    ):
        if seam is not None:
            rows = seam.promising(compatibility, rows, how.incumbents)
        groups.append(PartialGroup(compatibility, rows))
    sources = tuple(JoinSource(join.state.finished, join.einsum) for join in joins)
    return State(finished, tuple(groups), sources, tuple(part.pairing for part in parts))


def _pruned(parts: Sequence[JoinedPart], groups: Sequence[list[int]], check: Check) -> Iterator[PartialRows]:
    """The rows of groups of parts that none of the same group dominates."""
    pruned: dict[int, PartialRows] = {}

    def all_of(group: int) -> PartialRows:
        check()
        return all_parts([parts[number].rows for number in groups[group]], groups[group])

    def best_of(group: int) -> Ints:
        rows = all_of(group)
        best = rows.best()
        pruned[group] = rows.take(best)
        return best

    sizes = [sum(len(parts[number].rows) for number in group) for group in groups]
    for group, best in enumerate(shared_kept(sizes, best_of, check)):
        yield pruned.pop(group) if group in pruned else all_of(group).take(best)


def _thinned(problem: JoinProblem, how: JoinPass, check: Check, state: State) -> State:
    """A large set, pruned coarsely."""
    assert how.coarse is not None
    bounded = [(rows, least) for (_, rows), least in zip(state.groups, how.least(problem, state), strict=True)]
    thin = thinned(bounded, how.incumbents, how.coarse, how.joins(problem), check)
    groups = (PartialGroup(group.compatibility, rows) for group, rows in zip(state.groups, thin, strict=True))
    return replace(state, groups=tuple(groups))
