"""Baselines against the optimum: never better, the same by the same seed, and each mapping costs what the model says."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from fusiest import Result, Spec, load
from fusiest.base.errors import FusiestError, SpecError
from fusiest.experiments.baselines import running as baselines_run
from fusiest.experiments.baselines.annealing import accepted, anneal
from fusiest.experiments.baselines.baseline_options import BaselineOptions
from fusiest.experiments.baselines.genetic import POPULATION, Generation, evolve
from fusiest.experiments.baselines.genome import Genome, make_genome
from fusiest.experiments.baselines.kernels import INCOMPATIBLE, TOO_LARGE, VALID, evaluate, make_work, sample
from fusiest.experiments.baselines.kernels import price as price_of
from fusiest.experiments.baselines.record import (
    BEST,
    CURRENT,
    INVALID_ONES,
    INVALID_RUN,
    MOST_STUCK,
    PHASE,
    SINCE_BEST,
    SPENT,
    STOPPED,
    STUCK,
    VALID_ONES,
    make_record,
)
from fusiest.experiments.baselines.running import make_work_for, our_evaluations, run_baseline, search
from fusiest.experiments.baselines.sampling import draw, timeloop
from fusiest.experiments.baselines.tree_search import (
    MOST_ITERATIONS,
    TileSearch,
    make_structure,
    make_tree,
    search_tiles,
)
from fusiest.mapper.mapper import NoMapping, map
from fusiest.mapper.options import Options
from fusiest.mapper.tables import explore_all
from fusiest.pmapping.table import Table
from tests.command_line import run
from tests.proving import cases
from tests.values import check_values
from tests.workload_strategies import WorkloadCase, workload_cases

pytestmark = pytest.mark.xdist_group("baselines")
"""In one process: compiling them takes a minute."""
BASELINES = ("set", "tileflow", "tileflow-mcts", "timeloop")


def baseline(spec: Spec, mapper: str, budget: float, seed: int = 0, objective: str = "edp") -> Result:
    return run_baseline(spec, Options(objective=(objective,), jobs=1), BaselineOptions(mapper, seed, budget))


def matmuls(count: int = 3) -> Spec:
    """Fusion pays, and not everything fits on chip."""
    return load("simple", "matmuls", N_EINSUMS=count, M=64, KN=64, MainMemoryEnergy=20e-12, GlobalBufferSize=40_000)


def tables_of(spec: Spec) -> dict[str, Table]:
    return explore_all(spec, Options(jobs=1), lambda *_: None, counted=True)


def flat(spec: Spec) -> Genome:
    return make_genome(spec, tables_of(spec))


@cases(25, 300)
@given(
    case=workload_cases(), mapper=st.sampled_from(BASELINES), objective=st.sampled_from(("energy", "latency", "edp"))
)
def test_never_better_than_the_optimum(case: WorkloadCase, mapper: str, objective: str) -> None:
    try:
        best = getattr(map(case.spec, objective, orders="given", windows="none", jobs=1).best(objective), objective)
    except NoMapping:
        event("no mapping")
        with pytest.raises(NoMapping):
            baseline(case.spec, mapper, 300, objective=objective)
        return
    except FusiestError as error:
        if "not supported" not in str(error):
            raise
        return
    try:
        result = baseline(case.spec, mapper, 1_000, objective=objective)
    except NoMapping:
        event("found nothing")
        return
    check_values(case.spec, result.mappings)
    found = getattr(result.best(objective), objective)
    event("optimal" if found <= best * (1 + 1e-9) else "worse")
    assert found >= best * (1 - 1e-9)


@pytest.mark.parametrize(
    "spec",
    [
        load("simple", "matmuls", N_EINSUMS=1, M=1, KN=1),
        load("simple", "matmuls", N_EINSUMS=2, M=4, KN=4),
        load("simple", "matmuls", N_EINSUMS=2, M=4, KN=4, GlobalBufferSize="inf"),
    ],
    ids=["one row", "few rows", "no memory to track"],
)
def test_nothing_is_compiled_twice(spec: Spec) -> None:
    """Numba compiles anew for arrays of another layout."""
    assert numba.typeof(flat(spec).space) == numba.typeof(flat(matmuls()).space)


@pytest.mark.parametrize("mapper", BASELINES)
def test_the_seed_decides(mapper: str) -> None:
    first, again, other = (baseline(matmuls(), mapper, 3_000, seed) for seed in (1, 1, 2))
    assert first.stats.history == again.stats.history
    assert first.mappings[0].looptree == again.mappings[0].looptree
    assert first.stats.history != other.stats.history


@pytest.mark.parametrize("mapper", ["set", "tileflow"])
def test_finds_the_optimum_of_a_small_problem_and_says_how(mapper: str) -> None:
    spec = matmuls(2)
    best = map(spec, "edp", orders="given", jobs=1).best("edp").edp
    result = baseline(spec, mapper, 300_000)
    assert result.mappings[0].edp == pytest.approx(best, rel=1e-9)
    history = result.stats.history
    scores = [h.energy * h.latency for h in history]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] == pytest.approx(best)
    spent = [h.evaluations for h in history]
    assert spent == sorted(spent)
    assert result.stats.evaluations is not None
    assert spent[-1] <= result.stats.evaluations
    assert not result.optimal


def test_the_tree_search_finds_the_best_tiles_of_a_structure() -> None:
    spec = matmuls(2)
    genome = flat(spec)
    found = search(genome, ("edp",), BaselineOptions("set", 0, 300_000), 1)
    assert found.genes is not None
    best = found.history[-1].energy * found.history[-1].latency
    rng = np.random.default_rng(0)
    structure, record = make_structure(genome, found.genes), make_record(2, 1e6, ("edp",))
    einsum = np.searchsorted(genome.space.first, structure.rows, side="right") - 1
    other = np.array([rng.choice(structure.rows[einsum == e]) for e in range(2)])
    work = make_work_for(genome.space, 0)
    score = search_tiles(TileSearch(genome.space, work, record, best / 2), structure, make_tree(), other, other, 1e6)
    assert score == pytest.approx(best, rel=1e-9)
    assert evaluate(genome.space, work, other) == VALID
    assert work.cost[0] * work.cost[1] == score


def test_the_tree_search_ends_when_it_has_seen_everything() -> None:
    """Then it has the best of all choices of rows."""
    spec = load("simple", "matmuls", N_EINSUMS=2, M=8, KN=8, MainMemoryEnergy=20e-12)
    genome = flat(spec)
    space, work, record = genome.space, make_work_for(genome.space, 0), make_record(2, np.inf, ("edp",))
    genes, several = np.zeros(2, np.int64), 0
    for _ in range(10):
        while np.isinf(draw(space, work, record, genes)):
            pass
        record.counts[:] = 0
        structure = make_structure(genome, genes)
        edges = genome.edges(genes)
        scores = []
        einsum = np.searchsorted(space.first, structure.rows, side="right") - 1
        for pair in itertools.product(*(structure.rows[einsum == e] for e in range(2))):
            rows = np.array(pair)
            if evaluate(space, work, rows) == VALID and genome.edges(rows) == edges:
                scores.append(work.cost[0] * work.cost[1])
        score = search_tiles(TileSearch(space, work, record, 1.0), structure, make_tree(), genes, genes, np.inf)
        assert score == min(scores)
        assert record.counts[VALID_ONES] + record.counts[INVALID_ONES] < MOST_ITERATIONS
        several += len(scores) > 1
    assert several


def test_choices_that_do_not_fit_together_are_told_from_those_that_are_too_large() -> None:
    """By the path through the forms, which knows nothing of space: also where the first Einsums need too much."""
    spec = load("simple", "matmuls", N_EINSUMS=3, M=32, KN=32, GlobalBufferSize=4096)
    genome = flat(spec)
    space, work, rng = genome.space, make_work_for(genome.space, 0), np.random.default_rng(0)
    seen = set()
    for i in range(3_000):
        genes = rng.integers(space.first[:-1], space.first[1:])
        if i % 2 and not sample(space, work, genes):
            continue
        try:
            fits_together = len(genome.edges(genes)) == 3
        except StopIteration:
            fits_together = False
        status = int(evaluate(space, work, genes))
        assert fits_together == (status != INCOMPATIBLE)
        seen.add(status)
    assert seen >= {TOO_LARGE, INCOMPATIBLE}


def test_what_a_group_costs() -> None:
    """All groups together cost what fusiest evaluated, whatever an Einsum's names; a mapping costs its groups' prices."""
    spec = matmuls(3)
    tables = explore_all(spec, Options(jobs=1), lambda *_: None, counted=True)
    for table in tables.values():
        total = 0
        for form, rows in table.groups.items():
            price: dict[tuple[int, ...], set[int]] = {}
            for tiles, candidates in zip(rows.tiles.tolist(), table.candidates[form].tolist(), strict=True):
                price.setdefault(tuple(tiles), set()).add(candidates)
            total += sum(candidates for (candidates,) in price.values())
        assert total == table.explored
    genome = make_genome(spec, tables)
    space, genes = genome.space, np.zeros(3, np.int64)
    work, record = make_work_for(space, 0), make_record(3, 1e6, ("edp",))
    while np.isinf(draw(space, work, record, genes)):
        record.amounts[SPENT] = 0
    wanted = 0
    for level, edge, gene in zip(genome.levels, genome.edges(genes), genes, strict=True):
        form, _ = genome.problem.groups[level.einsum][edge.form]
        wanted += tables[level.einsum].candidates[form][space.in_form[gene]]
    assert record.amounts[SPENT] == wanted
    assert price_of(space, genes, genes, False) == 1


def test_gap_bounds_what_is_missed() -> None:
    spec = matmuls()
    best = map(spec, "edp", orders="given", jobs=1).best("edp").edp
    result = baseline(spec, "timeloop", 200)
    assert result.mappings[0].edp * (1 - result.gap) <= best * (1 + 1e-9)


def test_timeloop_stops_by_its_own_rules() -> None:
    stopped = baseline(matmuls(), "timeloop", 1e7)
    assert stopped.stats.evaluations is not None
    assert stopped.stats.evaluations < 1e6
    history = np.array([h.evaluations for h in stopped.stats.history])
    assert history[-1] < stopped.stats.evaluations


def test_timeloop_counts_what_is_invalid_and_what_is_no_better() -> None:
    space = flat(matmuls()).space
    for own, invalid, since in ((space, 0, 500), (space._replace(sizes=np.zeros(1)), 1_000, 0)):
        record = make_record(3, np.inf, ("edp",))
        timeloop(own, make_work_for(own, 0), record, np.zeros(3, np.int64), np.inf, True)
        assert record.amounts[STOPPED] == record.amounts[SPENT] > 0
        assert (record.counts[INVALID_RUN] if invalid else 0, record.counts[SINCE_BEST]) == (invalid, since)


def test_set_accepts_what_is_worse_with_the_published_probability() -> None:
    work = make_work(0, 1, 1, 1, 1, 1, 1)
    for x, worse in ((0.0, 0.1), (0.5, 0.005), (0.9, 0.0005)):
        share = np.mean([accepted(work, 1 + worse, 1.0, x) for _ in range(20_000)])
        assert share == pytest.approx(np.exp(-worse / (0.07 * (1 - x) / (1 + 8 * x))), abs=0.015)
    assert accepted(work, 0.99, 1.0, 0.5)
    assert not accepted(work, 1.01, 1.0, 1.0)


def test_set_goes_back_to_the_best_at_90_percent() -> None:
    space = flat(matmuls()).space
    work, record = make_work_for(space, 0), make_record(3, 1e5, ("edp",))
    genes, candidate = np.zeros((2, 3), np.int64)
    anneal(space, work, record, genes, candidate, 0.89e5)
    assert not record.counts[PHASE]
    record.amounts[CURRENT] = 1e9 * record.amounts[BEST]
    anneal(space, work, record, genes, candidate, 0.901e5)
    assert record.counts[PHASE]
    assert record.amounts[CURRENT] < 2 * record.amounts[BEST]


def test_tileflow_keeps_its_best() -> None:
    space = flat(matmuls()).space
    work, record = make_work_for(space, 0), make_record(3, 1e5, ("edp",))
    population, scores = np.zeros((POPULATION, 3), np.int64), np.full(POPULATION, np.inf)
    for until in range(2_000, 100_000, 2_000):
        following = Generation(population.copy(), scores.copy())
        evolve(space, work, record, Generation(population, scores), following, float(until))
        if record.counts[PHASE] == POPULATION:
            assert scores.min() == record.amounts[BEST]
            assert (population == record.best).all(axis=1).any()


def test_the_budget_is_what_fusiest_evaluates_unless_given() -> None:
    spec = matmuls()
    result = run_baseline(spec, Options(objective=("edp",), jobs=1), BaselineOptions("set"))
    genome = flat(spec)
    ours = our_evaluations(spec, tables_of(spec))
    assert result.stats.evaluations is not None
    assert ours <= result.stats.evaluations < ours + sum(genome.space.price.max() for _ in range(3))


def test_only_groups_that_a_mapping_did_not_have_are_charged() -> None:
    space = flat(matmuls()).space
    work, record = make_work_for(space, 0), make_record(3, np.inf, ("edp",))
    pair = np.zeros((2, 3), np.int64)
    for genes in pair:
        while np.isinf(draw(space, work, record, genes)):
            pass
    new = space.group[pair[0]] != space.group[pair[1]]
    assert new.any()
    assert price_of(space, pair[0], pair[1], False) == max(space.price[pair[0]][new].sum(), 1)
    assert price_of(space, pair[0], pair[1], True) == space.price[pair[0]].sum()


def test_a_time_limit_ends_a_baseline() -> None:
    options = Options(objective=("edp",), jobs=1, time_limit=0.0)
    result = run_baseline(matmuls(), options, BaselineOptions("set", budget=1e12))
    assert result.options == options
    assert result.stats.evaluations is not None
    assert result.stats.evaluations < 1e12
    with pytest.raises(SpecError, match="usage of a memory is an objective of fusiest's own search, not of set"):
        run_baseline(matmuls(), Options(usage="GlobalBuffer"), BaselineOptions("set"))


def test_an_interrupted_baseline_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[float] = []
    original = baselines_run.anneal

    def interrupted(*arguments: object) -> None:
        original(*arguments)
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(baselines_run, "anneal", interrupted)
    result = baseline(matmuls(), "set", 1e9)
    assert result.interrupted
    assert result.mappings
    assert len(calls) == 3
    calls.clear()
    with pytest.raises(KeyboardInterrupt):  # an experiment must not take it for a whole run
        search(flat(matmuls()), ("edp",), BaselineOptions("set", 0, 1e9), 1)


def test_nothing_found_in_the_budget() -> None:
    """With memory for little, and no reason to save main memory's energy, some first choices are too large."""
    spec = load("simple", "matmuls", N_EINSUMS=4, M=64, KN=64, GlobalBufferSize=1_000, MainMemoryEnergy=0.2e-12)
    said = []
    for seed in range(8):
        try:
            baseline(spec, "timeloop", 1, seed)
        except NoMapping as none:
            said.append(str(none))
    assert said
    assert said[0].startswith("timeloop found no valid mapping in ")


def test_options() -> None:
    with pytest.raises(SpecError, match="mapper 'tileflw' is not known; did you mean 'tileflow'"):
        BaselineOptions("tileflw")
    with pytest.raises(SpecError, match="at least 1, but is 0"):
        BaselineOptions("set", budget=0)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "result.json"
    arguments = ("map", "simple", "matmuls", "-D", "M=64", "-D", "KN=64", "--mapper", "set", "--seed", "3")
    status, out, _ = run(capsys, *arguments, "--budget", "500", "--json", str(target), "--quiet")
    stats = json.loads(target.read_text())["stats"]
    assert status == 0
    assert "not proven optimal" in out
    assert stats["history"]
    assert stats["history"][-1]["evaluations"] <= stats["evaluations"]
    for budget in ("0", "nan", "inf"):
        status, _, err = run(capsys, *arguments, "--budget", budget)
        assert (status, err) == (2, f"budget must be a number of evaluations, at least 1, but is {budget}\n")


@pytest.mark.parametrize("mapper", BASELINES)
def test_where_nothing_can_be_fused(mapper: str) -> None:
    """One form per Einsum, without fused loops."""
    spec = load("simple", "matmuls", "unfused", N_EINSUMS=2, M=16, KN=16)
    best = map(spec, "edp", jobs=1).best("edp").edp
    assert baseline(spec, mapper, 2_000).mappings[0].edp >= best * (1 - 1e-9)


@pytest.mark.parametrize("mapper", BASELINES)
def test_where_there_is_nothing_to_choose_a_baseline_ends(mapper: str) -> None:
    """One pmapping, and a budget that trying it again and again would take days to spend."""
    spec = load("simple", "matmuls", "unfused", N_EINSUMS=1, M=1, KN=1)
    result = baseline(spec, mapper, 1e12)
    assert result.stats.evaluations is not None
    assert result.stats.evaluations < 1e6


def test_annealing_ends_where_there_is_no_neighbour() -> None:
    genome = flat(matmuls())
    record, work = make_record(3, 1e12, ("edp",)), make_work_for(genome.space, 0)
    record.counts[STUCK] = MOST_STUCK
    genes, candidate = np.zeros((2, 3), np.int64)
    anneal(genome.space, work, record, genes, candidate, 1e12)
    assert record.amounts[SPENT] == 0
