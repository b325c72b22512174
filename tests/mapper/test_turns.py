"""Einsums that take turns in loops, combined row by row, with numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fusiest.mapper import window_turns
from fusiest.mapper.window_turns import TurnsTogether
from fusiest.pmapping import TooManyCandidates

FIRST = np.array([[1.0, 1.0, 5.0, 8.0], [2.0, 2.0, 0.0, 8.0]])
"""Energy, latency, bits above the only loop, bits in its own turn. The second row costs more, but nobody else sees its space."""
SECOND = np.array([[1.0, 1.0, 0.0, 6.0], [3.0, 3.0, 0.0, 3.0]])


def combined(common: int, size: float) -> TurnsTogether:
    """Both, where exchanged tensors take 10 bits in each turn."""
    together = TurnsTogether(np.array([[1, common], [common, 1]]), [10.0, 10.0], size)
    together.add(FIRST)
    together.add(SECOND)
    return together


@pytest.mark.parametrize(
    ("common", "size", "rows", "cost"),
    [
        (1, 21, [0, 0], 2.0),  # the second turn takes 10 + 5 + 6 bits
        (1, 20, [1, 0], 3.0),  # 10 + 6; with the first row of the first, only the second of the second fits
        (0, 18, [0, 0], 2.0),  # no common loop: 10 + 8 in the first turn, 10 + 6 in the second
    ],
)
def test_what_others_hold_above_common_loops_counts(common: int, size: float, rows: list[int], cost: float) -> None:
    together = combined(common, size)
    cheapest = int(together.costs[:, 0].argmin())
    assert together.rows[cheapest].tolist() == rows
    assert together.costs[cheapest].tolist() == [cost, cost]


def test_nothing_is_left_where_a_turn_does_not_fit() -> None:
    assert len(combined(1, 17).costs) == 0


def test_too_many_are_not_combined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_turns, "MOST_ROWS", 3)
    with pytest.raises(TooManyCandidates):
        combined(1, 21)
