"""Interleaved chains of Einsums that share one to three windowed loops, and nothing else: searched exactly.

For each plan, each Einsum has a table of its pmappings below the shared loops (`pmapping/interleaved`). The parts of
its space that others see add up; the rest is there only while it runs. So tables are combined one by one, and dominated
rows are dropped.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fusiest.base.errors import FusiestError
from fusiest.base.frozen import FrozenDict
from fusiest.base.interrupt import check
from fusiest.base.objective import IMPOSSIBLE, Least
from fusiest.looptree import Compute, LoopTree, Nested, Node, Sequential, Storage, Temporal
from fusiest.mapper.candidates import best_rows
from fusiest.mapper.options import Options
from fusiest.mapper.part_mappings import PartMapping, allowed_mapping, off_chip, part_mapping
from fusiest.mapper.windows.interleaving_plans import (
    MOST_LOOPS,
    KnownTurns,
    TurnLimits,
    TurnPlan,
    TurnWays,
    makes_again,
)
from fusiest.mapper.windows.symmetric import WindowForms
from fusiest.mapper.windows.unrolled import window_loop
from fusiest.model import take_apart
from fusiest.pmapping import (
    Branch,
    Floats,
    FusedLoop,
    Ints,
    OpenRates,
    TooManyCandidates,
    TurnLoop,
    TurnNest,
    TurnRows,
    TurnsAsked,
    exchange_memories,
    pareto_rows,
    turn_rows,
)
from fusiest.spec import Memory, Spec, flatten, paths_of

MOST_CANDIDATES = 200_000
"""Most candidates of one Einsum below given loops; with more, the plan is left to be tried as a spec."""
MOST_IN_ALL = 4_000_000
"""Most candidates of all searches together."""
MOST_PLANS = 400
"""Most plans that are searched, of those for which there is room."""
MOST_LOOKED_AT = 10_000
"""Most plans that are tested for room: an equal share for each chain, but no less than the next number."""
LEAST_SHARE = 100
MOST_ROWS = 2_000_000
"""Most combinations of two tables."""
MOST_FAILED = 6
"""Tables with too many candidates after which no more plans are searched."""


@dataclass
class TurnTables:
    """Tables found so far, and what remains of the search's limits."""

    rates: frozenset[str] = frozenset()
    """Memories whose throughputs tables leave open, so that they hold for other throughputs, too."""
    known: KnownTurns = field(default_factory=KnownTurns)
    """Tables of this search and others."""
    rows: dict[object, TurnRows] = field(default_factory=dict)
    """Tables of this search, with its throughputs."""
    failed: dict[tuple[str, int], int] = field(default_factory=dict)
    """By Einsum and number of loops, the smallest windows below which there were too many candidates."""
    failures: int = 0
    candidates_left: int = MOST_IN_ALL
    plans: int = 0
    """Number of plans searched."""

    @property
    def is_over(self) -> bool:
        """Whether a limit is reached."""
        return self.plans >= MOST_PLANS or self.candidates_left <= 0 or self.failures >= MOST_FAILED

    def renewed(self) -> TurnTables:
        """Keep the tables, and start the limits anew."""
        return replace(self, candidates_left=MOST_IN_ALL, plans=0)

    def find(self, key: object, explore: Callable[[], TurnRows], most: int) -> TurnRows:
        """Find or explore a table; it counts as explored either way, so that a search does not depend on others."""
        known = self.known.rows
        if key not in known:
            known[key] = explore()
        table = known[key]
        if table.explored > most:
            raise TooManyCandidates
        self.candidates_left -= table.explored
        return table

    def fail(self, plan: TurnPlan, einsum: str) -> None:
        """Note that an Einsum had too many candidates."""
        size, key = window_size(plan, einsum), (einsum, len(plan.loops))
        self.failures += 1
        self.failed[key] = min(size, self.failed.get(key, size))

    def has_failed(self, run: Sequence[str]) -> bool:
        """Whether an Einsum of a chain had too many candidates."""
        return any(einsum in run for einsum, _ in self.failed)

    def too_large(self, plan: TurnPlan) -> bool:
        """Whether one of its Einsums had too many candidates in windows that are no larger."""
        loops = len(plan.loops)
        failed = ((name, self.failed[name, loops]) for name in plan.einsums if (name, loops) in self.failed)
        return any(window_size(plan, name) >= size for name, size in failed)


@dataclass
class PlansLeft:
    """Plans of a chain that may be better and were not searched."""

    plans: int = 0
    least: Least = IMPOSSIBLE
    """Lower bound on the cost of all Einsums with one of them."""

    def add(self, plans: int, least: Least) -> None:
        """Add plans."""
        self.plans, self.least = self.plans + plans, self.least | least


@dataclass
class TurnSearches:
    """Exact searches of chains. Common tables are made once."""

    spec: Spec
    options: Options
    forms: WindowForms
    kept_only: bool | None
    """Search plans that recompute nothing (True), all others (False), or both (None)."""
    tables: TurnTables = field(default_factory=TurnTables)
    runs: int = 1
    """Number of chains."""

    def ways(self, run: Sequence[str]) -> list[TurnWays]:
        """All choices of variables for a chain."""
        most = self.options.max_fused_loops
        limits = TurnLimits(MOST_LOOPS if most is None else min(most, MOST_LOOPS), self.options.imperfect)
        return self.tables.known.ways_of(self.spec, tuple(run), self.forms, limits)

    def best(
        self, part: Spec, bound: Callable[[TurnPlan | None], Least], promises: Callable[[Least], bool], left: PlansLeft
    ) -> Iterator[list[PartMapping]]:
        """The best mappings of a chain, which is this part of the workload, for each promising plan by bound.

        Plans that are too many are noted in `left`, at the bound of any plan or of the next one.
        """
        memories = exchange_memories(self.spec)
        if memories is None or len(memories) != 1:
            left.add(sum(ways.plans for ways in self.ways(tuple(part.info.einsums))), bound(None))
            return
        ((memory, size),) = memories.items()
        fitting, unseen = self._fitting(part, size)
        if unseen:
            left.add(unseen, bound(None))
        bounded = [(least, plan) for plan in fitting if promises(least := bound(plan))]
        bounded.sort(key=lambda pair: self.options.minimized.score_of(*pair[0][:2]))
        for number, (least, plan) in enumerate(bounded):
            check()
            if not promises(least):
                continue
            if self.tables.is_over:
                left.add(sum(promises(least) for least, _ in bounded[number:]), least)
                return
            if self.tables.too_large(plan):
                left.add(1, least)
                continue
            bits = self._exchanged_bits(part, plan, memory)
            if bits is None or max(bits) > size:
                continue
            try:
                self.tables.plans += 1
                parts = self._planned(part, plan, memory, size, bits)
            except TooManyCandidates:
                left.add(1, least)
                continue
            if None in parts:  # found, and the model does not agree: others of this plan were not looked at
                left.add(1, least)
            yield [found for found in parts if found is not None]

    def _fitting(self, part: Spec, size: float) -> tuple[list[TurnPlan], int]:
        """Plans of a chain for which there may be room, and about how many were not tested (some without windows)."""
        fitting, looked_at, unseen = list[TurnPlan](), 0, 0
        run = tuple(part.info.einsums)
        if self.tables.is_over:
            return [], sum(ways.plans for ways in self.ways(run) if ways.are_asked_for)
        most = max(LEAST_SHARE, MOST_LOOKED_AT // self.runs)
        for ways in self.ways(run):
            if not ways.are_few or looked_at >= most:
                unseen += ways.plans if ways.are_asked_for else 0
                continue
            for number, plan in enumerate(self.tables.known.plans_of(self.spec, run, ways)):
                check()
                if makes_again(plan) == self.kept_only:
                    continue
                if looked_at == most:
                    unseen += ways.plans - number if ways.are_asked_for else 0
                    break
                looked_at += 1
                if plan.least_bits(part) <= size:
                    fitting.append(plan)
        return fitting, unseen

    def _exchanged_bits(self, part: Spec, plan: TurnPlan, memory: str) -> list[float] | None:
        """Bits of exchanged tensors while each Einsum runs. None if the model says that the plan is wrong."""
        known = self.tables.known.bits
        if plan not in known:
            known[plan] = self._count_exchanged_bits(part, plan, memory)
        return known[plan]

    def _count_exchanged_bits(self, part: Spec, plan: TurnPlan, memory: str) -> list[float] | None:
        nests = {}
        for name in plan.einsums:
            bounds = part.info.einsums[name].bounds
            loops: list[Node] = [Temporal(rank_variable=v, tile_shape=1) for v, bound in bounds.items() if bound > 1]
            compute = next(path for path in paths_of(part, name) if path.runs).compute.name
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
    ) -> list[PartMapping | None]:
        """The best mappings of a plan; None for a mapping that the model does not confirm."""
        tables, together = self._together(part, plan, memory, size, bits)
        found: list[PartMapping | None] = []
        for i in self._chosen(together.costs):
            picked = zip(plan.einsums, tables, together.rows[i], strict=True)
            nests = {name: table.nest(int(r)) for name, table, r in picked}
            mapping = allowed_mapping(part, turn_tree(part, plan, memory, nests), self.options.imperfect)
            found.append(None if mapping is None else part_mapping(mapping, windows=True))
        return found

    def _together(
        self,
        part: Spec,
        plan: TurnPlan,
        memory: str,
        size: float,
        bits: Sequence[float],
        ends: frozenset[str] = frozenset(),
    ) -> tuple[list[TurnRows], TurnsTogether]:
        """Pareto-optimal rows of all Einsums of a plan. `ends`: tensors shared with others, and on chip."""
        if self.tables.too_large(plan):
            raise TooManyCandidates
        tables = [self._table(part, plan, name, memory, ends) for name in plan.einsums]
        together = TurnsTogether(plan.common_loops(part), bits, size)
        for table in tables:
            together.add(table.costs)
        return tables, together

    def with_ends(self, part: Spec, plan: TurnPlan, ends: frozenset[str], room: float) -> TurnsFound | None:
        """Rows of a chain by a plan, with tensors at its ends on chip whole, and this much room beside them.

        None if there are too many candidates, or no room.
        """
        ((memory, _),) = (exchange_memories(self.spec) or {}).items()
        bits = self._exchanged_bits(part, plan, memory)
        if bits is None or max(bits) > room:
            return None
        try:
            tables, together = self._together(part, plan, memory, room, bits, ends)
        except TooManyCandidates:
            return None
        return TurnsFound(self.spec, plan, memory, ends, tuple(tables), together)

    def plans(self, part: Spec, room: float) -> list[TurnPlan]:
        """Plans of a run that may fit."""
        return self._fitting(part, room)[0]

    def _chosen(self, costs: Floats) -> Ints:
        """The best row, or the front."""
        minimized = self.options.minimized
        if minimized.is_front:
            return pareto_rows(np.zeros(len(costs), np.int64), costs[:, :2])
        return best_rows(minimized, costs[:, 0], costs[:, 1])[:1]

    @functools.cached_property
    def _levels_matter(self) -> bool:
        """Whether constraints depend on where each exchanged tensor stands among the loops.

        Else it matters only how many loops are above some of them.
        """
        nodes = flatten(self.spec.require_arch().nodes)
        tensors = [node.tensors for node in nodes if isinstance(node, Memory)]
        return any(t.no_fused_loops or t.no_refetch_from_above or t.no_resend_to_below for t in tensors)

    def _table(self, part: Spec, plan: TurnPlan, name: str, memory: str, ends: frozenset[str]) -> TurnRows:
        loops = tuple(TurnLoop(p.variables[name], p.tiling(name), p.times) for p in plan.loops)
        accesses = part.info.einsums[name].accesses
        levels = FrozenDict({t: plan.levels.get(t, 0) for t in accesses if t in plan.levels or t in ends})
        alone = frozenset(t for t in accesses if len(part.info.users[t]) == 1)
        known_by = levels if self._levels_matter else (frozenset(levels), frozenset(levels.values()))
        key = name, loops, known_by, alone, bool(ends)
        if key not in self.tables.rows:  # in the part alone, nothing at its ends may be on chip
            most, rates = min(MOST_CANDIDATES, self.tables.candidates_left), self.tables.rates
            asked = TurnsAsked(loops, memory, levels, alone, self.options.imperfect, most, rates)
            try:
                table = self.tables.find(key, lambda: turn_rows(self.spec if ends else part, name, asked), most)
            except TooManyCandidates:
                self.tables.fail(plan, name)
                raise
            self.tables.rows[key] = table.settled(OpenRates.of(self.spec, name, rates))
        return self.tables.rows[key]


@dataclass(frozen=True)
class TurnsFound:
    """Rows of a chain by one plan, as those of a pmapping."""

    spec: Spec
    plan: TurnPlan
    memory: str
    ends: frozenset[str]
    """Tensors that the chain shares with others, which stay on chip."""
    tables: tuple[TurnRows, ...]
    together: TurnsTogether

    def branch(self, row: int, tiles: dict[FusedLoop, int]) -> Branch:
        """Write a row as one branch of a mapping."""
        rows = self.together.rows[row]
        nests = {n: table.nest(int(r)) for n, table, r in zip(self.plan.einsums, self.tables, rows, strict=True)}
        top = tuple(off_chip(self.spec, self.plan.einsums, self.plan.levels.keys() | self.ends))
        between = ((Storage(tensors=(t,), component=self.memory), frozenset[FusedLoop]()) for t in sorted(self.ends))
        return Branch(top, tuple(between), turn_nodes(self.plan, self.memory, nests))


class TurnsTogether:
    """Combined rows of tables, one Einsum after the other, as far as they fit: the Pareto set."""

    def __init__(self, common: Ints, bits: Sequence[float], size: float) -> None:
        """`common`: in how many of the loops two Einsums take turns. `bits`: of exchanged tensors while each Einsum runs."""
        self.common, self.size = common, size
        self.costs: Floats = np.zeros((1, 2))
        self.rows: Ints = np.empty((1, 0), np.int64)
        self.loads: Floats = np.array([bits], np.float64)
        """Bits while each Einsum runs."""

    def add(self, table: Floats) -> None:
        """Add the next Einsum, with each row of its table.

        Others see its reservations above loops in which they are interleaved with it.
        """
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
        """Criteria of space: loads of remaining Einsums, and the largest of earlier ones that will see the same."""
        groups: dict[bytes, Floats] = {}
        for einsum in range(len(self.common)):
            new = self.common[einsum, last + 1 :] if einsum <= last else self.common[einsum, : last + 1]
            key = bytes([einsum <= last]) + new.tobytes()
            groups[key] = np.maximum(groups[key], loads[:, einsum]) if key in groups else loads[:, einsum]
        return list(groups.values())


def window_size(plan: TurnPlan, einsum: str) -> int:
    """Elements of a window: the product of an Einsum's tiles in all loops."""
    return math.prod(loop.tiling(einsum).tile for loop in plan.loops)


def turn_tree(spec: Spec, plan: TurnPlan, memory: str, nests: dict[str, TurnNest]) -> LoopTree:
    """Write the mapping: shared loops with storage nodes among them, and a branch for each Einsum."""
    return LoopTree(nodes=(*off_chip(spec, plan.einsums, plan.levels.keys()), *turn_nodes(plan, memory, nests)))


def turn_nodes(plan: TurnPlan, memory: str, nests: dict[str, TurnNest]) -> tuple[Node, ...]:
    """Write the mapping without storage nodes off chip."""
    nodes: list[Node] = []
    for number in range(len(plan.loops) + 1):
        nodes += [Storage(tensors=(t,), component=memory) for t, level in plan.levels.items() if level == number]
        if number < len(plan.loops):
            nodes += [node for nest in nests.values() for node in nest.above[number]]
            nodes.append(window_loop(plan.loops[number]))
    branches = tuple(Nested(nodes=nest.inside) for nest in nests.values())
    return (*nodes, Sequential(nodes=branches))
