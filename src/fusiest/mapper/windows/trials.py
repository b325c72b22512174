"""Trials of plans of windows: each is searched as a spec without windows, written back, and evaluated by the model.

Searches and evaluations are remembered: plans that only retain tensors are tried before those that recompute some, and
a mapping found for the former may be as good for the latter.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from fusiest.base.errors import SpecError
from fusiest.looptree import LoopTree
from fusiest.mapper.options import Options
from fusiest.mapper.part_mappings import PartMapping, allowed_mapping, objective_of_parts, part_mapping
from fusiest.mapper.results.result import Mapping
from fusiest.mapper.windows.interleaving_plans import KnownTurns
from fusiest.mapper.windows.neighbours import RunJoins
from fusiest.mapper.windows.promises import Worth
from fusiest.mapper.windows.shared_tables import WindowTables
from fusiest.mapper.windows.unrolled import FirstCut, rolled, unrolled
from fusiest.mapper.windows.window_bounds import Relaxation
from fusiest.mapper.windows.window_plans import WindowPlan
from fusiest.pmapping import NoMapping, Table, large_enough, shared_memories
from fusiest.spec import Spec, part_of

MOST_FUSED_LOOPS = 2
"""Most fused loops of an Einsum in a chain: the one that makes windows, and another."""
_ALIKE = 1.01
"""Largest ratio of a written mapping's energy to the searched one's for which no further search is made."""
Found = TypeVar("Found")
TableSearch: TypeAlias = Callable[[Spec, Options, dict[str, Table]], list[Mapping]]
"""A search for the best mappings of a spec. It is given known tables, and adds those that it explores."""


class FoundTree(NamedTuple):
    """A mapping as a search found it, with its costs by the search."""

    looptree: LoopTree
    energy: float
    latency: float


class WindowSearches(NamedTuple):
    """Searches of specs without windows."""

    exact: TableSearch
    quick: Callable[[Spec, Options, dict[str, Table]], list[FoundTree]]
    """Finds mappings by a look at few rows."""
    relaxed: Relaxation
    joined: RunJoins
    tables: dict[str, Table] | None = None
    """Complete tables of the whole workload."""
    turns: KnownTurns | None = None
    """Known tables below shared loops, to be added to."""


class PlanTrials:
    """Searches of plans as specs, and of parts of the workload without windows."""

    def __init__(self, spec: Spec, options: Options, searches: WindowSearches, begin: float) -> None:
        """`begin`: from when on a time limit counts."""
        self.spec, self.options, self.searches, self.begin = spec, options, searches, begin
        self.tables = WindowTables(spec, self.inner(True), searches.tables or {})
        self.part_of = functools.cache(functools.partial(part_of, spec))
        self.found: dict[tuple[WindowPlan, bool], list[FoundTree]] = {}
        """By plan, and whether for all sizes of a memory."""
        self.evaluated: dict[LoopTree, PartMapping | None] = {}

    def best(self, searched: Iterable[WindowPlan], wanted: Sequence[WindowPlan], worth: Worth) -> Iterator[PartMapping]:
        """Find mappings for some plans of a chain over one rank, and write each with the windows of every wanted plan.

        A plan that retains tensors is searched as if its first window were like the others. A plan that recomputes them
        has windows that are all as long as the first. So either search may find the mapping that is best for the other
        plan.
        """
        for plan in searched if wanted else ():
            mappings = [found for found in self._unrolled(plan, for_all_sizes=False) if worth(plan, *found[1:])]
            written = list(self._written_all(mappings, wanted))
            yield from written
            least, best = (min((m.energy for m in group), default=np.inf) for group in (mappings, written))
            if plan.kept and best > least * _ALIKE:
                of_all_sizes = self._unrolled(plan, for_all_sizes=True)
                yield from self._written_all([found for found in of_all_sizes if worth(plan, *found[1:])], wanted)

    def plain(self, part: Spec) -> list[Mapping]:
        """Find the best mappings of a part without windows."""
        try:
            return self._find(part, self.inner(False), self.searches.exact, True)
        except SpecError:  # too large to search
            return []

    def inner(self, whole: bool) -> Options:
        """Options for the workload, or for a part of it."""
        objective = self.options.objective if whole else objective_of_parts(self.options)
        limit = self.options.time_limit
        seconds = None if limit is None else max(1.0, self.begin + limit - time.perf_counter())
        return dataclasses.replace(self.options, objective=objective, windows="none", time_limit=seconds)

    def _written_all(self, mappings: list[FoundTree], plans: Sequence[WindowPlan]) -> Iterator[PartMapping]:
        """Write each mapping with the windows of each plan. A single objective stops once no better one can follow."""
        objective, best = self._options(plans[0]).minimized, np.inf

        def score(costed: FoundTree | PartMapping) -> float:
            return objective.score_of(costed.energy, costed.latency)

        for mapping in sorted(mappings, key=score):
            if not objective.is_front and score(mapping) >= best:
                break
            for written in self._written(mapping, plans):
                best = min(best, score(written))
                yield written

    def _written(self, mapping: FoundTree, plans: Sequence[WindowPlan]) -> Iterator[PartMapping]:
        """Write the mapping with the windows of each plan, if it is right."""
        cuts: tuple[FirstCut, ...] = ("outside", "inside", "not")
        trees = (rolled(mapping.looptree, plan, cut) for plan, cut in itertools.product(plans, cuts))
        for tree in dict.fromkeys(trees):
            if tree is not None and tree not in self.evaluated:
                cost = allowed_mapping(self.part_of(plans[0].einsums), tree, self.options.imperfect)
                self.evaluated[tree] = None if cost is None else part_mapping(cost, windows=True)
            part = None if tree is None else self.evaluated[tree]
            if part is not None:
                yield part

    def _options(self, plan: WindowPlan) -> Options:
        return self.inner(len(plan.einsums) == len(self.spec.info.einsums))

    def _unrolled(self, plan: WindowPlan, for_all_sizes: bool) -> list[FoundTree]:
        """Search a plan as a spec. For all sizes of a memory: retained tensors need more space than the search knows."""
        key = plan, for_all_sizes
        if key not in self.found:
            options = self._options(plan)
            part = unrolled(self.spec, plan, only_turns=for_all_sizes)
            if for_all_sizes:
                memories: list[str | None] = [m for m in shared_memories(part) if m not in large_enough(part)]
                options = dataclasses.replace(options, usage=(memories or [None])[-1])
            else:
                loops = options.max_fused_loops
                loops = MOST_FUSED_LOOPS if loops is None else min(loops, MOST_FUSED_LOOPS)
                options = dataclasses.replace(options, max_fused_loops=loops)
            try:
                self.found[key] = self._find(part, options, self.searches.quick, False)
            except SpecError:  # too large to search
                self.found[key] = []
        return self.found[key]

    def _find(
        self,
        spec: Spec,
        options: Options,
        search: Callable[[Spec, Options, dict[str, Table]], list[Found]],
        exact: bool,
    ) -> list[Found]:
        try:
            tables = self.tables.remembered(spec, options, exact)
            found = search(spec, options, tables)
            self.tables.keep(spec, options, tables, exact)
            return found
        except NoMapping:
            return []
