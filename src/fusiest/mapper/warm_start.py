"""Searches that begin near a known cost, in place of a first look for mappings to beat.

All mappings below a cutoff are kept, so the best one found is the best of all. Near the optimum it takes little more to
keep mappings that need less of a memory, too: these are the best for smaller sizes of it.
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
"""Cutoffs near a mapping that does not fit, as multiples of its score."""
_BOUNDED_FACTOR = 1.2
"""Largest multiple of the best known score for which bounds, found once, hold: mappings for smaller sizes may score as
much."""
_FRONT_FACTORS = (1.1, 1.03, 1.01)
"""Cutoffs of a pass, as multiples of the score reached so far. If one leads to too many partial mappings, the next is
taken."""
_FRONT_LOOK = Coarse(most=300)
_MOST_PARTIAL = 100_000
"""Most partial mappings of a pass: with more, keeping those that need less memory takes much more time."""


@dataclass
class SizeFront:
    """The best mappings for smaller sizes of a memory, as far as they were searched."""

    memory: str
    points: list[Candidate] = field(default_factory=list)
    """Mappings from the best down, each with less usage of the memory than all before it."""
    sizes: list[float] = field(default_factory=list)
    """For each point, the size up to which no mapping between it and the point before was missed."""
    stats: Stats | None = None
    """Statistics of the search that found them."""
    search: FrontSearch | None = None
    """The search that can go on where the points end, with its bounds."""

    def best_within(self, bits: float) -> Candidate | None:
        """The best mapping with no more usage; None if the search has not gone so far."""
        for point, size in zip(self.points, self.sizes, strict=True):
            if bits > size * (1 + 1e-12):
                return None
            if point.costs.usage <= bits * (1 + 1e-12):
                return point
        return None

    def look_further(self, bits: float) -> Candidate | None:
        """The best mapping with no more usage, searched from where the points end, as far as the bounds hold."""
        if self.search is None or self.search.options.time_limit is not None or bits > min(self.sizes, default=0.0):
            return None
        try:
            with interrupt.limited(None, self.search.options.most_memory, rss_bytes):
                self.add(self.search.next_points(bits), bits)
        except MemoryError:
            return None
        return self.best_within(bits)

    def add(self, candidates: Sequence[Candidate], bits: float) -> None:
        """Add mappings found for a size, which cost more than all before."""
        if candidates and self.search is not None:
            energy, latency, usage = np.array([candidate.costs for candidate in candidates]).T
            score = self.search.options.minimized.score(energy, latency)
            chosen = least_by_usage(score, usage)
            self.points += [candidates[i] for i in chosen]
            self.sizes += [bits] * len(chosen)


def search_near(search: Search, guesses: Sequence[KnownMapping]) -> Proof | None:
    """Search only for mappings that cost little more than the first guess, which does not fit.

    None if there is no guess, or no time.
    """
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
    """Find the best mapping, and those that need less of a memory and cost little more; None if that takes too long."""
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
    """A pass has too many partial mappings."""


@dataclass
class FrontSearch(Search):
    """The search for mappings that score little more than known ones, and need as little of a memory as possible.

    It begins with the memory's largest size. Its bounds hold for smaller sizes: a mapping that is valid there is valid
    here.
    """

    memory: str = ""
    reached: float = 0.0
    """Score below which all mappings that fit the sizes asked for are known."""
    factor: int = 0
    """Index in `_FRONT_FACTORS` of the cutoff in use."""

    def bound(self, known: float) -> None:
        """Find bounds for all mappings that score less than its one candidate. `known`: the score of a mapping."""
        self.most, self.reached = self._best_score(), known
        self._reduce()
        if len(self.problem.order) >= LONG_EINSUMS:  # else they do not pay so near the optimum
            self._bound_stretches()

    def next_points(self, bits: float) -> list[Candidate]:
        """Find the mappings with the least scores for a size, and others near them.

        None are found if the bounds do not hold so far, or if that takes too long.
        """
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
        """All mappings below a score that no other dominates in costs and usage of the memory."""
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
