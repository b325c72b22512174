"""Exploring in limited time and memory: first without fusing, then exactly, then coarsely what is still missing.

Each Einsum's best alone is a valid whole, and quickly found. So whatever ends the search, and whenever, there is an answer.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fusiest.base import interrupt
from fusiest.base.interrupt import OutOfTime
from fusiest.base.objective import Least, Weights
from fusiest.joining import JoinProblem
from fusiest.mapper.candidates import Candidate
from fusiest.mapper.cutoffs import least_of_each, make_cutoffs
from fusiest.mapper.progress import Step
from fusiest.mapper.resources import rss_bytes
from fusiest.mapper.results.result import Stats, Stop
from fusiest.mapper.search import Search
from fusiest.mapper.tables import Explorer, asked_of, grouped
from fusiest.pmapping import Table

HASTY_LOOK, FIRST_LOOKS, COARSE_LOOK = 100, (300, 1_000, 3_000, 10_000), 2_000
"""Rows of a state that go on: where something is to be known at once, and until there is; and where Einsums are explored coarsely."""
PATIENCE = 100_000
"""Rows of an exact search for an Einsum, for each Einsum that there is: after that it goes on only with something to beat. To find
that takes the longer, the more Einsums there are."""
_FEW_ROWS = 20_000
"""Larger tables are given up where memory does not suffice for all: coarse ones take their place."""
_LOOKING, _AT_FIRST, _COARSELY, _EXPLORING = 0.2, 0.3, 0.7, 0.8
"""Shares of the time: until the first, what is known at once is looked at more closely; until the second, Einsums are explored exactly;
until the third coarsely those that are missing. Then all are joined for mappings to beat, and until the last the missing ones are
explored exactly after all."""
LEAST_SECONDS, _LEAST_AFTER_LOADING, _PROGRAM_SECONDS = 1.2, 0.4, 1.9
"""A time limit below the first counts as this, and looking closely may take so long: so much is left of the two seconds that no limit
can do without. Where a program has taken time to load, as much as is left of the last, but no less than the second."""
ENDING_SECONDS = 0.0015
"""For each Einsum of a mapping that was found: to evaluate it and to show what it costs."""


class Clock(NamedTuple):
    """When the search began, and how long it may take."""

    begin: float
    seconds: float | None
    einsums: int = 0
    """Whose nests are evaluated and shown once the search is over: time is left for that, but never most of it."""
    least: float = 0.0
    """It takes so long at least."""

    @staticmethod
    def started(begin: float, seconds: float | None, einsums: int) -> Clock:
        """Of a search that begins now."""
        left = max(_PROGRAM_SECONDS - interrupt.program_seconds(), _LEAST_AFTER_LOADING)
        return Clock(begin, seconds, einsums, min(LEAST_SECONDS, left))

    def at(self, share: float) -> float | None:
        """The moment at which this share of the time is over."""
        if self.seconds is None:
            return None
        ending = min(ENDING_SECONDS * self.einsums, self.seconds / 2)
        return self.begin + share * (max(self.seconds, self.least) - ending)

    def looking_on(self, now: float) -> float:
        """The moment until which what is known now is looked at more closely: for as long as that took, if it is not half of the time."""
        seconds = self.seconds or 0.0
        twice = min(2 * (now - self.begin), seconds / 2)
        return self.begin + max(_LOOKING * seconds, twice, self.least)

    def is_past(self, share: float) -> bool:
        """Whether this share of the time is over."""
        moment = self.at(share)
        return moment is not None and time.perf_counter() > moment


@dataclass(frozen=True)
class Exploration:
    """Tables of distinct Einsums, and what ended it early."""

    tables: Mapping[str, Table]
    exact: frozenset[str]
    """Einsums of which all pmappings that matter are known."""
    stopped: Stop | None = None
    fused: bool = True
    """Whether more is known than what is there without fusing."""
    candidates: Sequence[Candidate] = ()
    """Mappings that tables may leave out: what is in them can be better."""

    def least(self, explorer: Explorer, weights: Weights) -> Least:
        """What all Einsums cost at least: in exact tables what is there, else what computing and moving data takes."""
        leasts = least_of_each(explorer, {name: self.tables[name] for name in explorer.distinct if name in self.exact})
        energy = sum(leasts[first][0] for first in explorer.representative.values())
        latency = sum(leasts[first][1] for first in explorer.representative.values())
        return Least(energy, latency, weights.energy * energy + weights.latency * latency)


def explore_in_time(
    explorer: Explorer, clock: Clock, alone: Mapping[str, Table], exact: dict[str, Table], whole: bool
) -> Exploration | None:
    """Exactly, as far as time and memory go; then coarsely; what is missing then is taken from `alone`.

    `alone`: what a mapping is known of. `exact`: tables that are known; those that are explored and leave out nothing are added.
    `whole`: tables must have all pmappings, not only those that can be part of a better mapping than is known by then.
    None if there is no table of some Einsum.
    """
    asked, candidates, rough = asked_of(explorer.options), list[Candidate](), dict[str, Table]()
    needed = not whole and explorer.options.usage is None
    stopped: Stop
    try:
        if clock.is_past(_AT_FIRST):
            raise OutOfTime
        with contextlib.suppress(OutOfTime):
            patience = PATIENCE * len(explorer.representative) if needed else asked.patience
            objective = explorer.options.minimized
            decides = needed and len(explorer.representative) == 1 and not objective.is_front
            first = replace(asked, patience=patience, objective=objective if decides else None)
            explorer.explore(exact, first, clock.at(_AT_FIRST))
        if explorer.missing(exact):
            candidates += _look_coarsely(explorer, clock, alone, exact, rough)
            exact = dict(exact) if needed and candidates else exact  # others may need what is left out from here on
            _explore_rest(explorer, clock.at(_EXPLORING), exact, {**alone, **rough}, candidates if needed else [])
        return Exploration(exact, frozenset(explorer.representative), candidates=candidates)
    except OutOfTime:
        stopped = "time limit"
    except MemoryError:
        stopped = "memory"
    except KeyboardInterrupt:
        if not alone:
            raise
        stopped = "interrupt"
    if stopped == "memory":
        for name in [name for name, table in exact.items() if len(table) > _FEW_ROWS]:
            del exact[name]
        gc.collect()  # what a search had in hand when it was stopped may be in cycles
    tables = {**rough, **exact}
    if stopped != "interrupt" and not clock.is_past(_EXPLORING):
        explorer.say(explorer.step("coarsely", tables))
        with contextlib.suppress(OutOfTime, MemoryError):
            explorer.explore(tables, replace(asked, beam=COARSE_LOOK), clock.at(_EXPLORING))
    if stopped == "memory":
        gc.collect()
    fused = bool(tables)
    if explorer.missing(tables):
        with interrupt.finishing():  # what is known at once takes little memory
            tables = {**(alone or explore_alone(explorer)), **tables}
    if explorer.missing(tables):
        return None
    certain = frozenset(name for name, first in explorer.representative.items() if first in exact)
    return Exploration(tables, certain, stopped, fused, candidates)


def begun(
    explorer: Explorer,
    clock: Clock,
    exploration: Exploration,
    unfused: Sequence[Candidate],
    make: Callable[[JoinProblem, float | None], Search],
) -> tuple[Search, Exploration]:
    """The search that joins what was explored. `make` makes it, for a problem and its deadline.

    If time is up before there is one, what is known without fusing is all.
    """
    if exploration.fused or not unfused:
        deadline = 0.0 if exploration.stopped == "interrupt" else clock.at(1.0)
        stopped: Stop
        try:
            with interrupt.limited(clock.at(1.0)):
                problem = grouped(explorer.spec, explorer.options, explorer.named(exploration.tables))
                return make(problem, deadline), exploration
        except OutOfTime:
            stopped = "time limit"
        except KeyboardInterrupt:
            if not unfused:
                raise
            stopped = "interrupt"
        exploration = replace(exploration, stopped=stopped, fused=False)
    return make(unfused[0].problem, 0.0), exploration


def _look_coarsely(
    explorer: Explorer, clock: Clock, alone: Mapping[str, Table], exact: Mapping[str, Table], rough: dict[str, Table]
) -> list[Candidate]:
    """Mappings of what is exact and a coarse look at what is missing, which is added to `rough`; or what is known of it alone."""
    explorer.say(explorer.step("hard Einsums coarsely", exact))
    tables = dict(exact)
    with contextlib.suppress(OutOfTime):
        explorer.explore(tables, replace(asked_of(explorer.options), beam=COARSE_LOOK), clock.at(_COARSELY))
    rough.update({name: table for name, table in tables.items() if name not in exact})
    with contextlib.suppress(OutOfTime), interrupt.limited(clock.at(1.0), explorer.options.most_memory, rss_bytes):
        return looked_at(explorer, {**alone, **tables}) if tables else []
    return []


def _explore_rest(
    explorer: Explorer,
    deadline: float | None,
    exact: dict[str, Table],
    rough: Mapping[str, Table],
    candidates: Sequence[Candidate],
) -> None:
    """Explore what is missing exactly. If mappings are known, only what can be part of a better one matters."""
    cutoffs = make_cutoffs(explorer, exact, [candidate.costs for candidate in candidates]) if candidates else {}
    explorer.explore(exact, asked_of(explorer.options), deadline, cutoffs)
    for name in explorer.missing(exact) if candidates else ():
        exact[name] = rough[name]  # nothing of it can be better


def quick_tables(explorer: Explorer, hasty: bool = False) -> Iterator[dict[str, Table]]:
    """Good pmappings of each Einsum, the quickest to be had first: those that share nothing on chip with others, then of all.

    Few rows go on at first. Where memories are so small that none of them fits in the end, more have to.
    """
    asked = asked_of(explorer.options)
    looks = [replace(asked, beam=beam) for beam in FIRST_LOOKS]
    if hasty:
        looks.insert(0, replace(asked, beam=HASTY_LOOK, hasty=True))
    for apart in (True, False):
        tables: dict[str, Table] = {}
        for look in looks:
            explorer.explore(tables, replace(look, apart=apart))
            if not explorer.missing(tables):
                yield tables
                tables = {}


def explore_alone(explorer: Explorer) -> dict[str, Table]:
    """The quickest tables of all Einsums; none if some Einsum seems to have no pmapping."""
    return next(quick_tables(explorer), {})


def look_in_time(explorer: Explorer, clock: Clock) -> tuple[dict[str, Table], list[Candidate]]:
    """Mappings that are known at once, and where a look takes little of the time, those that are close to the best without fusing.

    Haste leaves out what takes little space: where that counts, there is none.
    """
    hasty = explorer.options.usage is None
    alone, unfused = look_quickly(explorer, hasty)
    deadline = clock.looking_on(time.perf_counter())
    if unfused and hasty and time.perf_counter() < deadline:
        closer, asked = dict[str, Table](), replace(asked_of(explorer.options), beam=FIRST_LOOKS[0], apart=True)
        with contextlib.suppress(OutOfTime, MemoryError):
            explorer.explore(closer, asked, deadline)
        tables = {**alone, **closer}
        if closer and (better := looked_at(explorer, tables)):
            return tables, [*better, *unfused]
    return alone, unfused


def look_quickly(explorer: Explorer, hasty: bool = False) -> tuple[dict[str, Table], list[Candidate]]:
    """Mappings that are known at once, and the tables from which they are made; none if no quick look finds any."""
    for tables in quick_tables(explorer, hasty):
        candidates = looked_at(explorer, tables)
        if candidates:
            return tables, candidates
    return {}, []


def looked_at(explorer: Explorer, tables: Mapping[str, Table]) -> list[Candidate]:
    """Mappings of the whole that a first pass over these tables finds; none if some Einsum has no table."""
    if explorer.missing(tables):
        return []
    options = explorer.options
    problem = grouped(explorer.spec, options, explorer.named(tables))
    search = Search(problem, options, False, lambda step: None, Stats())
    with contextlib.suppress(OutOfTime):  # what is found by then counts
        search.look()
    explorer.say(Step("first look", search.best_words() or "there is no mapping"))
    return [candidate for candidate in search.candidates if isinstance(candidate, Candidate)]
