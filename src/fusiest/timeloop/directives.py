"""What Timeloop's mappings and constraints say of one level: factors, a permutation, what is kept.

`factors: [R=3, P=16]`, `R=3,P=16` and `R3 P16` mean the same; a permutation lists the innermost dimension first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusiest.base.errors import SpecError, did_you_mean, shown
from fusiest.timeloop.sections import FileTable, name_in, names_of

KINDS = {
    "temporal": "temporal", "spatial": "spatial", "bypass": "dataspace", "bypassing": "dataspace", "datatype": "dataspace",
    "dataspace": "dataspace",
}  # fmt: skip
_FACTOR = re.compile(r"\s*([A-Za-z_]\w*?)(?:\s*(<=|>=|==|=)\s*)?(\d{1,18})(?:\s*,\s*(\d{1,18}))?\s*\Z")
_FIELDS = ("target", "type", "factors", "permutation", "split", "keep", "bypass", "version", "name")
_CONSTRAINT_FIELDS = ("no_reuse", "no_iteration_over_dataspaces", "maximize_dims", "min_parallelism", "default_max_factor",
                      "remainders", "factors_only", "keep_only", "no_multicast_no_reduction", "no_temporal_reuse")  # fmt: skip


@dataclass(frozen=True, slots=True)
class DirectiveFactor:
    """`P<=16`; `last` is the shorter last pass of an imperfect factor."""

    dimension: str
    operator: str
    value: int
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Directive:
    """One entry of a mapping or of the constraints."""

    target: str
    kind: str
    source: Any
    factors: tuple[DirectiveFactor, ...] = ()
    permutation: Any = None
    split: int | None = None
    keep: tuple[str, ...] = ()
    bypass: tuple[str, ...] = ()
    constraint_fields: Mapping[str, Any] = field(default_factory=dict)
    """What only constraints say, as it is written."""

    def error(self, message: str) -> SpecError:
        """What is wrong with it, and where."""
        return SpecError(f"{self.target}: {message}", self.source)

    def no_factor(self, factor: DirectiveFactor, sizes: Mapping[str, int]) -> SpecError:
        """A factor of what is no dimension, or one of size 1."""
        hint = did_you_mean(factor.dimension, sizes)
        return self.error(f"{shown(factor.dimension)} cannot have the factor {factor.value}{hint}")

    def names(self, field_name: str) -> list[str]:
        """What a field of constraints lists."""
        return names_of(self.constraint_fields.get(field_name), field_name, self.source)

    def order(self, dimensions: Sequence[str], strict: bool = True) -> list[str]:
        """The dimensions that the permutation lists, innermost first. Those of size 1 are gone, which constraints may name."""
        permutation = self.permutation
        if permutation is None:
            return []
        names = (
            names_of(permutation, "permutation", self.source)
            if isinstance(permutation, list)
            else _split_names(permutation, dimensions)
        )
        for name in names:
            if name not in dimensions and strict:
                raise self.error(f"permutation: there is no dimension '{shown(name)}'")
        if len(set(names)) != len(names):
            raise self.error("permutation: a dimension is listed twice")
        return [str(name) for name in names]


def read_directive(table: FileTable, kind: str | None = None, target: str | None = None) -> Directive:
    """One entry; inside of an architecture, kind and target are known from where it stands."""
    if target is None:
        target = str(name_in(table, "target", "an entry of the mapping or the constraints"))
        type_name = table.get("type")
        if not isinstance(type_name, str) or type_name not in KINDS:
            raise SpecError(f"{target}: the type '{shown(type_name)}' is not supported", table.source)
        kind = KINDS[type_name]
    table.only(f"{target}", *_FIELDS, *_CONSTRAINT_FIELDS)
    split = table.get("split")
    if split is not None and (isinstance(split, bool) or not isinstance(split, int)):
        raise SpecError(f"{target}: split must be a whole number", table.source)
    constraint_fields = FileTable(
        {k: v for k, v in table.items() if k in _CONSTRAINT_FIELDS and v not in (None, [], {})}, table.source
    )
    factors = [*_factors(table.get("factors"), target, table), *_factors(table.get("factors_only"), target, table)]
    return Directive(
        target, str(kind), table.source, tuple(factors), table.get("permutation"), split,
        tuple(names_of(table.get("keep"), "keep", table.source)), tuple(names_of(table.get("bypass"), "bypass", table.source)),
        constraint_fields,
    )  # fmt: skip


def _factors(texts: Any, target: str, table: FileTable) -> list[DirectiveFactor]:
    if texts is None:
        return []
    if isinstance(texts, FileTable):
        texts = [f"{dimension}={value}" for dimension, value in texts.items()]
    if isinstance(texts, str):
        # A comma is a separator where a name follows, and announces a last pass where a number does.
        texts = re.split(r"[,\s]+(?=[A-Za-z_])", texts.strip(" ,")) if texts.strip(" ,") else []
    if not isinstance(texts, list):
        raise SpecError(f"{target}: factors must be a list such as [R=3, P=16]", table.source)
    factors = []
    for text in texts:
        match = _FACTOR.match(str(text))
        if not match:
            raise SpecError(f"{target}: '{shown(text)}' is not a factor such as R=3", table.source)
        dimension, operator, value, last = match.groups()
        operator = operator if operator in ("<=", ">=") else "=="
        factors.append(DirectiveFactor(dimension, operator, int(value), int(last) if last else None))
    return factors


def _split_names(text: Any, dimensions: Sequence[str]) -> list[str]:
    """`R,P`, `R P`, `RP` or `NPQR SCK`: what is no dimension is a row of letters."""
    words = [word for word in re.split(r"[,\s]+", str(text)) if word]
    return words if all(word in dimensions for word in words) else [letter for word in words for letter in word]
