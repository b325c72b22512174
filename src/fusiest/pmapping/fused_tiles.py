"""Tiles of fused loops: merged variables split into their members, and chains of larger tiles further out."""

from __future__ import annotations

from functools import cache

import numpy as np

from fusiest.pmapping.factors import divisors
from fusiest.pmapping.pareto import Ints
from fusiest.pmapping.problem import Problem


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
        own, chosen = _expanded(digit, options, len(bounds))
        rows = rows[own]
        tiles = np.column_stack([tiles[own], chosen])
    assert tiles.shape[1] == len(members)
    return rows, tiles


def _expanded(which: Ints, options: list[list[tuple[int, ...]]], width: int) -> tuple[Ints, Ints]:
    """Every row with each of its options (`which`: the number of its list): row numbers and options."""
    counts = np.array([len(own) for own in options], np.int64)
    flat = np.array([o for own in options for o in own], np.int64).reshape(-1, width)
    repeat = counts[which]
    within = np.arange(repeat.sum()) - np.repeat(np.cumsum(repeat) - repeat, repeat)
    offsets = np.cumsum(counts) - counts
    return np.repeat(np.arange(len(which)), repeat), flat[np.repeat(offsets[which], repeat) + within]


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
        values, which = np.unique(innermost[rows, i], return_inverse=True)
        options = [_chains(int(tile), int(bounds[i]), count) for tile in values]
        own, chosen = _expanded(which.reshape(-1), options, count)
        rows, tiles = rows[own], np.column_stack([tiles[own], chosen])
    return rows, tiles
