"""Joining rows, with numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusiest.base.objective import CLOSE, EDP, ENERGY, FRONT, LATENCY, Least, Objective
from fusiest.joining import Incumbents, KnownCosts
from fusiest.joining.rows.consolidation import start_rows
from fusiest.joining.rows.kernels import BeforeArrays, EinsumArrays, JointArrays, joined_rows


@pytest.mark.parametrize(
    ("taken", "energy", "kept"),
    [([3, 3, 1], [5.0, 5.0, 2.0], [1, 3]), ([3, 3, 1], [5.0, 6.0, 2.0], [1, 3]), ([3, 1, 1], [5.0, 6.0, 5.0], [3])],
)
def test_equal_space_taken_keeps_no_dominated_row(taken: list[int], energy: list[float], kept: list[int]) -> None:
    """Of rows with the same beginning, one is kept for each amount of space taken, and none if more costs no more."""
    rows = replace(start_rows(1, 3), taken=np.array(taken), energy=np.array(energy))
    assert sorted(rows.taken[rows.best()].tolist()) == kept


def arrays(tiles: list[list[int]], energy: list[float], seed: int = 0) -> dict[str, Any]:
    """Rows of one memory with these tiles and energies, and random latencies."""
    return {
        "tiles": np.array(tiles, np.int64),
        "energy": np.array(energy),
        "latency": np.random.default_rng(seed).random(len(energy)),
    }


def joint(grouped: bool = True, size: float = 200.0) -> JointArrays:
    """Two open loops in a zone each, of which the Einsum's second and first are the same; one zone stays open."""
    ints = (np.array(x, np.int64) for x in ([[0, 1], [1, 0]], [0, 1, 2], [0, 1, 2]))
    one = np.zeros(1, np.int64)
    charges = np.array([[0, 1, 0], [0, -1, 1], [0, 2, 2]], np.int64)
    return JointArrays(*ints, 2, 1, one, one, charges, grouped, np.zeros(1, np.bool_), np.array([size]))


@pytest.mark.parametrize("grouped", [True, False])
def test_rows_with_equal_tiles_are_joined(grouped: bool) -> None:
    before = BeforeArrays(
        **arrays([[3, 1 << 40], [4, 7], [4, 7]], [1.0, 2.0, 3.0]),
        reserved=np.array([[[1.0, 2.0]]] * 3), beside=np.array([[[0.0, 30.0, 4.0]]] * 3), persistent=np.full((3, 1), 0.5),
    )  # fmt: skip
    einsum = EinsumArrays(
        **arrays([[7, 4], [1 << 40, 3], [5, 3]], [10.0, 20.0, 30.0], 1),
        bits=np.array([[[5.0, 6.0, 7.0]]] * 3), persistent=np.full((3, 1), 0.25), charges=np.array([[8.0] * 3, [16.0] * 3, [32.0] * 3]),
    )  # fmt: skip
    nothing = Incumbents(FRONT).arrays
    pairs, reserved, beside, persistent, inside = joined_rows(before, einsum, joint(grouped), nothing, np.zeros(3))
    assert pairs.tolist() == [[0, 1], [1, 0], [2, 0]]
    # Above the second zone 1 + 5; below it 2 + 6 + 8 in the zone itself, and inside it the Einsum's 7 + 32 (not the other's 4).
    assert inside.tolist() == [[39.0]] * 3
    assert reserved.tolist() == [[[6.0]]] * 3
    assert beside.tolist() == [[[0.0, 16.0 + 39.0]]] * 3
    assert persistent.tolist() == [[16.75]] * 3
    wide = before._replace(beside=np.array([[[0.0, 30.0, 64.0]]] * 3))  # the other needs more inside all loops
    assert joined_rows(wide, einsum, joint(grouped), nothing, np.zeros(3))[2].tolist() == [[[0.0, 16.0 + 64.0]]] * 3
    need = 6.0 + 55.0 + 16.75
    for size, count in ((need, 3), (need - 0.01, 0)):
        assert len(joined_rows(before, einsum, joint(grouped, size), nothing, np.zeros(3))[0]) == count
    energies = Incumbents(ENERGY).with_point(KnownCosts(12.5, 0.0)).arrays
    assert joined_rows(before, einsum, joint(grouped), energies, np.zeros(3))[0].tolist() == [[1, 0]]
    assert joined_rows(before, einsum, joint(grouped), energies, np.array([1.0, 0.0, 0.0]))[0].tolist() == []


@pytest.mark.parametrize("objective", [ENERGY, LATENCY, EDP, FRONT], ids=lambda o: ",".join(o.names))
@settings(deadline=None)
@given(data=st.data())
def test_promising_is_what_the_objective_says(objective: Objective, data: st.DataObject) -> None:
    """Compiled, and as the objective's own scores say; with numbers that often tie."""
    few = st.sampled_from([1.0, 1.0 + 1e-10, 1.5, 2.0, 3.0, 4.0])
    costs = st.tuples(few, few)
    points = [KnownCosts(*data.draw(costs)) for _ in range(data.draw(st.integers(1, 3)))]
    incumbents = Incumbents(objective, weights=objective.weights(*data.draw(costs)))
    for point in points:
        incumbents = incumbents.with_point(point)
    energy, latency = np.array(data.draw(st.lists(costs, min_size=1, max_size=6))).T
    more = Least(*data.draw(costs), data.draw(few))
    found = incumbents.promising(energy, latency, more)
    scores = [float(objective.score(np.array(p.energy), np.array(p.latency))) for p in points]
    others = [
        float(objective.tie_break(np.array(p.energy), np.array(p.latency)))
        for p, score in zip(points, scores, strict=True)
        if score <= min(scores) * (1 + CLOSE)
    ]
    least = objective.least_score(energy, latency, more, incumbents.weights)
    for row, (e, t) in enumerate(zip(energy + more.energy, latency + more.latency, strict=True)):
        if objective.is_front:
            better = all(e < p.energy * (1 - CLOSE) or t < p.latency * (1 - CLOSE) for p in points)
        else:
            other = float(objective.tie_break(np.array(e), np.array(t)))
            ties = objective.follows_ties and least[row] <= min(scores) * (1 + CLOSE)
            better = least[row] < min(scores) * (1 - CLOSE) or (ties and other < min(others) * (1 - CLOSE))
        assert bool(found[row]) == better
    assert incumbents.promising_groups(energy, latency, np.array([more])).tolist() == [bool(found.any())]
