"""Exploring all Einsums of a workload: identical ones once, the others in parallel processes."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import os
import time
from collections.abc import Callable, Generator
from concurrent.futures.process import BrokenProcessPool
from typing import TypeAlias

from fusiest import interrupt, workers
from fusiest.mapper.options import Options
from fusiest.mapper.progress import Progress, Step
from fusiest.pmapping.diagnose import why_none
from fusiest.pmapping.explore import Asked, explore
from fusiest.pmapping.identical import common_key, renamed_table
from fusiest.pmapping.table import FusedLimits, Table
from fusiest.spec.spec import Spec

_WORTH_A_PROCESS_SECONDS = 0.4

Tables: TypeAlias = Generator[tuple[str, Table], None, None]


def explore_all(
    spec: Spec,
    options: Options,
    executor: concurrent.futures.Executor | None,
    say: Progress,
    counted: bool = False,
) -> dict[str, Table]:
    """The table of every Einsum, by name in listed order. `counted`: tables say how many candidates each group had."""
    representative = _representatives(spec, options, say)
    distinct = list(dict.fromkeys(representative.values()))
    found: dict[str, Table] = {}
    limits = FusedLimits(options.max_fused_loops, options.max_fused_loops_per_variable)
    asked = Asked(limits, options.imperfect, options.usage is not None, options.finished, counted)
    explored = functools.partial(_explored, spec, asked)

    def begin(name: str) -> None:
        say(Step("exploring", name, len(found), len(distinct)))

    with contextlib.closing(_explore(explored, distinct, options.jobs, executor, begin)) as exploring:
        for name, table in exploring:
            if not len(table):
                raise why_none(spec, name, asked)
            found[name] = table
            words = f"{name} has {len(table):,} pmappings in {len(table.groups):,} forms"
            say(Step("exploring", words, len(found), len(distinct)))
    return {
        name: found[first] if first == name else renamed_table(spec, found[first], name)
        for name, first in representative.items()
    }


def _explored(spec: Spec, asked: Asked, einsum: str) -> Table:
    return explore(spec, einsum, asked)


def _representatives(spec: Spec, options: Options, say: Progress) -> dict[str, str]:
    """For each Einsum, the first one that differs from it only by names."""
    first_of: dict[object, str] = {}
    found: dict[str, str] = {}
    for count, name in enumerate(spec.info.einsums):
        interrupt.check()
        say(Step("preparing", name, count, len(spec.info.einsums)))
        found[name] = first_of.setdefault(common_key(spec, name, options.finished), name)
    return found


def _explore(
    explore: Callable[[str], Table],
    names: list[str],
    jobs: int | None,
    executor: concurrent.futures.Executor | None,
    begin: Callable[[str], None] = lambda name: None,
) -> Tables:
    if executor is not None:
        yield from _submit(executor, explore, names)
        return
    processes = jobs if jobs is not None else os.cpu_count() or 1
    start = time.perf_counter()
    names = list(names)
    while names:
        worth = time.perf_counter() - start > _WORTH_A_PROCESS_SECONDS
        if processes > 1 and len(names) > 1 and worth:
            yield from _in_processes(workers.make_pool(min(processes, len(names))), explore, names)
            return
        name = names.pop(0)
        begin(name)
        yield name, explore(name)


def _in_processes(
    pool: concurrent.futures.ProcessPoolExecutor, explore: Callable[[str], Table], names: list[str]
) -> Tables:
    """If memory runs out, or a worker is killed, what is missing is explored here. If we are interrupted, all end."""
    missing = dict.fromkeys(names)
    try:
        for name, table in _submit(pool, explore, names):
            del missing[name]
            yield name, table
    except (BrokenProcessPool, MemoryError, OSError):
        workers.end(pool)
        for name in missing:
            yield name, explore(name)
    finally:
        if missing:
            workers.end(pool)
        else:
            pool.shutdown()


def _submit(executor: concurrent.futures.Executor, explore: Callable[[str], Table], names: list[str]) -> Tables:
    with interrupt.deferred():  # workers are started here, and must not begin with an exception
        futures = {executor.submit(explore, name): name for name in names}
    try:
        for name, future in workers.in_order_of_completion(futures):
            yield name, future.result()
    finally:
        for future in futures:
            future.cancel()
