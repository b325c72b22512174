"""Combining the tile chains of all variables at once, where there is something to beat: branch and bound.

The chains of each variable are halved, again and again, into boxes of similar ones. A node is one box of every variable, and costs at
least what the least factors of its boxes come to. If that can beat what is known, and can fit, one of its boxes is halved. What is
skipped of a first pass is a term M to be subtracted that is part of another one, P, in every variable: Π p - Π m grows with every p
and every p - m, so both are taken at their least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fusiest.interrupt import check
from fusiest.pmapping.general_bounds import CostBound
from fusiest.pmapping.pareto import Floats, Ints

_BATCH = 2048
"""Nodes that are halved together."""
_ROUNDING = 1e-12


class BoxTree:
    """The chains of a variable in boxes: one for each of some groups, halved down to single chains where that is asked for."""

    def __init__(self, products: Floats, features: Floats, limited: Ints, lower: Callable[[Floats], Floats]) -> None:
        self.products, self.features, self.lower = products, features, lower
        self.own_limits = limited
        most = 2 * len(products)
        self.rows: list[Ints] = []
        self.spread: Floats = np.empty(most)
        """How much the chains of a box differ; less than 0 for single ones."""
        self.children: Ints = np.full((most, 2), -1)
        self.least: Floats = np.empty((most, len(lower(products[:1]))))
        self.limited: Ints = np.empty((most, limited.shape[1]), np.int64)

    def add(self, box: Ints) -> int:
        """A box of these chains; its number."""
        number = len(self.rows)
        self.rows.append(box)
        self.spread[number] = np.ptp(self.features[box], axis=0).max() if len(box) > 1 else -1.0
        self.least[number] = self.lower(self.products[box])
        self.limited[number] = self.own_limits[box].min(axis=0)
        return number

    def halves(self, boxes: Ints) -> Ints:
        """The two halves of each of these boxes."""
        for number in np.unique(boxes[self.children[boxes, 0] < 0]).tolist():
            box = self.rows[number]
            own = self.features[box]
            order = box[np.argsort(own[:, np.argmax(np.ptp(own, axis=0))], kind="stable")]
            self.children[number] = self.add(order[: len(order) // 2]), self.add(order[len(order) // 2 :])
        return self.children[boxes]


@dataclass
class Branching:
    """A search over boxes of all variables."""

    trees: Sequence[BoxTree]
    bound: CostBound
    capped: Floats
    caps: Floats
    within: Callable[[Ints], np.ndarray]
    """Whether limits can be met, by products over all variables."""
    found: Callable[[Sequence[Ints]], bool]
    """Told of combinations of single chains, per variable; whether to go on."""

    def run(self, nodes: Ints, most: float = math.inf) -> None:
        """Search below these nodes, which are boxes of all variables; no more than so many batches."""
        stack = [self._promising(nodes)]
        while stack and most > 0:
            check()
            most -= 1
            top = stack.pop()
            if len(top) > _BATCH:
                stack.append(top[:-_BATCH])
                top = top[-_BATCH:]
            spread = np.column_stack([tree.spread[top[:, v]] for v, tree in enumerate(self.trees)])
            widest = spread.argmax(axis=1)
            single = spread.max(axis=1) < 0
            if single.any():
                top, widest, done = top[~single], widest[~single], top[single]
                done = self._hopeful(done)[0]
                if len(done) and not self.found([
                    np.array([tree.rows[i][0] for i in done[:, v]], np.int64) for v, tree in enumerate(self.trees)
                ]):  # fmt: skip
                    return
            if len(top):
                stack.append(self._promising(self._halved(top, widest)))

    def _halved(self, nodes: Ints, variable: Ints) -> Ints:
        result = np.repeat(nodes, 2, axis=0)
        for v, tree in enumerate(self.trees):
            rows = np.flatnonzero(variable == v)
            halves = tree.halves(nodes[rows, v])
            result[2 * rows, v], result[2 * rows + 1, v] = halves.T
        return result

    def _promising(self, nodes: Ints) -> Ints:
        """Nodes that can fit and matter, the most promising last."""
        nodes, scores = self._hopeful(nodes)
        return nodes[np.argsort(-scores, kind="stable")]

    def _hopeful(self, nodes: Ints) -> tuple[Ints, Floats]:
        nodes = nodes[self.within(limits_of(self.trees, nodes))]
        products = self.trees[0].least[nodes[:, 0]]
        for v, tree in enumerate(self.trees[1:], 1):
            products = products * tree.least[nodes[:, v]]
        fits = np.flatnonzero(
            (products[:, : len(self.capped)] @ self.capped <= self.caps * (1 + _ROUNDING)).all(axis=1)
        )
        nodes = nodes[fits]
        energy, latency = self.bound.of_boxes(products[fits])
        keep = self.bound.goal.cutoff.keeps(energy, latency)
        return nodes[keep], (energy * latency)[keep]


def limits_of(trees: Sequence[BoxTree], nodes: Ints) -> Ints:
    """Products of the limited numbers of boxes, of as many variables as nodes have."""
    result: Ints = np.ones((len(nodes), trees[0].limited.shape[1]), np.int64)
    for tree, boxes in zip(trees, nodes.T, strict=False):
        result = result * tree.limited[boxes]
    return result


def root_nodes(trees: Sequence[BoxTree], possible: Callable[[Ints, int], np.ndarray]) -> Ints:
    """Every combination of one box per variable, less those whose limits cannot be met, variable by variable."""
    nodes = np.zeros((1, 0), np.int64)
    for v, tree in enumerate(trees, 1):
        count = len(tree.rows)
        nodes = np.column_stack([np.repeat(nodes, count, axis=0), np.tile(np.arange(count), len(nodes))])
        nodes = nodes[possible(limits_of(trees, nodes), v)]
    return nodes
