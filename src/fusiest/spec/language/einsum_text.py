"""Einsums as text: `C[m, n] = A[m, k] * B[k, n]`, with `M: p` or `H: 2*p + r` naming the rank.

Operators and functions between the tensors say what is computed: a formula, and a word for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from fusiest.base.errors import Located, SpecError, shown
from fusiest.base.frozen import FrozenDict
from fusiest.spec.language.affine import Affine
from fusiest.spec.language.allowed_names import NAME, check_name
from fusiest.spec.language.formulas import MAX_LENGTH, Call, Read, Term, TermReader, formula_text

_ACCESS = re.compile(r"\s*([A-Za-z_]\w*)\s*\[([^\[\]]*)\]\s*", re.ASCII)
_EQUALS = re.compile(r"(?<![<>=!])=(?!=)")


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
    says_nothing: bool
    """Whether the formula is a single input, or the product of all."""


def parse_einsum(text: str) -> ParsedEinsum:
    """The accesses, the operation and the formula of an Einsum.

    >>> [a.name for a in parse_einsum("C[m,n] = A[m,k] * B[k,n]").inputs]
    ['A', 'B']
    >>> [parse_einsum(f"C[m] = {right}").operation for right in ("A[m] + B[m]", "exp(A[m] - B[m])", "relu(A[m,k] * B[k])")]
    ['add', 'exp', None]
    >>> parse_einsum("C[m] = relu(A[m,k] * B[k] + 1)").formula
    'relu(A * B + 1)'
    """
    if len(text) > MAX_LENGTH:
        raise SpecError(f"an Einsum may have {MAX_LENGTH:,} characters, but this one has {len(text):,}", text)
    sides = _EQUALS.split(text)
    if len(sides) != 2:
        raise SpecError(f"'{shown(text)}' is not an Einsum such as 'C[m,n] = A[m,k] * B[k,n]'", text)
    if sides[0].rstrip().endswith(("+", "-", "*", "/")):
        raise SpecError(f"'{shown(text)}': write '=', what the output does not index is summed up anyway", text)
    left, right = _Side(sides[0], text), _Side(sides[1], text)
    target, (term, operation) = left.all().term, right.all()
    if not isinstance(target, Read):
        raise SpecError(f"'{shown(text)}': an Einsum has exactly one output", text)
    if not right.accesses:
        raise SpecError(f"'{shown(text)}': an Einsum reads at least one tensor", text)
    plain = operation == "multiply" or (
        right.multiplies and not _variables(right.accesses) <= _variables(left.accesses)
    )
    inputs, output = tuple(right.accesses), left.accesses[0]
    return ParsedEinsum(inputs, output, None if plain else operation, formula_text(term), _is_product(term))


def _variables(accesses: Iterable[ParsedAccess]) -> set[str]:
    return {v for access in accesses for index in access.projection.values() for v in index.variables}


def _is_product(term: Term) -> bool:
    """Whether it is nothing but a product of different tensors."""
    factors = term.arguments if isinstance(term, Call) and term.function == "multiply" else (term,)
    tensors = [factor.tensor for factor in factors if isinstance(factor, Read)]
    return len(tensors) == len(factors) == len(set(tensors))


class _Side(TermReader):
    """One side of an Einsum, where tensors have indices.

    A tensor that is read in a second way is `A.2` in the formula, until a copy takes its place.
    """

    def __init__(self, side: str, text: str) -> None:
        super().__init__(Located(side, text.source if isinstance(text, Located) else None), text)
        self.accesses: list[ParsedAccess] = []

    def tensor(self) -> Read | None:
        match = self.match(_ACCESS)
        if match is None:
            return None
        access = self.access(match.group(1), match.group(2))
        if self.text.startswith("[", self.position):
            hint = f"'{match.group(1)}[i, j]'"
            raise SpecError(f"'{shown(self.whole)}': indices stand in one pair of brackets, as in {hint}", self.whole)
        ways = list(dict.fromkeys(a.projection for a in self.accesses if a.name == access.name))
        way = ways.index(access.projection) + 1
        return Read(f"{access.name}.{way}" if way > 1 else str(access.name))

    def access(self, name: str, indices: str) -> ParsedAccess:
        tensor = Located(name, self.source)
        check_name(tensor, "tensor")
        projection = [_index(item.strip(), self.whole) for item in indices.split(",") if item.strip() or "," in indices]
        ranks = [rank for rank, _ in projection]
        if len(set(ranks)) < len(ranks):
            raise SpecError(
                f"'{shown(self.whole)}': tensor {name} names a rank twice; name the ranks, as in '{name}[M: m, N: n]'",
                self.whole,
            )
        self.accesses.append(ParsedAccess(tensor, FrozenDict(projection)))
        return self.accesses[-1]


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
