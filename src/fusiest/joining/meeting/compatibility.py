"""Compatibilities of partial mappings: open loops and exchanged tensors, without tile shapes or costs.

A partial mapping's compatibility lists its open loops (those above a tensor that Einsums still to come will use) in
zones, and where each live tensor is exchanged. Relaxed, it says of each tensor only its memory and what is stepped above
it: what all users must agree on, whatever the order of loops.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from fusiest.pmapping import Backing, Compatibility, Holding
from fusiest.spec import EinsumInfo, Stepping

Steppings = frozenset[tuple[str, Stepping]]
"""Tensors, each with how a loop steps one of its ranks."""
LoopNames = frozenset[tuple[str, str]]
"""Einsums, each with its name of a loop's variable."""


APART = Stepping("", 0, 0)
"""In place of how a loop steps a tensor: its producer holds it elsewhere above the loop until it is finished."""


@dataclass(frozen=True)
class OpenLoop:
    """A loop by what it steps of every live tensor below it, and how many elements it goes through.

    `produced`: live tensors that are exchanged above the loop but produced inside it, each with how the loop steps them,
    or None where the tensor is finished only with the loop, or APART where its producer holds it elsewhere above the
    loop. A tensor that several Einsums make has an entry for each of them. A consumer inside the loop takes turns with the producer,
    so it must step the same rank and never get ahead.
    `names`: the loop's variable in Einsums that hold live tensors below it.
    `place`: component and dimension of a Spatial loop.
    """

    ranks: Steppings
    bound: int
    produced: frozenset[tuple[str, Stepping | None]] = frozenset()
    names: LoopNames = frozenset()
    place: tuple[str, str] | None = None

    @property
    def sort_key(self) -> tuple[object, ...]:
        produced = sorted((t, stepping or ()) for t, stepping in self.produced)
        return sorted(self.ranks), produced, sorted(self.names), [self.place] if self.place else []

    def stepping(self, tensor: str) -> Stepping | None:
        """How the loop steps a live tensor below it."""
        return next((stepping for t, stepping in self.ranks if t == tensor), None)


class OpenHolding(NamedTuple):
    """A further holder of a live tensor between the open loops, and an Einsum that has it; '' if none counts any more."""

    holding: Holding
    user: str


@dataclass(frozen=True)
class OpenCompatibility:
    """Open loops in zones, outermost first, and the live tensors."""

    zones: tuple[tuple[OpenLoop, ...], ...]
    backings: tuple[Backing, ...]
    """Of live tensors, and of those that share their space with one but need more of it."""
    holdings: tuple[OpenHolding, ...] = ()
    inside: tuple[tuple[str, int], ...] = ()
    """Live tensors that an Einsum inside open loops has used, each with the number of those zones. A holder above a common
    loop serves all Einsums inside: the next one that uses such a tensor must hold it above these zones just the same."""
    copies: tuple[frozenset[str], ...] = ()
    """Tensors that are copies of each other in one memory: they share their space, for as long as one of them is live."""

    @cached_property
    def loops(self) -> tuple[OpenLoop, ...]:
        return tuple(loop for zone in self.zones for loop in zone)

    @cached_property
    def _hash(self) -> int:
        return hash((self.zones, self.backings, self.holdings, self.inside, self.copies))

    def __hash__(self) -> int:  # a compatibility is looked up far more often than it is made
        return self._hash


EMPTY = OpenCompatibility((), ())


class EinsumView:
    """What joining needs to know of an Einsum: which variable steps which rank of which tensor, and how."""

    def __init__(self, info: EinsumInfo) -> None:
        self.info = info
        self.tensors = frozenset(info.accesses)
        self._steppings = {(t, v): a.stepping(v) for t, a in info.accesses.items() for v in info.bounds}

    def stepping(self, tensor: str, variable: str) -> Stepping | None:
        """The rank of a tensor that a variable steps alone, and how."""
        return self._steppings[tensor, variable]

    def variable_of(self, tensor: str, stepping: Stepping) -> str | None:
        """The variable that steps a tensor in just this way: the same elements in the same iteration."""
        for v in self.info.accesses[tensor].ranks[stepping.rank].variables:
            if self.stepping(tensor, v) == stepping:
                return v
        return None


class TensorCompatibility(NamedTuple):
    """Of one tensor, relaxed: its backing memory, and what loops above it step, in any order; None what they must not."""

    memory: str
    steps: frozenset[Stepping | None]


Relaxed = tuple[tuple[str, TensorCompatibility], ...]
"""Relaxed compatibility: per tensor, sorted by name."""


def relaxed_open(compatibility: OpenCompatibility, tensors: frozenset[str]) -> Relaxed:
    """Of a partial mapping, what the users of these tensors must agree on."""
    items = []
    for b in compatibility.backings:
        if b.tensor in tensors:
            above = [loop for zone in compatibility.zones[: b.zones] for loop in zone]
            steps: frozenset[Stepping | None] = frozenset(s for loop in above for t, s in loop.ranks if t == b.tensor)
            items.append((b.tensor, TensorCompatibility(b.memory, steps)))
    return tuple(sorted(items, key=lambda item: item[0]))


def relaxed_einsum(compatibility: Compatibility, view: EinsumView, tensors: frozenset[str]) -> Relaxed:
    """The same of an Einsum's pmappings."""
    items = []
    for b in compatibility.backings:
        if b.tensor in tensors:
            above = (loop for zone in compatibility.zones[: b.zones] for loop in zone)
            steps = frozenset(view.stepping(b.tensor, loop.variable) for loop in above)
            items.append((b.tensor, TensorCompatibility(b.memory, steps)))
    return tuple(sorted(items, key=lambda item: item[0]))


def only(relaxed: Relaxed, tensors: Container[str]) -> Relaxed:
    """What it says of these tensors."""
    return tuple(item for item in relaxed if item[0] in tensors)


def merged(*parts: Relaxed) -> Relaxed:
    """Of all tensors of several that agree."""
    return tuple(sorted({item for part in parts for item in part}, key=lambda item: item[0]))


class TensorCrossing(NamedTuple):
    """How a tensor crosses from one Einsum to the next: its memory, and what is stepped above it, zone by zone."""

    memory: str
    zones: tuple[frozenset[Stepping], ...]

    @property
    def relaxed(self) -> TensorCompatibility:
        return TensorCompatibility(self.memory, frozenset(stepping for zone in self.zones for stepping in zone))


def crossing(compatibility: OpenCompatibility, tensor: str) -> TensorCrossing:
    """How the only live tensor of a partial mapping goes on."""
    backing = next(b for b in compatibility.backings if b.tensor == tensor)
    zones = tuple(frozenset(s for loop in zone for t, s in loop.ranks if t == tensor) for zone in compatibility.zones)
    return TensorCrossing(backing.memory, zones)
