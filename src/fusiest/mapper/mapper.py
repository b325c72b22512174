"""The mapper in one chain: explore → group → first pass → bounds → exact pass → trace → check."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as TypingMapping
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from fusiest.base import interrupt
from fusiest.base.collector import collected_after, collector_paused
from fusiest.base.errors import FusiestError, InternalError, InvalidMapping, OutOfMemory, SpecError, did_you_mean
from fusiest.base.frozen import FrozenDict
from fusiest.joining import JoinProblem, KnownCosts
from fusiest.looptree import LoopTree, Temporal, einsums
from fusiest.mapper.anytime import (
    LEAST_SECONDS,
    Clock,
    Exploration,
    begun,
    easy_tables,
    explore_in_time,
    explore_least_first,
    look_in_time,
    look_quickly,
)
from fusiest.mapper.candidates import Candidate, KnownMapping
from fusiest.mapper.least.least_first import Fastest, applies
from fusiest.mapper.notebook_progress import notebook_progress
from fusiest.mapper.options import Options, documented, hinting
from fusiest.mapper.part_mappings import best_of
from fusiest.mapper.progress import Progress
from fusiest.mapper.resources import cpu_seconds, peak_rss_bytes, rss_bytes
from fusiest.mapper.results.result import Mapping, Result, Stats
from fusiest.mapper.search import Known, Proof, Search, SearchSettings
from fusiest.mapper.stacks.depth_first import depth_first
from fusiest.mapper.tables import Explorer, grouped, make_explorer, question_of
from fusiest.mapper.warm_start import SizeFront, search_front, search_near
from fusiest.mapper.why_no_mapping import why_not_joined
from fusiest.mapper.windows.interleaving_plans import KnownTurns
from fusiest.mapper.windows.neighbours import run_joins
from fusiest.mapper.windows.trials import FoundTree, WindowSearches
from fusiest.mapper.windows.window_bounds import can_have_windows, relaxation, usual_windows
from fusiest.mapper.windows.with_windows import with_windows
from fusiest.model import evaluate, fused_sets
from fusiest.pmapping import COARSE, NoMapping, Table, compile_ahead, shared_memories, sizes_by_einsum
from fusiest.spec import Spec, without_energy

MOST_DOWN_SETS = 10_000


class Prior(NamedTuple):
    """Results of other searches, and containers for results that others will use."""

    tables: TypingMapping[str, Table] = FrozenDict()
    """Known tables by Einsum."""
    start: Sequence[LoopTree] = ()
    """Mappings to begin with, which may be good; invalid ones are ignored."""
    shared: bool = False
    """Whether other searches use the tables, too. They must then have all pmappings, not only those that can beat this
    search's incumbents."""
    watch: str = ""
    """A memory, to find the best mappings for smaller sizes of it, too, as far as they take little more time."""
    turns: KnownTurns | None = None
    """Tables of Einsums below windowed loops, for specs that differ only by throughputs of memories outside all
    fanouts; the search adds those that it explores."""
    fastest: Fastest | None = None
    """The least latency, if that is known: then the least energy of the fastest mappings is searched."""
    fast: KnownMapping | None = None
    """One of the fastest mappings."""


class Found(NamedTuple):
    """A result, and tables that other searches may use."""

    result: Result
    tables: TypingMapping[str, Table] = FrozenDict()
    """Tables by Einsum that have all pmappings, whatever mappings are known."""
    none: NoMapping | None = None
    """Why there is no mapping."""
    front: SizeFront | None = None
    """The best mappings for smaller sizes of the memory to watch; without points where that takes too long."""

    def checked(self) -> Found:
        """Itself; an error if there is no mapping."""
        if self.none is not None:
            raise self.none
        return self


@hinting
@documented
def map(
    spec: Spec,
    objective: tuple[str, ...] | str = ("energy", "latency"),
    *,
    usage: str | None = None,
    orders: str = "all",
    max_fused_loops: int | None = None,
    max_fused_loops_per_variable: int = 1,
    imperfect: bool = False,
    exchange: str = "finished",
    windows: str | None = None,
    jobs: int | None = None,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    coarse: bool = True,
    bounds: bool = True,
    grouping: bool = True,
    consolidation: bool = True,
    progress: Progress | Literal[False] | None = None,
    executor: concurrent.futures.Executor | None = None,
) -> Result:
    """All optimal fused mappings of a spec's workload on its architecture.

    OPTIONS
    `coarse`, `bounds`, `grouping`, `consolidation`: parts of the search, which change the time and never the result.
    `progress` hears of every step; by default, a notebook shows them; False: nobody.
    Any `concurrent.futures.Executor` can take the place of local processes.

    >>> from fusiest import load
    >>> spec = load("simple", "matmuls", N_EINSUMS=2, M=64, KN=64)
    >>> print(f"{map(spec, 'energy').best('energy').energy:.4g} J")
    4.459e-06 J
    """
    given = {name: value for name, value in locals().items() if name in Options.__dataclass_fields__}
    given["objective"] = tuple(objective.split(",")) if isinstance(objective, str) else tuple(objective)
    given["windows"] = windows if windows is not None else usual_windows(usage, exchange)
    options = Options(**given)
    if progress is not None:
        return run(spec, options, progress or None, executor)
    with notebook_progress() as line:
        return run(spec, options, line, executor)


def run(
    spec: Spec,
    options: Options,
    progress: Progress | None = None,
    executor: concurrent.futures.Executor | None = None,
    prior: Prior | None = None,
) -> Result:
    """Map with checked options, given the results of other searches.

    Ctrl-C ends the search with the mappings found so far, or with an exception if there is none.
    """
    return search_with(spec, options, progress, executor, prior).result


@collector_paused()
def search_with(
    spec: Spec,
    options: Options,
    progress: Progress | None = None,
    executor: concurrent.futures.Executor | None = None,
    prior: Prior | None = None,
) -> Found:
    """Map as `run` does, and give the tables of the search, too."""
    with interrupt.deferred():
        try:
            say: Progress = progress or (lambda step: None)
            prior = prior or Prior()
            if spec.dataflow is not None and spec.dataflow.depth_first is not None:
                part = collected_after(lambda part, options: _result(part, options, lambda step: None, executor))
                return Found(depth_first(spec, options, part, say))
            if options.processes > 1:
                compile_ahead()
            has_windows = can_have_windows(spec, options)
            found = (_run_with_windows if has_windows else _run)(spec, options, say, executor, prior).checked()
        except MemoryError:
            raise OutOfMemory(
                "out of memory before a mapping was known; --jobs 1, --orders given or a limit of --max-fused-loops takes less"
            ) from None
        if interrupt.taken():
            found = found._replace(result=replace(found.result, stopped="interrupt"))
    return found


def _run_with_windows(
    spec: Spec,
    options: Options,
    say: Progress,
    executor: concurrent.futures.Executor | None,
    prior: Prior,
) -> Found:
    """Search without halos first, then with them. A time limit can therefore only cost the improvement by halos."""
    begin, limit = time.perf_counter(), options.time_limit
    try:
        found = _run(spec, options, say, executor, prior)
    except NoMapping as error:
        found = Found(Result(spec, options.objective, [], False, 1.0, Stats()), prior.tables, error)
    result, tables = replace(found.result, options=options), dict(found.tables)
    if options.windows == "all":  # what to begin with may have windows
        start = (known.mapping for known in known_mappings(spec, options, prior.start))
        known = [*result.mappings, *(mapping for mapping in start if mapping is not None)]
        result = replace(result, mappings=best_of(known, options))
    if interrupt.taken():
        return found._replace(result=result)

    @collected_after
    def exact(part: Spec, part_options: Options, tables: dict[str, Table]) -> list[Mapping]:
        found = _run(part, part_options, lambda step: None, executor, Prior(tables))
        tables.update(found.tables)
        return found.checked().result.mappings

    @collected_after
    def quick(part: Spec, part_options: Options, tables: dict[str, Table]) -> list[FoundTree]:
        explorer = make_explorer(part, part_options, executor, lambda step: None)
        tables.update(explorer.explore(question_of(part_options), COARSE, tables).complete())
        if explorer.missing(tables):
            return []
        problem = grouped(part, part_options, explorer.named(tables))
        search = Search(problem, SearchSettings(part_options))
        search.run()
        found = [candidate for candidate in search.candidates and search.best() if isinstance(candidate, Candidate)]
        return [FoundTree(c.tree(), c.costs.energy, c.costs.latency) for c in found]

    relaxed = relaxation(executor, max(LEAST_SECONDS, result.stats.wall_seconds))
    joined = run_joins(executor, result.stats.orders == "all", prior.turns)
    with interrupt.limited(None if limit is None else begin + limit, options.most_memory, rss_bytes):
        result = with_windows(result, WindowSearches(exact, quick, relaxed, joined, tables, prior.turns), say, begin)
    return found._replace(result=result, none=None if result.mappings else found.none)


def _result(spec: Spec, options: Options, say: Progress, executor: concurrent.futures.Executor | None) -> Result:
    return _run(spec, options, say, executor).checked().result


def _run(
    spec: Spec,
    options: Options,
    say: Progress,
    executor: concurrent.futures.Executor | None,
    prior: Prior | None = None,
) -> Found:
    """Explore, join and trace. The fastest mapping is found without energies; then of the fastest ones the best."""
    if options.usage is not None:
        check_usage(spec, options.usage)
    prior = prior or Prior()
    explorer, clock = make_explorer(spec, options, executor, say), _Began(time.perf_counter(), cpu_seconds())
    hard = applies(explorer, prior.shared or bool(prior.watch)) and explorer.missing(prior.tables)
    easy = easy_tables(explorer, clock.wall, prior.tables) if hard else None
    if easy is not None:
        prior = prior._replace(tables=easy)
    if not hard or easy is not None or options.minimized.names != ("latency",):
        return _run_once(explorer, clock, prior)[0]
    first, leasts = _run_once(make_explorer(without_energy(spec), options, executor, say), clock, Prior())
    fast = next(known_mappings(spec, options, [m.looptree for m in first.result.mappings]), None)
    if fast is None or fast.mapping is None:
        return _run_once(explorer, clock, prior)[0]
    if first.result.stopped is None:
        fastest = Fastest(fast.costs.latency, first.result.gap, leasts)
        return _run_once(explorer, clock, prior._replace(fastest=fastest, fast=fast))[0]
    return Found(replace(first.result, mappings=[fast.mapping]))


class _Began(NamedTuple):
    """When a search began."""

    wall: float
    cpu: float


def _run_once(explorer: Explorer, began: _Began, prior: Prior) -> tuple[Found, TypingMapping[str, float]]:
    """Explore, join and trace. With a time limit it begins with unfused mappings, which are known at once.

    Returns also the least latency of each Einsum, where that alone was searched.
    """
    spec, options, begin = explorer.spec, explorer.options, time.perf_counter()
    clock = Clock.started(began.wall, options.time_limit, len(explorer.representative))
    known = [] if prior.fast is None else [prior.fast]
    alone, unfused = look_in_time(explorer, clock) if options.time_limit is not None and not known else ({}, [])
    clock = clock if unfused or known else clock._replace(seconds=None)
    shared = prior.shared or bool(prior.watch)
    if explorer.missing(prior.tables) and applies(explorer, shared):
        exploration = explore_least_first(explorer, clock, alone, prior.fastest, known)
    else:
        exploration = explore_in_time(explorer, clock, alone, prior.tables, shared)
    if exploration is None:
        raise MemoryError
    stats = _table_stats(explorer, exploration.tables, time.perf_counter() - begin)
    start = list(known_mappings(spec, options, prior.start)) if options.windows == "none" else []
    guesses = [known for known in start if known.mapping is None]
    candidates: list[Candidate | KnownMapping] = [
        *known,
        *unfused,
        *exploration.candidates,
        *(known for known in start if known.mapping is not None),
    ]

    looked = bool(exploration.candidates) and exploration.stopped is None
    settings = SearchSettings(
        options, stats.orders == "all", stats.orders == options.orders, explorer.say, looked=looked
    )

    def search_of(problem: JoinProblem, deadline: float | None) -> Search:
        return Search(problem, replace(settings, deadline=deadline), candidates)

    search, exploration = begun(explorer, clock, exploration, unfused, search_of)
    proof, front = exploration.proof, SizeFront(prior.watch) if prior.watch else None
    if exploration.stopped is None and proof is None:
        with interrupt.limited(None, options.most_memory, rss_bytes):
            if prior.watch:
                front = search_front(search, prior.watch)
                if front.points:
                    search.take(front.points)
                    proof = Proof(True, 0.0)
            else:
                proof = search_near(search, guesses)
    proof = proof or _search(search, explorer, exploration)
    if not search.candidates:
        nothing = Result(spec, options.objective, [], False, 1.0, Stats())
        return Found(nothing, exploration.whole, why_not_joined(search.problem)), exploration.leasts
    mappings = traced(spec, search)
    stats = _joined_stats(stats, search.known, time.perf_counter() - began.wall, cpu_seconds() - began.cpu)
    if front is not None:
        front.stats = stats
    result = Result(spec, options.objective, mappings, proof.optimal, proof.gap, stats, proof.stopped, options)
    return Found(result, exploration.whole, None, front), exploration.leasts


def _search(search: Search, explorer: Explorer, exploration: Exploration) -> Proof:
    """Join the explored tables. If memory does not suffice for a single mapping, fall back to unfused ones."""
    stopped = exploration.stopped
    try:
        with interrupt.limited(
            search.settings.deadline if search.candidates else None, explorer.options.most_memory, rss_bytes
        ):
            proof = search.run()
        if not stopped or not search.candidates:
            return proof
    except MemoryError:
        stopped = "memory"
    # The exception is gone here, and with it all that the search had in hand.
    if not search.candidates:
        with interrupt.finishing():
            search.take([*search.candidates, *look_quickly(explorer)[1]])
    if not search.candidates:
        raise MemoryError
    return search.ended(stopped, exploration.least(explorer, search.known.incumbents.weights))


def traced(spec: Spec, search: Search) -> list[Mapping]:
    """Write the best mappings as LoopTrees. The model evaluates each, and must agree."""
    mappings = []
    with interrupt.finishing():
        for candidate in search.best():
            if isinstance(candidate, KnownMapping):
                assert candidate.mapping is not None
                mappings.append(candidate.mapping)
                continue
            mappings.append(_traced(spec, candidate, search.options.finished))
    return sorted(mappings, key=lambda m: (m.energy, m.latency))


def _traced(spec: Spec, candidate: Candidate, finished: bool) -> Mapping:
    """Write a candidate as a LoopTree, evaluated by the model."""
    tree, costs = candidate.tree(), candidate.costs
    return checked_mapping(spec, einsums(tree.nodes), tree, costs.energy, costs.latency, finished)


def from_front(spec: Spec, options: Options, front: SizeFront, bits: float) -> Result | None:
    """The result for a smaller size of a memory, if the front that another search has filled in goes so far."""
    begin, cpu = time.perf_counter(), cpu_seconds()
    candidate = front.best_within(bits) or front.look_further(bits)
    if candidate is None:
        return None
    mapping = _traced(spec, candidate, options.finished)
    wall, used = time.perf_counter() - begin, cpu_seconds() - cpu
    stats = replace(front.stats, wall_seconds=wall, cpu_seconds=used, exploring_seconds=0.0)
    return Result(spec, options.objective, [mapping], True, 0.0, stats, None, options)


def _table_stats(explorer: Explorer, tables: TypingMapping[str, Table], seconds: float) -> Stats:
    """Sizes of the tables, and the orders to search: all, unless there are too many sets of finished Einsums."""
    orders = explorer.options.orders
    if orders == "all" and count_down_sets(explorer.spec, MOST_DOWN_SETS) > MOST_DOWN_SETS:
        orders = f"given (more than {MOST_DOWN_SETS:,} sets of finished Einsums)"
    sizes = {first: (len(table), table.explored, len(table.groups)) for first, table in tables.items()}
    of_each = {name: sizes.get(first, (0, 0, 0)) for name, first in explorer.representative.items()}
    return Stats(
        exploring_seconds=seconds,
        pmappings={name: size[0] for name, size in of_each.items()},
        explored={name: size[1] for name, size in of_each.items()},
        groups={name: size[2] for name, size in of_each.items()},
        orders=orders,
    )


def _joined_stats(stats: Stats, known: Known, wall: float, cpu: float) -> Stats:
    """Statistics of exploring, with those of joining."""
    return replace(
        stats, wall_seconds=wall, cpu_seconds=cpu, peak_rss_bytes=peak_rss_bytes(), funnel=list(known.funnel),
        joined=list(known.joined), most_survivors=known.most_survivors,
    )  # fmt: skip


def known_mappings(spec: Spec, options: Options, trees: Iterable[LoopTree]) -> Iterator[KnownMapping]:
    """Evaluate known mappings on a spec, and keep the valid ones; the first is kept even if it does not fit.

    With `usage` none is kept, as the search for all sizes of a memory needs more than their costs.
    """
    for i, tree in enumerate(trees if options.usage is None else ()):
        if options.windows != "all" and _makes_windows(tree):
            continue
        fits = True
        try:
            evaluation = evaluate(spec, tree)
        except InvalidMapping:
            if i > 0:
                continue
            evaluation, fits = evaluate(spec, tree, fits=False), False
        except FusiestError:
            continue
        if not (options.finished and evaluation.warnings):
            sets = tuple(frozenset(fused.einsums) for fused in fused_sets(spec, tree))
            mapping = Mapping(tree, einsums(tree.nodes), evaluation) if fits else None
            yield KnownMapping(KnownCosts(evaluation.energy, evaluation.latency), mapping, sets)


def _makes_windows(tree: LoopTree) -> bool:
    loops = (node for path in tree.paths() for node in path if isinstance(node, Temporal))
    return any(node.initial_tile_shape or node.step or not isinstance(node.tile_shape, int) for node in loops)


def checked_mapping(
    spec: Spec, order: tuple[str, ...], tree: LoopTree, energy: float, latency: float, finished: bool
) -> Mapping:
    """Evaluate a mapping that a search found at this cost. The model must agree.

    `finished`: it must use only tensors that are finished.
    """
    try:
        cost = evaluate(spec, tree)
    except FusiestError as error:
        raise InternalError(f"the model rejects a mapping that was found: {error}") from error
    if finished and cost.warnings:
        raise InternalError(f"a mapping was found that the model warns of: {cost.warnings[0]}")
    if not np.allclose([cost.energy, cost.latency], [energy, latency], rtol=1e-9, atol=0):
        raise InternalError(
            f"a mapping was found at {energy} J, {latency} s, but the model says {cost.energy} J, {cost.latency} s"
        )
    return Mapping(tree, order, cost)


def check_usage(spec: Spec, memory: str) -> None:
    """Raise if a memory's usage cannot be an objective."""
    memories = shared_memories(spec)
    if memory not in memories:
        raise SpecError(
            f"the usage of {memory} cannot be an objective: it is below a fanout, unlimited, or no memory"
            f"{did_you_mean(memory, memories)}"
        )
    if len(set(sizes_by_einsum(spec)[memory])) > 1:
        raise SpecError(f"the usage of {memory} cannot be an objective: its size is not the same for all Einsums")


def count_down_sets(spec: Spec, most: int) -> int:
    """Count the sets of Einsums that can be finished at some moment; counting stops above `most`."""
    level = {frozenset[str]()}
    count = 1
    while level and count <= most:
        level = {finished | {einsum} for finished in level for einsum in spec.info.next_in_turn(finished)}
        count += len(level)
    return count
