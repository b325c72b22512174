"""Pmappings that no better mapping can have are left out; that nothing is lost, the exhaustive mappers say elsewhere."""

from __future__ import annotations

import pytest

import fusiest
from fusiest.base.objective import objective_of
from fusiest.joining import Incumbents, JoinProblem, KnownCosts, potential, reduced
from fusiest.mapper.mapper import grouped
from fusiest.mapper.options import Options
from fusiest.mapper.tables import explore_all


def rows_of(problem: JoinProblem) -> int:
    return sum(len(group.rows) for own in problem.groups.values() for group in own)


@pytest.mark.parametrize("objective", ["energy", "edp", "energy,latency"])
def test_what_a_known_mapping_beats_goes(objective: str) -> None:
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=4, M=64, KN=64)
    options = Options(objective=tuple(objective.split(",")), jobs=1)
    problem = grouped(spec, options, explore_all(spec, options, lambda step: None))
    bounds = potential(problem).bounds(problem)
    least = bounds.least_of_all(frozenset())
    incumbents = Incumbents(objective_of(objective))
    assert rows_of(reduced(problem, bounds, incumbents)) == rows_of(problem)
    beaten = incumbents.with_point(KnownCosts(least.energy * 0.99, least.latency * 0.99))
    assert rows_of(reduced(problem, bounds, beaten)) == 0
    close = incumbents.with_point(KnownCosts(least.energy * 1.01, least.latency))
    left = reduced(problem, bounds, close)
    assert 0 < rows_of(left) < rows_of(problem)
    # The second and third product differ by names alone: they still have their rows in common.
    second, third = left.groups["Matmul1"], left.groups["Matmul2"]
    assert all(a.rows is b.rows for a, b in zip(second, third, strict=True))
    # What is left is what a relaxed mapping needs: its bound is no less than before, and not beaten.
    again = potential(left).bounds(left).least_of_all(frozenset())
    assert least.energy <= again.energy <= least.energy * 1.01
    assert least.latency <= again.latency <= least.latency * 1.000001
