"""One case in this process: `python -m bench.run NAME` prints what was measured as one line of JSON.

Nothing heavy is imported before the clock of the process starts; the search's own clock starts after the imports.
"""

from __future__ import annotations

import json
import resource
import sys
import time

from bench.cases import Case, find


def measure(case: Case) -> dict[str, object]:
    """Run a case; seconds count from when the spec is loaded and everything is imported."""
    import fusiest

    spec = fusiest.load(*case.files, defines=case.defines)
    search = fusiest.pmappings if case.einsums else fusiest.map
    wall, cpu = time.perf_counter(), _cpu_seconds()
    if case.einsums:
        tables = {name: search(spec, name) for name in case.einsums}
        found: dict[str, object] = {
            "pmappings": {name: len(table) for name, table in tables.items()},
            "explored": {name: table.explored for name, table in tables.items()},
        }
    else:
        result = search(spec, case.objective, orders=case.orders)
        found = {
            "pmappings": result.stats.pmappings,
            "explored": result.stats.explored,
            "optimal": result.optimal,
            "front": [[m.energy, m.latency] for m in result.mappings],
        }
    return {
        "search_seconds": time.perf_counter() - wall,
        "cpu_seconds": _cpu_seconds() - cpu,
        "peak_rss_bytes": _peak_rss_bytes(),
        **found,
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
