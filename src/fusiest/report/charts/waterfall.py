"""From the unfused optimum to the best mapping, a fused set at a time, as charts: each bar begins where the one before ends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from fusiest.base.objective import OBJECTIVES
from fusiest.report.charts.chart import Bars, Series

MOST_SETS = 24
"""That have a bar of their own: those that change most."""
_LONGEST = 22
"""Characters of a name beside a bar."""


def waterfall_charts(changes: dict[str, Any] | None) -> dict[str, Bars]:
    """What is minimized first: energy and latency, which each set changes by itself, and their product."""
    steps: Sequence[tuple[str, float, float]] = changes["steps"] if changes else ()
    if changes is None or not steps:
        return {}
    steps = _shown(steps)
    names = [_short(name) for name, _, _ in steps]
    energies = list(accumulate(energy for _, energy, _ in steps))
    latencies = list(accumulate(latency for _, _, latency in steps))
    charts = {
        "waterfall-energy": _waterfall("Energy", "J", names, energies),
        "waterfall-latency": _waterfall("Latency", "s", names, latencies),
    }
    aim = OBJECTIVES[changes["aim"]]
    if aim.is_product:
        scores = [aim.score_of(*costs) for costs in zip(energies, latencies, strict=True)]
        charts[f"waterfall-{changes['aim']}"] = _waterfall(aim.title.capitalize(), aim.unit, names, scores)
    return charts


def _shown(steps: Sequence[tuple[str, float, float]]) -> list[tuple[str, float, float]]:
    """The unfused optimum and the sets that change most, in their order; then all others as one."""
    whole, sets = steps[0], steps[1:]
    if len(sets) <= MOST_SETS + 1:
        return list(steps)
    energy, latency = whole[1] or 1.0, whole[2] or 1.0
    sizes = [max(abs(bar[1] / energy), abs(bar[2] / latency)) for bar in sets]
    most = set(sorted(range(len(sets)), key=lambda i: -sizes[i])[:MOST_SETS])
    others = [bar for i, bar in enumerate(sets) if i not in most]
    rest = (f"{len(others)} others", sum(bar[1] for bar in others), sum(bar[2] for bar in others))
    return [whole, *(sets[i] for i in sorted(most)), rest]


def _short(name: str) -> str:
    """A set's name that fits beside a bar.

    >>> _short("Q + K"), _short("Q + K + QK + QK_softmax + AV"), _short("Convolution1_of_the_first_stage + Relu")
    ('Q + K', 'Q … AV (5 Einsums)', 'Convoluti… (2 Einsums)')
    """
    einsums = name.split(" + ")
    count = f" ({len(einsums)} Einsums)" if len(einsums) > 1 else ""
    between = f"{einsums[0]} … {einsums[-1]}{count}"
    if len(name) <= _LONGEST or (count and len(between) <= _LONGEST):
        return name if len(name) <= _LONGEST else between
    return f"{einsums[0][: _LONGEST - 1 - len(count)]}…{count}"


def _waterfall(what: str, unit: str, names: Sequence[str], after: Sequence[float]) -> Bars:
    """`after`: the cost of everything once each set is fused; first, of the unfused optimum."""
    changes = [now - before for before, now in pairwise(after)]
    empty = [None] * (len(changes) + 1)
    series = [
        Series(name="unfused optimum", color="other", values=[after[0], *empty]),
        Series(
            name="saved", color="set:2", values=[None, *(change if change <= 0 else None for change in changes), None]
        ),
        Series(
            name="added", color="bound", values=[None, *(change if change > 0 else None for change in changes), None]
        ),
        Series(name="this mapping", color="found", values=[*empty, after[-1]]),
    ]
    return Bars(
        title=f"{what}, a fused set at a time",
        axis=what.lower(),
        unit=unit,
        categories=[*names, "this mapping"],
        series=[bars for bars in series if any(bars.values)],
        starts=[0.0, *after[:-1], 0.0],
    )
