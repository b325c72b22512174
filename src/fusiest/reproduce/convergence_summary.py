"""The page about convergence: our numbers beside the paper's, and why they differ, from the data of the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fusiest.errors import FusiestError
from fusiest.reproduce.output import percent, table
from fusiest.reproduce.pieces import Data, duration

if TYPE_CHECKING:
    from fusiest.reproduce.convergence import Found

ROUNDING = 1e-9
PAPER = {1: 1.0, 10: 0.30, 100: 0.06, 10_000: 0.01}
"""SET above the optimum, by multiples of the paper's runtime. At 1× it says "approximately 100%" of all baselines."""
SET = "set"
ALIKE = 10.0
"""Units that differ by no more than this factor, between the points of a curve that spans four powers of ten, count as one."""
Charged = Mapping[float, Sequence[Data]]
"""SET without free groups: runs by budget."""


def summary(found: Found, names: Mapping[str, str], charged: Charged) -> str:
    optimum = found.optimum
    return f"""
Energy-delay product of the best mapping found so far, above the optimum of {optimum["edp"]:.6g} Js that fusiest proves
(in {optimum["seconds"]:.1f} s here; its tables took {optimum["evaluations"]:,} evaluations of pmappings: 1×).
Mean ± standard deviation of {found.seeds} runs.

{_table(found, names, charged)}

{_optima(found, names)} {_progress(found, names)}

## Beside the paper

{_reasons(found, names, charged)}
"""


def _mean(values: np.ndarray) -> str:
    if np.isnan(values).any():
        return "-"
    return f"{percent(float(values.mean()))} ± {percent(float(values.std()))}"


def _table(found: Found, names: Mapping[str, str], charged: Charged) -> str:
    """A column per budget."""
    lines = []
    for mapper, name in names.items():
        done = found.done(mapper)
        cells = [_mean(found.at_end(mapper, b)) if b in done else "not run" for b in found.budgets]
        lines.append([name, *cells])
        if mapper == SET and done:
            trace = [_mean(found.at(mapper, done[-1], b)) if b <= done[-1] else "not run" for b in found.budgets]
            lines.append([f"SET, cooled over {done[-1]:,g}×", *trace])
            paid = [_mean(_ends(found, charged[b])) if b in charged else "not run" for b in found.budgets]
            lines.append(["SET, nothing free", *paid])
    lines.append(["the paper's SET", *(percent(PAPER.get(round(b))) if b >= 1 else "-" for b in found.budgets)])
    return table(["above the optimum after", *(f"{budget:,g}×" for budget in found.budgets)], lines)


def _optima(found: Found, names: Mapping[str, str]) -> str:
    ends = [run for mapper in names for run in found.runs.get((mapper, (found.done(mapper) or [0.0])[-1]), [])]
    return f"{sum(run['optimal'] for run in ends)} of {len(ends)} runs found the optimum."


def _progress(found: Found, names: Mapping[str, str]) -> str:
    if found.complete:
        return ""
    far = ", ".join(f"{name} {found.done(m)[-1]:,g}×" for m, name in names.items() if found.done(m))
    return f"""The experiment is not finished: all runs are done up to {far or "nothing"}.
The same command goes on from here, {duration(found.left) if found.left else "an unknown time"} until {found.budgets[-1]:,g}×."""


def _reasons(found: Found, names: Mapping[str, str], charged: Charged) -> str:
    optimum = found.optimum
    bought = {name: _bought(found, mapper) for mapper, name in names.items() if found.done(mapper)}
    random = np.sort(np.array(optimum["random"]) / optimum["edp"] - 1)
    stopped = [run["stopped"] for run in found.runs.get(("timeloop", (found.done("timeloop") or [0.0])[-1]), [])]
    known = [times for times in stopped if times]
    stop = f"at {np.median(known):.2g}× (median)" if known else "later"
    whole = optimum["whole_over_exploring"]
    lines = [
        _at_one(found),
        _as_mappings(found, bought.get(names[SET])),
        _free_groups(found, charged),
        f"One unit (1×) buys so many mappings here: {', '.join(f'{name} {n:,.0f}' for name, n in bought.items())}. A query "
        f"costs the candidates behind its group, of {optimum['evaluations']:,} in all; docs/baselines.md says why.",
        _cooling(found),
        f"fusiest's whole search takes {whole:.2f} times the CPU time of its tables. With time as the unit, as in the paper, "
        f"everything would be found {whole:.2f} times as soon: not a reason.",
        f"Of {len(random):,} random valid mappings, half are more than "
        f"{percent(np.median(random))} above the optimum, a tenth less than {percent(np.quantile(random, 0.1))}, the best "
        f"{percent(random[0])}. They are made of {optimum['kept']:,} pmappings, of {optimum['pmappings']:,} Pareto-optimal ones; "
        "the others fit no neighbour.",
        f"Timeloop's own stop rules would have ended its runs {stop}; it is run on without them.",
    ]
    return "\n".join(f"- {line}" for line in lines if line)


def _bought(found: Found, mapper: str) -> float:
    """Mappings tried per unit, in the largest budget that is done."""
    runs = found.runs[mapper, found.done(mapper)[-1]]
    return float(sum(run["tried"] for run in runs) / sum(run["spent"] for run in runs))


def _at_one(found: Found) -> str:
    if 1.0 not in found.done(SET):
        return ""
    values = found.at_end(SET, 1.0)
    return (
        f"At 1×, SET is {_mean(values)} above the optimum; in the paper all baselines are at about {percent(PAPER[1])}."
    )


def _as_mappings(found: Found, bought: float | None) -> str:
    """Where our SET is as far as the paper's, in mappings tried: what one of the paper's units would be here."""
    points = []
    for budget in found.done(SET):
        values = found.at_end(SET, budget)
        values = values[~np.isnan(values)]  # the smallest budget may be too small to find any mapping
        if len(values) and values.mean() > 0:
            tried = float(np.mean([run["tried"] for run in found.runs[SET, budget]]))
            points.append((float(np.log(values.mean())), float(np.log(tried))))
    units, said = [], []
    for times, far in PAPER.items():
        for (a, low), (b, high) in zip(points, points[1:], strict=False):
            if b <= np.log(far) <= a and a > b:
                tried = np.exp(low + (a - np.log(far)) / (a - b) * (high - low))
                units.append(tried / times)
                said.append(f"{percent(far)} after {tried:,.0f} mappings (paper: {times:,}×)")
                break
    if len(units) < 2 or bought is None:
        return ""
    spread = max(units) / min(units)
    agree = "so this alone may explain" if spread <= ALIKE else "so this alone does not explain"
    return (
        f"SET gets as far as the paper's here with so many mappings tried: {', '.join(said)}. If one of the paper's units "
        f"bought {min(units):,.0f} to {max(units):,.0f} mappings (it does not say how many), the two would agree; here one buys "
        f"{bought:,.0f}, {bought / max(units):,.0f} to {bought / min(units):,.0f} times as many. The points differ by a factor of "
        f"{spread:.2g}, {agree} the difference. fusiest evaluates all groups of an Einsum together, from inner nests that they "
        "share; baselines are charged no more for a group than its share in that."
    )


def _cooling(found: Found) -> str:
    """SET on its way to a large budget, against SET that has cooled by then."""
    done = found.done(SET)
    marks = [budget for budget in done[:-1] if budget >= 1]
    said = [
        f"{percent(float(found.at(SET, done[-1], b).mean()))} at {b:,g}× instead of {percent(float(found.at_end(SET, b).mean()))}"
        for b in marks
    ]
    if not said:
        return ""
    return (
        f"SET cools over its budget. With {done[-1]:,g}× as the budget, it is on its way {', '.join(said)}. The paper "
        "says that baselines ended at 10,000×, and not which budget SET was given; its curve may be such a way."
    )


def _ends(found: Found, runs: Sequence[Data]) -> np.ndarray:
    return np.array([above(run, found.optimum, np.inf) for run in runs])


def above(run: Data, optimum: Data, times: float) -> float:
    """The best that a run had found by then, as a fraction above the optimum; nan if nothing.

    Below the optimum there is nothing, unless one of the two is wrong.
    """
    scores = [score for spent, score in run["history"] if spent <= times]
    if not scores:
        return np.nan
    found = float(scores[-1] / optimum["edp"] - 1)
    if found < -ROUNDING:
        raise FusiestError(
            f"a baseline found {scores[-1]:.9g} Js, less than the optimum, {optimum['edp']:.9g} Js: this is a bug"
        )
    return max(found, 0.0)


def _free_groups(found: Found, charged: Charged) -> str:
    """What it would cost to pay for all groups of each mapping."""
    if 1.0 not in found.done(SET) or 1.0 not in charged:
        return ""
    tried, free = (np.mean([run["tried"] for run in runs]) for runs in (charged[1.0], found.runs[SET, 1.0]))
    return (
        "Groups that the mapping it was changed from already has are free here; the paper does not say whether they are there. "
        f"If they were not, SET would try {tried:,.0f} mappings in 1× instead of {free:,.0f}, and be "
        f"{_mean(_ends(found, charged[1.0]))} above the optimum (in the table: nothing free)."
    )
