"""From a join problem to complete mappings: a coarse first pass, bounds, then the exact pass.

Whatever ends the search early, its results so far remain: mappings, and the partial mappings from which better ones
could be reached.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import NamedTuple

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
from fusiest.mapper.progress import Progress, Step
from fusiest.mapper.results.result import FunnelStep, Stats, Stop
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


@dataclass
class Search:
    """The passes of a search, one after the other, and what is known after each."""

    problem: JoinProblem
    options: Options
    all_orders: bool
    say: Progress
    stats: Stats
    deadline: float | None = None
    """Moment from which on the search ends, if it has a mapping."""
    candidates: list[Candidate | KnownMapping] = field(default_factory=list)
    """Mappings found or given so far."""
    below: float | None = None
    """Cutoff of the running pass: it drops all that scores more."""

    def __post_init__(self) -> None:
        objective = self.options.minimized
        self.costs: Potential = potential(self.problem)
        least = self.costs.bounds(self.problem).least_of_all(frozenset())
        weights = objective.weights(least.energy, least.latency)
        if any(weights):
            self.costs = potential(self.problem, weights)
        watched = self.options.usage
        self.incumbents = Incumbents(
            objective, weights=weights, watched=self.problem.memories.index(watched) if watched is not None else None
        )
        for candidate in self.candidates:
            self.incumbents = self.incumbents.with_point(candidate.costs)
        self.all_orders = self.all_orders and self.problem.has_several_orders()
        self.bounds: Bounds = self.costs.bounds(self.problem)
        self.frontier: Level = first_level(self.problem)

    def run(self) -> Proof:
        """Run first pass, bounds and exact pass. If something ends them before a mapping is known, that is raised."""
        try:
            self._passes()
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
            self.candidates = few_of(self.best(), _MOST_EVALUATED // len(self.problem.order))
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
        elif self.incumbents.watched is not None:
            chosen = least_by_usage(score, usage)
        else:
            chosen = best_rows(objective, energy, latency)[:1]
        return [self.candidates[i] for i in chosen]

    # --- passes -------------------------------------------------------------------------------------------------------

    def _passes(self) -> None:
        if not self.look():
            self.frontier = first_level(self.problem)
            self._reduce()
            self._bound_stretches()
            if not self._join_below():
                self._join(self.problem, self._pass(all_orders=self.all_orders))

    def look(self, first: Coarse | None = None) -> bool:
        """Run coarse passes for good mappings, finer while they find none.

        Returns whether a pass was exact, and so final.

        They take the listed order: good enough for mappings to beat, and far fewer joins.
        """
        known_mappings = [known for known in self.candidates if isinstance(known, KnownMapping)]
        has_known = bool(known_mappings)
        if has_known and (any(known.mapping is None for known in known_mappings) or self._gap() <= _CLOSE_GAP):
            return False
        coarse, count = (first or FIRST_PASS) if self.options.coarse else None, len(self.candidates)
        begun = self._first_layers(coarse) if coarse is not None else None
        if len(self.candidates) > count:
            return False
        hasty = (
            coarse is FIRST_PASS and begun is None and not has_known and len(self.problem.order) >= WORTHWHILE_EINSUMS
        )
        if hasty and self._join(self.problem, self._pass(HASTY_PASS)):
            return not self.all_orders
        while coarse is not None:
            cut_nothing = self._join(self.problem, self._pass(coarse), begun)
            if len(self.candidates) > count or cut_nothing or has_known:
                return cut_nothing and not self.all_orders
            coarse = coarse.finer()
        return False

    def _first_layers(self, coarse: Coarse) -> PassedLevels | None:
        """Run a pass over the first of many equal layers. If it was exact, go on from it.

        If not, run a pass over all layers with the pmappings that it has used.
        """
        layers, how = first_layers(self.problem), self._pass(coarse)
        if layers is None:
            return None
        begun = self._levels(self.problem, replace(how, stretch=layers))
        if begun.end.exact:
            return begun
        problem = as_used(self.problem, begun)
        costs = potential(problem, self.costs.weights)
        self._join(problem, replace(how, potential=costs, bounds=costs.bounds(problem)))
        return None

    def _pass(self, coarse: Coarse | None = None, all_orders: bool = False) -> JoinPass:
        incumbents = self.incumbents if self.options.bounds else replace(self.incumbents, points=())
        return JoinPass(self.costs, self.bounds, incumbents, coarse, all_orders)

    def _join(self, problem: JoinProblem, how: JoinPass, begun: PassedLevels | None = None) -> bool:
        """Run a pass to its end, and note its mappings. Returns whether the pass was exact."""
        history, end = self._levels(problem, how, begun)
        if end.exact:
            self.stats.joined = [step.kept for step in self.stats.funnel]
        for state in end.states:
            self._note(problem, state, history)
        return end.exact

    def _levels(self, problem: JoinProblem, how: JoinPass, begun: PassedLevels | None = None) -> PassedLevels:
        """Join level by level, from nothing or from where an exact pass ended.

        A coarse pass drops partial mappings that could lead to better ones, so it leaves the frontier at the beginning.
        """
        self.frontier = end = first_level(problem)
        history = {state.finished: state.trails() for state in end.states}
        if begun is not None:
            history, end = dict(begun.history), begun.end
        del self.stats.funnel[end.finished :]
        for level in levels(problem, how, self._check, end):
            end = level
            if how.coarse is None:
                self.frontier = level
            history.update({state.finished: state.trails() for state in level.states})
            self._report(level, "first pass" if how.coarse is not None else "joining")
        return PassedLevels(history, end)

    def _join_below(self) -> bool:
        """Run exact passes with cutoffs little above the bound. Returns whether one found a mapping.

        A pass keeps all that is cheaper than `below`, so its best mapping is the best of all. Over many layers, the
        incumbent is above the bound by more than the choices of one layer matter, and a pass that has to beat only it
        prunes little.
        """
        objective = self.options.minimized
        if len(self.problem.order) < LONG_EINSUMS or not self._can_prune() or objective.is_front:
            return False
        with np.errstate(invalid="ignore"):  # what cannot be completed needs infinitely much
            gap, count = self._gap(), len(self.candidates)
        best = self.best_known().costs
        for share in _SHARES_OF_GAP if gap > CLOSE else ():
            factor = 1 - gap * (1 - share)
            self.below = self._best_score() * factor
            scale = factor**0.5 if objective.is_product else factor
            point = best._replace(energy=best.energy * scale, latency=best.latency * scale)
            how = self._pass(all_orders=self.all_orders)
            self._join(self.problem, replace(how, incumbents=replace(how.incumbents, points=(point,))))
            self.below = None
            if len(self.candidates) > count:
                return True
        return False

    def _report(self, level: Level, phase: str) -> None:
        finished, total = len(self.stats.funnel) + 1, len(self.problem.order)
        step = FunnelStep(finished, level.compatible, level.pairs, len(level), level.groups())
        self.stats.funnel.append(step)
        self.stats.most_survivors = max(self.stats.most_survivors, step.kept)
        words = f"{step.kept:,} partial mappings" if step.kept or not self.candidates else "nothing better is left"
        self.say(Step(phase, "; ".join(filter(None, (words, self.best_words()))), finished, total))

    def _note(self, problem: JoinProblem, state: State, history: History) -> None:
        """Add complete mappings to the candidates and incumbents."""
        rows = state.groups[0].rows
        watched = self.incumbents.watched
        usage = np.zeros(len(rows)) if watched is None else rows.usage()[:, watched]
        for row in pareto_rows(np.zeros(len(rows), np.int64), np.column_stack([rows.energy, rows.latency, usage])):
            costs = KnownCosts(float(rows.energy[row]), float(rows.latency[row]), float(usage[row]))
            self.candidates.append(Candidate(costs, problem, history, int(row)))
            self.incumbents = self.incumbents.with_point(costs)

    def _reduce(self) -> None:
        """Drop pmappings that no better mapping can have (proof 9).

        The others have higher least costs, which raises all bounds.

        It does nothing if the incumbent is above the relaxed bound by more than a single pmapping could cost.
        """
        if not self._can_prune():
            return
        if self._gap() * len(self.problem.order) > MOST_GAPS:
            return
        self.problem = reduced(self.problem, self.costs.bounds(self.problem), self.incumbents)
        self._set_weights(self.costs.weights)

    def _set_weights(self, weights: Weights) -> None:
        self.costs = potential(self.problem, weights)
        self.bounds = self.costs.bounds(self.problem)
        self.incumbents = replace(self.incumbents, weights=weights)

    def _bound_stretches(self) -> None:
        """Tighten the bounds of a workload of many Einsums, cut where the best known mapping is not fused."""
        if len(self.problem.order) < WORTHWHILE_EINSUMS or not self._can_prune():
            return
        self.say(Step("bounding stretches of Einsums", self.best_words()))
        best = self.best_known()
        weights = self._weights_near(best.costs)
        if any(weights):
            self._set_weights(weights)
        cuts = best.cuts()
        self.bounds = seam_bounds(self.problem, self.costs, self._in_doubt(), self.all_orders, cuts, self._check)

    def _weights_near(self, best: KnownCosts) -> Weights:
        """Weights of the sum whose bound says most about the product of both costs.

        All costs with the same sum as the incumbent lie on a line. If the line touches the curve of equal products, its
        other points are below that curve. But if one cost is at its least, only the other can fall: then the line goes
        from the incumbent to where that curve meets the least of the other.
        """
        least, proven = self.costs.bounds(self.problem).least_of_all(frozenset()), self._proven()
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
        least = self.costs.bounds(self.problem).least_of_all(frozenset())
        costs = ("energy", energy, least.energy), ("latency", latency, least.latency)
        return {name for name, cost, bound in costs if cost <= bound * (1 + CLOSE)}

    def _check(self) -> None:
        interrupt.check()
        if self.deadline is not None and self.candidates and time.perf_counter() > self.deadline:
            raise OutOfTime

    # --- what is proven -----------------------------------------------------------------------------------------------

    def _proof(self) -> Proof:
        """The proof at the end: no better mapping is left. If there were too many orders, their bound has to say so."""
        if self.options.orders == self.stats.orders or not self.candidates:
            return Proof(True, 0.0)
        self.bounds, self.frontier = self.costs.bounds(self.problem), first_level(self.problem)
        return judged(self._gap())

    def _gap(self) -> float:
        """How much better, relatively, a mapping could be than known ones.

        With g as the gap: for every mapping, some known mapping costs at most 1 / (1 - g) times as much in every
        objective.
        """
        energy, latency, usage = self._candidate_costs()
        costs, worst = self._compared(energy, latency, usage), 1.0
        how, watched = self._pass(), self.incumbents.watched
        for state in self.frontier.states:
            for (_, rows), least in zip(state.groups, how.least(self.problem, state), strict=True):
                usage = np.zeros(len(rows)) if watched is None else rows.usage()[:, watched]
                bounds = self._compared(rows.energy, rows.latency, usage, least)
                for bound in bounds[pareto_rows(np.zeros(len(bounds), np.int64), bounds)]:
                    worst = max(worst, float(_ratio(costs, bound).max(axis=1).min()))
        if self.below is not None:  # what costs more was left out
            worst = max(worst, self._best_score() / self.below)
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

    def _best_score(self) -> float:
        energy, latency, _ = self._candidate_costs()
        return float(self.options.minimized.score(energy, latency).min())

    def _candidate_costs(self) -> Floats:
        """Energy, latency and usage of all candidates, one row each."""
        return np.array([candidate.costs for candidate in self.candidates]).T

    def _compared(self, energy: Floats, latency: Floats, usage: Floats, more: Least = NOTHING) -> Floats:
        """Costs that mappings are compared by, one per column; `more`: bound on what they lack."""
        columns = self.options.minimized.least_costs(energy, latency, more, self.incumbents.weights)
        return np.column_stack(columns if self.incumbents.watched is None else [*columns, usage])


def judged(gap: float) -> Proof:
    """The proof that a gap makes: costs that are close count as equal."""
    return Proof(True, 0.0) if gap <= CLOSE else Proof(False, gap)


def _ratio(costs: Floats, least: Floats) -> Floats:
    """Ratio of known costs to their bounds; 1 where known costs are not larger."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.where(costs <= least, 1.0, costs / least)
