"""How fast baselines come near the optimum that fusiest proves: % above it, against evaluations.

Every budget, ten times the last, is a run of its own, since SET cools over its budget: small budgets first, so that there
is a figure at any time, as far as the runs got.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fusiest.base.errors import SpecError
from fusiest.experiments.reproduce.convergence_page import above, summary
from fusiest.experiments.reproduce.experiment_output import Output, OutputRow
from fusiest.experiments.reproduce.pieces import Data, Settings, Study
from fusiest.experiments.reproduce.prepared import prepare
from fusiest.experiments.reproduce.searching import load_compiled
from fusiest.mapper import Step
from fusiest.pmapping import Floats
from fusiest.report import SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Convergence of baselines on GPT-3 6.7B, TPU v4i"
NAMES = {"set": "SET", "tileflow": "TileFlow", "timeloop": "Timeloop", "tileflow-mcts": "TileFlow, tree search"}
WORKLOAD: dict[str, object] = {"BATCH_SIZE": 64, "N_TOKENS": 4096}
SMALLEST = 1e-3
"""The smallest budget, as a multiple of fusiest's evaluations."""
MARGIN = 1 + 1e-9
"""Relative to the optimum, what counts as found."""
MOST_WITHOUT_FREE = 100.0
FLOOR = 1e-4
"""Below this a curve cannot be told from the optimum on the figure."""
STEPS = 20
"""Points per factor of ten in the CSV file and on curves."""


@dataclass(frozen=True)
class Curves:
    """All runs so far: by mapper and budget, one per seed, where all seeds are done."""

    runs: dict[tuple[str, float], list[Data]]
    optimum: Data
    budgets: list[float]
    seeds: int
    seconds_left: float
    """Seconds for what is missing, about, with all processes."""

    @property
    def complete(self) -> bool:
        return all((mapper, self.budgets[-1]) in self.runs for mapper in NAMES)

    def budgets_of(self, mapper: str) -> list[float]:
        """Budgets that all runs of a mapper went to."""
        return [budget for budget in self.budgets if (mapper, budget) in self.runs]

    def excess(self, mapper: str, budget: float, times: float) -> Floats:
        """Per run with this budget, how far above the optimum it was after so many times our evaluations; nan if nowhere."""
        return np.array([above(run, self.optimum, times) for run in self.runs[mapper, budget]])

    def final_excess(self, mapper: str, budget: float) -> Floats:
        return self.excess(mapper, budget, np.inf)


def run(
    study: Study, architecture: str = "tpu_v4i", workload: str = "gpt3_6.7B", defines: Settings = WORKLOAD
) -> Output:
    """Ten runs per baseline, up to 10,000 times fusiest's evaluations; two runs up to 1 if quick."""
    most = study.times or (1.0 if study.quick else 10_000.0)
    if most < SMALLEST:
        raise SpecError(f"times must be at least {SMALLEST:g} for convergence, but is {most:g}")
    seeds = study.runs or (2 if study.quick else 10)
    case: dict[str, object] = {"architecture": architecture, "workload": workload, "defines": dict(defines)}
    study.say(Step("convergence", "the optimum, and the tables for the baselines"))
    load_compiled()
    optimum = study.piece("convergence/optimum", case, lambda: _optimum(case))
    case |= {"target": optimum["edp"] * MARGIN}
    charged = _without_free_groups(study, case, budgets_to(most), seeds)
    curves = _all_runs(study, case, optimum, budgets_to(most), seeds)
    text = summary(curves, NAMES, charged)
    return Output(_rows(curves), text, lambda figure: _draw(figure, curves), (5.2, 3.3))


def budgets_to(most: float) -> list[float]:
    """Powers of ten below, and then the largest.

    >>> budgets_to(0.5)
    [0.001, 0.01, 0.1, 0.5]
    """
    powers = [float(f"1e{n}") for n in range(round(np.log10(SMALLEST)), 9)]
    return [*(budget for budget in powers if budget < 0.999 * most), most]


def _optimum(case: Settings) -> Data:
    prepared = prepare(case)
    best = prepared.optimum
    return {
        "edp": best.edp, "seconds": best.seconds, "evaluations": prepared.evaluations, "pmappings": prepared.pmappings,
        "kept": prepared.usable, "random": prepared.random_scores(2_000),
        "whole_over_exploring": best.cpu_seconds / max(prepared.cpu_seconds, 1e-9),
    }  # fmt: skip


def _all_runs(study: Study, case: Settings, optimum: Data, budgets: list[float], seeds: int) -> Curves:
    """Budget by budget. A run that found the optimum counts for all larger budgets too: it is not made again.

    All mappers but SET would find it again after as many evaluations; for SET, which cools more slowly then, this is
    generous.
    """
    last: dict[tuple[str, int], Data] = {}
    runs: dict[tuple[str, float], list[Data]] = {}
    rates = dict.fromkeys(NAMES, 0.0)
    for number, budget in enumerate(budgets):
        pairs = [
            pair for pair in itertools.product(NAMES, range(seeds)) if not (pair in last and last[pair]["optimal"])
        ]
        if budget > budgets[0]:  # what was left out before is not tried with more
            pairs = [pair for pair in pairs if pair in last and last[pair]["budget"] == budgets[number - 1]]
        name = {pair: f"convergence/{pair[0]}-{pair[1]}-{budget:g}" for pair in pairs}
        wanted = {name[m, seed]: {**case, "mapper": m, "seed": seed, "times": budget} for m, seed in pairs}
        if study.in_time(0.0) and not study.has(wanted):
            prepare(case, NAMES)
        expected = {name[m, seed]: rates[m] * budget if budget > 1 else 0.0 for m, seed in pairs}
        later = sum(rates[m] * larger for m, _ in pairs for larger in budgets[number + 1 :])
        results = study.pieces(wanted, _one_run, expected, later)
        last |= {pair: results[name[pair]] for pair in pairs if name[pair] in results}
        for mapper in NAMES:
            mapper_runs = [last[mapper, seed] for seed in range(seeds) if (mapper, seed) in last]
            if len(mapper_runs) == seeds and all(data["optimal"] or data["budget"] == budget for data in mapper_runs):
                runs[mapper, budget] = mapper_runs
            large = [data for data in mapper_runs if data["spent"] >= 1]  # small ones tell little
            measured = [data["seconds"] / data["spent"] for data in large]
            rates[mapper] = float(np.mean(measured)) if measured else 0.0
    seconds = sum(
        rates[mapper] * budget
        for (mapper, _), data in last.items()
        for budget in budgets
        if budget > data["budget"] and not data["optimal"]
    )
    return Curves(runs, optimum, budgets, seeds, seconds / study.jobs)


def _without_free_groups(study: Study, case: Settings, budgets: list[float], seeds: int) -> dict[float, list[Data]]:
    """SET, charged for all groups of every mapping: it tries few, so this takes seconds."""
    chosen = [budget for budget in budgets if 1 <= budget <= MOST_WITHOUT_FREE]
    wanted: dict[str, Settings] = {
        f"convergence/nothing-free-{seed}-{budget:g}": {
            **case, "mapper": "set", "seed": seed, "times": budget, "free": False,
        }
        for budget in chosen
        for seed in range(seeds)
    }  # fmt: skip
    if study.in_time(0.0) and not study.has(wanted):
        prepare(case, NAMES)
    results = study.pieces(wanted, _one_run)
    runs = {b: [results.get(f"convergence/nothing-free-{seed}-{b:g}") for seed in range(seeds)] for b in chosen}
    return {budget: data for budget, data in runs.items() if None not in data}


def _one_run(settings: Settings) -> Data:
    """One run of one baseline: when it found what, in multiples of fusiest's evaluations."""
    run = prepare(settings).baseline_run(settings)
    optimal = bool(run.history) and run.history[-1][1] <= settings["target"]
    return {**run._asdict(), "budget": settings["times"], "optimal": optimal}


def _grid(budget: float) -> Floats:
    return np.geomspace(SMALLEST, budget, STEPS * round(np.log10(budget / SMALLEST)) + 1)


def _rows(curves: Curves) -> list[OutputRow]:
    """The best so far of every run, for each budget that all runs went to."""
    return [
        {
            "mapper": mapper, "budget": budget, "times": float(times),
            **{f"run{i}": float(value) for i, value in enumerate(curves.excess(mapper, budget, float(times)))},
        }
        for mapper, budget in curves.runs
        for times in _grid(budget)
    ]  # fmt: skip


def _draw(figure: Figure, curves: Curves) -> None:
    axes = figure.add_subplot()
    for mapper, colour in zip(NAMES, (SERIES[0], SERIES[2], SERIES[1], SERIES[3]), strict=True):
        budgets = curves.budgets_of(mapper)
        if not budgets:
            continue
        traced = [float(times) for times in _grid(budgets[-1])]
        trace = np.array([curves.excess(mapper, budgets[-1], times) for times in traced])
        if mapper == "set":
            ends = np.array([curves.final_excess(mapper, b) for b in budgets])
            _line(axes, budgets, ends, colour, NAMES[mapper], marker="o")
            _line(axes, traced, trace, colour, f"SET, cooled over {budgets[-1]:,g}×", linestyle=(0, (2, 2)))
        else:
            _line(axes, traced, trace, colour, NAMES[mapper])
    axes.axvline(1, color="black", linewidth=1, linestyle=(0, (4, 3)))
    axes.plot([1], [100 * FLOOR], marker="*", markersize=13, color="black", clip_on=False, linestyle="none",
              label="fusiest: optimal, proven")  # fmt: skip
    furthest = max([budget for _, budget in curves.runs], default=1.0)
    axes.set(xscale="log", yscale="log", xlim=(SMALLEST, max(furthest, 1.0) * 1.3), ylim=(100 * FLOOR, 1e4))
    axes.set_xlabel("evaluations, relative to fusiest")
    axes.set_ylabel("EDP above the optimum")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}%")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}×")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, borderaxespad=0.2, columnspacing=1.2)


def _line(axes: Axes, times: list[float], values: Floats, colour: str, label: str, **style: object) -> None:
    """Mean and standard deviation over runs, from where all have found something."""
    known = ~np.isnan(values).any(axis=1)
    x, values = np.array(times)[known], values[known]
    mean, spread = values.mean(axis=1), values.std(axis=1)
    least = np.maximum(values.min(axis=1, initial=np.inf), FLOOR)  # not below any run: the axis is logarithmic
    low, high = np.maximum(mean - spread, least), np.maximum(mean + spread, FLOOR)
    if "linestyle" not in style:
        axes.fill_between(x, 100 * low, 100 * high, color=colour, alpha=0.18, linewidth=0)
    axes.plot(x, 100 * np.maximum(mean, FLOOR), color=colour, label=label, markersize=4, **style)  # type: ignore[arg-type]
