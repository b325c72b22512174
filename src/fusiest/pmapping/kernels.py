"""Compiled kernels: Pareto pruning inside groups, the growth of tiles over a lattice of divisors, holders, fanouts.

Everything is arrays; a row is a vector of criteria, smaller is better. Ties within 1e-12 count as equal, so that sums
taken in another order do not keep equal rows apart.
"""

# mypy: allow-untyped-defs
# ruff: noqa: SIM110  (a compiled loop is no generator)

from __future__ import annotations

import numpy as np

from fusiest.compiled import compiled

SLACK = 1e-12
SMALL_GROUP = 8


@compiled()
def _dominates(criteria, a, b):
    """Whether row a is at least as good as row b in every criterion."""
    for c in range(criteria.shape[1]):
        x, y = criteria[a, c], criteria[b, c]
        if x > y and x - y > SLACK * abs(y):
            return False
    return True


@compiled()
def pareto(groups, count, criteria, in_order):
    """Rows that no other row of their group dominates, ordered by group. Groups are numbered from 0 to `count` - 1.

    `in_order`: of each group as they are given, or many by their first criterion.
    """
    starts = np.zeros(count + 1, np.int64)
    for group in groups:
        starts[group + 1] += 1
    longest = 0
    for g in range(count):
        longest = max(longest, starts[g + 1])
        starts[g + 1] += starts[g]
    order = np.empty(len(groups), np.int64)
    used = starts[:-1].copy()
    for row in range(len(groups)):
        order[used[groups[row]]] = row
        used[groups[row]] += 1
    columns = _varying(criteria)
    spare = np.empty(longest, np.int64)
    compared = np.empty((longest, len(columns)))
    front = np.empty(longest, np.int64)
    total = 0
    result = np.empty(len(groups), np.int64)
    for g in range(count):
        rows = order[starts[g] : starts[g + 1]]
        if len(rows) > SMALL_GROUP:
            _sort(rows, criteria, spare)
        for i in range(len(rows)):
            for c in range(len(columns)):
                compared[i, c] = criteria[rows[i], columns[c]]
        size = _front(compared, len(rows), front)
        if in_order:
            _in_order(front, size, len(rows), spare)
        for f in range(size):
            result[total + f] = rows[front[f]]
        if in_order and size <= SMALL_GROUP < len(rows):
            _by_number(result[total : total + size])
        total += size
    return result[:total].copy()


@compiled()
def _in_order(front, size, count, spare):
    """Sort some of the first `count` numbers. In place."""
    for i in range(count):
        spare[i] = 0
    for f in range(size):
        spare[front[f]] = 1
    size = 0
    for i in range(count):
        if spare[i]:
            front[size] = i
            size += 1


@compiled()
def _by_number(rows):
    """Sort a few numbers. In place."""
    for i in range(1, len(rows)):
        row, at = rows[i], i
        while at > 0 and rows[at - 1] > row:
            rows[at] = rows[at - 1]
            at -= 1
        rows[at] = row


@compiled()
def _sort(rows, criteria, spare):
    """Rows by their first criterion, equal ones as they were: merged from runs of growing length. In place.

    Numba's own sorts take longer to compile than all else here."""
    count = len(rows)
    width = 1
    while width < count:
        for begin in range(0, count, 2 * width):
            middle, end = min(begin + width, count), min(begin + 2 * width, count)
            a, b = begin, middle
            for i in range(begin, end):
                if a < middle and (b == end or criteria[rows[a], 0] <= criteria[rows[b], 0]):
                    spare[i] = rows[a]
                    a += 1
                else:
                    spare[i] = rows[b]
                    b += 1
        for i in range(count):
            rows[i] = spare[i]
        width *= 2


@compiled()
def _varying(criteria):
    """Columns in which not all rows are the same."""
    columns = np.empty(criteria.shape[1], np.int64)
    count = 0
    for c in range(criteria.shape[1]):
        for row in range(1, len(criteria)):
            if criteria[row, c] != criteria[0, c]:
                columns[count] = c
                count += 1
                break
    return columns[:count]


@compiled()
def _front(criteria, count, front):
    """Put into `front` those of the first rows that none dominates; returns how many."""
    size = 0
    for row in range(count):
        dominated = False
        for f in range(size):
            if _dominates(criteria, front[f], row):
                dominated = True
                if f > 0:  # move a successful dominator forward: it will likely succeed again
                    front[f], front[f // 2] = front[f // 2], front[f]
                break
        if dominated:
            continue
        kept = 0
        for f in range(size):
            if not _dominates(criteria, row, front[f]):
                front[kept] = front[f]
                kept += 1
        front[kept] = row
        size = kept + 1
    return size


@compiled()
def grow(shapes, stride, radix, before_start, before, start, rows, criteria):
    """Put a temporal loop over one variable above the current point, or none.

    Shapes are numbered in mixed radix; this variable's digit is (shape // stride) % radix. `before` lists, for each
    digit, those one prime smaller. A row at a shape is reachable at every multiple of it: each shape takes over what
    its prime predecessors have, Pareto-pruned. Criteria do not change: crossing a temporal loop costs nothing.
    """
    new_start = np.zeros(shapes + 1, np.int64)
    capacity = max(1024, 2 * len(rows))
    out = np.empty(capacity, np.int64)
    used = 0
    for shape in range(shapes):
        digit = (shape // stride) % radix
        base = used
        need = start[shape + 1] - start[shape]
        for b in range(before_start[digit], before_start[digit + 1]):
            smaller = shape - (digit - before[b]) * stride
            need += new_start[smaller + 1] - new_start[smaller]
        if used + need > capacity:
            capacity = 2 * (used + need)
            larger = np.empty(capacity, np.int64)
            for i in range(used):
                larger[i] = out[i]
            out = larger
        for position in range(start[shape], start[shape + 1]):
            out[used] = rows[position]
            used += 1
        for b in range(before_start[digit], before_start[digit + 1]):
            smaller = shape - (digit - before[b]) * stride
            for position in range(new_start[smaller], new_start[smaller + 1]):
                row = out[position]
                dominated = False
                for f in range(base, used):
                    if out[f] == row or _dominates(criteria, out[f], row):
                        dominated = True
                        break
                if dominated:
                    continue
                kept = base
                for f in range(base, used):
                    if not _dominates(criteria, row, out[f]):
                        out[kept] = out[f]
                        kept += 1
                out[kept] = row
                used = kept + 1
        new_start[shape + 1] = used
    return new_start, out[:used].copy()


@compiled()
def least_above(values, stride, before_start, before):
    """Per column and shape, the least value of any shape that a loop over one variable can grow it to. In place."""
    columns, shapes = values.shape
    radix = len(before_start) - 1
    for c in range(columns):
        for block in range(0, shapes, stride * radix):
            for digit in range(radix - 1, -1, -1):
                for b in range(before_start[digit], before_start[digit + 1]):
                    large, small = block + digit * stride, block + before[b] * stride
                    for i in range(stride):
                        values[c, small + i] = min(values[c, small + i], values[c, large + i])


@compiled()
def place(shape, space, rows, criteria, amounts, weights, limits):
    """Add a holder's cost: amounts times weights (per amount and criterion). Drop rows over a limit.

    Amounts are those at a row's shape, but for the last one, the footprint, which is that at the shape of its space.
    Returns which rows fit, and their criteria.
    """
    columns, last = criteria.shape[1], len(amounts) - 1
    fits = np.empty(len(rows), np.int64)
    out = np.empty((len(rows), columns))
    used = 0
    for i in range(len(rows)):
        good = True
        for c in range(columns):
            value = criteria[rows[i], c] + amounts[last, space[i]] * weights[last, c]
            for a in range(last):
                value += amounts[a, shape[i]] * weights[a, c]
            out[used, c] = value
            if value > limits[c]:
                good = False
        if good:
            fits[used] = i
            used += 1
    return fits[:used], out[:used]


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
def cross(out_start, below, choices, start, inputs, matrix, togo, scale, known):
    """Put Spatial loops above the current point, and keep for each shape above them what nothing dominates.

    Shape o above comes from the pairs out_start[o] … out_start[o + 1] of a shape below (the rows from start[i] to
    start[i + 1]) and a choice of loops j. The criteria of a row then are inputs[row] @ matrix[j]: energy, busy times, time,
    others. togo: per shape above, the least that is to come for energy and busy times; with scale (watts of leakage,
    number of instances), rows that cannot beat a known energy and latency are left out.

    Returns the number of rows per shape above, and per row where it came from, the choice, the criteria.
    """
    columns = matrix.shape[2]
    counts = np.zeros(len(out_start) - 1, np.int64)
    capacity = 1024
    origin = np.empty(capacity, np.int64)
    choice = np.empty(capacity, np.int64)
    out = np.empty((capacity, columns))
    base = 0
    for o in range(len(out_start) - 1):
        size = 0
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
                if len(known) and beaten(out[new], togo[:, o], scale, known):
                    continue
                dominated = False
                for f in range(base, new):
                    if _dominates(out, f, new):
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
                    if not _dominates(out, new, f):
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
    """The same arrays with room for twice as many rows."""
    count, columns = out.shape
    larger = np.empty((2 * count, columns))
    origins, choices = np.empty(2 * count, np.int64), np.empty(2 * count, np.int64)
    for i in range(count):
        for c in range(columns):
            larger[i, c] = out[i, c]
        origins[i], choices[i] = origin[i], choice[i]
    return larger, origins, choices


@compiled()
def beaten(criteria, togo, scale, known):
    """Whether a known pmapping is no worse than the least that a row can come to."""
    last = len(togo)
    latency = criteria[last]
    for c in range(1, last):
        latency = max(latency, criteria[c] + togo[c])
    energy = (criteria[0] + togo[0] + scale[0] * latency) * scale[1]
    latency *= scale[1]
    for k in range(len(known)):
        if energy >= known[k, 0] and latency >= known[k, 1]:
            return True
    return False


@compiled()
def _swap(out, origin, choice, a, b):
    for c in range(out.shape[1]):
        out[a, c], out[b, c] = out[b, c], out[a, c]
    origin[a], origin[b] = origin[b], origin[a]
    choice[a], choice[b] = choice[b], choice[a]
