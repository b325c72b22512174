"""Einsums as text: `C[m, n] = A[m, k] * B[k, n]`, with `M: p` or `H: 2*p + r` naming the rank.

Operators and functions between the tensors name the Einsum's operation; they are never evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fusiest.base.errors import Located, SpecError, check_known, shown
from fusiest.base.frozen import FrozenDict
from fusiest.spec.language.affine import Affine
from fusiest.spec.language.allowed_names import NAME, check_name, check_word

MAX_LENGTH = 20_000
MAX_DEPTH = 20
_ACCESS = re.compile(r"\s*([A-Za-z_]\w*)\s*\[([^\[\]]*)\]\s*", re.ASCII)
_INDICES = re.compile(r"\s*\[[^\[\]]*\]")
_NAMES = re.compile(r"\b([A-Za-z_]\w*)\b(?!\s*\()", re.ASCII)
_FUNCTION = re.compile(r"\s*([A-Za-z_]\w*)?\s*\(", re.ASCII)
_NUMBER = re.compile(r"\s*[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?\s*", re.ASCII)
_POWER = re.compile(r"\*\*\s*-?[0-9]+(\.[0-9]*)?\s*", re.ASCII)
_MINUS, _COMMA, _CLOSE = re.compile(r"\s*-(?!\s*-)"), re.compile(r","), re.compile(r"\)\s*")
_WORDS = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", ",": "multiply"}


class ParsedAccess(NamedTuple):
    """A tensor and its indices."""

    name: str
    projection: FrozenDict[str, Affine]


class ParsedEinsum(NamedTuple):
    """What an Einsum's text says. The operation is None where it is the product of the inputs."""

    inputs: tuple[ParsedAccess, ...]
    output: ParsedAccess
    operation: str | None
    formula: str
    """The right side with tensors by their names alone: `exp(A - B)`."""


def parse_einsum(text: str) -> ParsedEinsum:
    """The accesses and the operation of an Einsum.

    >>> [a.name for a in parse_einsum("C[m,n] = A[m,k] * B[k,n]").inputs]
    ['A', 'B']
    >>> [parse_einsum(f"C[m] = {right}").operation for right in ("A[m] + B[m]", "exp(A[m] - B[m])", "relu(A[m,k] * B[k])")]
    ['add', 'exp', None]
    """
    if len(text) > MAX_LENGTH:
        raise SpecError(f"an Einsum may have {MAX_LENGTH:,} characters, but this one has {len(text):,}", text)
    sides = text.split("=")
    if len(sides) != 2:
        raise SpecError(f"'{shown(text)}' is not an Einsum such as 'C[m,n] = A[m,k] * B[k,n]'", text)
    if sides[0].rstrip().endswith(("+", "-", "*", "/")):
        raise SpecError(f"'{shown(text)}': write '=', what the output does not index is summed up anyway", text)
    left, right = _Side(sides[0], text), _Side(sides[1], text)
    left.expression(0)
    if len(left.accesses) != 1 or left.words:
        raise SpecError(f"'{shown(text)}': an Einsum has exactly one output", text)
    operation = right.expression(0)
    if not right.accesses:
        raise SpecError(f"'{shown(text)}': an Einsum reads at least one tensor", text)
    plain = operation == "multiply" or (
        right.multiplies and not _variables(right.accesses) <= _variables(left.accesses)
    )
    formula = " ".join(_INDICES.sub("", sides[1]).split())
    return ParsedEinsum(tuple(right.accesses), left.accesses[0], None if plain else operation, formula)


def with_tensors(formula: str, names: Sequence[str]) -> str:
    """Give the tensors of a formula other names, or texts, in the order in which it has them.

    >>> with_tensors("exp(A - A)", ["A[m]", "A_copy[m]"])
    'exp(A[m] - A_copy[m])'
    """
    texts = iter(names)
    return _NAMES.sub(lambda _: next(texts), formula)


def tensors_in(formula: str) -> list[str]:
    """The tensors of a formula, as often as it has them.

    >>> tensors_in("exp(A - 2e5 * A)")
    ['A', 'A']
    """
    return _NAMES.findall(formula)


def check_formula(formula: str, inputs: Iterable[str]) -> None:
    """Refuse a formula that does not parse, or that names anything but inputs.

    >>> check_formula("exp(A - B)", ["A", "B"])
    """
    if len(formula) > MAX_LENGTH or "[" in formula:
        raise SpecError(
            f"'{shown(formula)}' is not a formula of tensors without indices, such as 'exp(A - B)'", formula
        )
    side = _Side(_NAMES.sub(r"\1[]", formula), formula)
    side.expression(0)
    for access in side.accesses:
        check_known(access.name, list(inputs), f"the Einsum reads no tensor '{shown(access.name)}'", formula)


def _variables(accesses: Iterable[ParsedAccess]) -> set[str]:
    return {v for access in accesses for index in access.projection.values() for v in index.variables}


class _Side:
    """One side of an Einsum, read from left to right. `words` are the operators and functions met."""

    def __init__(self, side: str, text: str) -> None:
        self.side, self.text = side, text
        self.source = text.source if isinstance(text, Located) else None
        self.position = 0
        self.accesses: list[ParsedAccess] = []
        self.words: list[str] = []
        self.multiplies = False

    def expression(self, depth: int) -> str | None:
        """A sum of terms, to the end of the side or, inside brackets, to the `)`. Gives its outermost operation."""
        if depth > MAX_DEPTH:
            raise SpecError(f"'{shown(self.text)}': nested more than {MAX_DEPTH} deep", self.text)
        operation = self.term(depth)
        added: list[str] = []
        while word := self.operator("+-"):
            added.append(word)
            self.term(depth)
        if depth == 0 and self.position < len(self.side):
            raise self.expected("an operator such as '*' or '+'")
        return operation if not added else "add" if "add" in added else "subtract"

    def term(self, depth: int) -> str | None:
        first = len(self.accesses)
        operation, words = self.factor(depth), list[str]()
        # Between tensors, outside of any function, a comma has always been another way to write the product.
        while word := self.operator("*/," if depth == 0 else "*/"):
            words.append(word)
            before = len(self.accesses)
            self.factor(depth)
            self.multiplies |= word == "multiply" and first < before < len(self.accesses)
        return operation if not words else "multiply" if "multiply" in words else "divide"

    def factor(self, depth: int) -> str | None:
        """A tensor, a number, a function of expressions, or an expression in brackets; perhaps with a power."""
        operation: str | None = None
        if match := self.match(_ACCESS):
            self.access(match.group(1), match.group(2))
            if self.side.startswith("[", self.position):
                hint = f"'{match.group(1)}[i, j]'"
                raise SpecError(f"'{shown(self.text)}': indices stand in one pair of brackets, as in {hint}", self.text)
        elif match := self.match(_FUNCTION):
            operation = match.group(1)
            if operation:
                check_word(Located(operation, self.source), "function")
            self.words += [operation] if operation else []
            inner = self.expression(depth + 1)
            while operation and self.match(_COMMA):
                self.expression(depth + 1)
            operation = operation or inner
            if not self.match(_CLOSE):
                raise self.expected("')'")
        elif self.match(_MINUS):
            self.factor(depth)
            operation = "negate"
        elif not self.match(_NUMBER):
            raise self.expected("a tensor such as 'A[m, k]'")
        if self.match(_POWER):
            operation = "power"
        return operation

    def access(self, name: str, indices: str) -> None:
        tensor = Located(name, self.source)
        check_name(tensor, "tensor")
        projection = [_index(item.strip(), self.text) for item in indices.split(",") if item.strip() or "," in indices]
        ranks = [rank for rank, _ in projection]
        if len(set(ranks)) < len(ranks):
            raise SpecError(
                f"'{shown(self.text)}': tensor {name} names a rank twice; name the ranks, as in '{name}[M: m, N: n]'",
                self.text,
            )
        self.accesses.append(ParsedAccess(tensor, FrozenDict(projection)))

    def operator(self, symbols: str) -> str | None:
        if self.side[self.position : self.position + 1] not in tuple(symbols):
            return None
        self.position += 1
        self.words.append(_WORDS[self.side[self.position - 1]])
        return self.words[-1]

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.side, self.position)
        self.position = match.end() if match else self.position
        return match

    def expected(self, what: str) -> SpecError:
        remaining_text = self.side[self.position : self.position + 30].strip()
        return SpecError(f"'{shown(self.text)}': expected {what} at '{remaining_text}'", self.text)


def _index(item: str, text: str) -> tuple[str, Affine]:
    source = text.source if isinstance(text, Located) else None
    rank, colon, expression = item.rpartition(":")
    return projection_index(Located(rank.strip(), source) if colon else None, Located(expression.strip(), source), text)


def access_text(tensor: str, projection: Iterable[tuple[str, Affine]]) -> str:
    """A tensor with its indices: `T[c, H: 2*p + r]`."""
    texts = ((rank, str(index)) for rank, index in projection)
    indices = (text if text.upper() == rank else f"{rank}: {text}" for rank, text in texts)
    return f"{tensor}[{', '.join(indices)}]"


def projection_index(rank: str | None, expression: str, text: str) -> tuple[str, Affine]:
    """One rank of a projection; a lone variable `m` names its rank M."""
    if not expression:
        raise SpecError(f"'{shown(text)}': an index is empty", text)
    affine = Affine.parse(expression)
    if rank is None:
        if not NAME.match(expression):
            raise SpecError(f"'{shown(expression)}' needs the name of its rank, as in 'H: {shown(expression)}'", text)
        rank = expression.upper()
    check_name(rank, "rank")
    for variable in affine.variables:
        check_name(variable, "rank variable")
    return str(rank), affine
