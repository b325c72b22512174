"""The coarse first pass: valid mappings, never too good ones, finer after a failure, and no change of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given

import fusiest
from fusiest.base.objective import objective_of
from fusiest.joining import Coarse, JoinPass, JoinProblem, Level
from fusiest.mapper import search
from fusiest.mapper.mapper import grouped, traced
from fusiest.mapper.options import Options
from fusiest.mapper.results.result import Result, Stats
from fusiest.mapper.tables import explore_all
from fusiest.spec.spec import Spec
from tests.mapper.test_exhaustive_workload import covers, found, run, same_front
from tests.values import check_values
from tests.workload_strategies import WorkloadCase, workload_cases


def after_first_pass(spec: Spec, objective: str = "energy,latency", orders: str = "all") -> Result:
    """What is known if there is no time for more than a first pass."""
    options = Options(objective_of(objective).names, orders=orders, jobs=1)
    problem = grouped(spec, options, explore_all(spec, options, lambda step: None))
    searched = search.Search(problem, search.SearchSettings(options, orders == "all", deadline=0.0))
    proof = searched.run()
    return Result(spec, options.objective, traced(spec, searched), proof.optimal, proof.gap, Stats(), options=options)


@pytest.fixture
def _very_coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "FIRST_PASS", Coarse(most=3))


@pytest.mark.usefixtures("_very_coarse")
@run(15)
@given(case=workload_cases())
def test_first_mappings_are_valid_and_never_too_good(case: WorkloadCase) -> None:
    """With no time, the search ends with what the first pass found. The model checks each of its mappings."""
    front = found(case)
    if not front:
        return
    first = after_first_pass(case.spec, orders=case.orders)
    event("the best were missed" if not same_front(front, [(m.energy, m.latency) for m in first.mappings]) else "exact")
    check_values(case.spec, first.mappings)
    for m in first.mappings:
        assert covers(front, (m.energy, m.latency))
    known = np.array([(m.energy, m.latency) for m in first.mappings])
    for point in front:  # of some mapping that is known, 1 - gap times both costs is not more
        assert (known * (1 - first.gap) <= np.array(point) * (1 + 1e-9)).all(axis=1).any()


@pytest.mark.usefixtures("_very_coarse")
@pytest.mark.parametrize("einsums", [2, 3])
def test_a_bad_first_pass_is_made_good(einsums: int) -> None:
    """Three partial mappings per set are too few here: fusing looks bad until the end. The gap says so."""
    spec = fusiest.load(
        "simple", "matmuls", N_EINSUMS=einsums, M=32, KN=16, GlobalBufferSize=4096, MainMemoryEnergy=20e-12
    )
    first = after_first_pass(spec)
    best, expected = (fusiest.map(spec, coarse=coarse).best("energy").energy for coarse in (True, False))
    assert best == pytest.approx(expected, rel=1e-9)
    assert first.best("energy").energy > 1.1 * best
    assert not first.optimal
    assert best >= first.best("energy").energy * (1 - first.gap) * (1 - 1e-9)


@pytest.mark.usefixtures("_very_coarse")
def test_no_time_and_no_gap_is_proven() -> None:
    """Computing takes longest: the bound says that nothing is faster than what the first pass found."""
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=3, M=32, KN=16, GlobalBufferSize=4096, MainMemoryEnergy=100)
    first = after_first_pass(spec, "latency")
    assert (first.optimal, first.gap) == (True, 0.0)
    assert first.best("latency").latency == fusiest.map(spec, "latency").best("latency").latency


@pytest.mark.parametrize(("gap", "judged"), [(4e-16, (True, 0.0)), (1e-9, (True, 0.0)), (2e-9, (False, 2e-9))])
def test_a_gap_below_one_part_in_a_billion_is_none(gap: float, judged: tuple[bool, float]) -> None:
    assert search.judged(gap)[:2] == judged


@pytest.mark.usefixtures("_very_coarse")
@run(15)
@given(case=workload_cases())
def test_first_pass_changes_nothing(case: WorkloadCase) -> None:
    with_pass, without = found(case), found(case, coarse=False)
    assert (with_pass is None) == (without is None)
    if with_pass is not None and without is not None:
        assert same_front(with_pass, without)


@pytest.mark.usefixtures("_very_coarse")
@pytest.mark.parametrize(("objective", "end"), [("energy", 0), ("latency", -1)])
@run(20)
@given(case=workload_cases())
def test_ties_are_broken_by_the_other_cost(case: WorkloadCase, objective: str, end: int) -> None:
    """The one mapping of least energy or latency is that end of the front."""
    front = found(case, coarse=False)
    if not front:
        return
    best = fusiest.map(case.spec, objective, orders=case.orders, jobs=1, windows="none").mappings[0]
    check_values(case.spec, [best])
    event("tied" if len(front) == 1 else "several on the front")
    assert (best.energy, best.latency) == pytest.approx(sorted(front)[end], rel=2e-9)


@pytest.mark.usefixtures("_very_coarse")
def test_a_tie_with_a_mapping_of_the_first_pass_is_broken() -> None:
    """Computing takes longest, so many mappings are the fastest, and the first pass finds one that costs more."""
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=2, M=32, KN=16, GlobalBufferSize=4096, MainMemoryEnergy=20e-12)
    front, fastest = fusiest.map(spec, coarse=False).mappings, fusiest.map(spec, "latency").mappings[0]
    assert after_first_pass(spec, "latency").mappings[0].energy > 1.1 * fastest.energy
    assert (fastest.energy, fastest.latency) == pytest.approx((front[-1].energy, front[-1].latency), rel=1e-9)


@pytest.mark.parametrize(
    ("fails", "tried"),
    [
        (lambda epsilon: False, [0.2, None]),
        (lambda epsilon: epsilon > 0.06, [0.2, 0.1, 0.05, None]),
        (lambda epsilon: True, [0.2, 0.1, 0.05, 0.025, None]),
    ],
    ids=["never", "twice", "always"],
)
def test_failure_makes_the_first_pass_finer(
    monkeypatch: pytest.MonkeyPatch, fails: Callable[[float], bool], tried: list[float | None]
) -> None:
    """In the end the exact pass finds the optimum without mappings to beat."""
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=2, M=64, KN=64)
    best = fusiest.map(spec, "energy,latency", coarse=False).best("latency").latency
    original, passes = search.levels, list[Coarse | None]()

    def failing(problem: JoinProblem, how: JoinPass, *rest: object) -> Iterator[Level]:
        passes.append(how.coarse)
        for level in original(problem, how, *rest):
            lost = how.coarse is not None and fails(how.coarse.epsilon)
            yield replace(level, states=() if lost else level.states, exact=how.coarse is None)

    monkeypatch.setattr(search, "levels", failing)
    assert fusiest.map(spec, "energy,latency").best("latency").latency == pytest.approx(best, rel=1e-9)
    assert [coarse and coarse.epsilon for coarse in passes] == tried
    sizes = [coarse.most for coarse in passes if coarse is not None]
    assert sizes == sorted(set(sizes))


@pytest.mark.parametrize("einsums", [3, 6])
def test_over_many_einsums_a_hasty_pass_comes_first(einsums: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is all that there is time for here: some mappings. Over few Einsums the first pass is as quick."""
    monkeypatch.setattr(search, "HASTY_PASS", Coarse(most=2))
    sizes = {"M": 32, "KN": 16, "GlobalBufferSize": 4096, "MainMemoryEnergy": 20e-12}
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=einsums, **sizes)
    first, best = after_first_pass(spec, "edp"), fusiest.map(spec, "edp", jobs=1).mappings[0].edp
    assert (first.mappings[0].edp > best * (1 + 1e-9)) == (first.gap > 0) == (einsums == 6)
    assert first.mappings[0].edp * (1 - first.gap) <= best * (1 + 1e-9)
