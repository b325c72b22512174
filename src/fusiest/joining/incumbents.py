"""Complete mappings that are known, and the test whether a partial mapping can still beat them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fusiest.objective import CLOSE, NO_WEIGHTS, Least, Objective, Weights
from fusiest.pmapping import Floats

Flags = np.ndarray
_SLACK = 1 - CLOSE


class KnownCosts(NamedTuple):
    """Of a complete mapping. `usage`: of the memory whose usage is an objective, too."""

    energy: float
    latency: float
    usage: float = 0.0


@dataclass(frozen=True)
class Incumbents:
    """What partial mappings have to beat."""

    objective: Objective
    points: tuple[KnownCosts, ...] = ()
    weights: Weights = NO_WEIGHTS
    """Of the weighted sum that the bounds in use know of."""
    watched: int | None = None
    """The memory whose usage is an objective, too."""

    def with_point(self, point: KnownCosts) -> Incumbents:
        """With one mapping more, unless a known one is as good in everything."""
        if any(_covers(other, point) for other in self.points):
            return self
        return replace(self, points=(*(other for other in self.points if not _covers(point, other)), point))

    def without_points(self) -> Incumbents:
        """As if nothing was known."""
        return replace(self, points=())

    def least_score(self, energy: Floats, latency: Floats, more: Least) -> Floats:
        """The least score of any completion."""
        return self.objective.least_score(energy, latency, more, self.weights)

    def possible(self, energy: float, latency: float, more: Least) -> bool:
        """`promising`, for one pair of costs."""
        if not np.isfinite(more.energy):
            return False
        return not self.points or bool(self.promising(np.array([energy]), np.array([latency]), more)[0])

    def promising(self, energy: Floats, latency: Floats, more: Least, usage: Floats | None = None) -> Flags:
        """Whether completions of these costs, which need at least so much more, could be better than every incumbent.

        If a memory is watched, all are as long as its usage is not given.
        """
        keep = np.ones(len(energy), np.bool_)
        if not self.points or (self.watched is not None and usage is None):
            return keep
        if self.objective.is_front:
            for point in self.points:
                better = energy + more.energy < point.energy * _SLACK
                better |= latency + more.latency < point.latency * _SLACK
                keep &= better if usage is None else better | (usage < point.usage * _SLACK)
            return keep
        score = self.least_score(energy, latency, more)
        if usage is None:
            better = score < self._best * _SLACK
            return np.asarray(better | self._breaks_tie(score, energy + more.energy, latency + more.latency))
        for known, point in zip(self._scores, self.points, strict=True):
            keep &= (score < known * _SLACK) | (usage < point.usage * _SLACK)
        return keep

    @cached_property
    def _scores(self) -> Floats:
        return self.objective.score(*np.array([point[:2] for point in self.points]).T)

    @cached_property
    def _best(self) -> float:
        return float(self._scores.min())

    @cached_property
    def _least_other(self) -> float:
        """Of the best incumbents, the least of the cost that decides between equal scores."""
        others = self.objective.tie_break(*np.array([point[:2] for point in self.points]).T)
        return float(others[self._scores <= self._best * (1 + CLOSE)].min())

    def _breaks_tie(self, score: Floats, energy: Floats, latency: Floats) -> Flags:
        """Whether completions could be as good as the best incumbents, and better than all of these in the other cost."""
        if not self.objective.follows_ties:
            return np.zeros(len(score), np.bool_)
        other = self.objective.tie_break(energy, latency)
        return np.asarray((score <= self._best * (1 + CLOSE)) & (other < self._least_other * _SLACK))


def _covers(a: KnownCosts, b: KnownCosts) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))
