"""Exploration of the Einsums of a workload: identical ones once, the others in parallel processes."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from fusiest.base import interrupt, workers
from fusiest.base.frozen import FrozenDict
from fusiest.base.interrupt import OutOfTime
from fusiest.joining import JoinProblem, Switches, join_problem
from fusiest.mapper.options import Options
from fusiest.mapper.progress import Progress, Step
from fusiest.mapper.resources import rss_bytes
from fusiest.mapper.results.result import Stop
from fusiest.pmapping import (
    EXACT,
    Cutoff,
    Effort,
    FusedLimits,
    Question,
    RowLimitReached,
    Table,
    common_key,
    explore,
    renamed_table,
    weight,
    why_none,
)
from fusiest.spec import Spec

_WORTH_A_PROCESS_SECONDS = 0.1
"""Seconds of exploring here, the easiest Einsums first, before processes are started: starting them takes about as
long."""
_WORTH_A_PROCESS_EINSUMS = 8
"""Einsums per process for which a quick look starts processes, if time is limited."""

Tables: TypeAlias = Generator[tuple[str, Table | None], None, None]
"""Pairs of Einsum and table; None: the search for the Einsum had too many rows."""


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
        memory = (self.options.most_memory - rss_bytes()) / self.options.processes
        work = _Exploring(self.spec, question, effort, cutoffs, memory)
        stopped: Stop
        try:
            with (
                interrupt.limited(deadline, self.options.most_memory, rss_bytes),
                contextlib.closing(self._tables(work, self.missing(tables), tables, deadline is not None)) as explored,
            ):
                for name, table in explored:
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

    def named(self, tables: Mapping[str, Table]) -> dict[str, Table]:
        """The table of every Einsum."""
        named = {}
        for name, first in self.representative.items():
            interrupt.check()
            named[name] = tables[first] if first == name else renamed_table(self.spec, tables[first], name)
        return named

    def _tables(self, work: _Exploring, names: list[str], tables: Mapping[str, Table], limited: bool) -> Tables:
        """Tables as they are done. With a time limit all come from processes, which can be ended within compiled code."""
        processes = self.options.processes

        def begin(name: str) -> None:
            self.say(self.step(name, tables))

        has_many = self.options.time_limit is not None and len(names) > _WORTH_A_PROCESS_EINSUMS * processes
        at_once = limited or (has_many and processes > 1)
        hardest_first = sorted(names, key=lambda name: -weight(self.spec, name))
        return _explore(work, hardest_first, processes, self.executor, begin, at_once)


def grouped(spec: Spec, options: Options, tables: Mapping[str, Table]) -> JoinProblem:
    """The tables of all Einsums, ready to be joined."""
    problem = join_problem(spec, tables, options.finished, Switches(options.grouping, options.consolidation))
    return problem.watching(options.usage) if options.usage is not None else problem


@dataclass(frozen=True)
class _Exploring:
    """The exploration of one Einsum, here or in a worker. None: its search has too many rows."""

    spec: Spec
    question: Question
    effort: Effort
    cutoffs: Mapping[str, Cutoff]
    memory: float
    """Bytes that a worker may use for itself. A process that hands out work has its own limits."""

    def __call__(self, einsum: str) -> Table | None:
        effort = replace(self.effort, cutoff=self.cutoffs.get(einsum))
        try:
            with interrupt.limited(None, self.memory, rss_bytes) if interrupt.is_worker() else contextlib.nullcontext():
                return explore(self.spec, einsum, self.question, effort)
        except RowLimitReached:
            return None


def _explore(
    explore: Callable[[str], Table | None],
    names: list[str],
    processes: int,
    executor: concurrent.futures.Executor | None,
    begin: Callable[[str], None] = lambda name: None,
    at_once: bool = False,
) -> Tables:
    """Explore here, the last Einsum first, as long as that is quicker than to start processes.

    Then, or `at_once`, explore in processes, the first Einsum first.
    """
    if executor is not None:
        yield from _submit(executor, explore, names)
        return
    start = time.perf_counter()
    names = list(names)
    while names:
        worth = processes > 1 and len(names) > 1 and time.perf_counter() - start > _WORTH_A_PROCESS_SECONDS
        if at_once or worth:
            yield from _in_processes(workers.make_pool(min(processes, len(names)), explore), explore, names)
            return
        name = names.pop()
        begin(name)
        yield name, explore(name)


def _in_processes(
    pool: concurrent.futures.ProcessPoolExecutor, explore: Callable[[str], Table | None], names: list[str]
) -> Tables:
    """Explore in processes. If memory runs out, or a worker is killed, the missing Einsums are explored here.

    An interrupt ends all.
    """
    missing = dict.fromkeys(names)
    try:
        with interrupt.deferred():  # workers are started here, and must not begin with an exception
            futures: dict[concurrent.futures.Future[Table | None], str]
            futures = {pool.submit(workers.work_on, name): name for name in names}
        for name, future in workers.in_order_of_completion(futures):
            table = future.result()
            del missing[name]
            yield name, table
    except (BrokenProcessPool, MemoryError, OSError):
        workers.end(pool)
        for name in list(missing):
            yield name, explore(name)
            del missing[name]
    finally:
        if missing:  # futures are left alone: a pool whose workers are killed must find none that is cancelled
            workers.end(pool)
        else:
            pool.shutdown()


def _submit(executor: concurrent.futures.Executor, explore: Callable[[str], Table | None], names: list[str]) -> Tables:
    """Explore on a given executor. If we are stopped, tasks that have not begun are cancelled."""
    with interrupt.deferred():  # workers are started here, and must not begin with an exception
        futures = {executor.submit(explore, name): name for name in names}
    try:
        for name, future in workers.in_order_of_completion(futures):
            yield name, future.result()
    finally:
        for future in futures:
            future.cancel()
