"""Pairs of rows below a fanout and Spatial choices, by boxes of both, against all pairs one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiest.base.errors import SpecError
from fusiest.pmapping import Cutoff, Effort, Question, Table, explore
from fusiest.pmapping.lattice import fanout, pair_kernels
from fusiest.pmapping.lattice.bound_kernels import Bar, ToBeat, beaten
from fusiest.pmapping.lattice.fanout import halved
from fusiest.pmapping.pareto import Floats
from tests.mapper_strategies import MapperCase, mapper_cases
from tests.proving import TALLY, cases, floors


@pytest.mark.parametrize("seed", range(20))
def test_boxes_leave_out_no_pair(seed: int) -> None:
    """Also with values below zero, as what first passes save is, and with one row or choice."""
    dice = np.random.default_rng(seed)
    rows, choices, shapes = int(dice.integers(1, 300)), int(dice.integers(1, 200)), 50
    values = dice.uniform(-0.2, 1, (rows, 3)) ** 3
    matrix = dice.uniform(0, 1, (choices, 3, 4)) ** 2
    steps, numbers = dice.integers(-1, shapes // 2, (6, rows)), dice.integers(0, 3, (choices, 2)) + [0, 3]
    togo = dice.uniform(0, 0.2, (3, shapes if seed % 2 else 1)).astype(np.float32)
    scale, known = np.array([0.1, 2.0]), np.array([[0.5, 1.2], [0.8, 0.7]])
    row_tree, choice_tree = halved(values, values), halved(matrix[:, 0], matrix.reshape(choices, -1))
    bar = Bar(
        np.ascontiguousarray(togo.T),
        ToBeat(np.ones(len(togo) - 1, np.bool_), scale, known, np.empty((0, 3)), np.ones(1)),
    )
    found = pair_kernels.hopeful(row_tree, choice_tree, values, matrix, (steps, numbers), bar, bar.togo.min(axis=0))
    expected = set()
    for row in range(rows):
        for choice in range(choices):
            parts = steps[numbers[choice], row]
            shape = int(parts.sum())
            to_come = togo[:, shape if seed % 2 else 0]
            if (parts >= 0).all() and not beaten(values[row] @ matrix[choice], to_come, bar.goal):
                expected.add((row, choice, shape))
    assert {tuple(pair) for pair in found.tolist()} == expected
    assert len(found) == len(expected)


def figures(table: Table) -> dict[object, list[Floats]]:
    return {c: [rows.energy, rows.latency, rows.tiles, rows.bits] for c, rows in table.groups.items()}


@floors(20, kept=0.5)
@cases(30, proving=1500)
@given(case=mapper_cases(), share=st.floats(0.0, 1.0), leaf=st.sampled_from([1, 2, 5]))
def test_what_beats_known_pmappings_is_the_same_by_boxes(case: MapperCase, share: float, leaf: int) -> None:
    """Whatever is known: here less than some share of each cost."""
    try:
        whole = explore(case.spec, case.einsum, Question())
    except SpecError:
        return
    TALLY["compared"] += 1
    if not whole.groups:
        return
    costs = np.concatenate([np.column_stack([rows.energy, rows.latency]) for rows in whole.groups.values()])
    known = Cutoff(np.quantile(costs, share, axis=0)[None] * (1 + 1e-6))
    tables = []
    for few, size in ((10**9, 12), (-1, leaf)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fanout, "_FEW_PAIRS", few)
            patch.setattr(fanout, "_LEAF", size)
            tables.append(figures(explore(case.spec, case.einsum, Question(), Effort(cutoff=known))))
    TALLY["kept"] += bool(tables[0])
    assert tables[0].keys() == tables[1].keys()
    for form, columns in tables[0].items():
        assert all(np.array_equal(a, b) for a, b in zip(columns, tables[1][form], strict=True))
