"""Pmappings that cannot be part of anything better than what is known, left out before anything is joined.

What all other Einsums need at least, given how an Einsum exchanges its tensors, is the relaxed bound again, from both sides.
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
    """The same problem without pmappings from which nothing better can come. Groups keep their numbers, if without rows.

    Einsums that differ only by names have their rows in common, and still do so: what one of them can use, all keep.
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
