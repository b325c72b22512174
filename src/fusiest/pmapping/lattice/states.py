"""States of the search over tile shapes: all that a row's continuations depend on, besides its shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from fusiest.pmapping.nest.rules import HeldTensor, Stretch
from fusiest.pmapping.placements.open_choices import Outers

Used = tuple[tuple[float, ...], ...]
"""Per fanout below, the outermost first: instances in use where leakage or `min_usage` depend on them."""


class Last(NamedTuple):
    """The storage node placed last."""

    holder: HeldTensor
    hoists: bool
    """Whether loops right above it that do not index its tensor may be moved below it (rule 2)."""


class Key(NamedTuple):
    """The part of a state that the continuations of a row depend on, besides its shape (proof 2)."""

    outers: Outers
    """Placements that are still open."""
    last: Last | None
    used: Used
    """Instances in use at the fanouts below."""
    on_top: frozenset[HeldTensor]
    """Storage nodes of persistent tensors."""
    kept: frozenset[int]
    """Persistent tensors that must not be sent again."""


@dataclass
class Seed:
    """The beginning of the fused part: the innermost shared backing node has just been placed."""

    layer: int
    """Number of the layer of its rows."""
    holder: HeldTensor
    stretch: Stretch
    placed: frozenset[HeldTensor]
    """Nodes of the memory group placed so far."""
    options: tuple[frozenset[int], ...]
    """Per memory of the group, the `tensor_order_options` that these nodes agree with."""
    key: Key


class Place(NamedTuple):
    """A state within a memory group."""

    placed: frozenset[HeldTensor]
    """Nodes placed so far."""
    last: Last | None
    """The last of them."""
    options: tuple[frozenset[int], ...]
    """Order options left per memory."""
