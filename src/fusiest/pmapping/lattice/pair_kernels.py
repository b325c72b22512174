"""Compiled kernels of fanouts: rows below one are paired with choices of Spatial loops, and the rows above it pruned.

With many pairs, those that can beat the cutoff are found by boxes of both. Rows and choices are each cut into halves of
similar ones, again and again: node i of such a tree has the halves 2i and 2i + 1, and the leaves hold rows or choices.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fusiest.base.compiled import compiled
from fusiest.pmapping.lattice.bound_kernels import beaten, bounded
from fusiest.pmapping.lattice.kernels import dominates

if TYPE_CHECKING:
    from fusiest.pmapping.pareto import Floats, Ints


class Pairs(NamedTuple):
    """Shapes below a fanout paired with choices of Spatial loops, ordered by the shape above."""

    shapes: Ints
    """Shapes above the fanout."""
    start: Ints
    """Per shape above, its first pair."""
    below: Ints
    """Per pair, the shape below; or the row, as if each had a shape of its own."""
    choice: Ints
    first: Ints
    """Per shape below, its first row."""


class Halves(NamedTuple):
    """A tree of rows or choices, cut into halves."""

    starts: Ints
    """The beginning of each leaf in `order`."""
    order: Ints
    """Rows or choices, leaf after leaf."""
    boxes: Floats
    """The least and the most of each value in each node; those of choices are of a matrix, flat."""


@compiled()
def pair(steps, rows, shapes):
    """Pairs of a shape below a fanout and a choice of Spatial loops, ordered by the shape above, then by choice.

    The shape above is the sum of steps[rows[choice, v], below] over variables; -1: it does not divide the bounds. Returns
    the shapes above, the first pair of each, and per pair the shape below and the choice.
    """
    choices, variables = rows.shape
    below = steps.shape[1]
    counts = np.zeros(shapes + 1, np.int64)
    for fill in range(2):
        if fill:
            used, total = 0, 0
            for shape in range(shapes):
                used += counts[shape] > 0
            above = np.empty(used, np.int64)
            start = np.empty(used + 1, np.int64)
            used = 0
            for shape in range(shapes):
                if counts[shape] > 0:
                    above[used], start[used] = shape, total
                    total += counts[shape]
                    counts[shape] = start[used]
                    used += 1
            start[used] = total
            number = np.empty(total, np.int64)
            choice = np.empty(total, np.int64)
        for j in range(choices):
            for i in range(below):
                shape = 0
                for v in range(variables):
                    step = steps[rows[j, v], i]
                    if step < 0:
                        shape = -1
                        break
                    shape += step
                if shape < 0:
                    continue
                if fill:
                    number[counts[shape]] = i
                    choice[counts[shape]] = j
                counts[shape] += 1
    return above, start, number, choice


@compiled()
def cross(pairs, inputs, matrix, bar, across):
    """Put Spatial loops above the current point, and keep for each shape above them the rows that no other dominates.

    The criteria of a row then are inputs[row] @ matrix[choice]: energy, busy times, time, others. Rows that cannot beat
    the cutoff are left out. across: how their criteria turn into those above all further fanouts.

    Returns the number of rows per shape above, and per row where it came from, the choice, the criteria.
    """
    out_start, below, choices, start = pairs.start, pairs.below, pairs.choice, pairs.first
    columns, bars = matrix.shape[2], len(bar.goal.points) + len(bar.goal.lines)
    then = np.empty(across.matrix.shape[1])
    counts = np.zeros(len(out_start) - 1, np.int64)
    capacity = 1024
    origin = np.empty(capacity, np.int64)
    choice = np.empty(capacity, np.int64)
    out = np.empty((capacity, columns))
    base = 0
    for o in range(len(out_start) - 1):
        shape, size = pairs.shapes[o], 0
        for pair in range(out_start[o], out_start[o + 1]):
            j = choices[pair]
            for row in range(start[below[pair]], start[below[pair] + 1]):
                new = base + size
                if new == capacity:
                    capacity *= 2
                    out, origin, choice = _twice(out, origin, choice)
                for c in range(columns):
                    value = 0.0
                    for k in range(inputs.shape[1]):
                        value += inputs[row, k] * matrix[j, k, c]
                    out[new, c] = value
                if bars and beaten(bounded(out[new], shape, across, then), bar.togo[shape], bar.goal):
                    continue
                dominated = False
                for f in range(base, new):
                    if dominates(out, f, new):
                        dominated = True
                        if f > base:  # a successful dominator will likely succeed again
                            _swap(out, origin, choice, f, (f + base) // 2)
                        break
                if dominated:
                    continue
                origin[new] = row
                choice[new] = j
                kept = base
                for f in range(base, new):
                    if not dominates(out, new, f):
                        if kept < f:
                            _swap(out, origin, choice, f, kept)
                        kept += 1
                if kept < new:
                    _swap(out, origin, choice, new, kept)
                size = kept + 1 - base
        counts[o] = size
        base += size
    return counts, origin[:base].copy(), choice[:base].copy(), out[:base].copy()


@compiled()
def _twice(out, origin, choice):
    """Enlarge the arrays to twice as many rows."""
    count, columns = out.shape
    larger = np.empty((2 * count, columns))
    origins, choices = np.empty(2 * count, np.int64), np.empty(2 * count, np.int64)
    for i in range(count):
        for c in range(columns):
            larger[i, c] = out[i, c]
        origins[i], choices[i] = origin[i], choice[i]
    return larger, origins, choices


@compiled()
def _swap(out, origin, choice, a, b):
    for c in range(out.shape[1]):
        out[a, c], out[b, c] = out[b, c], out[a, c]
    origin[a], origin[b] = origin[b], origin[a]
    choice[a], choice[b] = choice[b], choice[a]


@compiled()
def hopeful(rows, choices, row_values, matrix, steps_and_numbers, bar, least):
    """Find the pairs that can beat the cutoff, in no order: rows, choices, and the shapes above.

    steps[numbers[choice, v], row]: see `pair`. least: the least cost-to-go of all shapes.
    """
    row_starts, row_order, row_boxes = rows
    choice_starts, choice_order, choice_boxes = choices
    (steps, step_numbers), shapes = steps_and_numbers, len(bar.togo)
    row_leaves, choice_leaves = len(row_starts) - 1, len(choice_starts) - 1
    outputs = matrix.shape[2]
    stack = np.empty((256, 2), np.int64)
    stack[0, 0], stack[0, 1], depth = 1, 1, 1
    values = np.empty(outputs)
    pairs, count = np.empty((1024, 3), np.int64), 0
    while depth:
        depth -= 1
        a, b = stack[depth, 0], stack[depth, 1]
        _least_product(row_boxes[:, a], choice_boxes[:, b], values)
        if beaten(values, least, bar.goal):
            continue
        if a < row_leaves or b < choice_leaves:
            # the larger of both: its number is smaller by as many halvings
            by_rows = b >= choice_leaves or (a < row_leaves and a * choice_leaves <= b * row_leaves)
            for half in range(2):
                stack[depth, 0] = 2 * a + half if by_rows else a
                stack[depth, 1] = b if by_rows else 2 * b + half
                depth += 1
            continue
        for i in range(row_starts[a - row_leaves], row_starts[a - row_leaves + 1]):
            for j in range(choice_starts[b - choice_leaves], choice_starts[b - choice_leaves + 1]):
                row, choice = row_order[i], choice_order[j]
                shape = _shape_above(steps, step_numbers, row, choice)
                if shape < 0:
                    continue
                for c in range(outputs):
                    values[c] = 0.0
                    for k in range(row_values.shape[1]):
                        values[c] += row_values[row, k] * matrix[choice, k, c]
                if beaten(values, bar.togo[shape if shapes > 1 else 0], bar.goal):
                    continue
                if count == len(pairs):
                    pairs = np.concatenate((pairs, np.empty_like(pairs)))
                pairs[count, 0], pairs[count, 1], pairs[count, 2] = row, choice, shape
                count += 1
    return pairs[:count]


@compiled()
def _shape_above(steps, step_numbers, row, choice):
    """The shape above a fanout; -1: it does not divide the bounds."""
    shape = 0
    for v in range(step_numbers.shape[1]):
        step = steps[step_numbers[choice, v], row]
        if step < 0:
            return -1
        shape += step
    return shape


@compiled()
def _least_product(row_box, choice_box, values):
    """The least criteria that rows of a box can have with choices of a box: each product is least at a corner."""
    inputs, outputs = row_box.shape[1], len(values)
    for c in range(outputs):
        values[c] = 0.0
    for k in range(inputs):
        low, high = row_box[0, k], row_box[1, k]
        for c in range(outputs):
            small, large = choice_box[0, k * outputs + c], choice_box[1, k * outputs + c]
            values[c] += min(low * small, low * large, high * small, high * large)
