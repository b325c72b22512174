"""Plans of interleaving: one to three loops that a chain of Einsums shares, with nothing else in common.

A plan says which ranks of the chain's result the loops step, in which tiles, and where among them exchanged tensors are
held.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fusiest.base.frozen import FrozenDict
from fusiest.mapper.windows.symmetric import WindowForms
from fusiest.mapper.windows.window_plans import WindowPlan, is_window, touched_rows, window_plan
from fusiest.model import footprint
from fusiest.pmapping import Floats, Ints, Table, TurnRows, least_bits_per_value
from fusiest.spec import EinsumInfo, Spec

MOST_LOOPS = 3
MOST_DEEP_PLANS = 2_000
"""Most plans with three loops over the same variables of a chain; with more, only one and two loops are searched."""
MOST_WAYS = 10_000
"""Most plans over the same ranks in one order; with more, none of these are searched."""


@dataclass(frozen=True)
class TurnPlan:
    """A plan of interleaving."""

    einsums: tuple[str, ...]
    loops: tuple[WindowPlan, ...]
    """The loops that the chain shares, outermost first."""
    levels: FrozenDict[str, int]
    """Number of these loops above each exchanged tensor."""
    _held: list[Floats] = field(default_factory=list, compare=False, repr=False)
    """The result of `held_bits`, once it is known."""

    def common_loops(self, spec: Spec) -> Ints:
        """Einsums × Einsums: number of the loops in which two of them are interleaved.

        These are the loops above a tensor that is exchanged, and the next ones in as long as they make windows of it.
        """
        count = len(self.einsums)
        cuts = np.zeros(max(count - 1, 0), np.int64)
        for i, name in enumerate(self.einsums[:-1]):
            tensor = spec.info.einsums[name].output
            level = self.levels[tensor]
            windowed = itertools.takewhile(lambda plan, name=name: plan.tiling(name).windowed, self.loops[level:])  # type: ignore[misc]
            last = max(self.einsums.index(user) for user in spec.info.users[tensor])
            cuts[i:last] = np.maximum(cuts[i:last], level + sum(1 for _ in windowed))
        common: Ints = np.full((count, count), len(self.loops))
        for i, j in itertools.combinations(range(count), 2):
            common[i, j] = common[j, i] = cuts[i:j].min()
        return common

    def held_bits(self, spec: Spec) -> Floats:
        """Least bits of exchanged tensors while each Einsum runs.

        These are the windows of tensors that it uses, and of those that are retained in a loop in which it is
        interleaved. Below the first loop that makes windows of a retained tensor, the tensor is there whole.
        """
        if not self._held:
            self._held.append(self._held_bits(spec))
        return self._held[0]

    def _held_bits(self, spec: Spec) -> Floats:
        common, bits, per_value = self.common_loops(spec), np.zeros(len(self.einsums)), least_bits_per_value(spec)
        for i, name in enumerate(self.einsums[:-1]):
            info = spec.info.einsums[name]
            extents, level = dict(info.bounds), self.levels[info.output]
            kept = next((k for k in range(level, len(self.loops)) if self.loops[k].tiling(name).windowed), None)
            for k, plan in enumerate(self.loops):
                v = plan.variables[name]
                made = plan.tiling(name).range(plan.times - 1, info.bounds[v])[1]  # what lies behind is not
                extents[v] = min(made, touched_rows(spec, plan, info)) if kept is None or k <= kept else made
            seen = np.array([info.output in spec.info.einsums[e].accesses for e in self.einsums])
            if kept == level:
                seen |= common[i] > level
            bits[seen] += footprint(info.accesses[info.output], extents) * per_value[name, info.output]
        return bits

    def least_bits(self, spec: Spec) -> float:
        """The most of `held_bits` over all Einsums."""
        return float(self.held_bits(spec).max())

    def rows(self, einsum: EinsumInfo) -> float:
        """How often all rows and columns of an Einsum are made, on average."""
        return math.prod(plan.rows(einsum.name, einsum.bounds[plan.variables[einsum.name]]) for plan in self.loops)


class TurnLimits(NamedTuple):
    """Limits on plans."""

    loops: int = MOST_LOOPS
    """Most loops."""
    imperfect: bool = False
    """Whether tiles need not divide."""


def other_common_variables(spec: Spec, run: Sequence[str]) -> bool:
    """Whether Einsums of a chain could share other loops: over other variables, or some of them alone over rows."""
    leader = spec.info.einsums[run[-1]]
    rows = leader.accesses[leader.output].fully_relevant
    plans = [plan for v in rows if (plan := window_plan(spec, run, v, 1, frozenset())) is not None]
    for name in run[:-1]:
        info = spec.info.einsums[name]
        stepped = {plan.variables[name] for plan in plans}
        if any(info.bounds[v] > 1 for v in info.accesses[info.output].fully_relevant - stepped):
            return True
        users = [spec.info.einsums[user] for user in spec.info.users[info.output] if user != name]
        if len(run) > 2 and any(user.accesses[info.output].fully_relevant for user in users):
            return True
    return False


def turn_variables(spec: Spec, run: Sequence[str], forms: WindowForms) -> Iterator[tuple[str, ...]]:
    """The variables of the result that the loops of a chain step, fewer first; those that differ by names alone, once."""
    leader = spec.info.einsums[run[-1]]
    rows = sorted(leader.accesses[leader.output].fully_relevant)
    plans = [plan for v in rows if (plan := window_plan(spec, run, v, 1, frozenset())) is not None]
    swaps = [forms.swapped(a, b) for a, b in itertools.combinations(plans, 2)]
    for count in range(1, MOST_LOOPS + 1):
        seen: set[tuple[str, ...]] = set()
        for chosen in itertools.permutations(rows, count):
            if chosen not in seen:
                seen.update(tuple(swap[v] for v in chosen) for swap in swaps if swap)
                yield chosen


class TurnWays(NamedTuple):
    """Plans of a chain whose loops step these variables of its result, outermost first."""

    variables: tuple[str, ...]
    tiles: tuple[tuple[int, ...], ...]
    """All tile sizes of each variable."""
    plans: int
    """Number of plans, with every place of exchanged tensors; plans without windows are counted, too."""

    @property
    def are_few(self) -> bool:
        """Whether they are few enough to be searched."""
        return self.plans <= (MOST_DEEP_PLANS if len(self.variables) > 2 else MOST_WAYS)

    @property
    def are_asked_for(self) -> bool:
        """Whether the domain includes them: plans with three loops are searched only where that takes little."""
        return len(self.variables) <= 2


def turn_ways(spec: Spec, run: Sequence[str], forms: WindowForms, limits: TurnLimits) -> Iterator[TurnWays]:
    """All choices of variables for the loops of a chain, fewer first."""
    leader = spec.info.einsums[run[-1]]
    for chosen in turn_variables(spec, run, forms):
        if len(chosen) <= limits.loops:
            bounds = [leader.bounds[v] for v in chosen]
            tiles = tuple(tuple(t for t in range(1, n) if limits.imperfect or n % t == 0) for n in bounds)
            ways = math.prod(map(len, tiles)) * (len(chosen) + 1) ** (len(run) - 1)
            yield TurnWays(chosen, tiles, ways)


def turn_plans(spec: Spec, run: Sequence[str], ways: TurnWays) -> Iterator[TurnPlan]:
    """All plans of a chain over given variables in which some loop makes windows.

    Other plans need no search with windows.
    """
    planned = functools.cache(functools.partial(window_plan, spec, run))
    inner = [spec.info.einsums[name].output for name in run[:-1]]
    for tiles in itertools.product(*ways.tiles):
        for levels in itertools.product(range(len(tiles) + 1), repeat=len(inner)):
            chosen = tuple(zip(ways.variables, tiles, strict=True))
            plan = _turn_plan(planned, run, chosen, dict(zip(inner, levels, strict=True)))
            if plan is not None and any(is_window(loop, t) for loop in plan.loops for t in inner):
                yield plan


class LazyPlans:
    """Plans that are made when they are first asked for, and then kept."""

    def __init__(self, plans: Iterator[TurnPlan]) -> None:
        self.made, self.more = list[TurnPlan](), plans

    def __iter__(self) -> Iterator[TurnPlan]:
        for number in itertools.count():
            if number == len(self.made):
                plan = next(self.more, None)
                if plan is None:
                    return
                self.made.append(plan)
            yield self.made[number]


@dataclass(frozen=True)
class KnownTurns:
    """Results shared by searches of designs that differ by throughputs alone; the searches add to them."""

    rows: dict[object, TurnRows] = field(default_factory=dict)
    """Tables."""
    ways: dict[object, list[TurnWays]] = field(default_factory=dict)
    plans: dict[object, LazyPlans] = field(default_factory=dict)
    bits: dict[TurnPlan, list[float] | None] = field(default_factory=dict)
    """By plan, the bits of exchanged tensors while each Einsum runs; None if the plan is wrong."""
    rates: frozenset[str] = frozenset()
    """Memories whose throughputs differ between the designs."""
    tables: dict[object, Table] = field(default_factory=dict)
    """Tables of Einsums beside chains, for all throughputs of these memories."""

    def ways_of(self, spec: Spec, run: tuple[str, ...], forms: WindowForms, limits: TurnLimits) -> list[TurnWays]:
        """All choices of variables for the loops of a chain."""
        key = run, limits
        if key not in self.ways:
            self.ways[key] = list(turn_ways(spec, run, forms, limits))
        return self.ways[key]

    def plans_of(self, spec: Spec, run: tuple[str, ...], ways: TurnWays) -> LazyPlans:
        """All plans of a chain over given variables."""
        key = run, ways
        if key not in self.plans:
            self.plans[key] = LazyPlans(turn_plans(spec, run, ways))
        return self.plans[key]


def _turn_plan(
    planned: Callable[[str, int, frozenset[str]], WindowPlan | None],
    run: Sequence[str],
    chosen: Sequence[tuple[str, int]],
    levels: dict[str, int],
) -> TurnPlan | None:
    loops = []
    for k, (variable, tile) in enumerate(chosen):
        kept = frozenset(t for t, level in levels.items() if level <= k)
        loop = planned(variable, tile, kept)
        if loop is None or any(window.length < window.step and t in kept for t, window in loop.windows.items()):
            return None  # above a loop nothing can be left out
        loops.append(loop)
    return TurnPlan(tuple(run), tuple(loops), FrozenDict(levels))


def makes_again(plan: TurnPlan) -> bool:
    """Whether a plan recomputes rows."""
    return any(
        line.length > line.step and plan.levels[tensor] > k
        for k, loop in enumerate(plan.loops)
        for tensor, line in loop.windows.items()
    )
