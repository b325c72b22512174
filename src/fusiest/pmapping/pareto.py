"""Pareto pruning of rows in groups, on top of the compiled kernels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fusiest.pmapping.lattice import kernels

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_MANY = 2048
_TURNS = 2


def pareto_rows(groups: Ints, criteria: Floats) -> Ints:
    """Indices of the rows that no row of the same group dominates, ordered by group."""
    if len(groups) == 0:
        return np.empty(0, np.int64)
    count = int(groups.max()) + 1
    if groups.min() < 0 or count > 4 * len(groups) + 1024:
        values, groups = np.unique(groups, return_inverse=True)
        count = len(values)
    result: Ints = kernels.pareto(groups, count, np.ascontiguousarray(criteria), False)
    return result


def nearly_pareto(groups: Ints, criteria: Floats) -> Ints:
    """Indices of rows such that every other row is dominated; of many rows, some dominated ones stay.

    Rows are compared with similar ones only, so the time does not grow with the square of their number.
    """
    if len(groups) <= _MANY:
        return pareto_rows(groups, criteria)
    rows = np.arange(len(groups))
    groups = np.unique(groups, return_inverse=True)[1]
    for turn in range(_TURNS):
        logs = np.log1p(np.abs(criteria[rows]))
        pieces = np.empty(len(rows), np.int64)
        for number, piece in enumerate(similar(logs[:, turn::_TURNS], np.arange(len(rows)), _MANY // 4)):
            pieces[piece] = number
        rows = rows[pareto_rows(groups[rows] * (int(pieces.max()) + 1) + pieces, criteria[rows])]
    return rows


def similar(features: Floats, rows: Ints, most: int) -> list[Ints]:
    """Cut rows into pieces of similar ones.

    They are halved by the feature in which they differ most, until no piece has more than `most` rows.
    """
    if len(rows) <= most:
        return [rows]
    values = features[rows]
    order = rows[np.argsort(values[:, np.argmax(np.ptp(values, axis=0))], kind="stable")]
    half = len(order) // 2
    return similar(features, order[:half], most) + similar(features, order[half:], most)
