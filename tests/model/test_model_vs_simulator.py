"""The model's formulas against the step-by-step simulator, on random specs and LoopTrees.

FUSIEST_PROVE=1 tries thousands of cases instead of some hundred, and new ones each time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

from hypothesis import given

import fusiest
from tests import proving
from tests.reference.simulator import Simulation, simulate
from tests.strategies import Case, cases

run = proving.cases(150, proving=5000)

K = TypeVar("K")


def differences(model: Mapping[K, float], simulated: Mapping[K, float]) -> dict[K, tuple[float, float]]:
    """Where the two differ: (model, simulator). Numbers are compared exactly but for the rounding of one division."""
    pairs = {key: (model.get(key, 0), simulated.get(key, 0)) for key in {**model, **simulated}}
    return {key: (a, b) for key, (a, b) in pairs.items() if not math.isclose(a, b, rel_tol=1e-12)}


@run
@given(cases())
def test_model_equals_simulator(case: Case) -> None:
    evaluation = fusiest.evaluate(case.spec, case.tree)
    assert evaluation.warnings == ()
    check_costs(evaluation, simulate(case.spec, case.tree))


def check_costs(evaluation: fusiest.Evaluation, simulation: Simulation) -> None:
    for name, simulated in simulation.einsums.items():
        model = evaluation.einsums[name]
        assert differences(model.actions, simulated.actions) == {}, name
        assert differences(model.per_unit, simulated.per_unit) == {}, name
        assert (model.points, model.steps) == (simulated.operations, simulated.steps), name
        assert differences(model.occupancy_bits, simulated.occupancy_bits) == {}, name
        assert model.reservation_levels == simulated.reservation_levels, name
    assert differences(evaluation.peak_occupancy_bits, simulation.peak_occupancy_bits) == {}


@run
@given(cases())
def test_every_value_is_moved_when_it_must_be(case: Case) -> None:
    assert simulate(case.spec, case.tree).wrong_tensors == ()
