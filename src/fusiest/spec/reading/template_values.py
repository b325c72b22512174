"""What templates compute with, in Jinja2's immutable sandbox: scalars, lists, tables, and the functions and filters below.

No attribute of a Python object is looked up, only a `Function` can be called, and whatever makes or walks a value pays for it
first, so that nothing has to be stopped.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from fusiest.base.errors import SpecError, did_you_mean
from fusiest.base.units import read_quantity
from fusiest.spec.language import functions, operators
from fusiest.spec.reading.budget import spend

MAX_RANGE, BYTES_PER_STEP = 100_000, 64
MARK = "\x00"
"""What stands around the marks in rendered text, and in no value."""


class Function:
    """What a template may call; nothing else can be called."""

    def __init__(self, body: Callable[..., Any], context: bool = False) -> None:
        self.body, self.context = body, context


def plain(value: Any, name: str) -> Any:
    """A define as a value of templates: tables and lists are copied, a quantity is its number (`2 MiB`), anything else but
    scalars is refused."""
    if isinstance(value, Mapping):
        return {str(key): plain(item, name) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, name) for item in value]
    if isinstance(value, jinja2.Undefined):  # what a file that includes this one has not got: whoever needs it is told
        return value
    value = value.item() if operators.is_array(value) and not getattr(value, "ndim", 1) else value
    if not isinstance(value, _SCALARS):
        raise SpecError(f"the define {name} must be a number, text, list or table, but is a {type(value).__name__}")
    if isinstance(value, str):
        with_unit = read_quantity(value)
        if with_unit is not None and not with_unit.unit.per_bit:  # a rate is for the field where it is written
            return int(with_unit.value) if with_unit.value.is_integer() else with_unit.value
        return str(value).replace(MARK, "")
    return operators.limited(value)


def _kind(value: object) -> str:
    words = {str: "text", list: "a list", tuple: "a list", dict: "a table", range: "a range", LoopContext: "'loop'"}
    return (
        str(value)[:40] if isinstance(value, (bool, int, float, type(None))) else words.get(type(value), "a function")
    )


def _size(value: object) -> int:
    """Steps of making or walking a value, not counting what is inside a list."""
    return len(value) // (BYTES_PER_STEP if isinstance(value, str) else 1) if isinstance(value, _SIZED) else 0


def text(value: Any) -> str:
    """A value as it is printed; a list must be short and hold no lists."""
    need(value)
    if isinstance(value, (list, tuple)) and len(value) <= 1_000 and all(isinstance(item, _SCALARS) for item in value):
        spend(len(value) + sum(map(_size, value)))
    elif not isinstance(value, _SCALARS):
        raise SpecError(f"{_kind(value)} cannot be printed")
    return str(value)


def need(*values: Any) -> None:
    for value in values:
        if isinstance(value, jinja2.Undefined):
            value._fail_with_undefined_error()


def _binary(symbol: str, left: Any, right: Any) -> Any:
    """Arithmetic on numbers; text and lists can be joined and repeated."""
    need(left, right)
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return operators.binary(symbol, left, right)
    if symbol == "+" and type(left) is type(right) and isinstance(left, (str, list)):
        spend(_size(left) + _size(right))
        return left + right
    if symbol == "*" and isinstance(left, (str, list)) and isinstance(right, int):
        spend(_size(left) * max(right, 0) + max(right, 0) // BYTES_PER_STEP)
        return left * right
    raise SpecError(f"'{symbol}' cannot be applied to {_kind(left)} and {_kind(right)}")


def _compare(sides: Sequence[Any], relations: Sequence[str]) -> bool:
    """A chain of comparisons between scalars, or of one with what is in a list, table or text."""
    need(*sides)
    for left, relation, right in zip(sides, relations, sides[1:], strict=False):
        spend(1 + _size(left) + _size(right))
        if relation in ("in", "notin"):
            if not isinstance(left, str if isinstance(right, str) else _SCALARS) or not isinstance(right, _SIZED):
                raise SpecError(f"{_kind(left)} cannot be looked for in {_kind(right)}")
            holds = (left in right) == (relation == "in")
        elif not isinstance(left, _SCALARS) or not isinstance(right, _SCALARS):
            raise SpecError(f"{_kind(left)} and {_kind(right)} cannot be compared")
        elif relation not in ("eq", "ne") and isinstance(left, str) != isinstance(right, str):
            raise SpecError(f"{_kind(left)} and {_kind(right)} have no order")
        else:
            holds = _RELATIONS[relation](left, right)
        if not holds:
            return False
    return True


def _items(value: Any, cost: int = 1) -> Any:
    """What a loop runs over, with the steps of its body paid in advance."""
    need(value)
    if not isinstance(value, _SIZED):
        raise SpecError(f"{_kind(value)} is not a list")
    spend(len(value) * cost)
    return value if isinstance(value, (list, tuple, range)) else list(value)


def _range(*bounds: int) -> range:
    if not 1 <= len(bounds) <= 3 or not all(isinstance(bound, int) for bound in bounds) or bounds[2:] == (0,):
        raise SpecError("range wants one to three whole numbers")
    if max(abs(bound) for bound in bounds) >= 2**62 or len(range(*bounds)) > MAX_RANGE:
        raise SpecError(f"a range may have {MAX_RANGE:,} numbers at most")
    return range(*bounds)


def _fail(message: object) -> NoReturn:
    raise SpecError(text(message))


def _join(value: Any, separator: str = "") -> str:
    pieces = [text(item) for item in _items(value)]
    spend((sum(map(len, pieces)) + len(separator) * len(pieces)) // BYTES_PER_STEP)
    return separator.join(pieces)


def _replace(value: Any, old: str, new: str) -> str:
    whole = text(value)
    spend((len(whole) + whole.count(old) * len(new)) // BYTES_PER_STEP)
    return whole.replace(old, new)


def _numeric(name: str) -> Callable[..., Any]:
    """A function of expressions, which takes lists as well."""
    body = functions.FUNCTIONS[name]
    return lambda *args: body(*(tuple(_items(arg)) if isinstance(arg, (list, range)) else arg for arg in args))


def _default(value: Any, other: Any = "", boolean: bool = False) -> Any:
    return other if isinstance(value, jinja2.Undefined) or (boolean and not value) else value


_SCALARS, _SIZED = (str, bool, int, float, type(None)), (str, list, tuple, dict, range)
_RELATIONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "lteq": operator.le, "gt": operator.gt, "gteq": operator.ge,
}  # fmt: skip
_NUMERIC = {name: _numeric(name) for name in ("abs", "ceil", "floor", "float", "int", "max", "min", "round", "sum")}
FUNCTIONS: Mapping[str, Function] = {
    "range": Function(_range), "dict": Function(lambda **fields: fields), "fail": Function(_fail),
    **{name: Function(body) for name, body in _NUMERIC.items()},
}  # fmt: skip
_TABLE: Mapping[str, Callable[..., Any]] = {
    "items": lambda table: list(table.items()), "keys": list, "values": lambda table: list(table.values()),
    "get": lambda table, name, other=None: table.get(text(name), other),
}  # fmt: skip
_LOOP = frozenset(["index", "index0", "revindex", "revindex0", "first", "last", "length"])
_FILTERS: Mapping[str, Callable[..., Any]] = {
    **_NUMERIC, "default": _default, "d": _default, "join": _join, "replace": _replace, "string": text,
    "upper": lambda value: text(value).upper(), "lower": lambda value: text(value).lower(), "list": _items,
    "length": lambda value: len(_items(value)), "first": lambda value: _items(value)[0], "last": lambda value: _items(value)[-1],
}  # fmt: skip
NAMED: Mapping[type, Sequence[str]] = {
    nodes.Filter: (*_FILTERS, "~items", "~compare"),
    nodes.Test: ("defined", "undefined", "none", "number", "string", "mapping", "odd", "even", "divisibleby"),
}


class _Missing(jinja2.StrictUndefined):
    """A name without a value: whoever needs one is told how to give it."""

    @property
    def _undefined_message(self) -> str:
        if self._undefined_hint:
            return str(self._undefined_hint)
        if self._undefined_obj is jinja2.utils.missing:
            return f"{self._undefined_name} is not defined; give it with -D {self._undefined_name}=VALUE"
        return f"{_kind(self._undefined_obj)} has no '{self._undefined_name}'"


class _Environment(ImmutableSandboxedEnvironment):
    """Attributes, items, calls and operators: those of this module, and no others."""

    intercepted_binops = frozenset(["+", "-", "*", "/", "//", "%", "**"])
    intercepted_unops = frozenset(["+", "-"])

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        return _binary(operator, left, right)

    def call_unop(self, context: Context, operator: str, arg: Any) -> Any:
        return _binary(operator, 0, arg)

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, dict) and attribute in _TABLE:
            return Function(functools.partial(_TABLE[attribute], obj))
        if isinstance(obj, LoopContext) and attribute in _LOOP:
            return getattr(obj, attribute)
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        need(obj, argument)
        numbered = isinstance(obj, (list, tuple, str, range)) and isinstance(argument, int)
        if numbered or (isinstance(obj, dict) and isinstance(argument, _SCALARS)):
            with contextlib.suppress(LookupError):
                return obj[argument]
        return self.undefined(obj=obj, name=str(argument)[:80])

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(obj, jinja2.Undefined):
            known = {name for name, value in context.get_all().items() if isinstance(value, Function)}
            raise SpecError(
                f"there is no function '{obj._undefined_name}'{did_you_mean(obj._undefined_name or '', known)}"
            )
        if not isinstance(obj, Function):
            raise SpecError(f"{_kind(obj)} cannot be called")
        inner = {**kwargs.pop("_block_vars", {}), **kwargs.pop("_loop_vars", {})}
        return _paying(obj.body)(*((context.derived(inner),) if obj.context else ()), *args, **kwargs)


def _paying(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def apply(*args: Any, **kwargs: Any) -> Any:
        if function is not _default:
            need(*args, *kwargs.values())
        spend(1 + sum(map(_size, (*args, *kwargs.values()))))
        try:
            result = function(*args, **kwargs)
        except (TypeError, IndexError, AttributeError):
            raise SpecError("a function or filter cannot take these arguments") from None
        spend(_size(result))
        return operators.limited(result)

    return apply


class Assert(Extension):
    """`{% assert condition, "message" %}`."""

    tags = frozenset(["assert"])  # type: ignore[assignment]

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        condition = parser.parse_expression()
        message = parser.parse_expression() if parser.stream.skip_if("comma") else nodes.Const("an assertion fails")
        failure = nodes.Output([nodes.Call(nodes.Name("fail", "load"), [message], [], None, None)])
        return nodes.If(nodes.Not(condition), [failure], [], []).set_lineno(line, override=True)


@jinja2.pass_context
def _finalize(context: Context, value: object) -> str:
    return text(value)


ENVIRONMENT = _Environment(
    keep_trailing_newline=True, undefined=_Missing, finalize=_finalize, extensions=[Assert], optimized=False
)
ENVIRONMENT.globals = dict(FUNCTIONS)
ENVIRONMENT.filters = {name: _paying(function) for name, function in _FILTERS.items()}
ENVIRONMENT.filters |= {"~items": _items, "~compare": _compare}
