"""Which baseline, from which seed, and for how long."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusiest.base.errors import SpecError, did_you_mean

MAPPERS = ("fusiest", "set", "tileflow", "tileflow-mcts", "timeloop")


@dataclass(frozen=True)
class BaselineOptions:
    """`budget`: evaluations of pmappings; by default as many as fusiest needed for its tables."""

    mapper: str = "fusiest"
    seed: int = 0
    budget: float | None = None
    stop_rules: bool = True
    """Whether Timeloop stops by its own rules, or goes on until the budget is spent."""
    target: float = 0.0
    """A score that is good enough: it ends there."""

    def __post_init__(self) -> None:
        if self.mapper not in MAPPERS:
            raise SpecError(f"mapper '{self.mapper}' is not known{did_you_mean(self.mapper, MAPPERS)}")
        if self.budget is not None and not 1 <= self.budget < math.inf:
            raise SpecError(f"budget must be a number of evaluations, at least 1, but is {self.budget:g}")
