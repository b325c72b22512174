"""Combination of the tile chains of all variables at once, where there is a cutoff: branch and bound.

The chains of each variable are halved, again and again, into boxes of similar ones. A node is one box of every
variable, and costs at least the value of the least factors of its boxes. If that can beat the cutoff, and can fit, one
of its boxes is halved. The skipped part of a first pass is a term M to be subtracted that is part of another one, P, in
every variable: Π p - Π m grows with every p and every p - m, so both are taken at their least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fusiest.base.interrupt import check
from fusiest.pmapping.chains.branch.bounds import CostBound
from fusiest.pmapping.chains.branch.kernels import BoxArrays, ChainArrays, NodeRules, add_box, halve, node_costs
from fusiest.pmapping.chains.branch.trades import Trades, raised_weights
from fusiest.pmapping.chains.tied_variables import Limit
from fusiest.pmapping.pareto import Floats, Ints

_BATCH = 2048
"""Nodes that are halved together."""
_ROUNDING = 1e-12


class TreeChains(NamedTuple):
    """Chains of one variable."""

    products: Floats
    features: Floats
    limited: Ints
    boxes: Sequence[Ints]
    """The boxes to begin with: chains by number."""


class BoxForest:
    """The chains of all variables in boxes, halved on demand down to single chains."""

    def __init__(self, trees: Sequence[TreeChains], bound: CostBound, mirrors: tuple[int, int] | None = None) -> None:
        starts = np.cumsum([0, *(len(tree.products) for tree in trees)])
        self._start = starts[:-1]
        """Per variable, how many chains other variables before it have."""
        features = [tree.features for tree in trees]
        self.order: Ints = np.empty((0, 3), np.int64)
        """As `NodeRules.order`. Chains of variables that mirror each other are halved alike."""
        if mirrors is not None:
            a, b = mirrors
            features[b] = features[a]
            self.order = np.array([[a, b, self._start[a] - self._start[b]]], np.int64)
        terms, parts = bound.parts
        self.chains = ChainArrays(
            np.concatenate([tree.products for tree in trees]), np.concatenate(features),
            np.concatenate([tree.limited for tree in trees]), terms, parts,
        )  # fmt: skip
        total, most = int(starts[-1]), 2 * int(starts[-1])
        rows = [start + box for start, tree in zip(self._start, trees, strict=True) for box in tree.boxes]
        self.boxes = BoxArrays(
            np.zeros(1, np.int64), np.concatenate(rows), np.empty((most, 2), np.int64), np.full((most, 2), -1), np.empty(most),
            np.empty((most, self.chains.products.shape[1] + len(terms))), np.empty((most, self.chains.limited.shape[1]), np.int64),
        )  # fmt: skip
        assert len(self.boxes.rows) == total
        ends = np.cumsum([len(row) for row in rows])
        numbers = [
            add_box(self.chains, self.boxes, end - len(row), end) for row, end in zip(rows, ends.tolist(), strict=True)
        ]
        counts = np.cumsum([len(tree.boxes) for tree in trees])
        self.roots = np.split(np.array(numbers, np.int64), counts[:-1])
        """Per variable, the boxes to begin with."""

    def halves(self, boxes: Ints) -> Ints:
        """The two halves of each of these boxes."""
        result: Ints = halve(self.chains, self.boxes, boxes)
        return result

    def single(self, nodes: Ints) -> list[Ints]:
        """Per variable, the chains of nodes of single chains."""
        chains = self.boxes.rows[self.boxes.range[nodes, 0]]
        return list((chains - self._start).T)

    def limited(self, nodes: Ints) -> Ints:
        """Products of the limited factors of boxes, for as many variables as nodes have."""
        result: Ints = self.boxes.limited[nodes].prod(axis=1)
        return result

    def root_nodes(self, possible: Callable[[Ints, int], np.ndarray]) -> Ints:
        """Every combination of one box per variable, without those whose limits cannot be met, variable by variable."""
        nodes = np.zeros((1, 0), np.int64)
        for v, boxes in enumerate(self.roots, 1):
            nodes = np.column_stack([np.repeat(nodes, len(boxes), axis=0), np.tile(boxes, len(nodes))])
            nodes = nodes[possible(self.limited(nodes), v)]
        return nodes


@dataclass
class Branching:
    """A search over boxes of all variables."""

    forest: BoxForest
    bound: CostBound
    rules: NodeRules
    found: Callable[[Sequence[Ints]], bool]
    """Called with combinations of single chains, per variable; returns whether to go on."""

    def run(self, nodes: Ints, most: float = math.inf) -> bool:
        """Search below these nodes, which are boxes of all variables, for at most `most` batches.

        Returns whether that was all.
        """
        stack = [self._promising(nodes)]
        while stack and most > 0:
            check()
            most -= 1
            top = stack.pop()
            if len(top) > _BATCH:
                stack.append(top[:-_BATCH])
                top = top[-_BATCH:]
            spread = self.forest.boxes.spread[top]
            widest = spread.argmax(axis=1)
            single = spread.max(axis=1) < 0
            if single.any():
                top, widest, chains = top[~single], widest[~single], top[single]
                chains = self._hopeful(chains)[0]
                if len(chains) and not self.found(self.forest.single(chains)):
                    return False
            if len(top):
                stack.append(self._promising(self._halved(top, widest)))
        return not stack

    def _halved(self, nodes: Ints, variable: Ints) -> Ints:
        result = np.repeat(nodes, 2, axis=0)
        rows = np.arange(len(nodes))
        halves = self.forest.halves(nodes[rows, variable])
        result[2 * rows, variable], result[2 * rows + 1, variable] = halves.T
        return result

    def _promising(self, nodes: Ints) -> Ints:
        """Nodes that can fit and matter, the most promising last."""
        nodes, scores = self._hopeful(nodes)
        return nodes[np.argsort(-scores, kind="stable")]

    def _hopeful(self, nodes: Ints) -> tuple[Ints, Floats]:
        kept, criteria = node_costs(self.forest.boxes, self.rules, nodes)
        energy, latency = self.bound.finish(criteria)
        keep = self.bound.goal.keeps(energy, latency)
        return nodes[kept[keep]], self.bound.goal.score(energy[keep], latency[keep])


def node_rules(capped: Floats, caps: Floats, limits: Sequence[Limit], bound: CostBound, trades: Trades) -> NodeRules:
    """Make the rules of nodes; `capped`: terms × sizes."""
    tables = [limit.whole for limit in limits]
    good = np.ones((len(tables), max(map(len, tables), default=1)), np.bool_)
    for i, table in enumerate(tables):
        good[i] = table[-1]
        good[i, : len(table)] = table
    return NodeRules(
        np.ascontiguousarray(capped.T), caps * (1 + _ROUNDING), np.ascontiguousarray(bound.box_weights.T),
        np.array([limit.most for limit in limits], np.float64), good, trades.quantities, trades.most, trades.columns,
        np.ascontiguousarray(raised_weights(bound).T), np.empty((0, 3), np.int64),
    )  # fmt: skip
