"""Affine expressions and constraints, read and written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusiest.base.errors import Located, Source, SpecError
from fusiest.base.frozen import FrozenDict
from fusiest.spec.language.affine import Affine, Constraint

names = st.sampled_from(["p", "q", "r", "n0"])
coefficients = st.integers(-9, 9).filter(bool)


@settings(max_examples=200, derandomize=True)
@given(st.dictionaries(names, coefficients, max_size=4), st.integers(-9, 9))
def test_an_affine_is_read_as_it_is_written(terms: dict[str, int], constant: int) -> None:
    affine = Affine(FrozenDict(terms), constant)
    assert Affine.parse(str(affine)) == affine


@pytest.mark.parametrize(
    ("text", "terms", "constant"),
    [
        ("p", {"p": 1}, 0),
        ("2*p + r - 1", {"p": 2, "r": 1}, -1),
        ("p*2", {"p": 2}, 0),
        ("-(p - 3*r)", {"p": -1, "r": 3}, 0),
        ("p - p", {}, 0),
        ("2*(p + 3)", {"p": 2}, 6),
        ("7", {}, 7),
    ],
)
def test_parse(text: str, terms: dict[str, int], constant: int) -> None:
    assert Affine.parse(text) == Affine(FrozenDict(terms), constant)


@pytest.mark.parametrize(
    "text",
    ["p*r", "p/2", "p**2", "p + 0.5", "f(p)", "p if r else q", "True", "p[0]", "", "9" * 30, "*".join(["9" * 18] * 4)],
)
def test_what_is_not_affine(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        Affine.parse(Located(text, Source("f.yaml", 3)))
    assert str(caught.value).startswith("f.yaml:3: ")


def test_a_sum_or_product_of_many_terms() -> None:
    assert Affine.parse("+".join(["p"] * 990)) == Affine(FrozenDict({"p": 990}))
    assert Affine.parse("*".join(["1"] * 990) + "*p") == Affine(FrozenDict({"p": 1}))


@pytest.mark.parametrize("text", ["{0} * {0} * p", "{0} + {0} + {0}", "p * {0} + 4 * {0} * p", "-({0} * p) * {0}"])
def test_numbers_that_grow_too_large(text: str) -> None:
    with pytest.raises(SpecError, match=r"^f\.yaml:3: a number in .* is too large$"):
        Affine.parse(Located(text.format(2 * 10**18), Source("f.yaml", 3)))


def holds(constraint: str, **point: int) -> bool:
    return all(
        row.constant + sum(a * point[v] for v, a in row.coefficients.items()) >= 0
        for row in Constraint(constraint).inequalities()
    )


@pytest.mark.parametrize(
    ("constraint", "good"),
    [
        ("0 <= p < 3", [0, 1, 2]),
        ("3 > p >= 1", [1, 2]),
        ("2*p == 4", [2]),
        ("p > 1 and p < 4 and p <= 2", [2]),
        ("-1 < -p + 2", [-1, 0, 1, 2]),
    ],
)
def test_constraints(constraint: str, good: list[int]) -> None:
    assert [p for p in range(-1, 6) if holds(constraint, p=p)] == good


def test_variables() -> None:
    assert Constraint("0 <= p + r < q").variables == {"p", "q", "r"}


@pytest.mark.parametrize("text", ["p", "p + 1", "p != 3", "0 <= p or p < 3", "not p < 3", "p in q", "0 <= p*p < 3"])
def test_what_is_not_a_constraint(text: str) -> None:
    with pytest.raises(SpecError):
        Constraint(text)
