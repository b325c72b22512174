"""Searches that look only a little above a cost, in place of one that first looks for something to beat.

All that cost less than what is looked for are kept, so that the best of those that are found is the best of all. Near the optimum
it takes little more to keep what needs less of a memory, too: that is the best for smaller sizes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from fusiest.interrupt import OutOfTime
from fusiest.joining import Coarse, KnownCosts, Level
from fusiest.mapper.candidates import Candidate, KnownMapping, least_by_usage
from fusiest.mapper.result import Stats
from fusiest.mapper.search import LONG_EINSUMS, Proof, Search
from fusiest.pmapping import pareto_rows

_FACTORS = (1.02, 1.1)
"""How much more mappings may cost that are looked for near one which does not fit."""
_FRONT_FACTOR = 1.1
"""How much more than the best known one those may cost that need less of a memory."""
_FRONT_LOOK = Coarse(most=300)
_MOST_PARTIAL = 100_000
"""With more partial mappings than that, it takes much more time to keep what needs less."""


@dataclass
class SizeFront:
    """What is best for each smaller size of a memory, down to a size from which on all score more than those looked at."""

    memory: str
    points: list[Candidate] = field(default_factory=list)
    """From the best down, each needs less of the memory, its usage, than all before it."""
    stats: Stats | None = None
    """Of the search that found them."""

    def best_within(self, bits: float) -> Candidate | None:
        """The best mapping that needs no more; None if none was looked at."""
        return next((point for point in self.points if point.costs.usage <= bits * (1 + 1e-12)), None)


def search_near(search: Search, guesses: Sequence[KnownMapping]) -> Proof | None:
    """Look only for mappings that cost little more than the first guess, which does not fit; None if there is none, or no time."""
    objective = search.options.minimized
    if not guesses or objective.is_front or not search.options.bounds:
        return None
    before = search.candidates
    for factor in _FACTORS:
        guess = guesses[0].times(factor, objective)
        near = replace(search, candidates=[*before, guess])
        if near.best_known() is not guess:
            return None
        try:
            proof = near.run()
        except MemoryError:
            return None
        candidates = [candidate for candidate in near.candidates if candidate is not guess]
        if proof.stopped == "interrupt" and not candidates:
            raise KeyboardInterrupt
        if proof.stopped is not None:
            return None
        if len(candidates) > len(before):
            search.candidates = candidates
            return proof
    return None


def search_front(search: Search, front: SizeFront) -> Proof | None:
    """The best mapping, and those that need less of a memory and cost little more; None if that would take too long."""
    options, problem = search.options, search.problem
    able = options.minimized.is_product and options.bounds and options.coarse and options.orders == search.stats.orders
    if not able or front.memory not in problem.memories:
        return None
    first = replace(search, candidates=[*search.candidates])
    try:
        first.look(_FRONT_LOOK)
        if not first.candidates:
            return None
        best = first.best_known()
        known = KnownMapping(best.costs, None, tuple(sorted(best.cuts(), key=len)))
        arguments = {f.name: getattr(search, f.name) for f in fields(Search)}
        arguments |= {
            "problem": problem.watching(front.memory),
            "candidates": [known.times(_FRONT_FACTOR, options.minimized)],
        }
        candidates = FrontSearch(**arguments).all_below(problem.memories.index(front.memory))
    except (MemoryError, OutOfTime, _TooManyError):
        return None
    energy, latency, bits = np.array([candidate.costs for candidate in candidates]).T
    score = options.minimized.score(energy, latency)
    front.points = [candidates[i] for i in least_by_usage(score, bits)]
    search.candidates = [*candidates]
    return Proof(True, 0.0)


class _TooManyError(Exception):
    """It takes too long."""


class FrontSearch(Search):
    """Mappings that score less than a known one, and need as little of a memory as they can."""

    def all_below(self, memory: int) -> list[Candidate]:
        """All that none is better than in costs and in what it needs of the memory, with that as their usage."""
        self._reduce()
        if len(self.problem.order) >= LONG_EINSUMS:  # else they do not pay so near the optimum
            self._bound_stretches()
        history, end = self._levels(self.problem, self._pass(all_orders=self.all_orders))
        candidates = []
        for state in end.states:
            rows = state.groups[0].rows
            costs = np.column_stack([rows.energy, rows.latency, rows.usage()[:, memory]])
            for row in pareto_rows(np.zeros(len(rows), np.int64), costs):
                candidates.append(Candidate(KnownCosts(*costs[row].tolist()), self.problem, history, int(row)))
        return candidates

    def _report(self, level: Level, phase: str) -> None:
        super()._report(level, phase)
        if len(level) > _MOST_PARTIAL:
            raise _TooManyError
