"""Exploration of the Einsums of a workload: identical ones once, the others in parallel processes."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from fusiest.base import interrupt
from fusiest.base.frozen import FrozenDict
from fusiest.base.interrupt import OutOfTime
from fusiest.joining import JoinProblem, Switches, join_problem
from fusiest.mapper.options import Options
from fusiest.mapper.progress import Progress, Step
from fusiest.mapper.resources import rss_bytes
from fusiest.mapper.results.result import Stop
from fusiest.mapper.workforce import Workforce
from fusiest.pmapping import (
    EXACT,
    Cutoff,
    Deepened,
    Effort,
    EinsumSearch,
    FusedLimits,
    Question,
    RowLimitReached,
    Rules,
    Sum,
    Table,
    common_key,
    deepened,
    renamed_table,
    weight,
    why_none,
    within,
)
from fusiest.spec import Spec

EASY_ROWS = 300_000
"""Rows of an exact search for an Einsum, about half a second of it, up to which whole tables are quicker than bounds."""
_WORTH_A_PROCESS_EINSUMS = 8
"""Einsums per process for which a quick look starts processes, if time is limited."""


def explore_all(spec: Spec, options: Options, say: Progress, counted: bool = False) -> dict[str, Table]:
    """Explore every Einsum.

    Tables come by name, in listed order; with `counted` they count the candidates of each group.
    """
    explorer = make_explorer(spec, options, None, say)
    return explorer.named(explorer.explore(question_of(options, counted)).complete())


def open_tables(spec: Spec, options: Options, rates: frozenset[str]) -> dict[str, Table]:
    """Explore distinct Einsums for all throughputs of some memories, where such tables exist.

    `with_rates` sets throughputs.
    """
    explorer = make_explorer(spec, options, None, lambda step: None)
    return explorer.explore(replace(question_of(options), rates=rates)).complete()


def question_of(options: Options, counted: bool = False) -> Question:
    """The question that options ask of the search for pmappings."""
    limits = FusedLimits(options.max_fused_loops, options.max_fused_loops_per_variable)
    return Question(limits, options.imperfect, options.usage is not None, options.finished, counted, needed=not counted)


def make_explorer(
    spec: Spec, options: Options, executor: concurrent.futures.Executor | None, say: Progress
) -> Explorer:
    """Make the explorer of a spec, which knows which Einsums differ only by names."""

    def watch(count: int, name: str) -> None:
        interrupt.check()
        say(Step("preparing", name, count, len(spec.info.einsums)))

    return Explorer(spec, options, executor, say, representatives(spec, options.finished, watch))


def representatives(
    spec: Spec, finished: bool, watch: Callable[[int, str], None] = lambda count, name: None
) -> dict[str, str]:
    """For each Einsum, the first one that differs from it only by names."""
    first_of: dict[object, str] = {}
    representative: dict[str, str] = {}
    for count, name in enumerate(spec.info.einsums):
        watch(count, name)
        representative[name] = first_of.setdefault(common_key(spec, name, finished), name)
    return representative


class Explored(NamedTuple):
    """Tables of distinct Einsums, and what ended their exploration early."""

    tables: dict[str, Table]
    """Known and explored tables."""
    stopped: Stop | None = None

    def complete(self, even_late: bool = False) -> dict[str, Table]:
        """The tables. If something ended the exploration early, that is raised again; `even_late`: unless it was a deadline."""
        if self.stopped is not None and not (even_late and self.stopped == "time limit"):
            raise {"time limit": OutOfTime, "memory": MemoryError, "interrupt": KeyboardInterrupt}[self.stopped]
        return self.tables


@dataclass(frozen=True)
class Explorer:
    """The exploration of a spec's Einsums."""

    spec: Spec
    options: Options
    executor: concurrent.futures.Executor | None
    say: Progress
    representative: Mapping[str, str]
    """For each Einsum, the first one that differs from it only by names."""

    @functools.cached_property
    def distinct(self) -> list[str]:
        """Einsums to explore."""
        return list(dict.fromkeys(self.representative.values()))

    def missing(self, tables: Mapping[str, Table]) -> list[str]:
        """Distinct Einsums without a table. `tables` may hold tables of other Einsums, too."""
        return [name for name in self.distinct if name not in tables]

    def step(self, words: str, tables: Mapping[str, Table]) -> Step:
        """A step of progress: how many of the distinct Einsums have a table."""
        return Step("exploring", words, len(self.distinct) - len(self.missing(tables)), len(self.distinct))

    def explore(
        self,
        question: Question,
        effort: Effort = EXACT,
        known: Mapping[str, Table] = FrozenDict(),
        deadline: float | None = None,
        cutoffs: Mapping[str, Cutoff] | None = None,
    ) -> Explored:
        """Known tables, and those of distinct Einsums that were missing. If something ends this early, the tables found by then.

        An Einsum without pmappings is an error, unless this is only a quick look, or it has a cutoff. An Einsum whose
        search has too many rows is left out.
        """
        cutoffs, tables = cutoffs or {}, dict(known)
        names = self.hardest_first(self.missing(tables))
        tasks = [TableTask(name, question, replace(effort, cutoff=cutoffs.get(name, effort.cutoff))) for name in names]
        stopped: Stop
        try:
            with (
                interrupt.limited(deadline, self.options.most_memory, rss_bytes),
                self.force(self._at_once(deadline, tasks)) as force,
                contextlib.closing(force.each(tasks)) as explored,
            ):
                for task, table in explored:
                    name = task.einsum
                    assert table is None or isinstance(table, Table)
                    if table is None:
                        continue
                    if not len(table):
                        if effort.beam is None and name not in cutoffs:
                            raise why_none(self.spec, name, question)
                        continue
                    tables[name] = table
                    words = f"{name} has {len(table):,} pmappings in {len(table.groups):,} compatibilities"
                    self.say(self.step(words, tables))
                return Explored(tables)
        except OutOfTime:
            stopped = "time limit"
        except MemoryError:
            stopped = "memory"
        except KeyboardInterrupt:
            stopped = "interrupt"
        return Explored(tables, stopped)

    def easy(self, question: Question, known: Mapping[str, Table]) -> dict[str, Table] | None:
        """The tables of all Einsums, if none takes long or is empty: the one that is likely the hardest comes first."""
        tables, tasks = (
            dict(known),
            [
                TableTask(name, question, Effort(row_limit=EASY_ROWS))
                for name in self.hardest_first(self.missing(known))
            ],
        )
        with self.force() as force:
            for some in (tasks[:1], tasks[1:]):
                for task, table in force.each(some):
                    if not isinstance(table, Table) or not len(table):
                        force.end()
                        return None
                    tables[task.einsum] = table
                    self.say(self.step(f"{task.einsum} has {len(table):,} pmappings", tables))
        return tables

    def _at_once(self, deadline: float | None, tasks: Sequence[TableTask]) -> bool:
        """Whether all tables come from processes, which can be ended within compiled code."""
        many = len(tasks) > _WORTH_A_PROCESS_EINSUMS * self.options.processes
        return deadline is not None or (self.options.time_limit is not None and many)

    def named(self, tables: Mapping[str, Table]) -> dict[str, Table]:
        """The table of every Einsum."""
        named = {}
        for name, first in self.representative.items():
            interrupt.check()
            named[name] = tables[first] if first == name else renamed_table(self.spec, tables[first], name)
        return named

    def force(self, at_once: bool = False) -> Workforce[LeastTask | TableTask, Answer]:
        """Processes for tasks on this spec's Einsums."""
        work = Searches(self.spec, (self.options.most_memory - rss_bytes()) / self.options.processes)
        return Workforce(work, self.options.processes, self.executor, at_once)

    def hardest_first(self, names: Iterable[str]) -> list[str]:
        """Einsums by the effort that they are likely to take."""
        return sorted(names, key=lambda name: -weight(self.spec, name))


def grouped(spec: Spec, options: Options, tables: Mapping[str, Table]) -> JoinProblem:
    """The tables of all Einsums, ready to be joined."""
    problem = join_problem(spec, tables, options.finished, Switches(options.grouping, options.consolidation))
    return problem.watching(options.usage) if options.usage is not None else problem


@dataclass(frozen=True)
class TableTask:
    """A question about an Einsum's pmappings."""

    einsum: str
    question: Question
    effort: Effort = EXACT


@dataclass(frozen=True)
class LeastTask:
    """A question about an Einsum's least weighted sums."""

    einsum: str
    question: Question
    sums: tuple[Sum, ...]
    latency: float = math.inf
    """Pmappings must be faster."""


Answer: TypeAlias = "Table | Deepened | None"
"""What a task leads to. None: the search has too many rows."""


@dataclass
class Searches:
    """The searches for Einsums' pmappings, here or in a process."""

    spec: Spec
    memory: float
    """Bytes that a process may use. A process that hands out work has its own limits."""
    _known: dict[tuple[str, Question, Rules], EinsumSearch] = field(default_factory=dict)

    def __getstate__(self) -> tuple[Spec, float]:
        return self.spec, self.memory

    def __setstate__(self, state: tuple[Spec, float]) -> None:
        self.spec, self.memory = state
        self._known = {}

    def __call__(self, task: LeastTask | TableTask) -> Answer:
        try:
            with interrupt.limited(None, self.memory, rss_bytes) if interrupt.is_worker() else contextlib.nullcontext():
                return self._answer(task)
        except RowLimitReached:
            return None

    def _answer(self, task: LeastTask | TableTask) -> Answer:
        rules = EXACT.rules if isinstance(task, LeastTask) else task.effort.rules
        key = task.einsum, task.question, rules
        if key not in self._known:
            self._known[key] = EinsumSearch(self.spec, *key)
        search = self._known[key]
        try:
            if isinstance(task, LeastTask):
                return deepened(search, task.sums, task.latency)
            cutoff = task.effort.cutoff
            if cutoff is not None and len(cutoff.lines) and not search.has_lattices:
                return within(search.whole(), cutoff)
            return search.table(task.effort)
        finally:
            search.forget()
