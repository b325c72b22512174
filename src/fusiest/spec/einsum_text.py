"""Einsums as text: `C[m, n] = A[m, k] * B[k, n]`, with `M: p` or `H: 2*p + r` naming the rank."""

from __future__ import annotations

import re

from fusiest.errors import Located, SpecError, shown
from fusiest.frozen import FrozenDict
from fusiest.spec.affine import Affine
from fusiest.spec.workload import TensorAccess

MAX_NAME = 200
MAX_LENGTH = 20_000
_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_ACCESS = re.compile(r"\s*([A-Za-z_]\w*)\s*\[([^\[\]]*)\]\s*", re.ASCII)


def check_name(name: str, what: str) -> None:
    """Names appear in expressions, so they are identifiers and none of the language's words."""
    if not _NAME.match(name):
        raise SpecError(
            f"{what} name '{shown(name)}' must be letters, digits and underscores, not starting with a digit", name
        )
    if len(name) > MAX_NAME:
        raise SpecError(f"{what} name '{shown(name)}' is longer than {MAX_NAME} characters", name)
    if name in RESERVED:
        raise SpecError(f"{what} name '{name}' is a word of the expression language; choose another", name)


RESERVED = frozenset(
    [
        "All",
        "Inputs",
        "Outputs",
        "Intermediates",
        "Shared",
        "Persistent",
        "Nothing",
        "Above",
        "Other",
        "and",
        "or",
        "not",
        "if",
        "else",
        "for",
        "in",
        "is",
        "lambda",
        "True",
        "False",
        "None",
        "true",
        "false",
        "inf",
        "min",
        "max",
        "sum",
        "ceil",
        "floor",
        "log2",
        "sqrt",
        "len",
        "abs",
        "round",
    ]
)


def parse_einsum(text: str) -> tuple[TensorAccess, ...]:
    """The accesses of an Einsum, output last.

    >>> [a.name for a in parse_einsum("C[m,n] = A[m,k] * B[k,n]")]
    ['A', 'B', 'C']
    """
    if len(text) > MAX_LENGTH:
        raise SpecError(f"an Einsum may have {MAX_LENGTH:,} characters, but this one has {len(text):,}", text)
    sides = text.split("=")
    if len(sides) != 2:
        raise SpecError(f"'{shown(text)}' is not an Einsum such as 'C[m,n] = A[m,k] * B[k,n]'", text)
    output = _accesses(sides[0], text, output=True)
    if len(output) != 1:
        raise SpecError(f"'{shown(text)}': an Einsum has exactly one output", text)
    return (*_accesses(sides[1], text, output=False), *output)


def _accesses(side: str, text: str, output: bool) -> list[TensorAccess]:
    source = text.source if isinstance(text, Located) else None
    found: list[TensorAccess] = []
    position = 0
    while True:
        match = _ACCESS.match(side, position)
        if not match:
            raise SpecError(
                f"'{shown(text)}': expected a tensor such as 'A[m, k]' at '{side[position : position + 30].strip()}'",
                text,
            )
        name, indices = Located(match.group(1), source), match.group(2)
        check_name(name, "tensor")
        projection = [_index(item.strip(), text) for item in indices.split(",") if item.strip() or "," in indices]
        ranks = [rank for rank, _ in projection]
        if len(set(ranks)) < len(ranks):
            raise SpecError(
                f"'{shown(text)}': tensor {name} names a rank twice; name the ranks, as in '{name}[M: m, N: n]'", text
            )
        found.append(TensorAccess(name=name, projection=FrozenDict(projection), output=output))
        position = match.end()
        if position == len(side):
            return found
        if side[position] not in "*+,":
            raise SpecError(f"'{shown(text)}': expected '*' at '{side[position : position + 30].strip()}'", text)
        position += 1


def _index(item: str, text: str) -> tuple[str, Affine]:
    source = text.source if isinstance(text, Located) else None
    rank, colon, expression = item.rpartition(":")
    return projection_index(Located(rank.strip(), source) if colon else None, Located(expression.strip(), source), text)


def projection_index(rank: str | None, expression: str, text: str) -> tuple[str, Affine]:
    """One rank of a projection; a lone variable `m` names its rank M."""
    if not expression:
        raise SpecError(f"'{shown(text)}': an index is empty", text)
    affine = Affine.parse(expression)
    if rank is None:
        if not _NAME.match(expression):
            raise SpecError(f"'{shown(expression)}' needs the name of its rank, as in 'H: {shown(expression)}'", text)
        rank = expression.upper()
    check_name(rank, "rank")
    for variable in affine.variables:
        check_name(variable, "rank variable")
    return str(rank), affine
