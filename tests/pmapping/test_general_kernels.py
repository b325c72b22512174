"""Boxes of chains, what nodes of them cost at least, and chains that others dominate."""

from __future__ import annotations

import math

import numpy as np

from fusiest.pmapping.general_bounds import CostBound, Goal
from fusiest.pmapping.general_branch import BoxForest, TreeChains
from fusiest.pmapping.general_kernels import NodeRules, node_costs, seldom_dominated
from fusiest.pmapping.outlook import Cutoff
from fusiest.pmapping.pareto import Floats


def test_only_dominated_rows_go() -> None:
    rng = np.random.default_rng(1)
    groups, criteria = np.repeat([0, 1], 150), rng.integers(0, 5, (300, 3)).astype(np.float64)
    order = np.lexsort((criteria.sum(axis=1), groups))
    groups, criteria = groups[order], criteria[order]
    kept = seldom_dominated(groups, criteria)
    for row in set(range(300)) - set(kept.tolist()):
        others = kept[groups[kept] == groups[row]]
        assert (criteria[others] <= criteria[row]).all(axis=1).any()
    assert 0 < len(kept) < 100


def test_no_node_costs_more_than_what_is_in_it() -> None:
    """Two variables; the last term is a part of the first, and subtracted."""
    rng = np.random.default_rng(2)

    def chains(count: int) -> TreeChains:
        products = rng.integers(1, 9, (count, 3)).astype(np.float64)
        products[:, 2] = np.minimum(products[:, 2], products[:, 0])
        return TreeChains(products, np.log(products), rng.integers(1, 4, (count, 1)), [np.arange(count)])

    def plain(criteria: Floats) -> tuple[Floats, Floats]:
        return criteria[:, 0], criteria[:, 0]

    trees = [chains(9), chains(12)]
    bound = CostBound(Goal(Cutoff(np.empty((0, 2))), grows=False), np.array([[2.0], [1.0], [-1.5]]), {2: [0]}, plain)
    forest = BoxForest(trees, bound)
    rules = NodeRules(
        np.zeros((1, 4)), np.ones(1), np.ascontiguousarray(bound.box_weights.T), np.array([6.0]), np.ones((1, 1), np.bool_), forest.order,
    )  # fmt: skip
    nodes, seen = forest.root_nodes(lambda limited, _: np.ones(len(limited), np.bool_)), set()
    while len(nodes):
        kept, criteria = node_costs(forest.boxes, rules, nodes)
        assert all((forest.limited(nodes)[i] <= 6).all() == (i in kept) for i in range(len(nodes)))
        for node, least in zip(nodes[kept], criteria[:, 0], strict=True):
            rows = [forest.boxes.rows[slice(*forest.boxes.range[box])] for box in node]
            products = forest.chains.products[rows[0]][:, None] * forest.chains.products[rows[1]]
            exact = products @ bound.weights[:, 0]
            assert least <= exact.min() + 1e-9
            if math.prod(map(len, rows)) == 1:
                assert math.isclose(least, exact[0, 0])
                seen.add(tuple(int(chain[0]) for chain in forest.single(node[None])))
        nodes = nodes[kept]
        wide = forest.boxes.spread[nodes]
        nodes = nodes[wide.max(axis=1) >= 0]
        v = forest.boxes.spread[nodes].argmax(axis=1)
        halves = forest.halves(nodes[np.arange(len(nodes)), v])
        nodes = np.repeat(nodes, 2, axis=0)
        nodes[np.arange(len(nodes)), np.repeat(v, 2)] = halves.ravel()
    limited = trees[0].limited * trees[1].limited[:, 0]
    assert seen == set(zip(*(column.tolist() for column in np.nonzero(limited <= 6)), strict=True))
