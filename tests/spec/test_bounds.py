"""Bounds of rank variables against all points of small boxes."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusiest.base.errors import SpecError
from fusiest.base.frozen import FrozenDict
from fusiest.spec.language.affine import Affine, Constraint
from fusiest.spec.workload.variable_bounds import Box, EmptySpace, bounding_box, bounds_budget

NAMES = ("p", "q", "r")
LIMIT = 6
small = st.integers(-4, 4)
affines = st.builds(
    lambda coefficients, constant: Affine(FrozenDict({v: a for v, a in coefficients.items() if a}), constant),
    st.dictionaries(st.sampled_from(NAMES), small, max_size=3),
    st.integers(-8, 8),
)
sides = [Affine(FrozenDict({v: 1}), LIMIT) for v in NAMES] + [Affine(FrozenDict({v: -1}), LIMIT) for v in NAMES]


def by_trying_all(rows: list[Affine]) -> Box | None:
    points = [
        point
        for point in itertools.product(range(-LIMIT, LIMIT + 1), repeat=len(NAMES))
        if all(r.constant + sum(a * point[NAMES.index(v)] for v, a in r.coefficients.items()) >= 0 for r in rows)
    ]
    if not points:
        return None
    return {v: (min(p[i] for p in points), max(p[i] for p in points)) for i, v in enumerate(NAMES)}


@settings(max_examples=100)
@given(st.lists(affines, max_size=4))
def test_the_box_is_that_of_all_points(rows: list[Affine]) -> None:
    try:
        found: Box | None = bounding_box(iter([*sides, *rows]), NAMES)
    except EmptySpace:
        found = None
    assert found == by_trying_all([*sides, *rows])


def rows(*constraints: str) -> list[Affine]:
    return [row for text in constraints for row in Constraint(text).inequalities()]


def test_what_nothing_bounds_is_infinite() -> None:
    assert bounding_box(rows("0 <= p"), ["p", "q"]) == {"p": (0, math.inf), "q": (-math.inf, math.inf)}


def test_a_convolution() -> None:
    box = bounding_box(rows("0 <= r < 3", "0 <= 2*p + r < 28", "0 <= p"), ["p", "r"])
    assert box == {"p": (0, 13), "r": (0, 2)}


def test_a_gap_between_integers_is_empty() -> None:
    with pytest.raises(EmptySpace):
        bounding_box(rows("0 <= p < 9", "0 <= q < 9", "2*p == 2*q + 1"), ["p", "q"])


def test_a_contradiction_without_variables_is_empty() -> None:
    with pytest.raises(EmptySpace):
        bounding_box(rows("0 <= p < 4 < 3"), ["p"])


@pytest.mark.parametrize(
    "constraints",
    [
        ["p < q", "q < p"],
        ["3*p + 5*q == 7*r + 1", "2*p == 2*r + 1 + 2*q", "0 <= p + q - r < 3"],
        ["6*p + 10*q + 15*r == 7", "p + q + r > 7", "p < q + r", "5*q < 3*r - p"],
    ],
)
def test_hard_constraints_end_in_an_answer_or_an_error(constraints: list[str]) -> None:
    huge = [f"0 <= {v} < 4000000000000000000" for v in NAMES]
    with pytest.raises((SpecError, EmptySpace)):
        bounding_box(rows(*huge, *constraints), NAMES)


def test_ends_do_not_grow_from_row_to_row() -> None:
    names = [f"v{i}" for i in range(20)]
    chain = [f"0 <= {b} < {2**61} * {a}" for a, b in itertools.pairwise(names)]
    box = bounding_box(rows("0 <= v0 < 3", *chain), names)
    assert box["v1"] == (1, 2**62 - 1)
    assert box["v2"] == (1, math.inf)


def test_many_variables_in_one_row_cost_as_many_steps() -> None:
    names = [f"v{i}" for i in range(100)]
    steps = bounds_budget()
    before = steps.remaining
    bounding_box(rows("0 <= " + " + ".join(names), *(f"0 <= {v}" for v in names)), names, steps)
    assert before - steps.remaining == 2 * 200


def test_all_einsums_take_from_the_same_steps() -> None:
    steps = bounds_budget()
    steps.remaining = 10
    bounding_box(rows("0 <= p < 3"), ["p"], steps)
    bounding_box(rows("0 <= p < 3"), ["p"], steps)
    with pytest.raises(SpecError, match="too intricate"):
        bounding_box(rows("0 <= p < 3"), ["p"], steps)
