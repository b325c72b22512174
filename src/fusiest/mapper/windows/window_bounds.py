"""Lower bounds on mappings with windows, and whether such mappings are worth a search.

Fused loops save space, and windows have lengths that tiles which divide do not have. So if all memories have room, and no length
fills an array better than such tiles do, the optimum without windows is below all mappings, with windows or without.
"""

from __future__ import annotations

import concurrent.futures
import functools
import time
from collections.abc import Callable, Collection, Sequence
from collections.abc import Mapping as TypingMapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from fusiest.base import interrupt
from fusiest.base.interrupt import OutOfTime
from fusiest.base.objective import CLOSE, IMPOSSIBLE, Least
from fusiest.joining import Incumbents, JoinProblem, KnownCosts, LowerBounds, potential
from fusiest.mapper.options import Options
from fusiest.mapper.resources import rss_bytes
from fusiest.mapper.results.result import Mapping
from fusiest.mapper.search import Search, SearchSettings
from fusiest.mapper.tables import grouped, make_explorer, question_of, representatives
from fusiest.mapper.windows.window_plans import WindowPlan, has_halos
from fusiest.pmapping import exchange_memories, has_even_tiles, least_costs, least_of_computing, roomy_memories
from fusiest.spec import Affine, EinsumInfo, Spec, memory_names

Relaxation = Callable[[Spec, Options], tuple[JoinProblem, list[KnownCosts]]]
"""A spec as if all memories had room: what is joined, and the best that comes out. It ends once it takes longer than the search did."""


class WindowAttempt(NamedTuple):
    """Plans of a chain over the same rank with the same number of iterations."""

    run: tuple[str, ...]
    plans: tuple[WindowPlan, ...]
    least: Least
    """Lower bound on the cost of all Einsums with them."""
    hope: float
    """The score of the whole, if the chain is as good as possible and the rest as in the best known mapping."""


class EinsumFloor(NamedTuple):
    """Lower bounds on one Einsum, and the most that bounds for all Einsums include for it."""

    least: float
    """Least energy of any pmapping."""
    computing: float
    """Energy of its operations."""
    seconds: float
    """Time of its operations."""
    most: float
    """The most energy that bounds for all Einsums include for it."""
    most_seconds: float
    """The most time that they include for it."""

    def above(self, rows: float, joules: float, seconds: float) -> Least:
        """How much more than those bounds it costs if it makes its rows `rows` times on average.

        `joules`: energy of repeated reads; `seconds`: time of all reads. Each is a lower bound, and so are the bounds
        for all Einsums.
        """
        again = max(0.0, rows - 1)
        energy = again * self.computing
        longest = max(seconds, (1 + again) * self.seconds)
        return Least(max(energy, self.least + energy + joules - self.most), max(0.0, longest - self.most_seconds), 0.0)


@functools.lru_cache(maxsize=4)
def windows_save_nothing(spec: Spec) -> bool:
    """Whether all exchanged tensors have room on chip, and all their elements are needed (proof 6d)."""
    return roomy_memories(spec) is not None and _all_is_used(spec)


def can_have_windows(spec: Spec, options: Options) -> bool:
    """Whether mappings may have windows: they are asked for, there are halos, and tensors may be exchanged on chip below a loop."""
    if options.windows == "none" or options.max_fused_loops == 0 or not has_halos(spec):
        return False
    return exchange_memories(spec) != {}


def worth_windows(spec: Spec, options: Options) -> bool:
    """Whether mappings with windows are to be looked for: there can be some, and there is not room for everything."""
    return can_have_windows(spec, options) and not windows_save_nothing(spec)


def usual_windows(usage: str | None, exchange: str) -> str:
    """The default of `windows`: all, where they are supported."""
    return "all" if usage is None and exchange == "finished" else "none"


def can_be_bounded(spec: Spec) -> bool:
    """Whether a search as if all memories had room says something of windows."""
    return exchange_memories(spec) is not None and _all_is_used(spec)


def _all_is_used(spec: Spec) -> bool:
    """Whether some user of each tensor reads every position that is made, so that windows skip nothing."""
    for tensor, makers in spec.info.producers.items():
        users = [spec.info.einsums[u] for u in spec.info.users[tensor] if u not in makers]
        if users and not any(all(_covers(user, spec.info.einsums[m], tensor) for m in makers) for user in users):
            return False
    return True


def _covers(user: EinsumInfo, maker: EinsumInfo, tensor: str) -> bool:
    for rank, affine in maker.accesses[tensor].ranks.items():
        low, high, _ = _positions(affine, maker)
        first, last, gapless = _positions(user.accesses[tensor].ranks[rank], user)
        if not gapless or first > low or last < high:
            return False
    return True


def _positions(affine: Affine, info: EinsumInfo) -> tuple[int, int, bool]:
    """The first and the last position that is touched, and whether all between are."""
    low = high = affine.constant
    reached, gapless = 0, True
    for a, extent in sorted((abs(a), info.bounds[v]) for v, a in affine.coefficients.items()):
        gapless = gapless and (extent == 1 or a <= reached + 1)
        reached += a * (extent - 1)
    for v, a in affine.coefficients.items():
        low, high = low + min(0, a * (info.bounds[v] - 1)), high + max(0, a * (info.bounds[v] - 1))
    return low, high, gapless


@dataclass(frozen=True)
class WindowBounds:
    """Lower bounds for all mappings of a spec, or for those that cut it into chains of Einsums."""

    spec: Spec
    options: Options
    least: list[KnownCosts]
    """The best, as if all memories had room."""
    lower: LowerBounds
    _inside: dict[tuple[tuple[str, ...], bool], dict[str, Least]] = field(default_factory=dict, repr=False)
    """Lower bound of each Einsum of a chain, by chain and whether the chain is cut off."""

    def of_run(self, run: Collection[str]) -> Least:
        """Lower bound on all Einsums if this chain exchanges tensors with others only in the outermost memory."""
        return self._cut_off(run).least_of_all(frozenset())

    def hoped(self, run: tuple[str, ...], mappings: Sequence[Mapping], cut_off: bool = True) -> Least:
        """Estimated cost of all Einsums if this chain is as good as its bound, and the others as in the best mapping.

        `cut_off`: the chain exchanges nothing with others on chip.
        """
        if not mappings:
            return self.of_run(run)
        known = min(mappings, key=lambda m: self.options.minimized.score_of(m.energy, m.latency))
        energy, latency = known.energy, known.latency
        for name, least in self._least_inside(run, cut_off).items():
            costs = known.evaluation.einsums[name]
            energy -= max(0.0, costs.energy - least.energy)
            latency -= max(0.0, costs.latency - least.latency)
        return Least(energy, latency, 0.0)

    def inside(self, run: tuple[str, ...]) -> tuple[float, float]:
        """Lower bounds on energy and latency of a chain alone."""
        least = self._least_inside(run, True).values()
        return sum(each.energy for each in least), sum(each.latency for each in least)

    def _least_inside(self, run: tuple[str, ...], cut_off: bool) -> dict[str, Least]:
        if (run, cut_off) not in self._inside:
            options = self._cut_off(run).options if cut_off else self.lower.options
            self._inside[run, cut_off] = {
                name: functools.reduce(Least.__or__, options[name].values(), IMPOSSIBLE) for name in run
            }
        return self._inside[run, cut_off]

    def _cut_off(self, run: Collection[str]) -> LowerBounds:
        """Bounds for a chain that exchanges nothing with others on chip."""
        inside = set(run)
        crossing = {t for t, users in self.spec.info.users.items() if 0 < len(inside & set(users)) < len(users)}
        outer = _outermost(self.spec)
        options = {
            name: {
                key: least for key, least in table.items() if all(c.memory in outer for t, c in key if t in crossing)
            }
            for name, table in self.lower.options.items()
        }
        return LowerBounds(options, self.lower.users, self.lower.order)

    def of_plan(self, least: Least, plan: WindowPlan) -> Least:
        """Raise a chain's bound to one for a plan of it."""
        bounds = {name: self.spec.info.einsums[name].bounds[plan.variables[name]] for name in plan.einsums}
        return self.of_rows(least, {name: plan.rows(name, bound) for name, bound in bounds.items()})

    def of_plans(self, least: Least, plans: Sequence[WindowPlan]) -> Least:
        """Raise a chain's bound to the least one for several plans of it."""
        return functools.reduce(Least.__or__, (self.of_plan(least, plan) for plan in plans))

    def of_rows(self, least: Least, rows: TypingMapping[str, float]) -> Least:
        """Raise a bound for Einsums that make all their rows several times: recomputed rows are computed again."""
        energy = latency = 0.0
        for name, times in rows.items():
            again = times - 1
            if again > 0:
                joules, seconds = least_of_computing(self.spec, name)
                slowest = max(option.latency for option in self.lower.options[name].values())
                energy += again * joules
                latency += max(0.0, (1 + again) * seconds - slowest)
        return least.plus(Least(energy, latency, 0.0))

    def floors(self, run: Sequence[str]) -> dict[str, EinsumFloor]:
        """Floors of each Einsum of a chain whose exchanged tensors stay on chip."""
        inner = {self.spec.info.einsums[name].output for name in run[:-1]}
        outer, options = _outermost(self.spec), self._cut_off(run).options
        floors = {}
        for name in run:
            on_chip = [
                least
                for key, least in options[name].items()
                if not any(t in inner and c.memory in outer for t, c in key)
            ]
            most = on_chip or list(options[name].values())
            floors[name] = EinsumFloor(
                least_costs(self.spec, name, question_of(self.options))[0],
                *least_of_computing(self.spec, name),
                max((least.energy for least in most), default=0.0),
                max((least.latency for least in most), default=0.0),
            )
        return floors

    def is_met(self, mappings: Sequence[Mapping]) -> bool:
        """Whether known mappings are as good as any could be, also in the tie-breaking cost."""
        if not mappings or gap_above(self.options, self.least, mappings):
            return False
        if self.options.minimized.is_front or self.options.minimized.is_product:
            return True
        tie = self.options.minimized.decides_ties
        bounds = [float(getattr(p, tie)) for p in self.least]
        return min(float(getattr(m, tie)) for m in mappings) <= min(bounds) * (1 + CLOSE)

    def promises(self, least: Least, mappings: Sequence[Mapping]) -> bool:
        """Whether a mapping with this lower bound could be better than these."""
        incumbents = Incumbents(self.options.minimized)
        for m in mappings:
            incumbents = incumbents.with_point(KnownCosts(m.energy, m.latency))
        return bool(incumbents.promising(np.zeros(1), np.zeros(1), least)[0])

    def score(self, least: Least) -> float:
        """The score of a bound, for sorting."""
        return self.options.minimized.score_of(least.energy, least.latency)


def relaxation(executor: concurrent.futures.Executor | None, seconds: float) -> Relaxation:
    """The search as if all memories had room, for so long."""

    def relaxed(spec: Spec, options: Options) -> tuple[JoinProblem, list[KnownCosts]]:
        with interrupt.limited(time.perf_counter() + seconds, options.most_memory, rss_bytes):
            explorer = make_explorer(spec, options, executor, lambda step: None)
            tables = explorer.explore(replace(question_of(options), unlimited=True)).complete()
            problem = grouped(spec, options, explorer.named(tables))
            search = Search(problem, SearchSettings(options))
            proof = search.run()
        if proof.stopped is not None:  # what is left may cost less
            raise KeyboardInterrupt if proof.stopped == "interrupt" else OutOfTime
        return problem, [candidate.costs for candidate in search.best()] if search.candidates else []

    return relaxed


def window_bounds(spec: Spec, options: Options, relaxed: Relaxation) -> WindowBounds | None:
    """Bounds, if there are any, and time and memory suffice for them."""
    if not can_be_bounded(spec):
        return None
    try:
        problem, least = relaxed(spec, replace(options, windows="none"))
        return WindowBounds(spec, options, least, potential(problem).bounds(problem)) if least else None
    except (OutOfTime, MemoryError):
        return None


def least_of_all(spec: Spec, options: Options, bounds: WindowBounds | None) -> list[KnownCosts]:
    """Costs of which no mapping is below all: those of the search as if all memories had room, where that has tiles as good as any
    length of a window."""
    return bounds.least if bounds is not None and has_even_tiles(spec) else least_with_windows(spec, options)


def least_with_windows(spec: Spec, options: Options) -> list[KnownCosts]:
    """Costs that no mapping is below, known at once: each Einsum for itself, on arrays that any length fills."""
    if not _all_is_used(spec):
        return [KnownCosts(0.0, 0.0)]
    firsts, question = representatives(spec, options.finished).values(), replace(question_of(options), imperfect=True)
    leasts = [least_costs(spec, first, question) for first in firsts]
    return [KnownCosts(sum(energy for energy, _ in leasts), sum(latency for _, latency in leasts))]


def gap_above(options: Options, least: Sequence[KnownCosts], mappings: Sequence[Mapping]) -> float:
    """How much better, relatively, a mapping could be than known ones, if none is better than all of `least`."""
    if not mappings:
        return 1.0
    objective = options.minimized
    worst = 1.0
    for point in least:
        if objective.is_front:
            ratios = [max(_ratio(m.energy, point.energy), _ratio(m.latency, point.latency)) for m in mappings]
        else:
            bound = objective.score_of(point.energy, point.latency)
            ratios = [_ratio(objective.score_of(m.energy, m.latency), bound) for m in mappings]
        worst = max(worst, min(ratios))
    return 1 - 1 / worst if worst > 1 + CLOSE else 0.0


def _outermost(spec: Spec) -> frozenset[str]:
    """Memories outside of those in which Einsums exchange tensors on chip."""
    inner = exchange_memories(spec) or {}
    return frozenset(m for m in memory_names(spec.require_arch()) if m not in inner)


def _ratio(cost: float, least: float) -> float:
    return 1.0 if cost <= least else cost / least if least > 0 else float("inf")
