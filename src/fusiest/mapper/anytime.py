"""Exploration in limited time and memory: first without fusion, then exactly, then coarsely whatever is still missing.

Each Einsum's best pmapping by itself is part of a valid mapping, and quickly found. So there is an answer whatever ends
the search.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fusiest.base import interrupt
from fusiest.base.frozen import FrozenDict
from fusiest.base.interrupt import OutOfTime
from fusiest.base.objective import Least, Weights
from fusiest.joining import JoinProblem
from fusiest.mapper.candidates import Candidate, KnownMapping
from fusiest.mapper.cutoffs import least_of_each, make_cutoffs
from fusiest.mapper.least.least_first import Fastest, LeastFirst
from fusiest.mapper.progress import Step
from fusiest.mapper.resources import rss_bytes
from fusiest.mapper.results.result import Stop
from fusiest.mapper.search import Proof, Search, SearchSettings, judged
from fusiest.mapper.tables import Explored, Explorer, grouped, question_of
from fusiest.pmapping import COARSE, EXACT, FIRST_LOOKS, HASTY, Effort, Table

ROW_LIMIT = 100_000
"""Rows of an exact search for an Einsum, per Einsum of the workload, after which it needs a cutoff to go on. Finding
one takes longer with more Einsums."""
_FEW_ROWS = 20_000
"""Largest table that is kept when memory does not suffice for all: coarse tables replace larger ones."""
_LOOKING, _AT_FIRST, _COARSELY, _EXPLORING = 0.2, 0.3, 0.7, 0.8
"""Shares of the time. Until the first, known mappings are looked at more closely; until the second, Einsums are
explored exactly; until the third, the missing ones coarsely. Then all are joined for mappings to beat, and until the
last the missing ones are explored exactly."""
LEAST_SECONDS, _LEAST_AFTER_LOADING, _PROGRAM_SECONDS = 1.2, 0.4, 1.9
"""Least seconds of a time limit, of a closer look, and of the whole program. A smaller limit counts as the first, which
is what remains of the two seconds that no limit can do without. Where a program took time to load, the rest of the last
counts, but at least the second."""
ENDING_SECONDS = 0.0015
"""Seconds per Einsum of a mapping that was found, to evaluate it and to show its costs."""


class Clock(NamedTuple):
    """The time of a search."""

    begin: float
    """Moment at which it began."""
    seconds: float | None
    """Its time limit."""
    einsums: int = 0
    """Number of Einsums whose nests are evaluated and shown at the end: time is left for that, but never most of it."""
    least: float = 0.0
    """Least seconds that it takes."""

    @staticmethod
    def started(begin: float, seconds: float | None, einsums: int) -> Clock:
        """Start the clock of a search."""
        left = max(_PROGRAM_SECONDS - interrupt.program_seconds(), _LEAST_AFTER_LOADING)
        return Clock(begin, seconds, einsums, min(LEAST_SECONDS, left))

    def at(self, share: float) -> float | None:
        """The moment at which this share of the time is over."""
        if self.seconds is None:
            return None
        ending = min(ENDING_SECONDS * self.einsums, self.seconds / 2)
        return self.begin + share * (max(self.seconds, self.least) - ending)

    def looking_on(self, now: float) -> float:
        """Moment until which known mappings are looked at more closely: as long as they took, at most half the time."""
        seconds = self.seconds or 0.0
        twice = min(2 * (now - self.begin), seconds / 2)
        return self.begin + max(_LOOKING * seconds, twice, self.least)

    def is_past(self, share: float) -> bool:
        """Whether this share of the time is over."""
        moment = self.at(share)
        return moment is not None and time.perf_counter() > moment


@dataclass(frozen=True)
class Exploration:
    """Tables of distinct Einsums, and what ended their exploration early."""

    tables: Mapping[str, Table]
    exact: frozenset[str]
    """Einsums whose tables have all pmappings that matter."""
    stopped: Stop | None = None
    fused: bool = True
    """Whether there are tables for fusion, not only those of the first look."""
    candidates: Sequence[Candidate] = ()
    """Known mappings. Tables may lack their pmappings: only better ones are sure to be there."""
    whole: Mapping[str, Table] = FrozenDict()
    """Tables that have all pmappings, whatever mappings are known: other searches may use them."""
    proof: Proof | None = None
    """What is proven already; None: the tables are still to be joined."""
    leasts: Mapping[str, float] = FrozenDict()
    """The least latency of each Einsum, where that alone was searched."""

    def least(self, explorer: Explorer, weights: Weights) -> Least:
        """Lower bound on the cost of all Einsums: from exact tables, else from computing and moving data."""
        leasts = least_of_each(explorer, {name: self.tables[name] for name in explorer.distinct if name in self.exact})
        energy = sum(leasts[first][0] for first in explorer.representative.values())
        latency = sum(leasts[first][1] for first in explorer.representative.values())
        return Least(energy, latency, weights.energy * energy + weights.latency * latency)


def explore_in_time(
    explorer: Explorer, clock: Clock, alone: Mapping[str, Table], known: Mapping[str, Table], shared: bool
) -> Exploration | None:
    """Explore exactly, as far as time and memory allow, then coarsely; missing tables are taken from `alone`.

    `alone`: tables from which a mapping is known. `known`: tables that have all pmappings.
    `shared`: other searches use the tables, too. They must then have all pmappings, not only those that can be part of a
    better mapping than is known by then. None if some Einsum has no table.
    """
    candidates = list[Candidate]()
    needed = not shared and explorer.options.usage is None
    exact, whole, rough = dict(known), dict(known), dict[str, Table]()
    stopped: Stop
    try:
        if clock.is_past(_AT_FIRST):
            raise OutOfTime
        explored = _explore_first(explorer, clock.at(_AT_FIRST), exact, needed)
        exact = whole = explored.tables
        explored.complete(even_late=True)
        if explorer.missing(exact):
            rough = _explore_coarsely(explorer, clock, exact)
            candidates += _look_coarsely(explorer, clock, {**alone, **exact, **rough}) if exact or rough else []
            bounding = candidates if needed else []
            explored = _explore_rest(explorer, clock.at(_EXPLORING), exact, bounding)
            exact, whole = explored.tables, whole if bounding else explored.tables
            explored.complete()
            for name in explorer.missing(exact) if bounding else ():
                exact[name] = {**alone, **rough}[name]  # nothing of it can be better
        return Exploration(exact, frozenset(explorer.representative), candidates=candidates, whole=whole)
    except OutOfTime:
        stopped = "time limit"
    except MemoryError:
        stopped = "memory"
    except KeyboardInterrupt:
        if not alone:
            raise
        stopped = "interrupt"
    if stopped == "memory":
        exact, whole = ({n: table for n, table in t.items() if len(table) <= _FEW_ROWS} for t in (exact, whole))
        explored = Explored({})
        gc.collect()  # what a search had in hand when it was stopped may be in cycles
    tables = {**rough, **exact}
    if stopped != "interrupt" and not clock.is_past(_EXPLORING):
        explorer.say(explorer.step("coarsely", tables))
        coarsely = explorer.explore(question_of(explorer.options), COARSE, tables, clock.at(_EXPLORING))
        if coarsely.stopped == "interrupt":
            raise KeyboardInterrupt
        tables = coarsely.tables
    if stopped == "memory":
        gc.collect()
    fused = bool(tables)
    if explorer.missing(tables):
        with interrupt.finishing():  # what is known at once takes little memory
            tables = {**(alone or explore_alone(explorer)), **tables}
    if explorer.missing(tables):
        return None
    certain = frozenset(name for name, first in explorer.representative.items() if first in exact)
    return Exploration(tables, certain, stopped, fused, candidates, whole)


def easy_tables(explorer: Explorer, begin: float, known: Mapping[str, Table]) -> dict[str, Table] | None:
    """The whole tables of all Einsums, if none takes long."""
    clock = Clock.started(begin, explorer.options.time_limit, len(explorer.representative))
    try:
        with interrupt.limited(clock.at(_LOOKING), explorer.options.most_memory, rss_bytes):
            return explorer.easy(question_of(explorer.options), known)
    except (OutOfTime, MemoryError):
        return None


def explore_least_first(
    explorer: Explorer,
    clock: Clock,
    alone: Mapping[str, Table],
    fastest: Fastest | None,
    start: Sequence[KnownMapping],
) -> Exploration | None:
    """Find mappings and bounds least first, and the tables of what could be better, as far as time and memory allow.

    `start`: known mappings. None if some Einsum has no table.
    """
    stopped: Stop | None = None
    is_open = True
    with explorer.force(clock.seconds is not None) as force:
        found = LeastFirst(explorer, force, question_of(explorer.options), candidates=list(start), fastest=fastest)
        try:
            with interrupt.limited(clock.at(1.0), explorer.options.most_memory, rss_bytes):
                is_open = found.run()
        except OutOfTime:
            stopped = "time limit"
        except MemoryError:
            stopped = "memory"
        except KeyboardInterrupt:
            if not alone and not found.candidates:
                raise
            stopped = "interrupt"
        if stopped is not None:
            force.end()
    joined = [candidate for candidate in found.candidates if isinstance(candidate, Candidate)]
    if stopped is None:
        proof = None if is_open else Proof(True, 0.0)
        exact = frozenset(explorer.representative)
        return Exploration(found.tables, exact, None, True, joined, proof=proof, leasts=found.least_latencies())
    if joined:
        return Exploration({}, frozenset(), stopped, True, joined, proof=judged(found.gap())._replace(stopped=stopped))
    with interrupt.finishing():
        tables = dict(alone or explore_alone(explorer))
    proof = judged(found.gap())._replace(stopped=stopped) if found.candidates else None
    return Exploration(tables, frozenset(), stopped, False, proof=proof) if not explorer.missing(tables) else None


def begun(
    explorer: Explorer,
    clock: Clock,
    exploration: Exploration,
    unfused: Sequence[Candidate],
    make: Callable[[JoinProblem, float | None], Search],
) -> tuple[Search, Exploration]:
    """Make the search that joins the explored tables. `make` makes it, for a problem and its deadline.

    If time is up before there is one, the search has only unfused mappings.
    """
    if exploration.proof is not None:
        joined = [candidate.problem for candidate in exploration.candidates]
        problem = joined[0] if joined else grouped(explorer.spec, explorer.options, explorer.named(exploration.tables))
        return make(problem, 0.0), exploration
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


def _explore_first(explorer: Explorer, deadline: float | None, known: Mapping[str, Table], needed: bool) -> Explored:
    """Explore exactly what is not too hard. `needed`: only for this search, which may retry with cutoffs."""
    objective, count = explorer.options.minimized, len(explorer.representative)
    decides = needed and count == 1 and not objective.is_front
    question = replace(question_of(explorer.options), objective=objective if decides else None)
    return explorer.explore(question, Effort(row_limit=ROW_LIMIT * count) if needed else EXACT, known, deadline)


def _explore_coarsely(explorer: Explorer, clock: Clock, exact: Mapping[str, Table]) -> dict[str, Table]:
    """Tables of a coarse look at the Einsums that are missing."""
    explorer.say(explorer.step("hard Einsums coarsely", exact))
    looked = explorer.explore(question_of(explorer.options), COARSE, exact, clock.at(_COARSELY))
    return {name: table for name, table in looked.complete(even_late=True).items() if name not in exact}


def _look_coarsely(explorer: Explorer, clock: Clock, tables: Mapping[str, Table]) -> list[Candidate]:
    """Mappings of what is exact, of a coarse look at the rest, or of what is known alone."""
    with contextlib.suppress(OutOfTime), interrupt.limited(clock.at(1.0), explorer.options.most_memory, rss_bytes):
        return looked_at(explorer, tables)
    return []


def _explore_rest(
    explorer: Explorer, deadline: float | None, exact: Mapping[str, Table], candidates: Sequence[Candidate]
) -> Explored:
    """Explore missing Einsums exactly. If mappings are known, only pmappings that can be part of a better one are kept."""
    cutoffs = make_cutoffs(explorer, exact, [candidate.costs for candidate in candidates]) if candidates else {}
    return explorer.explore(question_of(explorer.options), EXACT, exact, deadline, cutoffs)


def quick_tables(explorer: Explorer, hasty: bool = False) -> Iterator[dict[str, Table]]:
    """Tables of good pmappings, the quickest first: those that share nothing on chip, then all kinds.

    Looks keep few rows at first, and more where memories are so small that none of the rows fits in the end.
    """
    looks = (HASTY, *FIRST_LOOKS) if hasty else FIRST_LOOKS
    for apart in (True, False):
        question, tables = replace(question_of(explorer.options), apart=apart), dict[str, Table]()
        for look in looks:
            tables = explorer.explore(question, look, tables).complete()
            if not explorer.missing(tables):
                yield tables
                tables = {}


def explore_alone(explorer: Explorer) -> dict[str, Table]:
    """The quickest tables of all Einsums; none if some Einsum seems to have no pmapping."""
    return next(quick_tables(explorer), {})


def look_in_time(explorer: Explorer, clock: Clock) -> tuple[dict[str, Table], list[Candidate]]:
    """Find mappings at once; where a look takes little of the time, also mappings close to the unfused optimum.

    Haste leaves out pmappings that take little space: where space counts, there is none.
    """
    hasty = explorer.options.usage is None
    alone, unfused = look_quickly(explorer, hasty)
    deadline = clock.looking_on(time.perf_counter())
    if unfused and hasty and time.perf_counter() < deadline:
        looked = explorer.explore(replace(question_of(explorer.options), apart=True), FIRST_LOOKS[0], deadline=deadline)
        if looked.stopped == "interrupt":
            raise KeyboardInterrupt
        closer = looked.tables
        tables = {**alone, **closer}
        if closer and (better := looked_at(explorer, tables)):
            return tables, [*better, *unfused]
    return alone, unfused


def look_quickly(explorer: Explorer, hasty: bool = False) -> tuple[dict[str, Table], list[Candidate]]:
    """Find mappings at once, and the tables from which they are made; none if no quick look finds any."""
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
    search = Search(problem, SearchSettings(options))
    with contextlib.suppress(OutOfTime):  # what is found by then counts
        search.look()
    explorer.say(Step("first look", search.best_words() or "there is no mapping"))
    return [candidate for candidate in search.candidates if isinstance(candidate, Candidate)]
