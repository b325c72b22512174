"""What the operators of expressions do with numbers, sets, text and arrays of numbers.

Sizes are known before a result is computed, so that no operator can make a number or a list that fills the memory.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from fusiest.base.errors import SpecError
from fusiest.spec.language.namesets import Attributed, NameSet

T = TypeVar("T")
MAX_BITS = 4_096
MAX_ITEMS = 10_000
"""Most items of a list."""


def binary(symbol: str, left: Any, right: Any) -> object:
    """Apply an operator to two numbers, arrays or sets.

    >>> binary("**", 2, 10), binary("/", 1, 4)
    (1024, 0.25)
    """
    if isinstance(left, NameSet) and isinstance(right, NameSet) and symbol in _SET_OPERATORS:
        return _SET_OPERATORS[symbol](left, right)
    if isinstance(left, (tuple, list)) or isinstance(right, (tuple, list)):
        return _list_operator(symbol, left, right)
    if symbol not in _ARITHMETIC:
        raise SpecError(f"'{symbol}' wants two sets, but has {kind_of(left)} and {kind_of(right)}")
    want_numbers(symbol, left, right)
    if symbol in ("/", "//", "%") and not is_array(right) and right == 0:
        raise SpecError("division by zero")
    if isinstance(left, int) and isinstance(right, int) and _product_bits(symbol, left, right) > MAX_BITS:
        raise SpecError(f"'{symbol}' makes a number of more than {MAX_BITS} bits")
    result = limited(_ARITHMETIC[symbol](left, right))
    if isinstance(result, complex):
        raise SpecError("a root of a negative number")
    if isinstance(result, float) and not math.isfinite(result):
        if math.isnan(result):
            raise SpecError(f"'{left} {symbol} {right}' has no value")
        if math.isfinite(left) and math.isfinite(right):
            raise SpecError(f"'{symbol}' makes a number that is too large")
    return result


def _list_operator(symbol: str, left: object, right: object) -> tuple[object, ...]:
    """Lists one after the other, or one of them several times: `[1] * 15 + [2]`."""
    several, count = (left, right) if isinstance(left, (tuple, list)) else (right, left)
    assert isinstance(several, (tuple, list))
    if symbol == "+" and isinstance(count, (tuple, list)):
        items, times = (*several, *count), 1
    elif symbol == "*" and isinstance(count, int) and not isinstance(count, bool):
        items, times = tuple(several), count
    else:
        raise SpecError(f"'{symbol}' cannot be applied to {kind_of(left)} and {kind_of(right)}")
    if any(isinstance(entry, (tuple, list)) for entry in items):
        raise SpecError(f"'{symbol}' cannot be applied to lists of lists")
    if len(items) * max(times, 1) > MAX_ITEMS:
        raise SpecError(f"a list may have {MAX_ITEMS:,} items")
    return items * times


def item(values: object, index: object) -> object:
    """One item of a list, counted from 0; from the end if the index is negative.

    >>> item((4, 5, 6), -1)
    6
    """
    if not isinstance(values, (tuple, list)):
        raise SpecError(f"only a list has items, but this is {kind_of(values)}")
    if isinstance(index, float) and index == int(index):
        index = int(index)
    if isinstance(index, bool) or not isinstance(index, int):
        raise SpecError(f"an item's number must be whole, but it is {kind_of(index)}")
    if not -len(values) <= index < len(values):
        raise SpecError(f"a list of {len(values)} has no item {index}")
    return values[index]


def limited(value: T) -> T:
    """The value, unless it is an integer beyond the limit.

    >>> limited(2**62)
    4611686018427387904
    """
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise SpecError(f"a number has more than {MAX_BITS:,} bits")
    return value


def _product_bits(symbol: str, left: int, right: int) -> int:
    """How large an integer product or power would be, known before it is computed."""
    if symbol == "*":
        return left.bit_length() + right.bit_length()
    if symbol == "**" and right > 0 and abs(left) > 1:
        return left.bit_length() * right
    return 0


def compare(symbol: str, left: Any, right: Any) -> object:
    """Compare two numbers, sets (`<=` is a subset) or, for equality only, texts; or look for a value in a list.

    >>> compare("==", "read", "write"), compare("in", "add", ("add", "max"))
    (False, True)
    """
    if symbol in ("in", "not in"):
        return _contains(right, left) == (symbol == "in")
    both_sets = isinstance(left, NameSet) and isinstance(right, NameSet)
    both_text = isinstance(left, str) and isinstance(right, str) and symbol in ("==", "!=")
    if not both_sets and not both_text:
        want_numbers(symbol, left, right)
    return _COMPARISONS[symbol](left, right)


def _contains(whole: object, part: object) -> bool:
    """Whether a list has a value, or a set all of another."""
    if isinstance(whole, NameSet) and isinstance(part, NameSet):
        return part <= whole
    alike = (entry for entry in sequence("in", whole) if kind_of(entry) == kind_of(part))
    return any(compare("==", part, entry) for entry in alike)


def truth(value: Any) -> Any:
    """True or false, or an array of them.

    >>> truth(0.5)
    True
    """
    if is_array(value):
        return value != 0
    if isinstance(value, (bool, int, float, NameSet)):
        return bool(value)
    raise SpecError(f"a condition must be true or false, but this is {kind_of(value)}")


def plain_truth(value: object) -> bool:
    """True or false, where an array of them makes no sense.

    >>> plain_truth(0)
    False
    """
    result = truth(value)
    if is_array(result):
        raise SpecError("the 'if' of a 'for' must not depend on counts")
    return bool(result)


def want_numbers(symbol: str, *values: object) -> None:
    """Refuse operands that are neither numbers nor arrays.

    >>> want_numbers("+", 1, 2.0)
    """
    if not all(isinstance(value, (int, float)) or is_array(value) for value in values):
        raise SpecError(f"'{symbol}' cannot be applied to {' and '.join(kind_of(value) for value in values)}")


def sequence(function: str, value: object) -> Sequence[object]:
    """What a `for` or a function of several values runs over.

    >>> sequence("max", [1, 2])
    [1, 2]
    """
    if isinstance(value, (tuple, list)):
        return value
    if isinstance(value, NameSet):
        return value.singletons()
    raise SpecError(f"'{function}' wants several values, but this is {kind_of(value)}")


def is_array(value: object) -> bool:
    """Whether this is a numpy array, or a numpy number that is not a float.

    >>> is_array(1.5)
    False
    """
    # numpy is not imported for this: an array can only come from a caller who has done so.
    return hasattr(value, "__array__") and not isinstance(value, float)


def kind_of(value: object) -> str:
    """A value in the words of an error message.

    >>> kind_of("read")
    'text'
    """
    if isinstance(value, Attributed):
        return value.described
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "an array" if is_array(value) else "a list" if isinstance(value, (tuple, list)) else "an object"


_ARITHMETIC: Mapping[str, Callable[[Any, Any], object]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow,
}  # fmt: skip
_SET_OPERATORS: Mapping[str, Callable[[Any, Any], object]] = {
    "&": operator.and_, "|": operator.or_, "-": operator.sub,
}  # fmt: skip
_COMPARISONS: Mapping[str, Callable[[Any, Any], object]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
