"""Timeloop: random pmappings, one per Einsum, until many in a row are invalid or none is better.

A. Parashar et al., "Timeloop: A Systematic Approach to DNN Accelerator Evaluation", ISPASS 2019.
"""

# mypy: disallow-untyped-defs=False
# Numba finds the types of compiled code.

from __future__ import annotations

import numpy as np

from fusiest.experiments.baselines.compiled_baselines import kernel
from fusiest.experiments.baselines.kernels import sample
from fusiest.experiments.baselines.record import INVALID_RUN, SINCE_BEST, SPENT, STOPPED, goes_on, judge

MOST_INVALID, MOST_WITHOUT_BETTER = 1_000, 500


@kernel
def draw(s, w, r, genes):
    """One random choice: its score, inf if it is invalid."""
    if sample(s, w, genes):
        score = judge(s, w, r, genes, genes, True)
        if not np.isnan(score):
            return score
    r.amounts[SPENT] += 1.0
    r.counts[INVALID_RUN] += 1
    return np.inf


@kernel
def timeloop(s, w, r, genes, until, stop):
    """Sample until so many evaluations are spent or, if `stop`, a stop rule applies."""
    while goes_on(r, until):
        draw(s, w, r, genes)
        if r.counts[INVALID_RUN] >= MOST_INVALID or r.counts[SINCE_BEST] >= MOST_WITHOUT_BETTER:
            if r.amounts[STOPPED] == 0:
                r.amounts[STOPPED] = r.amounts[SPENT]
            if stop:
                return
