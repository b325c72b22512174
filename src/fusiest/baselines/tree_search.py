"""TileFlow's tree search (MCTS) over tile sizes, for one structure: a form per Einsum.

Tiles are decided loop by loop, outermost first, Einsum by Einsum; then one of the rows that have these tiles. The reward of a
complete choice is -log10 of its score, relative to the least that any could have.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fusiest.baselines.compiled import copy, inlined, kernel
from fusiest.baselines.kernels import below
from fusiest.baselines.record import SPENT, goes_on, judge
from fusiest.baselines.space import Genome
from fusiest.compiled import compiled
from fusiest.pmapping.pareto import Floats, Ints

MOST_ITERATIONS, ROLLOUTS = 10_000, 100
WORST_REWARD = -6.0
"""Of what does not fit into memory."""


class Structure(NamedTuple):
    """The rows of one form per Einsum, sorted by tiles: first those of loops that are open already."""

    first: Ints
    rows: Ints
    tiles: Ints
    source: Ints
    """Per Einsum and column: the place of an equal tile decided before, or -1 if it is decided here; -2: no column."""
    place: Ints
    """Per Einsum and column: where its tile is written down."""
    places: int


class Tree(NamedTuple):
    """Nodes by number; node 0 is the root. A child stands for a value decided next."""

    child: Ints
    sibling: Ints
    value: Ints
    visits: Floats
    reward: Floats


def make_structure(genome: Genome, genes: Ints) -> Structure:
    """The structure that genes have."""
    space = genome.space
    first, rows, tiles, source, place = [0], [], [], [], []
    columns, places = space.tiles.shape[1], 0
    open_places: list[int] = []
    for e, edge in enumerate(genome.edges(genes)):
        own = np.arange(space.first[e], space.first[e + 1])
        own = own[space.form[own] == edge.form]
        matched = {b: open_places[a] for a, b in edge.joint.matched}
        loops = len(genome.joiner.right[genome.levels[e].einsum][edge.form][0].loops)
        order = [*matched, *(c for c in range(loops) if c not in matched)]
        written = {c: matched.get(c, places + i) for i, c in enumerate(order)}
        places += len(order)
        own = own[np.lexsort([space.tiles[own, c] for c in reversed(order)])] if order else own
        rows.append(own)
        tiles.append(np.pad(space.tiles[own][:, order], ((0, 0), (0, columns - loops))))
        first.append(first[-1] + len(own))
        source.append([matched.get(c, -1) for c in order] + [-2] * (columns - loops))
        place.append([written[c] for c in order] + [-1] * (columns - loops))
        open_places = [written[c] for c in edge.joint.tiles]
    shape = len(genes), columns
    return Structure(
        np.array(first), np.concatenate(rows), np.concatenate(tiles),
        np.array(source, np.int64).reshape(shape), np.array(place, np.int64).reshape(shape), places,
    )  # fmt: skip


@inlined
def _end(tiles, column, lo, hi):  # type: ignore[no-untyped-def]
    """Where the value that stands at `lo` in a sorted column ends."""
    value = tiles[lo, column]
    while lo < hi:
        middle = (lo + hi) // 2
        if tiles[middle, column] <= value:
            lo = middle + 1
        else:
            hi = middle
    return lo


@inlined
def _options(t, column, lo, hi, ends):  # type: ignore[no-untyped-def]
    """How many values rows lo … hi - 1 have in a column; `ends`: where each of them ends."""
    count = 0
    while lo < hi:
        lo = _end(t.tiles, column, lo, hi)
        ends[count] = lo
        count += 1
    return count


@inlined
def _narrow(t, e, column, lo, hi, decided):  # type: ignore[no-untyped-def]
    """The rows that agree with a tile decided before."""
    wanted = decided[t.source[e, column]]
    while lo < hi:
        end = _end(t.tiles, column, lo, hi)
        if t.tiles[lo, column] == wanted:
            return lo, end
        lo = end
    return lo, lo


@kernel
def _next_decision(t, at, decided, genes, ends):  # type: ignore[no-untyped-def]
    """Go on to where there is something to decide: how many values there are; 1 at the end, 0 in a dead end.

    `at`: Einsum, column, and the range of rows that are left. Where there is one value only, it is taken.
    """
    columns = t.tiles.shape[1]
    while at[0] < len(genes):
        e, column = at[0], at[1]
        if column < columns and t.source[e, column] == -2:
            at[1] = columns
        elif column < columns and t.source[e, column] >= 0:
            at[2], at[3] = _narrow(t, e, column, at[2], at[3], decided)
            at[1] += 1
        else:
            count = at[3] - at[2] if column == columns else _options(t, column, at[2], at[3], ends)
            if count > 1:
                return count
            if count == 0:
                return 0
            _decide(t, at, decided, genes, ends, 0)
        if at[2] >= at[3] and at[0] < len(genes):
            return 0
    return 1


@kernel
def _decide(t, at, decided, genes, ends, option):  # type: ignore[no-untyped-def]
    """Take one of the values that `_next_decision` found."""
    e, column = at[0], at[1]
    if column == t.tiles.shape[1]:
        genes[e] = t.rows[at[2] + option]
        at[0], at[1] = e + 1, 0
        if e + 1 < len(genes):
            at[2], at[3] = t.first[e + 1], t.first[e + 2]
        return
    if option > 0:
        at[2] = ends[option - 1]
    at[3] = ends[option]
    decided[t.place[e, column]] = t.tiles[at[2], column]
    at[1] += 1


@kernel
def _finish(s, w, r, t, at, decided, genes, ends, known, scale):  # type: ignore[no-untyped-def]
    """Decide the rest at random: reward and score."""
    while at[0] < len(genes):
        count = _next_decision(t, at, decided, genes, ends)
        if count == 0:
            r.amounts[SPENT] += 1.0
            return WORST_REWARD, np.inf
        if at[0] < len(genes):
            _decide(t, at, decided, genes, ends, below(w, count))
    score = judge(s, w, r, genes, known, False)
    if not score < np.inf:
        return WORST_REWARD, np.inf
    copy(known, genes)
    return max(-math.log10(max(score / scale, 1e-300)), WORST_REWARD), score


@kernel
def _chosen_child(w, tree, node, count):  # type: ignore[no-untyped-def]
    """The child with the best bound, or -1 if not all options were tried."""
    tried = 0
    best, best_bound = -1, -np.inf
    child = tree.child[node]
    while child >= 0:
        tried += 1
        bound = tree.reward[child] / tree.visits[child] + math.sqrt(math.log(tree.visits[node]) / tree.visits[child])
        if bound > best_bound:
            best, best_bound = child, bound
        child = tree.sibling[child]
    return best if tried == count else -1


@kernel
def _untried(w, tree, node, count):  # type: ignore[no-untyped-def]
    """A random option that has no child yet."""
    option = below(w, count)
    while True:
        child = tree.child[node]
        while child >= 0 and tree.value[child] != option:
            child = tree.sibling[child]
        if child < 0:
            return option
        option = (option + 1) % count


@compiled()
def search_tiles(s, w, r, t, tree, genes, scale, limit):  # type: ignore[no-untyped-def]
    """The best tiles of a structure that the tree search finds: its score, and the choice in `genes`."""
    tree.child[0] = -1
    tree.visits[0] = tree.reward[0] = 0.0
    nodes = 1
    best_score = np.inf
    best, known, candidate = genes.copy(), genes.copy(), genes.copy()
    decided = np.zeros(t.places + 1, np.int64)
    ends = np.zeros(len(t.rows) + 1, np.int64)
    at, start = np.zeros(4, np.int64), np.zeros(4, np.int64)
    path = np.zeros(len(genes) * (t.tiles.shape[1] + 1) + 2, np.int64)
    for _ in range(MOST_ITERATIONS):
        if not goes_on(r, limit):
            break
        at[0], at[1], at[2], at[3] = 0, 0, t.first[0], t.first[1]
        depth = 0
        path[0] = 0
        while True:
            count = _next_decision(t, at, decided, candidate, ends)
            if count == 0 or at[0] == len(genes):
                break
            child = _chosen_child(w, tree, path[depth], count)
            if child >= 0:
                _decide(t, at, decided, candidate, ends, tree.value[child])
                depth += 1
                path[depth] = child
                continue
            option = _untried(w, tree, path[depth], count)
            _decide(t, at, decided, candidate, ends, option)
            tree.child[nodes], tree.sibling[nodes], tree.value[nodes] = -1, tree.child[path[depth]], option
            tree.visits[nodes] = tree.reward[nodes] = 0.0
            tree.child[path[depth]] = nodes
            depth += 1
            path[depth] = nodes
            nodes += 1
            break
        rollouts = 1 if at[0] == len(genes) else ROLLOUTS
        start[:] = at
        total = 0.0
        for _ in range(rollouts):
            at[:] = start
            reward, score = _finish(s, w, r, t, at, decided, candidate, ends, known, scale)
            total += reward
            if score < best_score:
                best_score = score
                best[:] = candidate
        for d in range(depth + 1):
            tree.visits[path[d]] += 1
            tree.reward[path[d]] += total / rollouts
    genes[:] = best
    return best_score


def make_tree() -> Tree:
    count = MOST_ITERATIONS + 2
    child, sibling, value = np.zeros((3, count), np.int64)
    return Tree(child, sibling, value, np.zeros(count), np.zeros(count))
