"""Constraints of memories, and what each is about: a table of which the search asks all that is not the constraint itself.

What a constraint forbids is said once, in `rules` (orders, loops, tiles). This table says what follows elsewhere:
whether rules may move a node, whether a node may stand above all loops, what copies obey, and what tells states apart.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from fusiest.spec import PlacementSets

Subject: TypeAlias = Literal["tiles", "loops", "exchange", "orders"]


@dataclass(frozen=True)
class Constraint:
    """A field of a memory's `tensors` that is about how nodes stand, not about what is held."""

    about: Subject
    """Tiles at nodes; loops between the nodes of a tensor; loops above exchanged tensors; or the order of nodes."""
    absent: object
    """The value that forbids nothing."""
    may_bar_top: bool = False
    """Whether it may forbid a node above all loops."""


CONSTRAINTS: Mapping[str, Constraint] = {
    "tile_shape": Constraint("tiles", (), may_bar_top=True),
    "no_refetch_from_above": Constraint("loops", frozenset()),
    "no_resend_to_below": Constraint("loops", frozenset()),
    "no_fused_loops": Constraint("exchange", frozenset()),
    "tensor_order_options": Constraint("orders", (), may_bar_top=True),
    "force_memory_hierarchy_order": Constraint("orders", True),
}
"""By field of `PlacementSets`, all constraints."""


@functools.cache
def named(*subjects: Subject) -> tuple[str, ...]:
    """The constraints about one of these."""
    return tuple(name for name, constraint in CONSTRAINTS.items() if constraint.about in subjects)


def is_about(sets: PlacementSets, *subjects: Subject) -> bool:
    """Whether a memory has constraints about one of these."""
    return any(getattr(sets, name) != CONSTRAINTS[name].absent for name in named(*subjects))


def pins_nodes(sets: PlacementSets) -> bool:
    """Whether rules 1 and 2 may not move this memory's nodes past loops: that would change their tiles."""
    return is_about(sets, "tiles")


def may_bar_top(sets: PlacementSets) -> bool:
    """Whether a constraint may forbid this memory's nodes above all loops."""
    return any(c.may_bar_top and getattr(sets, name) != c.absent for name, c in CONSTRAINTS.items())


def of_loops(sets: PlacementSets) -> tuple[object, ...]:
    """The constraints that structures of loops depend on, besides the orders of nodes."""
    return tuple(getattr(sets, name) for name in named("tiles", "loops", "exchange"))


def of_copies(sets: PlacementSets) -> PlacementSets:
    """The constraints that a copy Einsum obeys: it only exchanges tensors. Its nodes stand in hierarchy order."""
    others: dict[str, Any] = {name: CONSTRAINTS[name].absent for name in named("tiles", "loops", "orders")}
    return replace(sets, **others)
