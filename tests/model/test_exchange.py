"""Tensors that are used before they are finished, or after they were dropped: their costs, and the warnings."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import fusiest
from fusiest.model.exchange import keeps_behind
from fusiest.spec.workload.analysis import Stepping
from tests import proving
from tests.command_line import Capture, run
from tests.drawing.dice import Dice
from tests.drawing.exchanges import draw_exchange
from tests.load_text import load_text
from tests.model.test_model_vs_simulator import check_costs
from tests.reference.nest import element, nests
from tests.reference.simulator import simulate
from tests.strategies import Case

SPEC = """
arch:
  nodes:
  - !Memory
    name: DRAM
    size: inf
    component_class: Dummy
    tensors: {keep: All}
    actions: [{name: read, energy: 20, throughput: inf}, {name: write, energy: 20, throughput: inf}]
  - !Memory
    name: GLB
    size: inf
    component_class: Dummy
    tensors: {keep: All}
    actions: [{name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 1, throughput: 1}]}
workload:
  iteration_space_shape: {m: 0 <= m < 4, k: 0 <= k < 3}
  bits_per_value: {All: 8}
  einsums:
  - {name: Sum, tensor_accesses: [{name: A, projection: [m, k]}, {name: S, projection: RANKS, output: true}]}
  - name: Scale
    tensor_accesses:
    - {name: A, projection: [m, k]}
    - {name: S, projection: RANKS}
    - {name: Z, projection: [m, k], output: true}
mapping:
  nodes:
  - !Storage {tensors: [Z], component: DRAM}
  - !Storage {tensors: [S], component: DRAM}
  COPY
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Storage {tensors: [A], component: GLB}
  - !Sequential
    nodes:
    - !Nested {nodes: [!Temporal {rank_variable: k, tile_shape: 1}, !Compute {einsum: Sum, component: MAC}]}
    - !Nested {nodes: [!Temporal {rank_variable: k, tile_shape: 1}, !Compute {einsum: Scale, component: MAC}]}
"""
"""The loop over m is common, as A is exchanged below it; S is summed up over m, or has a row for each."""
COPY = "- !Storage {tensors: [S], component: GLB}"


def written(folder: Path, ranks: str, copy: str = "") -> str:
    path = folder / "scale.yaml"
    path.write_text(SPEC.replace("RANKS", ranks).replace("COPY", copy))
    return str(path)


@pytest.mark.parametrize(
    ("ranks", "copy", "line", "reason"),
    [
        ("[k]", "", 30, "they share the loop over m (tile 1), which does not step one rank of S in both; hold S below"),
        ("[m]", COPY, 31, "Einsum Sum holds it in GLB above the loop over m (tile 1), through which it is exchanged"),
    ],
)
def test_costs_and_a_warning(ranks: str, copy: str, line: int, reason: str, tmp_path: Path, capsys: Capture) -> None:
    file = written(tmp_path, ranks, copy)
    status, out, err = run(capsys, "evaluate", file, file, file, "--json", str(tmp_path / "evaluation.json"))
    begin = "Einsum Scale uses S before Einsum Sum has finished it: "
    assert status == 0
    assert err.startswith(f"{file}:{line}: warning: {begin}{reason}")
    assert err.endswith(", or split above it\n")
    assert err.count("\n") == 1
    assert re.search(r"warnings +1\b", out)
    saved = json.loads((tmp_path / "evaluation.json").read_text())
    assert len(saved["warnings"]) == 1
    assert saved["warnings"][0].startswith(begin + reason)
    spec = fusiest.load(file)
    assert spec.mapping is not None
    evaluation = fusiest.evaluate(spec)
    assert evaluation.warnings == tuple(saved["warnings"])
    assert evaluation.energy == saved["energy"] > 0
    check_costs(evaluation, simulate(spec, spec.mapping))


def test_no_warning_where_pieces_are_finished(tmp_path: Path, capsys: Capture) -> None:
    """Each turn makes one row of S and uses that row alone."""
    file = written(tmp_path, "[m]")
    status, out, err = run(capsys, "evaluate", file, file, file)
    assert (status, err) == (0, "")
    assert "warning" not in out
    spec = fusiest.load(file)
    assert spec.mapping is not None
    assert fusiest.evaluate(spec).warnings == simulate(spec, spec.mapping).wrong_tensors == ()


def test_a_tensor_in_two_places_is_still_an_error(tmp_path: Path, capsys: Capture) -> None:
    file = written(tmp_path, "[m]")
    text = Path(file).read_text().replace("  - !Storage {tensors: [S], component: DRAM}\n", "")
    inside = "!Storage {tensors: [S], component: GLB}, "
    Path(file).write_text(text.replace("nodes: [!Temporal", f"nodes: [{inside}!Temporal"))
    status, _, err = run(capsys, "evaluate", file, file, file)
    assert status == 2
    assert "share tensor S but hold it outermost in different places" in err


SHIFT = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, leak_power: 0,
             actions: [{name: read, energy: 10, throughput: inf}, {name: write, energy: 10, throughput: inf}]}
  - !Memory {name: GLB, size: inf, component_class: Dummy, leak_power: 0,
             actions: [{name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]}
  - !Compute {name: MAC, component_class: Dummy, leak_power: 0, actions: [{name: compute, energy: 0, throughput: 1}]}
workload:
  bits_per_value: {All: 1}
  iteration_space_shape: {n: NS, k: 0 <= k < 2, q: QS}
  einsums:
  - name: T
    tensor_accesses: [{name: A, projection: [n, k]}, {name: B, projection: {B: n}}, {name: T, projection: {N: MADE}, output: true}]
  - name: U
    tensor_accesses: [{name: T, projection: {N: USED}}, {name: B, projection: {B: FACTOR}}, {name: U, projection: [q], output: true}]
mapping:
  nodes:
  - !Storage {tensors: [A, U], component: DRAM}
  ABOVE
  - !Temporal {rank_variable: {T: n, U: q}, tile_shape: TILE}
  - !Storage {tensors: [BELOW], component: GLB}
  - !Sequential
    nodes:
    - !Nested
      nodes:
      - !Temporal {rank_variable: n, tile_shape: 1}
      - !Temporal {rank_variable: k, tile_shape: 1}
      - !Compute {einsum: T, component: MAC}
    - !Nested {nodes: [!Temporal {rank_variable: q, tile_shape: 1}, !Compute {einsum: U, component: MAC}]}
"""
"""B is exchanged below the loop, so that Einsums T and U take turns in it; T is held above that loop or below it."""


def shifted(made: str, used: str, held: str, **other: str) -> fusiest.Spec:
    above = held == "above"
    words = {
        "MADE": made, "USED": used, "FACTOR": "q", "TILE": "2", "NS": "0 <= n < 8", "QS": "0 <= q < 8",
        "ABOVE": "- !Storage {tensors: [T], component: GLB}" if above else "", "BELOW": "B" if above else "T, B", **other,
    }  # fmt: skip
    text = SHIFT
    for word, value in words.items():
        text = text.replace(word, value)
    return load_text(text)


@pytest.mark.parametrize(
    ("made", "used", "above", "below"),
    [
        ("n", "q", True, True),
        ("n + 1", "q + 1", True, True),
        ("7 - n", "7 - q", True, True),
        ("2*n", "2*q", True, True),
        ("n", "q - 1", True, False),  # made in an earlier turn: still there above the loop, dropped below it
        ("n", "q - 4", True, False),
        ("n", "q + 1", False, False),  # made in a later turn
        ("n", "q + 4", False, False),
        ("n + 1", "q", True, False),
        ("n", "7 - q", False, False),
        ("7 - n", "q", False, False),
        ("7 - n", "8 - q", True, False),
        ("7 - n", "6 - q", False, False),
        ("n", "2*q", False, False),
        ("2*n", "q", True, False),
    ],
)
def test_indices_that_are_shifted_mirrored_or_strided(made: str, used: str, above: bool, below: bool) -> None:
    for held, right in (("above", above), ("below", below)):
        spec = shifted(made, used, held)
        assert spec.mapping is not None
        evaluation, simulation = fusiest.evaluate(spec), simulate(spec, spec.mapping)
        check_costs(evaluation, simulation)
        assert simulation.wrong_tensors == (() if right else ("U",))
        assert bool(evaluation.warnings) != right


def test_what_the_warnings_say() -> None:
    (ahead,) = fusiest.evaluate(shifted("n", "q + 1", "above")).warnings
    assert ahead == (
        "Einsum U uses T before Einsum T has finished it: in the loop over q (tile 2) that they share, it needs N: q + 1 when "
        "N: n has been made; split above that loop"
    )
    (dropped,) = fusiest.evaluate(shifted("n", "q - 1", "below")).warnings
    assert dropped == (
        "Einsum U uses T where it is not held: in the loop over q (tile 2) it steps N: q - 1, Einsum T steps N: n, and after "
        "each iteration T is dropped; hold it above that loop"
    )


def test_a_loop_that_goes_through_everything_at_once_separates_nothing() -> None:
    for held in ("above", "below"):
        spec = shifted("n", "7 - q", held, TILE="8")
        assert spec.mapping is not None
        assert fusiest.evaluate(spec).warnings == simulate(spec, spec.mapping).wrong_tensors == ()


@pytest.mark.parametrize(("q", "used", "right"), [("1 <= q < 9", "q - 1", True), ("1 <= q < 9", "q", False)])
def test_variables_count_from_their_least_value(q: str, used: str, right: bool) -> None:
    """The first iteration of the loop is q = 1."""
    spec = shifted("n", used, "below", QS=q, FACTOR="q - 1")
    assert spec.mapping is not None
    assert (fusiest.evaluate(spec).warnings == ()) == right
    assert (simulate(spec, spec.mapping).wrong_tensors == ()) == right


def test_a_shorter_consumer_uses_what_was_dropped() -> None:
    """Its loop has other iterations than the producer's."""
    spec = shifted("n", "q - 1", "below", NS="0 <= n < 2", QS="0 <= q < 4")
    assert spec.mapping is not None
    assert simulate(spec, spec.mapping).wrong_tensors == ("U",)
    assert len(fusiest.evaluate(spec).warnings) == 1


def test_users_of_an_input_step_it_alike() -> None:
    """One value of B is held in each iteration, and U needs another one."""
    spec, other = (shifted("n", "q", "above", TILE="1", FACTOR=index) for index in ("q", "q - 1"))
    assert fusiest.evaluate(spec).warnings == ()
    (warning,) = fusiest.evaluate(other).warnings
    assert warning.startswith(
        "Einsum U uses B where it is not held: in the loop over q (tile 1) it steps B: q - 1, Einsum T steps B: n"
    )
    assert other.mapping is not None
    assert simulate(other, other.mapping).wrong_tensors == ("U",)


@pytest.mark.parametrize(
    ("made", "window", "right"),
    [(Stepping("N", 1, 0), "q - r", True), (Stepping("N", 1, 0), "q + r", False), (Stepping("N", 1, 2), "q + r", True)],
)
def test_a_window_of_what_has_been_made(made: Stepping, window: str, right: bool) -> None:
    """Rows up to q have been made; a window that looks back is there, one of three that looks ahead is not."""
    text = f"""
workload:
  bits_per_value: {{All: 1}}
  iteration_space_shape: {{q: 0 <= q < 8, r: 0 <= r < 3}}
  einsums:
  - {{name: U, tensor_accesses: [{{name: T, projection: {{N: {window}}}}}, {{name: U, projection: [q], output: true}}]}}
"""
    assert keeps_behind(load_text(text).info.einsums["U"], "T", "q", made) == right


@pytest.mark.parametrize(("index", "right"), [("q", True), ("q + 1", False), ("q - 1", False)])
def test_a_tile_of_an_input_goes_on_where_the_range_of_its_first_user_ends(index: str, right: bool) -> None:
    """T uses C[0..2], U more of it: the second tile is C[2] for T, C[2..3] for U if it steps C alike."""
    memory = "component_class: Dummy, size: inf"
    spec = load_text(f"""
arch:
  nodes:
  - !Memory {{name: DRAM, {memory}}}
  - !Memory {{name: GLB, {memory}}}
  - !Compute {{name: MAC, component_class: Dummy}}
workload:
  bits_per_value: {{All: 8}}
  iteration_space_shape: {{n: 0 <= n < 3, q: 0 <= q < 4}}
  einsums:
  - {{name: T, tensor_accesses: [{{name: C, projection: {{X: n}}}}, {{name: T, projection: {{N: n}}, output: true}}]}}
  - name: U
    tensor_accesses:
    - {{name: T, projection: {{N: q - 1}}}}
    - {{name: C, projection: {{X: {index}}}}}
    - {{name: U, projection: {{Q: q}}, output: true}}
mapping:
  nodes:
  - !Storage {{tensors: [T, U], component: DRAM}}
  - !Temporal {{rank_variable: {{T: n, U: q}}, tile_shape: 2}}
  - !Storage {{tensors: [C], component: GLB}}
  - !Sequential
    nodes:
    - !Nested {{nodes: [!Temporal {{rank_variable: n, tile_shape: 1}}, !Compute {{einsum: T, component: MAC}}]}}
    - !Nested
      nodes:
      - !Temporal {{rank_variable: q, tile_shape: 1}}
      - !Compute {{einsum: U, component: MAC}}
""")
    tree = spec.mapping
    assert tree is not None
    assert (not fusiest.evaluate(spec, tree).warnings, not simulate(spec, tree).wrong_tensors) == (right, right)


@st.composite
def exchanges(draw: st.DrawFn, uneven: bool = False) -> Case:
    return draw_exchange(Dice(draw), uneven)


def compared(case: Case) -> tuple[bool, bool]:
    """Whether the model warns, and whether values are wrong."""
    evaluation, simulation = fusiest.evaluate(case.spec, case.tree), simulate(case.spec, case.tree)
    check_costs(evaluation, simulation)
    warned, wrong = bool(evaluation.warnings), bool(simulation.wrong_tensors)
    event(f"warned: {warned}, wrong: {wrong}")
    assert warned or not wrong
    return warned, wrong


@proving.cases(150, proving=5000)
@given(exchanges())
def test_the_model_warns_of_what_is_wrong_and_of_nothing_else(case: Case) -> None:
    """No warning without wrong values, as long as only what is made is used: past its ends there is nothing to miss."""
    warned, wrong = compared(case)
    producer, consumer = nests(case.spec, case.tree)
    made = {element(producer.info.accesses["T"], point.values) for point in producer.points}
    if all(element(consumer.info.accesses["T"], point.values) in made for point in consumer.points):
        assert warned == wrong


@proving.cases(100, proving=3000)
@given(exchanges(uneven=True))
def test_the_model_warns_also_where_loops_are_uneven(case: Case) -> None:
    compared(case)
