"""Costs of known mappings (incumbents), and the test whether a partial mapping can still beat them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fusiest.base.objective import CLOSE, NO_WEIGHTS, Least, Objective, Weights
from fusiest.joining.rows.kernels import (
    FRONT_KNOWN,
    NOTHING_KNOWN,
    SCORE_KNOWN,
    IncumbentArrays,
    promising_groups,
    promising_rows,
)
from fusiest.pmapping import Floats

Flags = npt.NDArray[np.bool_]


class KnownCosts(NamedTuple):
    """Costs of a complete mapping."""

    energy: float
    latency: float
    usage: float = 0.0
    """Peak usage in bits of the watched memory, if its usage is an objective."""

    def times(self, factor: float, objective: Objective) -> KnownCosts:
        """Costs whose score is multiplied by the factor, both alike."""
        scale = objective.scale(factor)
        return self._replace(energy=self.energy * scale, latency=self.latency * scale)


@dataclass(frozen=True)
class Incumbents:
    """Known mappings that a partial mapping has to beat."""

    objective: Objective
    points: tuple[KnownCosts, ...] = ()
    """Costs of the known mappings."""
    weights: Weights = NO_WEIGHTS
    """Weights of energy and latency in the weighted sum that the bounds include."""
    watched: int | None = None
    """Number of the memory whose usage is an objective, too."""

    def with_point(self, point: KnownCosts) -> Incumbents:
        """Add a known mapping, unless another one is no worse in everything."""
        if any(_covers(other, point) for other in self.points):
            return self
        return replace(self, points=(*(other for other in self.points if not _covers(point, other)), point))

    def least_score(self, energy: Floats, latency: Floats, more: Least) -> Floats:
        """The least score of any completion."""
        return self.objective.least_score(energy, latency, more, self.weights)

    def promising(self, energy: Floats, latency: Floats, more: Least, usage: Floats | None = None) -> Flags:
        """Whether completions of these costs, which need at least `more`, could beat every incumbent (proof 9).

        If a memory is watched and its usage is not given, all could.
        """
        if not self.points or (self.watched is not None and usage is None):
            return np.ones(len(energy), np.bool_)
        used = np.full(len(energy), -1.0) if usage is None else usage
        return np.asarray(promising_rows(self.arrays, energy, latency, np.array(more), used))

    def promising_groups(self, energy: Floats, latency: Floats, least: Floats) -> Flags:
        """Whether each group of pmappings could lead to a better mapping from some of these costs.

        `least`: the least cost of each group and all Einsums after it.
        """
        if not self.points:
            return np.isfinite(least[:, 0])
        return np.asarray(promising_groups(self.arrays, energy, latency, least))

    @cached_property
    def arrays(self) -> IncumbentArrays:
        """The incumbents as arrays for compiled loops."""
        watched = -1 if self.watched is None else self.watched
        if not self.points:
            return IncumbentArrays(
                NOTHING_KNOWN, np.zeros(2, np.int64), np.empty((0, 4)), np.zeros(2), 0.0, -1.0, watched
            )
        points = np.column_stack([np.array(self.points), self._scores])
        tie_break = self._least_tie_break if self.objective.follows_ties else -1.0
        kind, powers = FRONT_KNOWN if self.objective.is_front else SCORE_KNOWN, np.array(self.objective.powers)
        weights = np.array(self.weights if self.objective.is_product else NO_WEIGHTS)
        return IncumbentArrays(kind, powers, points, weights, self._best, tie_break, watched)

    @cached_property
    def _scores(self) -> Floats:
        return self.objective.score(*np.array([point[:2] for point in self.points]).T)

    @cached_property
    def _best(self) -> float:
        return float(self._scores.min())

    @cached_property
    def _least_tie_break(self) -> float:
        """The least tie-breaking cost among the best incumbents."""
        tie_breaks = self.objective.tie_break(*np.array([point[:2] for point in self.points]).T)
        return float(tie_breaks[self._scores <= self._best * (1 + CLOSE)].min())


def _covers(a: KnownCosts, b: KnownCosts) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))
