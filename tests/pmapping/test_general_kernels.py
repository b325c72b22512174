"""Boxes of chains, what nodes of them cost at least, and chains that others dominate."""

from __future__ import annotations

import math

import numpy as np

from fusiest.pmapping.chains.branch.bounds import CostBound, Goal
from fusiest.pmapping.chains.branch.branch_and_bound import BoxForest, TreeChains, node_rules
from fusiest.pmapping.chains.branch.kernels import node_costs, seldom_dominated
from fusiest.pmapping.chains.branch.trades import Trades, quantities
from fusiest.pmapping.chains.tied_variables import Limit
from fusiest.pmapping.lattice.remaining import Cutoff
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
    """Two variables; the last term is a part of the first, and subtracted. The second has to fit beside three more of the first."""
    rng = np.random.default_rng(2)

    def chains(count: int) -> TreeChains:
        products = rng.integers(1, 9, (count, 3)).astype(np.float64)
        products[:, 2] = np.minimum(products[:, 2], products[:, 0])
        limited = rng.integers(1, 4, (count, 1))
        traded = trades.with_products(products, limited)
        return TreeChains(traded, np.log(products), limited, [np.arange(count)])

    def plain(criteria: Floats) -> tuple[Floats, Floats]:
        return criteria[:, 0], criteria[:, 0]

    capped, caps = np.array([[3.0], [1.0], [0.0]]), np.array([90.0])
    factors = {"p": np.ones(1, np.int64)}
    options = quantities(capped, caps, [Limit(factors, 6, False, "units")])
    trades = Trades(options, [(term, q) for term in range(2) for q in range(len(options))])
    trees = [chains(9), chains(12)]
    bound = CostBound(Goal(Cutoff(np.empty((0, 2))), grows=False), np.array([[2.0], [1.0], [-1.5]]), {2: [0]}, plain)
    forest = BoxForest(trees, bound)
    rules = node_rules(capped, caps, [Limit(factors, 6, False, "units")], bound, trades)
    without = node_rules(capped, caps, [Limit(factors, 6, False, "units")], bound, trades._replace(pairs=[]))
    more = 0
    nodes, seen = forest.root_nodes(lambda limited, _: np.ones(len(limited), np.bool_)), set()
    while len(nodes):
        kept, criteria = node_costs(forest.boxes, rules, nodes)
        least_size = forest.boxes.least[nodes][:, :, :3].prod(axis=1) @ capped[:, 0]
        assert all(
            ((forest.limited(nodes)[i] <= 6).all() and least_size[i] <= 90) == (i in kept) for i in range(len(nodes))
        )
        more += (criteria > node_costs(forest.boxes, without, nodes)[1] + 1e-9).sum()
        for node, least in zip(nodes[kept], criteria[:, 0], strict=True):
            rows = [forest.boxes.rows[slice(*forest.boxes.range[box])] for box in node]
            products = forest.chains.products[rows[0]][:, None] * forest.chains.products[rows[1]]
            exact = products[:, :, :3] @ bound.weights[:, 0]
            used = forest.chains.limited[rows[0]] * forest.chains.limited[rows[1]][:, 0]
            fits = (products[:, :, :3] @ capped[:, 0] <= 90) & (used <= 6)
            assert least <= exact[fits].min(initial=math.inf) + 1e-9
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
    size = (trees[0].products[:, None] * trees[1].products)[:, :, :3] @ capped[:, 0]
    assert seen == set(zip(*(column.tolist() for column in np.nonzero((limited <= 6) & (size <= 90))), strict=True))
    assert more > 0
