"""Searches that begin near a known cost, in place of a first look for mappings to beat.

All mappings below a cutoff are kept, so the best one found is the best of all. Near the optimum it takes little more to
keep mappings that need less of a memory, too: these are the best for smaller sizes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fusiest.base import interrupt
from fusiest.base.interrupt import OutOfTime
from fusiest.joining import Coarse
from fusiest.mapper.candidates import Candidate, KnownMapping, least_by_usage
from fusiest.mapper.resources import rss_bytes
from fusiest.mapper.results.result import Stats
from fusiest.mapper.search import LONG_EINSUMS, Proof, Search, TooManyPartial, completed

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


class SizeSearch:
    """The search for mappings that score little more than known ones, and need as little of a memory as possible.

    It begins with the memory's largest size. Its bounds hold for smaller sizes: a mapping that is valid there is valid
    here.
    """

    def __init__(self, search: Search, memory: str, best: Candidate | KnownMapping) -> None:
        """Bound all mappings that score little more than a known one."""
        objective = search.options.minimized
        known = KnownMapping(best.costs, None, tuple(sorted(best.cuts(), key=len)))
        settings = replace(search.settings, most_partial=_MOST_PARTIAL)
        limit = known.times(_BOUNDED_FACTOR, objective)
        self.memory, self.limit = memory, limit.costs
        self.search = Search(search.problem.watching(memory), settings, [limit])
        self.most = self.search.best_score()
        self.reached = objective.score_of(*best.costs[:2])
        """Score below which all mappings that fit the sizes asked for are known."""
        self.factor = 0
        """Index in `_FRONT_FACTORS` of the cutoff in use."""
        self.search.reduce()
        if len(self.search.problem.order) >= LONG_EINSUMS:  # else they do not pay so near the optimum
            self.search.bound_segments()

    def next_points(self, bits: float) -> list[Candidate]:
        """Find the mappings with the least scores for a size, and others near them.

        None are found if the bounds do not hold so far, or if that takes too long.
        """
        while self.reached < self.most:
            below = min(self.most, self.reached * _FRONT_FACTORS[self.factor])
            try:
                candidates = self._all_below(below, bits)
            except TooManyPartial:
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
        search = self.search
        problem, index = search.problem.with_size(self.memory, bits), search.problem.memories.index(self.memory)
        point = self.limit.times(score / search.best_score(), search.options.minimized)
        how = replace(search.join_pass(), all_orders=search.settings.all_orders)
        history, end = search.levels(problem, replace(how, incumbents=replace(how.incumbents, points=(point,))))
        return [found for state in end.states for found in completed(problem, state, history, index)]


@dataclass
class SizeFront:
    """The best mappings for smaller sizes of a memory, as far as they were searched."""

    memory: str
    points: list[Candidate] = field(default_factory=list)
    """Mappings from the best down, each with less usage of the memory than all before it."""
    sizes: list[float] = field(default_factory=list)
    """For each point, the size up to which no mapping between it and the point before was missed."""
    stats: Stats = field(default_factory=Stats)
    """Statistics of the search that found them."""
    search: SizeSearch | None = None
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
        if self.search is None or bits > min(self.sizes, default=0.0):
            return None
        options = self.search.search.options
        if options.time_limit is not None:
            return None
        try:
            with interrupt.limited(None, options.most_memory, rss_bytes):
                self.search_on(bits)
        except MemoryError:
            return None
        return self.best_within(bits)

    def search_on(self, bits: float) -> None:
        """Search the next points for a size: they cost more than all before."""
        if self.search is None:
            return
        candidates = self.search.next_points(bits)
        if candidates:
            energy, latency, usage = np.array([candidate.costs for candidate in candidates]).T
            score = self.search.search.options.minimized.score(energy, latency)
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
        near = search.anew([*before, guess])
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
            search.take(candidates)
            return proof
    return None


def search_front(search: Search, memory: str) -> SizeFront:
    """Find the best mapping, and those that need less of a memory and cost little more; no points if that takes too long."""
    options, front = search.options, SizeFront(memory)
    able = options.minimized.is_product and options.bounds and options.coarse and search.settings.whole
    if not able or memory not in search.problem.memories:
        return front
    first = search.anew(search.candidates)
    try:
        first.look(_FRONT_LOOK)
        if first.candidates:
            front.search = SizeSearch(search, memory, first.best_known())
            front.search_on(float(search.problem.room.sizes[search.problem.memories.index(memory)]))
    except (MemoryError, OutOfTime):
        return SizeFront(memory)
    return front
