"""Affine expressions over rank variables, and constraints between them: how tensors are indexed."""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from fusiest.base.errors import SpecError, shown
from fusiest.base.frozen import FrozenDict
from fusiest.spec.language.expressions import parse_expression

MAX_CONSTANT = 2**62
MAX_POSITIONS = 2**27


@dataclass(frozen=True, slots=True)
class Affine:
    """Σ coefficient · variable + constant, with integer coefficients.

    >>> str(Affine.parse("2*p + r - 1"))
    '2*p + r - 1'
    """

    coefficients: FrozenDict[str, int]
    constant: int = 0

    @classmethod
    def parse(cls, text: str) -> Affine:
        coefficients, constant = _affine(parse_expression(text), text)
        return cls(FrozenDict({v: a for v, a in coefficients.items() if a}), constant)

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(self.coefficients)

    def moved(self, by: Mapping[str, int]) -> Affine:
        """The index of variables that are larger by these amounts.

        >>> str(Affine.parse("2*p + r - 1").moved({"p": 3, "r": 0}))
        '2*p + r + 5'
        """
        more = sum(a * by[v] for v, a in self.coefficients.items())
        return Affine(self.coefficients, self.constant + more) if more else self

    def length(self, extents: Mapping[str, int]) -> int:
        """How many positions it can have from the least to the greatest, over a box of these extents.

        >>> Affine.parse("2*p + r").length({"p": 3, "r": 2})
        6
        """
        return 1 + sum(abs(a) * (extents[v] - 1) for v, a in self.coefficients.items())

    def positions(self, extents: Mapping[str, int]) -> int:
        """How many different positions it has over a box of these extents: `length` without the gaps.

        Two indices meet, as a·x + b·y = a·(x + b) + b·(y − a) for coprime a and b: where both are in the box, one is left out.

        >>> [Affine.parse(index).positions({"p": 3, "r": 2, "s": 2}) for index in ("3*p", "2*p + r", "3*p + r", "4*p + 2*r + s")]
        [3, 6, 6, 12]
        """
        steps = [(abs(a), extents[v]) for v, a in self.coefficients.items() if extents[v] > 1]
        if len(steps) < 2:
            return math.prod(n for _, n in steps)
        if len(steps) == 2:
            (a, n), (b, m) = steps
            common = math.gcd(a, b)
            return n * m - max(0, n - b // common) * max(0, m - a // common)
        if self.length(extents) > MAX_POSITIONS:
            raise SpecError(f"'{self}' has too many positions to count those that are used")
        used = 1  # bit by bit
        for a, n in steps:
            count = 1
            while count < n:
                chosen_count = min(count, n - count)
                used, count = used | used << a * chosen_count, count + chosen_count
        return used.bit_count()

    def __str__(self) -> str:
        terms = [(a, v if abs(a) == 1 else f"{abs(a)}*{v}") for v, a in self.coefficients.items()]
        if self.constant or not terms:
            terms.append((self.constant, str(abs(self.constant))))
        first = ("-" if terms[0][0] < 0 else "") + terms[0][1]
        return first + "".join(f" {'-' if a < 0 else '+'} {term}" for a, term in terms[1:])


_AffineTerms: TypeAlias = tuple[dict[str, int], int]
"""Coefficients by variable, and a constant."""


def _affine(node: ast.expr, text: str) -> _AffineTerms:
    """Coefficients and constant of an expression tree."""
    # The left spine is walked in a loop, so that a sum of hundreds of terms costs no stack.
    spine: list[ast.BinOp] = []
    while isinstance(node, ast.BinOp):
        spine.append(node)
        node = node.left
    value = _term(node, text)
    for step in reversed(spine):
        right = _affine(step.right, text)
        if isinstance(step.op, (ast.Add, ast.Sub)):
            value = _added(value, right, 1 if isinstance(step.op, ast.Add) else -1, text)
        elif isinstance(step.op, ast.Mult) and not (value[0] and right[0]):
            value = _scaled(right, value[1], text) if right[0] else _scaled(value, right[1], text)
        else:
            raise _not_affine(text)
    return value


def _term(node: ast.expr, text: str) -> _AffineTerms:
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return {}, _bounded(value, text)
        case ast.Name(id=name):
            return {name: 1}, 0
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as operator, operand=operand):
            return _scaled(_affine(operand, text), -1 if isinstance(operator, ast.USub) else 1, text)
    raise _not_affine(text)


def _added(left: _AffineTerms, right: _AffineTerms, sign: int, text: str) -> _AffineTerms:
    """The sum, in the coefficients of `left`."""
    coefficients, constant = left
    for v, a in right[0].items():
        coefficients[v] = _bounded(coefficients.get(v, 0) + sign * a, text)
    return coefficients, _bounded(constant + sign * right[1], text)


def _scaled(affine: _AffineTerms, factor: int, text: str) -> _AffineTerms:
    return {v: _bounded(a * factor, text) for v, a in affine[0].items()}, _bounded(affine[1] * factor, text)


def _bounded(value: int, text: str) -> int:
    if abs(value) > MAX_CONSTANT:
        raise SpecError(f"a number in '{shown(text)}' is too large", text)
    return value


def _not_affine(text: str) -> SpecError:
    return SpecError(f"'{shown(text)}' is not an affine expression of rank variables such as '2*p + r'", text)


@dataclass(frozen=True, slots=True)
class Constraint:
    """Inequalities on rank variables, e.g. `0 <= m < 128`, joined by `and` where there are several."""

    text: str

    def __post_init__(self) -> None:
        _inequalities(self.text)

    def inequalities(self) -> tuple[Affine, ...]:
        """Affine expressions that must be at least 0."""
        return _inequalities(self.text)

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(v for affine in self.inequalities() for v in affine.variables)


@functools.lru_cache(maxsize=4096)
def _inequalities(text: str) -> tuple[Affine, ...]:
    tree = parse_expression(text)
    inequalities: list[Affine] = []
    for conjunct in tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]:
        if not isinstance(conjunct, ast.Compare):
            raise SpecError(f"'{shown(text)}' is not a constraint such as '0 <= m < 128'", text)
        sides = [conjunct.left, *conjunct.comparators]
        for left, operator, right in zip(sides, conjunct.ops, sides[1:], strict=False):
            inequalities += _inequality(_affine(left, text), operator, _affine(right, text), text)
    return tuple(inequalities)


def _inequality(left: _AffineTerms, operator: ast.cmpop, right: _AffineTerms, text: str) -> list[Affine]:
    def at_least(a: _AffineTerms, b: _AffineTerms, margin: int) -> Affine:
        coefficients, constant = _added((dict(a[0]), a[1] - margin), b, -1, text)
        return Affine(FrozenDict({v: c for v, c in coefficients.items() if c}), constant)

    match operator:
        case ast.LtE():
            return [at_least(right, left, 0)]
        case ast.Lt():
            return [at_least(right, left, 1)]
        case ast.GtE():
            return [at_least(left, right, 0)]
        case ast.Gt():
            return [at_least(left, right, 1)]
        case ast.Eq():
            return [at_least(left, right, 0), at_least(right, left, 0)]
    raise SpecError(f"'{shown(text)}': only <, <=, >, >= and == constrain rank variables", text)
