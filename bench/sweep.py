"""`python -m bench sweep`: what sweeps save and what they cost, written to bench/results/sweep-<date>.json.

Processor time is compared, not time on the clock. Code is compiled before anything is measured. `--quick`: small sizes.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.machine import machine, versions
from fusiest.base.files import write_atomically
from fusiest.mapper import cpu_seconds
from fusiest.spec import Memory
from fusiest.sweeps.file.sweepfile import make_sweep
from fusiest.sweeps.runs.attempt import Outcome, SweepTask
from fusiest.sweeps.runs.children import Children
from fusiest.sweeps.runs.driver import Driver, run_all
from fusiest.sweeps.store.store import Store, packed
from fusiest.sweeps.views.answers import Counts, Reuse

ROOT = Path(__file__).parents[1]
NO_REUSE = Reuse(known=False, covered=False, tables=False, bounds=False)
NETWORKS = [{"file": "gpt3_6.7B", "defines": {"BATCH_SIZE": 1, "N_TOKENS": 4096}}, {"file": "resnet18"}]
SMALL = [{"file": "matmuls", "defines": {"N_EINSUMS": 2, "M": 64, "KN": 64}}]
DESIGNS = """
import sys
from fusiest.sweeps.file.designs import Designs
from fusiest.sweeps.file.sweepfile import make_sweep
n = int(sys.argv[1])
parameters = {"A": {"range": [1, n], "step": 1}, "B": {"expression": "A * 2"}}
made = make_sweep({"arch": "simple", "workloads": ["matmuls"], "parameters": parameters, "where": ["A > B - 2 * A"]})
found = sum(1 for _ in Designs(made))
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))  # getrusage has that of who started it
print(found, int(peak.split()[1]) * 1024)
"""


@dataclass(frozen=True)
class Scale:
    """How large the measurements are."""

    quick: bool

    @property
    def grid(self) -> dict[str, Any]:
        """48 sizes and bandwidths of an edge chip, on two networks."""
        sizes, rates = ([2, 5], [30]) if self.quick else ([0.5, 1, 2, 3, 4, 5], [15, 30, 45, 60, 75, 90, 105, 120])
        parameters = {"MIB": sizes, "GBPS": rates, "GlobalBuffer.size": {"expression": "MIB * 8 * 2**20"},
                      "MainMemory.read.throughput": {"expression": "GBPS * 8e9"},
                      "MainMemory.write.throughput": {"expression": "GBPS * 8e9"}}  # fmt: skip
        arch, workloads = ("simple", SMALL) if self.quick else ("edge_transformer", NETWORKS)
        return {"arch": arch, "workloads": workloads, "parameters": parameters, "objective": "edp"}

    @property
    def curve(self) -> dict[str, Any]:
        """Sizes of one buffer."""
        kib = {"range": [1, 20] if self.quick else [40, 8000], "steps": 20 if self.quick else 200}
        parameters = {"KIB": kib, "GlobalBuffer.size": {"expression": "KIB * 8192"}}
        return {**self.grid, "workloads": self.grid["workloads"][:1], "parameters": parameters}


def trivial(task: SweepTask) -> Outcome:
    """In place of a search."""
    memories = (n for n in task.spec.require_arch().nodes if isinstance(n, Memory))
    size = next(float(str(memory.size)) for memory in memories if memory.name == "GlobalBuffer")
    return Outcome("done", "", size, 1.0, 0.0, document=packed({"size": size}))


def swept(fields: dict[str, Any], reuse: Reuse, jobs: int = 2) -> tuple[Counts, list[Any]]:
    """A sweep from nothing; its driver's processor time counts, too."""
    with tempfile.TemporaryDirectory() as folder, Store(folder) as store:
        driver = Driver(make_sweep(fields), store, reuse=reuse)
        begin = time.process_time()
        with Children(jobs) as hands:
            answers = list(run_all(driver, hands))
        driver.counts.cpu_seconds += time.process_time() - begin
        return driver.counts, answers


def grid(scale: Scale) -> dict[str, Any]:
    """Processor time of all answers, and of the least EDP, over that of searching each design."""
    fields = scale.grid
    alone, _ = swept(fields, NO_REUSE)
    every, _ = swept(fields, Reuse())
    best, _ = swept({**fields, "best": {"minimize": "edp"}}, Reuse())
    return {
        "runs": alone.total, "alone_cpu_seconds": alone.cpu_seconds,
        "all_cpu_seconds": every.cpu_seconds, "all_searched": every.searched, "all_ratio": every.cpu_seconds / alone.cpu_seconds,
        "best_cpu_seconds": best.cpu_seconds, "best_searched": best.searched, "best_ratio": best.cpu_seconds / alone.cpu_seconds,
    }  # fmt: skip


def curve(scale: Scale) -> dict[str, Any]:
    """Processor time of many sizes over that of the largest alone. EDP must fall as size grows."""
    fields = scale.curve
    counts, answers = swept(fields, Reuse(), jobs=1)
    costs = sorted((a.design.values["KIB"], a.row.energy * a.row.latency) for a in answers if a.row.found)
    assert all(b[1] <= a[1] * (1 + 1e-12) for a, b in zip(costs, costs[1:], strict=False)), (
        "more size must not cost more"
    )
    largest = max(a.design.values["KIB"] for a in answers)
    alone = {**fields, "parameters": {**fields["parameters"], "KIB": [largest]}}
    # One search is short: how long it takes varies by a third on a busy machine.
    one = statistics.median(swept(alone, NO_REUSE, jobs=1)[0].cpu_seconds for _ in range(3))
    return {
        "sizes": counts.total, "different": len({cost for _, cost in costs}), "searched": counts.searched,
        "cpu_seconds": counts.cpu_seconds, "one_cpu_seconds": one, "ratio": counts.cpu_seconds / one,
    }  # fmt: skip


def overhead(scale: Scale) -> dict[str, Any]:
    """Of runs that take no time: the driver's and the children's time, what the store takes, and a second start."""
    count = 300 if scale.quick else 100_000
    fields = {"arch": "simple", "workloads": SMALL, "objective": "edp",
              "parameters": {"GlobalBufferSize": {"range": [10_000, 10_000 + count - 1], "step": 1}}}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        begin, cpu = time.perf_counter(), cpu_seconds()
        with Store(folder) as store, Children(2, function="bench.sweep:trivial") as hands:
            done = sum(1 for _ in run_all(Driver(make_sweep(fields), store, reuse=Reuse(covered=False)), hands))
        first, cpu = time.perf_counter() - begin, cpu_seconds() - cpu
        size = sum(p.stat().st_blocks * 512 for p in Path(folder).rglob("*") if p.is_file())
        begin = time.process_time()
        with Store(folder) as store:
            driver = Driver(make_sweep(fields), store)
            known = sum(answer is not None for answer in driver.planned())
        second = time.process_time() - begin
    assert done == known == count
    return {
        "runs": count,
        "milliseconds_each": 1000 * first / count,
        "cpu_milliseconds_each": 1000 * cpu / count,
        "kib_each": size / 1024 / count,
        "second_start_cpu_seconds": second,
    }


def designs(scale: Scale) -> dict[str, Any]:
    """Memory that going through many designs takes."""
    count = 10_000 if scale.quick else 1_000_000
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", DESIGNS, str(count)], env=environment, capture_output=True, text=True, check=True
    )
    found, peak = map(int, done.stdout.split())
    assert found == count
    return {"designs": count, "peak_mib": peak / 2**20}


MEASURED = {"grid": grid, "curve": curve, "overhead": overhead, "designs": designs}


def main(arguments: list[str]) -> None:
    """Measure, print, and write what was measured."""
    parser = argparse.ArgumentParser(prog="python -m bench sweep", description="Measure what sweeps save and cost.")
    parser.add_argument("--only", action="append", choices=list(MEASURED), help="may be repeated")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results", help="folder for the results")
    options = parser.parse_args(arguments)
    scale = Scale(options.quick)
    date = datetime.date.today().isoformat()
    results: dict[str, Any] = {"date": date, "quick": scale.quick, "machine": machine(), "versions": versions()}
    swept({**scale.curve, "parameters": {}}, NO_REUSE, jobs=1)  # compiles
    options.results.mkdir(parents=True, exist_ok=True)
    for name in options.only or MEASURED:
        results[name] = MEASURED[name](scale)
        print(name, ", ".join(f"{key} {value:,.4g}" for key, value in results[name].items()), flush=True)
        write_atomically(options.results / f"sweep-{date}.json", json.dumps(results, indent=1) + "\n")
