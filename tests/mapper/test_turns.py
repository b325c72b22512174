"""Einsums that take turns in loops, combined row by row, with numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiest.mapper import Options, window_turns
from fusiest.mapper.window_forms import WindowForms
from fusiest.mapper.window_turns import TurnSearches, TurnsTogether, turn_plans
from fusiest.pmapping import TooManyCandidates
from fusiest.spec import Spec
from tests import proving
from tests.drawing.dice import Dice
from tests.drawing.windows import draw_small_cnn
from tests.proving import TALLY

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


@st.composite
def small_cnns(draw: st.DrawFn) -> Spec:
    dice = Dice(draw)
    return draw_small_cnn(dice, dice.one_of(["triple", "residual", "image", "depthwise", "forked"]))


@proving.floors(6, same=0.5)
@proving.cases(6, proving=200)
@given(small_cnns())
def test_no_plan_needs_less_than_is_said_beforehand(spec: Spec) -> None:
    """What exchanged tensors take at least, against what the model says; for some plans that is just as much."""
    run = tuple(spec.info.einsums)
    searches = TurnSearches(spec, Options(), WindowForms(spec), True)
    same = False
    for plan in turn_plans(spec, run, False, searches.forms):
        bits = searches._exchanged_bits(spec, plan, "GLB")
        if bits is not None:
            assert plan.least_bits(spec) <= max(bits)
            same = same or plan.least_bits(spec) == max(bits)
    TALLY["compared"] += 1
    TALLY["same"] += same
