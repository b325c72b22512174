"""A valid mapping at any time: unfused first, coarsely what is missing, a gap that contains the best."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given

import fusiest
from fusiest.base import interrupt
from fusiest.base.frozen import FrozenDict
from fusiest.base.interrupt import OutOfTime
from fusiest.joining import JoinProblem, KnownCosts, Pick
from fusiest.mapper import anytime, mapper, resources, tables
from fusiest.mapper import search as search_module
from fusiest.mapper.anytime import (
    Clock,
    Exploration,
    begun,
    explore_alone,
    explore_in_time,
    look_in_time,
    look_quickly,
    looked_at,
)
from fusiest.mapper.candidates import Candidate, KnownMapping
from fusiest.mapper.options import Options
from fusiest.mapper.search import Search, SearchSettings
from fusiest.mapper.tables import Explorer, make_explorer
from fusiest.pmapping import is_allowed
from fusiest.pmapping.explore import EinsumSearch
from fusiest.pmapping.lattice.layers import Layer
from fusiest.pmapping.lattice.pruning import Pruning
from fusiest.pmapping.lattice.states import Place
from fusiest.pmapping.question import COARSE, EXACT, FIRST_LOOKS, Effort, Question
from fusiest.pmapping.table import Table
from fusiest.spec.spec import Spec
from tests.load_text import load_text
from tests.mapper.test_exhaustive_workload import covers, found, run
from tests.mapper.test_windows import ARCH, PAIR
from tests.values import check_values
from tests.workload_strategies import WorkloadCase, workload_cases

EXPLORE = Explorer.explore
CHAIN = {"N_EINSUMS": 3, "M": 64, "KN": 64}
_NOTHING: Any = None
_NO_PRUNING = Pruning(_NOTHING, _NOTHING, _NOTHING, _NOTHING, None, 100)
LONG = 86_400.0
"""A time limit that is never reached, however slow the machine is."""


def explorer_of(spec: Spec, **options: object) -> Explorer:
    return make_explorer(spec, Options(jobs=1, **options), None, lambda step: None)


@pytest.fixture
def _no_exact_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is always up when Einsums are explored exactly."""
    explore = Explorer.explore

    def out_of_time(
        self: Explorer,
        question: Question,
        effort: Effort = EXACT,
        known: Mapping[str, Table] = FrozenDict(),
        *_: object,
        **__: object,
    ) -> tables.Explored:
        if effort.beam is None:
            return tables.Explored(dict(known), "time limit")
        return explore(self, question, effort, known)

    monkeypatch.setattr(Explorer, "explore", out_of_time)


@pytest.mark.usefixtures("_no_exact_tables")
@run(15)
@given(case=workload_cases())
def test_with_coarse_tables_mappings_are_valid_and_the_gap_contains_the_best(case: WorkloadCase) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Explorer, "explore", EXPLORE)
        front = found(case)
    if not front:
        return
    limited = fusiest.map(case.spec, orders=case.orders, jobs=1, time_limit=LONG, windows="none")
    event("stopped" if limited.stopped else "all was found")
    check_values(case.spec, limited.mappings)
    assert all(is_allowed(case.spec, mapping.looptree, imperfect=False) for mapping in limited.mappings)
    known = np.array([(m.energy, m.latency) for m in limited.mappings])
    for m in limited.mappings:
        assert covers(front, (m.energy, m.latency))
    for point in front:  # of some mapping that is known, 1 - gap times both costs is not more
        assert (known * (1 - limited.gap) <= np.array(point) * (1 + 1e-9)).all(axis=1).any()


@pytest.mark.usefixtures("_no_exact_tables")
def test_coarse_tables_are_worth_having() -> None:
    """Fusing is found, and what Einsums cost at least proves that nothing is better."""
    spec = fusiest.load("simple", "matmuls", **CHAIN)
    limited, unfused = (
        fusiest.map(spec, "energy,latency", jobs=1, time_limit=LONG),
        fusiest.load("simple", "matmuls", "unfused", **CHAIN),
    )
    assert (limited.optimal, limited.gap) == (True, 0.0)
    assert limited.best("energy").energy < 0.9 * best_energy(unfused)


@pytest.mark.usefixtures("_no_exact_tables")
def test_what_a_coarse_look_finds_is_known_before_exploring_goes_on() -> None:
    """So whatever comes later, and however long it takes to join that, more time leaves no worse mappings."""
    spec = fusiest.load("simple", "matmuls", **CHAIN)
    explorer = explorer_of(spec)
    alone, unfused = look_quickly(explorer)
    explored = explore_in_time(explorer, Clock(time.perf_counter(), LONG), alone, {}, False)
    assert explored is not None
    assert (explored.exact, explored.stopped) == (frozenset(), "time limit")
    assert min(known.costs.energy for known in explored.candidates) < 0.9 * min(m.costs.energy for m in unfused)


def best_energy(spec: Spec) -> float:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Explorer, "explore", EXPLORE)
        return fusiest.map(spec, "energy", jobs=1).mappings[0].energy


def test_unfused_mappings_are_those_of_the_unfused_dataflow() -> None:
    spec = fusiest.load("simple", "matmuls", **CHAIN)
    explorer = explorer_of(spec, objective=("energy",))
    candidates = looked_at(explorer, explore_alone(explorer))
    best = min(candidate.costs.energy for candidate in candidates)
    assert best == pytest.approx(best_energy(fusiest.load("simple", "matmuls", "unfused", **CHAIN)), rel=1e-9)
    assert all(not pick.before.zones for candidate in candidates for pick in candidate.joins())


def test_what_is_known_in_haste_is_looked_at_more_closely_while_there_is_time() -> None:
    """In haste fewer placements and orders of holders are looked at; what was known then stays known."""
    explorer = explorer_of(fusiest.load("tpu_v4i", "gpt3_6.7B", BATCH_SIZE=8, N_TOKENS=1024), objective=("edp",))
    in_haste = look_in_time(explorer, Clock(0.0, 0.0))[1]
    in_time = look_in_time(explorer, Clock(time.perf_counter(), LONG))[1]
    closely = looked_at(explorer, explore_alone(explorer))

    def best(known: list[Candidate]) -> float:
        return min(candidate.costs.energy * candidate.costs.latency for candidate in known)

    assert best(in_time) == best(closely) < best(in_haste)
    assert {known.costs for known in in_time} == {known.costs for known in (*closely, *in_haste)}


def test_in_haste_only_the_most_promising_state_goes_on() -> None:
    """Of three ways, one that leads nowhere."""
    one = np.zeros(1, np.int64)
    ways = {Place(frozenset(), None, (frozenset({i}),)): promise for i, promise in enumerate((1.0, 3.0, 2.0))}
    layers = {
        place: Layer("hold", None, one[: promise > 1], np.zeros((1, 1)), one, one, one, promise=promise)
        for place, promise in ways.items()
    }
    hasty = replace(_NO_PRUNING, hasty=True)
    assert [layer.promise for layer in hasty.going_on(layers).values()] == [2.0]
    assert [layer.promise for layer in _NO_PRUNING.going_on(layers).values()] == [3.0, 2.0]


def test_no_time_at_all_is_enough_for_an_unfused_mapping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anytime, "LEAST_SECONDS", 0.0)
    spec = fusiest.load("tpu_v4i", "gpt3_6.7B", BATCH_SIZE=8, N_TOKENS=1024)
    result = fusiest.map(spec, "edp", jobs=1, time_limit=0)
    assert (len(result.mappings), result.stopped, result.optimal) == (1, "time limit", False)


def test_where_fusing_is_a_must_the_first_look_is_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    """FLAT keeps what attention passes on on chip."""
    monkeypatch.setattr(anytime, "LEAST_SECONDS", 0.0)
    spec = fusiest.load("tpu_v4i", "gpt3_6.7B", "flat", BATCH_SIZE=1, N_TOKENS=64)
    result = fusiest.map(spec, "edp", jobs=1, time_limit=0)
    assert (len(result.mappings), result.stopped) == (1, "time limit")
    assert any(backing.memory != "MainMemory" for pick in _known_joins(spec) for backing in pick.before.backings)


def test_where_memories_are_tight_quick_looks_go_on_until_a_mapping_is_known() -> None:
    """Scratchpads of a row-stationary array, with a latency that is no rate: of the first rows that go on, none fits in the end."""
    spec = fusiest.load("eyeriss", "resnet18_block")
    slow = spec.with_component("MAC", total_latency="max(a.n_calls for a in actions) / 200e6")
    explorer = explorer_of(slow, objective=("edp",))
    first = explorer.explore(Question(apart=True), FIRST_LOOKS[0]).tables
    assert 0 < len(first) < len(explorer.distinct)
    quick, candidates = look_quickly(explorer)
    assert quick.keys() == set(explorer.distinct)
    assert all(not pick.before.zones for candidate in candidates for pick in candidate.joins())


def test_time_that_is_up_before_joining_begins_leaves_what_is_not_fused() -> None:
    explorer = explorer_of(fusiest.load("simple", "matmuls", **CHAIN))
    quick, unfused = look_quickly(explorer)
    explored = explore_in_time(explorer, Clock(0.0, None), quick, {}, False)
    assert explored is not None
    for clock, expected in ((Clock(0.0, 1.0), "time limit"), (Clock(0.0, None), None)):
        made: list[tuple[bool, float | None]] = []

        def make(problem: JoinProblem, deadline: float | None, made: list[tuple[bool, float | None]] = made) -> Search:
            made.append((problem is unfused[0].problem, deadline))
            return Search(problem, SearchSettings(explorer.options, deadline=deadline), [*unfused])

        search, exploration = begun(explorer, clock, explored, unfused, make)
        assert (exploration.stopped, exploration.exact) == (expected, explored.exact)
        assert made == [(True, 0.0) if expected else (False, None)]
        assert search.candidates


def test_time_that_is_up_before_windows_leaves_what_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other searches took counts: nothing is bounded, no plan is tried, and the gap is that of what all cost at least."""
    monkeypatch.setattr(anytime, "LEAST_SECONDS", 0.0)
    spec = load_text(ARCH.replace("SIZE", "96"), PAIR)
    steps: list[str] = []
    result = fusiest.map(
        spec, "edp", jobs=1, time_limit=0, windows="all", progress=lambda step: steps.append(step.phase)
    )
    assert (len(result.mappings), result.stopped, result.optimal) == (1, "time limit", False)
    assert steps
    assert not {"bounding windows", "windows"} & set(steps)
    assert 0 < result.gap < 1


@pytest.mark.parametrize(("loading", "least"), [(0.0, 1.2), (1.0, 0.9), (1.75, 0.4)])
def test_the_longer_a_program_loads_the_less_is_left_to_look(
    monkeypatch: pytest.MonkeyPatch, loading: float, least: float
) -> None:
    """1.9 s of the program are for loading and looking, but 0.4 s for looking at least, and no more than 1.2 s."""
    monkeypatch.setattr(interrupt, "program_seconds", lambda: loading)
    short, long = Clock.started(10.0, 0.0, 0), Clock.started(10.0, 100.0, 0)
    assert (short.at(1.0), short.looking_on(10.1)) == pytest.approx((10.0 + least, 10.0 + least))
    assert (long.at(1.0), long.looking_on(10.1)) == (110.0, 30.0)
    assert (long.looking_on(25.0), long.looking_on(50.0)) == (40.0, 60.0)  # as long again, up to half of the time


def test_all_the_time_is_for_what_has_no_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit, windows come after the search without them, which has as long as it has alone: so they are never worse."""
    limits: list[float | None] = []
    plain = mapper._run

    def noted(spec: fusiest.Spec, options: Options, *arguments: Any) -> fusiest.Result:
        limits.append(options.time_limit)
        return plain(spec, options, *arguments)

    monkeypatch.setattr(mapper, "_run", noted)
    result = fusiest.map(load_text(ARCH.replace("SIZE", "96"), PAIR), "edp", jobs=1, time_limit=LONG, windows="all")
    assert limits[0] == LONG
    assert result.optimal or result.gap


def test_time_is_left_to_evaluate_many_einsums() -> None:
    assert Clock(0.0, 10.0, 0).at(1.0) == 10.0
    assert Clock(0.0, 10.0, 1_000).at(1.0) == 10.0 - 1_000 * anytime.ENDING_SECONDS
    assert Clock(0.0, 10.0, 1_000_000).at(0.5) == 2.5


def _known_joins(spec: Spec) -> list[Pick]:
    explorer = explorer_of(spec, objective=("edp",))
    return looked_at(explorer, explore_alone(explorer))[0].joins()


def test_of_a_large_front_few_mappings_are_evaluated_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ends are among them, and the gap is that of what is left."""
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=2, M=16, KN=16)
    explorer = make_explorer(spec, Options(jobs=1), None, lambda step: None)
    problem = tables.grouped(spec, explorer.options, explorer.named(explore_alone(explorer)))
    front = [KnownMapping(KnownCosts(1.0 + i, 100 / (1.0 + i) - (i == 9) / 2), None, ()) for i in range(20)]

    def out_of_time(search: Search) -> None:
        raise OutOfTime

    monkeypatch.setattr(search_module, "PASSES", (out_of_time,))
    gaps = []
    for most, left in (40, 20), (10, 5), (1, 3):
        monkeypatch.setattr(search_module, "_MOST_EVALUATED", most)
        search = Search(problem, SearchSettings(explorer.options), front)
        proof = search.run()
        assert proof.stopped == "time limit"
        assert len(search.candidates) == left
        assert {front[0], front[9], front[-1]} <= set(search.candidates) <= set(front)
        gaps.append(proof.gap)
    assert gaps[0] <= gaps[1] <= gaps[2]


def test_what_is_explored_exactly_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is up after the first of two Einsums that differ: its table is exact, that of the other coarse."""
    spec = fusiest.load("tpu_v4i", "gpt3_6.7B", BATCH_SIZE=1, N_TOKENS=64)
    explorer = explorer_of(spec)
    table = EinsumSearch.table
    asked_for: list[tuple[str, Effort]] = []

    def first_only(self: EinsumSearch, effort: Effort) -> Table:
        if effort.beam is None and asked_for:
            raise OutOfTime
        asked_for.append((self.einsum, effort))
        return table(self, effort)

    monkeypatch.setattr(EinsumSearch, "table", first_only)
    explored = explore_in_time(explorer, Clock(0.0, None), {"I": Table("", (), {}, [], 0)}, {}, False)
    assert isinstance(explored, Exploration)
    assert (explored.exact, explored.stopped) == ({"I"}, "time limit")
    assert asked_for[0][0] == "I"
    assert {effort for _, effort in asked_for[1:]} == {COARSE}
    assert list(explorer.named(explored.tables)) == list(spec.info.einsums)


def test_the_least_of_an_einsum_by_hand() -> None:
    """Two products of 64 x 64 x 64 on one compute. What is left out of the bound is only what is moved more than once."""
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=2, M=64, KN=64)
    table: Mapping[str, Table] = dict.fromkeys(spec.info.einsums, Table("", (), {}, [], 0))
    explorer = explorer_of(spec)
    least = Exploration(table, frozenset()).least(explorer, anytime.Weights(0.0, 0.0))
    exact = fusiest.map(spec, "energy", jobs=1).mappings[0]
    parts = exact.evaluation.energy_by_component()
    assert parts[spec.require_arch().nodes[-1].name] < least.energy <= exact.energy * (1 + 1e-9)
    assert 0 < least.latency <= exact.latency


def test_limits() -> None:
    with interrupt.limited(deadline=time.perf_counter() + LONG):
        interrupt.check()
        with interrupt.limited(memory=10, in_use=lambda: 11), pytest.raises(MemoryError):
            interrupt.check()
        with interrupt.limited(memory=1e9, in_use=lambda: 9e8), interrupt.limited(time.perf_counter() + LONG):
            interrupt.check()
            with pytest.raises(MemoryError):
                interrupt.check(coming=2e8)  # the memory of the block around it counts
        with interrupt.limited(deadline=0.0):
            with pytest.raises(OutOfTime):
                interrupt.check()
            with interrupt.limited(memory=10), pytest.raises(OutOfTime):
                interrupt.check()  # the moment of the block around it counts
            with interrupt.finishing():
                interrupt.check()
        interrupt.check()


def test_memory_in_use() -> None:
    if not Path("/proc/self/statm").exists():
        pytest.skip("no figures of memory here: Linux has them")
    before = resources.rss_bytes()
    block = np.ones(1 << 23)
    assert block.nbytes * 0.9 < resources.rss_bytes() - before < block.nbytes * 2
    assert before < resources.machine_memory() < 1 << 50


@pytest.mark.parametrize("is_free_again", [True, False])
def test_a_memory_limit_ends_with_the_best_so_far(monkeypatch: pytest.MonkeyPatch, is_free_again: bool) -> None:
    """Exploring and joining take too much; what is not fused does not, and is found even if memory stays taken."""
    in_use = {"bytes": 0.0}
    monkeypatch.setattr(tables, "rss_bytes", lambda: in_use["bytes"])
    monkeypatch.setattr(mapper, "rss_bytes", lambda: in_use["bytes"])
    monkeypatch.setattr(anytime, "rss_bytes", lambda: in_use["bytes"])
    table = EinsumSearch.table

    def growing(self: EinsumSearch, effort: Effort) -> Table:
        in_use["bytes"] = 0.0 if self.question.apart and is_free_again else 2e9
        interrupt._LIMITS.get().next_look = 0.0
        interrupt.check()
        return table(self, effort)

    monkeypatch.setattr(EinsumSearch, "table", growing)
    spec = fusiest.load("simple", "matmuls", **CHAIN)
    result = fusiest.map(spec, "energy", jobs=1, memory_limit=1e9)
    assert (result.stopped, result.optimal, len(result.mappings)) == ("memory", False, 1)
    assert result.gap > 0


def test_usage_is_never_worse_than_unfused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cost against the size of a memory, with no time to explore: for each size no more than the best without fusing."""
    monkeypatch.setattr(anytime, "LEAST_SECONDS", 0.0)
    spec, unfused = (fusiest.load("simple", "matmuls", *dataflow, **CHAIN) for dataflow in ((), ("unfused",)))
    limited = fusiest.map(spec, "energy", jobs=1, usage="GlobalBuffer", time_limit=0)
    best = fusiest.map(unfused, "energy", jobs=1, usage="GlobalBuffer")

    def points(result: fusiest.Result) -> list[tuple[float, float]]:
        return [(m.evaluation.peak_occupancy_bits.get("GlobalBuffer", 0), m.energy) for m in result.mappings]

    assert len(best.mappings) > 1
    for size, energy in points(best):
        assert min(e for bits, e in points(limited) if bits <= size) <= energy * (1 + 1e-9)
