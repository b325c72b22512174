"""Lower bounds on the costs of combinations of some variables' chains, and the test whether they can beat the cutoff.

A criterion is a sum of products of one factor per variable. For variables still to be combined, every term takes the
least factor of any of their chains. The part that a first pass skips is a term M to be subtracted, never more than the
term P that it is skipped of, in any variable: P p - M m ≥ (P - M) p, as m ≤ p. So it takes the least factor of that
one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fusiest.base.objective import CLOSE, FRONT, Objective
from fusiest.pmapping.lattice.remaining import Cutoff
from fusiest.pmapping.pareto import Floats, Ints

_TIES = 10 * CLOSE
"""Scores that differ by less may tie: the tie-breaking cost is compared later."""


@dataclass
class Goal:
    """Costs that pmappings have to beat."""

    cutoff: Cutoff
    grows: bool
    """Whether pmappings that are found have to be beaten, too."""
    objective: Objective | None = None
    """The objective, where nothing else counts: only pmappings that score as little as the best known one are kept."""
    best: float = math.inf
    """The least known score."""

    def learn(self, energy: Floats, latency: Floats) -> None:
        """Add known pmappings of these costs."""
        if self.grows and len(energy):
            self.cutoff = self.cutoff.with_points(energy, latency)
            if self.objective is not None:
                self.best = min(self.best, float(self.objective.score(energy, latency).min()))

    def keeps(self, energy: Floats, latency: Floats) -> np.ndarray:
        """Which pmappings may matter, given their least costs: scores rise with both costs."""
        keep = self.cutoff.keeps(energy, latency)
        if self.objective is not None:
            keep &= self.objective.score(energy, latency) <= self.best * (1 + _TIES)
        return keep

    def score(self, energy: Floats, latency: Floats) -> Floats:
        """Scores by which pmappings are tried, the least first."""
        return (self.objective or FRONT).score(energy, latency)


@dataclass(frozen=True)
class CostBound:
    """Least costs of combinations in which some variables are chosen."""

    goal: Goal
    weights: Floats
    """Terms × criteria, energy first."""
    skipped: Mapping[int, Sequence[int]]
    """Per term that is subtracted, the terms that it is a part of."""
    finish: Callable[[Floats], tuple[Floats, Floats]]
    """Computes energy and latency of rows of criteria, with as little leakage as there can be."""

    def rest(self, least: Floats, greatest: Floats) -> Floats:
        """Terms × criteria: weights, times the least (or greatest) factors of variables that are still to be combined."""
        return self.again(self.weights, least, greatest)

    def again(self, rest: Floats, least: Floats, greatest: Floats) -> Floats:
        """The rest for one more variable."""
        subtracted = self._subtracted(least, greatest)
        return np.where(self.weights < 0, rest * subtracted[:, None], rest * least[:, None])

    def _subtracted(self, least: Floats, greatest: Floats) -> Floats:
        result = greatest.copy()
        for term, parts in self.skipped.items():
            result[term] = min(result[term], max(least[part] for part in parts))
        return result

    def least(self, products: Floats) -> Floats:
        """A row that costs no more than any of these, whatever follows.

        Of skipped terms, it has as much as leaves the least.
        """
        result: Floats = products.min(axis=0)
        for term, parts in self.skipped.items():
            left = (products[:, parts] - products[:, [term]]).min(axis=0)
            result[term] = (result[parts] - left).max()
        return result

    def costs(self, products: Floats, rest: Floats) -> tuple[Floats, Floats]:
        """The least energy and latency."""
        return self.finish(np.maximum(products @ rest, 0.0))

    def keeps(self, products: Floats, rest: Floats) -> Ints:
        """Rows that can still matter."""
        return np.flatnonzero(self.goal.keeps(*self.costs(products, rest)))

    def pairs(self, products: Floats, others: Floats, rest: Floats) -> np.ndarray:
        """Which rows can still matter with which chains of one more variable."""
        criteria = np.stack([(products * weights) @ others.T for weights in rest.T], axis=2)
        energy, latency = self.finish(np.maximum(criteria, 0.0).reshape(-1, rest.shape[1]))
        return self.goal.keeps(energy, latency).reshape(len(products), len(others))

    @cached_property
    def parts(self) -> tuple[Ints, Ints]:
        """Subtracted terms, each with the range of the entries in the second array that it is a part of."""
        counts = np.cumsum([0, *map(len, self.skipped.values())])
        terms = np.column_stack([np.array(list(self.skipped), np.int64), counts[:-1], counts[1:]])
        return terms, np.array([part for parts in self.skipped.values() for part in parts], np.int64)

    @cached_property
    def box_weights(self) -> Floats:
        """Weights per criterion: positive ones of all terms, then negative ones of the terms that are subtracted."""
        skipped = np.minimum(self.weights[np.array(list(self.skipped), np.int64)], 0.0)
        return np.concatenate([np.maximum(self.weights, 0.0), skipped])
