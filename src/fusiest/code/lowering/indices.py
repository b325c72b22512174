"""Whole numbers that a program computes: sums of its loops' indices, and the least, the most and the quotients of such sums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fusiest.base.frozen import FrozenDict
from fusiest.spec import Affine

IndexFunction: TypeAlias = Literal["min", "max", "ceil", "choose"]


@dataclass(frozen=True, slots=True)
class Computed:
    """`min` and `max` of two numbers, `ceil` of a quotient, or `choose(i, a, b)`: a where i is 0, else b."""

    function: IndexFunction
    arguments: tuple[Index, ...]


Index: TypeAlias = Affine | Computed


@dataclass(frozen=True, slots=True)
class Test:
    """Whether one number is less than another."""

    low: Index
    high: Index


ZERO = Affine(FrozenDict())


def constant(value: int) -> Affine:
    return Affine(FrozenDict(), value)


def named(name: str) -> Affine:
    return Affine(FrozenDict({name: 1}))


def plus(a: Affine, b: Affine | int, times: int = 1) -> Affine:
    """a + times · b.

    >>> str(plus(Affine.parse("2*p + r"), Affine.parse("p - r + 1"), 2))
    '4*p - r + 2'
    """
    if isinstance(b, int):
        return Affine(a.coefficients, a.constant + times * b)
    terms = dict(a.coefficients)
    for name, coefficient in b.coefficients.items():
        terms[name] = terms.get(name, 0) + times * coefficient
    return Affine(FrozenDict({n: c for n, c in terms.items() if c}), a.constant + times * b.constant)


def minus(a: Affine, b: Affine | int) -> Affine:
    return plus(a, b, -1)


def value_of(index: Index) -> int | None:
    """The number, if it is always the same."""
    return index.constant if isinstance(index, Affine) and not index.coefficients else None


def least(a: Index, b: Index) -> Index:
    """The smaller one."""
    return _extreme("min", a, b)


def most(a: Index, b: Index) -> Index:
    """The larger one."""
    return _extreme("max", a, b)


def _extreme(function: Literal["min", "max"], a: Index, b: Index) -> Index:
    if a == b:
        return a
    if isinstance(a, Affine) and isinstance(b, Affine):
        difference = value_of(minus(a, b))
        if difference is not None:
            return a if (difference < 0) == (function == "min") else b
    return Computed(function, (a, b))


def choose(index: Affine, first: Index, other: Index) -> Index:
    """One number where an index is 0, another one where it is not."""
    return first if first == other else Computed("choose", (index, first, other))


def quotient(number: Affine, divisor: int) -> Index:
    """The quotient, rounded up.

    >>> value_of(quotient(constant(7), 2))
    4
    """
    value = value_of(number)
    if divisor == 1:
        return number
    return constant(-(-value // divisor)) if value is not None else Computed("ceil", (number, constant(divisor)))


def names_of(index: Index) -> Iterator[str]:
    """The names in it."""
    if isinstance(index, Affine):
        yield from index.coefficients
    else:
        for argument in index.arguments:
            yield from names_of(argument)


def total(affine: Affine, values: Mapping[str, Affine]) -> Affine:
    """An index of a tensor, with these numbers in place of the rank variables."""
    result = constant(affine.constant)
    for variable, coefficient in affine.coefficients.items():
        result = plus(result, values[variable], coefficient)
    return result


def names_in_tests(tests: Iterable[Test]) -> Iterator[str]:
    for test in tests:
        yield from names_of(test.low)
        yield from names_of(test.high)
