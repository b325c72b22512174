"""Counting tiles exactly: how often a point of a nest is reached, and how much data its tiles hold in all.

Tiles are real: the last tile of a loop is what remains. Loops over different variables are independent, so every count
is a product of per-variable counts; within one variable we follow the chain of loops with a multiset of extents.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fusiest.model.nest import NestLoop
from fusiest.spec import Access


@dataclass(frozen=True, slots=True)
class Visits:
    """Tiles of one variable: how many are visited, and the sum of their extents."""

    count: int
    extent: int


def visits(chain: Sequence[NestLoop], bound: int, counted: frozenset[int], first_only: frozenset[int]) -> Visits:
    """Follow a variable's loops in written order down to the last that matters.

    `counted` loops run through all iterations; those in `first_only` stay at index 0, and so do loops that are neither
    but stand above a counted one (an instance exists if it exists at index 0, where tiles are largest).
    """
    depth = max((i for i, loop in enumerate(chain) if loop.number in counted or loop.number in first_only), default=-1)
    extents = {bound: 1}
    for loop in chain[: depth + 1]:
        split: dict[int, int] = {}
        for extent, times in extents.items():
            tiles = loop.tiles(extent)
            for tile, count in tiles.items() if loop.number in counted else ((max(tiles), 1),):
                split[tile] = split.get(tile, 0) + count * times
        extents = split
    return Visits(sum(extents.values()), sum(extent * times for extent, times in extents.items()))


def total_footprint(access: Access, by_variable: Mapping[str, Visits]) -> int:
    """Σ over the visits of the footprint of the tile there."""
    total = 1
    for affine in access.ranks.values():
        terms = [(abs(a), by_variable[v]) for v, a in affine.coefficients.items()]
        tiles = math.prod(v.count for _, v in terms)
        rank = tiles
        for a, v in terms:
            rank += a * (v.extent - v.count) * (tiles // v.count)
        total *= rank
    relevant = access.variables
    return total * math.prod(v.count for name, v in by_variable.items() if name not in relevant)


def footprint(access: Access, extents: Mapping[str, int]) -> int:
    """Elements in the box that a tile of these extents touches."""
    return math.prod(affine.length(extents) for affine in access.ranks.values())


def elements(access: Access, extents: Mapping[str, int]) -> int:
    """Elements that are touched one by one in a tile of these extents: gaps do not count."""
    return math.prod(affine.positions(extents) for affine in access.ranks.values())
