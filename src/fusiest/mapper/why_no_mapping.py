"""The reason why there is no mapping: which Einsum, which memory or constraint, and by how much."""

from __future__ import annotations

import numpy as np

from fusiest.base.objective import ENERGY
from fusiest.joining import (
    Bounds,
    Coarse,
    Incumbents,
    JoinPass,
    JoinProblem,
    Level,
    NoBounds,
    first_level,
    levels,
    potential,
)
from fusiest.pmapping import NoMapping


def why_not_joined(problem: JoinProblem) -> NoMapping:
    """Each Einsum has pmappings, but they do not fit together: lift one memory's limit at a time to see which."""
    limits = problem.room.sizes
    for m, memory in enumerate(problem.memories):
        sizes = limits.copy()
        sizes[m] = np.inf
        end = _farthest(problem.with_sizes(sizes))
        if _is_complete(problem, end):
            need = min(float(rows.usage()[:, m].min()) for state in end.states for _, rows in state.groups if len(rows))
            less = problem.smallest[m]
            note = f"; while Einsums run for which it is as small as {less:,.0f}, the rest counts as held"
            note = note if less < limits[m] else ""
            return NoMapping(
                f"no valid mapping: the Einsums' tensors do not fit into {memory} together; with the tilings that fit "
                f"elsewhere it would have to hold {need:,.0f} bits, {need - limits[m]:,.0f} more than its size of "
                f"{limits[m]:,.0f}{note}"
            )
    unlimited = problem.with_sizes(np.full_like(limits, np.inf))
    if _is_complete(problem, _farthest(unlimited)):
        names = ", ".join(problem.memories)
        return NoMapping(f"no valid mapping: {names} are all too small for what the Einsums hold in them together")
    finished = _farthest(unlimited, NoBounds()).states[0].finished
    joined = ", ".join(e for e in problem.order if e in finished)
    blocked = next(problem.ready(finished))
    return NoMapping(f"no valid mapping: after Einsums {joined}, no pmapping of {blocked} agrees with any of theirs")


def _is_complete(problem: JoinProblem, level: Level) -> bool:
    return any(state.finished == problem.everything for state in level.states)


def _farthest(problem: JoinProblem, bounds: Bounds | None = None) -> Level:
    """The last level that a coarse pass in listed order reaches, by default bounded by what later Einsums agree on."""
    costs = potential(problem)
    how = JoinPass(costs, bounds or costs.bounds(problem), Incumbents(ENERGY), Coarse())
    farthest = first_level(problem)
    for level in levels(problem, how, lambda: None):
        if not level.states:
            break
        farthest = level
    return farthest
