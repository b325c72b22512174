"""Windows that `map` finds against exhaustive mappers that go through all of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fusiest
from fusiest.mapper.windows import window_plans, with_windows
from fusiest.mapper.windows.window_bounds import windows_save_nothing
from fusiest.pmapping import NoMapping
from fusiest.spec import part_of
from tests import proving
from tests.drawing.dice import Dice
from tests.drawing.windows import draw_small_cnn
from tests.load_text import load_text
from tests.mapper.test_windows import ARCH, buffer_size
from tests.proving import TALLY
from tests.reference.exhaustive_windows import ExhaustiveWindows
from tests.reference.simulator import simulate

CHAINS = ("pair", "triple", "residual", "image", "four", "dilated")
OTHERS = ("pooled", "depthwise", "forked")


@st.composite
def small_cnns(draw: st.DrawFn) -> tuple[fusiest.Spec, str]:
    dice = Dice(draw)
    kind = dice.one_of([*OTHERS, *CHAINS])
    return draw_small_cnn(dice, kind), kind


@proving.floors(14, better=0.2, tight=0.25, others=0.2, simulated=0.5, proven=0.2)
@proving.cases(14, proving=2_000)
@given(small_cnns())
def test_no_mapping_with_windows_is_better(drawn: tuple[fusiest.Spec, str]) -> None:
    """Two to four layers along one or two ranks, residuals, strides, dilations, pooling, channels with weights of their own,
    small buffers: whatever is held where, in whichever loops with tiles that divide, kept or made again, nothing is better.
    And the gap that is stated is never too small."""
    spec, kind = drawn
    oracle = ExhaustiveWindows(spec)
    least = oracle.search()
    TALLY["compared"] += 1
    try:
        result = fusiest.map(spec, "energy", jobs=1)
    except NoMapping:
        assert least == math.inf
        return
    best = result.best("energy").energy
    TALLY["others"] += kind in OTHERS
    simulation = simulate(spec, result.best("energy").looptree)
    assert simulation.wrong_tensors == ()
    assert simulation.peak_occupancy_bits.get("GLB", 0) <= buffer_size(spec)
    TALLY["simulated"] += 1
    assert best <= least * (1 + 1e-9)
    assert best * (1 - result.gap) <= least * (1 + 1e-9)
    if oracle.best is not None:
        assert simulate(spec, oracle.best).wrong_tensors == ()
        TALLY["tight"] += not windows_save_nothing(spec)
    plain = _plain_energy(spec)
    TALLY["better"] += best < plain * (1 - 1e-9)
    TALLY["proven"] += result.optimal
    assert best <= plain * (1 + 1e-9)


@proving.floors(10, better=0.2, simulated=0.5)
@proving.cases(10, proving=500)
@given(small_cnns())
def test_where_workloads_are_long_the_gap_is_right(drawn: tuple[fusiest.Spec, str]) -> None:
    """As if these were long: what lies beside runs is cut from what is known, and only runs that are hopeful are looked at. What is
    found is right, no worse than without windows, and the gap has room for all that is better."""
    spec, _ = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_plans, "LONGEST_WORKLOAD", 1)
        patch.setattr(with_windows, "MOST_SEARCHED", 1)
        patch.setattr(with_windows, "MOST_FRUITLESS_TURNS", 1)
        try:
            result = fusiest.map(spec, "energy", jobs=1)
        except NoMapping:
            result = None
    least, plain = ExhaustiveWindows(spec).search(), _plain_energy(spec)
    TALLY["compared"] += 1
    if result is None:
        assert min(least, plain) == math.inf
        return
    best = result.best("energy").energy
    assert simulate(spec, result.best("energy").looptree).wrong_tensors == ()
    TALLY["simulated"] += 1
    assert best <= plain * (1 + 1e-9)
    assert best * (1 - result.gap) <= least * (1 + 1e-9)
    TALLY["better"] += best < plain * (1 - 1e-9)


def _reader(name: str, rows: int, columns: int, weighted: bool) -> str:
    """Reads all of O for each of its own results."""
    weights = f"{{name: K{name}, projection: {{P: p, N: n}}}}, " if weighted else ""
    return f"""
  - {{name: {name}, tensor_accesses: [{{name: O, projection: {{P: p}}}}, {weights}{{name: Y{name}, projection: {{N: n}}, output: true}}],
     iteration_space_shape: [0 <= p < {rows}, 0 <= n < {columns}]}}"""


@st.composite
def forked_ends(draw: st.DrawFn) -> fusiest.Spec:
    """Two layers, and two readers of what they make, each for itself: so that it cannot be made inside of windows."""
    dice = Dice(draw)
    rows, stride, above = dice.number(2, 4), dice.number(1, 3), dice.number(1, 2)
    taps = stride + dice.number(0, 2)
    made = stride * (rows - 1) + taps
    layers = f"""
workload:
  bits_per_value: {{All: 8}}
  einsums:
  - {{name: A, tensor_accesses: [{{name: I, projection: {{X: h + r}}}}, {{name: T, projection: {{H: h}}, output: true}}],
     iteration_space_shape: [0 <= h < {made}, 0 <= r < {above}]}}
  - {{name: B, tensor_accesses: [{{name: T, projection: {{H: {stride} * p + s}}}}, {{name: O, projection: {{P: p}}, output: true}}],
     iteration_space_shape: [0 <= p < {rows}, 0 <= s < {taps}]}}"""
    readers = [_reader(name, rows, dice.number(1, 2), dice.chance(50)) for name in ("Left", "Right")]
    size = 8 * dice.number(taps + 1, made + rows + 1)
    return load_text(ARCH.replace("SIZE", str(size)), "".join([layers, *readers, "\n"]))


@proving.floors(14, better=0.3, kept=0.1)
@proving.cases(14, proving=500)
@given(forked_ends())
def test_what_runs_share_with_others_may_stay_on_chip(spec: fusiest.Spec) -> None:
    """Every way of two layers with windows, and of two others that read their result: from the outer memory, or whole from the inner."""
    names = list(spec.info.einsums)
    (shared,) = (t for t, users in spec.info.users.items() if len(users) > 2)
    sums = {}
    for ends in ((), (shared,)):
        parts = (part_of(spec, run) for run in (names[:2], names[2:3], names[3:]))
        sums[ends] = sum(ExhaustiveWindows(part, ends=ends).search() for part in parts)
    TALLY["compared"] += 1
    try:
        result = fusiest.map(spec, "energy", jobs=1)
    except NoMapping:
        assert min(sums.values()) == math.inf
        return
    best = result.best("energy")
    assert simulate(spec, best.looptree).wrong_tensors == ()
    assert best.energy <= min(sums.values()) * (1 + 1e-9)
    plain = _plain_energy(spec)
    assert best.energy <= plain * (1 + 1e-9)
    TALLY["better"] += best.energy < plain * (1 - 1e-9)
    TALLY["kept"] += sums[shared,] < min(sums[()], plain) * (1 - 1e-9)


def _plain_energy(spec: fusiest.Spec) -> float:
    try:
        return fusiest.map(spec, "energy", jobs=1, windows="none").best("energy").energy
    except NoMapping:
        return math.inf
