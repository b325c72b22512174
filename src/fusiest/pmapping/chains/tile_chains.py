"""All tile chains of one variable in a nest, as columns of tiles, and exact counts of their real tiles.

A chain's row gives the tile below every slot, outermost first; a slot without a loop repeats the tile above it, which is a
loop of one iteration on every tile, whole or remainder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType

import numpy as np

from fusiest.base.errors import SpecError
from fusiest.pmapping.chains.branch import kernels
from fusiest.pmapping.chains.skeleton import Skeleton, Slot
from fusiest.pmapping.nest.factors import divisors
from fusiest.pmapping.nest.spatial import satisfies
from fusiest.pmapping.pareto import Ints
from fusiest.spec import BoundComparison

MOST_CHAINS = 100_000_000
COUNTED, FIRST, PAST = "c", "f", "-"
"""Marks of a query. COUNTED: all iterations of a loop; FIRST: only index 0; PAST: none, the loop stands too far in."""
_MARKS = {COUNTED: kernels.COUNTED, FIRST: kernels.FIRST, PAST: kernels.PAST}


@dataclass(frozen=True)
class Chains:
    """All chains of tiles of one variable."""

    variable: str
    bound: int
    slots: tuple[Slot, ...]
    tiles: Ints
    """Chains × slots."""
    fused: int
    """Number of the slots for fused loops, which come first."""

    def __len__(self) -> int:
        return len(self.tiles)

    def take(self, which: Ints) -> Chains:
        return Chains(self.variable, self.bound, self.slots, self.tiles[which], self.fused)

    @cached_property
    def fused_tiles(self) -> Ints:
        """Chains × slots for fused loops: tiles that neighbours must agree on."""
        return self.tiles[:, : self.fused]

    @cached_property
    def fused_loops(self) -> np.ndarray:
        """Chains × slots for fused loops: whether there is one."""
        columns = [self.iterations(slot) > 1 for slot in range(self.fused)]
        return np.column_stack(columns) if columns else np.zeros((len(self), 0), np.bool_)

    def above(self, slot: int) -> Ints:
        return self.tiles[:, slot - 1] if slot else np.full(len(self), self.bound)

    @cached_property
    def _iterations(self) -> dict[int, Ints]:
        return {}

    def iterations(self, slot: int) -> Ints:
        if slot not in self._iterations:
            self._iterations[slot] = -(-self.above(slot) // self.tiles[:, slot])
        return self._iterations[slot]

    def loop(self, slot: int) -> Ints:
        """The tile below a slot's loop, or the bound where it has none."""
        return np.where(self.iterations(slot) > 1, self.tiles[:, slot], self.bound)

    def extent(self, slots: Sequence[int]) -> Ints:
        """The smallest tile below any of the loops in these slots."""
        result = np.full(len(self), self.bound)
        for slot in slots:
            result = np.minimum(result, self.loop(slot))
        return result

    def visits(self, query: str) -> tuple[Ints, Ints]:
        """Count the visited tiles, and add up their extents: `fusiest.model.visits` for all chains at once."""
        query = query.rstrip(PAST)
        first, begin = self._first_extents(query)
        marks = np.array([_MARKS[mark] for mark in query], np.int64)
        count, extent = kernels.visited(self.bound, self.tiles, marks, begin, np.array(first, np.int64))
        return count, extent

    def _first_extents(self, query: str) -> tuple[Sequence[tuple[int, int]], int]:
        """Extents and how often each is visited, before the loops from some slot on."""
        return [(self.bound, 1)], 0


@cache
def tile_options(extent: int, imperfect: bool) -> tuple[int, ...]:
    """Tiles that a loop over this extent may have, the extent itself last.

    >>> tile_options(10, False), tile_options(10, True)
    ((1, 2, 5, 10), (1, 2, 3, 4, 5, 10))
    """
    if not imperfect:
        return tuple(divisors(extent))
    tiles = [extent]
    while tiles[-1] > 1:
        most = -(-extent // (tiles[-1] - 1))  # the fewest iterations with a smaller tile
        tiles.append(-(-extent // most))
    return tuple(reversed(tiles))


def make_chains(
    skeleton: Skeleton,
    variable: str,
    slots: tuple[Slot, ...],
    forced: Set[int],
    most_fused: int,
    imperfect: bool,
    spreads: Mapping[int, Set[int]] = MappingProxyType({}),
) -> Chains:
    """Make every chain through these slots that obeys the constraints on this variable alone.

    `forced`: gaps that must have a fused Temporal loop. `most_fused`: most fused loops. `spreads`: per dimension,
    iterations that loops on it may have, if not all.
    """
    bound = skeleton.path.einsum.bounds[variable]
    extent = np.full(1, bound)
    columns: list[Ints] = []
    fused_loops = np.zeros(1, np.int64)
    for i, slot in enumerate(slots):
        is_fused = slot.gap <= skeleton.last_fused
        closing = i == len(slots) - 1 and slot.dimension is None and not is_fused
        rows, tile = _expanded(extent, lambda length: tile_options(length, imperfect), closing)
        loop = tile < extent[rows]
        keep = np.ones(len(rows), np.bool_)
        if is_fused:
            keep &= ~loop | (fused_loops[rows] < most_fused)
        if slot.dimension is not None:
            iterations = -(-extent[rows] // tile)
            keep &= _spread(skeleton, variable, slot.dimension, iterations)
            if slot.dimension in spreads:
                keep &= np.isin(iterations, list(spreads[slot.dimension]))
        elif slot.gap in forced:
            keep &= loop
        rows, tile = rows[keep], tile[keep]
        fused_loops = fused_loops[rows] + (loop[keep] & is_fused)
        columns = [*(column[rows] for column in columns), tile]
        extent = tile
    ended = extent == 1
    tiles = np.column_stack(columns) if columns else np.empty((len(ended), 0), np.int64)
    fused = sum(slot.gap <= skeleton.last_fused for slot in slots)
    chains = Chains(variable, bound, slots, tiles[ended], fused)
    return chains.take(np.flatnonzero(allowed_chains(skeleton, chains)))


def spread_chains(
    skeleton: Skeleton, variable: str, slots: tuple[Slot, ...], bound: int, options: Callable[[int], tuple[int, ...]]
) -> Ints:
    """Tiles of every chain through these slots, from an extent down to 1; no loop is fused.

    `options`: tiles per extent.
    """
    extent = np.full(1, bound)
    columns: list[Ints] = []
    for i, slot in enumerate(slots):
        closing = i == len(slots) - 1 and slot.dimension is None
        rows, tile = _expanded(extent, options, closing)
        if slot.dimension is not None:
            keep = np.flatnonzero(_spread(skeleton, variable, slot.dimension, -(-extent[rows] // tile)))
            rows, tile = rows[keep], tile[keep]
        columns = [*(column[rows] for column in columns), tile]
        extent = tile
    ended = np.flatnonzero(extent == 1)
    return np.column_stack(columns)[ended] if columns else np.empty((len(ended), 0), np.int64)


def _expanded(extent: Ints, options_of: Callable[[int], tuple[int, ...]], closing: bool) -> tuple[Ints, Ints]:
    """Every row with each tile that its extent allows; the last loop must end at 1."""
    if closing:
        return np.arange(len(extent)), np.ones(len(extent), np.int64)
    values, inverse = np.unique(extent, return_inverse=True)
    options = [options_of(int(v)) for v in values]
    counts = np.array([len(o) for o in options], np.int64)
    flat = np.array([tile for o in options for tile in o], np.int64)
    start = np.cumsum(counts) - counts
    repeat = counts[inverse]
    if repeat.sum() > MOST_CHAINS:
        raise SpecError(
            f"a rank variable has more than {MOST_CHAINS:.0e} chains of tiles; constrain it (tile_shape, keep)"
        )
    rows = np.repeat(np.arange(len(extent)), repeat)
    offset = np.arange(len(rows)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
    return rows, flat[start[inverse][rows] + offset]


def _spread(skeleton: Skeleton, variable: str, dimension: int, iterations: Ints) -> np.ndarray:
    """Iterations that one variable may have on a dimension."""
    _, d = skeleton.dimensions[dimension]
    keep = iterations <= d.most
    for comparison in d.loop_bounds:
        keep &= single(comparison, variable, iterations)
    return keep


def single(comparison: BoundComparison, variable: str, values: Ints) -> np.ndarray:
    """Which values of a variable obey a comparison of single variables."""
    if comparison.operator.startswith("product") or variable not in comparison.variables:
        return np.ones(len(values), np.bool_)
    options, inverse = np.unique(values, return_inverse=True)
    return np.array([satisfies(comparison, {variable: int(o)}) for o in options], np.bool_)[inverse]


def allowed_chains(skeleton: Skeleton, chains: Chains) -> np.ndarray:
    """Which chains obey `loop_bounds` where they have no loop, obey `tile_shape`, and swap no loops."""
    keep = np.ones(len(chains), np.bool_)
    used = {slot.dimension for slot in chains.slots}
    for i, (_, d) in enumerate(skeleton.dimensions):
        if i not in used:
            for comparison in d.loop_bounds:
                keep &= single(comparison, chains.variable, np.ones(len(chains), np.int64))
    for place, comparison in tile_shapes(skeleton):
        keep &= single(comparison, chains.variable, chains.extent(written_above(skeleton, chains.slots, place)))
    for i, outer in enumerate(chains.slots):
        for j, inner in enumerate(chains.slots):
            if outer.dimension is not None or inner.dimension is None:
                continue
            if skeleton.swaps(chains.variable, outer.gap, inner.dimension):
                keep &= (chains.iterations(i) == 1) | (chains.iterations(j) == 1)
    return keep


def written_above(skeleton: Skeleton, slots: tuple[Slot, ...], place: int) -> list[int]:
    """Slots that are written above a storage node."""
    return [i for i, slot in enumerate(slots) if slot.gap <= place]


def tile_shapes(skeleton: Skeleton) -> list[tuple[int, BoundComparison]]:
    """`tile_shape` entries, each with the place of the holder that it is about."""
    nest, holders = skeleton.nest, skeleton.holders
    return [(i, c) for i, h in enumerate(holders) for c in nest.tile_shape(h, holders[:i], skeleton.stretch)]
