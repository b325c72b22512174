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
    order = np.lexsort((criteria.sum(axis=1) if criteria.shape[1] > 1 else criteria[:, 0], criteria[:, 0], groups))
    sorted_groups = groups[order]
    starts = np.flatnonzero(np.r_[True, sorted_groups[1:] != sorted_groups[:-1], True])
    keep = np.zeros(len(groups), np.bool_)
    kernels.prune_sorted(order, starts, np.ascontiguousarray(criteria), keep)
    result: Ints = order[keep[order]]
    return result
