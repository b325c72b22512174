"""What is minimized: energy, latency, their product, or all mappings that no other beats in both.

An objective knows the score of a mapping, the least score of whatever a partial mapping can become, what decides
between equal scores, and which bounds are worth an exact search. Scores rise with energy and with latency: all bounds
rest on that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from fusiest.base.errors import SpecError, did_you_mean

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy as np
    import numpy.typing as npt

    CostArray: TypeAlias = npt.NDArray[np.float64]
    """Energies or latencies, one per mapping."""
CLOSE = 1e-9
"""Costs that differ by less, relatively, are the same."""


class Weights(NamedTuple):
    """Weights of energy and latency in their sum."""

    energy: float
    latency: float


NO_WEIGHTS = Weights(0.0, 0.0)


class Least(NamedTuple):
    """Least energy, least latency, and the least weighted sum of both, each for itself."""

    energy: float
    latency: float
    both: float

    def __or__(self, other: Least) -> Least:
        """The least of two alternatives."""
        return Least(min(self[0], other[0]), min(self[1], other[1]), min(self[2], other[2]))

    def plus(self, other: Least) -> Least:
        """What two things cost at least, one after the other."""
        return Least(self[0] + other[0], self[1] + other[1], self[2] + other[2])


NOTHING = Least(0.0, 0.0, 0.0)
IMPOSSIBLE = Least(math.inf, math.inf, math.inf)

UNITS = {"energy": "J", "latency": "s", "edp": "Js"}
OBJECTIVES = tuple(UNITS)


@dataclass(frozen=True)
class Objective:
    """One of the four below."""

    names: tuple[str, ...]
    """Names of the costs, as users write them."""
    score: Callable[[CostArray, CostArray], CostArray]
    """Function of energy and latency that is minimized; for a front, one that tells good mappings from bad ones."""
    tie_break: Callable[[CostArray, CostArray], CostArray]
    """Which cost decides between equal scores."""
    searched: tuple[str, ...]
    """Fields of `Least` that are worth an exact search of segments."""
    follows_ties: bool = True
    """Whether it pays to look for mappings with the same score and less of the other cost. Products do not tie."""
    is_product: bool = False

    def scale(self, factor: float) -> float:
        """The factor of both costs that multiplies the score by this one."""
        return factor**0.5 if self.is_product else factor

    @property
    def decides_ties(self) -> str:
        """The cost that decides between mappings of the same score, if it is only known once all are searched."""
        return {"energy": "latency", "latency": "energy"}.get(",".join(self.names), "")

    @property
    def is_front(self) -> bool:
        """Whether there may be several best mappings."""
        return len(self.names) > 1

    def score_of(self, energy: float, latency: float) -> float:
        """The score of one mapping."""
        costs: Any = energy, latency
        return float(self.score(*costs))

    def weights(self, energy: float, latency: float) -> Weights:
        """For mappings that cost about this much: the weighted sum of both costs that is worth a bound of its own."""
        return Weights(1 / energy, 1 / latency) if self.is_product and energy > 0 and latency > 0 else NO_WEIGHTS

    def least_score(self, energy: CostArray, latency: CostArray, more: Least, weights: Weights) -> CostArray:
        """The least score of any completion of these costs that needs at least so much more.

        The product is least where energy or latency is: at a corner of what their own bounds and that of their weighted
        sum leave.
        """
        import numpy as np  # not by those who only read options

        total_energy, total_latency = energy + more.energy, latency + more.latency
        if not self.is_product or not weights.energy or not weights.latency:
            return self.score(total_energy, total_latency)
        both = weights.energy * energy + weights.latency * latency + more.both
        slowest = np.maximum(total_latency, (both - weights.energy * total_energy) / weights.latency)
        costliest = np.maximum(total_energy, (both - weights.latency * total_latency) / weights.energy)
        return np.minimum(total_energy * slowest, costliest * total_latency)

    def least_costs(self, energy: CostArray, latency: CostArray, more: Least, weights: Weights) -> list[CostArray]:
        """All that a mapping must not be worse in: both costs on a front, else the score."""
        if self.is_front:
            return [energy + more.energy, latency + more.latency]
        return [self.least_score(energy, latency, more, weights)]


def _energy(energy: CostArray, latency: CostArray) -> CostArray:
    return energy


def _latency(energy: CostArray, latency: CostArray) -> CostArray:
    return latency


def _product(energy: CostArray, latency: CostArray) -> CostArray:
    return energy * latency


ENERGY = Objective(("energy",), _energy, _latency, ("energy",))
LATENCY = Objective(("latency",), _latency, _energy, ("latency",))
EDP = Objective(("edp",), _product, _energy, ("energy", "both"), follows_ties=False, is_product=True)
FRONT = Objective(("energy", "latency"), _product, _energy, ("energy", "latency"))


def aim_of(names: Sequence[str]) -> str:
    """The objective by which one mapping is the best; of a front, the energy-delay product."""
    return names[0] if len(names) == 1 else "edp"


def objective_of(names: str | Sequence[str]) -> Objective:
    """The objective that a user asks for.

    >>> objective_of("edp").names, objective_of("latency,energy").names
    (('edp',), ('energy', 'latency'))
    """
    requested = names.split(",") if isinstance(names, str) else list(names)
    for name in requested:
        if name not in OBJECTIVES:
            raise SpecError(f"objective '{name}' is not known{did_you_mean(name, OBJECTIVES)}")
    for objective in (ENERGY, LATENCY, EDP, FRONT):
        if sorted(requested) == sorted(objective.names):
            return objective
    raise SpecError("objective: give energy, latency, edp, or energy,latency for the whole front")
