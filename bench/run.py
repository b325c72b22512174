"""One case in this process: `python -m bench.run NAME` prints what was measured as one line of JSON.

Nothing heavy is imported before the clock of the process starts; the search's own clock starts after the imports.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import TYPE_CHECKING

from bench.cases import BenchCase, find

if TYPE_CHECKING:
    import fusiest


def measure(case: BenchCase) -> dict[str, object]:
    """Run a case; seconds count from when the spec is loaded and everything is imported."""
    import fusiest
    import fusiest.mapper.mapper

    spec = fusiest.load(*case.files, defines=case.defines)
    wall, cpu = time.perf_counter(), _cpu_seconds()
    found = explore(case, spec) if case.einsums else map_workload(case, spec)
    return {
        "search_seconds": time.perf_counter() - wall,
        "cpu_seconds": _cpu_seconds() - cpu,
        "peak_rss_bytes": _peak_rss_bytes(),
        **found,
    }


def explore(case: BenchCase, spec: fusiest.Spec) -> dict[str, object]:
    """Phase 1 alone, one Einsum after the other."""
    import fusiest

    tables = {name: fusiest.pmappings(spec, name) for name in case.einsums}
    return {
        "pmappings": {name: len(table) for name, table in tables.items()},
        "explored": {name: table.explored for name, table in tables.items()},
    }


def map_workload(case: BenchCase, spec: fusiest.Spec) -> dict[str, object]:
    import fusiest

    result = fusiest.map(spec, case.objective, orders=case.orders, imperfect=case.imperfect)
    return {
        "pmappings": result.stats.pmappings,
        "explored": result.stats.explored,
        "optimal": result.optimal,
        "front": [[m.energy, m.latency] for m in result.mappings],
    }


def _cpu_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _peak_rss_bytes() -> int:
    """Of the largest process: this one, or one that it started."""
    whos = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    unit = 1 if sys.platform == "darwin" else 1024
    return max(resource.getrusage(who).ru_maxrss for who in whos) * unit


if __name__ == "__main__":
    print(json.dumps(measure(find(sys.argv[1]))))
