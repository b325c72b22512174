"""Arithmetic and set expressions, read with Python's grammar and evaluated by a walk over a few node types.

Nothing in a spec is ever compiled or run: a node, function or attribute that is not listed here is an error.
Every step is counted and every number bounded, so that no expression can exhaust the machine.
"""

from __future__ import annotations

import ast
import math
import re
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any, TypeVar, cast

from fusiest.errors import Located, SpecError, did_you_mean, shown
from fusiest.spec.budget import Budget
from fusiest.spec.functions import FUNCTIONS
from fusiest.spec.namesets import Attributed, NameSet, Universe
from fusiest.spec.operators import (
    MAX_BITS,
    binary,
    compare,
    is_array,
    item,
    kind_of,
    plain_truth,
    sequence,
    truth,
    want_numbers,
)
from fusiest.units import complaint, without_units

__all__ = [
    "CONSTANTS",
    "NameSet",
    "Record",
    "Universe",
    "Word",
    "boolean",
    "by_set",
    "evaluate",
    "name_set",
    "names_in",
    "number",
    "parse",
]

T = TypeVar("T")
MAX_LENGTH = 2_000
MAX_DEPTH = 50
MAX_STEPS = 100_000
CONSTANTS: Mapping[str, object] = {"inf": math.inf, "pi": math.pi, "true": True, "false": False}


@dataclass(frozen=True, slots=True, eq=False)
class Record(Attributed):
    """An object whose attributes an expression may read: exactly the fields given.

    >>> evaluate("a.n_calls / 2", {"a": Record({"n_calls": 6})})
    3.0
    """

    fields: Mapping[str, object]

    def attribute(self, name: str) -> object:
        """A field."""
        if name not in self.fields:
            raise SpecError(f"no attribute '{name}'{did_you_mean(name, self.fields)}")
        return self.fields[name]


class Word(Located):
    """The value of a variable that is given as a word which is no name: the text itself."""

    __slots__ = ()


class VariableError(SpecError):
    """A variable without a value: what uses it has nothing to add."""


def evaluate(value: float | str, names: Mapping[str, object]) -> object:
    """The value of an expression. Numbers and booleans stand for themselves.

    >>> evaluate("8 * 614e9", {})
    4912000000000.0
    >>> evaluate("max(a.n / 2 for a in actions)", {"actions": (Record({"n": 4}), Record({"n": 6}))})
    3.0
    """
    if not isinstance(value, str):
        return value
    tree, evaluation = parse(value), _Evaluation(names)
    try:
        return evaluation.visit(tree)
    except (SpecError, ArithmeticError, ValueError, TypeError, RecursionError) as error:
        if isinstance(error, VariableError) or (isinstance(error, SpecError) and error.source is not None):
            raise  # what is wrong is elsewhere, in a variable or in the fanout of a component
        raise SpecError(f"in '{shown(value)}': {_reason(error)}", at=value) from None


def number(value: float | str, names: Mapping[str, object], what: str) -> int | float:
    """Evaluate to a real number; an int stays an int. `what` names the field in the error.

    >>> number("1024*1024*128*8", {}, "size")
    1073741824
    """
    result = evaluate(value, names)
    if is_array(result) and getattr(result, "ndim", 1) == 0:
        result = cast(Any, result).item()
    if isinstance(result, Word):
        raise SpecError(
            f"{what} must be a number, but comes from the unknown name '{shown(result)}'{did_you_mean(result, names)}",
            result,
        )
    if isinstance(result, bool) or not isinstance(result, (int, float)):
        raise SpecError(f"{what} must be a number, but '{shown(value)}' is {kind_of(result)}", at=_place(value))
    if isinstance(result, float) and math.isnan(result):
        raise SpecError(f"{what} must be a number, but '{shown(value)}' has no value (nan)", at=_place(value))
    return result


def boolean(value: float | str, names: Mapping[str, object], what: str) -> bool:
    """Evaluate to true or false: a number is true if not 0, a set if not empty.

    >>> boolean("2 < 3 and not 0", {}, "enabled")
    True
    """
    result = evaluate(value, names)
    if isinstance(result, (bool, int, NameSet)) or (isinstance(result, float) and not math.isnan(result)):
        return bool(result)
    raise SpecError(f"{what} must be true or false, but '{shown(value)}' is {kind_of(result)}", at=_place(value))


def name_set(value: float | str, names: Mapping[str, object], what: str) -> NameSet:
    """Evaluate to a set of tensors or of rank variables.

    >>> ab = Universe(tensors={"A": frozenset("m"), "B": frozenset("n")}, variables=frozenset("mn"))
    >>> sorted(name_set("~A", {"A": ab.of("A")}, "keep").members)
    ['B']
    """
    result = evaluate(value, names)
    if isinstance(result, NameSet):
        return result
    raise SpecError(f"{what} must be a set, but '{shown(value)}' is {kind_of(result)}", at=_place(value))


def by_set(table: Mapping[str, T], names: Mapping[str, object], universe: Universe) -> dict[str, tuple[T, str]]:
    """Spread a table keyed by disjoint tensor sets: tensor -> (its value, not evaluated; the key it came from).

    >>> ab = Universe(tensors={"A": frozenset("m"), "B": frozenset("n")}, variables=frozenset("mn"))
    >>> by_set({"A": 8, "Other": 16}, {"A": ab.of("A")}, ab)
    {'A': (8, 'A'), 'B': (16, 'Other')}
    """
    spread: dict[str, tuple[T, str]] = {}
    rest: tuple[T, str] | None = None
    for key, value in table.items():
        if key.strip() == "Other":
            if rest is not None:
                raise SpecError("'Other' appears twice", at=key)
            rest = (value, key)
            continue
        chosen = name_set(key, names, "a key")
        if chosen.kind != "tensor":
            raise SpecError(f"key '{shown(key)}' must be a set of tensors, but is one of rank variables", at=key)
        for tensor in sorted(chosen.members):
            if tensor in spread:
                raise SpecError(f"keys '{shown(spread[tensor][1])}' and '{shown(key)}' both hold {tensor}", at=key)
            spread[tensor] = (value, key)
    if rest is not None:
        spread |= {tensor: rest for tensor in sorted(universe.tensors) if tensor not in spread}
    return spread


def parse(text: str) -> ast.expr:
    """Parse an expression and check that it uses nothing but the language of this module.

    >>> type(parse("a if b else ~c")).__name__
    'IfExp'
    """
    try:
        return _parse(str(text))
    except SpecError as error:
        raise SpecError(error.message, at=text) from None


@lru_cache(maxsize=4_096)
def _parse(text: str) -> ast.expr:
    if len(text) > MAX_LENGTH:
        raise SpecError(f"an expression may have {MAX_LENGTH} characters, but this one has {len(text)}")
    if "\\" in text:
        raise SpecError(f"'{shown(text)}' is not an expression: a backslash has no meaning here")
    if _GLUED.search(text):
        raise SpecError(f"'{shown(text)}' is not an expression: a space is missing after a number")
    # An expression may be folded over lines; with a comment in it, joining the lines would drop what follows.
    line = without_units(text.strip() if "#" in text else " ".join(text.split()))
    try:
        tree = ast.parse(line, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        reason = complaint(text) or (error.msg if isinstance(error, SyntaxError) else "it cannot be parsed")
        raise SpecError(f"'{shown(text)}' is not an expression: {reason}") from None
    try:
        _check(tree)
        _check_spelling(tree, line)
    except SpecError as error:
        raise SpecError(f"in '{shown(text)}': {error.message}") from None
    return tree


@lru_cache(maxsize=4_096)
def names_in(text: str) -> frozenset[str]:
    """The names that an expression takes from outside.

    >>> sorted(names_in("~(input | output) if len(All) == 3 else sum(t for t in All)"))
    ['All', 'input', 'output']
    """
    nodes = list(ast.walk(parse(text)))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    found = [node for node in nodes if isinstance(node, ast.Name) and id(node) not in called]
    return frozenset(node.id for node in found) - {node.id for node in found if isinstance(node.ctx, ast.Store)}


def _check(tree: ast.expr) -> None:
    """Refuse what is not in the language, before anything is evaluated. A sum of many terms is not deep."""
    todo: list[tuple[ast.AST, int]] = [(tree, 0)]
    while todo:
        node, depth = todo.pop()
        if depth > MAX_DEPTH:
            raise SpecError(f"nested more than {MAX_DEPTH} deep")
        if not isinstance(node, _GRAMMAR):
            raise SpecError(f"{_REFUSED.get(type(node), type(node).__name__)} may not be used in an expression")
        if isinstance(node, ast.Call):
            _check_call(node)
            todo += [(argument, depth + 1) for argument in (*node.args, *([node.func] if _is_fanout(node) else []))]
            continue
        if isinstance(node, ast.Constant):
            _check_constant(node.value)
        if isinstance(node, ast.comprehension) and (node.is_async or not isinstance(node.target, ast.Name)):
            raise SpecError("a 'for' takes one plain name")
        for child in ast.iter_child_nodes(node):
            chained = isinstance(node, ast.BinOp) and child is node.left and isinstance(child, ast.BinOp)
            todo.append((child, depth if chained else depth + 1))


def _check_spelling(tree: ast.expr, line: str) -> None:
    """Refuse a letter that Python takes for another: `Aᵢ` would be read as `Ai`."""
    for node in ast.walk(tree) if not line.isascii() else ():
        if isinstance(node, ast.Name) and ast.get_source_segment(line, node) != node.id:
            raise SpecError(f"'{ast.get_source_segment(line, node)}' is not a name of ASCII letters, digits and '_'")


def _is_fanout(node: ast.Call) -> bool:
    """Whether this is `Array.get_fanout()`, another way to write `Array.fanout`."""
    return isinstance(node.func, ast.Attribute) and node.func.attr == "get_fanout" and not node.args + node.keywords


def _check_call(node: ast.Call) -> None:
    if _is_fanout(node):
        return
    if not isinstance(node.func, ast.Name):
        raise SpecError("only functions can be called")
    if node.func.id not in FUNCTIONS:
        raise SpecError(f"unknown function '{node.func.id}'{did_you_mean(node.func.id, FUNCTIONS)}")
    if node.keywords:
        raise SpecError(f"{node.func.id} takes no named arguments")


def _check_constant(value: object) -> None:
    if isinstance(value, (bool, str)):
        return
    if not isinstance(value, (int, float)):
        raise SpecError(f"{value!r} may not be used in an expression")
    if value == math.inf or (isinstance(value, int) and value.bit_length() > MAX_BITS):
        raise SpecError("a number is too large")


class _Evaluation:
    """One walk over one tree: the names in scope and the steps that it may still take."""

    __slots__ = ("budget", "names")

    def __init__(self, names: Mapping[str, object]) -> None:
        self.names: Mapping[str, object] = names
        self.budget = Budget(MAX_STEPS, f"it takes more than {MAX_STEPS:,} steps")

    def visit(self, node: ast.expr) -> object:
        self.budget.spend()
        return _VISITORS[type(node)](self, node)

    def pay(self, *values: object) -> None:
        """Take a step for each item of what is made or looked through."""
        for value in values:
            if isinstance(value, (tuple, list)):
                self.budget.spend(len(value))

    def constant(self, node: ast.Constant) -> object:
        return node.value

    def name(self, node: ast.Name) -> object:
        try:
            return self.names[node.id]
        except KeyError:
            if node.id in CONSTANTS:
                return CONSTANTS[node.id]
            raise SpecError(f"unknown name '{node.id}'{did_you_mean(node.id, self.names)}") from None

    def attribute(self, node: ast.Attribute) -> object:
        owner = self.visit(node.value)
        if not isinstance(owner, Attributed):
            raise SpecError(f"{kind_of(owner)} has no attribute '{node.attr}'")
        return owner.attribute(node.attr)

    def binary(self, node: ast.BinOp) -> object:
        # The left spine is walked in a loop, so that a sum of hundreds of terms costs no stack.
        spine = [node]
        while isinstance(spine[-1].left, ast.BinOp):
            spine.append(spine[-1].left)
        value = self.visit(spine[-1].left)
        for step in reversed(spine):
            self.budget.spend()
            value = binary(_SYMBOLS[type(step.op)], value, self.visit(step.right))
            self.pay(value)
        return value

    def unary(self, node: ast.UnaryOp) -> object:
        value = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            condition = truth(value)
            return ~condition if is_array(condition) else not condition
        if isinstance(node.op, ast.Invert):
            if isinstance(value, NameSet):
                return ~value
            raise SpecError(f"'~' is the complement of a set, but this is {kind_of(value)}; of a condition, say 'not'")
        want_numbers(_SYMBOLS[type(node.op)], value)
        return -cast(Any, value) if isinstance(node.op, ast.USub) else +cast(Any, value)

    def logical(self, node: ast.BoolOp) -> object:
        is_or = isinstance(node.op, ast.Or)
        result: Any = is_or is False
        for operand in node.values:
            condition = truth(self.visit(operand))
            result = (result | condition) if is_or else (result & condition)
            if not is_array(result) and result == is_or:
                return result
        return result

    def compare(self, node: ast.Compare) -> object:
        left, result = self.visit(node.left), cast(Any, True)
        for op, operand in zip(node.ops, node.comparators, strict=True):
            right = self.visit(operand)
            self.pay(right)
            result = result & cast(Any, compare(_SYMBOLS[type(op)], left, right))
            if not is_array(result) and not result:
                return False
            left = right
        return result

    def conditional(self, node: ast.IfExp) -> object:
        condition = truth(self.visit(node.test))
        if not is_array(condition):
            return self.visit(node.body if condition else node.orelse)
        body, orelse = self.visit(node.body), self.visit(node.orelse)
        want_numbers("if", body, orelse)
        return sys.modules["numpy"].where(condition, body, orelse)

    def call(self, node: ast.Call) -> object:
        if _is_fanout(node):
            return cast(Attributed, self.visit(cast(ast.Attribute, node.func).value)).attribute("fanout")
        name = cast(ast.Name, node.func).id
        arguments = [self.visit(argument) for argument in node.args]
        self.pay(*arguments)
        try:
            result = FUNCTIONS[name](*arguments)
        except TypeError:
            raise SpecError(f"{name} cannot take these arguments") from None
        self.pay(result)
        return result

    def subscript(self, node: ast.Subscript) -> object:
        return item(self.visit(node.value), self.visit(node.slice))

    def braces(self, node: ast.Set) -> NameSet:
        sets = [self.visit(part) for part in node.elts]
        if not all(isinstance(part, NameSet) for part in sets):
            raise SpecError("braces hold sets, whose union they are")
        return cast(NameSet, reduce(lambda left, right: binary("|", left, right), sets))

    def sequence(self, node: ast.List | ast.Tuple) -> tuple[object, ...]:
        return tuple(self.visit(item) for item in node.elts)

    def comprehension(self, node: ast.GeneratorExp | ast.ListComp) -> tuple[object, ...]:
        return tuple(self.iterate(node.elt, node.generators))

    def iterate(self, element: ast.expr, generators: Sequence[ast.comprehension]) -> Iterator[object]:
        if not generators:
            yield self.visit(element)
            return
        first, outer = generators[0], self.names
        scope = ChainMap[str, object]({}, cast("dict[str, object]", outer))
        for value in sequence("for", self.visit(first.iter)):
            self.budget.spend()
            self.names = scope
            scope[cast(ast.Name, first.target).id] = value
            if all(plain_truth(self.visit(condition)) for condition in first.ifs):
                yield from self.iterate(element, generators[1:])
        self.names = outer


def _place(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _reason(error: Exception) -> str:
    if isinstance(error, SpecError):
        return error.message
    if isinstance(error, ZeroDivisionError):
        return "division by zero"
    return "a number is too large" if isinstance(error, OverflowError) else "it has no value"


# Python warns about these on stderr, where only our own lines belong.
_GLUED = re.compile(r"\b[0-9][0-9a-fA-FxXoOjJ_.]*(and|else|for|if|in|is|not|or)")
_SYMBOLS: Mapping[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">",
    ast.GtE: ">=", ast.UAdd: "+", ast.USub: "-", ast.Invert: "~", ast.Not: "not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
_VISITORS: Mapping[type, Callable[[_Evaluation, Any], object]] = {
    ast.Constant: _Evaluation.constant, ast.Name: _Evaluation.name, ast.Attribute: _Evaluation.attribute,
    ast.BinOp: _Evaluation.binary, ast.UnaryOp: _Evaluation.unary, ast.BoolOp: _Evaluation.logical,
    ast.Compare: _Evaluation.compare, ast.IfExp: _Evaluation.conditional, ast.Call: _Evaluation.call,
    ast.GeneratorExp: _Evaluation.comprehension, ast.ListComp: _Evaluation.comprehension,
    ast.List: _Evaluation.sequence, ast.Tuple: _Evaluation.sequence, ast.Subscript: _Evaluation.subscript,
    ast.Set: _Evaluation.braces,
}  # fmt: skip
_GRAMMAR = (*_VISITORS, *_SYMBOLS, ast.And, ast.Or, ast.comprehension, ast.Load, ast.Store)
_REFUSED: Mapping[type, str] = {
    ast.Slice: "a slice", ast.Lambda: "a lambda", ast.JoinedStr: "an f-string", ast.NamedExpr: "':='",
    ast.Starred: "a '*'", ast.Dict: "a dict",
    ast.BitXor: "'^'", ast.LShift: "'<<'", ast.RShift: "'>>'", ast.MatMult: "'@'", ast.Is: "'is'", ast.IsNot: "'is'",
}  # fmt: skip
