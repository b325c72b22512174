"""The search with windows: chains of Einsums are fused through their halos wherever that beats the known mappings.

Plans of windows are tried from the most promising on. For each, a spec without windows is searched (`unrolled`); its
mapping is written back, evaluated by the model, and put between mappings of the Einsums before and after it. The result
is valid and never worse than without windows. The search ends when a bound shows that no plan is better; else the
result has a gap.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fusiest.base import interrupt
from fusiest.base.errors import Interrupted, OutOfMemory, SpecError
from fusiest.base.interrupt import OutOfTime
from fusiest.base.objective import Least
from fusiest.looptree import einsums
from fusiest.mapper.options import Options
from fusiest.mapper.part_mappings import NO_PART, PartMapping, best_of, best_parts, joined_parts
from fusiest.mapper.progress import Progress, Step
from fusiest.mapper.resources import cpu_seconds
from fusiest.mapper.results.result import Mapping, Result, Stop
from fusiest.mapper.windows.in_a_row import PartsInARow, PartSpan, PartsRow
from fusiest.mapper.windows.interleaving_plans import KnownTurns, TurnPlan, other_common_variables
from fusiest.mapper.windows.interleavings import MOST_PLANS, PlansLeft, TurnSearches, TurnTables
from fusiest.mapper.windows.neighbours import RunSet, RunsJoined
from fusiest.mapper.windows.outside import PlainParts, mappings_to_cut
from fusiest.mapper.windows.promises import WindowPromises, WindowRun
from fusiest.mapper.windows.symmetric import WindowForms
from fusiest.mapper.windows.trials import PlanTrials, WindowSearches
from fusiest.mapper.windows.window_bounds import (
    WindowAttempt,
    WindowBounds,
    gap_above,
    least_of_all,
    window_bounds,
    worth_windows,
)
from fusiest.mapper.windows.window_plans import (
    is_too_long,
    window_runs,
)
from fusiest.pmapping import exchange_memories, open_memories
from fusiest.spec import Spec

MOST_ATTEMPTS = 48
"""Most attempts (a chain and a number of iterations); the most promising ones are tried."""
MOST_WORSE = 2
"""Numbers of iterations in a row without an improvement after which no more of a chain over a rank are tried."""
MOST_FRUITLESS = 12
"""Plans that fit and improve no mapping after which no more are tried."""
MOST_FRUITLESS_TURNS, MOST_IN_VAIN = 6, 36
"""Plans in a row, searched exactly, that improve no mapping of a long workload: of a chain before the next one, and of
all chains."""
FEWER_WINDOWS = "--windows retained, --max-fused-loops 1 or --windows none takes less time"
MOST_MADE = 8
"""Ways to cut a long workload into chains and parts that are evaluated in the end."""
MOST_JOINED, MOST_JOINED_IN_VAIN = 4, 2
"""Chains that are joined with their neighbours, each alone; and, in long workloads, those in a row without an
improvement."""
MOST_SEARCHED = 6
"""Largest workload, in Einsums, for which all Einsums before and after each chain are searched."""
WindowPass = tuple[WindowRun, bool]
"""A chain of Einsums, and whether all its windows are retained; else some are recomputed."""


def with_windows(result: Result, searches: WindowSearches, say: Progress, begin: float) -> Result:
    """Improve a result by mappings with windows. `begin`: moment from which a time limit counts."""
    spec, options = result.spec, result.options
    wall, cpu = time.perf_counter(), cpu_seconds()
    stopped, bounds, mappings, left = result.stopped, None, result.mappings, 0
    try:
        interrupt.check()
        if worth_windows(spec, options) or _gap(result, mappings, None) > 0:
            say(Step("bounding windows"))
            bounds = window_bounds(spec, options, searches.relaxed)
            interrupt.check()
        if worth_windows(spec, options):
            search = _WindowSearch(spec, options, searches, say, begin, bounds, list(result.mappings))
            try:
                search.search_all()
            finally:
                mappings, left = search.mappings, search.plans_left()
            stopped = search.stopped or stopped
    except OutOfTime:
        stopped = "time limit"
    except (KeyboardInterrupt, Interrupted):  # what is known without windows stays known
        stopped = "interrupt"
    except (MemoryError, OutOfMemory):
        stopped = "memory"
    with interrupt.finishing():
        gap = _gap(result, mappings, bounds)
    stats = replace(
        result.stats, wall_seconds=result.stats.wall_seconds + time.perf_counter() - wall,
        cpu_seconds=result.stats.cpu_seconds + cpu_seconds() - cpu, plans_left=left if gap else 0,
    )  # fmt: skip
    stopped = stopped if gap else result.stopped
    return replace(result, mappings=mappings, optimal=gap == 0, gap=gap, stats=stats, stopped=stopped)


def _gap(result: Result, mappings: Sequence[Mapping], bounds: WindowBounds | None) -> float:
    """How much better a mapping could be than these, whatever windows it has."""
    return gap_above(result.options, least_of_all(result.spec, result.options, bounds), mappings)


@dataclass
class _WindowSearch:
    """The search with windows for one spec."""

    spec: Spec
    options: Options
    searches: WindowSearches
    say: Progress
    begin: float
    bounds: WindowBounds | None
    mappings: list[Mapping]
    """The best mappings so far."""
    stopped: Stop | None = None
    kept_only: bool = True
    """Whether only retained windows are searched."""

    def __post_init__(self) -> None:
        self.names = list(self.spec.info.einsums)
        self.trials, self.forms = PlanTrials(self.spec, self.options, self.searches, self.begin), WindowForms(self.spec)
        self.promises = WindowPromises(self.spec, self.options, self.bounds, self.trials.part_of)
        self.is_long, self.is_cut = is_too_long(self.spec), len(self.names) > MOST_SEARCHED
        """Whether what is before and after runs is cut from known mappings."""
        self.plain = PlainParts(self.spec, mappings_to_cut(self.mappings) if self.is_cut else [], self.trials.plain)
        self.rows = PartsInARow(len(self.names), self.plain)
        known = self.searches.turns or KnownTurns()
        self.tables = TurnTables(open_memories(self.spec), known)
        self.left: dict[WindowPass, PlansLeft] | None = None
        """What was not gone through. None before all runs are known."""

    def search_all(self) -> None:
        """Search retained windows first, then recomputed ones, so that no result with the former is missed."""
        self._look_ahead()
        self._search()
        if self.options.windows == "all" and not self._over() and not self._is_best():
            self.kept_only = False
            self._search()
        if not self._over() and not self._is_best():
            self._join_runs()

    def _join_runs(self) -> None:
        """Join promising chains with neighbours with which they may exchange tensors on chip."""
        memories = exchange_memories(self.spec)
        if memories is None or len(memories) != 1:
            return
        kept_only = True if self.options.windows == "retained" else None
        turns = replace(self._turns(()), kept_only=kept_only, tables=self.tables.renewed())
        joined, in_vain = RunsJoined(turns, self._least), 0
        for runs in self._run_sets(joined):
            if self._over() or self._is_best() or (self.is_long and in_vain == MOST_JOINED_IN_VAIN):
                return
            words = " and ".join(f"{run[0]} to {run[-1]}" for run in runs)
            self.say(Step("windows", f"{words}, between others"))
            found = joined.best(runs, self.trials.inner(True), self.searches.joined)
            self.mappings = best_of([*self.mappings, *found], self.options)
            in_vain = 0 if any(mapping is new for mapping in self.mappings for new in found) else in_vain + 1

    def _run_sets(self, joined: RunsJoined) -> Iterator[RunSet]:
        """Chains to join: those of the best mapping together, and the most promising ones alone.

        In long workloads, only chains that contain one of the best mapping's are tried alone.
        """
        score = self.options.minimized.score_of
        best = min(self._wholes(), key=lambda part: score(part.energy, part.latency), default=NO_PART)
        runs = {einsums(tree.nodes) for tree in best.trees}
        single = [run for run in self.promises.least if joined.can_be_joined(run)]
        together = tuple(run for run in single if run in runs)
        if len(together) > (not self.is_long):
            yield together
        if self.is_long:
            single = [run for run in single if not together or any(set(inner) < set(run) for inner in together)]
        if self.bounds is not None:
            bounds, mappings = self.bounds, self.mappings
            single.sort(key=lambda run: (bounds.score(bounds.hoped(run, mappings, cut_off=False)), len(run)))
        yield from ((run,) for run in single[:MOST_JOINED])

    def plans_left(self) -> int:
        """Number of plans that were not searched."""
        return sum(left.plans for left in (self.left or {}).values() if self._promises(left.least))

    def _look_ahead(self) -> None:
        """Bound all chains and count their plans. Large counts are reported."""
        passes = (True, False) if self.options.windows == "all" else (True,)
        ahead, turns = dict[WindowPass, PlansLeft](), self._turns(())
        for run in window_runs(self.spec):
            interrupt.check()
            least = self.promises.bound(run)
            if self._promises(least):
                count = sum(ways.plans for ways in turns.ways(run) if ways.are_asked_for)
                ahead |= {(run, kept): PlansLeft(count, least) for kept in passes}
        self.left, plans = ahead, sum(left.plans for (_, kept), left in ahead.items() if kept)
        if plans > MOST_PLANS:
            words = f"up to {plans:,} plans, of which the most promising are searched, up to {MOST_PLANS:,} of a kind"
            self.say(Step("windows", f"{words}; {FEWER_WINDOWS}"))

    def _turns(self, run: WindowRun) -> TurnSearches:
        options = self.trials.inner(len(run) == len(self.names))
        runs = sum(self._promises(least) for least in self.promises.least.values())
        return TurnSearches(self.spec, options, self.forms, self.kept_only, self.tables, max(1, runs))

    def _search(self) -> None:
        """Try plans; then put chains together, without another search if time is up."""
        try:
            self._try_plans()
        except OutOfTime:
            self.stopped = "time limit"
        wholes = [whole for whole in self._wholes() if whole.windows]
        self._note(wholes)
        score = self.options.minimized.score_of
        if not self._over() and self.plain.refine(sorted(wholes, key=lambda whole: score(whole.energy, whole.latency))):
            self._note(self._wholes())

    def _try_plans(self) -> None:
        """Try plans as specs, the most promising first, until none can be better."""
        searched, tried = self._search_turns(), 0
        if self.is_long and searched:
            return  # what plans of others find is hardly ever better, and takes a quarter of the time
        runs = [run for run in self.promises.least if run not in searched and self._is_promising(run)]
        attempts = self.promises.attempts(runs, self.forms, self.kept_only, self.mappings)
        worse, best = dict[object, int](), dict[object, list[PartMapping]]()
        fruitless = 0
        if len(attempts) > MOST_ATTEMPTS:
            words = f"of {len(attempts)} plans up to {MOST_ATTEMPTS} are tried, the most promising first"
            self.say(Step("windows", f"{words}; {FEWER_WINDOWS}", 0, MOST_ATTEMPTS, "plans"))
        for attempt in attempts:
            if tried == MOST_ATTEMPTS or fruitless == MOST_FRUITLESS or self._over() or self._is_best():
                break
            plan, run = attempt.plans[0], attempt.run
            kind = run, plan.variables[run[-1]]
            if worse.get(kind, 0) >= MOST_WORSE or not self._promises(attempt.least) or not self._is_promising(run):
                continue
            words = f"{run[0]} to {run[-1]} in {plan.times} iterations of {plan.variables[run[-1]]}"
            self.say(Step("windows", words, tried, min(len(attempts), MOST_ATTEMPTS), "plans"))
            tried, known = tried + 1, self.mappings
            parts = self._tried(attempt)
            self._add(run, parts)
            fruitless = 0 if self.mappings is not known else fruitless + bool(parts)
            if parts:  # as long as nothing fits, more iterations may
                others = best.get(kind, [])
                best[kind] = best_parts([*others, *parts])
                is_better = any(part not in others for part in best[kind])
                worse[kind] = 0 if is_better else worse.get(kind, 0) + 1

    def _search_turns(self) -> set[WindowRun]:
        """Search short chains exactly. Returns those to which no plan as a spec could add (in long workloads, much)."""
        searched: set[WindowRun] = set()
        self.tables, in_vain = self.tables.renewed(), 0
        hopeful = self.promises.in_turn(self._hope)
        for run in hopeful if self.is_long else sorted(self.promises.least, key=len, reverse=True):
            if self._over() or self._is_best() or (self.is_long and in_vain >= MOST_IN_VAIN):
                break
            if not self._promises(self.promises.least[run]):
                continue
            self.say(Step("windows", f"{run[0]} to {run[-1]}, exactly"))
            left, bound = PlansLeft(), functools.partial(self._least, run)
            fruitless, parts_found = 0, False
            for parts in self._turns(run).best(self.trials.part_of(run), bound, self._promises, left):
                known = self.mappings
                self._add(run, parts)
                is_better, parts_found = self.mappings is not known, parts_found or bool(parts)
                fruitless, in_vain = (0, 0) if is_better else (fruitless + 1, in_vain + 1)
                if self._over() or self._is_best():
                    return searched
                if self.is_long and fruitless == MOST_FRUITLESS_TURNS:
                    left.add(1, self.promises.least[run])
                    break
            if left.plans:
                words = f"{run[0]} to {run[-1]}: {left.plans:,} plans are not gone through"
                self.say(Step("windows", f"{words}; {FEWER_WINDOWS}"))
            elif not other_common_variables(self.spec, run):
                searched.add(run)
            if self.is_long and parts_found and not self.tables.has_failed(run):
                searched.add(run)
            if self.left is not None:
                self.left[run, self.kept_only] = left
        return searched

    def _tried(self, attempt: WindowAttempt) -> list[PartMapping]:
        """Mappings found for the plans of an attempt: those that retain all overlaps, or all plans."""
        plans = attempt.plans
        chosen = plans[:1] if self.kept_only else plans
        wanted = [plan for plan in chosen if self.promises.is_worth(plan, self.mappings)]
        searched = (*plans[:1], *plans[-1:]) if self.kept_only else wanted
        worth = self.promises.worth(wanted, self.mappings)
        try:
            return list(self.trials.best(dict.fromkeys(searched), wanted, worth))
        except SpecError:  # a name in the architecture means nothing in the part
            return []

    def _is_promising(self, run: WindowRun) -> bool:
        """Whether a chain may improve a mapping; in longer workloads, whether it is likely to."""
        is_likely = not self.is_cut or self.promises.is_hopeful(self._hope(run))
        return is_likely and self._promises(self.promises.least[run])

    def _hope(self, run: WindowRun) -> float:
        """Hoped score of the best possible chain between the best known parts, as a multiple of the best known score."""
        if self.bounds is None or not self.mappings:
            return 0.0
        first, last = self._span(run)
        energy, latency = self.bounds.inside(run)
        rows = (a.then(c) for a in self.rows.to(first) for c in self.rows.since(last))
        score = self.options.minimized.score_of
        hoped = min((score(row.energy + energy, row.latency + latency) for row in rows), default=0.0)
        return hoped / min(score(m.energy, m.latency) for m in self.mappings)

    def _least(self, run: WindowRun, plan: TurnPlan | None) -> Least:
        return self.promises.of_turns(run, plan, self.mappings)

    def _promises(self, least: Least) -> bool:
        return self.promises.can_be_better(least, self.mappings)

    def _is_best(self) -> bool:
        return self.promises.is_met(self.mappings)

    def _span(self, run: Sequence[str]) -> PartSpan:
        first = self.names.index(run[0])
        return first, first + len(run)

    def _add(self, run: Sequence[str], parts: Sequence[PartMapping]) -> None:
        """Note mappings of a chain, alone and between parts before and after it."""
        span = self._span(run)
        new = self.rows.add(span, parts)
        if not new:
            return
        if not self.is_cut:
            self._note(self.rows.between_plain(span, new))
            return
        for whole in self.rows.made(self._in_order(self.rows.around(span, new)), self._costs_are_beaten):
            self._note([whole])

    def _wholes(self) -> list[PartMapping]:
        """The best ways to put chains with windows and parts without in a row."""
        if not self.is_cut:
            return self.rows.wholes()
        rows = self._in_order(self.rows.to(len(self.names)))
        return list(self.rows.made(rows[:MOST_MADE], lambda energy, latency: False))

    def _in_order(self, rows: list[PartsRow]) -> list[PartsRow]:
        score = self.options.minimized.score_of
        return sorted(rows, key=lambda row: score(row.energy, row.latency))

    def _note(self, parts: Sequence[PartMapping]) -> None:
        """Add whole mappings that are better than known ones."""
        better = [
            part for part in best_parts(parts) if part.windows and not self._costs_are_beaten(part.energy, part.latency)
        ]
        mappings = [
            mapping for part in better if (mapping := joined_parts(self.spec, part, self.options.imperfect)) is not None
        ]
        if mappings:
            self.mappings = best_of([*self.mappings, *mappings], self.options)

    def _costs_are_beaten(self, energy: float, latency: float) -> bool:
        objective = self.options.minimized
        if objective.is_front:
            return any(m.energy <= energy and m.latency <= latency for m in self.mappings)
        score = objective.score_of(energy, latency)
        return any(objective.score_of(m.energy, m.latency) < score for m in self.mappings)

    def _over(self) -> bool:
        limit = self.options.time_limit
        if interrupt.taken():
            self.stopped = "interrupt"
        elif limit is not None and time.perf_counter() > self.begin + limit:
            self.stopped = "time limit"
        return self.stopped is not None
