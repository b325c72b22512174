"""From a join problem to complete mappings: a loop over passes, each of which learns from those before it.

A search is `PASSES`, one after the other, until one was exact. What it knows is one value, `Known`, which every pass
replaces. Whatever ends the search early, that remains: mappings, and the partial mappings from which better ones could
be reached.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from fusiest.base import interrupt
from fusiest.base.interrupt import OutOfTime
from fusiest.base.objective import CLOSE, NOTHING, Least, Weights
from fusiest.joining import (
    Bounds,
    Coarse,
    History,
    Incumbents,
    JoinPass,
    JoinProblem,
    KnownCosts,
    Level,
    PassedLevels,
    Potential,
    State,
    as_used,
    first_layers,
    first_level,
    levels,
    potential,
    reduced,
    seam_bounds,
)
from fusiest.mapper.candidates import Candidate, KnownMapping, best_rows, few_of, least_by_usage
from fusiest.mapper.options import Options
from fusiest.mapper.progress import Progress, Step, nobody
from fusiest.mapper.results.result import FunnelStep, Stop
from fusiest.pmapping import Floats, pareto_rows
from fusiest.show import si

FIRST_PASS, HASTY_PASS = Coarse(), Coarse(most=24)
"""Coarse pruning of the first pass; and of the hasty pass before it over many Einsums, which quickly finds mappings to
beat."""
WORTHWHILE_EINSUMS = 6
"""Least number of Einsums for which segments of them are bounded exactly."""
LONG_EINSUMS = 12
"""Least number of Einsums for which exact passes begin with a cutoff below the incumbent."""
MOST_GAPS = 4.0
"""Largest gap between incumbent and bound, in costs of an average Einsum, with which pmappings are reduced."""
_CLOSE_GAP = 0.05
"""Largest gap of known mappings that need no first pass for better ones."""
_SHARES_OF_GAP = (1 / 4, 1 / 2, 9 / 16, 5 / 8, 3 / 4, 7 / 8)
"""Cutoffs of passes before the one with the incumbent's: shares of the gap above the bound."""
_MOST_DIRECTLY = 100_000
"""Most partial mappings of a level, before bounds on segments are worth their time."""
_MOST_EVALUATED = 1_500
"""Most Einsums, over all mappings of a front, that are evaluated when time is up: they take less than a second."""
_STOPS: dict[type, Stop] = {OutOfTime: "time limit", KeyboardInterrupt: "interrupt"}
"""What ended a search, by exception. MemoryError has subclasses."""


class Proof(NamedTuple):
    """The claim that a search can make."""

    optimal: bool
    """Whether no better mapping is left."""
    gap: float
    """How much better, relatively, a mapping could be."""
    stopped: Stop | None = None
    """What ended the search early, if anything."""


class TooManyPartial(Exception):
    """A level has more partial mappings than the search may keep."""


@dataclass(frozen=True)
class SearchSettings:
    """Settings of a search, the same for all of its passes."""

    options: Options
    all_orders: bool = False
    """Whether to join in every order of Einsums; else only in the listed one."""
    whole: bool = True
    """Whether these are all orders that the options ask for."""
    say: Progress = nobody
    deadline: float | None = None
    """Moment from which on the search ends, if it has a mapping."""
    looked: bool = False
    """Whether the mappings given are from a look at these pmappings, or more of them: there is no first pass then."""
    most_partial: float = math.inf
    """Partial mappings of a level above which the search ends with `TooManyPartial`."""


@dataclass(frozen=True)
class Known:
    """What a search knows between its passes."""

    problem: JoinProblem
    costs: Potential
    """Lower bounds on each Einsum's groups by themselves."""
    bounds: Bounds
    incumbents: Incumbents
    frontier: Level
    """Partial mappings from which every mapping that is not known can be reached."""
    candidates: tuple[Candidate | KnownMapping, ...] = ()
    """Mappings found or given so far."""
    below: float | None = None
    """Cutoff of the running pass: it drops all that scores more."""
    final: bool = False
    """Whether the last pass was exact: no better mapping is left."""
    funnel: tuple[FunnelStep, ...] = ()
    """The joins of the last pass."""
    joined: tuple[int, ...] = ()
    """Partial mappings after each join of the last exact pass."""
    most_survivors: int = 0
    """Most partial mappings that survived a join, over all passes."""


class Search:
    """The passes of a search, and what is known after each."""

    def __init__(
        self, problem: JoinProblem, settings: SearchSettings, candidates: Sequence[Candidate | KnownMapping] = ()
    ) -> None:
        several = settings.all_orders and problem.has_several_orders()
        self.settings, self.options = replace(settings, all_orders=several), settings.options
        objective = self.options.minimized
        costs = potential(problem)
        least = costs.bounds(problem).least_of_all(frozenset())
        weights = objective.weights(least.energy, least.latency)
        if any(weights):
            costs = potential(problem, weights)
        watched = self.options.usage
        index = problem.memories.index(watched) if watched is not None else None
        incumbents = Incumbents(objective, weights=weights, watched=index)
        for candidate in candidates:
            incumbents = incumbents.with_point(candidate.costs)
        frontier = first_level(problem)
        self.known = Known(problem, costs, costs.bounds(problem), incumbents, frontier, tuple(candidates))

    @property
    def problem(self) -> JoinProblem:
        """The tables that are joined, as far as they still matter."""
        return self.known.problem

    @property
    def candidates(self) -> tuple[Candidate | KnownMapping, ...]:
        """Mappings found or given so far."""
        return self.known.candidates

    def anew(self, candidates: Sequence[Candidate | KnownMapping], problem: JoinProblem | None = None) -> Search:
        """A search with the same settings that begins with other candidates, or on another problem."""
        return Search(problem or self.problem, self.settings, candidates)

    def take(self, candidates: Sequence[Candidate | KnownMapping]) -> None:
        """Take over the candidates that another search has found."""
        self.known = replace(self.known, candidates=tuple(candidates))

    def run(self) -> Proof:
        """Run pass after pass. If something ends them before a mapping is known, that is raised."""
        try:
            for search_pass in PASSES:
                if not self.known.final:
                    search_pass(self)
            return self._proof()
        except (OutOfTime, KeyboardInterrupt, MemoryError) as error:
            if not self.candidates:
                raise
            stopped = _STOPS.get(type(error), "memory")
        # The exception is gone here, and with it all that the search had in hand: there is memory again.
        try:
            with interrupt.finishing():
                return self.ended(stopped)
        except MemoryError:
            return Proof(False, 1.0, stopped)

    def ended(self, stopped: Stop, least: Least | None = None) -> Proof:
        """The proof, given what ended the search. `least`: a bound on all mappings, if tables lack some."""
        if stopped == "time limit":
            self.take(few_of(self.best(), _MOST_EVALUATED // len(self.problem.order)))
        proof = judged(self._gap() if least is None else self._gap_above(least))
        nothing_left = proof.optimal and stopped != "interrupt" and not self.options.minimized.decides_ties
        return proof if nothing_left else proof._replace(stopped=stopped)

    def best_words(self) -> str:
        """The best mapping so far, in words."""
        if not self.candidates:
            return ""
        energy, latency, _ = self.best_known().costs
        return f"best so far: {si(energy, 'J')}, {si(latency, 's')}"

    def best(self) -> list[Candidate | KnownMapping]:
        """The candidates that a result is made of: all of a front, else the best one."""
        objective = self.options.minimized
        energy, latency, usage = self._candidate_costs()
        score = objective.score(energy, latency)
        if objective.is_front:
            chosen = pareto_rows(np.zeros(len(energy), np.int64), np.column_stack([energy, latency, usage]))
        elif self.known.incumbents.watched is not None:
            chosen = least_by_usage(score, usage)
        else:
            chosen = best_rows(objective, energy, latency)[:1]
        return [self.candidates[i] for i in chosen]

    # --- passes -------------------------------------------------------------------------------------------------------

    def look(self, first: Coarse | None = None, finer: bool = True) -> None:
        """Run coarse passes for good mappings, finer while they find none, if they may. If one was exact, it was the last.

        They take the listed order: good enough for mappings to beat, and far fewer joins.
        """
        if self.settings.looked and self.candidates:
            return
        if self._look(first, finer):
            self.known = replace(self.known, final=True)
        else:  # a coarse pass drops partial mappings that could lead to better ones
            self.known = replace(self.known, frontier=first_level(self.problem))

    def _look(self, first: Coarse | None, finer: bool) -> bool:
        given = [known for known in self.candidates if isinstance(known, KnownMapping)]
        if given and (any(known.mapping is None for known in given) or self._gap() <= _CLOSE_GAP):
            return False
        coarse, count = (first or FIRST_PASS) if self.options.coarse else None, len(self.candidates)
        begun = self._first_layers(coarse) if coarse is not None else None
        if len(self.candidates) > count:
            return False
        hasty = coarse is FIRST_PASS and begun is None and not given and len(self.problem.order) >= WORTHWHILE_EINSUMS
        if hasty and self._join(self.problem, self.join_pass(HASTY_PASS)):
            return not self.settings.all_orders
        while coarse is not None:
            cut_nothing = self._join(self.problem, self.join_pass(coarse), begun)
            if len(self.candidates) > count or cut_nothing or given:
                return cut_nothing and not self.settings.all_orders
            coarse = coarse.finer() if finer else None
        return False

    def _first_layers(self, coarse: Coarse) -> PassedLevels | None:
        """Run a pass over the first of many equal layers. If it was exact, go on from it.

        If not, run a pass over all layers with the pmappings that it has used.
        """
        layers, how = first_layers(self.problem), self.join_pass(coarse)
        if layers is None:
            return None
        begun = self.levels(self.problem, replace(how, stretch=layers))
        if begun.end.exact:
            return begun
        problem = as_used(self.problem, begun)
        costs = potential(problem, self.known.costs.weights)
        self._join(problem, replace(how, potential=costs, bounds=costs.bounds(problem)))
        return None

    def reduce(self) -> None:
        """Drop pmappings that no better mapping can have (proof 9).

        The others have higher least costs, which raises all bounds.

        It does nothing if the incumbent is above the relaxed bound by more than a single pmapping could cost.
        """
        if self._can_prune() and self._gap() * len(self.problem.order) <= MOST_GAPS:
            known = self.known
            problem = reduced(known.problem, known.costs.bounds(known.problem), known.incumbents)
            self.known = replace(known, problem=problem)
            self._set_weights(known.costs.weights)

    def join_directly(self) -> None:
        """Run exact passes without bounds on segments, as far as that keeps few partial mappings of a look's pmappings."""
        if not self.settings.looked or not self.candidates:
            return
        settings = self.settings
        self.settings = replace(settings, most_partial=min(settings.most_partial, _MOST_DIRECTLY))
        try:
            self.join_below()
            if not self.known.final:
                self.join()
            self.known = replace(self.known, final=True)
        except TooManyPartial:
            self.known = replace(self.known, below=None, frontier=first_level(self.problem))
        finally:
            self.settings = settings

    def bound_segments(self) -> None:
        """Tighten the bounds of a workload of many Einsums, cut where the best known mapping is not fused."""
        if len(self.problem.order) < WORTHWHILE_EINSUMS or not self._can_prune():
            return
        self.settings.say(Step("bounding segments of Einsums", self.best_words()))
        best = self.best_known()
        weights = self._weights_near(best.costs)
        if any(weights):
            self._set_weights(weights)
        doubts, orders = self._in_doubt(), self.settings.all_orders
        bounds = seam_bounds(self.problem, self.known.costs, doubts, orders, best.cuts(), self._check)
        self.known = replace(self.known, bounds=bounds)

    def join_below(self) -> None:
        """Run exact passes with cutoffs little above the bound, until one finds a mapping.

        A pass keeps all that is cheaper than `below`, so its best mapping is the best of all. Over many layers, the
        incumbent is above the bound by more than the choices of one layer matter, and a pass that has to beat only it
        prunes little.
        """
        objective = self.options.minimized
        if len(self.problem.order) < LONG_EINSUMS or not self._can_prune() or objective.is_front:
            return
        with np.errstate(invalid="ignore"):  # what cannot be completed needs infinitely much
            gap, count = self._gap(), len(self.candidates)
        best, score = self.best_known().costs, self.best_score()
        for share in _SHARES_OF_GAP if gap > CLOSE else ():
            factor = 1 - gap * (1 - share)
            self.known = replace(self.known, below=score * factor)
            how = replace(self.join_pass(), all_orders=self.settings.all_orders)
            point = best.times(factor, objective)
            self._join(self.problem, replace(how, incumbents=replace(how.incumbents, points=(point,))))
            self.known = replace(self.known, below=None, final=len(self.candidates) > count)
            if self.known.final:
                return

    def join(self) -> None:
        """Run the exact pass."""
        self._join(self.problem, replace(self.join_pass(), all_orders=self.settings.all_orders))

    def join_pass(self, coarse: Coarse | None = None) -> JoinPass:
        """Settings of a pass with all that is known, in the listed order."""
        known = self.known
        incumbents = known.incumbents if self.options.bounds else replace(known.incumbents, points=())
        return JoinPass(known.costs, known.bounds, incumbents, coarse)

    def _join(self, problem: JoinProblem, how: JoinPass, begun: PassedLevels | None = None) -> bool:
        """Run a pass to its end, and note its mappings. Returns whether the pass was exact."""
        history, end = self.levels(problem, how, begun)
        if end.exact:
            self.known = replace(self.known, joined=tuple(step.kept for step in self.known.funnel))
        for state in end.states:
            self._note(problem, state, history)
        return end.exact

    def levels(self, problem: JoinProblem, how: JoinPass, begun: PassedLevels | None = None) -> PassedLevels:
        """Join level by level, from nothing or from where an exact pass ended."""
        end = first_level(problem)
        self.known = replace(self.known, frontier=end)
        history = {state.finished: state.trails() for state in end.states}
        if begun is not None:
            history, end = dict(begun.history), begun.end
        self.known = replace(self.known, funnel=self.known.funnel[: end.finished])
        for level in levels(problem, how, self._check, end):
            end = level
            if how.coarse is None:
                self.known = replace(self.known, frontier=level)
            history.update({state.finished: state.trails() for state in level.states})
            self._report(level, "first pass" if how.coarse is not None else "joining")
        return PassedLevels(history, end)

    def _report(self, level: Level, phase: str) -> None:
        known, total = self.known, len(self.problem.order)
        step = FunnelStep(len(known.funnel) + 1, level.compatible, level.pairs, len(level), level.groups())
        most = max(known.most_survivors, step.kept)
        self.known = replace(known, funnel=(*known.funnel, step), most_survivors=most)
        words = f"{step.kept:,} partial mappings" if step.kept or not self.candidates else "nothing better is left"
        self.settings.say(Step(phase, "; ".join(filter(None, (words, self.best_words()))), step.finished, total))
        if step.kept > self.settings.most_partial:
            raise TooManyPartial

    def _note(self, problem: JoinProblem, state: State, history: History) -> None:
        """Add complete mappings to the candidates and incumbents."""
        found = completed(problem, state, history, self.known.incumbents.watched)
        incumbents = self.known.incumbents
        for candidate in found:
            incumbents = incumbents.with_point(candidate.costs)
        self.known = replace(self.known, candidates=(*self.candidates, *found), incumbents=incumbents)

    def _set_weights(self, weights: Weights) -> None:
        costs = potential(self.problem, weights)
        incumbents = replace(self.known.incumbents, weights=weights)
        self.known = replace(self.known, costs=costs, bounds=costs.bounds(self.problem), incumbents=incumbents)

    def _weights_near(self, best: KnownCosts) -> Weights:
        """Weights of the sum whose bound says most about the product of both costs.

        All costs with the same sum as the incumbent lie on a line. If the line touches the curve of equal products, its
        other points are below that curve. But if one cost is at its least, only the other can fall: then the line goes
        from the incumbent to where that curve meets the least of the other.
        """
        least, proven = self.known.costs.bounds(self.problem).least_of_all(frozenset()), self._proven()
        energy = least.energy if proven == {"latency"} else best.energy
        latency = least.latency if proven == {"energy"} else best.latency
        return self.options.minimized.weights(energy, latency)

    def _in_doubt(self) -> list[str]:
        """Costs that need better bounds: those not at their least in a known mapping; if none, the tie-breaking cost."""
        objective, proven = self.options.minimized, self._proven()
        names = [name for name in objective.searched if name not in proven]
        return names or [name for name in [objective.decides_ties] if name and name not in proven]

    def _proven(self) -> set[str]:
        """Costs that a known mapping has at their relaxed bound."""
        energy, latency, _ = self._candidate_costs().min(axis=1)
        least = self.known.costs.bounds(self.problem).least_of_all(frozenset())
        costs = ("energy", energy, least.energy), ("latency", latency, least.latency)
        return {name for name, cost, bound in costs if cost <= bound * (1 + CLOSE)}

    def _check(self) -> None:
        interrupt.check()
        deadline = self.settings.deadline
        if deadline is not None and self.candidates and time.perf_counter() > deadline:
            raise OutOfTime

    # --- what is proven -----------------------------------------------------------------------------------------------

    def _proof(self) -> Proof:
        """The proof at the end: no better mapping is left. If there were too many orders, their bound has to say so."""
        if self.settings.whole or not self.candidates:
            return Proof(True, 0.0)
        bounds, frontier = self.known.costs.bounds(self.problem), first_level(self.problem)
        self.known = replace(self.known, bounds=bounds, frontier=frontier)
        return judged(self._gap())

    def _gap(self) -> float:
        """How much better, relatively, a mapping could be than known ones.

        With g as the gap: for every mapping, some known mapping costs at most 1 / (1 - g) times as much in every
        objective.
        """
        energy, latency, usage = self._candidate_costs()
        costs, worst = self._compared(energy, latency, usage), 1.0
        how, watched = self.join_pass(), self.known.incumbents.watched
        for state in self.known.frontier.states:
            for (_, rows), least in zip(state.groups, how.least(self.problem, state), strict=True):
                usage = np.zeros(len(rows)) if watched is None else rows.usage()[:, watched]
                bounds = self._compared(rows.energy, rows.latency, usage, least)
                for bound in bounds[pareto_rows(np.zeros(len(bounds), np.int64), bounds)]:
                    worst = max(worst, float(_ratio(costs, bound).max(axis=1).min()))
        if self.known.below is not None:  # what costs more was left out
            worst = max(worst, self.best_score() / self.known.below)
        return 1 - 1 / worst

    def _gap_above(self, least: Least) -> float:
        """The gap, given only a lower bound on all mappings."""
        costs, zero = self._compared(*self._candidate_costs()), np.zeros(1)
        bound = self._compared(zero, zero, zero, least)[0]
        return 1 - 1 / max(1.0, float(_ratio(costs, bound).max(axis=1).min()))

    def _can_prune(self) -> bool:
        """Whether there is an incumbent that bounds may be compared with."""
        return self.options.bounds and bool(self.candidates) and not self.options.usage

    def best_known(self) -> Candidate | KnownMapping:
        """The candidate with the least score."""
        energy, latency, _ = self._candidate_costs()
        return self.candidates[int(np.argmin(self.options.minimized.score(energy, latency)))]

    def best_score(self) -> float:
        """The least score of a candidate."""
        energy, latency, _ = self._candidate_costs()
        return float(self.options.minimized.score(energy, latency).min())

    def _candidate_costs(self) -> Floats:
        """Energy, latency and usage of all candidates, one row each."""
        return np.array([candidate.costs for candidate in self.candidates]).T

    def _compared(self, energy: Floats, latency: Floats, usage: Floats, more: Least = NOTHING) -> Floats:
        """Costs that mappings are compared by, one per column; `more`: bound on what they lack."""
        columns = self.options.minimized.least_costs(energy, latency, more, self.known.incumbents.weights)
        return np.column_stack(columns if self.known.incumbents.watched is None else [*columns, usage])


SearchPass: TypeAlias = Callable[[Search], None]
"""A step of a search, which replaces what is known."""
PASSES: tuple[SearchPass, ...] = (
    Search.look, Search.reduce, Search.join_directly, Search.bound_segments, Search.join_below, Search.join,
)  # fmt: skip
"""Passes in their order: a coarse first one, bounds, then exact ones. None follows one that was exact."""


def completed(problem: JoinProblem, state: State, history: History, watched: int | None) -> list[Candidate]:
    """The complete mappings of a last state that no other dominates, also in its usage of a watched memory."""
    rows = state.groups[0].rows
    usage = np.zeros(len(rows)) if watched is None else rows.usage()[:, watched]
    costs = np.column_stack([rows.energy, rows.latency, usage])
    best = pareto_rows(np.zeros(len(rows), np.int64), costs)
    return [Candidate(KnownCosts(*costs[row].tolist()), problem, history, int(row)) for row in best]


def judged(gap: float) -> Proof:
    """The proof that a gap makes: costs that are close count as equal."""
    return Proof(True, 0.0) if gap <= CLOSE else Proof(False, gap)


def _ratio(costs: Floats, least: Floats) -> Floats:
    """Ratio of known costs to their bounds; 1 where known costs are not larger."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.where(costs <= least, 1.0, costs / least)
