"""Expressions: what they mean, what they refuse, and that no text makes them do anything else."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiest.base.errors import Located, Source, SpecError
from fusiest.spec.language.expressions import (
    NameSet,
    Record,
    Universe,
    boolean,
    by_set,
    evaluate_expression,
    name_set,
    number,
    parse_expression,
)

UNIVERSE = Universe(
    tensors={"A": frozenset("mk"), "B": frozenset("kn"), "Z": frozenset("mn")},
    variables=frozenset("mnk"),
    bits_per_value={"A": 8, "B": 8, "Z": 16},
)
NAMES: dict[str, object] = {
    "A": UNIVERSE.of("A"),
    "B": UNIVERSE.of("B"),
    "Z": UNIVERSE.of("Z"),
    "All": UNIVERSE.of("A", "B", "Z"),
    "Nothing": UNIVERSE.of(),
    "size": 64,
    "actions": (
        Record({"name": "read", "n_calls": 6, "throughput": 2}),
        Record({"name": "write", "n_calls": 10, "throughput": 5.0}),
    ),
}


def members(text: str) -> str:
    return "".join(sorted(name_set(text, NAMES, "keep").members))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1024*1024*128*8", 2**30),
        ("8 * 614e9", 4.912e12),
        ("1_000 + 0x10", 1016),
        ("7 // 2 + 7 % 4 - -1 ** 2", 7),
        ("2 ** 10 ** 2", 2**100),
        ("1 < 2 <= 2 != 3", True),
        ("1 < 2 > 3", False),
        ("not 1 or 2 and 0", False),
        ("3 if size == 64 else 1 / 0", 3),
        ("inf", math.inf),
        ("true and not false", True),
        ("min(3, 1, 2) + max(1, 2)", 3),
        ("ceil(1.2) + floor(1.8) + round(2.6) + abs(-1)", 7),
        ("round(1.26, 1)", 1.3),
        ("ceil(inf)", math.inf),
        ("log2(8) + sqrt(9)", 6.0),
        ("max(a.n_calls / a.throughput for a in actions)", 3.0),
        ("sum([a.n_calls for a in actions if a.name == 'read'])", 6),
        ("sum(1 for a in actions for b in actions if a.name != b.name)", 2),
        ("len(All) == 3", True),
        ("len(actions)", 2),
        ("weight.bits_per_value if weight else 0", 0),
        ("(A | B).bits_per_value", 8),
        ("sum(t.bits_per_value for t in All)", 32),
        ("8 * (len(All) == 3)", 8),
        (" 1 +\n 2 ", 3),
        ("'read' in [a.name for a in actions] and 'x' not in ('y', 1)", True),
        ("A in All and All not in A", True),
        ("max([1, 5, 2]) + sum((1, 2))", 8),
        ("actions[0].n_calls + actions[-1].n_calls", 16),
        ("([1] * 3 + [2])[3] + len([1] * 15)", 17),
        ("sum(x * i for i in range(4) for x in [2])", 12),
        ("[x * x for x in range(3)][2]", 4),
        ("exp(0) + log(exp(2)) + log10(100) + log2(8) + log(8, 2)", 11.0),
        ("pow(2, 3) + gcd(12, 18) + prod([2, 3]) + prod(2, 4) + trunc(-2.5)", 26),
        ("int(2.7) + int('3') + bool(5) + float('2')", 8.0),
        ("isinf(inf) and not isinf(1)", True),
        ("tanh(0) + sin(0) + cos(0)", 1.0),
        ("round(pi, 2)", 3.14),
        ("float('inf')", math.inf),
        ("len(list(All))", 3),
    ],
)
def test_value(text: str, expected: object) -> None:
    value = evaluate_expression(text, {**NAMES, "weight": UNIVERSE.of()})
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A | Z", "AZ"),
        ("~A", "BZ"),
        ("~(A | B) & All", "Z"),
        ("All - A", "BZ"),
        ("A.rank_variables", "km"),
        ("~A.rank_variables", "n"),
        ("A.rank_variables & B.rank_variables", "k"),
        ("~A.tensors", "BZ"),
        ("A if B <= All else Nothing", "A"),
        ("A if A == B else Z", "Z"),
        ("Nothing.rank_variables", ""),
        ("{A, Z}", "AZ"),
        ("{A.rank_variables, Z.rank_variables}", "kmn"),
    ],
)
def test_set(text: str, expected: str) -> None:
    assert members(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("siz", "unknown name 'siz'; did you mean 'size'?"),
        ("mxa(1, 2)", "unknown function 'mxa'; did you mean 'max'?"),
        ("1 / 0", "in '1 / 0': division by zero"),
        ("1 % (1 - 1)", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("9**9**9", "bits"),
        ("2**4000 * 2**4000", "bits"),
        ("sum(2**2046 * 2**2046 for x in All for y in All for z in All)", "bits"),
        ("1e308 * 10", "too large"),
        ("1e999", "too large"),
        ("1e200 ** 2", "too large"),
        ("(-8) ** 0.5", "root"),
        ("inf - inf", "has no value"),
        ("sqrt(-1)", "no value"),
        ("round(5, -10**9)", "digits"),
        ("max(a.n_call for a in actions)", "no attribute 'n_call'; did you mean 'n_calls'?"),
        ("max(a for a in size)", "several values"),
        ("max(a.n_calls for a in actions if 'x')", "condition"),
        ("min(Nothing)", "min of nothing"),
        ("A.rank_variable", "did you mean 'rank_variables'?"),
        ("All.bits_per_value", "wants one tensor"),
        ("Nothing.bits_per_value", "wants one tensor"),
        ("A | A.rank_variables", "do not mix"),
        ("A == A.rank_variables", "do not mix"),
        ("A + B", "'+' cannot be applied to a set of tensors and a set of tensors"),
        ("1 | 2", "wants two sets"),
        ("~1", "say 'not'"),
        ("'a' + 'b'", "text and text"),
        ("'a' < 'b'", "text and text"),
        ("size.bit_length", "a number has no attribute"),
        ("A.__class__", "has no attribute '__class__'"),
        ("().__class__.__base__", "a list has no attribute '__class__'"),
        ("size.real()", "only functions can be called"),
        ("max(1, 2, key=abs)", "no named arguments"),
        ("max(*actions)", "may not be used"),
        ("actions[0:1]", "a slice may not be used"),
        ("size[0]", "only a list has items"),
        ("All[0]", "only a list has items"),
        ("range(10**9)", "10,000 items"),
        ("range(0.5)", "range cannot take these arguments"),
        ("int('x')", "'x' is no number"),
        ("gcd(1.5, 2)", "gcd cannot take these arguments"),
        ("{A, size}", "braces hold sets"),
        ("{A, A.rank_variables}", "do not mix"),
        ("{}", "a dict may not be used"),
        ("lambda: 1", "a lambda may not be used"),
        ("f'{size}'", "an f-string may not be used"),
        ("(x := 1)", "':=' may not be used"),
        ("1 << 9", "'<<' may not be used"),
        ("1 in 2", "'in' wants several values"),
        ("'a' in 'abc'", "'in' wants several values"),
        ("A in A.rank_variables", "do not mix"),
        (
            "sum(1 for a in [x for x in t for y in t for z in t] if 0.5 in [x for x in t for y in t for z in t])",
            "steps",
        ),
        ("sum(max(y) for y in [[x for x in t for y in t for z in t]] for z in t)", "steps"),
        ("None", "None may not be used"),
        ("1j", "may not be used"),
        ("sum(1 for a, b in actions)", "one plain name"),
        ("'\\n' == size", "backslash"),
        ("1 +", "is not an expression"),
        ("", "is not an expression"),
        ("1if size else 2", "a space is missing after a number"),
        ("a\0b", "is not an expression"),
        ("1 # one\n + 2", "is not an expression"),
        ("-" * 1999 + "1", "nested"),
        ("(" * 500 + "1" + ")" * 500, "is not an expression"),
        ("1 + (" * 60 + "1" + ")" * 60, "nested"),
        ("x" * 2001, "2000 characters"),
        ("sum(1 for a in t for b in t for c in t for d in t for e in t)", "steps"),
    ],
)
def test_refused(text: str, message: str) -> None:
    names = {**NAMES, "t": tuple(range(20))}
    with pytest.raises(SpecError) as caught:
        evaluate_expression(Located(text, Source("arch.yaml", 7)), names)
    assert message in str(caught.value)
    assert str(caught.value).startswith("arch.yaml:7: ")
    assert "\n" not in str(caught.value)


def test_a_long_sum_is_not_deep() -> None:
    assert evaluate_expression("1" + "+1" * 900, {}) == 901


def test_number_boolean_and_set_insist() -> None:
    assert number(2**80 + 1, {}, "size") == 2**80 + 1
    assert number(np.float64(2.5), {}, "size") == 2.5
    assert number("x + 1", {"x": np.int64(2)}, "size") == 3
    assert boolean("A", NAMES, "enabled")
    assert not boolean("Nothing", NAMES, "enabled")
    assert boolean(0.5, {}, "enabled")
    for wrong in ("True", "A", "'text'"):
        with pytest.raises(SpecError, match="size must be a number"):
            number(wrong, NAMES, "size")
    for value in (True, math.nan):
        with pytest.raises(SpecError, match="size must be a number"):
            number(value, {}, "size")
    with pytest.raises(SpecError, match="keep must be a set, but '3' is a number"):
        name_set(3, {}, "keep")
    with pytest.raises(SpecError, match="enabled must be true or false"):
        boolean("'on'", {}, "enabled")


def test_by_set() -> None:
    spread = by_set({"A | B": "x", "Other": "y"}, NAMES, UNIVERSE)
    assert spread == {"A": "x", "B": "x", "Z": "y"}
    with pytest.raises(SpecError, match="keys 'A' and 'All - Z' both hold A"):
        by_set({"A": 1, "All - Z": 2}, NAMES, UNIVERSE)
    with pytest.raises(SpecError, match="'Other' appears twice"):
        by_set({"Other": 1, "Other ": 2}, NAMES, UNIVERSE)
    with pytest.raises(SpecError, match="rank variables"):
        by_set({"A.rank_variables": 1}, NAMES, UNIVERSE)


def test_arrays_are_combined_element_by_element() -> None:
    reads, writes = np.array([6.0, 0.0]), np.array([1.0, 9.0])
    names = {"actions": [Record({"n": reads, "t": 2}), Record({"n": writes, "t": 1.0}), Record({"n": 2, "t": 1})]}
    assert list(evaluate_expression("max(a.n / a.t for a in actions)", names)) == [3, 9]
    assert list(evaluate_expression("min(a.n / a.t for a in actions)", names)) == [1, 0]
    assert list(evaluate_expression("sum(a.n * 2 - 1 for a in actions)", names)) == [15, 19]
    assert list(evaluate_expression("ceil(x / 4) if x > 0 and not x > 7 else -1", {"x": reads})) == [2, -1]
    with pytest.raises(SpecError, match="division by zero"):
        evaluate_expression("x / 0", {"x": reads})


def test_import_is_light() -> None:
    code = "import sys, fusiest.spec.language.expressions; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_parse_is_cached_and_located() -> None:
    assert parse_expression("1 + a") is parse_expression(Located("1 + a", Source("f", 1)))


INTEGERS = st.integers(0, 50).map(lambda value: (str(value), value))


def _combine(pairs: st.SearchStrategy[tuple[str, int]]) -> st.SearchStrategy[tuple[str, int]]:
    return st.one_of(
        st.tuples(pairs, pairs).map(lambda two: (f"({two[0][0]} + {two[1][0]})", two[0][1] + two[1][1])),
        st.tuples(pairs, pairs).map(lambda two: (f"({two[0][0]} - {two[1][0]})", two[0][1] - two[1][1])),
        st.tuples(pairs, pairs).map(lambda two: (f"({two[0][0]} * {two[1][0]})", two[0][1] * two[1][1])),
        st.tuples(pairs, pairs).map(lambda two: (f"max({two[0][0]}, {two[1][0]})", max(two[0][1], two[1][1]))),
        pairs.map(lambda one: (f"-{one[0]}", -one[1])),
    )


@given(st.recursive(INTEGERS, _combine, max_leaves=12))
def test_arithmetic_is_exact(pair: tuple[str, int]) -> None:
    assert evaluate_expression(pair[0], {}) == pair[1]


@given(st.sets(st.sampled_from("ABZ")), st.sets(st.sampled_from("ABZ")))
def test_sets_follow_set_algebra(left: set[str], right: set[str]) -> None:
    one, two = UNIVERSE.of(*left), UNIVERSE.of(*right)
    assert ~(one | two) == ~one & ~two
    assert (one - two).members == left - right
    assert (one <= two) == (left <= right)
    assert hash(one) == hash(NameSet(frozenset(left), UNIVERSE))


FRAGMENTS = st.sampled_from(
    [*"ABZ()+-*/%~&|<>=.,[]:'\"#", "size", "actions", "**", "//", " for a in ", " if ", " else ", "max", "sum", "9",
     "1e9", "inf", ".rank_variables", "not ", " and ", "len", "0"]
)  # fmt: skip


@given(st.one_of(st.text(max_size=60), st.lists(FRAGMENTS, max_size=14).map("".join)))
def test_any_text_is_a_value_or_an_error(text: str) -> None:
    message = ""
    try:
        evaluate_expression(text, NAMES)
    except SpecError as error:
        message = str(error)
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1] * 3 + [2]", (1, 1, 1, 2)),
        ("2 * [1, 2]", (1, 2, 1, 2)),
        ("[4, 5, 6][1]", 5),
        ("[4, 5, 6][-1]", 6),
        ("[4, 5, 6][4 / 2]", 6),
        ("sum([i * i for i in [1, 2, 3]])", 14),
        ("log(exp(2))", 2.0),
        ("log10(1000)", pytest.approx(3)),
        ("is_signed([1, 0, 0])", True),
        ("magnitude([1, 2, 4])", (2, 5)),
        ('average([0, 0, 1], "magnitude", 1, 1)', 1.0),
        ('bit_probabilities([1, 0, 1], "offset", 2)', (0.5, 0.0)),
    ],
)
def test_lists_and_statistics(text: str, value: object) -> None:
    assert evaluate_expression(text, {}) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1] * 10001", "10,000 items"),
        ("([1] * 9999 + [1, 1]) * 1", "10,000 items"),
        ("[[1] * 99] * 99", "lists of lists"),
        ("[1] * 2.5", "cannot be applied"),
        ("[1] - [1]", "cannot be applied"),
        ("[1][1]", "no item 1"),
        ("[1][0.5]", "whole"),
        ("log(0)", "no value"),
        ("exp(1000)", "too large"),
        ("average([1, 2])", "cannot take these arguments"),
        ('average([1, 2], "offset", 1, 1)', "bins"),
        ('average(["a"], "offset", 1, 1)', "text"),
        ("log(2, 3, 4)", "cannot take these arguments"),
        ("sum([sum([1] * 9999) for i in [1] * 9999])", "steps"),
    ],
)
def test_lists_and_statistics_are_bounded(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        evaluate_expression(text, {})
