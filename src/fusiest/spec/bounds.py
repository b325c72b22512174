"""Bounds of rank variables: the box around the integer points of an Einsum's iteration space.

Interval propagation narrows the box; a search for an integer point on each face makes it exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from fusiest.errors import SpecError
from fusiest.spec.affine import Affine

Box = dict[str, tuple[float, float]]
_ROUNDS = 10_000
_SEARCH_STEPS = 20_000


class EmptySpace(Exception):
    """No integer point satisfies the constraints."""


def bounding_box(inequalities: Iterable[Affine], variables: Sequence[str]) -> Box:
    """Least and greatest value of each variable; infinite where nothing bounds it.

    >>> from fusiest.spec.affine import Constraint
    >>> bounding_box(Constraint("0 <= r < 3 and 0 <= p + r < 10 and 0 <= p").inequalities(), ["p", "r"])
    {'p': (0, 9), 'r': (0, 2)}
    """
    rows = [a for a in inequalities if a.variables]
    if any(a.constant < 0 for a in inequalities if not a.variables):
        raise EmptySpace
    box: Box = dict.fromkeys(variables, (-math.inf, math.inf))
    _propagate(box, rows)
    if any(math.isinf(side) for sides in box.values() for side in sides):
        return box
    shared = [a for a in rows if len(a.variables) > 1]
    for variable in {v for a in shared for v in a.variables}:
        box[variable] = _tighten(box, rows, variable)
    return box


def _propagate(box: Box, rows: Sequence[Affine]) -> None:
    """Narrow every interval by every inequality until nothing changes."""
    for _ in range(_ROUNDS):
        changed = False
        for row in rows:
            greatest = {v: a * box[v][1 if a > 0 else 0] for v, a in row.coefficients.items()}
            for v, a in row.coefficients.items():
                rest = row.constant + sum(g for other, g in greatest.items() if other != v)
                if math.isinf(rest):
                    continue
                low, high = box[v]
                if a > 0:
                    low = max(low, -(rest // a))
                else:
                    high = min(high, rest // -a)
                if low > high:
                    raise EmptySpace
                if (low, high) != box[v]:
                    box[v] = (low, high)
                    changed = True
        if not changed:
            return
    raise SpecError("the iteration space constraints are too intricate; give direct bounds such as '0 <= m < 128'")


def _tighten(box: Box, rows: Sequence[Affine], variable: str) -> tuple[float, float]:
    """Move both ends inwards until an integer point lies on them."""
    steps = [_SEARCH_STEPS]
    low, high = box[variable]
    while not _has_point({**box, variable: (low, low)}, rows, steps):
        low += 1
        if low > high:
            raise EmptySpace
    while not _has_point({**box, variable: (high, high)}, rows, steps):
        high -= 1
    return low, high


def _has_point(box: Box, rows: Sequence[Affine], steps: list[int]) -> bool:
    steps[0] -= 1
    if steps[0] < 0:
        raise SpecError("the iteration space constraints are too intricate; give direct bounds such as '0 <= m < 128'")
    box = dict(box)
    try:
        _propagate(box, rows)
    except EmptySpace:
        return False
    open_variables = [v for v, (low, high) in box.items() if low < high]
    if not open_variables:
        return True
    corner = {v: low for v, (low, _) in box.items()}
    if all(row.constant + sum(a * corner[v] for v, a in row.coefficients.items()) >= 0 for row in rows):
        return True
    branch = min(open_variables, key=lambda v: box[v][1] - box[v][0])
    low, high = box[branch]
    middle = (low + high) // 2
    return _has_point({**box, branch: (low, middle)}, rows, steps) or _has_point(
        {**box, branch: (middle + 1, high)}, rows, steps
    )
