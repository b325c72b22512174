"""`python -m bench`: run the cases, write bench/results/<date>.json, bring the README's table up to date.

A day's results of another machine or version stay: new ones go to <date>-2.json and so on. The table is of all cases or
is left alone.

Each case is run twice in fresh processes that share a cache of compiled code: once to warm it, once to be measured.
A cold case starts with an empty cache and is run once. Nothing is written outside the results and the README.

`python -m bench sweep` is of sweeps, `python -m bench limits` of time limits, `python -m bench cnns` of random CNNs,
`python -m bench chips` of random chips: see bench/sweep.py, bench/limits.py, bench/cnns.py, bench/chips.py.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.cases import CASES, BenchCase, find
from bench.machine import machine, versions
from bench.table import update
from fusiest.base.files import write_atomically

ROOT = Path(__file__).parents[1]


def run_case(case: BenchCase, warm_cache: str) -> dict[str, Any]:
    """What one case took, measured from outside and from inside."""
    if case.cold:
        with tempfile.TemporaryDirectory() as empty:
            record = _run(case, empty)
    else:
        _run(case, warm_cache)
        record = _run(case, warm_cache)
    defines = dict(case.defines)
    return {"command": case.command, "defines": defines, "cache": "cold" if case.cold else "warm", **record}


def _run(case: BenchCase, cache: str) -> dict[str, Any]:
    paths = [str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPATH": os.pathsep.join(paths)}
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "bench.run", case.name], env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    seconds = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(f"bench: case {case.name} failed")
    return {"process_seconds": seconds, **json.loads(done.stdout)}


def load_results(folder: Path, fresh: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """The day's results so far, if there are some of the same machine and versions; else new ones, and their file."""
    for number in itertools.count(1):
        file = folder / f"{fresh['date']}{f'-{number}' if number > 1 else ''}.json"
        if not file.exists():
            break
        earlier: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if all(earlier[key] == fresh[key] for key in ("machine", "versions")):
            return file, earlier
    return file, fresh


def main() -> None:
    if sys.argv[1:2] == ["sweep"]:
        from bench import sweep

        sweep.main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["limits"]:
        from bench import limits

        limits.main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["chips"]:
        from bench import chips

        chips.main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["cnns"]:
        from bench import cnns

        cnns.main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure how long searches take.")
    parser.add_argument("--only", action="append", metavar="NAME", help="run this case alone; may be repeated")
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results", help="folder for the results")
    parser.add_argument("--no-readme", action="store_true", help="leave the README as it is")
    options = parser.parse_args()
    if options.list:
        for case in CASES:
            print(f"{case.name:24} {case.chip:12} {case.about}")
        return
    chosen = [find(name) for name in options.only] if options.only else list(CASES)
    date = datetime.date.today().isoformat()
    fresh: dict[str, Any] = {"date": date, "machine": machine(), "versions": versions(), "cases": {}}
    file, results = load_results(options.results, fresh)
    options.results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as warm_cache:
        for case in chosen:
            record = run_case(case, warm_cache)
            results["cases"][case.name] = record
            write_atomically(file, json.dumps(results, indent=1) + "\n")
            print(
                f"{case.name:24} {record['search_seconds']:8.2f} s search {record['process_seconds']:8.2f} s process "
                f"{record['cpu_seconds']:8.2f} s CPU {record['peak_rss_bytes'] / 2**20:7.0f} MiB "
                f"{sum(record['pmappings'].values()):9,} pmappings",
                flush=True,
            )
    missing = [case.name for case in CASES if case.name not in results["cases"]]
    if missing:
        print(f"the README stays as it is: not measured yet: {', '.join(missing)}", file=sys.stderr)
    elif not options.no_readme:
        update(ROOT / "README.md", results)


if __name__ == "__main__":
    main()
