"""Objectives and what has to be beaten, with numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fusiest.base.errors import SpecError
from fusiest.base.objective import (
    EDP,
    ENERGY,
    FRONT,
    LATENCY,
    NO_WEIGHTS,
    NOTHING,
    Least,
    Objective,
    Weights,
    objective_of,
)
from fusiest.joining.rows.incumbents import Incumbents, KnownCosts

E, L = np.array([4.0]), np.array([2.0])


def test_names() -> None:
    assert [objective_of(text) for text in ("energy", "latency", "edp", "latency,energy")] == [
        ENERGY,
        LATENCY,
        EDP,
        FRONT,
    ]
    with pytest.raises(SpecError, match="did you mean 'energy'"):
        objective_of("energie")
    with pytest.raises(SpecError, match="whole front"):
        objective_of("edp,energy")


@pytest.mark.parametrize(("objective", "score", "other"), [(ENERGY, 4, 2), (LATENCY, 2, 4), (EDP, 8, 4)])
def test_scores_and_what_decides_between_equal_ones(objective: object, score: float, other: float) -> None:
    assert objective.score(E, L).tolist() == [score]
    assert objective.tie_break(E, L).tolist() == [other]


def test_the_least_product_is_at_a_corner() -> None:
    """Energy is at least 1 + 1, latency at least 1 + 1, their sum at least 2 + 6: the corners are (2, 6) and (6, 2)."""
    more, weights, one = Least(1.0, 1.0, 6.0), Weights(1.0, 1.0), np.array([1.0])
    assert EDP.least_score(one, one, more, weights).tolist() == [12.0]
    assert EDP.least_score(one, one, more, NO_WEIGHTS).tolist() == [4.0]
    steep = Weights(1.0, 2.0)  # energy + 2 latency >= 3 + 6: (2, 3.5) or (5, 2)
    assert EDP.least_score(one, one, more, steep).tolist() == [7.0]
    assert ENERGY.least_score(one, one, more, weights).tolist() == [2.0]


def test_weights_are_those_of_mappings_of_about_such_costs() -> None:
    assert EDP.weights(4.0, 0.5) == (0.25, 2.0)
    assert ENERGY.weights(4.0, 0.5) == NO_WEIGHTS == EDP.weights(0.0, 1.0)


def test_powers_count() -> None:
    """Energy × latency²: of energy + 4 latency >= 14, at least 2 each, the corners are (2, 3) and (6, 2)."""
    ed2p = Objective(("ed2p",), (1, 2))
    assert ed2p.score(E, L).tolist() == [16.0]
    assert ed2p.weights(4.0, 0.5) == (0.25, 4.0)
    more, weights, one = Least(1.0, 1.0, 9.0), Weights(1.0, 4.0), np.array([1.0])
    assert ed2p.least_score(one, one, more, weights).tolist() == [18.0]
    for best, expected in ((17.9, False), (18.1, True)):
        known = Incumbents(ed2p, weights=weights).with_point(KnownCosts(best, 1.0))
        assert promising(known, 1.0, 1.0, more) is expected
    assert (ed2p.energy_at(16.0, 2.0), ed2p.latency_at(16.0, 4.0), ed2p.scale(27.0)) == (4.0, 2.0, pytest.approx(3.0))


def promising(known: Incumbents, energy: float, latency: float, more: Least = NOTHING) -> bool:
    return bool(known.promising(np.array([energy]), np.array([latency]), more)[0])


def test_a_front_is_beaten_in_one_cost() -> None:
    known = Incumbents(FRONT).with_point(KnownCosts(4.0, 2.0)).with_point(KnownCosts(2.0, 4.0))
    assert [promising(known, *costs) for costs in ((3.0, 3.0), (4.0, 2.0), (5.0, 1.0), (2.0, 5.0), (1.0, 9.0))] == [
        True, False, True, False, True,
    ]  # fmt: skip
    assert not promising(known, 3.0, 3.0, Least(1.0, 0.0, 0.0))


def test_points_that_are_no_better_are_not_kept() -> None:
    known = Incumbents(FRONT).with_point(KnownCosts(4.0, 2.0)).with_point(KnownCosts(5.0, 2.0))
    assert known.points == (KnownCosts(4.0, 2.0),)
    assert known.with_point(KnownCosts(3.0, 1.0)).points == (KnownCosts(3.0, 1.0),)


def test_ties_are_followed_where_the_other_cost_is_less() -> None:
    known = Incumbents(ENERGY).with_point(KnownCosts(4.0, 2.0))
    assert [promising(known, 4.0, latency) for latency in (1.0, 2.0, 3.0)] == [True, False, False]
    product = Incumbents(EDP).with_point(KnownCosts(4.0, 2.0))
    assert not promising(product, 2.0, 4.0)


def test_with_less_usage_more_may_be_paid() -> None:
    known = Incumbents(ENERGY, watched=0).with_point(KnownCosts(4.0, 2.0, 100.0))
    costs = np.array([5.0, 5.0, 3.0]), np.array([2.0, 2.0, 2.0])
    assert known.promising(*costs, NOTHING, np.array([50.0, 100.0, 200.0])).tolist() == [True, False, True]
    assert known.promising(*costs, NOTHING).all()
