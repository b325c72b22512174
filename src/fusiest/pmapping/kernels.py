"""Compiled kernels: Pareto pruning inside groups, and the growth of tiles over a lattice of divisors.

Everything is arrays; a row is a vector of criteria, smaller is better. Ties within 1e-12 count as equal, so that sums
taken in another order do not keep equal rows apart.
"""

from __future__ import annotations

import numba
import numpy as np
from numba.core.registry import cpu_target

from fusiest.compiled import compiled

# What Numba would load with the first kernel is part of the import, not of a search.
cpu_target.target_context.refresh()
numba.typeof(np.empty(0))  # type: ignore[no-untyped-call]

SLACK = 1.0 + 1e-12
SMALL_GROUP = 8


@compiled()
def _dominates(criteria, a, b):  # type: ignore[no-untyped-def]
    """Whether row a is at least as good as row b in every criterion."""
    for c in range(criteria.shape[1]):  # noqa: SIM110
        if criteria[a, c] > criteria[b, c] * SLACK:
            return False
    return True


@compiled()
def pareto(groups, count, criteria):  # type: ignore[no-untyped-def]
    """Rows that no other row of their group dominates, ordered by group. Groups are numbered from 0 to `count` - 1."""
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
    compared = np.empty((longest, len(columns)))
    front = np.empty(longest, np.int64)
    total = 0
    result = np.empty(len(groups), np.int64)
    for g in range(count):
        own = order[starts[g] : starts[g + 1]]
        if len(own) > SMALL_GROUP:
            own = own[np.argsort(criteria[own, 0])]
        for i in range(len(own)):
            for c in range(len(columns)):
                compared[i, c] = criteria[own[i], columns[c]]
        for f in range(_front(compared, len(own), front)):
            result[total] = own[front[f]]
            total += 1
    return result[:total].copy()


@compiled()
def _varying(criteria):  # type: ignore[no-untyped-def]
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
def _front(criteria, count, front):  # type: ignore[no-untyped-def]
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
def grow(shapes, stride, radix, before_start, before, start, rows, criteria):  # type: ignore[no-untyped-def]
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
            other = shape - (digit - before[b]) * stride
            need += new_start[other + 1] - new_start[other]
        if used + need > capacity:
            capacity = 2 * (used + need)
            larger = np.empty(capacity, np.int64)
            larger[:used] = out[:used]
            out = larger
        for position in range(start[shape], start[shape + 1]):
            out[used] = rows[position]
            used += 1
        for b in range(before_start[digit], before_start[digit + 1]):
            other = shape - (digit - before[b]) * stride
            for position in range(new_start[other], new_start[other + 1]):
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
def place(start, rows, criteria, increment, allowed, limit):  # type: ignore[no-untyped-def]
    """Add a holder's cost at each shape where it may stand; drop rows over a limit. Returns shape, parent row, criteria."""
    columns = criteria.shape[1]
    count = 0
    for shape in range(len(start) - 1):
        if allowed[shape]:
            count += start[shape + 1] - start[shape]
    shape_of = np.empty(count, np.int64)
    parent = np.empty(count, np.int64)
    out = np.empty((count, columns))
    used = 0
    for shape in range(len(start) - 1):
        if not allowed[shape]:
            continue
        for position in range(start[shape], start[shape + 1]):
            row = rows[position]
            fits = True
            for c in range(columns):
                value = criteria[row, c] + increment[shape, c]
                out[used, c] = value
                if value > limit[c]:
                    fits = False
            if fits:
                shape_of[used] = shape
                parent[used] = row
                used += 1
    return shape_of[:used], parent[:used], out[:used]
