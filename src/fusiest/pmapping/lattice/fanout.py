"""Spatial loops in the search over tile shapes: components inside a fanout work in parallel, traffic across is paid."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fusiest.pmapping.lattice import pair_kernels
from fusiest.pmapping.lattice.bound_kernels import NOTHING_ACROSS, Across, Bar, ToBeat
from fusiest.pmapping.lattice.layers import Layer
from fusiest.pmapping.lattice.move_costs import BUSY
from fusiest.pmapping.lattice.pair_kernels import Halves, Pairs
from fusiest.pmapping.lattice.remaining import Outlook
from fusiest.pmapping.lattice.tile_problem import FIRST, TRAFFIC
from fusiest.pmapping.nest.rules import HeldTensor, HolderSource
from fusiest.pmapping.nest.spatial import Fanout
from fusiest.pmapping.pareto import Floats, Ints

_FEW_PAIRS, _LEAF = 200_000, 12
"""Numbers of pairs of rows and choices. More pairs are compared with the cutoff by boxes, which have at most `_LEAF`
rows and choices."""


@dataclass(frozen=True)
class Crossing:
    """Rows of a layer below a fanout, and choices of Spatial loops for them."""

    outlook: Outlook
    number: int
    """Number of the layer."""
    layer: Layer
    fanout: Fanout

    @cached_property
    def pairs(self) -> Pairs:
        """All pairs of a shape below and a choice whose product still divides the bounds; most parallelism first."""
        below, first = np.unique(self.layer.shape, return_index=True)
        steps, numbers = self._steps(below)
        shapes, start, below, choice = pair_kernels.pair(steps, numbers, self.outlook.problem.shapes)
        return Pairs(shapes, start, below, choice, np.append(first, len(self.layer.shape)).astype(np.int64))

    def _steps(self, below: Ints) -> tuple[Ints, Ints]:
        """What each factor of a variable adds to the number of each shape, or -1; per choice and variable, its factor."""
        problem, totals = self.outlook.problem, self.fanout.totals
        steps, numbers = [np.zeros((0, len(below)), np.int64)], [np.zeros((len(totals), 0), np.int64)]
        end = 0
        for v, variable in enumerate(problem.variables):
            factors, number = np.unique(totals[:, v], return_inverse=True)
            digits = np.array([multiples(variable.divisors, int(f)) for f in factors])[:, problem.digits[v][below]]
            steps.append(np.where(digits >= 0, digits * problem.strides[v], -1))
            numbers.append(number.reshape(-1, 1) + end)
            end += len(factors)
        return np.ascontiguousarray(np.concatenate(steps)), np.ascontiguousarray(np.concatenate(numbers, axis=1))

    def _hopeful(self, inputs: Floats, effects: Effects, beaten: Beaten) -> Pairs:
        """Pairs of a row and a choice that can beat the cutoff, in the same order.

        A box of rows and one of choices, with the least of both, cost no more than any of their pairs: if the box is
        beaten, all pairs are.
        """
        across, matrix = beaten.across, effects.matrix
        if len(across.matrix):  # the first shape has most iterations left
            matrix = matrix @ (across.factors[0][:, None] * across.matrix)[effects.outputs]
        else:
            matrix = np.ascontiguousarray(matrix[:, :, : self.outlook.columns.time + 1])
        features = np.column_stack([self.fanout.units, self.fanout.shared, self.fanout.apart])
        rows, choices = halved(inputs, inputs), halved(features, matrix.reshape(len(matrix), -1))
        bar = beaten.bar
        least = bar.togo.min(axis=0)
        hopeful = pair_kernels.hopeful(rows, choices, inputs, matrix, self._steps(self.layer.shape), bar, least)
        hopeful = hopeful[np.lexsort((hopeful[:, 0], hopeful[:, 1], hopeful[:, 2]))]
        shapes, start = np.unique(hopeful[:, 2], return_index=True)
        below, choice = np.ascontiguousarray(hopeful[:, 0]), np.ascontiguousarray(hopeful[:, 1])
        return Pairs(shapes, np.append(start, len(hopeful)).astype(np.int64), below, choice, np.arange(len(inputs) + 1))

    def layer_above(self, sources: Mapping[int, HolderSource], beaten: Beaten | None) -> Layer:
        """The rows above the fanout, Pareto-pruned. `sources`: where carried traffic goes."""
        columns = self.outlook.columns
        inputs = np.flatnonzero(self.layer.criteria.any(axis=0))
        below = np.ascontiguousarray(self.layer.criteria[:, inputs])
        outputs, matrix = _effects(self.outlook, self.fanout, sources, inputs)
        goal = ToBeat(np.ones(len(columns.busy), np.bool_), np.ones(2), np.empty((0, 2)), np.empty((0, 3)), np.ones(1))
        bar, across = Bar(np.zeros((1, 1), np.float32), goal), NOTHING_ACROSS
        if beaten is None or len(self.layer.shape) * len(self.fanout) <= _FEW_PAIRS:
            pairs = self.pairs
        else:
            pairs = self._hopeful(below, Effects(outputs, matrix), beaten)
        if beaten is not None:
            bar, across = beaten
            if len(across.matrix):
                matrix_of, factors, floors = across
                across = Across(
                    np.ascontiguousarray(matrix_of[outputs]), np.ascontiguousarray(factors[:, outputs]), floors[outputs]
                )
        lengths, rows, choice, values = pair_kernels.cross(pairs, below, matrix, bar, across)
        criteria = np.zeros((len(rows), columns.count))
        criteria[:, outputs] = values
        shape, source = np.repeat(pairs.shapes, lengths), np.full(len(rows), self.number)
        tolls = tuple(HeldTensor(toll, t) for t, holder_source in sources.items() for toll in holder_source.tolls)
        at = HeldTensor(self.fanout.level, -1)
        return Layer("cross", at, shape, criteria, source, rows, self.fanout.numbers[choice], tolls)


def multiples(divisors: Ints, factor: int) -> Ints:
    """Per divisor d, the index of d·factor among the divisors, or -1.

    >>> multiples(np.array([1, 2, 3, 6]), 2).tolist()
    [1, -1, 3, -1]
    """
    index = np.searchsorted(divisors, divisors * factor)
    clipped = np.minimum(index, len(divisors) - 1)
    result: Ints = np.where(divisors[clipped] == divisors * factor, clipped, -1)
    return result


class Beaten(NamedTuple):
    """Costs that rows must beat, else they are left out at once."""

    bar: Bar
    across: Across
    """How criteria turn into those above all further fanouts."""


def halved(features: Floats, values: Floats) -> Halves:
    """Cut rows into halves of similar ones, by one feature after the other."""
    count = len(features)
    order = np.arange(count)
    varying = [np.ascontiguousarray(column) for column in features.T if (column != column[0]).any()]
    depth = max(0, math.ceil(math.log2(count / _LEAF))) if varying else 0
    starts = np.array([0, count])
    for level in range(depth):
        feature = varying[level % len(varying)]
        order = order[np.lexsort((feature[order], np.repeat(np.arange(len(starts) - 1), np.diff(starts))))]
        starts = (np.arange(2 ** (level + 1) + 1) * count) >> (level + 1)
    boxes = np.empty((2, 2 << depth, values.shape[1]))
    for box, least in zip(boxes, (np.minimum, np.maximum), strict=True):
        box[1 << depth :] = least.reduceat(values[order], starts[:-1])
        for level in range(depth, 0, -1):
            nodes = box[1 << level : 2 << level]
            box[1 << level - 1 : 1 << level] = least(nodes[::2], nodes[1::2])
    return Halves(starts, order, boxes)


class Effects(NamedTuple):
    """How criteria change with each choice of Spatial loops."""

    outputs: Ints
    """The criteria above the fanout that may not be zero: energy, busy times, time, others."""
    matrix: Floats
    """Choices × criteria below × these criteria above."""


def _effects(outlook: Outlook, fanout: Fanout, sources: Mapping[int, HolderSource], inputs: Ints) -> Effects:
    """How some criteria below a fanout change. `sources`: where carried traffic goes."""
    columns = outlook.columns
    entries = [(i, *entry) for i, k in enumerate(inputs.tolist()) for entry in _effects_of(outlook, fanout, sources, k)]
    others = {target for _, target, _ in entries if target > columns.time}
    outputs = np.array([*range(columns.time + 1), *sorted(others)], np.int64)
    matrix = np.zeros((len(fanout), len(inputs), len(outputs)))
    for i, target, factor in entries:
        matrix[:, i, np.searchsorted(outputs, target)] += factor
    return Effects(outputs, matrix)


def _effects_of(
    outlook: Outlook, fanout: Fanout, sources: Mapping[int, HolderSource], criterion: int
) -> Iterator[tuple[int, Floats]]:
    """The criteria above a fanout that one below adds to, and its factor in each, per choice."""
    columns, units = outlook.columns, fanout.units
    output = next(i for i, t in enumerate(outlook.problem.tensors) if t.output)
    apart = fanout.apart[:, output]
    if BUSY <= criterion < columns.time:
        yield criterion, 1 / units if columns.busy[criterion - BUSY].component >= fanout.level else np.ones(len(units))
    elif criterion == columns.time:
        yield criterion, 1 / units
    elif columns.carried and columns.credit <= criterion < columns.traffic:
        saved = criterion - columns.credit
        inside = saved and columns.busy[saved - BUSY].component >= fanout.level
        is_last = fanout.level == min(outlook.fanouts)  # the last fanout: first passes are known
        yield saved if is_last else criterion, apart / units if inside else apart
    elif columns.carried and columns.traffic <= criterion <= columns.first:
        t = output if criterion == columns.first else criterion - columns.traffic
        if t in sources:
            weights, shared = outlook.weights(t, True, sources[t]), 1 / fanout.shared[:, t]
            of_value = -weights[FIRST] if criterion == columns.first else weights[TRAFFIC]
            factor = apart * shared if criterion == columns.first else shared
            yield from ((target, factor * of_value[target]) for target in np.flatnonzero(of_value).tolist())
    else:
        yield criterion, np.ones(len(units))
