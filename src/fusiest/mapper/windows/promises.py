"""Estimates for chains of Einsums and their plans: bounds, which prove, and hopes, which only order the search.

A bound is below the cost of every mapping with the chain. A hope assumes the best known mapping for all Einsums outside
of it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from fusiest.base.objective import NOTHING, Least
from fusiest.mapper.options import Options
from fusiest.mapper.results.result import Mapping
from fusiest.mapper.windows.interleaving_plans import TurnPlan
from fusiest.mapper.windows.least_traffic import least_reading
from fusiest.mapper.windows.symmetric import WindowForms
from fusiest.mapper.windows.window_bounds import EinsumFloor, WindowAttempt, WindowBounds
from fusiest.mapper.windows.window_plans import WindowPlan, kept_bits, plan_bits, window_plans
from fusiest.pmapping import exchange_memories
from fusiest.spec import Spec

WORTH = 1.05
"""Largest ratio of the hoped score to the best known one for which a mapping found for a plan is looked at more
closely."""
HOPE = 1e-4
"""Least saving that a chain must hope for, as a share, to be looked at in longer workloads."""
WindowRun: TypeAlias = tuple[str, ...]
Worth: TypeAlias = Callable[[WindowPlan, float, float], bool]
"""A test whether a plan with this energy and latency, by its search, is worth writing. The search counts padding, takes
the first window for one like the others, and may recompute what is retained in the end."""


@dataclass
class WindowPromises:
    """Bounds and hopes for the chains and plans of one spec."""

    spec: Spec
    options: Options
    bounds: WindowBounds | None
    part_of: Callable[[Sequence[str]], Spec]
    least: dict[WindowRun, Least] = field(default_factory=dict)
    """Lower bound on the cost of all Einsums with each chain."""
    floors: dict[WindowRun, dict[str, EinsumFloor]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.room = min((exchange_memories(self.spec) or {}).values(), default=np.inf)

    # --- bounds -------------------------------------------------------------------------------------------------------

    def bound(self, run: WindowRun) -> Least:
        """Find, and note, a lower bound on the cost of all Einsums with a chain."""
        self.least[run] = self.bounds.of_run(run) if self.bounds is not None else NOTHING
        return self.least[run]

    def can_be_better(self, least: Least, mappings: Sequence[Mapping]) -> bool:
        """Whether a mapping with this lower bound may be better than these."""
        return self.bounds is None or not mappings or self.bounds.promises(least, mappings)

    def is_met(self, mappings: Sequence[Mapping]) -> bool:
        """Whether no mapping can be better than these."""
        return self.bounds is not None and self.bounds.is_met(mappings)

    def of_turns(self, run: WindowRun, plan: TurnPlan | None, mappings: Sequence[Mapping]) -> Least:
        """Lower bound on the cost of all Einsums with a plan of a chain, or with any plan."""
        if self.bounds is None or plan is None:
            return self.least[run]
        if run not in self.floors:
            self.floors[run] = self.bounds.floors(run)
        part, floors = self.part_of(run), self.floors[run]
        rows = {name: plan.rows(part.info.einsums[name]) for name in run}
        least = self._above(run, {name: floors[name].above(rows[name], 0.0, 0.0) for name in run})
        if not self.can_be_better(least, mappings):  # what is read again only adds to it
            return least
        reading = least_reading(part, plan, self.room)
        return self._above(run, {name: floors[name].above(rows[name], *reading[name]) for name in run})

    def _above(self, run: WindowRun, above: dict[str, Least]) -> Least:
        return functools.reduce(Least.plus, above.values(), self.least[run])

    def is_worth(self, plan: WindowPlan, mappings: Sequence[Mapping]) -> bool:
        """Whether a plan may be better than the known mappings, and there is room for the tensors that it retains."""
        if plan.kept and kept_bits(self.spec, plan) > self.room:
            return False
        return self.bounds is None or self.can_be_better(self.bounds.of_plan(self.least[plan.einsums], plan), mappings)

    # --- hopes --------------------------------------------------------------------------------------------------------

    def in_turn(self, hope: Callable[[WindowRun], float]) -> Iterator[WindowRun]:
        """Chains that may improve known mappings, the most hopeful first, as hopes are at that moment."""
        waiting = list(self.least)
        while waiting:
            hopes = {run: hope(run) for run in waiting}
            run = min(waiting, key=lambda run: (hopes[run], -len(run)))
            waiting.remove(run)
            if self.is_hopeful(hopes[run]):
                yield run

    def is_hopeful(self, hope: float) -> bool:
        """Whether a chain with this hope saves enough to be looked at; on a front, always."""
        return self.options.minimized.is_front or hope < 1 - HOPE

    def worth(self, wanted: Sequence[WindowPlan], mappings: Sequence[Mapping]) -> Worth:
        """Make the test whether a mapping found for a plan is worth writing as one of the wanted plans."""
        if not wanted or not mappings or self.options.minimized.is_front:
            return lambda plan, energy, latency: True
        best, run = self._best(mappings), wanted[0].einsums
        others = [costs for name, costs in best.evaluation.einsums.items() if name not in run]
        joules, seconds = sum(costs.energy for costs in others), sum(costs.latency for costs in others)
        bounds = {name: self.spec.info.einsums[name].bounds[wanted[0].variables[name]] for name in run}
        made = {name: min(plan.rows(name, bound) for plan in wanted) * bound for name, bound in bounds.items()}
        most = WORTH * self._score(best.energy, best.latency)

        def is_worth(plan: WindowPlan, energy: float, latency: float) -> bool:
            counted = max([1.0, *(plan.times * plan.tiles[name].length / made[name] for name in run if made[name])])
            return self._score(joules + energy / counted, seconds + latency / counted) <= most

        return is_worth

    def _best(self, mappings: Sequence[Mapping]) -> Mapping:
        return min(mappings, key=lambda m: self._score(m.energy, m.latency))

    def _score(self, energy: float, latency: float) -> float:
        return self.options.minimized.score_of(energy, latency)

    # --- plans --------------------------------------------------------------------------------------------------------

    def attempts(
        self, runs: Sequence[WindowRun], forms: WindowForms, kept_only: bool, mappings: Sequence[Mapping]
    ) -> list[WindowAttempt]:
        """All plans of chains, the most hopeful first; then those in which windows fit with the fewest iterations."""
        attempts = (attempt for run in runs for attempt in self._attempts(run, forms, kept_only, mappings))
        return sorted(attempts, key=self._order)

    def _attempts(
        self, run: WindowRun, forms: WindowForms, kept_only: bool, mappings: Sequence[Mapping]
    ) -> Iterator[WindowAttempt]:
        seen: set[object] = set()
        least = self.least[run]
        hope = self.bounds.hoped(run, mappings) if self.bounds is not None else NOTHING
        plans = window_plans(self.spec, run)
        for _, alike in itertools.groupby(plans, lambda p: (p.variables[p.einsums[-1]], p.times)):
            same_loop = tuple(alike)
            if len(same_loop) == 1 and not kept_only:  # nothing can be made again
                continue
            if (form := forms.plan_form(same_loop[-1])) in seen:  # columns like rows
                continue
            seen.add(form)
            best, score = least, 0.0
            if self.bounds is not None:
                best, best_hope = (self.bounds.of_plans(costs, same_loop) for costs in (least, hope))
                score = self.bounds.score(best_hope)
            yield WindowAttempt(run, same_loop, best, score)

    def _order(self, attempt: WindowAttempt) -> tuple[float, int, float, int]:
        too_large = max(1.0, min(plan_bits(self.spec, plan) for plan in attempt.plans) / self.room)
        return attempt.hope, -len(attempt.run), too_large, attempt.plans[0].times
