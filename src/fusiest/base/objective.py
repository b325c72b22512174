"""What is minimized: energy, latency, products of their powers, or all mappings that no other beats in both.

An objective knows the score of a mapping, the least score of whatever a partial mapping can become, what decides
between equal scores, and which bounds are worth an exact search. Scores rise with energy and with latency: all bounds
rest on that.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from fusiest.base.errors import SpecError, did_you_mean

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy as np
    import numpy.typing as npt

    CostArray: TypeAlias = npt.NDArray[np.float64]
    """Energies or latencies, one per mapping."""
Cost = TypeVar("Cost", float, "CostArray")
"""One cost, or those of several mappings."""
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


@dataclass(frozen=True)
class Objective:
    """A function of energy and latency that rises with both: a product of powers of them; or the front of both."""

    names: tuple[str, ...]
    """Names of the costs, as users write them."""
    powers: tuple[int, int]
    """Powers of energy and latency, whose product is the score; for a front, of one that tells good mappings from bad ones."""
    unit: str = ""
    title: str = ""
    """What a report calls it."""
    short: str = ""
    """What tables call it."""

    @property
    def is_front(self) -> bool:
        """Whether there may be several best mappings."""
        return len(self.names) > 1

    @property
    def is_product(self) -> bool:
        """Whether both costs decide about one best mapping."""
        return all(self.powers) and not self.is_front

    @property
    def follows_ties(self) -> bool:
        """Whether it pays to look for mappings with the same score and less of the other cost. Products do not tie."""
        return not self.is_product

    @property
    def decides_ties(self) -> str:
        """The cost that decides between mappings of the same score, if it is only known once all are searched."""
        return "" if all(self.powers) else "latency" if self.powers[0] else "energy"

    @property
    def searched(self) -> tuple[str, ...]:
        """Fields of `Least` that are worth an exact search of segments."""
        return ("energy", "both") if self.is_product else self.names

    def score(self, energy: Cost, latency: Cost) -> Cost:
        """The score of mappings, or of one."""
        factors = [energy] * self.powers[0] + [latency] * self.powers[1]
        return functools.reduce(operator.mul, factors)

    def tie_break(self, energy: CostArray, latency: CostArray) -> CostArray:
        """The cost that decides between equal scores."""
        return energy if all(self.powers) or not self.powers[0] else latency

    def score_of(self, energy: float, latency: float) -> float:
        """The score of one mapping."""
        return float(self.score(energy, latency))

    def scale(self, factor: float) -> float:
        """The factor of both costs that multiplies the score by this one."""
        return factor ** (1 / sum(self.powers)) if self.is_product else factor

    def energy_at(self, score: float, latency: Cost) -> Cost:
        """The energy with which mappings of this latency have this score."""
        return (score / latency ** self.powers[1]) ** (1 / self.powers[0])  # type: ignore[no-any-return]

    def latency_at(self, score: float, energy: Cost) -> Cost:
        """The latency with which mappings of this energy have this score."""
        return (score / energy ** self.powers[0]) ** (1 / self.powers[1])  # type: ignore[no-any-return]

    def weights(self, energy: float, latency: float) -> Weights:
        """For mappings that cost about this much: the weighted sum of both costs that is worth a bound of its own."""
        if not (self.is_product and energy > 0 and latency > 0):
            return NO_WEIGHTS
        return Weights(self.powers[0] / energy, self.powers[1] / latency)

    def least_score(self, energy: CostArray, latency: CostArray, more: Least, weights: Weights) -> CostArray:
        """The least score of any completion of these costs that needs at least so much more.

        A product of powers is least where energy or latency is: at a corner of what their own bounds and that of their
        weighted sum leave.
        """
        import numpy as np  # not by those who only read options

        total_energy, total_latency = energy + more.energy, latency + more.latency
        if not self.is_product or not weights.energy or not weights.latency:
            return self.score(total_energy, total_latency)
        both = weights.energy * energy + weights.latency * latency + more.both
        slowest = np.maximum(total_latency, (both - weights.energy * total_energy) / weights.latency)
        costliest = np.maximum(total_energy, (both - weights.latency * total_latency) / weights.energy)
        return np.minimum(self.score(total_energy, slowest), self.score(costliest, total_latency))

    def least_costs(self, energy: CostArray, latency: CostArray, more: Least, weights: Weights) -> list[CostArray]:
        """All that a mapping must not be worse in: both costs on a front, else the score."""
        if self.is_front:
            return [energy + more.energy, latency + more.latency]
        return [self.least_score(energy, latency, more, weights)]


ENERGY = Objective(("energy",), (1, 0), "J", "energy", "energy")
LATENCY = Objective(("latency",), (0, 1), "s", "latency", "latency")
EDP = Objective(("edp",), (1, 1), "Js", "energy-delay product", "EDP")
FRONT = Objective(("energy", "latency"), (1, 1))
OBJECTIVES = {objective.names[0]: objective for objective in (ENERGY, LATENCY, EDP)}
"""By name, the objectives with one best mapping: all that says which there are asks here."""


class Costed(Protocol):
    """What has an energy and a latency, and so a cost by every objective."""

    @property
    def energy(self) -> float: ...

    @property
    def latency(self) -> float: ...


def cost_of(costed: Costed, name: str) -> float:
    """A cost by the name of its objective."""
    return OBJECTIVES[name].score_of(costed.energy, costed.latency)


def products_of(costed: Costed) -> dict[str, float]:
    """The costs by objectives that are neither energy nor latency, by name."""
    return {name: cost_of(costed, name) for name, objective in OBJECTIVES.items() if objective.is_product}


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
        if str(name) not in OBJECTIVES:
            raise SpecError(f"objective '{name}' is not known{did_you_mean(str(name), OBJECTIVES)}")
    for objective in (*OBJECTIVES.values(), FRONT):
        if sorted(requested) == sorted(objective.names):
            return objective
    raise SpecError(f"objective: give {', '.join(OBJECTIVES)}, or energy,latency for the whole front")
