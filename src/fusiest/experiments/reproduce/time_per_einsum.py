"""Time per Einsum for chains of matrix products: ours to the whole front, baselines' to within 5% of the optimum."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from fusiest.experiments.reproduce.experiment_output import Output, OutputRow, table
from fusiest.experiments.reproduce.pieces import Data, Settings, Study
from fusiest.experiments.reproduce.prepared import prepare
from fusiest.experiments.reproduce.searching import load_compiled, searched
from fusiest.mapper import Options, Step
from fusiest.report import SERIES
from fusiest.spec import load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Time per Einsum for chains of matrix products, TPU v4i"
NAMES = {"set": "SET", "tileflow": "TileFlow", "timeloop": "Timeloop"}
COUNTS, QUICK_COUNTS = (1, 2, 4, 8, 16, 32, 64), (1, 2, 4, 8)
NEAR = 1.05
OURS = "fusiest"
GROWTH = 3.0
"""How much longer a run may take than the slowest one with half as many Einsums, for the estimate of the time left."""


def run(study: Study, shape: Settings | None = None) -> Output:
    """Chains of 1 to 64 products; baselines time out at 1,000 times fusiest's time."""
    times = study.times or (1.0 if study.quick else 1_000.0)
    runs = study.runs or (2 if study.quick else 10)
    shape = {"PATTERN": "paper"} if shape is None else shape
    rows: list[OutputRow] = []
    load_compiled()
    given_up: set[str] = set()
    slowest = dict.fromkeys(NAMES, 0.0)
    for count in QUICK_COUNTS if study.quick else COUNTS:
        case = {"architecture": "tpu_v4i", "workload": "matmuls", "defines": {**shape, "N_EINSUMS": count}}
        study.say(Step(f"chain of {count}"))
        ours = study.piece(f"scaling/{count}-{OURS}", case, lambda: _our_run(case))  # noqa: B023  (called at once)
        rows.append(_row(count, OURS, ours["seconds"], 0, runs))
        for mapper in NAMES:
            if mapper in given_up:
                continue
            baseline: Settings = {
                "mapper": mapper, "times": times * ours["seconds"] / ours["exploring"], "target": NEAR * ours["edp"]
            }  # fmt: skip
            results = _runs(study, f"scaling/{count}-{mapper}", case, baseline, runs, GROWTH * slowest[mapper])
            multiples = [data["times"] for data in results]
            late = sum(data is None for data in multiples)
            if len(multiples) < runs and 2 * late <= runs:  # no time left
                given_up.add(mapper)
                continue
            slowest[mapper] = max(data["seconds"] for data in results)
            row = _row(count, mapper, _seconds(multiples, late, ours, runs), late, runs)
            rows.append(row)
            if row["seconds"] is None:
                given_up.add(mapper)
    return Output(rows, _summary(rows, times, runs), lambda figure: _draw(figure, rows, times), (5.2, 3.3))


def _row(count: int, mapper: str, seconds: float | None, late: int, runs: int) -> OutputRow:
    per_einsum = None if seconds is None else seconds / count
    return {
        "einsums": count, "mapper": mapper, "seconds": seconds, "seconds_per_einsum": per_einsum, "timed_out": late,
        "runs": runs,
    }  # fmt: skip


def _our_run(case: Settings) -> Data:
    """The whole energy-latency front, as the paper times it."""
    spec = load(case["architecture"], case["workload"], defines=case["defines"])
    begin = time.perf_counter()
    result = searched(spec, Options())
    return {
        "seconds": time.perf_counter() - begin,
        "exploring": result.stats.exploring_seconds,
        "edp": result.best("edp").edp,
    }


def _runs(study: Study, name: str, case: Settings, baseline: Settings, runs: int, expected: float) -> list[Data]:
    """How many times fusiest's evaluations each run took; None where it timed out. Ends when most have, or at the deadline.

    `expected`: how many seconds one may take.
    """
    results: list[Data] = []
    for first in range(0, runs, study.jobs):
        if 2 * sum(data["times"] is None for data in results) > runs:
            break
        wanted: dict[str, Settings] = {
            f"{name}-{seed}": {**case, **baseline, "seed": seed} for seed in range(first, min(first + study.jobs, runs))
        }
        if study.in_time(expected) and not study.has(wanted):
            prepare(case, NAMES)
        results += study.pieces(wanted, _one_run, dict.fromkeys(wanted, expected)).values()
    return results


def _one_run(settings: Settings) -> Data:
    run = prepare(settings).baseline_run(settings)
    near = bool(run.history) and run.history[-1][1] <= settings["target"]
    return {"times": run.history[-1][0] if near else None, "seconds": run.seconds}


def _seconds(multiples: list[float | None], late: int, ours: Data, runs: int) -> float | None:
    """Seconds as in the paper: None if more than half timed out, else those count as fast as fusiest.

    An evaluation takes as long as it takes fusiest when it explores.
    """
    if 2 * late > runs:
        return None
    return float(statistics.mean(ours["seconds"] if t is None else t * ours["exploring"] for t in multiples))


def _draw(figure: Figure, rows: list[OutputRow], times: float) -> None:
    axes = figure.add_subplot()
    colours = dict(zip((OURS, *NAMES), ("black", SERIES[0], SERIES[2], SERIES[1]), strict=True))
    for mapper, name in {OURS: OURS, **NAMES}.items():
        mapper_rows = [row for row in rows if row["mapper"] == mapper]
        finished = [row for row in mapper_rows if row["seconds"] is not None]
        axes.plot(
            [row["einsums"] for row in finished], [row["seconds_per_einsum"] for row in finished],
            color=colours[mapper], marker="o", markersize=4, label=name,
        )  # fmt: skip
        for row in mapper_rows:
            if row["seconds"] is None:
                ours = next(r for r in rows if (r["mapper"], r["einsums"]) == (OURS, row["einsums"]))
                limit = times * ours["seconds_per_einsum"]
                axes.plot([row["einsums"]], [limit], color=colours[mapper], marker="x", markersize=8, mew=2)
    counts = sorted({row["einsums"] for row in rows})
    axes.set(xscale="log", yscale="log", xlabel="Einsums", ylabel="seconds per Einsum")
    axes.set_xticks(counts, [str(n) for n in counts])
    axes.minorticks_off()
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, borderaxespad=0.2)


def _summary(rows: list[OutputRow], times: float, runs: int) -> str:
    counts = sorted({row["einsums"] for row in rows})

    def cell(count: int, mapper: str) -> str:
        row = next((r for r in rows if (r["einsums"], r["mapper"]) == (count, mapper)), None)
        if row is None:
            return "not run"
        return "×" if row["seconds"] is None else f"{row['seconds_per_einsum']:.3g} s"

    lines = [[count, *(cell(count, mapper) for mapper in (OURS, *NAMES))] for count in counts]
    ours = [row["seconds_per_einsum"] for row in rows if row["mapper"] == OURS]
    ends = {
        n: next((r["einsums"] for r in rows if r["mapper"] == m and r["seconds"] is None), None)
        for m, n in NAMES.items()
    }
    timeouts = ", ".join(f"{name} times out at {n}" if n else f"{name} never times out" for name, n in ends.items())
    return f"""
Seconds per Einsum: fusiest to the whole energy-latency front; baselines to an EDP within 5% of the optimum, mean of {runs} runs.
A baseline's time is that of its evaluations, each as long as it takes fusiest to evaluate a pmapping. ×: more than half of the runs
timed out, at {times:g} times fusiest's time; longer chains are then not run, nor what `--hours` leaves no time for. Where fewer did, they
count as fusiest's time, as in the paper.

{table(["Einsums", OURS, *NAMES.values()], lines)}

## Beside the paper

- The paper's time per Einsum is about constant. Ours is {ours[0]:.3g} s for 1 Einsum, at most {max(ours):.3g} s, and {ours[-1]:.3g} s for
  {counts[-1]}. It falls where Einsums repeat: those that differ only by names are explored once.
- In the paper, baselines take longer than its mapper and time out (1,000×) as chains grow; it gives no numbers. Here, by that
  rule at {times:g}×: {timeouts}. To within 5% of the optimum of the
  longest chain that they finished, they took {_listed(rows)} of fusiest's time.
  fusiest's time includes the proof and the whole front.
"""


def _listed(rows: list[OutputRow]) -> str:
    """Each baseline's time relative to fusiest's, for the longest chain that it finished."""
    seconds = {(row["mapper"], row["einsums"]): row["seconds"] for row in rows}
    ratios = []
    for mapper, name in NAMES.items():
        finished = [row for row in rows if row["mapper"] == mapper and row["seconds"] is not None]
        if finished:
            ours = seconds[OURS, finished[-1]["einsums"]]
            times = finished[-1]["seconds"] / ours
            ratios.append(f"{times:,.0f}× " if times >= 10 else f"{times:.2g}× ")
            ratios[-1] += f"({name}, {finished[-1]['einsums']})"
    return ", ".join(ratios)
