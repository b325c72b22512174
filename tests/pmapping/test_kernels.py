"""Compiled kernels against plain NumPy."""

from __future__ import annotations

import numba
import numpy as np
import pytest

import fusiest
from fusiest.pmapping import Cutoff, Effort, Question, explore
from fusiest.pmapping.compile_ahead import cross_little
from fusiest.pmapping.lattice import kernels, pair_kernels
from fusiest.pmapping.lattice.bound_kernels import NOTHING_ACROSS, Bar, ToBeat
from fusiest.pmapping.pareto import Floats, Ints


def undominated(rows: Floats) -> set[int]:
    """Rows that no other is at least as good as; of equal ones, the first."""
    better = (rows[:, None, :] <= rows[None, :, :]).all(axis=2)
    equal = (rows[:, None, :] == rows[None, :, :]).all(axis=2)
    first = np.triu(equal, 1)
    return set(np.flatnonzero(~((better & ~equal) | first).any(axis=0)).tolist())


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 9, 100])
def test_rows_in_order(count: int) -> None:
    dice = np.random.default_rng(count)
    criteria = dice.integers(0, 9, (count, 2)).astype(np.float64)
    rows: Ints = np.arange(count)
    kernels._sort(rows, criteria, np.empty(count + 3, np.int64))
    assert rows.tolist() == np.argsort(criteria[:, 0], kind="stable").tolist()


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_pareto_sets_of_groups(seed: int, in_order: bool) -> None:
    dice = np.random.default_rng(seed)
    criteria = dice.integers(0, 7, (400, 3)).astype(np.float64)
    groups = dice.integers(0, 6, 400)
    kept = kernels.pareto(groups, 6, criteria, in_order)
    assert groups[kept].tolist() == sorted(groups[kept].tolist())
    for group in range(6):
        own = np.flatnonzero(groups == group)
        expected = {tuple(criteria[own[i]]) for i in undominated(criteria[own])}
        found = [tuple(criteria[i]) for i in kept if groups[i] == group]
        assert len(found) == len(expected)
        assert set(found) == expected


def test_crossing_keeps_more_rows_than_there_was_room_for() -> None:
    """One shape below and above, one choice that doubles the second criterion: 3,000 rows, none better than another."""
    count = 3_000
    inputs = np.column_stack([np.arange(count), np.arange(count)[::-1]]).astype(np.float64)
    matrix = np.array([[[1.0, 0.0], [0.0, 2.0]]])
    one, none = np.zeros(1, np.int64), np.empty((0, 2))
    pairs = pair_kernels.Pairs(one, np.array([0, 1]), one, one, np.array([0, count]))
    goal = ToBeat(np.ones(0, np.bool_), np.ones(2), none, np.empty((0, 3)), np.ones(1))
    bar = Bar(np.zeros((1, 1), np.float32), goal)
    lengths, origin, choice, out = pair_kernels.cross(pairs, inputs, matrix, bar, NOTHING_ACROSS)
    assert lengths.tolist() == [count]
    assert sorted(origin.tolist()) == list(range(count))
    assert (choice == 0).all()
    assert (out == inputs[origin] * [1, 2]).all()


def test_pairs_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of another layout would be compiled for anew, which takes longer than a search."""
    pair, layouts = pair_kernels.pair, set()

    def noted(steps: Ints, rows: Ints, shapes: int) -> object:
        layouts.add((steps.flags.c_contiguous, rows.flags.c_contiguous))
        return pair(steps, rows, shapes)

    monkeypatch.setattr(pair_kernels, "pair", noted)
    fusiest.map(fusiest.load("tpu_v4i", "matmuls", N_EINSUMS=1, M=64, KN=64), "edp", jobs=1)
    assert layouts == {(True, True)}


def test_crossing_is_compiled_for_one_kind_of_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a second each time: with something to beat or not, with leakage or none, arguments have the same types."""
    cross, kinds = pair_kernels.cross, set[object]()

    def noted(*arguments: object) -> object:
        kinds.add(tuple(numba.typeof(argument) for argument in arguments))
        return cross(*arguments)

    monkeypatch.setattr(pair_kernels, "cross", noted)
    spec = fusiest.load("tpu_v4i", "matmuls", N_EINSUMS=1, M=64, KN=64)
    known = Cutoff(np.array([[1.0, 1.0]]))
    for cutoff in (None, known):
        assert len(explore(spec, "Matmul0", Question(usage=True), Effort(cutoff=cutoff)))
    cross_little()  # what is compiled ahead
    assert len(kinds) == 1
