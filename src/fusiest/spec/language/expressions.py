"""Arithmetic and set expressions, evaluated by a walk over their trees.

An attribute that is not listed is an error. Every step is counted and every number bounded, so that no expression can exhaust the
machine.
"""

from __future__ import annotations

import ast
import math
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar, cast

from fusiest.base.errors import Located, SpecError, did_you_mean, shown
from fusiest.spec.language.allowed_names import unknown_name
from fusiest.spec.language.functions import FUNCTIONS
from fusiest.spec.language.grammar import SYMBOLS, is_fanout, names_in, parse_expression
from fusiest.spec.language.namesets import Attributed, NameSet, Universe
from fusiest.spec.language.operators import (
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
from fusiest.spec.reading.budget import Budget

__all__ = [
    "CONSTANTS", "NameSet", "Record", "Universe", "Word", "boolean", "by_set", "evaluate_expression", "name_set",
    "names_in", "number", "parse_expression",
]  # fmt: skip

T = TypeVar("T")
MAX_STEPS = 100_000
CONSTANTS: Mapping[str, object] = {"inf": math.inf, "pi": math.pi, "true": True, "false": False}


@dataclass(frozen=True, slots=True, eq=False)
class Record(Attributed):
    """An object whose attributes an expression may read: exactly the fields given.

    >>> evaluate_expression("a.n_calls / 2", {"a": Record({"n_calls": 6})})
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


def chained(*scopes: Mapping[str, object]) -> Mapping[str, object]:
    """The names of several scopes; of two that have one, the first counts."""
    return ChainMap(*cast("tuple[dict[str, object], ...]", scopes))


def evaluate_expression(value: float | str, names: Mapping[str, object]) -> object:
    """The value of an expression. Numbers and booleans stand for themselves.

    >>> evaluate_expression("8 * 614e9", {})
    4912000000000.0
    >>> evaluate_expression("max(a.n / 2 for a in actions)", {"actions": (Record({"n": 4}), Record({"n": 6}))})
    3.0
    """
    if not isinstance(value, str):
        return value
    tree, evaluation = parse_expression(value), _TreeWalk(names)
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
    result = evaluate_expression(value, names)
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
    result = evaluate_expression(value, names)
    if isinstance(result, (bool, int, NameSet)) or (isinstance(result, float) and not math.isnan(result)):
        return bool(result)
    raise SpecError(f"{what} must be true or false, but '{shown(value)}' is {kind_of(result)}", at=_place(value))


def name_set(value: float | str, names: Mapping[str, object], what: str) -> NameSet:
    """Evaluate to a set of tensors or of rank variables.

    >>> ab = Universe(tensors={"A": frozenset("m"), "B": frozenset("n")}, variables=frozenset("mn"))
    >>> sorted(name_set("~A", {"A": ab.of("A")}, "keep").members)
    ['B']
    """
    result = evaluate_expression(value, names)
    if isinstance(result, NameSet):
        return result
    raise SpecError(f"{what} must be a set, but '{shown(value)}' is {kind_of(result)}", at=_place(value))


def by_set(table: Mapping[str, T], names: Mapping[str, object], universe: Universe) -> dict[str, T]:
    """Spread a table keyed by disjoint tensor sets: tensor -> its value, not evaluated.

    >>> ab = Universe(tensors={"A": frozenset("m"), "B": frozenset("n")}, variables=frozenset("mn"))
    >>> by_set({"A": 8, "Other": 16}, {"A": ab.of("A")}, ab)
    {'A': 8, 'B': 16}
    """
    keys: dict[str, str] = {}
    other: str | None = None
    for key in table:
        if key.strip() == "Other":
            if other is not None:
                raise SpecError("'Other' appears twice", at=key)
            other = key
            continue
        chosen = name_set(key, names, "a key")
        if chosen.kind != "tensor":
            raise SpecError(f"key '{shown(key)}' must be a set of tensors, but is one of rank variables", at=key)
        for tensor in sorted(chosen.members):
            if tensor in keys:
                raise SpecError(f"keys '{shown(keys[tensor])}' and '{shown(key)}' both hold {tensor}", at=key)
            keys[tensor] = key
    if other is not None:
        keys |= {tensor: other for tensor in sorted(universe.tensors) if tensor not in keys}
    return {tensor: table[key] for tensor, key in keys.items()}


class _TreeWalk:
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
            raise unknown_name(node.id, self.names) from None

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
            value = binary(SYMBOLS[type(step.op)], value, self.visit(step.right))
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
        want_numbers(SYMBOLS[type(node.op)], value)
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
            result = result & cast(Any, compare(SYMBOLS[type(op)], left, right))
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
        if is_fanout(node):
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
        sets = [self.visit(element) for element in node.elts]
        if not all(isinstance(element, NameSet) for element in sets):
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
        scope: dict[str, object] = {}
        inner = chained(scope, outer)
        for value in sequence("for", self.visit(first.iter)):
            self.budget.spend()
            self.names = inner
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


_VISITORS: Mapping[type, Callable[[_TreeWalk, Any], object]] = {
    ast.Constant: _TreeWalk.constant, ast.Name: _TreeWalk.name, ast.Attribute: _TreeWalk.attribute,
    ast.BinOp: _TreeWalk.binary, ast.UnaryOp: _TreeWalk.unary, ast.BoolOp: _TreeWalk.logical,
    ast.Compare: _TreeWalk.compare, ast.IfExp: _TreeWalk.conditional, ast.Call: _TreeWalk.call,
    ast.GeneratorExp: _TreeWalk.comprehension, ast.ListComp: _TreeWalk.comprehension,
    ast.List: _TreeWalk.sequence, ast.Tuple: _TreeWalk.sequence, ast.Subscript: _TreeWalk.subscript,
    ast.Set: _TreeWalk.braces,
}  # fmt: skip
