"""Exploring all Einsums of a workload: identical ones once, the others in parallel processes."""

from __future__ import annotations

import concurrent.futures
import functools
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator

from fusiest.pmapping.diagnose import why_none
from fusiest.pmapping.explore import pmappings
from fusiest.pmapping.identical import common_key, renamed_table
from fusiest.pmapping.table import Table
from fusiest.spec.spec import Spec

_WORTH_A_PROCESS_SECONDS = 0.4


def explore_all(
    spec: Spec,
    max_fused_loops: int | None,
    imperfect: bool,
    jobs: int | None,
    executor: concurrent.futures.Executor | None,
    report: Callable[[str, Table, int, int], None],
) -> dict[str, Table]:
    """The table of every Einsum, by name in listed order. `report` hears of each: how many are done, of how many."""
    first_of: dict[object, str] = {}
    representative = {name: first_of.setdefault(common_key(spec, name), name) for name in spec.info.einsums}
    found: dict[str, Table] = {}
    for name, table in _explore(spec, list(first_of.values()), max_fused_loops, imperfect, jobs, executor):
        if not len(table):
            raise why_none(spec, name)
        found[name] = table
        report(name, table, len(found), len(first_of))
    return {
        name: found[first] if first == name else renamed_table(spec, found[first], name)
        for name, first in representative.items()
    }


def _explore(
    spec: Spec,
    names: list[str],
    max_fused_loops: int | None,
    imperfect: bool,
    jobs: int | None,
    executor: concurrent.futures.Executor | None,
) -> Iterator[tuple[str, Table]]:
    if executor is not None:
        yield from _submit(executor, spec, names, max_fused_loops, imperfect)
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
                yield from _submit(pool, spec, names, max_fused_loops, imperfect)
            return
        name = names.pop(0)
        yield name, pmappings(spec, name, max_fused_loops=max_fused_loops, imperfect=imperfect)


def _submit(
    executor: concurrent.futures.Executor, spec: Spec, names: list[str], max_fused_loops: int | None, imperfect: bool
) -> Iterator[tuple[str, Table]]:
    explore = functools.partial(pmappings, spec, max_fused_loops=max_fused_loops, imperfect=imperfect)
    futures = {executor.submit(explore, name): name for name in names}
    for future in concurrent.futures.as_completed(futures):
        yield futures[future], future.result()
