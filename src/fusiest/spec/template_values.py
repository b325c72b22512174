"""The values of templates (numbers, text, lists, tables) and what operators do with them.

Whatever makes or walks a value of some size pays for it out of the budget first, so that nothing has to be stopped.
"""

from __future__ import annotations

import numbers
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import nodes

from fusiest.errors import SpecError
from fusiest.spec import operators

MAX_STEPS = 1_000_000
MAX_CELLS = 16_000_000
MAX_RANGE = 1_000_000
MAX_SHOWN = 1_000
MAX_COMPARED = 10_000


class Budget:
    """What one rendering may still do: steps are time, cells (about a byte each) are memory."""

    __slots__ = ("cells", "steps")

    def __init__(self) -> None:
        self.steps = MAX_STEPS
        self.cells = MAX_CELLS

    def step(self, count: int = 1) -> None:
        self.steps -= count
        if self.steps < 0:
            raise SpecError(f"the template takes more than {MAX_STEPS:,} steps")

    def make(self, cells: int) -> None:
        self.cells -= cells
        if self.cells < 0:
            raise SpecError(f"the template makes values of more than {MAX_CELLS // 1_000_000} MB")


@dataclass(frozen=True, slots=True)
class Undefined:
    """A name without a value, and what to say to whoever needs one."""

    message: str


@dataclass(frozen=True, slots=True, eq=False)
class Namespace:
    fields: dict[str, object]


@dataclass(frozen=True, slots=True, eq=False)
class Macro:
    node: nodes.Macro
    scope: Any


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """What `loop` is in the body of a `for`."""

    items: Sequence[object]
    index0: int


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """Something to be called: with the budget, then `owner` if it is a method, then the arguments."""

    name: str
    body: Callable[..., object]
    owner: tuple[object, ...] = ()


def plain(value: object, name: str) -> object:
    """A define as a value of templates: tables and lists are copied, anything else but scalars is refused.

    >>> plain({"keep": ("A",)}, "X")
    {'keep': ['A']}
    """
    if value is None or isinstance(value, (bool, str)):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, numbers.Integral):
        return operators.limited(int(value))
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, Mapping):
        return {key(plain(one, name)): plain(other, name) for one, other in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one, name) for one in value]
    raise SpecError(f"the define {name} must be a number, text, list or table, but is a {type(value).__name__}")


def kind_of(value: object) -> str:
    """A value in the words of an error message.

    >>> kind_of([1])
    'a list'
    """
    if isinstance(value, (bool, int, float)) or value is None:
        return str(value)[:40]
    kinds = ((str, "text"), (dict, "a table"), (Macro, "a macro"), (Namespace, "a namespace"), (Loop, "'loop'"),
             (Function, "a function"), (Undefined, "an undefined name"), (range, "a range"))  # fmt: skip
    return next((words for kind, words in kinds if isinstance(value, kind)), "a list")


def text_of(value: object, budget: Budget) -> str:
    """A value as it is printed. A list or table must be small.

    >>> text_of([1, "a"], Budget())
    "[1, 'a']"
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)) or value is None:
        return str(value)
    budget.make(8 * _measure(value, MAX_SHOWN, budget))
    return str(value)


def _measure(value: object, limit: int, budget: Budget) -> int:
    """How large a value is when everything in it is written out; refuses what is larger than `limit` or not data."""
    size, todo = 0, [value]
    while todo:
        one = todo.pop()
        budget.step()
        size += 1 + (len(one) // 64 if isinstance(one, str) else 0)
        if isinstance(one, (list, tuple)):
            todo += one
        elif isinstance(one, dict):
            todo += [*one, *one.values()]
        elif not isinstance(one, (bool, int, float, str, type(None))):
            raise SpecError(f"{kind_of(one)} cannot be used as a value here")
        if size + len(todo) > limit:
            raise SpecError(f"{kind_of(value)} of more than {limit:,} values is too large for this")
    return size


def number(value: object) -> int | float:
    """Insist on a number.

    >>> number(2)
    2
    """
    if isinstance(value, (int, float)):
        return value
    raise SpecError(f"this needs a number, but has {kind_of(value)}")


def key(value: object) -> str | int | None:
    """Insist on something that may be a key: text or a small whole number.

    >>> key("keep")
    'keep'
    """
    if value is None or isinstance(value, str) or (isinstance(value, int) and value.bit_length() <= 32):
        return value
    raise SpecError(f"a key must be text or a small whole number, but is {kind_of(value)}")


def iterable(value: object, budget: Budget) -> Sequence[object]:
    """What a loop runs over.

    >>> iterable({"a": 1}, Budget())
    ['a']
    """
    if isinstance(value, (list, tuple, range)):
        return value
    if isinstance(value, (str, dict)):
        budget.make(64 * len(value))
        return list(value)
    raise SpecError(f"{kind_of(value)} is not a list")


def binary(symbol: str, left: Any, right: Any, budget: Budget) -> object:
    """Arithmetic on numbers; text and lists can be joined and repeated, text can be formatted.

    >>> binary("*", "ab", 2, Budget()), binary("//", 7, 2, Budget())
    ('abab', 3)
    """
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return operators.binary(symbol, left, right)
    for kind, cells in ((str, 1), (list, 8), (tuple, 8)):
        if symbol == "+" and isinstance(left, kind) and isinstance(right, kind):
            budget.make(cells * (len(left) + len(right)))
            return operator.add(left, right)
        if symbol == "*" and isinstance(left, kind) and isinstance(right, int):
            budget.make(cells * len(left) * max(right, 0))
            return operator.mul(left, right)
    if symbol == "%" and isinstance(left, str):
        return formatted(budget, left, *(right if isinstance(right, tuple) else (right,)))
    raise SpecError(f"'{symbol}' cannot be applied to {kind_of(left)} and {kind_of(right)}")


def formatted(budget: Budget, pattern: str, *arguments: object) -> str:
    """`%` formatting of scalars with widths of at most two digits: no width can fill the memory.

    >>> formatted(Budget(), "n%02d", 7)
    'n07'
    """
    if _FORMAT.sub("", pattern).count("%"):
        raise SpecError("a format may only hold %d, %s, %f and the like, with widths below 100")
    budget.make(len(pattern) * 110 + sum(len(text_of(_scalar(one), budget)) for one in arguments))
    try:
        return pattern % arguments
    except (TypeError, ValueError, OverflowError):
        raise SpecError(f"the format '{pattern[:40]}' does not fit its values") from None


def _scalar(value: object) -> object:
    if isinstance(value, (bool, int, float, str)):
        return value
    raise SpecError(f"this needs a number or text, but has {kind_of(value)}")


def compare(relation: str, left: Any, right: Any, budget: Budget) -> bool:
    """Compare, after paying for the size of both sides.

    >>> compare("in", "a", ["a", "b"], Budget())
    True
    """
    budget.step()
    if relation in ("in", "notin"):
        return _contains(right, left, budget) == (relation == "in")
    for side in (left, right):
        if isinstance(side, str):
            budget.step(len(side) // 256)
        elif isinstance(side, (list, tuple, dict)):
            _measure(side, MAX_COMPARED, budget)
    if relation in ("eq", "ne"):
        return bool((left == right) == (relation == "eq"))
    if not (isinstance(left, str) and isinstance(right, str)):
        left, right = number(left), number(right)
    return bool(_ORDERS[relation](left, right))


def _contains(whole: object, part: object, budget: Budget) -> bool:
    if isinstance(whole, dict):
        return key(part) in whole
    if isinstance(whole, str) and isinstance(part, str):
        budget.step(len(whole) // 64)
        return part in whole
    if isinstance(whole, range):
        return isinstance(part, int) and part in whole
    return any(compare("eq", part, one, budget) for one in iterable(whole, budget))


def item(owner: object, index: object) -> object:
    """One element of a list, table or text.

    >>> item([4, 5], -1)
    5
    """
    if isinstance(owner, dict):
        return owner.get(key(index), Undefined(f"the table has no '{index}'"))
    if isinstance(owner, (list, tuple, str, range)) and isinstance(index, int):
        if -len(owner) <= index < len(owner):
            return owner[index]
        return Undefined(f"{kind_of(owner)} of {len(owner)} has no element {index}")
    raise SpecError(f"{kind_of(owner)} has no element {kind_of(index)}")


def cut(owner: Any, bounds: list[Any], budget: Budget) -> object:
    """A slice.

    >>> cut("abcd", [1, 3, None], Budget())
    'bc'
    """
    if not isinstance(owner, (list, tuple, str)) or not all(one is None or isinstance(one, int) for one in bounds):
        raise SpecError(f"{kind_of(owner)} cannot be cut like this")
    if bounds[2] == 0:
        raise SpecError("a slice cannot have step 0")
    budget.make(len(owner) * (4 if isinstance(owner, str) else 8))
    return owner[slice(*bounds)]


_FORMAT = re.compile(r"%[-+ #0]*[0-9]{0,2}(\.[0-9]{0,2})?[diouxXeEfFgGs%]")
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "lt": operator.lt, "lteq": operator.le, "gt": operator.gt, "gteq": operator.ge,
}  # fmt: skip
