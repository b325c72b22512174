"""SET: simulated annealing over placements, shared loops and what is inside each Einsum.

J. Cai et al., "Inter-layer Scheduling Space Definition and Exploration for Tiled Accelerators", ISCA 2023. Temperature
and acceptance are those of its published code.
"""

# mypy: disallow-untyped-defs=False
# Numba finds the types of compiled code.

from __future__ import annotations

import math

import numpy as np

from fusiest.experiments.baselines.compiled_baselines import copy, kernel
from fusiest.experiments.baselines.kernels import change, uniform
from fusiest.experiments.baselines.record import BEST, BUDGET, CURRENT, PHASE, SPENT, STUCK, goes_on, judge
from fusiest.experiments.baselines.sampling import draw

MOST_TRIES = 1_000
"""Moves tried for one that is compatible; those that are not cost nothing."""
RETURN_TO_BEST = 0.9


@kernel
def move(s, w, r, genes, candidate):
    """A compatible neighbour of `genes`, in `candidate`: its score, inf if it is invalid."""
    for _ in range(MOST_TRIES):
        copy(candidate, genes)
        if change(s, w, candidate):
            score = judge(s, w, r, candidate, genes, False)
            if not np.isnan(score):
                r.counts[STUCK] = 0
                return score
    r.counts[STUCK] += 1
    r.amounts[SPENT] += 1.0
    return np.inf


@kernel
def accepted(w, score, current, fraction):
    """Whether to go on from a choice with this score after this fraction of the budget."""
    temperature = 0.07 * (1 - fraction) / (1 + 8 * fraction)
    return score < current or (
        temperature > 0 and uniform(w) < math.exp(-((score - current) / max(current, 1e-300)) / temperature)
    )


@kernel
def anneal(s, w, r, genes, candidate, until):
    """Go on annealing from `genes` until so many evaluations are spent; `candidate` is scratch space."""
    while goes_on(r, until):
        current = r.amounts[CURRENT]
        if np.isinf(current):
            r.amounts[CURRENT] = draw(s, w, r, genes)
            continue
        fraction = min(r.amounts[SPENT] / r.amounts[BUDGET], 1.0)
        if fraction >= RETURN_TO_BEST and not r.counts[PHASE]:
            r.counts[PHASE] = 1
            copy(genes, r.best)
            current = r.amounts[BEST]
        score = move(s, w, r, genes, candidate)
        if accepted(w, score, current, fraction):
            copy(genes, candidate)
            current = score
        r.amounts[CURRENT] = current
