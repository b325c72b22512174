"""Tiles of fused loops: merged variables split into their members, and chains of larger tiles further out.

They depend on tile shapes alone: many rows have the same, and many seeds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from fusiest.pmapping.fused.structures import LoopSet
from fusiest.pmapping.lattice.tile_problem import Problem
from fusiest.pmapping.nest.factors import divisors
from fusiest.pmapping.pareto import Floats, Ints
from fusiest.pmapping.table import FusedLimits, FusedLoop


@dataclass(frozen=True)
class TileClass:
    """All tiles of just these fused loops, by the tile shape below them all."""

    problem: Problem
    loops: tuple[FusedLoop, ...]
    first: Ints
    """Per tile shape (its number among those of seeds), the beginning of its tiles."""
    tiles: Ints
    """Tiles × loops."""
    _below: dict[LoopSet, Ints] = field(default_factory=dict)

    def below(self, above: LoopSet) -> Ints:
        """The tile shapes below some of the loops."""
        if above not in self._below:
            self._below[above] = self._shapes_below(above)
        return self._below[above]

    def _shapes_below(self, above: LoopSet) -> Ints:
        p = self.problem
        shape = np.full(len(self.tiles), p.shapes - 1)
        innermost = {loop.variable: i for i, loop in enumerate(self.loops) if above >> i & 1}
        for variable, stride in zip(p.variables, p.strides, strict=True):
            positions = [innermost[m] for m in variable.members if m in innermost]
            if positions:
                whole = math.prod(p.info.bounds[m] for m in variable.members if m not in innermost)
                extent = math.prod((self.tiles[:, i] for i in positions), start=whole)
                shape += (np.searchsorted(variable.divisors, extent) - (variable.radix - 1)) * stride
        return shape


@dataclass(frozen=True)
class FusedTiles:
    """The tiles of fused loops above all seeds of a search."""

    problem: Problem
    limits: FusedLimits
    shapes: Mapping[int, Ints]
    """Per tensor of a seed, the tile shapes at its seeds, in order."""
    plans: dict[object, Any] = field(default_factory=dict)
    """Plans of storage nodes between loops, by the class of tiles (all of which are remembered here) and more."""
    _known: dict[object, list[TileClass]] = field(default_factory=dict)
    _spaces: list[tuple[Ints, Ints, Floats]] = field(default_factory=list)

    def space(self, count: int, columns: int) -> tuple[Ints, Ints, Floats]:
        """Arrays for the row, the tiles and the criteria of this many rows: the same ones again and again."""
        if not self._spaces or len(self._spaces[-1][0]) < count or self._spaces[-1][2].size < count * columns:
            larger = 2 * count
            self._spaces[:] = [(np.empty(larger, np.int64), np.empty(larger, np.int64), np.empty(larger * columns))]
        row, tiles, criteria = self._spaces[-1]
        return row[:count], tiles[:count], criteria[: count * columns].reshape(count, columns)

    def classes(self, tensor: int, unfused: frozenset[str], holders: int) -> list[TileClass]:
        """Tiles by the fused loops that they need above a seed of a tensor.

        `unfused`: variables without a fused loop there; `holders`: the number of nodes between the loops.
        """
        most = min(self.limits.per_variable, holders + 1)
        key = tensor, unfused, most
        if key not in self._known:
            self._known[key] = list(self._classes(tensor, unfused, most))
        return self._known[key]

    def _classes(self, tensor: int, unfused: frozenset[str], most: int) -> Iterator[TileClass]:
        p, shapes = self.problem, self.shapes[tensor]
        members = [m for v in p.variables for m in v.members]
        bounds = np.array([p.info.bounds[m] for m in members], np.int64)
        rows, tiles = split_members(p, shapes, p.tensors[tensor].full)
        codes = (tiles < bounds) @ (1 << np.arange(len(members)))
        barred = sum(1 << i for i, m in enumerate(members) if m in unfused)
        for code in np.unique(codes[codes & barred == 0]):
            matching = np.flatnonzero(codes == code)
            for counts in self._counts([i for i in range(len(members)) if code >> i & 1], most):
                loops = tuple(FusedLoop(members[i], n) for i, count in counts.items() for n in range(count))
                chosen = tiles[matching][:, list(counts)]
                numbers, chains = with_chains(chosen, bounds[list(counts)], list(counts.values()))
                if len(numbers):
                    first = np.searchsorted(rows[matching[numbers]], np.arange(len(shapes) + 1))
                    yield TileClass(p, loops, first, chains)

    def _counts(self, incomplete: list[int], most: int) -> Iterator[dict[int, int]]:
        """How many fused loops each of these members may have. Of one gap, only one loop is over a given variable."""
        for counts in itertools.product(range(1, most + 1), repeat=len(incomplete)):
            if self.limits.loops is None or sum(counts) <= self.limits.loops:
                yield dict(zip(incomplete, counts, strict=True))


def split_members(problem: Problem, shape: Ints, relevant: frozenset[int]) -> tuple[Ints, Ints]:
    """Tiles of single rank variables for merged ones: every split. Returns row numbers and tiles (rows × members)."""
    members = [m for v in problem.variables for m in v.members]
    rows = np.arange(len(shape))
    tiles = np.empty((len(shape), 0), np.int64)
    for i, variable in enumerate(problem.variables):
        bounds = [problem.info.bounds[m] for m in variable.members]
        digit = problem.digits[i][shape][rows]
        if i in relevant:
            options = [_splits(int(d), tuple(bounds)) for d in variable.divisors]
        else:
            options = [[tuple(bounds)]] * variable.radix
        numbers, chosen = _expanded(digit, options, len(bounds))
        rows = rows[numbers]
        tiles = np.column_stack([tiles[numbers], chosen])
    assert tiles.shape[1] == len(members)
    return rows, tiles


def _expanded(numbers: Ints, options: list[list[tuple[int, ...]]], width: int) -> tuple[Ints, Ints]:
    """Every row with each of its options (`numbers`: which list each has): row numbers and options."""
    counts = np.array([len(choices) for choices in options], np.int64)
    flat = np.array([o for choices in options for o in choices], np.int64).reshape(-1, width)
    repeat = counts[numbers]
    within = np.arange(repeat.sum()) - np.repeat(np.cumsum(repeat) - repeat, repeat)
    offsets = np.cumsum(counts) - counts
    return np.repeat(np.arange(len(numbers)), repeat), flat[np.repeat(offsets[numbers], repeat) + within]


def _chains(tile: int, bound: int, loops: int) -> list[tuple[int, ...]]:
    """Tiles of nested loops over one variable, from the outermost in, that end at a tile.

    >>> _chains(2, 8, 1), _chains(2, 8, 2), _chains(2, 12, 2)
    ([(2,)], [(4, 2)], [(4, 2), (6, 2)])
    """
    if loops == 1:
        return [(tile,)] if tile < bound else []
    larger = (d for d in divisors(bound) if d > tile and d % tile == 0)
    return [(*outer, tile) for d in larger for outer in _chains(d, bound, loops - 1)]


@cache
def _splits(tile: int, bounds: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Ways to write a tile as a product of divisors of the bounds."""
    if len(bounds) == 1:
        return [(tile,)] if bounds[0] % tile == 0 else []
    return [(d, *rest) for d in divisors(bounds[0]) if tile % d == 0 for rest in _splits(tile // d, bounds[1:])]


def with_chains(innermost: Ints, bounds: Ints, counts: list[int]) -> tuple[Ints, Ints]:
    """Rows of innermost tiles (rows × variables) with all chains of so many loops: row numbers, and tiles (rows × loops)."""
    rows = np.arange(len(innermost))
    if all(count == 1 for count in counts):
        return rows, innermost
    tiles = np.empty((len(rows), 0), np.int64)
    for i, count in enumerate(counts):
        values, index = np.unique(innermost[rows, i], return_inverse=True)
        options = [_chains(int(tile), int(bounds[i]), count) for tile in values]
        numbers, chosen = _expanded(index.reshape(-1), options, count)
        rows, tiles = rows[numbers], np.column_stack([tiles[numbers], chosen])
    return rows, tiles
