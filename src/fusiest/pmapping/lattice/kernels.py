"""Compiled kernels: Pareto pruning inside groups, the growth of tiles over a lattice of divisors, storage nodes.

Everything is arrays; a row is a vector of criteria, smaller is better. Ties within 1e-12 count as equal, so that sums
taken in another order do not keep equal rows apart.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fusiest.base.compiled import compiled
from fusiest.pmapping.lattice.bound_kernels import beaten, bounded

if TYPE_CHECKING:
    import numpy.typing as npt

    from fusiest.pmapping.pareto import Floats, Ints

SLACK = 1e-12
SMALL_GROUP = 8


class Digit(NamedTuple):
    """The digit of a variable in the number of a shape: (shape // stride) % radix."""

    stride: int
    radix: int
    before_start: Ints
    before: Ints
    """Digits that are smaller by one prime: from before_start[digit] to before_start[digit + 1]."""


STAYS, MAY_GROW, GROWS, ENDS = 0, 1, 2, 3
"""What variables do: one stays, may grow or not, grows, becomes whole."""


class Growing(NamedTuple):
    """The variables that may grow, in the order in which they do."""

    kinds: Ints
    """What each variable does: one of the constants above."""
    strides: Ints
    radix: Ints
    offsets: Ints
    """Per variable, the entry of its first digit in `starts`."""
    starts: Ints
    """Per variable and digit, the beginning of the digits of its proper multiples in `multiples`."""
    multiples: Ints


class Placing(NamedTuple):
    """A storage node to be placed."""

    amounts: Floats
    """Traffic, first pass and footprint of its tensor at each shape."""
    weights: Floats
    """Its cost per amount and criterion."""
    limits: Floats
    """Most that each criterion may be."""
    allowed: npt.NDArray[np.bool_]
    """Shapes at which it may stand."""


@compiled()
def dominates(criteria, a, b):
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
    """Sort rows by their first criterion, equal ones as they were: merged from runs of growing length. In place.

    Numba's own sorts take longer to compile than all else here.
    """
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
    """Put into `front` the first rows that no other dominates; returns how many."""
    size = 0
    for row in range(count):
        dominated = False
        for f in range(size):
            if dominates(criteria, front[f], row):
                dominated = True
                if f > 0:  # move a successful dominator forward: it will likely succeed again
                    front[f], front[f // 2] = front[f // 2], front[f]
                break
        if dominated:
            continue
        kept = 0
        for f in range(size):
            if not dominates(criteria, row, front[f]):
                front[kept] = front[f]
                kept += 1
        front[kept] = row
        size = kept + 1
    return size


@compiled()
def grow(shapes, variable, start, rows, criteria):
    """Put a temporal loop over one variable above the current point, or none.

    Shapes are numbered in mixed radix: see `Digit`. A row at a shape is reachable at every multiple of it: each shape
    takes over the rows of its prime predecessors, Pareto-pruned. Criteria do not change: a temporal loop costs nothing
    (proof 1).
    """
    stride, radix, before_start, before = variable
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
                    if out[f] == row or dominates(criteria, out[f], row):
                        dominated = True
                        break
                if dominated:
                    continue
                kept = base
                for f in range(base, used):
                    if not dominates(criteria, row, out[f]):
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
    """Add a storage node's cost: amounts times weights (per amount and criterion). Drop rows over a limit.

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
def place_few(rows, shapes, criteria, growing, placing, lacks):
    """Grow rows of a layer, and place a storage node above: every way that can still beat the cutoff.

    The node's space is that of the tile below the variable that `GROWS`. Returns the rows, their new shapes and their
    criteria.
    """
    before, after, goal, across = lacks
    levels, columns = len(growing.strides), criteria.shape[1]
    origin, reached = np.empty(1024, np.int64), np.empty(1024, np.int64)
    out, count = np.empty((1024, columns)), 0
    at, end = np.zeros(levels + 1, np.int64), np.ones(levels + 1, np.int64)
    shape_at, space_at = np.empty(levels + 1, np.int64), np.empty(levels + 1, np.int64)
    now, then = np.empty(across.matrix.shape[1]), np.empty(across.matrix.shape[1])
    for row in rows:
        crossed = bounded(criteria[row], shapes[row], across, now)
        if beaten(crossed, before[0, shapes[row]], goal):
            continue
        level = 0
        shape_at[0] = space_at[0] = shapes[row]
        _begin_growing(growing, 0, shapes[row], at, end)
        while level >= 0:
            if at[level] == end[level]:
                level -= 1
                continue
            if level < levels:
                step, grows = _next_shape(growing, level, shape_at[level], at)
                shape = shape_at[level] + step
                if not beaten(crossed, before[level + 1, shape], goal):
                    space = space_at[level] + (0 if grows else step)
                    level += 1
                    shape_at[level], space_at[level] = shape, space
                    _begin_growing(growing, level, shape, at, end)
                continue
            if count == len(origin):
                origin, reached = np.append(origin, origin), np.append(reached, reached)
                out = np.concatenate((out, out))
            level -= 1
            shape = shape_at[levels]
            if not _place_one(criteria[row], placing, shape, space_at[levels], out[count]):
                continue
            if not beaten(bounded(out[count], shape, across, then), after[shape], goal):
                origin[count], reached[count] = row, shape
                count += 1
    return origin[:count].copy(), reached[:count].copy(), out[:count].copy()


@compiled()
def _begin_growing(growing, level, shape, at, end):
    """Set the entries of `multiples` that a variable of a shape is to go through; the one before them is its own digit."""
    if level == len(growing.strides):
        at[level], end[level] = 0, 1
        return
    digit = (shape // growing.strides[level]) % growing.radix[level]
    first = growing.offsets[level] + digit
    at[level], end[level] = growing.starts[first], growing.starts[first + 1]
    kind, is_whole = growing.kinds[level], at[level] == end[level]
    if kind == STAYS:
        end[level] = at[level]
    if kind in (STAYS, MAY_GROW) or (kind == ENDS and is_whole):
        at[level] -= 1
    elif kind == ENDS:
        at[level] = end[level] - 1


@compiled()
def _next_shape(growing, level, shape, at):
    """The step to the next shape, and whether the variable is the one that `GROWS`."""
    entry, stride = at[level], growing.strides[level]
    at[level] += 1
    digit = (shape // stride) % growing.radix[level]
    if entry < growing.starts[growing.offsets[level] + digit]:
        return 0, False
    return (growing.multiples[entry] - digit) * stride, growing.kinds[level] == GROWS


@compiled()
def _place_one(row, placing, shape, space, out):
    """Add the node's cost to a row. Returns whether it is allowed and fits."""
    amounts, weights, limits, allowed = placing
    if not allowed[shape]:
        return False
    for c in range(len(row)):
        out[c] = row[c] + amounts[2, space] * weights[2, c] + amounts[0, shape] * weights[0, c]
        out[c] += amounts[1, shape] * weights[1, c]
        if out[c] > limits[c]:
            return False
    return True
