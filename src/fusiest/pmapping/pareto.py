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
    if len(groups) > 1:
        criteria = criteria[:, (criteria != criteria[0]).any(axis=0)]
    if criteria.shape[1] == 0:
        criteria = np.zeros((len(groups), 1))
    criteria = np.ascontiguousarray(criteria)
    count = int(groups.max()) + 1
    if groups.min() >= 0 and count <= 4 * len(groups) + 1024:
        order, starts = kernels.by_group(groups, count, criteria)
    else:
        order = np.lexsort((criteria[:, 0], groups))
        sorted_groups = groups[order]
        starts = np.flatnonzero(np.r_[True, sorted_groups[1:] != sorted_groups[:-1], True])
    keep = np.zeros(len(groups), np.bool_)
    kernels.prune_sorted(order, starts, criteria, keep)
    result: Ints = order[keep[order]]
    return result
