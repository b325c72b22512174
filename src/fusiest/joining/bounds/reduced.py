"""Drops pmappings that no better mapping can have, before anything is joined.

The least cost of all other Einsums, given how an Einsum exchanges its tensors, is the relaxed bound from both sides.
With fewer pmappings left, least costs rise, and so do all bounds that are made of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fusiest.base.objective import IMPOSSIBLE
from fusiest.joining.bounds.relaxed import LowerBounds
from fusiest.joining.problem import Group, JoinProblem
from fusiest.joining.rows.incumbents import Flags, Incumbents
from fusiest.pmapping import Rows


def reduced(
    problem: JoinProblem, bounds: LowerBounds, incumbents: Incumbents, begin: frozenset[str] = frozenset()
) -> JoinProblem:
    """Keep only the pmappings that may be part of a better mapping (proof 9).

    Groups keep their numbers, even without rows. Einsums that differ only by names still share their rows: a row stays
    if one of them can use it.
    """
    keep: dict[int, Flags] = {}
    for einsum, leasts in bounds.least_of_others(begin):
        for relaxed, (_, rows) in zip(problem.relaxed(einsum), problem.groups[einsum], strict=True):
            least = leasts.get(relaxed, IMPOSSIBLE)
            flags = keep.setdefault(id(rows.energy), np.zeros(len(rows), np.bool_))
            if np.isfinite(least.energy) and not flags.all():
                flags |= incumbents.promising(rows.energy, rows.latency, least)
    reduced_rows: dict[int, Rows] = {}

    def promising(rows: Rows) -> Rows:
        number = id(rows.energy)
        if number not in keep or keep[number].all():
            return rows
        if number not in reduced_rows:
            reduced_rows[number] = rows.take(np.flatnonzero(keep[number]))
        return reduced_rows[number]

    groups = {
        e: [Group(c, promising(rows)) for c, rows in einsum_groups] for e, einsum_groups in problem.groups.items()
    }
    return replace(problem, groups=groups)
