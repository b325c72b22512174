"""All that a template can call: functions, methods, filters and tests, in tables that end this module.

An attribute is looked up in these tables, never on a Python object, so that there is nothing to escape to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fusiest.errors import SpecError, did_you_mean
from fusiest.spec.operators import limited
from fusiest.spec.template_values import (
    MAX_RANGE,
    Budget,
    Function,
    Loop,
    Namespace,
    Undefined,
    binary,
    compare,
    formatted,
    iterable,
    kind_of,
    number,
    text_of,
)


def attribute(owner: object, name: str) -> object:
    """A method from the table, a key of a table, a field of a namespace, or what `loop` tells.

    >>> attribute({"a": 1}, "a")
    1
    """
    if name.startswith("_"):
        raise SpecError(f"'{name}' may not be used in a template")
    if isinstance(owner, Loop) and name in _LOOP:
        return _LOOP[name](owner)
    method = next((table[name] for kind, table in _METHODS if isinstance(owner, kind) and name in table), None)
    if method is not None:
        return Function(name, method, (owner,))
    fields = owner.fields if isinstance(owner, Namespace) else owner if isinstance(owner, dict) else {}
    return fields.get(name, Undefined(f"{kind_of(owner)} has no '{name}'"))


def call(function: object, arguments: list[object], named: dict[str, object], budget: Budget) -> object:
    """Call a function or method of this module.

    >>> call(BUILTINS["range"], [3], {}, Budget())
    range(0, 3)
    """
    if isinstance(function, Undefined):
        raise SpecError(function.message)
    if not isinstance(function, Function):
        raise SpecError(f"{kind_of(function)} cannot be called")
    return _apply(function.body, f"function '{function.name}'", [*function.owner, *arguments], named, budget)


def apply_filter(name: str, arguments: list[object], named: dict[str, object], budget: Budget) -> object:
    """Apply a filter to its value, the first of the arguments.

    >>> apply_filter("join", [["a", "b"], "-"], {}, Budget())
    'a-b'
    """
    if name not in FILTERS:
        raise SpecError(f"there is no filter '{name}'{did_you_mean(name, FILTERS)}")
    return _apply(FILTERS[name], f"filter '{name}'", arguments, named, budget)


def apply_test(name: str, arguments: list[object], named: dict[str, object], budget: Budget) -> object:
    """Apply a test, what follows `is`, to its value, the first of the arguments.

    >>> apply_test("odd", [3], {}, Budget())
    True
    """
    if name not in TESTS:
        raise SpecError(f"there is no test '{name}'{did_you_mean(name, TESTS)}")
    return _apply(TESTS[name], f"test '{name}'", arguments, named, budget)


def _apply(
    body: Callable[..., object], what: str, arguments: list[object], named: dict[str, object], budget: Budget
) -> object:
    if body not in _TAKE_UNDEFINED:
        for one in (*arguments, *named.values()):
            if isinstance(one, Undefined):
                raise SpecError(one.message)
    try:
        return body(budget, *arguments, **named)
    except (TypeError, AttributeError):
        raise SpecError(f"the {what} cannot take these arguments") from None


def _range(budget: Budget, *bounds: int) -> range:
    if not 1 <= len(bounds) <= 3 or not all(isinstance(bound, int) for bound in bounds) or bounds[2:] == (0,):
        raise SpecError("range wants one to three whole numbers")
    numbers = range(*bounds)
    if max(abs(bound) for bound in bounds) >= 2**62 or len(numbers) > MAX_RANGE:
        raise SpecError(f"a range may have {MAX_RANGE:,} numbers at most")
    return numbers


def _dict(budget: Budget, /, **fields: object) -> dict[str, object]:
    return fields


def _length(budget: Budget, value: object) -> int:
    return len(value) if isinstance(value, (str, dict)) else len(iterable(value, budget))


def _join(budget: Budget, value: object, separator: str = "") -> str:
    pieces = [text_of(one, budget) for one in iterable(value, budget)]
    budget.step(len(pieces))
    budget.make(sum(map(len, pieces)) + len(separator) * len(pieces))
    return separator.join(pieces)


def _list(budget: Budget, value: object) -> list[object]:
    items = iterable(value, budget)
    budget.make(36 * len(items))
    return list(items)


def _comparable(budget: Budget, value: object) -> list[Any]:
    items = _list(budget, value)
    budget.step(len(items))
    if not all(isinstance(one, (int, float)) for one in items) and not all(isinstance(one, str) for one in items):
        raise SpecError("this needs a list of numbers or a list of text")
    budget.step(sum(len(one) // 64 for one in items if isinstance(one, str)))
    return items


def _sum(budget: Budget, value: object, start: int | float = 0) -> object:
    total: object = number(start)
    for one in iterable(value, budget):
        budget.step()
        total = binary("+", total, number(one), budget)
    return total


def _extreme(pick: Callable[[list[Any]], object]) -> Callable[..., object]:
    def extreme(budget: Budget, value: object) -> object:
        items = _comparable(budget, value)
        return pick(items) if items else Undefined("an empty list has no smallest or largest value")

    return extreme


def _end(index: int) -> Callable[..., object]:
    def end(budget: Budget, value: object) -> object:
        items = iterable(value, budget)
        return items[index] if items else Undefined("an empty list has no first or last value")

    return end


def _default(budget: Budget, value: object, other: object = "", boolean: object = False) -> object:
    return other if isinstance(value, Undefined) or (boolean and not value) else value


def _int(budget: Budget, value: object, default: object = 0) -> object:
    try:
        return limited(int(value) if isinstance(value, (int, float)) else int(_text(value), 10))
    except (ValueError, OverflowError):
        return default


def _float(budget: Budget, value: object, default: object = 0.0) -> object:
    try:
        return float(value) if isinstance(value, (int, float)) else float(_text(value))
    except (ValueError, OverflowError):
        return default


def _round(budget: Budget, value: object, precision: int = 0) -> object:
    if not isinstance(precision, int) or abs(precision) > 300:
        raise SpecError("round wants a small whole number of digits")
    return round(float(number(value)), precision)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise SpecError(f"this needs text, but has {kind_of(value)}")


def _replace(budget: Budget, value: object, old: str, new: str) -> str:
    text = text_of(value, budget)
    budget.make(len(text) + _text(text).count(_text(old)) * len(_text(new)))
    return text.replace(old, new)


def _split(budget: Budget, text: str, separator: str | None = None) -> list[str]:
    budget.make(len(text) * 4 + 64 * (text.count(separator) if separator else len(text) // 2))
    return list(text.split(separator))


def _items(budget: Budget, value: object) -> list[tuple[object, object]]:
    if not isinstance(value, dict):
        raise SpecError(f"{kind_of(value)} is not a table")
    budget.make(64 * len(value))
    return list(value.items())


def _textual(change: Callable[[str], Any]) -> Callable[..., object]:
    def textual(budget: Budget, value: object) -> object:
        text = text_of(value, budget)
        budget.make(2 * len(text))
        return change(text)

    return textual


def _affix(check: Callable[[str, str], bool]) -> Callable[..., object]:
    def affix(budget: Budget, text: str, part: str) -> bool:
        budget.step(len(text) // 64)
        return check(text, _text(part))

    return affix


def _cycle(budget: Budget, loop: Loop, *choices: object) -> object:
    return choices[loop.index0 % len(choices)] if choices else Undefined("cycle needs a value")


def _is(*kinds: type) -> Callable[..., object]:
    return lambda budget, value: isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def _whole(value: object) -> int:
    if isinstance(value, int):
        return value
    raise SpecError(f"this needs a whole number, but has {kind_of(value)}")


def _divisible(budget: Budget, value: object, by: object) -> bool:
    if not _whole(by):
        raise SpecError("nothing is divisible by 0")
    return _whole(value) % _whole(by) == 0


def _relation(name: str) -> Callable[..., object]:
    return lambda budget, left, right: compare(name, left, right, budget)


BUILTINS: Mapping[str, Function] = {
    "range": Function("range", _range),
    "dict": Function("dict", _dict),
    "namespace": Function("namespace", lambda budget, /, **fields: Namespace(fields)),
}
_LOOP: Mapping[str, Callable[[Loop], object]] = {
    "index": lambda loop: loop.index0 + 1,
    "index0": lambda loop: loop.index0,
    "revindex": lambda loop: len(loop.items) - loop.index0,
    "revindex0": lambda loop: len(loop.items) - loop.index0 - 1,
    "first": lambda loop: loop.index0 == 0,
    "last": lambda loop: loop.index0 == len(loop.items) - 1,
    "length": lambda loop: len(loop.items),
    "previtem": lambda loop: loop.items[loop.index0 - 1] if loop.index0 else Undefined("no item before the first"),
    "nextitem": lambda loop: (
        loop.items[loop.index0 + 1] if loop.index0 + 1 < len(loop.items) else Undefined("no item after the last")
    ),
}
_METHODS: tuple[tuple[type, Mapping[str, Callable[..., object]]], ...] = (
    (Loop, {"cycle": _cycle}),
    (dict, {
        "items": _items, "keys": _list, "values": lambda budget, table: [pair[1] for pair in _items(budget, table)],
        "get": lambda budget, table, name, other=None: table.get(_text(name), other),
    }),
    (str, {
        "upper": _textual(str.upper), "lower": _textual(str.lower), "strip": _textual(str.strip), "split": _split,
        "startswith": _affix(str.startswith), "endswith": _affix(str.endswith),
    }),
)  # fmt: skip
FILTERS: Mapping[str, Callable[..., object]] = {
    "default": _default, "d": _default, "int": _int, "float": _float, "string": _textual(str),
    "length": _length, "count": _length,
    "upper": _textual(str.upper), "lower": _textual(str.lower), "trim": _textual(str.strip), "join": _join,
    "list": _list, "round": _round, "abs": lambda budget, value: abs(number(value)), "min": _extreme(min),
    "max": _extreme(max), "sum": _sum, "sort": lambda budget, value: sorted(_comparable(budget, value)),
    "reverse": lambda budget, value: _list(budget, value)[::-1], "first": _end(0), "last": _end(-1), "items": _items,
    "replace": _replace, "format": formatted,
}  # fmt: skip
TESTS: Mapping[str, Callable[..., object]] = {
    "defined": lambda budget, value: not isinstance(value, Undefined),
    "undefined": lambda budget, value: isinstance(value, Undefined),
    "none": lambda budget, value: value is None, "true": lambda budget, value: value is True,
    "false": lambda budget, value: value is False, "boolean": _is(bool), "integer": _is(int), "float": _is(float),
    "number": _is(int, float), "string": _is(str), "mapping": _is(dict), "sequence": _is(list, tuple, str, dict, range),
    "iterable": _is(list, tuple, str, dict, range), "odd": lambda budget, value: _whole(value) % 2 == 1,
    "even": lambda budget, value: _whole(value) % 2 == 0, "divisibleby": _divisible,
    "in": _relation("in"), "eq": _relation("eq"), "equalto": _relation("eq"), "==": _relation("eq"),
    "ne": _relation("ne"), "lt": _relation("lt"), "le": _relation("lteq"), "gt": _relation("gt"),
    "ge": _relation("gteq"),
}  # fmt: skip
_TAKE_UNDEFINED = (_default, TESTS["defined"], TESTS["undefined"])
