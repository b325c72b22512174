"""`python -m bench limits`: whether time limits hold, and what is known by then; written to bench/results/limits-<date>.json.

Each case is mapped once to its end, as long as that takes (`--end` seconds at most), then with each limit. A run keeps its limit T if
its process ends within 1.1 T + 2 s, without the time that it waited for a processor beside other work. The gap must contain the best
that is known of the case. Cases of files that are not there are left out.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.machine import machine, versions
from fusiest.base import interrupt
from fusiest.base.files import write_atomically

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"
LIMITS = (1.0, 5.0, 20.0, 60.0)
CLOSE = 1e-9


@dataclass(frozen=True)
class LargeCase:
    """A search that takes long."""

    files: tuple[str, ...]
    defines: dict[str, object] = field(default_factory=dict)

    def is_there(self) -> bool:
        return all(Path(file).exists() for file in self.files if os.sep in file)


def _user(name: str) -> str:
    return str(SHARED / "specs" / "user" / f"{name}.yaml")


_GPT3: dict[str, object] = {"BATCH_SIZE": 64, "N_TOKENS": 4096}
CASES = {
    "gpt3": LargeCase(("tpu_v4i", "gpt3_6.7B"), _GPT3),
    "gpt3-32-layers": LargeCase(("tpu_v4i", str(ROOT / "bench" / "gpt3_layers.yaml")), {"N_LAYERS": 32, **_GPT3}),
    "unet": LargeCase(("tpu_v4i", str(SHARED / "networks" / "unet.onnx"))),
    "npu-cnn": LargeCase((_user("npu"), _user("cnn"))),
    "npu-llama": LargeCase((_user("npu"), _user("llama"))),
    "resnet18-128": LargeCase(("tpu_v4i", "resnet18"), {"BATCH_SIZE": 128}),
    "eyeriss-resnet18": LargeCase(("eyeriss", "resnet18")),
    "mobilenet-edge": LargeCase(("edge_npu", "mobilenet_v2")),
}


def mapped(case: LargeCase, limit: float) -> dict[str, Any]:
    """In this process: what was found within a limit."""
    import fusiest

    spec = fusiest.load(*case.files, defines=case.defines)
    loaded = time.process_time()
    search = fusiest.map  # loads it
    left = interrupt.program_seconds_left(limit)  # as the command line counts
    result = search(spec, "edp", time_limit=left, progress=False)
    best = result.best("edp")
    return {
        "edp": best.energy * best.latency, "gap": result.gap, "optimal": result.optimal, "stopped": result.stopped,
        "search_seconds": result.stats.wall_seconds, "cpu_seconds": result.stats.cpu_seconds,
        "loading_cpu_seconds": loaded, "waited_seconds": _waited_seconds(),
    }  # fmt: skip


def run(name: str, limit: float) -> dict[str, Any]:
    """In a process of its own, whose time counts whole."""
    paths = [str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "bench.limits", name, str(limit)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    record: dict[str, Any] = {"limit": limit, "process_seconds": time.perf_counter() - begin, **json.loads(done.stdout)}
    record["late_seconds"] = record["process_seconds"] - record["waited_seconds"] - (1.1 * limit + 2)
    return record


def judged(records: list[dict[str, Any]]) -> list[str]:
    """What runs of one case got wrong."""
    best = min(record["edp"] for record in records)
    wrong = []
    for record in records:
        if record["stopped"] and record["late_seconds"] > 0:
            wrong.append(f"{record['limit']:g} s: {record['late_seconds']:.2f} s late")
        if record["edp"] * (1 - record["gap"]) > best * (1 + CLOSE):
            wrong.append(f"{record['limit']:g} s: a gap of {record['gap']:.3g} leaves out the best, {best:.6g} J s")
    return wrong


def main(arguments: list[str]) -> None:
    """Measure, print, and write what was measured."""
    parser = argparse.ArgumentParser(prog="python -m bench limits", description="Measure whether time limits hold.")
    parser.add_argument("--only", action="append", choices=list(CASES), help="may be repeated")
    parser.add_argument("--limit", action="append", type=float, metavar="SECONDS", help="may be repeated")
    parser.add_argument(
        "--end", type=float, default=120.0, metavar="SECONDS", help="for what is best; 0: not looked for"
    )
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results", help="folder for the results")
    options = parser.parse_args(arguments)
    date = datetime.date.today().isoformat()
    file = options.results / f"limits-{date}.json"
    results: dict[str, Any] = {"date": date, "machine": machine(), "versions": versions(), "cases": {}}
    options.results.mkdir(parents=True, exist_ok=True)
    for name in options.only or CASES:
        if not CASES[name].is_there():
            print(f"{name}: its files are not there", file=sys.stderr)
            continue
        records = []
        for limit in [*([options.end] if options.end else []), *(options.limit or LIMITS)]:
            records.append(run(name, limit))
            print(f"{name:16}", _words(records[-1]), flush=True)
        results["cases"][name] = {"runs": records, "wrong": judged(records)}
        for wrong in results["cases"][name]["wrong"]:
            print(f"{name:16} WRONG {wrong}", flush=True)
        write_atomically(file, json.dumps(results, indent=1) + "\n")


def _words(record: dict[str, Any]) -> str:
    return (
        f"limit {record['limit']:4g} s: {record['process_seconds']:7.2f} s process, of that {record['waited_seconds']:6.2f} s waited, "
        f"{record['cpu_seconds']:7.2f} s CPU, {record['edp']:.6g} J s, gap {100 * record['gap']:.3g}% ({record['stopped'] or 'done'})"
    )


def _waited_seconds() -> float:
    """How long this thread could have run, but others did; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


if __name__ == "__main__":
    with interrupt.program():
        print(json.dumps(mapped(CASES[sys.argv[1]], float(sys.argv[2]))))
