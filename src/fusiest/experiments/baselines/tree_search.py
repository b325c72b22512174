"""TileFlow's tree search (MCTS) over tile sizes, for one structure: a form per Einsum.

Tiles are decided loop by loop, outermost first, Einsum by Einsum; then one of the rows that have these tiles. The reward of a
complete choice is -log10 of its score, relative to the least that any could have.
"""

# mypy: disallow-untyped-defs=False
# Numba finds the types of compiled code.

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fusiest.base.compiled import compiled
from fusiest.experiments.baselines.compiled_baselines import copy, kernel
from fusiest.experiments.baselines.genome import Genome, Space
from fusiest.experiments.baselines.kernels import Work, below
from fusiest.experiments.baselines.record import SearchRecord, goes_on, judge
from fusiest.pmapping import Floats, Ints

MOST_ITERATIONS, ROLLOUTS = 10_000, 100
WORST_REWARD = -6.0
"""Reward of a mapping that does not fit into memory."""


class Structure(NamedTuple):
    """The rows of one form per Einsum, as a tree: each step down decides a tile, first those of loops that are open already.

    What is below a node has numbers from `begin` to `end` - 1: nodes, or rows once all tiles are decided.
    """

    root: Ints
    begin: Ints
    end: Ints
    tile: Ints
    """Tile of the step from the parent."""
    rows: Ints
    source: Ints
    """Per Einsum and step: the place of an equal tile decided before, or -1 if it is decided here; -2: only rows are left."""
    place: Ints
    """Per Einsum and step: where its tile is written down."""
    places: int


class TileSearch(NamedTuple):
    """What a search of tiles counts and scores by."""

    space: Space
    work: Work
    record: SearchRecord
    scale: float
    """The least score there could be."""


class Tree(NamedTuple):
    """Nodes by number; node 0 is the root. A child stands for a value decided next."""

    child: Ints
    sibling: Ints
    value: Ints
    ways_left: Ints
    """How many of the ways on from here still lead to something new."""
    visits: Floats
    reward: Floats


def make_structure(genome: Genome, genes: Ints) -> Structure:
    """The structure that genes have."""
    space = genome.space
    rows, tries, source, place = [], [], [], []
    root, count, places = [0], 0, 0
    steps = space.tiles.shape[1] + 1
    open_places: list[int] = []
    for e, edge in enumerate(genome.edges(genes)):
        form_rows = np.arange(space.first[e], space.first[e + 1])
        form_rows = form_rows[space.form[form_rows] == edge.form]
        matched = {b: open_places[a] for a, b in edge.joint.matched}
        loops = len(genome.problem.groups[genome.levels[e].einsum][edge.form][0].loops)
        order = [*matched, *(c for c in range(loops) if c not in matched)]
        written = {c: matched.get(c, places + i) for i, c in enumerate(order)}
        places += len(order)
        form_rows = form_rows[np.lexsort([space.tiles[form_rows, c] for c in reversed(order)])] if order else form_rows
        tries.append(_trie(space.tiles[form_rows][:, order], root[-1], count))
        rows.append(form_rows)
        root.append(root[-1] + len(tries[-1][0]))
        count += len(form_rows)
        source.append([matched.get(c, -1) for c in order] + [-2] * (steps - loops))
        place.append([written[c] for c in order] + [-1] * (steps - loops))
        open_places = [written[c] for c in edge.joint.tiles]
    begin, end, tile = (np.concatenate(parts) for parts in zip(*tries, strict=True))
    return Structure(
        np.array(root), begin, end, tile, np.concatenate(rows), np.array(source, np.int64), np.array(place, np.int64), places
    )  # fmt: skip


def _trie(tiles: Ints, first_node: int, first_row: int) -> tuple[Ints, Ints, Ints]:
    """Sorted rows as a tree, level by level: where what is below each node begins and ends, and the tile that leads to it."""
    new = np.zeros(len(tiles), np.bool_)
    new[0] = True
    levels = [np.flatnonzero(new)]
    for column in tiles.T:
        new[1:] |= column[1:] != column[:-1]
        levels.append(np.flatnonzero(new))
    begin, end, tile, after = [], [], [np.zeros(1, np.int64)], first_node
    for firsts, lower in zip(levels, levels[1:], strict=False):
        after += len(firsts)
        begin.append(after + np.searchsorted(lower, firsts))
        end.append(np.append(begin[-1][1:], after + len(lower)))
    begin.append(first_row + levels[-1])
    end.append(np.append(begin[-1][1:], first_row + len(tiles)))
    tile += [tiles[firsts, step] for step, firsts in enumerate(levels[1:])]
    return np.concatenate(begin), np.concatenate(end), np.concatenate(tile)


@kernel
def _next_decision(t, position, decided, genes):
    """Go on to where there is something to decide: how many ways there are; 1 at the end, 0 in a dead end.

    `position`: Einsum, step, and node. Where there is one way only, it is taken.
    """
    while position[0] < len(genes):
        node, source = position[2], t.source[position[0], position[1]]
        if source >= 0:
            child = t.begin[node]
            while child < t.end[node] and t.tile[child] != decided[source]:
                child += 1
            if child == t.end[node]:
                return 0
            position[1], position[2] = position[1] + 1, child
        elif t.end[node] - t.begin[node] > 1:
            return t.end[node] - t.begin[node]
        else:
            _decide(t, position, decided, genes, 0)
    return 1


@kernel
def _decide(t, position, decided, genes, option):
    """Take one of the ways that `_next_decision` counted."""
    e, step = position[0], position[1]
    chosen = t.begin[position[2]] + option
    if t.source[e, step] == -2:
        genes[e] = t.rows[chosen]
        position[0], position[1], position[2] = e + 1, 0, t.root[e + 1]
    else:
        decided[t.place[e, step]] = t.tile[chosen]
        position[1], position[2] = step + 1, chosen


@kernel
def _finish(search, t, position, decided, genes, paid):
    """Decide the rest at random: reward and score."""
    s, w, r, scale = search
    count = _next_decision(t, position, decided, genes)
    while count > 1:
        _decide(t, position, decided, genes, below(w, count))
        count = _next_decision(t, position, decided, genes)
    score = judge(s, w, r, genes, paid, False) if count else np.inf
    if not score < np.inf:
        return WORST_REWARD, np.inf
    copy(paid, genes)
    return max(-math.log10(max(score / scale, 1e-300)), WORST_REWARD), score


@kernel
def _chosen_child(tree, node, count):
    """The child with the best bound that still leads to something new; -1 if not all options were tried."""
    tried = 0
    best, best_bound = -1, -np.inf
    child = tree.child[node]
    while child >= 0:
        tried += 1
        bound = tree.reward[child] / tree.visits[child] + math.sqrt(math.log(tree.visits[node]) / tree.visits[child])
        if tree.ways_left[child] and bound > best_bound:
            best, best_bound = child, bound
        child = tree.sibling[child]
    return best if tried == count else -1


@kernel
def _untried(w, tree, node, count):
    """A random option that has no child yet."""
    option = below(w, count)
    while True:
        child = tree.child[node]
        while child >= 0 and tree.value[child] != option:
            child = tree.sibling[child]
        if child < 0:
            return option
        option = (option + 1) % count


@kernel
def _add_child(w, tree, node, number, count):
    """A new child, with this number, for an option that was not tried yet."""
    tree.child[number], tree.sibling[number], tree.value[number] = -1, tree.child[node], _untried(w, tree, node, count)
    tree.visits[number] = tree.reward[number] = 0.0
    tree.child[node] = number


@kernel
def _close(tree, path, depth):
    """What ends here need not be visited again, nor what is above and leads nowhere else."""
    tree.ways_left[path[depth]] = 0
    while depth > 0:
        depth -= 1
        tree.ways_left[path[depth]] -= 1
        if tree.ways_left[path[depth]] > 0:
            break


@compiled()
def search_tiles(search, t, tree, genes, parent, limit):
    """The best tiles of a structure that the tree search finds: its score, and the choice in `genes`.

    Groups that `parent` has are paid for.
    """
    w, r, best_score = search.work, search.record, np.inf
    best, paid, candidate = genes.copy(), parent.copy(), genes.copy()
    decided = np.zeros(t.places + 1, np.int64)
    position, start = np.zeros(3, np.int64), np.zeros(3, np.int64)
    path = np.zeros(t.source.size + 2, np.int64)
    tree.child[0] = -1
    tree.visits[0] = tree.reward[0] = 0.0
    position[2] = t.root[0]
    tree.ways_left[0] = _next_decision(t, position, decided, candidate)
    nodes = 1
    for _ in range(MOST_ITERATIONS):
        if not (goes_on(r, limit) and tree.ways_left[0]):
            break
        position[0], position[1], position[2] = 0, 0, t.root[0]
        depth = 0
        count = _next_decision(t, position, decided, candidate)
        while count > 1:
            child = _chosen_child(tree, path[depth], count)
            if child < 0:
                child = nodes
                _add_child(w, tree, path[depth], child, count)
            _decide(t, position, decided, candidate, tree.value[child])
            depth += 1
            path[depth] = child
            count = _next_decision(t, position, decided, candidate)
            if child == nodes:
                nodes += 1
                tree.ways_left[child] = count
                break
        if count <= 1:
            _close(tree, path, depth)
        rollouts = ROLLOUTS if count > 1 else count
        start[:] = position
        total = 0.0
        for _ in range(rollouts):
            position[:] = start
            reward, score = _finish(search, t, position, decided, candidate, paid)
            total += reward
            if score < best_score:
                best_score = score
                best[:] = candidate
        for d in range(depth + 1):
            tree.visits[path[d]] += 1
            tree.reward[path[d]] += total / rollouts if rollouts else WORST_REWARD
    genes[:] = best
    return best_score


def make_tree() -> Tree:
    count = MOST_ITERATIONS + 2
    child, sibling, value, ways_left = np.zeros((4, count), np.int64)
    return Tree(child, sibling, value, ways_left, np.zeros(count), np.zeros(count))
