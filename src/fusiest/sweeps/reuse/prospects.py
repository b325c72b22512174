"""What may still become of designs: bounds until answers are there, then the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fusiest.sweeps.file.designs import Design
from fusiest.sweeps.file.parameters import Figure
from fusiest.sweeps.file.sweepfile import SweptWorkload
from fusiest.sweeps.reuse.design_bounds import NO_BOUNDS, LeastCosts, above, both_hold
from fusiest.sweeps.reuse.hopeless_designs import Pruner, least_figures
from fusiest.sweeps.views.best_designs import DesignFigures


class Prospects:
    """Bounds on every design that is not finished: costs of each workload, or the least it can cost."""

    def __init__(self, pruner: Pruner, workloads: Sequence[SweptWorkload], area: Callable[[Design], Figure]) -> None:
        self.pruner, self.workloads, self.area = pruner, workloads, area
        self.designs: dict[int, Design] = {}
        self.areas: dict[int, Figure] = {}
        self.least: dict[int, dict[str, LeastCosts]] = {}
        self.answered: dict[int, set[str]] = {}

    def expect(self, design: Design, workload: SweptWorkload, least: LeastCosts) -> None:
        """A run of which only a bound is known."""
        bounds = self._enter(design)
        if workload.label not in self.answered.get(design.number, ()):
            bounds[workload.label] = both_hold(bounds[workload.label], least)

    def learn(self, design: Design, workload: SweptWorkload, energy: float, latency: float) -> None:
        """A run that has an answer. A design with all answers is one that others are measured by."""
        self._enter(design)[workload.label] = above(energy, latency)
        labels = self.answered.setdefault(design.number, set())
        labels.add(workload.label)
        if len(labels) == len(self.workloads):
            self.pruner.add(self._figures(design.number))

    def score(self, number: int) -> float:
        """What designs are ordered by: the best that one can still be."""
        return self.pruner.least_score(self._figures(number))

    def reason(self, number: int, ties: bool = False) -> str | None:
        """Why a design cannot be what is asked for (`ties`: or cannot be better than what is known); None if it can."""
        return self.pruner.reason(self._figures(number), ties)

    def _enter(self, design: Design) -> dict[str, LeastCosts]:
        if design.number not in self.designs:
            self.designs[design.number] = design
            self.areas[design.number] = self.area(design)
            self.least[design.number] = {w.label: NO_BOUNDS for w in self.workloads}
        return self.least[design.number]

    def _figures(self, number: int) -> DesignFigures:
        return least_figures(self.designs[number], self.areas[number], self.least[number], self.workloads)
