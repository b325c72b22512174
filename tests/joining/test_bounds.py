"""Bounds on what is to come: those that know less are weaker, never wrong; and workloads that come apart."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fusiest
from fusiest.joining.bounds import relaxed
from fusiest.spec.dumping import dump
from tests.joining.test_stretches import _everywhere, check_stretches, relisted  # noqa: F401 (a fixture)
from tests.load_text import load_text
from tests.mapper.test_exhaustive_workload import run
from tests.workload_strategies import WorkloadCase

CHAIN = """
  - U1[n, b] = U0[n, a] * V0[a, b]
  - U2[n, c] = U1[n, b] * V1[b, c]
"""
BESIDE = """
  - T1[m, b] = T0[m, a] * W0[a, b]
  - T2[m, c] = T1[m, b] * W1[b, c]
  - T3[m, d] = T2[m, c] * W2[c, d]
"""
APART = BESIDE.replace("  - T3", CHAIN.lstrip("\n") + "  - T3")
"""T2 lives on while another chain runs."""


def chains(einsums: str, size: int) -> fusiest.Spec:
    sizes = "rank_sizes: {M: 16, N: 8, A: 4, B: 8, C: 2, D: 4}\n  bits_per_value: {All: 8}"
    simple = dump(fusiest.load("simple", GlobalBufferSize=size, MainMemoryEnergy=20e-12))
    return load_text(simple, f"workload:\n  {sizes}\n  einsums:\n{einsums}")


@pytest.mark.parametrize("size", [200, 1200])
@pytest.mark.parametrize("objective", ["energy", "latency"])
def test_what_shares_nothing_costs_the_sum(objective: str, size: int) -> None:
    whole, *parts = (
        getattr(fusiest.map(chains(einsums, size), objective, jobs=1).best(objective), objective)
        for einsums in (APART, CHAIN, BESIDE)
    )
    assert math.isclose(whole, sum(parts), rel_tol=1e-9)


def test_what_shares_nothing_is_not_interleaved() -> None:
    info = chains(APART, 200).info
    assert info.connected["U1"] == {"U1", "U2"}
    assert info.next_in_turn(frozenset()) == ["T1"]
    assert info.next_in_turn(frozenset({"T1", "T2"})) == ["T3"]
    assert info.next_in_turn(frozenset({"T1", "T2", "T3"})) == ["U1"]
    assert info.next_in_turn(frozenset({"U1"})) == ["U2"]
    assert info.next_in_turn(frozenset(info.einsums)) == []


@pytest.mark.usefixtures("_everywhere")
@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_a_stretch_uses_the_tensor_that_it_begins_with(objective: str) -> None:
    """In the given order T2 stays live while U1 and U2 run: there is no seam at which only it goes on to them."""
    bounded, without = (
        fusiest.map(chains(APART, 200), objective, orders="given", bounds=relaxed, jobs=1).best(objective)
        for relaxed in (True, False)
    )
    assert math.isclose(getattr(bounded, objective), getattr(without, objective), rel_tol=1e-9)


@pytest.mark.usefixtures("_everywhere")
@pytest.mark.parametrize("most", [0, 3])
@run(10)
@given(case=relisted(), objective=st.sampled_from([("energy",), ("latency",), ("edp",), ("energy", "latency")]))
def test_bounds_that_forget_tensors_lose_nothing(case: WorkloadCase, objective: tuple[str, ...], most: int) -> None:
    usual, relaxed._MOST_ALTERNATIVES = relaxed._MOST_ALTERNATIVES, most
    try:
        check_stretches(case, objective)
    finally:
        relaxed._MOST_ALTERNATIVES = usual
