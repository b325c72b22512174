"""The least weighted sum of energy and latency of an Einsum's pmappings, by iterative deepening (proof 9b).

A run within a line finds every pmapping below it, or one that is no worse. Where it finds nothing, the least is no less
than the line, and the next line lies at the nearest pmapping that the run left out, or a little further.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fusiest.base.objective import CLOSE, Weights
from fusiest.pmapping.explore import EinsumSearch
from fusiest.pmapping.lattice.remaining import Cutoff
from fusiest.pmapping.pareto import Floats
from fusiest.pmapping.question import Effort
from fusiest.pmapping.table import Table

_BEYOND = 0.02
"""How far beyond the nearest pmapping the next line lies, relatively: what is found there joins with others."""

_FASTER, _FARTHEST = 1.5, 0.05
"""How much longer the next step beyond is, and the longest one."""
_NEAR = 0.02
"""How close bounds on a least must be, relatively, for the first line to lie at the upper one."""
_TINY = 1e-200
"""The first line where pmappings may cost nothing."""


class Sum(NamedTuple):
    """A weighted sum of energy and latency, to be as small as possible."""

    weights: Weights
    least: float
    """Lower bound on it."""
    most: float = math.inf
    """The sum of a known pmapping."""


class LeastCosts(NamedTuple):
    """The pmapping with the least weighted sum."""

    total: float
    """Its weighted sum; infinite if there is none."""
    energy: float
    latency: float


NONE = LeastCosts(math.inf, math.inf, math.inf)


@dataclass(frozen=True)
class Deepened:
    """The least of each weighted sum, and the pmappings around them."""

    leasts: tuple[LeastCosts, ...]
    table: Table
    """All pmappings below some of the lines."""
    lines: tuple[float, ...]
    """Per weighted sum, its line: a little above the least."""


def deepened(search: EinsumSearch, sums: Sequence[Sum], latency: float = math.inf) -> Deepened:
    """Find the least of each weighted sum. `latency`: pmappings must be faster."""
    if not search.has_lattices:
        return _of_whole(search, sums, latency)
    lines = [max(_first_line(one), _TINY) for one in sums]
    step = _BEYOND
    while True:
        table = search.table(Effort(cutoff=cutoff_of([s.weights for s in sums], lines, latency)))
        leasts = tuple(least_of(table, one.weights) for one in sums)
        missing = [i for i, least in enumerate(leasts) if least.total >= lines[i]]
        if not missing or table.is_whole:
            return Deepened(leasts, table, tuple(lines))
        for i in missing:
            further = lines[i] * float(search.nearest[i]) * (1 + step)
            lines[i] = min(further, max(lines[i] * (1 + step), sums[i].most * (1 + CLOSE)))
        step = min(_FASTER * step, _FARTHEST)


def _first_line(one: Sum) -> float:
    if one.most <= one.least * (1 + _NEAR):
        return one.most * (1 + CLOSE)
    return one.least * (1 + _BEYOND)


def cutoff_of(weights: Sequence[Weights], lines: Sequence[float], latency: float = math.inf) -> Cutoff:
    """The cutoff of pmappings below one of these lines that are faster than `latency`."""
    points = np.array([(0.0, latency)]) if latency < math.inf else np.empty((0, 2))
    return Cutoff(points, np.array([(*w, most) for w, most in zip(weights, lines, strict=True)], np.float64))


def least_of(table: Table, weights: Weights) -> LeastCosts:
    """The least weighted sum of a table."""
    least = NONE
    for rows in table.groups.values():
        totals: Floats = weights.energy * rows.energy + weights.latency * rows.latency
        best = int(totals.argmin())
        least = min(least, LeastCosts(float(totals[best]), float(rows.energy[best]), float(rows.latency[best])))
    return least


def _of_whole(search: EinsumSearch, sums: Sequence[Sum], latency: float) -> Deepened:
    """The leasts of a table that cutoffs do not make quicker: all of it is explored, once."""
    table = within(search.whole(), Cutoff(np.array([(0.0, latency)]))) if latency < math.inf else search.whole()
    return Deepened(tuple(least_of(table, one.weights) for one in sums), table, (math.inf,) * len(sums))


def within(table: Table, cutoff: Cutoff) -> Table:
    """The pmappings of a table that beat a cutoff."""
    kept = {
        form: rows.take(np.flatnonzero(cutoff.keeps(rows.energy, rows.latency))) for form, rows in table.groups.items()
    }
    groups = {form: rows for form, rows in kept.items() if len(rows)}
    is_whole = sum(map(len, groups.values())) == len(table)
    return replace(table, groups=groups, candidates={}, is_whole=is_whole)
