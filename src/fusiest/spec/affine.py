"""Affine expressions over rank variables, and constraints between them: how tensors are indexed."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass

from fusiest.errors import SpecError
from fusiest.frozen import FrozenDict
from fusiest.spec.expressions import parse

MAX_CONSTANT = 2**62


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
        coefficients, constant = _affine(parse(text), text)
        return cls(FrozenDict({v: a for v, a in coefficients.items() if a}), constant)

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(self.coefficients)

    def __str__(self) -> str:
        terms = [(a, v if abs(a) == 1 else f"{abs(a)}*{v}") for v, a in self.coefficients.items()]
        if self.constant or not terms:
            terms.append((self.constant, str(abs(self.constant))))
        first = ("-" if terms[0][0] < 0 else "") + terms[0][1]
        return first + "".join(f" {'-' if a < 0 else '+'} {term}" for a, term in terms[1:])


def _affine(node: ast.expr, text: str) -> tuple[dict[str, int], int]:
    """Coefficients and constant of an expression tree."""
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            if value > MAX_CONSTANT:
                raise SpecError(f"a number in '{text[:80]}' is too large", text)
            return {}, value
        case ast.Name(id=name):
            return {name: 1}, 0
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as operator, operand=operand):
            return _scaled(_affine(operand, text), -1 if isinstance(operator, ast.USub) else 1)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as operator, right=right):
            sign = 1 if isinstance(operator, ast.Add) else -1
            (a, c), (b, d) = _affine(left, text), _scaled(_affine(right, text), sign)
            return {v: a.get(v, 0) + b.get(v, 0) for v in {**a, **b}}, c + d
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            (a, c), (b, d) = _affine(left, text), _affine(right, text)
            if not a:
                return _scaled((b, d), c)
            if not b:
                return _scaled((a, c), d)
    raise SpecError(f"'{text}' is not an affine expression of rank variables such as '2*p + r'", text)


def _scaled(affine: tuple[dict[str, int], int], factor: int) -> tuple[dict[str, int], int]:
    return {v: a * factor for v, a in affine[0].items()}, affine[1] * factor


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
    tree = parse(text)
    found: list[Affine] = []
    for part in tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]:
        if not isinstance(part, ast.Compare):
            raise SpecError(f"'{text}' is not a constraint such as '0 <= m < 128'", text)
        sides = [part.left, *part.comparators]
        for left, operator, right in zip(sides, part.ops, sides[1:], strict=False):
            found += _inequality(_affine(left, text), operator, _affine(right, text), text)
    return tuple(found)


def _inequality(
    left: tuple[dict[str, int], int], operator: ast.cmpop, right: tuple[dict[str, int], int], text: str
) -> list[Affine]:
    def at_least(a: tuple[dict[str, int], int], b: tuple[dict[str, int], int], margin: int) -> Affine:
        coefficients = {v: a[0].get(v, 0) - b[0].get(v, 0) for v in {**a[0], **b[0]}}
        return Affine(FrozenDict({v: c for v, c in coefficients.items() if c}), a[1] - b[1] - margin)

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
    raise SpecError(f"'{text}': only <, <=, >, >= and == constrain rank variables", text)
