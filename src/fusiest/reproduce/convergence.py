"""How fast baselines come near the optimum that fusiest proves: % above it, against evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fusiest.baselines.options import BaselineOptions
from fusiest.baselines.run import Found, search
from fusiest.mapper.progress import Step
from fusiest.pmapping.pareto import Floats
from fusiest.report.palette import TENSORS
from fusiest.reproduce.output import Output, Row, percent, table
from fusiest.reproduce.pieces import Data, Settings, Study
from fusiest.reproduce.prepared import Prepared, prepare

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Convergence of baselines on GPT-3 6.7B, TPU v4i"
NAMES = {"set": "SET", "tileflow": "TileFlow", "tileflow-mcts": "TileFlow, tree search", "timeloop": "Timeloop"}
PAPER = {"set": {1: 1.0, 10: 0.30, 100: 0.06, 10_000: 0.01}, "tileflow": {1: 1.0}, "timeloop": {1: 1.0}}
"""Above the optimum, by multiples of the paper's runtime. At 1x it says "approximately 100%" of all baselines."""
WORKLOAD: dict[str, object] = {"BATCH_SIZE": 64, "N_TOKENS": 4096}
FLOOR = 1e-4
"""Below this a curve cannot be told from the optimum on the figure."""


def run(
    study: Study, architecture: str = "tpu_v4i", workload: str = "gpt3_6.7B", defines: Settings = WORKLOAD
) -> Output:
    """Ten runs per baseline, up to 10,000 times fusiest's evaluations; two runs up to 1 if quick."""
    times = study.times or (1.0 if study.quick else 10_000.0)
    runs = study.runs or (2 if study.quick else 10)
    case = {"architecture": architecture, "workload": workload, "defines": dict(defines)}
    optimum = study.piece("convergence/optimum", case, lambda: _optimum(study, case))
    wanted: dict[str, Settings] = {
        f"convergence/{mapper}-{seed}": {
            **case,
            "mapper": mapper,
            "seed": seed,
            "times": times,
            "target": optimum["edp"],
        }
        for mapper in NAMES
        for seed in range(runs)
    }
    if not study.has(wanted):
        study.say(Step("convergence", "preparing the tables for the baselines"))
        prepare(case)
    found = study.pieces(wanted, _one_run)
    grid = np.geomspace(min(1e-3, times / 1000), times, 25 * max(1, round(np.log10(times / 1e-3))) + 1)
    curves = {
        mapper: np.array([_curve(found[f"convergence/{mapper}-{seed}"], optimum, grid) for seed in range(runs)])
        for mapper in NAMES
    }
    rows: list[Row] = [
        {"mapper": mapper, "times": float(x), **{f"run{i}": float(run[k]) for i, run in enumerate(curve)}}
        for mapper, curve in curves.items()
        for k, x in enumerate(grid)
    ]
    summary = _summary(curves, grid, optimum, [found[f"convergence/{m}-0"] for m in NAMES], times, runs)
    return Output(rows, summary, lambda figure: _draw(figure, curves, grid), (5.2, 3.3))


def _optimum(study: Study, case: Settings) -> Data:
    prepared = prepare(case)
    best = prepared.optimum
    return {
        "edp": best.edp, "seconds": best.seconds, "evaluations": prepared.ours, "pmappings": prepared.pmappings,
        "kept": prepared.kept, "random": prepared.random_scores(2_000),
    }  # fmt: skip


def _one_run(settings: Settings) -> Data:
    """One run of one baseline: when it found what, in multiples of fusiest's evaluations."""
    prepared = prepare(settings)
    budget = float(str(settings["times"])) * prepared.ours
    options = BaselineOptions(str(settings["mapper"]), int(str(settings["seed"])), budget, stop_rules=False)
    target = float(str(settings["target"])) * (1 + 1e-9)
    return to_data(search(prepared.genome, ("edp",), options, prepared.ours, target=target), prepared)


def to_data(found: Found, prepared: Prepared) -> Data:
    return {
        "history": [[h.evaluations / prepared.ours, h.energy * h.latency] for h in found.history],
        "spent": found.spent / prepared.ours,
        "stopped": found.stopped and found.stopped / prepared.ours,
        "tried": found.tried,
    }


def _curve(run: Data, optimum: Data, grid: Floats) -> Floats:
    """The best so far, as a fraction above the optimum; nan before anything was found."""
    times = np.array([time for time, _ in run["history"]])
    above = np.array([score / optimum["edp"] - 1 for _, score in run["history"]])
    which = np.searchsorted(times, grid, "right") - 1
    return np.where(which >= 0, np.maximum(above[np.maximum(which, 0)], 0.0), np.nan)


def _draw(figure: Figure, curves: dict[str, Floats], grid: Floats) -> None:
    axes = figure.add_subplot()
    for mapper, colour in zip(NAMES, (TENSORS[0], TENSORS[2], TENSORS[3], TENSORS[1]), strict=True):
        known = ~np.isnan(curves[mapper]).any(axis=0)
        mean, spread = curves[mapper].mean(axis=0)[known], curves[mapper].std(axis=0)[known]
        least = np.maximum(curves[mapper].min(axis=0)[known], FLOOR)  # not below any run: the axis is logarithmic
        low, high = np.maximum(mean - spread, least), np.maximum(mean + spread, FLOOR)
        axes.fill_between(grid[known], 100 * low, 100 * high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(grid[known], 100 * np.maximum(mean, FLOOR), color=colour, label=NAMES[mapper])
    axes.axvline(1, color="black", linewidth=1, linestyle=(0, (4, 3)))
    axes.plot([1], [100 * FLOOR], marker="*", markersize=13, color="black", clip_on=False, linestyle="none",
              label="fusiest: optimal, proven")  # fmt: skip
    axes.set(xscale="log", yscale="log", xlim=(grid[0], max(grid[-1], 1.0) * 1.3), ylim=(100 * FLOOR, 400))
    axes.set_xlabel("evaluations, relative to fusiest")
    axes.set_ylabel("EDP above the optimum")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}%")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×" if value < 1000 else f"{value:,.0f}×")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, borderaxespad=0.2, columnspacing=1.2)


def _at(curve: Floats, grid: Floats, times: float) -> Floats | None:
    """Each run's distance after so many times our evaluations."""
    if times > grid[-1] * 1.001:
        return None
    values: Floats = curve[:, max(int(np.searchsorted(grid, times * 1.001, "right")) - 1, 0)]
    return None if np.isnan(values).any() else values


def _summary(
    curves: dict[str, Floats], grid: Floats, optimum: Data, first: Sequence[Data], times: float, runs: int
) -> str:
    marks = [x for x in (0.01, 0.1, 1, 10, 100, 1_000, 10_000) if x <= times * 1.001]
    lines = []
    for mapper, name in NAMES.items():
        cells = []
        for x in marks:
            values = _at(curves[mapper], grid, x)
            ours = "-" if values is None else f"{percent(float(values.mean()))} ± {percent(float(values.std()))}"
            paper = PAPER.get(mapper, {}).get(int(x) if x >= 1 else -1)
            cells.append(f"{ours} (paper {percent(paper)})" if paper is not None else ours)
        lines.append([name, *cells])
    return f"""
Energy-delay product of the best mapping found so far, above the optimum of {optimum["edp"]:.6g} Js that fusiest proves
(in {optimum["seconds"]:.1f} s here; {optimum["evaluations"]:,} evaluations of pmappings: 1×). Mean ± standard deviation of {runs} runs.

{table(["above the optimum after", *(f"{x:g}×" for x in marks)], lines)}

{_reasons(curves, grid, optimum, first)}
"""


def _reasons(curves: dict[str, Floats], grid: Floats, optimum: Data, first: Sequence[Data]) -> str:
    """Where our numbers are not the paper's, and what in our data is behind it."""
    at_one = {m: values for m, curve in curves.items() if m in PAPER and (values := _at(curve, grid, 1)) is not None}
    apart = [
        f"{NAMES[m]} is {percent(float(values.mean()))} above the optimum, in the paper {percent(PAPER[m][1])}"
        for m, values in at_one.items()
    ]
    random = np.sort(np.array(optimum["random"]) / optimum["edp"] - 1)
    evaluations = [data["spent"] * optimum["evaluations"] / max(data["tried"], 1) for data in first]
    tried = [f"{name} {optimum['evaluations'] / n:,.0f}" for name, n in zip(NAMES.values(), evaluations, strict=True)]
    stopped = first[list(NAMES).index("timeloop")]["stopped"]
    stop = "later" if stopped is None else f"at {stopped:.2g}×"
    return f"""## Beside the paper

At 1×: {"; ".join(apart) or "no run went that far, or not all had found a mapping by then"}.
What is behind it, from the data of this run:

- A unit of evaluations buys many mappings here. In 1×, mappings tried: {", ".join(tried)}.
  The unit is what fusiest needs, {optimum["evaluations"]:,} evaluations; the paper's is 1.5 CPU hours of them.
- Baselines see less that is bad. Of {optimum["pmappings"]:,} Pareto-optimal pmappings, {optimum["kept"]:,} remain once those that fit no
  neighbour are dropped. Of {len(random):,} random valid mappings, half are less than {percent(np.median(random))} above the
  optimum, a tenth less than {percent(np.quantile(random, 0.1))}, the best {percent(random[0])}.
- SET cools over its whole budget, so its curve depends on where it ends.
- Groups that the mapping it was changed from already has are free here; the paper does not say so.
- Timeloop's own stop rules would have ended its first run {stop}; it is run on without them."""
