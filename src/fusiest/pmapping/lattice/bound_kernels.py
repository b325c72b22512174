"""Compiled bounds of the search over tile shapes: the cost-to-go, and whether rows can still beat the cutoff (proof 9).

Columns of a cost-to-go are energy; then busy times, if there are points to beat; then for each line to be below and each
busy time the line's weighted sum of energy and that time. It has one row of columns for each shape, in single precision:
`SHARE` of it is a lower bound.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from fusiest.base.compiled import compiled

if TYPE_CHECKING:
    from fusiest.pmapping.pareto import Floats, Ints

Singles = npt.NDArray[np.float32]
SHARE = 1 - 1e-5
"""Share of a sum in single precision that is surely no more than the sum."""


class ToBeat(NamedTuple):
    """Costs that rows must beat."""

    is_time: npt.NDArray[np.bool_]
    """Whether each busy time is one; else it counts calls, and bounds nothing."""
    scale: Floats
    """Watts of leakage, number of instances."""
    points: Floats
    """Energies and latencies of known pmappings: a row must be below each of them in one of both."""
    lines: Floats
    """Weights of energy and of latency, and a weighted sum: a row must be below one of these lines, if there are any."""
    nearest: Floats
    """Receives the least excess over each line of all rows that cannot beat the cutoff; then space for one row's."""


class Bar(NamedTuple):
    """Costs that rows must beat, and what they still lack at least."""

    togo: Singles
    """Cost-to-go, per shape or in one row for all."""
    goal: ToBeat


@compiled()
def least_costs(criteria, togo, goal):
    """The least energy and latency, by themselves, of a row that lacks this much; of one instance.

    criteria: energy, busy times, time of what is complete, …
    """
    is_time, scale, points = goal.is_time, goal.scale, goal.points
    latency = criteria[len(is_time) + 1]
    for c in range(len(is_time)):
        if is_time[c]:
            latency = max(latency, criteria[c + 1] + (SHARE * togo[c + 1] if len(points) else 0.0))
    return criteria[0] + SHARE * togo[0] + scale[0] * latency, latency


@compiled()
def least_sum(criteria, togo, goal, energy, latency, line):
    """The least weighted sum of a row on a line, given the least energy and latency, of one instance.

    A weighted sum of energy and one busy time ends with at least what it is now and its own cost-to-go. Latency is no
    less than any busy time, and leakage is watts times latency.
    """
    is_time, by_energy, by_latency = goal.is_time, goal.lines[line, 0], goal.lines[line, 1]
    times = len(is_time)
    total = by_energy * energy + by_latency * latency
    by_time = by_latency + by_energy * goal.scale[0]
    first = 1 + (times if len(goal.points) else 0) + line * times
    for c in range(times):
        if is_time[c]:
            total = max(total, by_energy * criteria[0] + by_time * criteria[c + 1] + SHARE * togo[first + c])
    return total


@compiled()
def excess(criteria, togo, goal):
    """By how much a row that lacks this much misses the cutoff, as a ratio: from 1 on, it cannot beat the cutoff."""
    points, lines, instances = goal.points, goal.lines, goal.scale[1]
    if togo[0] == np.inf:
        return np.inf
    energy, latency = least_costs(criteria, togo, goal)
    for k in range(len(points)):
        if energy * instances >= points[k, 0] and latency * instances >= points[k, 1]:
            return np.inf
    ratio = np.inf if len(lines) else 0.0
    for k in range(len(lines)):
        of_line = least_sum(criteria, togo, goal, energy, latency, k) * instances / lines[k, 2]
        goal.nearest[len(lines) + k] = of_line
        ratio = min(ratio, of_line)
    return ratio


class Across(NamedTuple):
    """How criteria below some fanouts turn into energy, busy times and time above them, at least. Empty above them all."""

    matrix: Floats
    """Criteria × energy, busy times, time."""
    factors: Floats
    """Per shape and criterion: how often first passes are multiplied at most, the share of carried traffic that is left
    at least."""
    floors: Floats
    """Per criterion, the least that is left of carried traffic: each value comes once."""


class Lacks(NamedTuple):
    """What rows still lack while variables grow one after another and a storage node is placed."""

    before: Singles
    """Cost-to-go before each variable grows, and before the node is placed."""
    after: Singles
    """Cost-to-go once the node is placed."""
    goal: ToBeat
    across: Across


NOTHING_ACROSS = Across(np.empty((0, 0)), np.empty((0, 0)), np.empty(0))


@compiled()
def bounded(criteria, shape, across, out):
    """The least energy, busy times and time above all fanouts; the criteria themselves if there is none to cross."""
    if not len(across.matrix):
        return criteria
    out[:] = 0.0
    for k in range(len(across.matrix)):
        if criteria[k] != 0.0:
            value = criteria[k] * across.factors[shape, k]
            value = max(value, across.floors[k])
            for c in range(len(out)):
                out[c] += value * across.matrix[k, c]
    return out


@compiled()
def beaten(criteria, togo, goal):
    """Whether a row that lacks this much cannot beat the cutoff."""
    ratio = excess(criteria, togo, goal)
    if ratio < 1:
        return False
    if ratio < np.inf:
        count = len(goal.lines)
        for k in range(count):
            goal.nearest[k] = min(goal.nearest[k], goal.nearest[count + k])
    return True


@compiled()
def promising(shape, criteria, bar, across):
    """Whether each row can still beat the cutoff."""
    good, out = np.empty(len(shape), np.bool_), np.empty(across.matrix.shape[1])
    for i in range(len(shape)):
        good[i] = not beaten(bounded(criteria[i], shape[i], across, out), bar.togo[shape[i]], bar.goal)
    return good


class Predecessors(NamedTuple):
    """For each variable and digit, the digits that are smaller by one prime."""

    strides: Ints
    radix: Ints
    offsets: Ints
    """Per variable, the entry of its first digit in `starts`."""
    starts: Ints
    """The beginning of the digits in `smaller`, for each variable and digit; and their end."""
    smaller: Ints


@compiled()
def placing(after, amounts, prices, allowed):
    """Cost-to-go if a storage node is placed at each shape.

    after: once it is placed. amounts: per shape what is paid for. prices: what each amount costs, per column. allowed:
    where it may stand.
    """
    shapes, columns = after.shape
    togo = np.empty_like(after)
    for shape in range(shapes):
        if not allowed[shape]:
            togo[shape] = np.inf
            continue
        traffic, first, carried = amounts[0, shape], amounts[1, shape], amounts[2, shape]
        for c in range(columns):
            cost = traffic * prices[0, c] + first * prices[1, c] + carried * prices[2, c]
            togo[shape, c] = after[shape, c] + np.float32(cost)
    return togo


@compiled()
def grow_back(togo, predecessors, variables):
    """The least of all shapes that loops over some variables can grow each shape to, one variable after the other.

    In place.
    """
    columns = togo.shape[1]
    flat = togo.reshape(-1)
    for v in variables:
        size = predecessors.strides[v] * columns
        radix, offset = predecessors.radix[v], predecessors.offsets[v]
        for block in range(0, len(flat), size * radix):
            for digit in range(radix - 1, -1, -1):
                large = flat[block + digit * size : block + (digit + 1) * size]
                for b in range(predecessors.starts[offset + digit], predecessors.starts[offset + digit + 1]):
                    begin = block + predecessors.smaller[b] * size
                    small = flat[begin : begin + size]
                    for i in range(size):
                        value = large[i]
                        small[i] = min(small[i], value)


@compiled()
def least_of_both(togo, other):
    """The least of two costs-to-go. In place of the first."""
    one, two = togo.reshape(-1), other.reshape(-1)
    for i in range(len(one)):
        value = two[i]
        one[i] = min(one[i], value)
