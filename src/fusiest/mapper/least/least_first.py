"""Least first: bounds from each Einsum's least costs, then only the pmappings that can be part of something better.

1. Each Einsum's least weighted sum among mappings that share nothing on chip: together they are a first mapping.
2. Each Einsum's least among all its pmappings, whatever other Einsums need: their sum bounds all mappings (`directions`).
   The pmappings around the leasts, joined, are better mappings.
3. More such sums, until they leave little room for something better.
4. The pmappings that can be part of it, exactly: below a line, less what all other Einsums cost at least (proof 9b).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fusiest.base.objective import CLOSE, Weights
from fusiest.mapper.candidates import Candidate, KnownMapping
from fusiest.mapper.least.directions import (
    ENERGY_ALONE,
    LATENCY_ALONE,
    Direction,
    Line,
    better,
    gap,
    lines_below,
    refining,
)
from fusiest.mapper.progress import Step
from fusiest.mapper.search import Search, SearchSettings
from fusiest.mapper.tables import Answer, Explorer, LeastTask, TableTask, grouped
from fusiest.mapper.workforce import Workforce
from fusiest.pmapping import Deepened, Effort, LeastCosts, Question, Sum, Table, cutoff_of, least_costs, why_none

_ANOTHER = 1.25
"""Change of the ratio of energy to latency, from which on it pays to search in the direction of the better mapping."""
_BENDS = 3
"""How often directions are added where the bounds leave much of what is better."""
_SLACK, _WIDER, _FAR = 0.06, 3.0, 3.0
"""Slack of the first look for a better mapping, as a share of an average Einsum's cost; how much wider the next one is;
how much further away the best mapping must be for it to pay."""


class Fastest(NamedTuple):
    """What is known of the fastest mappings."""

    latency: float
    """Theirs; no mapping is faster, but for the gap."""
    gap: float
    leasts: Mapping[str, float]
    """The least latency of each Einsum."""


@dataclass
class LeastFirst:
    """The least sums of each Einsum in some directions, and the mappings found around them."""

    explorer: Explorer
    force: Workforce[LeastTask | TableTask, Answer]
    question: Question
    leasts: dict[Weights, dict[str, LeastCosts]] = field(default_factory=dict)
    """By direction and Einsum."""
    tables: dict[str, Table] = field(default_factory=dict)
    """The pmappings of the last tables."""
    candidates: list[Candidate | KnownMapping] = field(default_factory=list)
    """Mappings found so far."""
    fastest: Fastest | None = None
    """Where the least latency is known: then the least energy of the fastest mappings is searched."""

    def run(self) -> bool:
        """Find mappings, bounds, and at last the tables of what could be better. Returns whether anything could."""
        weights = self._aim()
        self._look(self._leasts([weights]))
        if not self.candidates:
            self._unfused(weights)
        self._widen()
        return self._narrow()

    def _aim(self) -> Weights:
        """The first direction."""
        objective = self.explorer.options.minimized
        if objective.is_product:
            return Weights(*(1 / cost if cost > 0 else 1.0 for cost in self._costs_alone()))
        return LATENCY_ALONE if objective.names == ("latency",) and self.fastest is None else ENERGY_ALONE

    # --- steps --------------------------------------------------------------------------------------------------------

    def _unfused(self, weights: Weights) -> None:
        """Find the best mapping that shares nothing on chip, if there is one."""
        question, explorer = replace(self.question, apart=True), self.explorer
        asked = [
            LeastTask(name, question, (Sum(weights, self.lower(weights, name)),)) for name in self._hardest_first()
        ]
        tables: dict[str, Table] = {}
        for task, answer in self.force.each(asked):
            assert isinstance(answer, Deepened)
            if not len(answer.table):
                return
            tables[task.einsum] = answer.table
            explorer.say(explorer.step("unfused", tables))
        self._look(tables)

    def _leasts(self, directions: Sequence[Weights]) -> dict[str, Table]:
        """The least of each Einsum in some directions, and tables of the pmappings around them."""
        explorer, tables = self.explorer, dict[str, Table]()
        for weights in directions:
            self.leasts.setdefault(weights, {})
        asked = [
            LeastTask(
                name,
                self.question,
                tuple(Sum(w, self.lower(w, name), self.upper(w, name)) for w in directions),
                self._latest(name),
            )
            for name in self._hardest_first()
        ]
        for task, answer in self.force.each(asked):
            assert isinstance(answer, Deepened)
            if not len(answer.table):
                raise why_none(explorer.spec, task.einsum, self.question)
            for weights, least in zip(directions, answer.leasts, strict=True):
                self.leasts[weights][task.einsum] = least
            tables[task.einsum] = answer.table
            explorer.say(explorer.step("least costs", tables))
        self.tables = tables
        return tables

    def _widen(self) -> None:
        """Join more and more of what is near the leasts, until a mapping is not much further away."""
        slack = _SLACK / len(self.explorer.representative)
        while True:
            direction = self._towards_best()
            best = self._best()
            if best is not None and direction.total(*best) <= direction.least * (1 + _FAR * slack):
                return
            most = direction.least * (1 + slack) if direction.least > 0 else math.inf
            whole = self._explore([Line(direction, most)])
            self._look(self.tables)
            if whole:
                return
            slack *= _WIDER

    def _towards_best(self) -> Direction:
        """The direction in which the best mapping is closest to its bound; one more if it is far from all."""
        found, best = [Direction(weights, self._summed(weights)) for weights in self.leasts], self._best()
        if best is None:
            return found[0]
        if self.explorer.options.minimized.is_product and all(best):
            ratios = [d.weights.energy * best[0] / (d.weights.latency * best[1]) for d in found]
            if all(max(ratio, 1 / ratio) > _ANOTHER for ratio in ratios):
                tangent = Weights(1 / best[0], 1 / best[1])
                self._look(self._leasts([tangent]))
                return self._towards_best()
        return min(
            found, key=lambda direction: direction.total(*best) / direction.least if direction.least > 0 else math.inf
        )

    def _narrow(self) -> bool:
        """Add directions while they leave less to search, then explore what is left. Returns whether anything is."""
        if not self.candidates:
            return True
        for _ in range(_BENDS if self.explorer.options.minimized.is_product else 0):
            best = self._best()
            assert best is not None
            directions = refining(best[0] * best[1], self.directions())
            if not directions:
                break
            self._leasts(directions)
            self._look(self.tables)
        lines = self.better()
        if lines:
            self._explore(lines)
        return bool(lines)

    def _explore(self, lines: Sequence[Line]) -> bool:
        """Explore what is below these lines, less what all other Einsums cost at least. Returns whether that is all there is."""
        explorer, tables = self.explorer, dict[str, Table]()
        asked = []
        for name in self._hardest_first():
            weights = [line.direction.weights for line in lines]
            others = [line.direction.least - self.lower(line.direction.weights, name) for line in lines]
            most = [line.most - other for line, other in zip(lines, others, strict=True)]
            asked.append(TableTask(name, self.question, Effort(cutoff=cutoff_of(weights, most, self._latest(name)))))
        whole = True
        for task, answer in self.force.each(asked):
            assert isinstance(answer, Table)
            whole &= answer.is_whole
            tables[task.einsum] = answer
            explorer.say(explorer.step("what could be better", tables))
        self.tables = tables
        return whole

    def _look(self, tables: Mapping[str, Table]) -> bool:
        """Join tables coarsely. Returns whether that found a better mapping."""
        explorer = self.explorer
        if explorer.missing(tables) or not all(map(len, tables.values())):
            return False
        problem = grouped(explorer.spec, explorer.options, explorer.named(tables))
        search = Search(problem, SearchSettings(explorer.options, say=explorer.say))
        if explorer.options.coarse:
            search.look(finer=False)
        else:
            search.run()
        found = [candidate for candidate in search.candidates if isinstance(candidate, Candidate)]
        self.candidates += found
        explorer.say(Step("first look", search.best_words()))
        return bool(found)

    # --- bounds -------------------------------------------------------------------------------------------------------

    def directions(self) -> list[Direction]:
        """Bounds on all mappings, in all directions searched so far."""
        least = self._costs_alone()
        found = [Direction(weights, self._summed(weights)) for weights in self.leasts]
        alone = [Direction(ENERGY_ALONE, least[0]), Direction(LATENCY_ALONE, least[1])]
        return [*found, *(direction for direction in alone if direction.weights not in self.leasts)]

    def better(self) -> list[Line]:
        """Lines below which all better mappings lie."""
        if self.fastest is not None:
            direction = next(d for d in self.directions() if d.weights == ENERGY_ALONE)
            best = self._best()
            return lines_below(direction, best[0]) if best is not None else [Line(direction, math.inf)]
        return better(self.explorer.options.minimized, [c.costs for c in self.candidates], self.directions())

    def gap(self) -> float:
        """How much better a mapping could be than those found."""
        if self.fastest is not None:
            return self.fastest.gap
        return gap(self.explorer.options.minimized, [c.costs for c in self.candidates], self.directions())

    def lower(self, weights: Weights, einsum: str) -> float:
        """Lower bound on an Einsum's weighted sum."""
        if einsum in self.leasts.get(weights, {}):
            return self.leasts[weights][einsum].total
        alone = zip((ENERGY_ALONE, LATENCY_ALONE), least_costs(self.explorer.spec, einsum, self.question), strict=True)
        known = [(w, each[einsum].total) for w, each in self.leasts.items() if einsum in each]
        return combined([*alone, *known], weights)

    def upper(self, weights: Weights, einsum: str) -> float:
        """The least weighted sum of the Einsum's best pmappings so far."""
        found = [each[einsum] for each in self.leasts.values() if einsum in each]
        return min((weights.energy * c.energy + weights.latency * c.latency for c in found), default=math.inf)

    def _summed(self, weights: Weights) -> float:
        return sum(self.lower(weights, first) for first in self.explorer.representative.values())

    def _costs_alone(self) -> tuple[float, float]:
        """The least energy and latency that are known at once."""
        spec, question = self.explorer.spec, self.question
        costs = [least_costs(spec, first, question) for first in self.explorer.representative.values()]
        return sum(energy for energy, _ in costs), sum(latency for _, latency in costs)

    def _best(self) -> tuple[float, float] | None:
        """Costs of the best mapping so far."""
        score = self.explorer.options.minimized.score_of
        costs = [(c.costs.energy, c.costs.latency) for c in self.candidates]
        if self.fastest is not None:
            return min((cost for cost in costs if cost[1] <= self.fastest.latency * (1 + CLOSE)), default=None)
        return min(costs, key=lambda cost: score(*cost), default=None)

    def least_latencies(self) -> dict[str, float]:
        """The least latency of each Einsum, where that was searched."""
        leasts = self.leasts.get(LATENCY_ALONE, {})
        return {name: leasts[first].total for name, first in self.explorer.representative.items() if first in leasts}

    def _latest(self, einsum: str) -> float:
        """The most latency of an Einsum in one of the fastest mappings."""
        if self.fastest is None or self.fastest.latency <= 0:
            return math.inf
        others = sum(self.fastest.leasts.values()) - self.fastest.leasts[einsum]
        return self.fastest.latency * (1 + 4 * CLOSE) - others

    def _hardest_first(self) -> list[str]:
        return self.explorer.hardest_first(self.explorer.distinct)


def combined(bounds: Sequence[tuple[Weights, float]], weights: Weights) -> float:
    """The bound on a weighted sum that follows from bounds on one or two others: what adds up to no more weight.

    >>> combined([(Weights(1, 0), 3.0), (Weights(0, 1), 2.0), (Weights(1, 1), 7.0)], Weights(2, 1))
    10.0
    """
    best = 0.0
    for a, least in bounds:
        best = max(best, least * min(w / x for w, x in zip(weights, a, strict=True) if x))
        for b, other in bounds:
            determinant = a.energy * b.latency - a.latency * b.energy
            if determinant:
                s = (weights.energy * b.latency - weights.latency * b.energy) / determinant
                t = (a.energy * weights.latency - a.latency * weights.energy) / determinant
                if s >= 0 and t >= 0:
                    best = max(best, s * least + t * other)
    return best


def applies(explorer: Explorer, shared: bool) -> bool:
    """Whether mappings are found least first: not where tables must have all pmappings, or cutoffs save nothing."""
    options = explorer.options
    return not (shared or options.usage or options.imperfect or options.minimized.is_front)
