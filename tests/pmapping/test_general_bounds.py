"""Where only energy and latency matter, the general search has something to beat, and loses nothing by it."""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given

import fusiest
from fusiest import NoMapping
from fusiest.base.errors import SpecError
from fusiest.base.objective import EDP, ENERGY, LATENCY, Objective
from fusiest.pmapping.chains import combine
from fusiest.pmapping.chains.branch import inputs
from fusiest.pmapping.chains.branch.bounds import CostBound, Goal
from fusiest.pmapping.chains.chain_search import GeneralSearch
from fusiest.pmapping.chains.tied_variables import _usages, iteration_choices
from fusiest.pmapping.explore import explore, paths
from fusiest.pmapping.lattice.remaining import Cutoff
from fusiest.pmapping.nest.spatial import satisfies, usage
from fusiest.pmapping.pareto import Floats
from fusiest.pmapping.question import Question
from fusiest.spec import BoundComparison, Spec
from tests.drawing.targets import ODD_SIZES
from tests.load_text import load_text
from tests.mapper_strategies import MapperCase, mapper_cases
from tests.proving import TALLY, cases, floors

ASKED = Question(imperfect=True, needed=True, unlimited=True)


def costs(spec: Spec, einsum: str, bounded: bool) -> dict[object, list[tuple[float, float]]]:
    """Energy and latency of pmappings, by form; combined variable by variable, however few there are."""
    with patch.object(combine, "_SMALL", 0), patch.object(combine, "_BLOCK", 2):
        if bounded:
            with patch.object(inputs, "_UNTRADED", 0):
                table = explore(spec, einsum, ASKED)
        else:
            with (
                patch.object(GeneralSearch, "goal", lambda *_: None),
                patch.object(sys.modules[explore.__module__], "_first_look", lambda *_: ()),
            ):
                table = explore(spec, einsum, ASKED)
    return {form: sorted(zip(rows.energy, rows.latency, strict=True)) for form, rows in table.groups.items()}


def unbounded_costs(case: MapperCase) -> dict[object, list[tuple[float, float]]]:
    """Those of a case that can be compared, without anything to beat."""
    assume(ASKED.is_roomy(case.spec))
    try:
        whole = costs(case.spec, case.einsum, bounded=False)
    except SpecError as error:
        assume("not supported" not in error.message)
        raise
    TALLY["compared"] += 1
    return whole


@floors(30)
@cases(30, proving=1000)
@given(case=mapper_cases(sizes=ODD_SIZES))
def test_the_same_is_found(case: MapperCase) -> None:
    """The whole front; and for each objective the best by it, and by what decides between equal ones."""
    whole = unbounded_costs(case)
    found = costs(case.spec, case.einsum, bounded=True)
    assert whole.keys() == found.keys()
    for form, rows in whole.items():
        assert np.array(found[form]) == pytest.approx(np.array(rows), rel=1e-9)
    for objective in (ENERGY, LATENCY, EDP):
        with patch.object(inputs, "_UNTRADED", 0):
            bounded = explore(case.spec, case.einsum, replace(ASKED, objective=objective)).groups
        assert whole.keys() == bounded.keys()
        for form, rows in whole.items():
            best = _best(objective, *np.array(rows).T)
            assert _best(objective, bounded[form].energy, bounded[form].latency) == pytest.approx(best, rel=1e-8)


def test_what_takes_longer_must_need_less() -> None:
    goal = Goal(Cutoff(np.array([[3.0, 1.0], [1.0, 2.0]])), grows=True)
    assert goal.keeps(np.array([2.0, 2.0]), np.array([1.5, 2.5])).tolist() == [True, False]
    goal.learn(np.array([2.0]), np.array([1.5]))
    assert goal.keeps(np.array([2.0, 1.9]), np.array([1.5, 1.5])).tolist() == [False, True]


def _best(objective: Objective, energy: Floats, latency: Floats) -> tuple[float, float]:
    score = objective.score(energy, latency)
    ties = score <= score.min() * (1 + 1e-9)
    return float(score.min()), float(objective.tie_break(energy, latency)[ties].min())


def test_what_is_skipped_is_a_part_of_what_it_is_skipped_of() -> None:
    """P p - M m, of which P = 5, M = 2 are known, with p in 3..4 and m in 1..3: 9 at least, not 15 - 6 · 3."""

    def plain(criteria: Floats) -> tuple[Floats, Floats]:
        return criteria[:, 0], np.zeros(len(criteria))

    weights = np.array([[1.0], [-1.0]])
    least, greatest = np.array([3.0, 1.0]), np.array([4.0, 3.5])
    goal = Goal(Cutoff(np.array([[math.inf, math.inf]])), grows=False)
    bound = CostBound(goal, weights, {1: [0]}, plain)
    energy, _ = bound.costs(np.array([[5.0, 2.0]]), bound.rest(least, greatest))
    assert energy.tolist() == [9.0]


NO_CHOICES = """
arch:
  nodes:
  - !Memory
    {name: Reg, size: 12, component_class: Dummy,
     spatial: [{name: X, fanout: 4, min_usage: 1, power_gateable: true}, {name: Y, fanout: 3, power_gateable: true}]}
  - !Compute {name: MAC, component_class: Dummy}
workload:
  bits_per_value: 8
  persistent_tensors: A | B
  einsums:
  - {name: E, tensor_accesses: [{name: A, projection: []}, {name: B, projection: [p], output: true}],
     iteration_space_shape: [0 <= p < 2]}
"""


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_variable_without_choices_leaves_nothing() -> None:
    with pytest.raises(NoMapping, match=r"the constraints of Reg\.X \(min_usage, loop_bounds\) cannot"):
        fusiest.map(load_text(NO_CHOICES), jobs=1)


@pytest.mark.parametrize("imperfect", [False, True])
def test_usages_are_those_of_every_choice_of_spatial_loops(imperfect: bool) -> None:
    """Also of a compute that is below no fanout, which has one way to use nothing; `loop_bounds` of products are met."""
    compared, widths = 0, set()
    for arch in ("tpu_v4i", "simba", "nvdla", "eyeriss"):
        spec = fusiest.load(arch, "matmuls", N_EINSUMS=1, M=6, KN=10)
        for path in paths(spec, "Matmul0"):
            dimensions = [d for c in path.components for d in c.dimensions]
            variables = list(path.einsum.bounds)
            expected = set()
            for loops in itertools.product(*(iteration_choices(path, v, imperfect) for v in variables)):
                used = [math.prod(n) for n in zip(*loops, strict=True)] if dimensions else []
                if all(
                    n <= d.most and all(_is_met(c, i, dict(zip(variables, loops, strict=True))) for c in d.loop_bounds)
                    for i, (n, d) in enumerate(zip(used, dimensions, strict=True))
                ):
                    expected.add(usage(dimensions, used))
            assert _usages(path, imperfect) == expected
            compared += len(expected)
            widths.add(len(dimensions))
    assert compared > 4
    assert len(widths) > 1


def _is_met(comparison: BoundComparison, dimension: int, loops: dict[str, tuple[int, ...]]) -> bool:
    if not comparison.operator.startswith("product"):
        return True  # choices of one variable obey them
    product = math.prod(loops[v][dimension] for v in comparison.variables if v in loops)
    name = next(iter(comparison.variables), None)
    return satisfies(comparison, {name: product} if name is not None else {})
