"""Pareto pruning of rows in groups, on top of the compiled kernels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fusiest.pmapping import kernels

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def pareto_rows(groups: Ints, criteria: Floats) -> Ints:
    """Indices of the rows that no row of the same group dominates, ordered by group."""
    if len(groups) == 0:
        return np.empty(0, np.int64)
    count = int(groups.max()) + 1
    if groups.min() < 0 or count > 4 * len(groups) + 1024:
        values, groups = np.unique(groups, return_inverse=True)
        count = len(values)
    result: Ints = kernels.pareto(groups, count, np.ascontiguousarray(criteria))
    return result
