"""Compiled kernels of the general search: boxes of similar tile chains, least costs of nodes of boxes, and counts of real tiles."""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fusiest.base.compiled import compiled

STRONG = 32
"""Number of rows that others are compared with."""


class ChainArrays(NamedTuple):
    """Chains of all variables, one variable after the other."""

    products: np.ndarray
    """Chains × terms."""
    features: np.ndarray
    """Chains × features by which boxes are halved."""
    limited: np.ndarray
    """Chains × limits."""
    skipped: np.ndarray
    """Terms to be subtracted, each with its place in `parts`."""
    parts: np.ndarray
    """Terms that the subtracted terms are a part of."""


class BoxArrays(NamedTuple):
    """Boxes of chains, in the order in which they were made."""

    used: np.ndarray
    """Number of boxes made so far, as an array of one."""
    rows: np.ndarray
    """Chains; those of one box stand next to each other."""
    range: np.ndarray
    """Boxes × (first, after the last) place in `rows`."""
    children: np.ndarray
    """Boxes × 2, -1 where a box is not halved yet."""
    spread: np.ndarray
    """How much the chains of a box differ; less than 0 for single ones."""
    least: np.ndarray
    """Boxes × least factors of terms and of trades, then, for subtracted terms, the most that may be subtracted."""
    limited: np.ndarray
    """Boxes × least factors of limits."""


class NodeRules(NamedTuple):
    """Limits that a node must be able to meet, and weights of its least costs."""

    capped: np.ndarray
    """Sizes × terms."""
    caps: np.ndarray
    bounded: np.ndarray
    """Criteria × entries of `BoxArrays.least`."""
    most: np.ndarray
    """Per limit, the most that it may be."""
    good: np.ndarray
    """Limits × products that can be met; the last one is for all larger products."""
    quantities: np.ndarray
    """Limited quantities (see `Trades.quantities`)."""
    most_traded: np.ndarray
    """Limit of each quantity (see `Trades.most`)."""
    trades: np.ndarray
    """Pairs of term and quantity (see `Trades.columns`)."""
    raised: np.ndarray
    """Criteria × terms: the weight of the increase of a term by a trade."""
    order: np.ndarray
    """Pairs of variables whose chains mirror each other, each with the difference between the numbers of their first
    chains. No chain of the first variable need stand after that of the second."""


@compiled()
def add_box(chains, boxes, begin, end):
    """Make a box of chains next to each other; returns its number."""
    number = boxes.used[0]
    boxes.used[0] += 1
    boxes.range[number, 0], boxes.range[number, 1] = begin, end
    first = boxes.rows[begin]
    terms = chains.products.shape[1]
    least, limited = boxes.least[number], boxes.limited[number]
    least[:terms] = chains.products[first]
    limited[:] = chains.limited[first]
    for i in range(begin + 1, end):
        row = boxes.rows[i]
        for t in range(terms):
            least[t] = min(least[t], chains.products[row, t])
        for k in range(len(limited)):
            limited[k] = min(limited[k], chains.limited[row, k])
    for k in range(len(chains.skipped)):
        term, least[terms + k] = chains.skipped[k, 0], -np.inf
        for p in range(chains.skipped[k, 1], chains.skipped[k, 2]):
            part, left = chains.parts[p], np.inf
            for i in range(begin, end):
                row = boxes.rows[i]
                left = min(left, chains.products[row, part] - chains.products[row, term])
            least[terms + k] = max(least[terms + k], least[part] - left)
    boxes.spread[number] = -1.0 if end - begin == 1 else _widest(chains, boxes, begin, end)[1]
    return number


@compiled()
def _widest(chains, boxes, begin, end):
    """The feature in which some chains differ most, and by how much."""
    widest, most = 0, -1.0
    for f in range(chains.features.shape[1]):
        low, high = np.inf, -np.inf
        for i in range(begin, end):
            value = chains.features[boxes.rows[i], f]
            low, high = min(low, value), max(high, value)
        if high - low > most:
            widest, most = f, high - low
    return widest, most


@compiled()
def halve(chains, boxes, numbers):
    """Halve each of these boxes, unless that is done already."""
    result = np.empty((len(numbers), 2), np.int64)
    spare = np.empty(0, np.int64)
    for i in range(len(numbers)):
        number = numbers[i]
        if boxes.children[number, 0] < 0:
            begin, end = boxes.range[number, 0], boxes.range[number, 1]
            if len(spare) < end - begin:
                spare = np.empty(end - begin, np.int64)
            feature = _widest(chains, boxes, begin, end)[0]
            _sort_by(boxes.rows[begin:end], chains.features, feature, spare)
            middle = (begin + end) // 2
            boxes.children[number, 0] = add_box(chains, boxes, begin, middle)
            boxes.children[number, 1] = add_box(chains, boxes, middle, end)
        result[i] = boxes.children[number]
    return result


@compiled()
def _sort_by(rows, features, feature, spare):
    """Rows by a feature, equal ones as they were: merged from runs of growing length. In place."""
    count = len(rows)
    width = 1
    while width < count:
        for begin in range(0, count, 2 * width):
            middle, end = min(begin + width, count), min(begin + 2 * width, count)
            a, b = begin, middle
            for i in range(begin, end):
                if a < middle and (b == end or features[rows[a], feature] <= features[rows[b], feature]):
                    spare[i] = rows[a]
                    a += 1
                else:
                    spare[i] = rows[b]
                    b += 1
        rows[:] = spare[:count]
        width *= 2


@compiled(fastmath={"reassoc", "contract"})
def node_costs(boxes, rules, nodes):
    """Find the nodes that can fit and meet all limits, by number, and their least criteria."""
    kept = np.empty(len(nodes), np.int64)
    criteria = np.empty((len(nodes), len(rules.bounded)))
    product, sizes = np.empty(boxes.least.shape[1]), np.empty(len(rules.caps))
    terms, traded = rules.capped.shape[1], len(rules.trades)
    more, share = np.empty(terms), np.empty(len(rules.most_traded))
    count = 0
    for n in range(len(nodes)):
        if not _within(boxes, rules, nodes[n]):
            continue
        product[:] = boxes.least[nodes[n, 0]]
        for v in range(1, nodes.shape[1]):
            factor = boxes.least[nodes[n, v]]
            for t in range(len(product)):
                product[t] *= factor[t]
        fits = True
        for k in range(len(rules.caps)):
            size = 0.0
            for t in range(terms):
                size += rules.capped[k, t] * product[t]
            if size > rules.caps[k]:
                fits = False
                break
            sizes[k] = size
        if fits:
            _trade(rules, product, sizes, share, more)
            for c in range(len(rules.bounded)):
                total = 0.0
                for t in range(terms):
                    total += rules.bounded[c, t] * product[t] + rules.raised[c, t] * more[t]
                for t in range(terms, rules.bounded.shape[1]):
                    total += rules.bounded[c, t] * product[traded + t]
                criteria[count, c] = max(total, 0.0)
            kept[count] = n
            count += 1
    return kept[:count], criteria[:count]


@compiled()
def _trade(rules, product, sizes, share, more):
    """Per term, how much more it is at least than the product of its least factors, given the limited quantities."""
    for q in range(len(share)):
        size, term = rules.quantities[q]
        most = rules.most_traded[q]
        if size >= 0:  # what the least of the others leaves
            most *= (rules.caps[size] - sizes[size]) / rules.capped[size, term] + product[term]
        share[q] = 1 / most if most > 0 else 0.0
    more[:] = 0.0
    for i in range(len(rules.trades)):
        term, q = rules.trades[i]
        more[term] = max(more[term], product[len(more) + i] * share[q] - product[term])


@compiled()
def _within(boxes, rules, node):
    """Whether limits can be met, and the node is not the mirror image of others."""
    for k in range(len(rules.order)):
        first, second, shift = rules.order[k]
        if boxes.range[node[first], 0] - shift >= boxes.range[node[second], 1]:
            return False
    for k in range(len(rules.most)):
        value = 1
        for box in node:
            value *= boxes.limited[box, k]
        if value > rules.most[k] or not rules.good[k, min(value, rules.good.shape[1] - 1)]:
            return False
    return True


COUNTED, FIRST, PAST = 0, 1, 2
"""Marks of a query. COUNTED: all iterations of a loop; FIRST: only index 0; PAST: none, the loop stands too far in."""


@compiled()
def visited(bound, tiles, marks, begin, first):
    """Count the visited tiles of each chain, and add up their extents.

    `marks`: per slot, the mark of its loop; `first`: extents × (length, times) before the loops from slot `begin` on.
    """
    count, extent = np.zeros(len(tiles), np.int64), np.zeros(len(tiles), np.int64)
    lengths, times = np.empty(len(first) + len(marks), np.int64), np.empty(len(first) + len(marks), np.int64)
    for row in range(len(tiles)):
        size = len(first)
        lengths[:size], times[:size] = first[:, 0], first[:, 1]
        innermost = -1  # a loop that is past matters only if one below it is not
        for slot in range(begin, len(marks)):
            above = tiles[row, slot - 1] if slot else bound
            if marks[slot] != PAST and tiles[row, slot] < above:
                innermost = slot
        for slot in range(begin, innermost + 1):
            tile = tiles[row, slot]
            if tile >= (tiles[row, slot - 1] if slot else bound):
                continue
            if marks[slot] == COUNTED:
                whole = 0
                for i in range(size):
                    whole += lengths[i] // tile * times[i]
                    lengths[i] %= tile
                lengths[size], times[size] = tile, whole
                size += 1
            else:
                for i in range(size):
                    lengths[i] = min(lengths[i], tile)
        for i in range(size):
            count[row] += times[i] if lengths[i] > 0 else 0
            extent[row] += lengths[i] * times[i]
    return count, extent


@compiled()
def seldom_dominated(groups, criteria):
    """Rows, in this order, without those that a row of the same group dominates which has dominated others before.

    Rows of a group stand next to each other, the best first.
    """
    result = np.empty(len(groups), np.int64)
    total, size = 0, 0
    strong = np.empty(STRONG, np.int64)
    for row in range(len(groups)):
        if row and groups[row] != groups[row - 1]:
            size = 0
        dominated = False
        for f in range(min(size, STRONG)):
            other = strong[f]
            dominated = True
            for c in range(criteria.shape[1]):
                if criteria[other, c] > criteria[row, c]:
                    dominated = False
                    break
            if dominated:
                strong[f], strong[f // 2] = strong[f // 2], strong[f]
                break
        if not dominated:
            result[total] = row
            total += 1
            strong[size if size < STRONG else STRONG // 2 + size % (STRONG // 2)] = row
            size += 1
    return result[:total].copy()
