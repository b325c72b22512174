"""Compiled kernels: which pairs of a row below a fanout and a choice of Spatial loops can beat what is known, by boxes of both.

Rows and choices are each cut into halves of similar ones, again and again: node i of such a tree has the halves 2i and 2i + 1, and the
leaves have those from `starts[leaf]` to `starts[leaf + 1]`, each by its number in `order`.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

import numpy as np

from fusiest.compiled import compiled
from fusiest.pmapping.kernels import beaten


@compiled()
def hopeful(rows, choices, row_boxes, choice_boxes, row_values, matrix, steps, step_numbers, togo, least, scale, known):
    """Pairs that are not beaten, in no order: rows, choices, and the shapes above.

    rows, choices: (starts, order). *_boxes: the least and the most of each value in each node; those of choices are of `matrix`, flat.
    steps[step_numbers[choice, v], row]: see `kernels.pair`. togo: per shape above, or in one column for all; least: of all shapes.
    """
    (row_starts, row_order), (choice_starts, choice_order) = rows, choices
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
        if beaten(values, least, scale, known):
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
                if beaten(values, togo[:, shape if togo.shape[1] > 1 else 0], scale, known):
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
    """The least that rows of a box can come to with choices of a box: each product is least at a corner."""
    inputs, outputs = row_box.shape[1], len(values)
    for c in range(outputs):
        values[c] = 0.0
    for k in range(inputs):
        low, high = row_box[0, k], row_box[1, k]
        for c in range(outputs):
            small, large = choice_box[0, k * outputs + c], choice_box[1, k * outputs + c]
            values[c] += min(low * small, low * large, high * small, high * large)
