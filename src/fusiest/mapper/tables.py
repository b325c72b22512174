"""Exploring all Einsums of a workload: identical ones once, the others in parallel processes."""

from __future__ import annotations

import concurrent.futures
import functools
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator

from fusiest.mapper.options import Options
from fusiest.pmapping.diagnose import why_none
from fusiest.pmapping.explore import pmappings
from fusiest.pmapping.identical import common_key, renamed_table
from fusiest.pmapping.table import Table
from fusiest.spec.spec import Spec

_WORTH_A_PROCESS_SECONDS = 0.4


def explore_all(
    spec: Spec,
    options: Options,
    executor: concurrent.futures.Executor | None,
    report: Callable[[str, Table, int, int], None],
    counted: bool = False,
) -> dict[str, Table]:
    """The table of every Einsum, by name in listed order. `report` hears of each: how many are done, of how many.

    `counted`: tables say how many candidates each group had.
    """
    first_of: dict[object, str] = {}
    representative = {
        name: first_of.setdefault(common_key(spec, name, options.finished), name) for name in spec.info.einsums
    }
    found: dict[str, Table] = {}
    explore = functools.partial(
        pmappings,
        spec,
        max_fused_loops=options.max_fused_loops,
        max_fused_loops_per_variable=options.max_fused_loops_per_variable,
        imperfect=options.imperfect,
        usage=options.usage is not None,
        counted=counted,
        finished=options.finished,
    )
    for name, table in _explore(explore, list(first_of.values()), options.jobs, executor):
        if not len(table):
            raise why_none(spec, name, options.imperfect)
        found[name] = table
        report(name, table, len(found), len(first_of))
    return {
        name: found[first] if first == name else renamed_table(spec, found[first], name)
        for name, first in representative.items()
    }


def _explore(
    explore: Callable[[str], Table], names: list[str], jobs: int | None, executor: concurrent.futures.Executor | None
) -> Iterator[tuple[str, Table]]:
    if executor is not None:
        yield from _submit(executor, explore, names)
        return
    workers = jobs if jobs is not None else os.cpu_count() or 1
    begin = time.perf_counter()
    names = list(names)
    while names:
        worth = time.perf_counter() - begin > _WORTH_A_PROCESS_SECONDS
        if workers > 1 and len(names) > 1 and worth:
            methods = multiprocessing.get_all_start_methods()
            context = multiprocessing.get_context("fork" if "fork" in methods else None)
            with concurrent.futures.ProcessPoolExecutor(min(workers, len(names)), mp_context=context) as pool:
                yield from _submit(pool, explore, names)
            return
        name = names.pop(0)
        yield name, explore(name)


def _submit(
    executor: concurrent.futures.Executor, explore: Callable[[str], Table], names: list[str]
) -> Iterator[tuple[str, Table]]:
    futures = {executor.submit(explore, name): name for name in names}
    for future in concurrent.futures.as_completed(futures):
        yield futures[future], future.result()
