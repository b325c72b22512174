"""What the search over tile shapes goes by: the states of its rows, besides their shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from fusiest.pmapping.nest.rules import HeldTensor, Stretch
from fusiest.pmapping.placements.open_choices import Outers

Used = tuple[tuple[float, ...], ...]
"""Per fanout crossed, the outermost first: instances in use where leakage or `min_usage` depend on it."""


class Last(NamedTuple):
    """The holder placed last; `hoists`: loops right above it that do not index its tensor may be moved below it."""

    holder: HeldTensor
    hoists: bool


class Key(NamedTuple):
    """What the continuations of a row depend on, besides its shape."""

    outers: Outers
    last: Last | None
    used: Used
    on_top: frozenset[HeldTensor]
    """Holders of persistent tensors."""
    kept: frozenset[int]
    """Those of them that must not be sent again."""


@dataclass
class Seed:
    """Where the fused part begins: the innermost shared backing holder has just been placed."""

    layer: int
    holder: HeldTensor
    stretch: Stretch
    placed: frozenset[HeldTensor]
    options: tuple[frozenset[int], ...]
    """Per memory of the stretch, the `tensor_order_options` that what is placed so far agrees with."""
    key: Key


class Place(NamedTuple):
    """Within a stretch: the holders placed, the last of them, and the order options left per memory."""

    placed: frozenset[HeldTensor]
    last: Last | None
    options: tuple[frozenset[int], ...]
