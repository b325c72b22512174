"""Spatial loops in the search over tile shapes: what lies inside a fanout works in parallel, and traffic across is paid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fusiest.pmapping import kernels
from fusiest.pmapping.costs import BUSY, ENERGY, finish
from fusiest.pmapping.layers import Layer
from fusiest.pmapping.nest import HeldTensor, HolderSource
from fusiest.pmapping.outlook import Cutoff, Outlook, Prospect
from fusiest.pmapping.pareto import Floats, Ints
from fusiest.pmapping.problem import FIRST, TRAFFIC
from fusiest.pmapping.spatial import Fanout


@dataclass(frozen=True)
class Crossing:
    """Rows of a layer below a fanout, and choices of Spatial loops."""

    outlook: Outlook
    number: int
    layer: Layer
    fanout: Fanout
    rows: Ints | None = None
    """Which rows of the layer; None: all."""

    @cached_property
    def pairs(self) -> Pairs:
        """All pairs of a shape below and a choice whose product still divides the bounds; most parallelism first."""
        problem = self.outlook.problem
        below, first = np.unique(self.layer.shape, return_index=True)
        totals = self.fanout.totals
        steps, factor_numbers = [np.zeros((0, len(below)), np.int64)], [np.zeros((len(totals), 0), np.int64)]
        end = 0
        for v, variable in enumerate(problem.variables):
            factors, number = np.unique(totals[:, v], return_inverse=True)
            digits = np.array([multiples(variable.divisors, int(f)) for f in factors])[:, problem.digits[v][below]]
            steps.append(np.where(digits >= 0, digits * problem.strides[v], -1))
            factor_numbers.append(number.reshape(-1, 1) + end)
            end += len(factors)
        table, rows = np.concatenate(steps), np.concatenate(factor_numbers, axis=1)
        shapes, start, numbers, choice = kernels.pair(
            np.ascontiguousarray(table), np.ascontiguousarray(rows), problem.shapes
        )
        return Pairs(shapes, start, numbers, choice, np.append(first, len(self.layer.shape)).astype(np.int64))

    def take(self, rows: Ints, choices: Ints) -> Crossing:
        """A part of it."""
        if len(rows) == len(self.layer.shape) and len(choices) == len(self.fanout):
            return self
        return Crossing(self.outlook, self.number, self.layer.take(rows), self.fanout.take(choices), rows)

    def promising(self, cutoff: Cutoff, prospect: Prospect) -> tuple[Ints, Ints]:
        """Rows that can beat what is known with some choice, and choices that can do so with some row."""
        outlook, columns = self.outlook, self.outlook.columns
        rows = np.flatnonzero(cutoff.keeps(*outlook.bounds(self.layer.shape, self.layer.criteria, prospect)))
        if not len(rows):
            return rows, rows
        ideal = self.layer.criteria[rows].min(axis=0)
        least = np.zeros((len(self.fanout), columns.count))
        least[:, columns.time] = ideal[columns.time] / self.fanout.units / outlook.most_units(prospect.levels[:-1])
        least[:, ENERGY] = outlook.least_energy(ideal, self.fanout, prospect)
        energy, latency = finish(outlook.problem, columns, least + outlook.least(prospect), prospect.watts)
        return rows, np.flatnonzero(cutoff.keeps(energy, latency))

    def layer_above(self, sources: Mapping[int, HolderSource], beaten: Beaten | None) -> Layer:
        """The rows above the fanout, Pareto-pruned. `sources`: where traffic goes that was carried so far."""
        columns, pairs = self.outlook.columns, self.pairs
        inputs = np.flatnonzero(self.layer.criteria.any(axis=0))
        matrix = _matrix(self.outlook, self.fanout, sources)[:, inputs]
        paid = np.arange(columns.count) <= columns.time
        outputs = np.flatnonzero(paid | matrix.any(axis=(0, 1)))
        togo, scale, known = np.zeros((columns.time, len(pairs.shapes))), np.ones(2), np.empty((0, 2))
        if beaten is not None:
            # in the order of the arrays above: the kernel would be compiled once more for another
            togo, scale, known = np.ascontiguousarray(beaten.togo[:, pairs.shapes]), beaten.scale, beaten.known
        lengths, rows, choice, values = kernels.cross(
            pairs.start, pairs.below, pairs.choice, pairs.first, np.ascontiguousarray(self.layer.criteria[:, inputs]),
            np.ascontiguousarray(matrix[:, :, outputs]), togo, scale, known,
        )  # fmt: skip
        criteria = np.zeros((len(rows), columns.count))
        criteria[:, outputs] = values
        shape, source = np.repeat(pairs.shapes, lengths), np.full(len(rows), self.number)
        tolls = tuple(HeldTensor(toll, t) for t, holder_source in sources.items() for toll in holder_source.tolls)
        origin = rows if self.rows is None else self.rows[rows]
        at = HeldTensor(self.fanout.level, -1)
        return Layer("cross", at, shape, criteria, source, origin, self.fanout.numbers[choice], tolls)


class Pairs(NamedTuple):
    """Shapes below a fanout paired with choices of Spatial loops, ordered by the shape above."""

    shapes: Ints
    """Shapes above the fanout."""
    start: Ints
    """Per shape above, its first pair."""
    below: Ints
    """Per pair, which shape below."""
    choice: Ints
    first: Ints
    """Per shape below, its first row."""


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
    """Rows to leave out at once: `togo` as in `Prospect`, watts and number of instances, known energies and latencies."""

    togo: Floats
    scale: Floats
    known: Floats


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
