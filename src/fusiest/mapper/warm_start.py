"""Searches that look only a little above a cost, in place of one that first looks for something to beat.

All that cost less than what is looked for are kept, so that the best of those that are found is the best of all. Near the optimum
it takes little more to keep what needs less of a memory, too: that is the best for smaller sizes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from fusiest.base import interrupt
from fusiest.base.interrupt import OutOfTime
from fusiest.joining import Coarse, KnownCosts, Level
from fusiest.mapper.candidates import Candidate, KnownMapping, least_by_usage
from fusiest.mapper.resources import rss_bytes
from fusiest.mapper.results.result import Stats
from fusiest.mapper.search import LONG_EINSUMS, Proof, Search
from fusiest.pmapping import pareto_rows

_FACTORS = (1.02, 1.1)
"""How much more mappings may cost that are looked for near one which does not fit."""
_BOUNDED_FACTOR = 1.2
"""How much more than the best known one mappings may cost that bounds, found once, hold for: those of smaller sizes."""
_FRONT_FACTORS = (1.1, 1.03, 1.01)
"""How much more than what is known those may cost that a pass looks for. With more partial mappings than it may have, the next is taken."""
_FRONT_LOOK = Coarse(most=300)
_MOST_PARTIAL = 100_000
"""With more partial mappings than that, it takes much more time to keep what needs less."""


@dataclass
class SizeFront:
    """What is best for each smaller size of a memory, as far as that was looked for."""

    memory: str
    points: list[Candidate] = field(default_factory=list)
    """From the best down, each needs less of the memory, its usage, than all before it."""
    sizes: list[float] = field(default_factory=list)
    """For each point: for sizes up to this one, no mapping between it and the point before was missed."""
    stats: Stats | None = None
    """Of the search that found them."""
    search: FrontSearch | None = None
    """What goes on where the points end, with the bounds of that search."""

    def best_within(self, bits: float) -> Candidate | None:
        """The best mapping that needs no more; None if none was looked at."""
        for point, size in zip(self.points, self.sizes, strict=True):
            if bits > size * (1 + 1e-12):
                return None
            if point.costs.usage <= bits * (1 + 1e-12):
                return point
        return None

    def look_further(self, bits: float) -> Candidate | None:
        """The same, if what was looked at is not enough: look on from there, as far as the bounds hold."""
        if self.search is None or self.search.options.time_limit is not None or bits > min(self.sizes, default=0.0):
            return None
        try:
            with interrupt.limited(None, self.search.options.most_memory, rss_bytes):
                self.add(self.search.next_points(bits), bits)
        except MemoryError:
            return None
        return self.best_within(bits)

    def add(self, candidates: Sequence[Candidate], bits: float) -> None:
        """What was found for a size, and cost more than all before."""
        if candidates and self.search is not None:
            energy, latency, usage = np.array([candidate.costs for candidate in candidates]).T
            score = self.search.options.minimized.score(energy, latency)
            chosen = least_by_usage(score, usage)
            self.points += [candidates[i] for i in chosen]
            self.sizes += [bits] * len(chosen)


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
            "candidates": [known.times(_BOUNDED_FACTOR, options.minimized)],
        }
        front.search = FrontSearch(**arguments, memory=front.memory)
        bits = float(problem.room.sizes[problem.memories.index(front.memory)])
        front.search.bound(options.minimized.score_of(*best.costs[:2]))
        front.add(front.search.next_points(bits), bits)
    except (MemoryError, OutOfTime):
        return None
    if not front.points:
        return None
    search.candidates = [*front.points]
    return Proof(True, 0.0)


class _TooManyError(Exception):
    """It takes too long."""


@dataclass
class FrontSearch(Search):
    """Mappings that score little more than those that are known, and need as little of a memory as they can.

    It begins with a memory's largest size. Its bounds hold for smaller ones: what is valid there is valid here.
    """

    memory: str = ""
    reached: float = 0.0
    """All that score less, and fit the sizes that were asked for, are known."""
    factor: int = 0
    """Of `_FRONT_FACTORS`: the one that was not too much."""

    def bound(self, known: float) -> None:
        """Find bounds for all that score less than its one candidate. `known`: the score of a mapping."""
        self.most, self.reached = self._best_score(), known
        self._reduce()
        if len(self.problem.order) >= LONG_EINSUMS:  # else they do not pay so near the optimum
            self._bound_stretches()

    def next_points(self, bits: float) -> list[Candidate]:
        """Those that score least of all that need no more, and others near them; none if the bounds do not hold so far, or it would
        take too long."""
        while self.reached < self.most:
            below = min(self.most, self.reached * _FRONT_FACTORS[self.factor])
            try:
                candidates = self._all_below(below, bits)
            except _TooManyError:
                if self.factor == len(_FRONT_FACTORS) - 1:
                    self.most = self.reached
                    return []
                self.factor += 1
                continue
            self.reached = below
            if candidates:
                return candidates
        return []

    def _all_below(self, score: float, bits: float) -> list[Candidate]:
        """All that none is better than in costs and in what it needs of the memory, with that as their usage."""
        problem, index = self.problem.with_size(self.memory, bits), self.problem.memories.index(self.memory)
        (known,) = self.candidates
        scale = (score / self._best_score()) ** 0.5
        point = KnownCosts(known.costs.energy * scale, known.costs.latency * scale)
        how = self._pass(all_orders=self.all_orders)
        history, end = self._levels(problem, replace(how, incumbents=replace(how.incumbents, points=(point,))))
        candidates = []
        for state in end.states:
            rows = state.groups[0].rows
            costs = np.column_stack([rows.energy, rows.latency, rows.usage()[:, index]])
            for row in pareto_rows(np.zeros(len(rows), np.int64), costs):
                candidates.append(Candidate(KnownCosts(*costs[row].tolist()), problem, history, int(row)))
        return candidates

    def _report(self, level: Level, phase: str) -> None:
        super()._report(level, phase)
        if len(level) > _MOST_PARTIAL:
            raise _TooManyError
