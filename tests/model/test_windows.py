"""Windows: numbers by hand, and random ones against the simulator; values are right wherever no warning says otherwise."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import fusiest
from fusiest.base.errors import SpecError
from fusiest.looptree import draw_svg, draw_text
from fusiest.show import show_text
from tests import proving
from tests.drawing.dice import Dice
from tests.drawing.windows import draw_windows
from tests.load_text import load_text
from tests.model.test_model_vs_simulator import check_costs
from tests.proving import TALLY
from tests.reference.simulator import simulate
from tests.strategies import Case

ARCH = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, bits_per_action: 8,
             actions: [{name: read, energy: 100}, {name: write, energy: 100}]}
  - !Memory {name: Buf, size: inf, component_class: Dummy, bits_per_action: 8,
             actions: [{name: read, energy: 1}, {name: write, energy: 1}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 1, throughput: 1}]}
"""
LAYERS = """
workload:
  bits_per_value: {All: 8}
  einsums:
  - {name: A, tensor_accesses: [{name: I, projection: {X: h + r}}, {name: V, projection: {R: r}},
     {name: T, projection: {H: h}, output: true}], iteration_space_shape: [0 <= h < 10, 0 <= r < 3]}
  - {name: B, tensor_accesses: [{name: T, projection: {H: p + s}}, {name: W, projection: {S: s}},
     {name: O, projection: {P: p}, output: true}], iteration_space_shape: [0 <= p < 8, 0 <= s < 3]}
"""


def fused(tile: int, sizes: str, above: bool) -> str:
    """Two 3 x 1 layers, 8 rows of O in tiles; T is held above or below the loop, I right above A's own loops."""
    loop = f"!Temporal {{rank_variable: {{A: h, B: p}}, {sizes}}}"
    held = "!Storage {tensors: [T], component: Buf}"
    return f"""
mapping:
  nodes:
  - !Storage {{tensors: [I, V, W, O], component: DRAM}}
  - {held if above else loop}
  - {loop if above else held}
  - !Sequential
    nodes:
    - !Nested
      nodes:
      - !Storage {{tensors: [I], component: Buf}}
      - !Temporal {{rank_variable: h, tile_shape: 1}}
      - !Temporal {{rank_variable: r, tile_shape: 1}}
      - !Compute {{einsum: A, component: MAC}}
    - !Nested
      nodes:
      - !Temporal {{rank_variable: p, tile_shape: 1}}
      - !Temporal {{rank_variable: s, tile_shape: 1}}
      - !Compute {{einsum: B, component: MAC}}
"""


# The loop over p has n = ceil(8 / t) iterations. Kept: t + 2 rows of T, and then t more in each, 10 in all, 30 MACs of A; of I,
# two more rows each time, 10 + 2n. Made again: t + 2 rows in each of n, the last one shorter, 8 + 2n rows in all.
@pytest.mark.parametrize("t", range(1, 9))
def test_two_layers_of_eight_rows(t: int) -> None:
    n = -(-8 // t)
    first = f", initial_tile_shape: {{A: {t + 2}}}" if t < 8 else ""
    kept = fusiest.evaluate(
        load_text(ARCH, LAYERS, fused(t, f"tile_shape: {t if t < 8 else '{A: 10, B: 8}'}{first}", True))
    )
    step = f", step: {{A: {t}}}" if t < 8 else ""
    again = fusiest.evaluate(load_text(ARCH, LAYERS, fused(t, f"tile_shape: {{A: {t + 2}, B: {t}}}{step}", False)))
    made = {"kept": 10, "again": 8 + 2 * n}
    fetched = {"kept": 10 + 2 * n, "again": 8 + 4 * n}
    if t == 7:  # the first window has all but one row of T; then one is left, and three rows of I are needed for it
        assert (made, fetched) == ({"kept": 10, "again": 12}, {"kept": 14, "again": 16})
    for name, found in (("kept", kept), ("again", again)):
        assert found.warnings == ()
        a, b = found.einsums["A"], found.einsums["B"]
        assert (a.points, b.points) == (3 * made[name], 24)
        assert a.latency == 3 * made[name]
        assert a.actions["DRAM", "I", "read"] == a.actions["Buf", "I", "write"] == fetched[name]
        assert a.actions["Buf", "T", "write"] == 3 * made[name]
        assert a.actions["Buf", "T", "read"] == 2 * made[name]
        assert b.actions["Buf", "T", "read"] == 24
        assert a.occupancy_bits["Buf", "T"] == b.occupancy_bits["Buf", "T"] == 8 * (t + 2)
        assert a.occupancy_bits["Buf", "I"] == 8 * 3  # what one row of T is made of
        assert found.peak_occupancy_bits["Buf"] == 8 * (t + 2 + 3)


def test_a_chain_keeps_one_window_of_each_tensor() -> None:
    """Three layers: the first one's windows follow from the second's, which follow from the third's."""
    chain = (
        LAYERS
        + """
  - {name: C, tensor_accesses: [{name: O, projection: {P: q + u}}, {name: Z, projection: {Q: q}, output: true}],
     iteration_space_shape: [0 <= q < 6, 0 <= u < 3]}
"""
    )
    mapping = fused(2, "", True).replace(
        "{A: h, B: p}, }", "{A: h, B: p, C: q}, tile_shape: 2, initial_tile_shape: {A: 6, B: 4}}"
    )
    mapping = (
        mapping.replace("tensors: [T]", "tensors: [T, O]").replace("[I, V, W, O]", "[I, V, W, Z]")
        + """
    - !Nested
      nodes:
      - !Temporal {rank_variable: q, tile_shape: 1}
      - !Temporal {rank_variable: u, tile_shape: 1}
      - !Compute {einsum: C, component: MAC}
"""
    )
    found = fusiest.evaluate(load_text(ARCH, chain, mapping))
    assert found.warnings == ()
    assert [e.points for e in found.einsums.values()] == [30, 24, 18]
    # B makes 4 rows of O at first, from 6 of T; after that T keeps 4 of which 2 are new.
    assert found.einsums["A"].occupancy_bits["Buf", "T"] == 6 * 8
    assert found.einsums["C"].occupancy_bits["Buf", "O"] == 4 * 8
    assert found.peak_occupancy_bits["Buf"] == (6 + 4 + 3) * 8


WRONG = [
    ("tile_shape: 2, initial_tile_shape: {A: 3}", True, "A makes for it"),
    ("tile_shape: {A: 3, B: 2}, step: {A: 2}", False, "A makes for it"),
    ("tile_shape: 2, initial_tile_shape: {A: 4}", False, "A makes for it"),
]


@pytest.mark.parametrize(("sizes", "above", "words"), WRONG)
def test_a_window_that_is_too_short_is_a_warning(sizes: str, above: bool, words: str) -> None:
    spec = load_text(ARCH, LAYERS, fused(2, sizes, above))
    (warning,) = fusiest.evaluate(spec).warnings
    assert words in warning
    assert spec.mapping is not None
    assert simulate(spec, spec.mapping).wrong_tensors == ("O",)


REFUSED = [
    ("tile_shape: {A: 4, B: 2}, step: {A: 2}", True, "makes again what is held of T above it"),
    ("tile_shape: {A: 4}", True, "tile_shape names none for Einsum B"),
    ("tile_shape: 2, initial_tile_shape: {A: 11}", True, "initial_tile_shape 11 .* larger than the extent 10"),
    ("tile_shape: 2, step: {E: 11}", True, "no Einsum E"),
    ("tile_shape: 2", False, "would be recomputed"),
]


@pytest.mark.parametrize(("sizes", "above", "words"), REFUSED)
def test_windows_that_make_no_sense(sizes: str, above: bool, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        fusiest.evaluate(load_text(ARCH, LAYERS, fused(2, sizes, above)))


def test_windows_are_drawn() -> None:
    spec = load_text(ARCH, LAYERS, fused(2, "tile_shape: 2, initial_tile_shape: {A: 4}", True))
    assert spec.mapping is not None
    bounds = {name: info.bounds for name, info in spec.info.einsums.items()}
    line = "for h (A) = p (B) in 0..4 (tile 4, then 2 in A, 2 in B)"
    assert line in draw_text(spec.mapping, bounds)
    assert "tile 4, then 2 in A, 2 in B" in draw_svg(spec.mapping, bounds)
    code = show_text(spec, as_pseudocode=True)
    for words in (
        "# Buf holds 4 of T, a window that moves along H",
        "for h1 in 0..4:  # h (A) = p (B), tiles of 4, then 2 in A, 2 in B",
        "h1_low = (0 if h1 == 0 else 2*h1 + 2)",
        "for h0 in 0..2*h1 - h1_low + 4:",
        "h = h1_low + h0",
    ):
        assert words in code, code
    assert load_text(ARCH, LAYERS, fusiest.dump_mapping(spec.mapping)).mapping == spec.mapping


@st.composite
def windows(draw: st.DrawFn, wrong: int) -> Case:
    return draw_windows(Dice(draw), wrong)


@proving.floors(80, windowed=0.5)
@proving.cases(80, proving=5000)
@given(windows(wrong=0))
def test_windows_are_counted_as_they_are_made(case: Case) -> None:
    evaluation = fusiest.evaluate(case.spec, case.tree)
    assert evaluation.warnings == ()
    simulation = simulate(case.spec, case.tree)
    check_costs(evaluation, simulation)
    assert simulation.wrong_tensors == ()
    TALLY["compared"] += 1
    TALLY["windowed"] += "initial" in fusiest.dump_mapping(case.tree) or "step" in fusiest.dump_mapping(case.tree)


@proving.cases(50, proving=5000)
@given(windows(wrong=30))
def test_windows_that_are_too_short_are_warned_of(case: Case) -> None:
    try:
        evaluation = fusiest.evaluate(case.spec, case.tree)
    except SpecError:
        assume(False)
        return
    simulation = simulate(case.spec, case.tree)
    check_costs(evaluation, simulation)
    if not evaluation.warnings:
        assert simulation.wrong_tensors == ()
