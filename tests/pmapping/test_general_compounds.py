"""Variables that meet in a rank are searched as one, and nothing is lost by that."""

from __future__ import annotations

import itertools
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given

from fusiest.base.errors import SpecError
from fusiest.pmapping.chains.branch import inputs
from fusiest.pmapping.chains.branch.bounds import CostBound, Goal
from fusiest.pmapping.chains.branch.compounds import CompoundChains, compound_terms, groups_of
from fusiest.pmapping.chains.branch.inputs import BranchedCombiner
from fusiest.pmapping.chains.nest_tiles import GeneralNests
from fusiest.pmapping.chains.singles import SingleChains
from fusiest.pmapping.explore import explore
from fusiest.pmapping.lattice.remaining import Cutoff
from fusiest.pmapping.pareto import Floats, Ints
from fusiest.pmapping.question import Question
from fusiest.spec import Spec
from tests.drawing.targets import ODD_SIZES
from tests.load_text import load_text
from tests.mapper_strategies import MapperCase, mapper_cases
from tests.pmapping.test_general_symmetry import SQUARE
from tests.proving import TALLY, cases, floors

ASKED = Question(imperfect=True, needed=True, unlimited=True)


def chains(products: Floats) -> CompoundChains:
    numbers = np.arange(len(products))
    return CompoundChains(numbers[:, None], products, np.ones((len(products), 1), np.int64), np.zeros_like(numbers))


def everything(values: Floats, which: Ints) -> Ints:
    return np.arange(len(values))


def test_sums_stay_what_they_are_and_the_least_stays() -> None:
    """Three variables; (p + r) q as three terms of two criteria in proportion, one of its own, one that is skipped of it."""
    rng = np.random.default_rng(3)
    numbers = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [2, 0, 1]])
    weights = np.array([[1.0, 2.0], [2.0, 4.0], [1.0, 2.0], [3.0, 0.0], [-2.0, 0.0]])
    values = [rng.integers(1, 9, (count, 3)).astype(np.float64) for count in (7, 3, 5)]
    values[0][:, 2] = np.minimum(values[0][:, 0], values[0][:, 2])
    singles = [chains(v_values[:, numbers[:, v]]) for v, v_values in enumerate(values)]
    goal = Goal(Cutoff(np.empty((0, 2))), grows=False)
    bound = CostBound(goal, weights, {4: [3]}, lambda criteria: (criteria[:, 0], criteria[:, 1]))
    terms = compound_terms([(0, 1), (2,)], numbers, bound, np.ones((5, 0)))
    assert len(terms.factors) == 3
    assert terms.bound.skipped == {2: [1]}
    made = [terms.chains(i, singles, lambda limited: np.ones(len(limited), np.bool_), everything) for i in (0, 1)]
    assert len(made[0].keys) < 21
    found = []
    for one, other in itertools.product(range(len(made[0].keys)), range(len(made[1].keys))):
        p, r, q = *made[0].chosen[one], *made[1].chosen[other]
        whole = (singles[0].products[p] * singles[1].products[r] * singles[2].products[q]) @ weights
        assert (made[0].products[one] * made[1].products[other]) @ terms.bound.weights == pytest.approx(whole)
        found.append(whole)
    every = np.einsum("pt,rt,qt,tc->prqc", *(single.products for single in singles), weights).reshape(-1, 2)
    assert np.min(found, axis=0) == pytest.approx(every.min(axis=0))
    assert np.min(np.prod(found, axis=1)) == pytest.approx(np.prod(every, axis=1).min())
    for i, single in enumerate(made):
        low, high = terms.range_of(i, singles)
        assert (low <= single.products).all()
        assert (single.products <= high).all()


def test_variables_with_too_many_combinations_stay_apart() -> None:
    assert groups_of([1 << 10, 3, 1 << 10], [(0, 1), (1, 2)]) == [(0, 1), (2,)]
    assert groups_of([3, 1, 3], [(0, 1), (1, 2)]) == [(0,), (1,), (2,)]


def costs(spec: Spec, einsum: str) -> dict[object, list[tuple[float, float]]]:
    table = explore(spec, einsum, ASKED)
    return {form: sorted(zip(rows.energy, rows.latency, strict=True)) for form, rows in table.groups.items()}


def apart(spec: Spec, einsum: str) -> dict[object, list[tuple[float, float]]]:
    """No variables together, and chains compared before anything else is asked of them."""

    def everything_first(self: SingleChains, signs: object, limits: object) -> Ints:
        return self.undominated(signs, limits)  # type: ignore[arg-type]

    def every(self: BranchedCombiner, rest: object, values: Floats, which: Ints) -> Ints:
        return np.arange(len(values))

    with (
        patch.object(GeneralNests, "_meeting", []),
        patch.object(SingleChains, "known", everything_first),
        patch.object(BranchedCombiner, "_keeps", every),
    ):
        return costs(spec, einsum)


def same(found: dict[object, list[tuple[float, float]]], expected: dict[object, list[tuple[float, float]]]) -> None:
    assert found.keys() == expected.keys()
    for form, rows in expected.items():
        assert np.array(found[form]) == pytest.approx(np.array(rows), rel=1e-9)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [14, 40, 400])
def test_a_convolution(stride: int, size: int) -> None:
    spec = load_text(
        SQUARE.replace("p + r", f"{stride}*p + r").replace("q + s", f"{stride}*q + s").replace("14", f"{size}")
    )
    grouped = []
    with patch.object(inputs, "mirrored", lambda *a: grouped.append(a[0]) or mirrored(*a)):
        found = costs(spec, "E")
    assert any(len(group) > 1 for groups in grouped for group in groups)
    same(found, apart(spec, "E"))


mirrored = inputs.mirrored


@floors(40, meeting=0.1)
@cases(40, proving=1000)
@given(case=mapper_cases(sizes=ODD_SIZES))
def test_the_same_is_found(case: MapperCase) -> None:
    assume(ASKED.is_roomy(case.spec))
    try:
        expected = apart(case.spec, case.einsum)
    except SpecError as error:
        assume("not supported" not in error.message)
        raise
    TALLY["compared"] += 1
    accesses = case.spec.info.einsums[case.einsum].accesses.values()
    TALLY["meeting"] += any(len(rank.coefficients) > 1 for access in accesses for rank in access.ranks.values())
    same(costs(case.spec, case.einsum), expected)
