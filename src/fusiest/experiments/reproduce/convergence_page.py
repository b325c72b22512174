"""The page about convergence: our numbers beside the paper's, and why they differ, from the data of the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fusiest.base.errors import FusiestError
from fusiest.experiments.reproduce.experiment_output import percent, table
from fusiest.experiments.reproduce.pieces import Data, duration

if TYPE_CHECKING:
    from fusiest.experiments.reproduce.convergence import Curves

ROUNDING = 1e-9
PAPER = {1: 1.0, 10: 0.30, 100: 0.06, 10_000: 0.01}
"""SET above the optimum, by multiples of the paper's runtime. At 1× it says "approximately 100%" of all baselines."""
SET = "set"
ALIKE = 10.0
"""Units that differ by no more than this factor, between the points of a curve that spans four powers of ten, count as one."""
Charged = Mapping[float, Sequence[Data]]
"""SET without free groups: runs by budget."""


def summary(curves: Curves, names: Mapping[str, str], charged: Charged) -> str:
    optimum = curves.optimum
    return f"""
Energy-delay product of the best mapping found so far, above the optimum of {optimum["edp"]:.6g} Js that fusiest proves
(in {optimum["seconds"]:.1f} s here; its tables took {optimum["evaluations"]:,} evaluations of pmappings: 1×).
Mean ± standard deviation of {curves.seeds} runs.

{_table(curves, names, charged)}

{_optima(curves, names)} {_progress(curves, names)}

## Beside the paper

{_reasons(curves, names, charged)}
"""


def _mean(values: np.ndarray) -> str:
    if np.isnan(values).any():
        return "-"
    return f"{percent(float(values.mean()))} ± {percent(float(values.std()))}"


def _table(curves: Curves, names: Mapping[str, str], charged: Charged) -> str:
    """A column per budget."""
    lines = []
    for mapper, name in names.items():
        budgets = curves.budgets_of(mapper)
        cells = [_mean(curves.final_excess(mapper, b)) if b in budgets else "not run" for b in curves.budgets]
        lines.append([name, *cells])
        if mapper == SET and budgets:
            trace = [
                _mean(curves.excess(mapper, budgets[-1], b)) if b <= budgets[-1] else "not run" for b in curves.budgets
            ]
            lines.append([f"SET, cooled over {budgets[-1]:,g}×", *trace])
            paid = [_mean(_ends(curves, charged[b])) if b in charged else "not run" for b in curves.budgets]
            lines.append(["SET, nothing free", *paid])
    lines.append(["the paper's SET", *(percent(PAPER.get(round(b))) if b >= 1 else "-" for b in curves.budgets)])
    return table(["above the optimum after", *(f"{budget:,g}×" for budget in curves.budgets)], lines)


def _optima(curves: Curves, names: Mapping[str, str]) -> str:
    ends = [run for mapper in names for run in curves.runs.get((mapper, (curves.budgets_of(mapper) or [0.0])[-1]), [])]
    return f"{sum(run['optimal'] for run in ends)} of {len(ends)} runs found the optimum."


def _progress(curves: Curves, names: Mapping[str, str]) -> str:
    if curves.complete:
        return ""
    far = ", ".join(f"{name} {curves.budgets_of(m)[-1]:,g}×" for m, name in names.items() if curves.budgets_of(m))
    wait = duration(curves.seconds_left) if curves.seconds_left else "an unknown time"
    return f"""The experiment is not finished: all runs are done up to {far or "nothing"}.
The same command goes on from here, {wait} until {curves.budgets[-1]:,g}×."""


def _reasons(curves: Curves, names: Mapping[str, str], charged: Charged) -> str:
    optimum = curves.optimum
    bought = {name: _bought(curves, mapper) for mapper, name in names.items() if curves.budgets_of(mapper)}
    random = np.sort(np.array(optimum["random"]) / optimum["edp"] - 1)
    stopped = [
        run["stopped"] for run in curves.runs.get(("timeloop", (curves.budgets_of("timeloop") or [0.0])[-1]), [])
    ]
    known = [times for times in stopped if times]
    stop = f"at {np.median(known):.2g}× (median)" if known else "later"
    whole = optimum["whole_over_exploring"]
    lines = [
        _at_one(curves),
        _as_mappings(curves, bought.get(names[SET])),
        _free_groups(curves, charged),
        f"One unit (1×) buys so many mappings here: {', '.join(f'{name} {n:,.0f}' for name, n in bought.items())}. A query "
        f"costs the candidates behind its group, of {optimum['evaluations']:,} in all; docs/baselines.md says why.",
        _cooling(curves),
        f"fusiest's whole search takes {whole:.2f} times the CPU time of its tables. With time as the unit, as in the paper, "
        f"everything would be found {whole:.2f} times as soon: not a reason.",
        f"Of {len(random):,} random valid mappings, half are more than "
        f"{percent(np.median(random))} above the optimum, a tenth less than {percent(np.quantile(random, 0.1))}, the best "
        f"{percent(random[0])}. They are made of {optimum['kept']:,} pmappings, of {optimum['pmappings']:,} Pareto-optimal ones; "
        "the others fit no neighbour.",
        f"Timeloop's own stop rules would have ended its runs {stop}; it is run on without them.",
    ]
    return "\n".join(f"- {line}" for line in lines if line)


def _bought(curves: Curves, mapper: str) -> float:
    """Mappings tried per unit, in the largest budget that is done."""
    runs = curves.runs[mapper, curves.budgets_of(mapper)[-1]]
    return float(sum(run["tried"] for run in runs) / sum(run["spent"] for run in runs))


def _at_one(curves: Curves) -> str:
    if 1.0 not in curves.budgets_of(SET):
        return ""
    values = curves.final_excess(SET, 1.0)
    return (
        f"At 1×, SET is {_mean(values)} above the optimum; in the paper all baselines are at about {percent(PAPER[1])}."
    )


def _as_mappings(curves: Curves, bought: float | None) -> str:
    """Where our SET is as far as the paper's, in mappings tried: what one of the paper's units would be here."""
    points = []
    for budget in curves.budgets_of(SET):
        values = curves.final_excess(SET, budget)
        values = values[~np.isnan(values)]  # the smallest budget may be too small to find any mapping
        if len(values) and values.mean() > 0:
            tried = float(np.mean([run["tried"] for run in curves.runs[SET, budget]]))
            points.append((float(np.log(values.mean())), float(np.log(tried))))
    units, phrases = [], []
    for times, far in PAPER.items():
        for (a, low), (b, high) in zip(points, points[1:], strict=False):
            if b <= np.log(far) <= a and a > b:
                tried = np.exp(low + (a - np.log(far)) / (a - b) * (high - low))
                units.append(tried / times)
                phrases.append(f"{percent(far)} after {tried:,.0f} mappings (paper: {times:,}×)")
                break
    if len(units) < 2 or bought is None:
        return ""
    spread = max(units) / min(units)
    agree = "so this alone may explain" if spread <= ALIKE else "so this alone does not explain"
    return (
        f"SET gets as far as the paper's here with so many mappings tried: {', '.join(phrases)}. If one of the paper's units "
        f"bought {min(units):,.0f} to {max(units):,.0f} mappings (it does not say how many), the two would agree; here one buys "
        f"{bought:,.0f}, {bought / max(units):,.0f} to {bought / min(units):,.0f} times as many. The points differ by a factor of "
        f"{spread:.2g}, {agree} the difference. fusiest evaluates all groups of an Einsum together, from inner nests that they "
        "share; baselines are charged no more for a group than its share in that."
    )


def _cooling(curves: Curves) -> str:
    """SET on its way to a large budget, against SET that has cooled by then."""
    budgets = curves.budgets_of(SET)
    marks = [budget for budget in budgets[:-1] if budget >= 1]
    phrases = []
    for mark in marks:
        passing, cooled = curves.excess(SET, budgets[-1], mark).mean(), curves.final_excess(SET, mark).mean()
        phrases.append(f"{percent(float(passing))} at {mark:,g}× instead of {percent(float(cooled))}")
    if not phrases:
        return ""
    return (
        f"SET cools over its budget. With {budgets[-1]:,g}× as the budget, it is on its way {', '.join(phrases)}. The paper "
        "says that baselines ended at 10,000×, and not which budget SET was given; its curve may be such a way."
    )


def _ends(curves: Curves, runs: Sequence[Data]) -> np.ndarray:
    return np.array([above(run, curves.optimum, np.inf) for run in runs])


def above(run: Data, optimum: Data, times: float) -> float:
    """The best that a run had found by then, as a fraction above the optimum; nan if nothing.

    Below the optimum there is nothing, unless one of the two is wrong.
    """
    scores = [score for spent, score in run["history"] if spent <= times]
    if not scores:
        return np.nan
    excess = float(scores[-1] / optimum["edp"] - 1)
    if excess < -ROUNDING:
        raise FusiestError(
            f"a baseline found {scores[-1]:.9g} Js, less than the optimum, {optimum['edp']:.9g} Js: this is a bug"
        )
    return max(excess, 0.0)


def _free_groups(curves: Curves, charged: Charged) -> str:
    """What it would cost to pay for all groups of each mapping."""
    if 1.0 not in curves.budgets_of(SET) or 1.0 not in charged:
        return ""
    tried, free = (np.mean([run["tried"] for run in runs]) for runs in (charged[1.0], curves.runs[SET, 1.0]))
    return (
        "Groups that the mapping it was changed from already has are free here; the paper does not say whether they are there. "
        f"If they were not, SET would try {tried:,.0f} mappings in 1× instead of {free:,.0f}, and be "
        f"{_mean(_ends(curves, charged[1.0]))} above the optimum (in the table: nothing free)."
    )
