"""A sweep as text: how far it is, what failed, and the best designs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from fusiest.base.objective import OBJECTIVES
from fusiest.show import hours, si
from fusiest.sweeps import Answer, Counts, DesignFigures, unproven_words
from fusiest.terminal.component_table import area
from fusiest.terminal.grid import Part, grid

_MOST = 20
"""Designs that are printed; a table file has all."""
_QUIET_SECONDS = 15.0


def sweep_parts(
    counts: Counts,
    answers: Sequence[Answer],
    designs: Sequence[DesignFigures],
    best: Sequence[DesignFigures],
    words: str,
    heads: Mapping[str, str],
) -> list[Part]:
    """Counts, failures by kind, and the best. `heads`: the heading of each cost."""
    parts: list[Part] = [Text(f"{counts.finished:,} of {counts.total:,} runs: {counts}", "bold")]
    reasons = Counter((a.row.status, a.row.reason) for a in answers if a.how == "failed")
    for (status, reason), count in reasons.most_common(_MOST):
        parts.append(Text(f"  {count:,} {status}" + (f": {reason}" if reason else ""), "yellow"))
    if unproven := unproven_words(answers):
        parts.append(Text(f"  {unproven}", "yellow"))
    parts += ["", Text(f"{words}, of {len(designs):,} designs", "bold"), designs_grid(best[:_MOST], heads)]
    if len(best) > _MOST:
        parts.append(f"… and {len(best) - _MOST:,} more: --table has all")
    return parts


def designs_grid(designs: Sequence[DesignFigures], heads: Mapping[str, str]) -> Part:
    """A row per design."""
    if not designs:
        return "none"
    names = list(designs[0].design.values)
    table = grid(*(f">{name}" for name in names), *(f">{head}" for head in heads.values()), "?>area")
    for figures in designs:
        values = (_value(figures.design.values[name]) for name in names)
        costs = (si(figures[name], OBJECTIVES[name].unit) for name in heads)
        table.add(*values, *costs, _area(figures["area"]))
    return table


def _area(square_metres: float) -> str:
    return area(square_metres) if square_metres else "–"


def _value(value: object) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def status_parts(state: Mapping[str, Any]) -> list[Part]:
    """What a sweep last said, and whether it still runs."""
    if not state:
        return ["this store knows nothing of this sweep"]
    numbers: dict[str, Any] = {name: value for name, value in state.items() if isinstance(value, (int, float))}
    counts = Counts(**{name: value for name, value in numbers.items() if name in Counts.__dataclass_fields__})
    ago = time.time() - numbers.get("time", 0.0)
    alive = ago < _QUIET_SECONDS and counts.finished < counts.total
    where = f"process {state.get('pid')} on {state.get('host')}, {hours(max(0.0, ago))} ago"
    if counts.finished >= counts.total:
        word = f"finished: {where}"
    else:
        word = f"running: {where}" if alive else f"not running, last heard of: {where}; the same command goes on"
    return [Text(f"{counts.finished:,} of {counts.total:,} runs: {counts}", "bold"), word]
