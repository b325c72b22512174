"""Compatibilities of partial mappings: open loops and exchanged tensors, without tile shapes or costs.

A loop is open while it stands above a live tensor, one that a remaining Einsum uses. A partial mapping's compatibility
lists its open loops, fusion level by fusion level, and where each live tensor is exchanged. The relaxed compatibility
of a tensor is its memory and the ranks that loops above it step: all users must agree on these, whatever the order of
loops.
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
"""Stepping of a loop above which the tensor's producer holds it in another memory until it is finished."""


@dataclass(frozen=True)
class OpenLoop:
    """An open loop: the ranks of live tensors that it steps, and how many elements it goes through."""

    ranks: Steppings
    """The live tensors below it, each with the rank that it steps."""
    bound: int
    """The extent of its variable."""
    produced: frozenset[tuple[str, Stepping | None]] = frozenset()
    """Live tensors that are exchanged above the loop but produced inside it, each with how the loop steps them. None
    stands for a tensor that is finished only with the loop, APART for one that its producer holds in another memory
    above the loop. A tensor that several Einsums make has an entry for each. A consumer inside the loop is interleaved
    with the producer, so it must step the same rank and never get ahead."""
    names: LoopNames = frozenset()
    """The loop's variable in each Einsum that holds live tensors below it."""
    place: tuple[str, str] | None = None
    """Component and dimension of a Spatial loop."""

    @property
    def sort_key(self) -> tuple[object, ...]:
        produced = sorted((t, stepping or ()) for t, stepping in self.produced)
        return sorted(self.ranks), produced, sorted(self.names), [self.place] if self.place else []

    def stepping(self, tensor: str) -> Stepping | None:
        """How the loop steps a live tensor below it."""
        return next((stepping for t, stepping in self.ranks if t == tensor), None)


class OpenHolding(NamedTuple):
    """A further storage node of a live tensor between the open loops."""

    holding: Holding
    user: str
    """An Einsum that has the node; '' if none can need more space for it."""


@dataclass(frozen=True)
class OpenCompatibility:
    """Open loops by fusion level, outermost first, and the live tensors."""

    zones: tuple[tuple[OpenLoop, ...], ...]
    """Open loops of each fusion level."""
    backings: tuple[Backing, ...]
    """Backing storage nodes of live tensors, and of dead copies that share their space with a live one but need more of
    it."""
    holdings: tuple[OpenHolding, ...] = ()
    """Further storage nodes of live tensors between open loops."""
    inside: tuple[tuple[str, int], ...] = ()
    """Live tensors that an Einsum inside open loops has used, each with the number of fusion levels around it. A
    storage node above a common loop serves all Einsums inside: the next user must hold the tensor above these levels
    just the same."""
    copies: tuple[frozenset[str], ...] = ()
    """Tensors that are copies of each other in one memory. They share their space for as long as one of them is live."""

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
    """An Einsum as joining sees it: which variable steps which rank of which tensor, and how."""

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
    """Relaxed compatibility of one tensor: all its users must agree on it."""

    memory: str
    """Its backing memory."""
    steps: frozenset[Stepping | None]
    """How loops above it step it, in any order. None stands for a loop that does not step it alone."""


Relaxed = tuple[tuple[str, TensorCompatibility], ...]
"""Relaxed compatibility: per tensor, sorted by name."""


def relaxed_open(compatibility: OpenCompatibility, tensors: frozenset[str]) -> Relaxed:
    """The relaxed compatibility of a partial mapping, for these tensors."""
    items = []
    for b in compatibility.backings:
        if b.tensor in tensors:
            above = [loop for zone in compatibility.zones[: b.zones] for loop in zone]
            steps: frozenset[Stepping | None] = frozenset(s for loop in above for t, s in loop.ranks if t == b.tensor)
            items.append((b.tensor, TensorCompatibility(b.memory, steps)))
    return tuple(sorted(items, key=lambda item: item[0]))


def relaxed_einsum(compatibility: Compatibility, view: EinsumView, tensors: frozenset[str]) -> Relaxed:
    """The relaxed compatibility of an Einsum's pmappings, for these tensors."""
    items = []
    for b in compatibility.backings:
        if b.tensor in tensors:
            above = (loop for zone in compatibility.zones[: b.zones] for loop in zone)
            steps = frozenset(view.stepping(b.tensor, loop.variable) for loop in above)
            items.append((b.tensor, TensorCompatibility(b.memory, steps)))
    return tuple(sorted(items, key=lambda item: item[0]))


def only(relaxed: Relaxed, tensors: Container[str]) -> Relaxed:
    """The relaxed compatibility of these tensors alone."""
    return tuple(item for item in relaxed if item[0] in tensors)


def merged(*parts: Relaxed) -> Relaxed:
    """The union of relaxed compatibilities that agree on common tensors."""
    return tuple(sorted({item for part in parts for item in part}, key=lambda item: item[0]))


class TensorCrossing(NamedTuple):
    """How a tensor crosses a cut between Einsums."""

    memory: str
    """Its backing memory."""
    zones: tuple[frozenset[Stepping], ...]
    """How loops above it step it, fusion level by fusion level."""

    @property
    def relaxed(self) -> TensorCompatibility:
        return TensorCompatibility(self.memory, frozenset(stepping for zone in self.zones for stepping in zone))


def crossing(compatibility: OpenCompatibility, tensor: str) -> TensorCrossing:
    """How the only live tensor of a partial mapping crosses the cut."""
    backing = next(b for b in compatibility.backings if b.tensor == tensor)
    zones = tuple(frozenset(s for loop in zone for t, s in loop.ranks if t == tensor) for zone in compatibility.zones)
    return TensorCrossing(backing.memory, zones)
