"""The coarse first pass: valid mappings, never too good ones, finer after a failure, and no change of the result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import fusiest
from fusiest.joining.bounds import NOTHING, Incumbents
from fusiest.joining.coarse import Coarse, prune_within, thinned
from fusiest.joining.rows import start_rows
from fusiest.mapper import mapper
from fusiest.mapper.joiner import Joiner, State
from tests.mapper.test_exhaustive_workload import covers, found, run, same_front
from tests.proving import cases
from tests.values import check_values
from tests.workload_strategies import WorkloadCase, workload_cases


@pytest.fixture
def _very_coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapper, "FIRST_PASS", Coarse(most=3))


@pytest.mark.usefixtures("_very_coarse")
@run(15)
@given(case=workload_cases())
def test_first_mappings_are_valid_and_never_too_good(case: WorkloadCase) -> None:
    """With no time, the search ends with what the first pass found. The model checks each of its mappings."""
    front = found(case)
    if not front:
        return
    first = fusiest.map(case.spec, orders=case.orders, jobs=1, time_limit=0)
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
    first = fusiest.map(spec, time_limit=0)
    best, expected = (fusiest.map(spec, coarse=coarse).best("energy").energy for coarse in (True, False))
    assert best == pytest.approx(expected, rel=1e-9)
    assert first.best("energy").energy > 1.1 * best
    assert not first.optimal
    assert best >= first.best("energy").energy * (1 - first.gap) * (1 - 1e-9)


@pytest.mark.usefixtures("_very_coarse")
def test_no_time_and_no_gap_is_proven() -> None:
    """Computing takes longest: the bound says that nothing is faster than what the first pass found."""
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=3, M=32, KN=16, GlobalBufferSize=4096, MainMemoryEnergy=100)
    first = fusiest.map(spec, "latency", time_limit=0)
    assert (first.optimal, first.gap) == (True, 0.0)
    assert first.best("latency").latency == fusiest.map(spec, "latency").best("latency").latency


@pytest.mark.parametrize(("gap", "judged"), [(4e-16, (True, 0.0)), (1e-9, (True, 0.0)), (2e-9, (False, 2e-9))])
def test_a_gap_below_one_part_in_a_billion_is_none(gap: float, judged: tuple[bool, float]) -> None:
    assert mapper._judged(gap) == judged


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
    best = fusiest.map(case.spec, objective, orders=case.orders, jobs=1).mappings[0]
    check_values(case.spec, [best])
    event("tied" if len(front) == 1 else "several on the front")
    assert (best.energy, best.latency) == pytest.approx(sorted(front)[end], rel=2e-9)


@pytest.mark.usefixtures("_very_coarse")
def test_a_tie_with_a_mapping_of_the_first_pass_is_broken() -> None:
    """Computing takes longest, so many mappings are the fastest, and the first pass finds one that costs more."""
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=2, M=32, KN=16, GlobalBufferSize=4096, MainMemoryEnergy=20e-12)
    front, fastest = fusiest.map(spec, coarse=False).mappings, fusiest.map(spec, "latency").mappings[0]
    assert fusiest.map(spec, "latency", time_limit=0).mappings[0].energy > 1.1 * fastest.energy
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
    best = fusiest.map(spec, "edp", coarse=False).best("edp").edp
    original, passes = Joiner.run, list[Coarse | None]()

    def failing(
        joiner: Joiner, incumbents: Incumbents, coarse: Coarse | None, *rest: object
    ) -> dict[frozenset[str], State]:
        passes.append(coarse)
        states = original(joiner, incumbents, coarse, *rest)  # type: ignore[arg-type]
        joiner.exact = coarse is None
        return {} if coarse is not None and fails(coarse.epsilon) else states

    monkeypatch.setattr(Joiner, "run", failing)
    assert fusiest.map(spec, "edp").best("edp").edp == pytest.approx(best, rel=1e-9)
    assert [coarse and coarse.epsilon for coarse in passes] == tried
    sizes = [coarse.most for coarse in passes if coarse is not None]
    assert sizes == sorted(set(sizes))


values = st.sampled_from([0.0, 1.0, 1.05, 1.15, 1.3, 2.0, 1e12, 1.1e12])
vectors = st.lists(st.tuples(st.integers(0, 1), values, values, values), min_size=1, max_size=30)


@cases(100, proving=1000)
@given(vectors=vectors, slack=st.sampled_from([1.0, 1.1, 1.2]))
def test_of_rows_within_a_factor_one_is_kept(vectors: list[tuple[int, float, float, float]], slack: float) -> None:
    groups, criteria = np.array([v[0] for v in vectors]), np.array([v[1:] for v in vectors])
    order = np.lexsort((criteria[:, 0], groups))
    keep = np.zeros(len(vectors), np.bool_)
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1, append=-1))
    prune_within(order, starts, criteria, slack, keep)
    within = (criteria[:, None] <= criteria[None] * slack).all(axis=2) & (groups[:, None] == groups[None])
    assert within[keep].any(axis=0).all()
    kept = list(np.flatnonzero(keep))
    position = {row: at for at, row in enumerate(order.tolist())}
    assert not any(within[a, b] for a in kept for b in kept if position[a] < position[b])


def test_zero_covers_all_and_is_covered_by_zero_alone() -> None:
    """An empty reservation is not near any other, however small."""
    criteria = np.array([[1.0, 1e-300], [1.0, 0.0], [1.0, 0.0]])
    keep = np.zeros(3, np.bool_)
    prune_within(np.arange(3), np.array([0, 3]), criteria, 1.2, keep)
    assert keep.tolist() == [True, True, False]


@pytest.mark.parametrize("objective", [("energy",), ("energy", "latency")])
def test_no_more_are_kept_than_allowed(objective: tuple[str, ...]) -> None:
    """And the best for each objective are among them, with their exact values."""
    rows = start_rows(1).take(np.zeros(1000, np.int64))
    rows.energy, rows.latency = np.arange(1.0, 1001.0), np.arange(1000.0, 0.0, -1.0)
    rows.tiles = np.arange(1000).reshape(-1, 1)
    (kept,) = thinned([(rows, NOTHING)], Incumbents(objective), Coarse(most=80), joins=2)
    assert 50 <= len(kept) <= 80 + 80 // 8
    assert kept.energy.min() == 1
    assert (kept.energy + kept.latency == 1001).all()
    assert len(objective) == 1 or kept.latency.min() == 1


def test_what_is_nearly_as_good_goes_first() -> None:
    rows = start_rows(1).take(np.zeros(1000, np.int64))
    rows.energy = np.linspace(1.0, 1.1, 1000)
    rows.latency = np.linspace(1.1, 1.0, 1000)
    (kept,) = thinned([(rows, NOTHING)], Incumbents(("energy",)), Coarse(most=80), joins=1)
    assert kept.energy.tolist() == [1.0]
    (kept,) = thinned([(rows, NOTHING)], Incumbents(("energy",)), Coarse(most=80), joins=4)
    assert 1 < len(kept) < 10
