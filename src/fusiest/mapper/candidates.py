"""Complete mappings that a search knows, found by joining or given; and the choice of the best."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from fusiest.base.objective import CLOSE, Objective
from fusiest.joining import History, JoinProblem, KnownCosts, Pick, picks, trace
from fusiest.looptree import LoopTree
from fusiest.mapper.results.result import Mapping
from fusiest.pmapping import Floats, Ints


class Candidate(NamedTuple):
    """A complete mapping found by joining."""

    costs: KnownCosts
    problem: JoinProblem
    history: History
    """Origins of all partial mappings of its pass."""
    row: int
    """Its row in the last state."""

    def joins(self) -> list[Pick]:
        """The joins that led to it."""
        return picks(self.problem, self.history, self.row)

    def tree(self) -> LoopTree:
        """Its LoopTree."""
        return trace(self.problem, self.joins())

    def cuts(self) -> frozenset[frozenset[str]]:
        """Sets of finished Einsums after which no loop is open."""
        return frozenset(pick.finished for pick in self.joins() if not pick.before.zones)


class KnownMapping(NamedTuple):
    """A complete mapping that was known before the search, of a similar design."""

    costs: KnownCosts
    mapping: Mapping | None
    """The mapping; None if it does not fit here. A mapping that does fit is most likely not much worse."""
    einsums: tuple[frozenset[str], ...]
    """Its fused sets, in order."""

    def times(self, factor: float, objective: Objective) -> KnownMapping:
        """Raise its costs so that its score is multiplied by the factor."""
        return self._replace(costs=self.costs.times(factor, objective))

    def cuts(self) -> frozenset[frozenset[str]]:
        """Sets of finished Einsums after which no loop is open."""
        return frozenset(map(frozenset, itertools.accumulate(self.einsums, frozenset.union, initial=frozenset[str]())))


def best_rows(objective: Objective, energy: Floats, latency: Floats) -> Ints:
    """Rows with the best score, those with the least tie-breaking cost first."""
    score = objective.score(energy, latency)
    close = np.flatnonzero(score <= score.min(initial=np.inf) * (1 + CLOSE))
    best: Ints = close[np.lexsort((score[close], objective.tie_break(energy, latency)[close]))]
    return best


def least_by_usage(score: Floats, usage: Floats) -> Ints:
    """Mappings from the best down, each with less usage than all before it."""
    order = np.lexsort((usage, score))
    least = np.minimum.accumulate(usage[order])
    chosen: Ints = order[np.r_[True, least[1:] < least[:-1] * (1 - 1e-12)]]
    return chosen


def few_of(front: list[Candidate | KnownMapping], most: int) -> list[Candidate | KnownMapping]:
    """Thin a front to at most `most` points (but three): its ends, the least product of costs, and some in between."""
    if len(front) <= max(most, 3):
        return front
    ordered = sorted(front, key=lambda candidate: candidate.costs)
    least = min(range(len(ordered)), key=lambda i: ordered[i].costs.energy * ordered[i].costs.latency)
    between = np.linspace(0, len(ordered) - 1, max(most - 1, 2)).astype(np.int64)
    return [ordered[i] for i in sorted({least, *between.tolist()})]
