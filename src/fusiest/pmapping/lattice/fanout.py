"""Spatial loops in the search over tile shapes: components inside a fanout work in parallel, traffic across is paid."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fusiest.pmapping.lattice import pair_kernels
from fusiest.pmapping.lattice.layers import Layer
from fusiest.pmapping.lattice.move_costs import BUSY, finish
from fusiest.pmapping.lattice.pair_kernels import Bar, Halves, Pairs
from fusiest.pmapping.lattice.remaining import Cutoff, Outlook, Prospect
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
    rows: Ints | None = None
    """Numbers of the rows in the layer; None: all."""

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

    def _hopeful(self, inputs: Floats, matrix: Floats, beaten: Beaten) -> Pairs:
        """Pairs of a row and a choice that can beat the cutoff, in the same order.

        `matrix`: lower bounds on how criteria change.

        A box of rows and one of choices, with the least of both, cost no more than any of their pairs: if the box is
        beaten, all pairs are.
        """
        features = np.column_stack([self.fanout.units, self.fanout.shared, self.fanout.apart])
        rows, choices = halved(inputs, inputs), halved(features, matrix.reshape(len(matrix), -1))
        bar = Bar(np.ascontiguousarray(beaten.togo), beaten.scale, beaten.known)
        least = np.where(np.isfinite(bar.togo), bar.togo, np.inf).min(axis=1)
        hopeful = pair_kernels.hopeful(rows, choices, inputs, matrix, self._steps(self.layer.shape), bar, least)
        hopeful = hopeful[np.lexsort((hopeful[:, 0], hopeful[:, 1], hopeful[:, 2]))]
        shapes, start = np.unique(hopeful[:, 2], return_index=True)
        below, choice = np.ascontiguousarray(hopeful[:, 0]), np.ascontiguousarray(hopeful[:, 1])
        return Pairs(shapes, np.append(start, len(hopeful)).astype(np.int64), below, choice, np.arange(len(inputs) + 1))

    def take(self, rows: Ints, choices: Ints) -> Crossing:
        """Restrict it to some rows and choices."""
        if len(rows) == len(self.layer.shape) and len(choices) == len(self.fanout):
            return self
        return Crossing(self.outlook, self.number, self.layer.take(rows), self.fanout.take(choices), rows)

    def promising(self, cutoff: Cutoff, prospect: Prospect) -> tuple[Ints, Ints]:
        """Rows that can beat the cutoff with some choice, and choices that can do so with some row."""
        outlook, columns = self.outlook, self.outlook.columns
        rows = np.flatnonzero(cutoff.keeps(*outlook.bounds(self.layer.shape, self.layer.criteria, prospect)))
        if not len(rows):
            return rows, rows
        ideal = self.layer.criteria[rows].min(axis=0)
        least = np.zeros((len(self.fanout), columns.count))
        least[:, : columns.time + 1] = ideal @ outlook.least_matrix(self.fanout, prospect)
        energy, latency = finish(outlook.problem, columns, least + outlook.least(prospect), prospect.watts)
        return rows, np.flatnonzero(cutoff.keeps(energy, latency))

    def layer_above(
        self, sources: Mapping[int, HolderSource], beaten: Beaten | None, relaxed: Beaten | None = None
    ) -> Layer:
        """The rows above the fanout, Pareto-pruned. `sources`: where carried traffic goes."""
        columns = self.outlook.columns
        inputs = np.flatnonzero(self.layer.criteria.any(axis=0))
        below = np.ascontiguousarray(self.layer.criteria[:, inputs])
        matrix = _matrix(self.outlook, self.fanout, sources)[:, inputs]
        paid = np.arange(columns.count) <= columns.time
        outputs = np.flatnonzero(paid | matrix.any(axis=(0, 1)))
        bound = beaten or relaxed
        if bound is None or len(self.layer.shape) * len(self.fanout) <= _FEW_PAIRS:
            pairs = self.pairs
        else:
            least = matrix if bound.matrix is None else bound.matrix(self.fanout)[:, inputs]
            pairs = self._hopeful(below, np.ascontiguousarray(least[:, :, : columns.time + 1]), bound)
        bar = Bar(np.zeros((columns.time, len(pairs.shapes))), np.ones(2), np.empty((0, 2)))
        if beaten is not None:
            # in the order of the arrays above: the kernel would be compiled once more for another
            bar = Bar(np.ascontiguousarray(beaten.togo[:, pairs.shapes]), beaten.scale, beaten.known)
        lengths, rows, choice, values = pair_kernels.cross(
            pairs, below, np.ascontiguousarray(matrix[:, :, outputs]), bar
        )
        criteria = np.zeros((len(rows), columns.count))
        criteria[:, outputs] = values
        shape, source = np.repeat(pairs.shapes, lengths), np.full(len(rows), self.number)
        tolls = tuple(HeldTensor(toll, t) for t, holder_source in sources.items() for toll in holder_source.tolls)
        origin = rows if self.rows is None else self.rows[rows]
        at = HeldTensor(self.fanout.level, -1)
        return Layer("cross", at, shape, criteria, source, origin, self.fanout.numbers[choice], tolls)


def multiples(divisors: Ints, factor: int) -> Ints:
    """Per divisor d, the index of d·factor among the divisors, or -1.

    >>> multiples(np.array([1, 2, 3, 6]), 2).tolist()
    [1, -1, 3, -1]
    """
    index = np.searchsorted(divisors, divisors * factor)
    clipped = np.minimum(index, len(divisors) - 1)
    result: Ints = np.where(divisors[clipped] == divisors * factor, clipped, -1)
    return result


@dataclass(frozen=True)
class Beaten:
    """Costs that rows must beat, else they are left out at once."""

    togo: Floats
    """Cost-to-go, as in `Prospect`."""
    scale: Floats
    """Watts of leakage, number of instances."""
    known: Floats
    """Energies and latencies of known pmappings."""
    matrix: Callable[[Fanout], Floats] | None = None
    """Lower bounds on how criteria change, per choice, once all fanouts are passed; `togo` is then the same for all
    shapes. None: criteria change as they do at this fanout."""


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


def _matrix(outlook: Outlook, fanout: Fanout, sources: Mapping[int, HolderSource]) -> Floats:
    """How criteria change with each choice: choices × criteria below × criteria above the fanout."""
    columns, units = outlook.columns, fanout.units
    output = next(i for i, t in enumerate(outlook.problem.tensors) if t.output)
    apart = fanout.apart[:, output]
    scale = np.ones((len(fanout), columns.count))
    scale[:, columns.time] /= units
    scale[:, columns.credit] = apart
    for i, busy in enumerate(columns.busy):
        if busy.component >= fanout.level:
            scale[:, BUSY + i] /= units
            scale[:, columns.credit + 1 + i] = apart / units
    scale[:, columns.traffic : columns.first + 1] = 0
    matrix = scale[:, :, None] * np.eye(columns.count)
    for t, source in sources.items():
        shared = 1 / fanout.shared[:, t]
        weights = outlook.weights(t, True, source)
        matrix[:, columns.traffic + t] = shared[:, None] * weights[TRAFFIC]
        if t == output:
            matrix[:, columns.first] = (apart * shared)[:, None] * -weights[FIRST]
    if fanout.level == min(outlook.fanouts):  # the last fanout: first passes are known
        for target, column in enumerate(range(columns.credit, columns.traffic)):
            matrix[:, column] = 0
            matrix[:, column, target] = scale[:, column]
    return matrix
