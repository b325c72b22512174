"""What a baseline has spent and found so far: evaluations, the best mapping, and when each better one was found."""

# mypy: disallow-untyped-defs=False
# Numba finds the types of compiled code.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fusiest.base.objective import objective_of
from fusiest.experiments.baselines.compiled_baselines import copy, kernel
from fusiest.experiments.baselines.kernels import INCOMPATIBLE, VALID, evaluate, price

SPENT, BUDGET, BEST, CURRENT, STOPPED, TARGET = 0, 1, 2, 3, 4, 5
RECORDED, VALID_ONES, INVALID_ONES, SINCE_BEST, INVALID_RUN, PHASE, STUCK = 0, 1, 2, 3, 4, 5, 6
MOST_STUCK = 100
"""Moves in a row that found no compatible neighbour at all in many tries: where there is none, none will be found."""
_HISTORY, _ROOM = 2048, 256


class SearchRecord(NamedTuple):
    """Compiled code counts here."""

    amounts: npt.NDArray[np.float64]
    """Evaluations spent, the budget, the best score, the current score, when a stop rule first applied, and the score
    that is good enough."""
    counts: npt.NDArray[np.int64]
    best: npt.NDArray[np.int64]
    history: npt.NDArray[np.float64]
    """Evaluations spent, energy, latency, whenever a better mapping was found; read and emptied between calls."""
    powers: npt.NDArray[np.int64]
    """Powers of energy and latency, whose product is minimized, of a front, too."""


def make_record(einsums: int, budget: float, objective: tuple[str, ...], target: float = 0.0) -> SearchRecord:
    amounts = np.array([0.0, budget, np.inf, np.inf, 0.0, target])
    return SearchRecord(
        amounts, np.zeros(7, np.int64), np.zeros(einsums, np.int64), np.zeros((_HISTORY, 3)),
        np.array(objective_of(objective).powers),
    )  # fmt: skip


@kernel
def goes_on(r, until):
    """Whether to do more before returning to the caller."""
    room = r.counts[RECORDED] < len(r.history) - _ROOM
    moves = r.counts[STUCK] < MOST_STUCK
    return r.amounts[SPENT] < until and r.amounts[BEST] > r.amounts[TARGET] and room and moves


@kernel
def judge(s, w, r, genes, paid, fresh):
    """Evaluate, charge and note a choice: its score, inf if it does not fit into memory, nan if it fits no neighbours.

    A choice that is not compatible costs nothing, nor do groups that `paid` has, unless `fresh`.
    """
    status = evaluate(s, w, genes)
    if status == INCOMPATIBLE:
        return np.nan
    r.amounts[SPENT] += price(s, genes, paid, fresh)
    if status != VALID:
        r.counts[INVALID_ONES] += 1
        r.counts[INVALID_RUN] += 1
        return np.inf
    r.counts[VALID_ONES] += 1
    r.counts[SINCE_BEST] += 1
    r.counts[INVALID_RUN] = 0
    score = 1.0
    for i in range(2):
        for _ in range(r.powers[i]):
            score *= w.cost[i]
    if score < r.amounts[BEST]:
        r.amounts[BEST] = score
        copy(r.best, genes)
        r.counts[SINCE_BEST] = 0
        r.history[r.counts[RECORDED], 0] = r.amounts[SPENT]
        r.history[r.counts[RECORDED], 1] = w.cost[0]
        r.history[r.counts[RECORDED], 2] = w.cost[1]
        r.counts[RECORDED] += 1
    return score
