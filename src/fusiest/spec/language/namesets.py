"""Sets of tensors and of rank variables, as set expressions see them.

A set knows its universe (the tensors of one Einsum), so that it has a complement; sets of two universes never meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fusiest.base.errors import SpecError, did_you_mean
from fusiest.base.frozen import FrozenDict

SetKind = Literal["tensor", "variable"]


class Attributed:
    """Something with attributes for expressions, which error messages can describe."""

    __slots__ = ()

    @property
    def described(self) -> str:
        """What it is, in the words of an error message."""
        return "an object"

    def attribute(self, name: str) -> object:
        """An attribute as an expression reads it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Universe:
    """What set expressions range over: tensors with their rank variables, and how many bits a value has."""

    tensors: Mapping[str, frozenset[str]]
    variables: frozenset[str]
    bits_per_value: Mapping[str, float] = field(default_factory=FrozenDict)
    ranks: Mapping[str, frozenset[str]] = field(default_factory=FrozenDict)
    """The rank variables that index each rank."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", FrozenDict(self.tensors))
        object.__setattr__(self, "bits_per_value", FrozenDict(self.bits_per_value))

    def of(self, *tensors: str) -> NameSet:
        """The set of these tensors.

        >>> Universe(tensors={"A": frozenset("m")}, variables=frozenset("m")).of("A").members
        frozenset({'A'})
        """
        return NameSet(frozenset(tensors), self, "tensor")


@dataclass(frozen=True, slots=True, eq=False)
class NameSet(Attributed):
    """A set of tensors or of rank variables; true if not empty.

    >>> mn = Universe(tensors={"A": frozenset("m"), "B": frozenset("mn")}, variables=frozenset("mn"))
    >>> sorted((mn.of("A") | mn.of("B")).rank_variables.members), len(~mn.of("A")), mn.of("A") <= mn.of("A", "B")
    (['m', 'n'], 1, True)
    """

    members: frozenset[str]
    universe: Universe
    kind: SetKind = "tensor"

    def __invert__(self) -> NameSet:
        whole = self.universe.tensors if self.kind == "tensor" else self.universe.variables
        return self._with(frozenset(whole) - self.members)

    def __and__(self, other: NameSet) -> NameSet:
        return self._with(self.members & self._same_kind(other))

    def __or__(self, other: NameSet) -> NameSet:
        return self._with(self.members | self._same_kind(other))

    def __sub__(self, other: NameSet) -> NameSet:
        return self._with(self.members - self._same_kind(other))

    def __le__(self, other: NameSet) -> bool:
        return self.members <= self._same_kind(other)

    def __lt__(self, other: NameSet) -> bool:
        return self.members < self._same_kind(other)

    def __ge__(self, other: NameSet) -> bool:
        return self.members >= self._same_kind(other)

    def __gt__(self, other: NameSet) -> bool:
        return self.members > self._same_kind(other)

    def __eq__(self, other: object) -> bool:
        return self.members == self._same_kind(other) if isinstance(other, NameSet) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def __repr__(self) -> str:
        return "{" + ", ".join(sorted(self.members)) + "}"

    @property
    def described(self) -> str:
        return "a set of tensors" if self.kind == "tensor" else "a set of rank variables"

    @property
    def rank_variables(self) -> NameSet:
        """The rank variables that index any of these tensors (of a set of rank variables: itself)."""
        if self.kind == "variable":
            return self
        variables = (self.universe.tensors.get(tensor, frozenset[str]()) for tensor in self.members)
        return NameSet(frozenset[str]().union(*variables), self.universe, "variable")

    @property
    def bits_per_value(self) -> float:
        """The bits of a value of these tensors, if they have one in common."""
        widths = {self.universe.bits_per_value.get(tensor) for tensor in self.members}
        if self.kind != "tensor" or not widths:
            raise SpecError(f"bits_per_value wants one tensor, but the set is {self!r}")
        if None in widths:
            raise SpecError(f"the bits_per_value of {self!r} is not known here")
        if len(widths) > 1:
            raise SpecError(f"bits_per_value wants one tensor, but {self!r} differ")
        return next(width for width in widths if width is not None)

    def singletons(self) -> tuple[NameSet, ...]:
        """One set for each member, in alphabetical order: what `for t in All` runs over."""
        return tuple(self._with(frozenset([member])) for member in sorted(self.members))

    def attribute(self, name: str) -> NameSet | float:
        """An attribute as an expression reads it."""
        if name == "rank_variables":
            return self.rank_variables
        if name == "bits_per_value":
            return self.bits_per_value
        if name == "tensors" and self.kind == "tensor":
            return self
        attributes = ["rank_variables", "bits_per_value", "tensors"]
        raise SpecError(f"a set of {self.kind}s has no attribute '{name}'{did_you_mean(name, attributes)}")

    def _with(self, members: frozenset[str]) -> NameSet:
        return NameSet(members, self.universe, self.kind)

    def _same_kind(self, other: NameSet) -> frozenset[str]:
        if self.kind != other.kind:
            raise SpecError(f"{self!r} and {other!r} do not mix: one is of tensors, the other of rank variables")
        return other.members
