"""The functions of expressions, on numbers, lists and arrays of numbers.

Arrays (the mapper's counts) are combined element by element; numpy is never imported here, only found if a caller has it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, cast

from fusiest.base.errors import SpecError, shown
from fusiest.components import area_scale, average, bit_probabilities, energy_scale, is_signed, magnitude
from fusiest.spec.language.namesets import NameSet
from fusiest.spec.language.operators import MAX_ITEMS, binary, is_array, kind_of, limited, sequence, truth, want_numbers


def _several(function: str, arguments: Sequence[Any]) -> Sequence[Any]:
    """The numbers that a function is called with: several arguments, or one list."""
    values = sequence(function, arguments[0]) if len(arguments) == 1 else arguments
    want_numbers(function, *values)
    return values


def _extreme(function: str, ufunc: str, pick: Callable[[Sequence[Any]], object]) -> Callable[..., object]:
    def extreme(*arguments: Any) -> object:
        values = _several(function, arguments)
        if not values:
            raise SpecError(f"{function} of nothing")
        return reduce(getattr(sys.modules["numpy"], ufunc), values) if any(map(is_array, values)) else pick(values)

    return extreme


def _sum(values: object) -> object:
    return reduce(lambda total, value: binary("+", total, value), sequence("sum", values), cast(object, 0))


def _prod(*arguments: Any) -> object:
    return reduce(lambda total, value: binary("*", total, value), _several("prod", arguments), cast(object, 1))


def _gcd(*arguments: Any) -> int:
    return math.gcd(*_several("gcd", arguments))


def _length(value: object) -> int:
    return len(value) if isinstance(value, NameSet) else len(sequence("len", value))


def _range(*arguments: Any) -> tuple[int, ...]:
    numbers = range(*arguments)
    if max(abs(argument) for argument in arguments) >= 2**62 or len(numbers) > MAX_ITEMS:
        raise SpecError(f"a list may have {MAX_ITEMS:,} items")
    return tuple(numbers)


def _round(value: Any, digits: object = None) -> object:
    want_numbers("round", value)
    if digits is not None and not (isinstance(digits, int) and abs(digits) <= 400):
        raise SpecError("round wants a small whole number of digits")
    if isinstance(value, float) and math.isinf(value):
        return value
    if is_array(value):
        return value.round(digits or 0)
    return round(value) if digits is None else round(value, digits)


def _number(function: str, kind: Callable[[Any], int | float]) -> Callable[[Any], object]:
    def convert(value: Any) -> object:
        if isinstance(value, str):
            try:
                return limited(kind(value if len(value) <= 400 else "long"))
            except ValueError:
                raise SpecError(f"'{shown(value)}' is no number") from None
        want_numbers(function, value)
        return value.astype(kind) if is_array(value) else kind(value)

    return convert


def _numeric(function: str, scalar: Callable[..., object]) -> Callable[..., object]:
    """A function of one number, or of arrays as numpy's function of the same name."""

    def apply(*arguments: Any) -> object:
        want_numbers(function, *arguments)
        value = arguments[0] if arguments else None
        if is_array(value):
            return getattr(sys.modules["numpy"], function)(*arguments)
        if isinstance(value, float) and math.isinf(value) and function in ("ceil", "floor", "trunc"):
            return value
        return scalar(*arguments)

    return apply


def _statistic(function: Callable[..., object]) -> Callable[..., object]:
    """A function of a histogram; what it cannot take is an error of the expression."""

    def apply(histogram: object, *arguments: object) -> object:
        values = sequence(function.__name__, histogram)
        want_numbers(function.__name__, *values)
        try:
            return function(values, *arguments)
        except ValueError as error:
            raise SpecError(f"{function.__name__}: {error}") from None

    return apply


def _list(value: object) -> tuple[object, ...]:
    return tuple(sequence("list", value))


def _boolean(value: object) -> object:
    if isinstance(value, str):
        raise SpecError(f"bool cannot be applied to {kind_of(value)}")
    return truth(value)


def _scaling(law: Callable[[float, float], float]) -> Callable[[Any, Any], float]:
    """How a cost changes from a technology node to another, both in metres."""

    def apply(node: Any, reference: Any) -> float:
        want_numbers("scaling", node, reference)
        if not (1e-9 <= node <= 1e-6 and 1e-9 <= reference <= 1e-6):
            raise SpecError("technology nodes are given in metres, from 1e-9 to 1e-6")
        return law(node, reference)

    return apply


FUNCTIONS: Mapping[str, Callable[..., object]] = {
    **{
        name: _numeric(name, getattr(math, name))
        for name in ("ceil", "floor", "trunc", "sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "tanh", "isinf")
    },
    "abs": _numeric("abs", abs), "round": _round, "pow": lambda base, power: binary("**", base, power),
    "min": _extreme("min", "minimum", min), "max": _extreme("max", "maximum", max), "sum": _sum, "prod": _prod,
    "gcd": _gcd, "len": _length, "range": _range, "list": _list, "int": _number("int", int),
    "float": _number("float", float), "bool": _boolean,
    **{f.__name__: _statistic(f) for f in (is_signed, magnitude, average, bit_probabilities)},
    "energy_scaling": _scaling(energy_scale), "area_scaling": _scaling(area_scale),
}  # fmt: skip
