"""Chains with windows, joined with their neighbours as pmappings are: shared tensors may stay on chip.

Each chain is one Einsum of a shorter workload (`spec.merged`), which uses the chain's inputs and makes its outputs. Its
pmappings are the mappings found for its plans, with each such tensor off chip, or whole in the memory where tensors are
exchanged. So the search without windows puts it between the others, in the best order.
"""

from __future__ import annotations

import concurrent.futures
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from fusiest.base.collector import collected_after
from fusiest.base.errors import SpecError
from fusiest.base.interrupt import check
from fusiest.base.objective import Least
from fusiest.looptree import LoopTree
from fusiest.mapper.candidates import Candidate
from fusiest.mapper.options import Options
from fusiest.mapper.part_mappings import allowed_mapping
from fusiest.mapper.results.result import Mapping
from fusiest.mapper.search import Search, SearchSettings
from fusiest.mapper.tables import Explorer, grouped, make_explorer, question_of
from fusiest.mapper.windows.interleaving_plans import KnownTurns, TurnPlan
from fusiest.mapper.windows.interleavings import TurnSearches, TurnsFound
from fusiest.mapper.windows.shared_tables import table_keys
from fusiest.mapper.windows.window_plans import is_too_long
from fusiest.pmapping import (
    Backing,
    Compatibility,
    Floats,
    Ints,
    NoMapping,
    Question,
    Rows,
    Table,
    exchange_memories,
    meeting_memories,
    merge_rows,
    with_rates,
)
from fusiest.spec import Spec, memory_names, merged, part_of, paths_of

MOST_JOINED_PLANS = 8
"""Most plans of a chain: those with the least bounds."""
MOST_ENDS = 3
"""Most tensors that a chain may share with others to keep them on chip."""

RunSet: TypeAlias = tuple[tuple[str, ...], ...]
RunTables: TypeAlias = Callable[[tuple[str, ...]], dict[str, Table]]
"""Makes the tables of chains, given the memories that tables count."""
RunJoins: TypeAlias = Callable[[Spec, Options, RunTables, bool], list[LoopTree]]
"""A search for the best mappings of a workload with chains in it, given their tables; or for good ones, by a look."""


class RunsJoined:
    """Tables of runs in which tensors at their ends may stay on chip."""

    def __init__(self, searches: TurnSearches, bound: Callable[[tuple[str, ...], TurnPlan], Least]) -> None:
        self.spec, self.searches, self.bound = searches.spec, searches, bound
        ((self.memory, self.size),) = (exchange_memories(self.spec) or {}).items()

    def can_be_joined(self, run: Sequence[str]) -> bool:
        """Whether a chain shares a few tensors with others, none of them persistent, and no Einsum runs several times."""
        infos, ends = [self.spec.info.einsums[name] for name in run], self._ends(run)
        plain = all(info.n_instances == 1 and not info.persistent & set(ends) for info in infos)
        return plain and 0 < len(ends) <= MOST_ENDS

    def best(self, runs: RunSet, options: Options, search: RunJoins) -> list[Mapping]:
        """The best mappings with these chains that the model confirms; in long workloads good ones.

        Chains that have no room for any plan are left out.
        """
        made: dict[tuple[str, ...], Table] = {}

        def tables(memories: tuple[str, ...]) -> dict[str, Table]:
            made.update({run: self.table(run, memories) for run in runs})
            return {run[-1]: table for run, table in made.items()}

        try:
            trees = search(merged(self.spec, runs), options, tables, is_too_long(self.spec))
        except (NoMapping, SpecError):  # nothing fits, or a name means nothing without the Einsums inside
            return []
        roomy = tuple(run for run, table in made.items() if len(table))
        if roomy and len(roomy) < len(runs):
            return self.best(roomy, options, search)
        found = (allowed_mapping(self.spec, tree, options.imperfect) for tree in trees)
        return [mapping for mapping in found if mapping is not None]

    def table(self, run: tuple[str, ...], memories: tuple[str, ...]) -> Table:
        """Make the table of a chain from its most promising plans."""
        part = part_of(self.spec, run)
        plans = sorted(self.searches.plans(part, self.size), key=lambda plan: self._score(run, plan))[
            :MOST_JOINED_PLANS
        ]
        found: dict[Compatibility, list[Rows]] = {}
        origins: list[TurnsFound] = []
        for ends in _subsets(self._ends(run)):
            room = self.size - sum(self._bits(run, tensor) for tensor in ends)
            for plan in plans if room >= 0 else ():
                check()
                turns = self.searches.with_ends(part, plan, ends, room)
                if turns is not None and len(turns.together.costs):
                    rows = _rows(turns, memories, len(origins))
                    found.setdefault(self._compatibility(run, ends), []).append(rows)
                    origins.append(turns)
        groups = {compatibility: merge_rows(parts) for compatibility, parts in found.items()}
        return Table(run[-1], memories, groups, list(origins))

    def _score(self, run: tuple[str, ...], plan: TurnPlan) -> float:
        return self.searches.options.minimized.score_of(*self.bound(run, plan)[:2])

    def _ends(self, run: Sequence[str]) -> list[str]:
        """Tensors that a chain shares with others."""
        used = dict.fromkeys(t for name in run for t in self.spec.info.einsums[name].accesses)
        return [t for t in used if not set(self.spec.info.users[t]) <= set(run)]

    def _bits(self, run: Sequence[str], tensor: str) -> float:
        """Bits of a whole tensor, as far as some Einsum of the run uses it."""
        most = 0.0
        for info in (self.spec.info.einsums[name] for name in run):
            if tensor in info.accesses:
                length = math.prod(a.length(info.bounds) for a in info.accesses[tensor].ranks.values())
                memories = (c for path in paths_of(self.spec, info.name) for c in path.components)
                most = max(most, *(length * c.bits_per_value[tensor] for c in memories if c.name == self.memory))
        return most

    def _compatibility(self, run: Sequence[str], ends: frozenset[str]) -> Compatibility:
        outermost = memory_names(self.spec.require_arch())[0]
        backings = (Backing(t, self.memory if t in ends else outermost, 0) for t in sorted(self._ends(run)))
        return Compatibility((), tuple(backings))


def run_joins(
    executor: concurrent.futures.Executor | None, all_orders: bool, known: KnownTurns | None = None
) -> RunJoins:
    """Make the search of workloads with chains in them. `all_orders`: of Einsums, not only the given one.

    `known`: tables for other throughputs; explored ones are added.
    """
    explored: dict[object, Table] = {}

    @collected_after
    def joined(spec: Spec, options: Options, make: RunTables, quickly: bool) -> list[LoopTree]:
        question = replace(question_of(options), usage=True)  # what runs take inside counts everywhere
        tables = make(meeting_memories(spec, question.usage, question.ample(spec)))
        if not all(len(table) for table in tables.values()):
            return []
        explorer = make_explorer(spec, options, executor, lambda step: None)
        firsts = explorer.representative.items()  # runs are like no other Einsum, whatever they look like
        own = {name: name if {name, first} & tables.keys() else first for name, first in firsts}
        explorer = replace(explorer, representative=own)
        keys = {name: key for name, key in table_keys(spec, question, options.finished).items() if name not in tables}
        tables |= {name: explored[key] for name, key in keys.items() if key in explored}
        if known is not None and known.rates:
            tables |= _settled(explorer, question, known, tables)
        tables = explorer.explore(question, known=tables).complete()
        explored.update({key: tables[name] for name, key in keys.items() if name in tables})
        problem = grouped(spec, options, explorer.named(tables))
        search = Search(problem, SearchSettings(options, all_orders))
        if quickly:
            search.look()
        else:
            search.run()
        found = [candidate for candidate in search.candidates and search.best() if isinstance(candidate, Candidate)]
        return [candidate.tree() for candidate in found]

    return joined


def _settled(explorer: Explorer, question: Question, known: KnownTurns, explored: dict[str, Table]) -> dict[str, Table]:
    """Tables made from others that leave the throughputs of memories open: known ones, and newly explored ones."""
    question = replace(question, rates=known.rates)
    keys = table_keys(explorer.spec, question, question.finished)
    missing = explorer.missing(explored)
    tables = explored | {name: known.tables[keys[name]] for name in missing if keys[name] in known.tables}
    tables = explorer.explore(question, known=tables).complete()
    opened = {name: tables[name] for name in missing if name in tables}
    known.tables.update({keys[name]: table for name, table in opened.items()})
    return {name: with_rates(explorer.spec, table, known.rates) for name, table in opened.items()}


def _subsets(tensors: Sequence[str]) -> Iterator[frozenset[str]]:
    for count in range(len(tensors) + 1):
        yield from map(frozenset, itertools.combinations(tensors, count))


def _rows(turns: TurnsFound, memories: tuple[str, ...], origin: int) -> Rows:
    costs, loads = turns.together.costs, turns.together.loads
    count = len(costs)
    bits: Floats = np.zeros((count, len(memories), 1))
    if turns.memory in memories:
        bits[:, memories.index(turns.memory), 0] = loads.max(axis=1)
    numbers: Ints = np.arange(count)
    return Rows(
        np.empty((count, 0), np.int64), costs[:, 0], costs[:, 1], bits, np.full(count, origin), numbers,
        np.zeros((count, len(memories))),
    )  # fmt: skip
