"""Bounds of rank variables: the box around the integer points of an Einsum's iteration space.

Interval propagation narrows the box; a search for an integer point on each face makes it exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from fusiest.spec.language.affine import MAX_CONSTANT, Affine
from fusiest.spec.reading.budget import Budget

Box = dict[str, tuple[float, float]]
MAX_STEPS, MAX_STEPS_PER_EINSUM = 200_000, 300


class EmptySpace(Exception):
    """No integer point satisfies the constraints."""


def bounds_budget(einsums: int = 1) -> Budget:
    """How many coefficients all Einsums together may look at."""
    message = "the constraints are too intricate; give direct bounds such as '0 <= m < 128'"
    return Budget(MAX_STEPS + MAX_STEPS_PER_EINSUM * einsums, message)


def bounding_box(inequalities: Iterable[Affine], variables: Sequence[str], budget: Budget | None = None) -> Box:
    """Least and greatest value of each variable; infinite where nothing bounds it. Takes from the budget what it needs.

    >>> from fusiest.spec.language.affine import Constraint
    >>> bounding_box(Constraint("0 <= r < 3 and 0 <= p + r < 10 and 0 <= p").inequalities(), ["p", "r"])
    {'p': (0, 9), 'r': (0, 2)}
    """
    inequalities = list(inequalities)
    if any(a.constant < 0 for a in inequalities if not a.variables):
        raise EmptySpace
    search = _BoxSearch([a for a in inequalities if a.variables], budget or bounds_budget())
    box: Box = dict.fromkeys(variables, (-math.inf, math.inf))
    search.propagate(box)
    if any(math.isinf(side) for sides in box.values() for side in sides):
        return box
    joint = {v for a in search.rows if len(a.variables) > 1 for v in a.variables}
    for variable in variables:
        if variable in joint:
            box[variable] = search.tighten(box, variable)
    return box


class _BoxSearch:
    """The inequalities, and what may still be spent on them."""

    def __init__(self, rows: Sequence[Affine], budget: Budget) -> None:
        self.rows = rows
        self.budget = budget

    def propagate(self, box: Box) -> None:
        """Narrow every interval by every inequality until nothing changes."""
        changed = True
        while changed:
            changed = False
            for row in self.rows:
                self.budget.spend(len(row.coefficients))
                changed |= _narrow(box, row)

    def tighten(self, box: Box, variable: str) -> tuple[float, float]:
        """Move both ends inwards until an integer point lies on them."""
        low, high = box[variable]
        while not self.has_point({**box, variable: (low, low)}):
            low += 1
            if low > high:
                raise EmptySpace
        while not self.has_point({**box, variable: (high, high)}):
            high -= 1
        return low, high

    def has_point(self, box: Box) -> bool:
        """Whether an integer point lies in the box: halve it until a corner fits or nothing is left."""
        todo = [box]
        while todo:
            box = todo.pop()
            try:
                self.propagate(box)
            except EmptySpace:
                continue
            corner = {v: low for v, (low, _) in box.items()}
            if all(row.constant + sum(a * corner[v] for v, a in row.coefficients.items()) >= 0 for row in self.rows):
                return True
            # Where every interval is a point, propagation has seen all inequalities hold: the corner fitted.
            branch = min((v for v, (low, high) in box.items() if low < high), key=lambda v: box[v][1] - box[v][0])
            low, high = box[branch]
            middle = (low + high) // 2
            todo += [{**box, branch: (middle + 1, high)}, {**box, branch: (low, middle)}]
        return False


def _narrow(box: Box, row: Affine) -> bool:
    """Narrow the variables of one inequality; whether anything changed."""
    changed = False
    greatest = {v: a * box[v][1 if a > 0 else 0] for v, a in row.coefficients.items()}
    unbounded = [v for v, g in greatest.items() if g == math.inf]
    if len(unbounded) > 1:
        return False
    total = row.constant + sum(g for g in greatest.values() if g != math.inf)
    for v in unbounded or row.coefficients:
        a, (low, high) = row.coefficients[v], box[v]
        rest = total if unbounded else total - greatest[v]
        if a > 0:
            low = max(low, -(rest // a))
        else:
            high = min(high, rest // -a)
        if low > high:
            raise EmptySpace
        # An end beyond all sizes says no more than none, and ends that grow from row to row would have no limit.
        if (low, high) != box[v] and abs(low if a > 0 else high) <= MAX_CONSTANT:
            box[v] = (low, high)
            changed = True
    return changed
