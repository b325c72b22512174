"""Coarse pruning: of rows that are nearly as good, one is kept, with its exact values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiest.base.objective import ENERGY, NOTHING, objective_of
from fusiest.joining.rows.coarse import Coarse, thinned
from fusiest.joining.rows.consolidation import start_rows
from fusiest.joining.rows.incumbents import Incumbents
from fusiest.joining.rows.kernels import prune_within
from tests.proving import cases

values = st.sampled_from([0.0, 1.0, 1.05, 1.15, 1.3, 2.0, 1e12, 1.1e12])
vectors = st.lists(st.tuples(st.integers(0, 1), values, values, values), min_size=1, max_size=30)


@cases(100, proving=1000)
@given(vectors=vectors, slack=st.sampled_from([1.0, 1.1, 1.2]))
def test_of_rows_within_a_factor_one_is_kept(vectors: list[tuple[int, float, float, float]], slack: float) -> None:
    groups, criteria = np.array([v[0] for v in vectors]), np.array([v[1:] for v in vectors])
    order = np.lexsort((criteria[:, 0], groups))
    keep = np.zeros(len(vectors), np.bool_)
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1, append=-1))
    prune_within(order, starts, criteria, slack, keep)
    within = (criteria[:, None] <= criteria[None] * slack).all(axis=2) & (groups[:, None] == groups[None])
    assert within[keep].any(axis=0).all()
    kept = list(np.flatnonzero(keep))
    position = {row: at for at, row in enumerate(order.tolist())}
    assert not any(within[a, b] for a in kept for b in kept if position[a] < position[b])


def test_zero_covers_all_and_is_covered_by_zero_alone() -> None:
    """An empty reservation is not near any other, however small."""
    criteria = np.array([[1.0, 1e-300], [1.0, 0.0], [1.0, 0.0]])
    keep = np.zeros(3, np.bool_)
    prune_within(np.arange(3), np.array([0, 3]), criteria, 1.2, keep)
    assert keep.tolist() == [True, True, False]


@pytest.mark.parametrize("objective", [("energy",), ("energy", "latency")])
def test_no_more_are_kept_than_allowed(objective: tuple[str, ...]) -> None:
    """And the best for each objective are among them, with their exact values."""
    energy, latency = np.arange(1.0, 1001.0), np.arange(1000.0, 0.0, -1.0)
    rows = replace(start_rows(1, 1000), energy=energy, latency=latency, tiles=np.arange(1000).reshape(-1, 1))
    (kept,) = thinned(
        [(rows, NOTHING)], Incumbents(objective_of(objective)), Coarse(most=80), joins=2, check=lambda: None
    )
    assert (50 if len(objective) > 1 else 80 // 3) <= len(kept) <= 80 + 80 // 8
    assert kept.energy.min() == 1
    assert (kept.energy + kept.latency == 1001).all()
    assert len(objective) == 1 or kept.latency.min() == 1


def test_what_is_nearly_as_good_goes_first() -> None:
    rows = replace(start_rows(1, 1000), energy=np.linspace(1.0, 1.1, 1000), latency=np.linspace(1.1, 1.0, 1000))
    (kept,) = thinned([(rows, NOTHING)], Incumbents(ENERGY), Coarse(most=80), joins=1, check=lambda: None)
    assert kept.energy.tolist() == [1.0]
    (kept,) = thinned([(rows, NOTHING)], Incumbents(ENERGY), Coarse(most=80), joins=4, check=lambda: None)
    assert 1 < len(kept) < 10


@pytest.mark.filterwarnings("error")
def test_what_is_free_is_as_good_as_nothing_else() -> None:
    """Where the least latency is 0, what takes longer still counts: not only its energy."""
    latency, energy = np.r_[0.0, np.arange(999.0, 0.0, -1.0)], np.r_[2000.0, np.arange(1.0, 1000.0)]
    rows = replace(start_rows(1, 1000), energy=energy, latency=latency, tiles=np.arange(1000).reshape(-1, 1))
    (kept,) = thinned(
        [(rows, NOTHING)], Incumbents(objective_of(("latency",))), Coarse(most=9), joins=2, check=lambda: None
    )
    assert {0.0, 1.0, 2.0} <= set(kept.latency.tolist())
