"""The mapper in one chain: spec → tables of pmappings → joined rows → LoopTrees, each checked again by the model."""

from __future__ import annotations

import concurrent.futures
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fusiest import interrupt
from fusiest.errors import FusiestError, OutOfMemory, SpecError, did_you_mean
from fusiest.joining.bounds import CLOSE, NOTHING, Incumbents, Least, WindowedBounds
from fusiest.joining.coarse import Coarse
from fusiest.looptree.nodes import LoopTree
from fusiest.mapper.diagnose import why_not_joined
from fusiest.mapper.joiner import Joiner, OutOfTime, State
from fusiest.mapper.options import Options
from fusiest.mapper.progress import Progress, Step
from fusiest.mapper.result import FunnelStep, Mapping, Result, Stats, Stop
from fusiest.mapper.tables import explore_all
from fusiest.mapper.trace import picks, trace
from fusiest.mapper.windows import WORTHWHILE_EINSUMS, windowed_bounds
from fusiest.model.evaluate import evaluate
from fusiest.pmapping.collector import collector_paused
from fusiest.pmapping.diagnose import NoMapping
from fusiest.pmapping.meeting import shared_memories
from fusiest.pmapping.pareto import Floats, Ints, pareto_rows
from fusiest.pmapping.sizes import large_enough
from fusiest.spec.spec import Spec

MOST_DOWN_SETS = 10_000
_STOPS: dict[type, Stop] = {OutOfTime: "time limit", KeyboardInterrupt: "interrupt"}
"""MemoryError has subclasses."""
FIRST_PASS = Coarse()


def map(
    spec: Spec,
    objective: tuple[str, ...] | str = ("energy", "latency"),
    *,
    progress: Progress | None = None,
    executor: concurrent.futures.Executor | None = None,
    **options: object,
) -> Result:
    """All optimal fused mappings of a spec's workload on its architecture.

    `objective`: "energy", "latency", "edp", or ("energy", "latency") for the whole front. Further options: those of
    `Options`. Any `concurrent.futures.Executor` can take the place of local processes.

    >>> from fusiest import load
    >>> spec = load("simple", "matmuls", N_EINSUMS=2, M=64, KN=64)
    >>> print(f"{map(spec, 'energy').best('energy').energy:.4g} J")
    4.459e-06 J
    """
    names = tuple(objective.split(",")) if isinstance(objective, str) else tuple(objective)
    return run(spec, Options(objective=names, **options), progress, executor)  # type: ignore[arg-type]


@collector_paused()
def run(
    spec: Spec,
    options: Options,
    progress: Progress | None = None,
    executor: concurrent.futures.Executor | None = None,
) -> Result:
    """Map with checked options. Ctrl-C ends the search with what it has found, or with an exception if that is nothing."""
    with interrupt.deferred():
        try:
            result = _Run(spec, options, progress or (lambda step: None), executor).run()
        except MemoryError:
            raise OutOfMemory(
                "out of memory before a mapping was known; --jobs 1, --orders given or a limit of --max-fused-loops takes less"
            ) from None
        if interrupt.taken():
            result.stopped = "interrupt"
    return result


@dataclass
class _Candidate:
    energy: float
    latency: float
    usage: float
    states: dict[frozenset[str], State]
    row: int


@dataclass
class _Run:
    spec: Spec
    options: Options
    say: Progress
    executor: concurrent.futures.Executor | None
    stats: Stats = field(default_factory=Stats)
    found: list[_Candidate] = field(default_factory=list)
    watched: int | None = None
    """The memory whose usage is an objective, too."""
    cut_nothing: bool = False
    """Whether the last pass kept all that could matter in the orders it looked at."""

    def run(self) -> Result:
        begin, cpu = time.perf_counter(), cpu_seconds()
        self.deadline = begin + self.options.time_limit if self.options.time_limit is not None else None
        if self.options.usage is not None:
            check_usage(self.spec, self.options.usage)
        tables = explore_all(self.spec, self.options, self.executor, self.say)
        self.stats.exploring_seconds = time.perf_counter() - begin
        self.stats.pmappings = {name: len(table) for name, table in tables.items()}
        self.stats.explored = {name: table.explored for name, table in tables.items()}
        self.stats.groups = {name: len(table.groups) for name, table in tables.items()}
        joiner = Joiner(self.spec, tables, self._all_orders(), self.options.objective, self.options.finished)
        joiner.grouping, joiner.consolidation = self.options.grouping, self.options.consolidation
        if self.options.usage is not None:
            self.watched = joiner.watch(self.options.usage)
        self.incumbents = self._no_incumbents(joiner)
        optimal, gap, stopped = self._search(joiner)
        if not self.found:
            raise why_not_joined(joiner)
        with interrupt.finishing():
            mappings = self._mappings(joiner)
        self.stats.wall_seconds = time.perf_counter() - begin
        self.stats.cpu_seconds = cpu_seconds() - cpu
        self.stats.peak_rss_bytes = peak_rss_bytes()
        return Result(self.spec, self.options.objective, mappings, optimal, gap, self.stats, stopped, self.options)

    def _no_incumbents(self, joiner: Joiner) -> Incumbents:
        return Incumbents(self.options.objective, weights=joiner.weights, watched=self.watched)

    def _all_orders(self) -> bool:
        """All orders, unless the workload has too many sets of finished Einsums."""
        if self.options.orders == "all" and count_down_sets(self.spec, MOST_DOWN_SETS) > MOST_DOWN_SETS:
            self.stats.orders = f"given (more than {MOST_DOWN_SETS:,} sets of finished Einsums)"
            return False
        self.stats.orders = self.options.orders
        return self.options.orders == "all"

    def _search(self, joiner: Joiner) -> tuple[bool, float, Stop | None]:
        """A coarse pass for good mappings, finer while it finds none; then the exact pass, which they bound."""
        try:
            coarse = FIRST_PASS if self.options.coarse else None
            while coarse is not None and not self.found and not self.cut_nothing:
                self._pass(joiner, coarse)
                coarse = coarse.finer()
            if not joiner.exact:
                joiner.restart()
                self._bound(joiner)
                self._pass(joiner, None)
            return *self._proven(joiner), None
        except (OutOfTime, KeyboardInterrupt, MemoryError) as error:
            if not self.found:
                raise
            stopped = _STOPS.get(type(error), "memory")
        # The exception is gone here, and with it all that the search had in hand: there is memory again.
        try:
            optimal, gap = _judged(self._gap(joiner))
            return optimal, gap, stopped if stopped == "interrupt" or not optimal else None
        except MemoryError:
            return False, 1.0, stopped

    def _proven(self, joiner: Joiner) -> tuple[bool, float]:
        """Whether nothing better is left, and the gap. If there were too many orders, their bound has to say so."""
        if self.options.orders == self.stats.orders or not self.found:
            return True, 0.0
        if isinstance(joiner.bounds, WindowedBounds):
            joiner.bounds = joiner.bounds.whole
        joiner.restart()
        return _judged(self._gap(joiner))

    def _bound(self, joiner: Joiner) -> None:
        """Better bounds for a long workload, cut where the best mapping known is not fused."""
        if not self.options.bounds or not self.found or len(joiner.order) < WORTHWHILE_EINSUMS or self.options.usage:
            return
        self.say(Step("bounding stretches of Einsums"))
        scores = self.incumbents.score(
            np.array([c.energy for c in self.found]), np.array([c.latency for c in self.found])
        )
        best = self.found[int(np.argmin(scores))]
        joiner.restart()
        if self.options.objective == ("edp",) and best.energy > 0 and best.latency > 0:
            joiner.bounds = joiner.bound((1 / best.energy, 1 / best.latency))
            self.incumbents.weights = joiner.weights
        joins = picks(joiner, best.states, best.row)
        unfused = {state.done for state, form, *_ in joins if not state.forms[form].zones}
        windowed_bounds(joiner, self.options.objective, unfused, self._check)

    def _pass(self, joiner: Joiner, coarse: Coarse | None) -> None:
        name = "joining" if coarse is None else "first pass"
        incumbents = self.incumbents if self.options.bounds else self._no_incumbents(joiner)

        def report(step: FunnelStep) -> None:
            self.stats.funnel.append(step)
            self.stats.most_survivors = max(self.stats.most_survivors, step.kept)
            left = f"{step.kept:,} partial mappings" if step.kept or not self.found else "nothing better is left"
            self.say(Step(name, left, step.finished, len(joiner.order)))

        self.stats.funnel.clear()
        states = self._run_pass(joiner, incumbents, coarse, report)
        if coarse is None or joiner.exact:
            self.stats.joined = [step.kept for step in self.stats.funnel]
        state = states.get(frozenset(joiner.order))
        if state is None or not len(state):
            return
        rows = state.rows[0]
        usage = np.zeros(len(rows)) if self.watched is None else rows.usage()[:, self.watched]
        for row in pareto_rows(np.zeros(len(rows), np.int64), np.column_stack([rows.energy, rows.latency, usage])):
            candidate = _Candidate(
                float(rows.energy[row]), float(rows.latency[row]), float(usage[row]), states, int(row)
            )
            self.found.append(candidate)
            self.incumbents.add(candidate.energy, candidate.latency, candidate.usage)

    def _run_pass(
        self, joiner: Joiner, incumbents: Incumbents, coarse: Coarse | None, report: Callable[[FunnelStep], None]
    ) -> dict[frozenset[str], State]:
        """The coarse pass takes the listed order: good enough for mappings to beat, and far fewer joins."""
        everything = joiner.all_orders
        joiner.all_orders = everything and coarse is None
        try:
            return joiner.run(incumbents, coarse, report, self._check)
        finally:
            joiner.all_orders = everything
            self.cut_nothing = joiner.exact
            joiner.exact = joiner.exact and (coarse is None or not everything)

    def _check(self) -> None:
        interrupt.check()
        if self.deadline is not None and self.found and time.perf_counter() > self.deadline:
            raise OutOfTime

    def _gap(self, joiner: Joiner) -> float:
        """How much better, relatively, a mapping could be than known ones.

        With g as the gap, for every mapping there is a known one of which 1 - g times every cost is not more.
        """
        known = self._compared(
            np.array([c.energy for c in self.found]), np.array([c.latency for c in self.found]),
            np.array([c.usage for c in self.found]),
        )  # fmt: skip
        worst = 1.0
        for rows, least in joiner.frontier_bounds():
            usage = np.zeros(len(rows)) if self.watched is None else rows.usage()[:, self.watched]
            bounds = self._compared(rows.energy, rows.latency, usage, least)
            bounds = bounds[pareto_rows(np.zeros(len(bounds), np.int64), bounds)]
            for bound in bounds:
                worst = max(worst, float(_ratio(known, bound).max(axis=1).min()))
        return 1 - 1 / worst

    def _compared(self, energy: Floats, latency: Floats, usage: Floats, more: Least = NOTHING) -> Floats:
        """Costs that mappings are compared by, one per column; `more` is what they still need at least."""
        if len(self.options.objective) > 1:
            columns = [energy + more.energy, latency + more.latency]
        else:
            columns = [self.incumbents.least_score(energy, latency, more)]
        return np.column_stack(columns if self.watched is None else [*columns, usage])

    def _mappings(self, joiner: Joiner) -> list[Mapping]:
        """The best candidates as LoopTrees, each evaluated by the model, which must agree."""
        energy = np.array([c.energy for c in self.found])
        latency = np.array([c.latency for c in self.found])
        usage = np.array([c.usage for c in self.found])
        if len(self.options.objective) > 1:
            chosen = pareto_rows(np.zeros(len(energy), np.int64), np.column_stack([energy, latency, usage]))
        elif self.watched is not None:
            chosen = _least_by_usage(self.incumbents.score(energy, latency), usage)
        else:
            score = self.incumbents.score(energy, latency)
            close = np.flatnonzero(score <= score.min() * (1 + CLOSE))
            other = latency if self.options.objective == ("energy",) else energy
            chosen = close[np.lexsort((score[close], other[close]))][:1]
        mappings = []
        for i in chosen:
            order, tree = trace(joiner, self.found[i].states, self.found[i].row)
            costs = float(energy[i]), float(latency[i])
            mappings.append(checked_mapping(self.spec, order, tree, *costs, self.options.finished))
        return sorted(mappings, key=lambda m: (m.energy, m.latency))


def _judged(gap: float) -> tuple[bool, float]:
    """Whether a gap proves the optimum, and what is left of it: costs that are so close are the same."""
    return (True, 0.0) if gap <= CLOSE else (False, gap)


def _ratio(known: Floats, least: Floats) -> Floats:
    """How many times the least costs known ones are; what is free is no more than anything."""
    return np.where(known <= least, 1.0, known / np.where(least > 0, least, 1e-300))


def _least_by_usage(score: Floats, usage: Floats) -> Ints:
    """Mappings from the best down, each with less usage than all before it."""
    order = np.lexsort((usage, score))
    least = np.minimum.accumulate(usage[order])
    chosen: Ints = order[np.r_[True, least[1:] < least[:-1] * (1 - 1e-12)]]
    return chosen


def checked_mapping(
    spec: Spec, order: tuple[str, ...], tree: LoopTree, energy: float, latency: float, finished: bool = True
) -> Mapping:
    """A mapping that was found at this cost, evaluated by the model, which must agree.

    `finished`: it must use only tensors that are finished.
    """
    try:
        cost = evaluate(spec, tree)
    except FusiestError as error:
        raise FusiestError(f"internal error: the model rejects a mapping that was found: {error}") from error
    if finished and cost.warnings:
        raise FusiestError(f"internal error: a mapping was found that the model warns of: {cost.warnings[0]}")
    if not np.allclose([cost.energy, cost.latency], [energy, latency], rtol=1e-9, atol=0):
        raise FusiestError(
            f"internal error: a mapping was found at {energy} J, {latency} s, but the model says "
            f"{cost.energy} J, {cost.latency} s"
        )
    return Mapping(tree, order, cost)


def check_usage(spec: Spec, memory: str) -> None:
    known = shared_memories(spec)
    if memory not in known:
        raise SpecError(
            f"the usage of {memory} cannot be an objective: it is below a fanout, unlimited, or no memory"
            f"{did_you_mean(memory, known)}"
        )
    if memory in large_enough(spec):
        raise SpecError(f"the usage of {memory} cannot be an objective: it is unlimited for some Einsums")


def count_down_sets(spec: Spec, most: int) -> int:
    """How many sets of Einsums can be finished at some moment; counting stops above `most`."""
    needs = {name: spec.info.needs(name) for name in spec.info.einsums}
    level = {frozenset[str]()}
    count = 1
    while level and count <= most:
        level = {done | {e} for done in level for e in needs if e not in done and needs[e] <= done}
        count += len(level)
    return count


def cpu_seconds() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def peak_rss_bytes() -> int:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return max(own.ru_maxrss, children.ru_maxrss) * 1024


__all__ = ["NoMapping", "Options", "map"]
