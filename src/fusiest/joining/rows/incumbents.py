"""Complete mappings that are known, and the test whether a partial mapping can still beat them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fusiest.base.objective import CLOSE, EDP, ENERGY, FRONT, LATENCY, NO_WEIGHTS, Least, Objective, Weights
from fusiest.joining.rows.kernels import (
    ENERGY_KNOWN,
    FRONT_KNOWN,
    LATENCY_KNOWN,
    NOTHING_KNOWN,
    PRODUCT_KNOWN,
    IncumbentArrays,
    promising_groups,
    promising_rows,
)
from fusiest.pmapping import Floats

Flags = npt.NDArray[np.bool_]
_KINDS = {ENERGY: ENERGY_KNOWN, LATENCY: LATENCY_KNOWN, EDP: PRODUCT_KNOWN, FRONT: FRONT_KNOWN}


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

    def least_score(self, energy: Floats, latency: Floats, more: Least) -> Floats:
        """The least score of any completion."""
        return self.objective.least_score(energy, latency, more, self.weights)

    def promising(self, energy: Floats, latency: Floats, more: Least, usage: Floats | None = None) -> Flags:
        """Whether completions of these costs, which need at least so much more, could be better than every incumbent.

        If a memory is watched, all are as long as its usage is not given.
        """
        if not self.points or (self.watched is not None and usage is None):
            return np.ones(len(energy), np.bool_)
        used = np.full(len(energy), -1.0) if usage is None else usage
        return np.asarray(promising_rows(self.arrays, energy, latency, np.array(more), used))

    def promising_groups(self, energy: Floats, latency: Floats, least: Floats) -> Flags:
        """Of groups of pmappings: whether one of these costs is promising, if the group and all after it need at least so much."""
        if not self.points:
            return np.isfinite(least[:, 0])
        return np.asarray(promising_groups(self.arrays, energy, latency, least))

    @cached_property
    def arrays(self) -> IncumbentArrays:
        """The same for compiled loops."""
        watched = -1 if self.watched is None else self.watched
        if not self.points:
            return IncumbentArrays(NOTHING_KNOWN, np.empty((0, 4)), np.zeros(2), 0.0, -1.0, watched)
        points = np.column_stack([np.array(self.points), self._scores])
        tie_break = self._least_tie_break if self.objective.follows_ties else -1.0
        return IncumbentArrays(_KINDS[self.objective], points, np.array(self.weights), self._best, tie_break, watched)

    @cached_property
    def _scores(self) -> Floats:
        return self.objective.score(*np.array([point[:2] for point in self.points]).T)

    @cached_property
    def _best(self) -> float:
        return float(self._scores.min())

    @cached_property
    def _least_tie_break(self) -> float:
        """Of the best incumbents, the least of the cost that decides between equal scores."""
        tie_breaks = self.objective.tie_break(*np.array([point[:2] for point in self.points]).T)
        return float(tie_breaks[self._scores <= self._best * (1 + CLOSE)].min())


def _covers(a: KnownCosts, b: KnownCosts) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))
