"""Where exploring is hard, only pmappings that can be part of something better than is known: the best is the same."""

from __future__ import annotations

import pytest
from hypothesis import event, given

import fusiest
from fusiest.joining import KnownCosts
from fusiest.mapper import Options, anytime, mapper
from fusiest.mapper.cutoffs import make_cutoffs
from fusiest.mapper.results.result import Result
from fusiest.mapper.tables import Explored, Explorer
from fusiest.pmapping import Effort, Question, RowLimitReached, explore, renamed_table, why_none
from tests.mapper.test_anytime import explorer_of
from tests.mapper.test_exhaustive_workload import covers, run
from tests.mapper.test_map import forced
from tests.workload_strategies import WorkloadCase, workload_cases

CHAIN = fusiest.load("simple", "matmuls", N_EINSUMS=3, M=64, KN=64)


def searched(case: WorkloadCase, objective: str, row_limit: float) -> Result | None:
    """Search with a limit of rows; None: there is no mapping."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anytime, "ROW_LIMIT", row_limit)
        try:
            return fusiest.map(case.spec, objective, orders=case.orders, jobs=1, windows="none")
        except fusiest.FusiestError:
            return None


@run(6)
@given(case=workload_cases())
@pytest.mark.parametrize("objective", ["energy,latency", "edp", "energy", "latency"])
def test_without_patience_the_best_is_the_same(objective: str, case: WorkloadCase) -> None:
    """All Einsums are too hard at once, and explored with cutoffs."""
    usual, hard = searched(case, objective, 1e18), searched(case, objective, -1.0)
    assert (usual is None) == (hard is None)
    if usual is None or hard is None:
        event("there is no mapping")
        return
    assert hard.optimal
    fewer = sum(hard.stats.pmappings.values()) < sum(usual.stats.pmappings.values())
    event("fewer pmappings" if fewer else "all pmappings")
    ours, theirs = ([(m.energy, m.latency) for m in result.mappings] for result in (hard, usual))
    assert len(ours) == len(theirs)
    for one in theirs:
        assert covers(ours, one)
    for one in ours:
        assert covers(theirs, one)


def test_tables_with_a_cutoff_have_less() -> None:
    """Known costs of little more than the best leave few pmappings, and those are among all."""
    explorer = explorer_of(CHAIN, objective=("energy",))
    best = fusiest.map(CHAIN, "energy", jobs=1).mappings[0]
    name = explorer.distinct[1]
    whole = explore(CHAIN, name, Question())
    cutoff = make_cutoffs(explorer, {}, [KnownCosts(best.energy, best.latency)])[name]
    less = explore(CHAIN, name, Question(), Effort(cutoff=cutoff))
    assert 0 < len(less) < len(whole)
    for form, rows in less.groups.items():
        assert set(rows.energy) <= set(whole.groups[form].energy)


def test_tables_that_are_given_back_leave_out_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked for a search gets the tables that were explored before something was known, and none with a cutoff."""
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=3, M=64, KN=64, GlobalBufferSize=32768)
    run_options = Options(objective=("energy", "latency"), jobs=1)
    _, whole, *_ = mapper._run(spec, run_options, lambda step: None, None)
    monkeypatch.setattr(anytime, "ROW_LIMIT", -1.0)
    _, hard, *_ = mapper._run(spec, run_options, lambda step: None, None)
    assert len(whole) == 3
    assert hard == {}


def test_what_is_too_hard_says_so() -> None:
    with pytest.raises(RowLimitReached):
        explore(CHAIN, "Matmul1", Question(), Effort(row_limit=3))


def test_why_there_is_nothing_is_found_with_patience() -> None:
    said = str(why_none(forced(64), "Matmul1", Question()))
    assert "at least 136 bits, 72 more than its size of 64" in said


def test_tables_that_others_use_have_all_pmappings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anytime, "ROW_LIMIT", -1.0)
    efforts: list[Effort] = []
    explored = Explorer.explore

    def noted(self: Explorer, question: Question, effort: Effort, *others: object) -> Explored:
        efforts.append(effort)
        return explored(self, question, effort, *others)

    monkeypatch.setattr(Explorer, "explore", noted)
    mapper.run(CHAIN, mapper.Options(jobs=1), prior=mapper.Prior(shared=True))
    assert all(effort.row_limit > 0 and effort.cutoff is None for effort in efforts)


def test_a_table_of_an_equal_einsum_stands_for_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many tables are known as Einsums differ, but one of these tables belongs to an Einsum that equals another."""
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=5, M=64, KN=64, GlobalBufferSize=32768)
    options = Options(objective=("energy", "latency"), jobs=1)
    usual, found, *_ = mapper._run(spec, options, lambda step: None, None)
    known = dict(found)
    explorer = explorer_of(spec)
    (last,), first = explorer.distinct[-1:], explorer.distinct[1]
    equal = next(name for name, stands in explorer.representative.items() if stands == first and name != first)
    known[equal] = renamed_table(spec, known[first], equal)
    del known[last]
    monkeypatch.setattr(anytime, "ROW_LIMIT", -1.0)
    hard = mapper._run(spec, options, lambda step: None, None, mapper.Prior(known)).result
    assert hard.best("latency").latency == usual.best("latency").latency
