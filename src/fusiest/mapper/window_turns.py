"""Runs of Einsums that share one to three loops which make windows, and nothing else: searched exactly.

For each choice of these loops and of where exchanged tensors stand among them, each Einsum has a table of all that it can do below them
(`pmapping/window_nests`). What others see of its space adds up; the rest is there in its own turn alone. So tables are
combined one by one, and what is worse in everything goes.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from fusiest.errors import FusiestError
from fusiest.frozen import FrozenDict
from fusiest.interrupt import check
from fusiest.looptree import Compute, LoopTree, Nested, Node, Sequential, Storage, Temporal
from fusiest.mapper.candidates import best_rows
from fusiest.mapper.options import Options
from fusiest.mapper.window_forms import WindowForms
from fusiest.mapper.window_parts import PartMapping, evaluated_mapping, off_chip, part_mapping
from fusiest.mapper.window_plans import WindowPlan, is_window, touched_rows, window_plan
from fusiest.mapper.window_specs import window_loop
from fusiest.model import footprint, take_apart
from fusiest.objective import Least
from fusiest.pmapping import (
    Floats,
    Ints,
    TooManyCandidates,
    TurnLoop,
    TurnNest,
    TurnRows,
    TurnsAsked,
    exchange_memories,
    pareto_rows,
    turn_rows,
)
from fusiest.spec import EinsumInfo, Spec, computes

MOST_LOOPS = 3
MOST_DEEP_PLANS = 2_000
"""With three loops over variables of a run; where there are more, there are no more than two loops."""
MOST_WAYS = 10_000
"""Plans over the same ranks in one order; where there are more, none of these are looked at."""
MOST_CANDIDATES = 200_000
"""Of one Einsum below given loops; more are left to plans as specs."""
MOST_IN_ALL = 4_000_000
"""Of all that are looked at."""
MOST_PLANS = 400
"""The same, of those for which there is room."""
MOST_LOOKED_AT = 10_000
"""Plans of which it is asked whether there is: of each run an equal share, but no less than the next number."""
LEAST_SHARE = 100
MOST_ROWS = 2_000_000
"""Combinations of two tables."""


@dataclass(frozen=True)
class TurnPlan:
    """The loops that a run shares, outermost first, and how many of them stand above each tensor that it exchanges."""

    einsums: tuple[str, ...]
    loops: tuple[WindowPlan, ...]
    levels: FrozenDict[str, int]

    def common_loops(self, spec: Spec) -> Ints:
        """Einsums × Einsums: in how many of the loops they take turns. Above a tensor that is exchanged, and on as long as
        windows of it are made."""
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
        """What exchanged tensors take at least while each Einsum runs: the windows of those that it uses, and of those that are
        kept in a loop in which it takes turns. Below the first loop that makes windows of a kept tensor, it is there whole.
        """
        common, bits = self.common_loops(spec), np.zeros(len(self.einsums))
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
            bits[seen] += footprint(info.accesses[info.output], extents) * info.bits_per_value[info.output]
        return bits

    def least_bits(self, spec: Spec) -> float:
        """The most of that."""
        return float(self.held_bits(spec).max())

    def rows(self, einsum: EinsumInfo) -> float:
        """How often all rows and columns of an Einsum are made, on average."""
        return math.prod(plan.rows(einsum.name, einsum.bounds[plan.variables[einsum.name]]) for plan in self.loops)


def other_common_variables(spec: Spec, run: Sequence[str]) -> bool:
    """Whether Einsums of a run could be fused over anything but rows and columns of its result, or only some of them over rows."""
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
    """The variables of the result that the loops of a run step, fewer first; those that differ by names alone, once."""
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


def turn_plans(spec: Spec, run: Sequence[str], imperfect: bool, forms: WindowForms) -> Iterator[TurnPlan]:
    """All plans of a run with one or two loops, and with three where there are few, in which some loop makes windows: the search
    without them has all others. Raises TooManyCandidates at the end if there
    were too many over some ranks."""
    too_many, planned = False, functools.cache(functools.partial(window_plan, spec, run))
    leader = spec.info.einsums[run[-1]]
    inner = [spec.info.einsums[name].output for name in run[:-1]]
    for chosen in turn_variables(spec, run, forms):
        count = len(chosen)
        sizes = [[t for t in range(1, leader.bounds[v]) if imperfect or leader.bounds[v] % t == 0] for v in chosen]
        ways = math.prod(map(len, sizes)) * (count + 1) ** len(inner)
        if ways > (MOST_DEEP_PLANS if count > 2 else MOST_WAYS):
            too_many = too_many or count <= 2
            continue
        for tiles in itertools.product(*sizes):
            for levels in itertools.product(range(count + 1), repeat=len(inner)):
                plan = _turn_plan(
                    planned, run, tuple(zip(chosen, tiles, strict=True)), dict(zip(inner, levels, strict=True))
                )
                if plan is not None and any(is_window(loop, t) for loop in plan.loops for t in inner):
                    yield plan
    if too_many:
        raise TooManyCandidates


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


def _makes_again(plan: TurnPlan) -> bool:
    return any(
        line.length > line.step and plan.levels[tensor] > k
        for k, loop in enumerate(plan.loops)
        for tensor, line in loop.windows.items()
    )


@dataclass
class TurnTables:
    """What was found so far, and how much more may be looked at."""

    rows: dict[object, TurnRows] = field(default_factory=dict)
    candidates_left: int = MOST_IN_ALL
    plans: int = 0
    """How many were searched."""


@dataclass
class TurnSearches:
    """Exact searches of runs. Tables that they have in common are made once."""

    spec: Spec
    options: Options
    forms: WindowForms
    kept_only: bool
    """Plans that make nothing again, or all others."""
    tables: TurnTables = field(default_factory=TurnTables)
    runs: int = 1
    """How many there are."""

    def best(
        self, part: Spec, bound: Callable[[TurnPlan], Least], promises: Callable[[Least], bool]
    ) -> Iterator[list[PartMapping]]:
        """The best mappings of a run, which is this part of the workload, for each plan whose bound promises something, the least
        bound first. Raises TooManyCandidates."""
        memories = exchange_memories(self.spec)
        if memories is None or len(memories) != 1:
            raise TooManyCandidates
        ((memory, size),) = memories.items()
        fitting, all_seen = self._fitting(part, size)
        bounded = [(least, plan) for plan in fitting if promises(least := bound(plan))]
        for least, plan in sorted(bounded, key=lambda pair: self.options.minimized.score_of(*pair[0][:2])):
            check()
            bits = self._exchanged_bits(part, plan, memory) if promises(least) else None
            if bits is not None and max(bits) <= size:
                self.tables.plans += 1
                if self.tables.plans > MOST_PLANS:
                    raise TooManyCandidates
                yield list(self._planned(part, plan, memory, size, bits))
        if not all_seen:
            raise TooManyCandidates

    def _fitting(self, part: Spec, size: float) -> tuple[list[TurnPlan], bool]:
        """Plans of a run for which there may be room; whether these are all."""
        fitting, looked_at = [], 0
        try:
            for plan in turn_plans(self.spec, tuple(part.info.einsums), self.options.imperfect, self.forms):
                check()
                if _makes_again(plan) == self.kept_only:
                    continue
                looked_at += 1
                if looked_at > max(LEAST_SHARE, MOST_LOOKED_AT // self.runs):
                    raise TooManyCandidates
                if plan.least_bits(part) <= size:
                    fitting.append(plan)
        except TooManyCandidates:
            return fitting, False
        return fitting, True

    def _exchanged_bits(self, part: Spec, plan: TurnPlan, memory: str) -> list[float] | None:
        """While each Einsum runs, what exchanged tensors take. None if the model says that the plan is wrong."""
        compute = computes(part.require_arch())[0]
        nests = {}
        for name in plan.einsums:
            bounds = part.info.einsums[name].bounds
            loops: list[Node] = [Temporal(rank_variable=v, tile_shape=1) for v, bound in bounds.items() if bound > 1]
            nests[name] = TurnNest(((),) * len(plan.loops), (*loops, Compute(einsum=name, component=compute)))
        try:
            parts = take_apart(part, turn_tree(part, plan, memory, nests))
        except FusiestError:
            return None
        if parts.warnings:
            return None
        return [
            sum(bits for (m, tensor), bits in held.items() if m == memory and tensor in plan.levels)
            for held in parts.held.per_einsum
        ]

    def _planned(
        self, part: Spec, plan: TurnPlan, memory: str, size: float, bits: Sequence[float]
    ) -> Iterator[PartMapping]:
        tables = [self._table(part, plan, name, memory) for name in plan.einsums]
        together = TurnsTogether(plan.common_loops(part), bits, size)
        for table in tables:
            together.add(table.costs)
        costs, rows = together.costs, together.rows
        for i in self._chosen(costs):
            nests = {name: table.nest(int(r)) for name, table, r in zip(plan.einsums, tables, rows[i], strict=True)}
            mapping = evaluated_mapping(part, turn_tree(part, plan, memory, nests))
            if mapping is not None:
                yield part_mapping(mapping, windows=True)

    def _chosen(self, costs: Floats) -> Ints:
        """The best row, or the front."""
        minimized = self.options.minimized
        if minimized.is_front:
            return pareto_rows(np.zeros(len(costs), np.int64), costs[:, :2])
        return best_rows(minimized, costs[:, 0], costs[:, 1])[:1]

    def _table(self, part: Spec, plan: TurnPlan, name: str, memory: str) -> TurnRows:
        loops = tuple(TurnLoop(p.variables[name], p.tiling(name), p.times) for p in plan.loops)
        accesses = part.info.einsums[name].accesses
        exchanged = frozenset(t for t in accesses if t in plan.levels)
        alone = frozenset(t for t in accesses if len(part.info.users[t]) == 1)
        stops = frozenset(plan.levels[t] for t in exchanged)
        key = name, loops, exchanged, stops, alone
        if key not in self.tables.rows:
            most = min(MOST_CANDIDATES, self.tables.candidates_left)
            asked = TurnsAsked(loops, memory, exchanged, stops, alone, self.options.imperfect, most)
            table = self.tables.rows[key] = turn_rows(part, name, asked)
            self.tables.candidates_left -= table.explored
        return self.tables.rows[key]


class TurnsTogether:
    """Rows of tables, one Einsum after the other, as far as they fit; those that nothing is better than."""

    def __init__(self, common: Ints, bits: Sequence[float], size: float) -> None:
        """`common`: in how many of the loops two Einsums take turns. `bits`: of exchanged tensors while each Einsum runs."""
        self.common, self.size = common, size
        self.costs: Floats = np.zeros((1, 2))
        self.rows: Ints = np.empty((1, 0), np.int64)
        self.loads: Floats = np.array([bits], np.float64)
        """Bits while each Einsum runs."""

    def add(self, table: Floats) -> None:
        """The next Einsum, with each row of its table. Others see what it reserves above loops in which they take turns."""
        if len(self.costs) * len(table) > MOST_ROWS:
            raise TooManyCandidates
        number = self.rows.shape[1]
        i, j = np.repeat(np.arange(len(self.costs)), len(table)), np.tile(np.arange(len(table)), len(self.costs))
        reserved = np.column_stack([np.zeros(len(table)), table[:, 2:]])
        depth = self.common[number].copy()
        depth[number] = reserved.shape[1] - 1
        loads = self.loads[i] + reserved[j][:, depth]
        fits = np.flatnonzero((loads <= self.size).all(axis=1))
        i, j, loads = i[fits], j[fits], loads[fits]
        costs = self.costs[i] + table[j, :2]
        best = pareto_rows(np.zeros(len(i), np.int64), np.column_stack([costs, *self._compared(loads, number)]))
        self.costs, self.loads = costs[best], loads[best]
        self.rows = np.column_stack([self.rows[i[best]], j[best]])

    def _compared(self, loads: Floats, last: int) -> list[Floats]:
        """Loads of Einsums to come, and the most of those before that will see the same."""
        groups: dict[bytes, Floats] = {}
        for einsum in range(len(self.common)):
            new = self.common[einsum, last + 1 :] if einsum <= last else self.common[einsum, : last + 1]
            key = bytes([einsum <= last]) + new.tobytes()
            groups[key] = np.maximum(groups[key], loads[:, einsum]) if key in groups else loads[:, einsum]
        return list(groups.values())


def turn_tree(spec: Spec, plan: TurnPlan, memory: str, nests: dict[str, TurnNest]) -> LoopTree:
    """The mapping: common loops with holders among them, and a branch for each Einsum."""
    nodes: list[Node] = list(off_chip(spec, plan.einsums, plan.levels.keys()))
    for number in range(len(plan.loops) + 1):
        nodes += [Storage(tensors=(t,), component=memory) for t, level in plan.levels.items() if level == number]
        if number < len(plan.loops):
            nodes += [node for nest in nests.values() for node in nest.above[number]]
            nodes.append(window_loop(plan.loops[number]))
    branches = tuple(Nested(nodes=nest.inside) for nest in nests.values())
    return LoopTree(nodes=(*nodes, Sequential(nodes=branches)))
