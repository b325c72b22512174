"""Bounds of stretches change the time, never the result: with stretches of a single Einsum, on random small workloads."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import fusiest
from fusiest.joining import Coarse
from fusiest.joining.bounds import segments
from fusiest.joining.bounds.cuts import SeamBounds
from fusiest.mapper import search
from fusiest.spec.dumping import dump
from tests.load_text import load_text
from tests.mapper.test_exchange import diamonds
from tests.mapper.test_exhaustive_workload import found, run, same_front
from tests.mapper.test_map import LATE
from tests.workload_strategies import WorkloadCase, workload_cases


@pytest.fixture
def _everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first pass that cuts nearly everything off, then stretches as small as can be."""
    monkeypatch.setattr(search, "FIRST_PASS", Coarse(most=2))
    monkeypatch.setattr(search, "WORTHWHILE_EINSUMS", 2)
    monkeypatch.setattr(search, "LONG_EINSUMS", 2)
    monkeypatch.setattr(search, "MOST_GAPS", math.inf)
    monkeypatch.setattr(segments, "_LEAST_EINSUMS", 1)
    monkeypatch.setattr(segments, "_LEAST_FUSED_EINSUMS", 1)


@pytest.mark.usefixtures("_everywhere")
@pytest.mark.parametrize("objective", [("energy",), ("latency",), ("edp",), ("energy", "latency")], ids=",".join)
@run(15)
@given(case=workload_cases())
def test_stretches_lose_nothing(case: WorkloadCase, objective: tuple[str, ...]) -> None:
    check_stretches(case, objective)


@pytest.mark.usefixtures("_everywhere")
@run(10)
@given(
    case=diamonds(),
    objective=st.sampled_from([("energy",), ("latency",), ("edp",), ("energy", "latency")]),
)
def test_stretches_lose_nothing_where_tensors_need_not_be_finished(
    case: WorkloadCase, objective: tuple[str, ...]
) -> None:
    check_stretches(case, objective, "any")


def check_stretches(case: WorkloadCase, objective: tuple[str, ...], exchange: str = "finished") -> None:
    seams: list[int] = []
    original = search.seam_bounds

    def counting(*arguments: object) -> SeamBounds:
        bounds = original(*arguments)
        seams.append(len(bounds.seams))
        return bounds

    search.seam_bounds = counting
    try:
        bounded = found(case, objective, exchange=exchange)
        without = found(case, objective, exchange=exchange, bounds=False)
    finally:
        search.seam_bounds = original
    event(f"{max(seams, default=0)} seams")
    assert (bounded is None) == (without is None)
    if bounded is not None and without is not None:
        if len(objective) > 1:
            assert same_front(bounded, without)
        else:
            assert len(bounded) == len(without)
            score = {"energy": lambda p: p[0], "latency": lambda p: p[1], "edp": lambda p: p[0] * p[1]}[objective[0]]
            assert all(math.isclose(score(a), score(b), rel_tol=1e-9) for a, b in zip(bounded, without, strict=True))


@pytest.mark.usefixtures("_everywhere")
@pytest.mark.parametrize("objective", ["energy", "latency", "edp"])
def test_stretches_of_a_fused_chain(objective: str) -> None:
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=5, M=32, KN=16, MainMemoryEnergy=20e-12)
    bounded = fusiest.map(spec, objective, windows="none").best(objective)
    without = fusiest.map(spec, objective, windows="none", bounds=False).best(objective)
    assert math.isclose(getattr(bounded, objective), getattr(without, objective), rel_tol=1e-9)


@st.composite
def relisted(draw: st.DrawFn) -> WorkloadCase:
    """A workload whose Einsums are listed in any order in which they can run: what is needed late may run early."""
    case = draw(workload_cases())
    info, workload = case.spec.info, case.spec.require_workload()
    left, listed = list(info.einsums), list[str]()
    while left:
        ready = [e for e in left if info.needs[e] <= set(listed)]
        listed.append(draw(st.sampled_from(ready[::-1])))
        left.remove(listed[-1])
    einsums = tuple(sorted(workload.einsums, key=lambda e: listed.index(e.name)))
    return replace(case, spec=replace(case.spec, workload=replace(workload, einsums=einsums)))


@pytest.mark.usefixtures("_everywhere")
@run(15)
@given(case=relisted(), objective=st.sampled_from([("energy",), ("latency",), ("edp",), ("energy", "latency")]))
def test_stretches_lose_no_order(case: WorkloadCase, objective: tuple[str, ...]) -> None:
    check_stretches(case, objective)


@pytest.mark.usefixtures("_everywhere")
@pytest.mark.parametrize("size", [128, 256, 512])
@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_what_is_listed_late_may_run_first(objective: str, size: int) -> None:
    """Not all orders finish the first products before the one that they do not need: there, stretches bound nothing."""
    simple = dump(fusiest.load("simple", GlobalBufferSize=size, MainMemoryEnergy=20e-12))
    spec = load_text(simple, LATE)
    bounded, without = (fusiest.map(spec, objective, windows="none", bounds=bounds, jobs=1) for bounds in (True, False))
    assert bounded.optimal
    assert math.isclose(
        getattr(bounded.best(objective), objective), getattr(without.best(objective), objective), rel_tol=1e-9
    )
