"""Einsums as text: their accesses, and the word for what they compute."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiest.base.errors import SpecError
from fusiest.show import show_text
from fusiest.spec.dumping import dump
from fusiest.spec.hardware.binding import bind
from fusiest.spec.language.einsum_text import ParsedEinsum, parse_einsum
from tests.load_text import load_text

WORKLOAD = """
workload:
  bits_per_value: 8
  rank_sizes: {M: 4, K: 4, N: 4}
  einsums:
  - Rest[m, k, n] = X[m, k, n]
"""


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("Z[m, n] = A[m, k] * B[k, n]", "matmul"),
        ("Z[m, n] = A[m, k] , B[k, n]", "matmul"),
        ("Z[m, n] = A[m, k] * B[k, n] + C[n]", "matmul"),
        ("Z[m, n] = relu(A[m, k] * B[k, n] + C[n])", "matmul"),
        ("Z[m, n] = A[m, k] * B[k, n] * C[k]", "matmul"),
        ("Z[m, n] = A[m] * B[n]", "multiply"),
        ("Z[m] = A[m] * B[m] * C[m]", "multiply"),
        ("Z[m] = 2 * A[m]", "unary"),
        ("Z[m] = A[m] + B[m]", "add"),
        ("Z[m] = A[m] + 2 * B[m]", "add"),
        ("Z[m] = A[m, k] + 2 * B[m]", "add"),
        ("Z[m] = A[m] - B[m] + C[m]", "add"),
        ("Z[m] = A[m] - B[m]", "subtract"),
        ("Z[m] = A[m] / B[m]", "divide"),
        ("Z[m] = (A[m] + C[m]) / B[m]", "divide"),
        ("Z[m] = A[m] ** 2", "power"),
        ("Z[m] = A[m] ** -0.5 ", "power"),
        ("Z[m] = -A[m]", "negate"),
        ("Z[m] = (A[m])", "unary"),
        ("Z[m] = (A[m] + B[m])", "add"),
        ("Z[m] = max(A[m, k])", "max"),
        ("Z[m] = max(A[m], B[m])", "max"),
        ("Z[m] = where(A[m], B[m], -1e9)", "where"),
        ("Z[m] = exp(A[m, k] - B[m])", "exp"),
        ("Z[m] = A[m]", "unary"),
        ("Z[m] = A[m, k]", "sum"),
        ("{einsum: 'Z[m] = A[m] * B[m]', operation: gate}", "gate"),
        ("{einsum: 'Z[m] = max(A[m])', operation: sqrt}", "sqrt"),
        ("{einsum: 'Z[m] = A[m]', is_copy_operation: true}", "copy"),
        (
            "{name: Z, tensor_accesses: [{name: A, projection: [m, k]}, {name: Z, projection: [m], output: true}]}",
            "sum",
        ),
    ],
)
def test_operation(text: str, operation: str) -> None:
    text = text if text.startswith("{") else f'"{text}"'
    spec = load_text(f"{WORKLOAD}  - {text}\n")
    assert spec.info.einsums["Z"].operation == operation
    assert load_text(dump(spec)) == spec


def test_architectures_see_the_operation() -> None:
    spec = load_text(
        f"""{WORKLOAD}  - Y[m, n] = A[m, k] * B[k, n]
  - Z[m, n] = Y[m, n] * C[m, n]
arch:
  nodes:
  - !Memory {{name: DRAM, component_class: Dummy, size: inf}}
  - !Compute {{name: Vector, component_class: Dummy, enabled: 'operation in ("add", "multiply")'}}
  - !Compute {{name: MAC, component_class: Dummy, enabled: operation == "matmul"}}
"""
    )
    enabled = {e: [c for c in ("Vector", "MAC") if bind(spec, e, c).compute.enabled] for e in "YZ"}
    assert enabled == {"Y": ["MAC"], "Z": ["Vector"]}


def test_renames_see_the_operation() -> None:
    renames = "renames: {einsums: [{name: default, tensor_accesses: {x: Inputs if operation == 'add' else Nothing}}]}"
    spec = load_text(f"{WORKLOAD}  - Z[m] = A[m] + B[m]\n  - Y[m] = Z[m] * B[m]\n{renames}")
    assert [sorted(spec.info.einsums[e].names["x"].members) for e in "ZY"] == [["A", "B"], []]


@pytest.mark.parametrize(
    ("einsum", "lines"),
    [
        ("Z[m] = max(A[m, k])", ["Z[m] = max(Z[m], A[m, k])  # on MAC"]),
        ("Z[m, k] = exp(A[m, k] - B[m])", ["Z[m, k] = exp(A[m, k] - B[m])  # on MAC"]),
        ("Z[m] = exp(A[m, k] - 1) / 2", ["Z[m] += exp(A[m, k] - 1) / 2  # on MAC"]),
        ("Z[m] = relu(A[m, k] * B[m])", ["Z[m] += A[m, k] * B[m]  # on MAC", "Z[m] = relu(Z[m])"]),
        ("Z[m] = max(A[m, k]) + B[m]", ["Z[m] = max(Z[m], A[m, k])  # on MAC", "Z[m] = Z[m] + B[m]"]),
        ("Z[m] = A[m, k], B[m]", ["Z[m] += A[m, k] * B[m]  # on MAC"]),
        ("Z[m, k] = A[m, k] / (A[m, k] + 1)", ["Z[m, k] = A[m, k] / (A[m, k] + 1)  # on MAC"]),
    ],
)
def test_pseudocode_computes_as_written(einsum: str, lines: list[str]) -> None:
    loops = "!Temporal {rank_variable: m, tile_shape: 1}, !Temporal {rank_variable: k, tile_shape: 1}"
    held = "A, B, Z" if "B" in einsum else "A, Z"
    spec = load_text(
        f"workload: {{bits_per_value: 8, rank_sizes: {{M: 4, K: 3}}, einsums: ['{einsum}']}}\n"
        f"mapping: {{nodes: [!Storage {{tensors: [{held}], component: DRAM}}, {loops}, !Compute {{einsum: Z, component: MAC}}]}}"
    )
    assert [line.strip() for line in show_text(spec, as_pseudocode=True).splitlines()][-len(lines) :] == lines
    assert load_text(dump(spec)) == spec


@pytest.mark.parametrize("formula", ["exp(A - Q)", "exp(A[m])", "exp(A"])
def test_a_formula_names_inputs(formula: str) -> None:
    with pytest.raises(SpecError, match=r"no tensor 'Q'; known: A, B|without indices|expected '\)'"):
        load_text(f"{WORKLOAD}  - {{einsum: 'Z[m] = A[m] + B[m]', formula: '{formula}'}}\n")


PIECES = st.sampled_from(
    ["A[m]", "B[m, k]", " ", "(", ")", "+", "-", "*", "/", "**", "exp(", ",", "2", "1e3", "=", "Z[m]"]
)


@given(st.lists(PIECES, max_size=12).map(lambda pieces: "Z[m] = " + "".join(pieces)))
def test_any_text_is_an_einsum_or_an_error_of_one_line(text: str) -> None:
    message = ""
    try:
        parsed: ParsedEinsum | None = parse_einsum(text)
    except SpecError as error:
        parsed, message = None, str(error)
    if parsed is None:
        assert "\n" not in message
    else:
        assert str(parsed.output.name) == "Z"
        assert text.count("[") == len(parsed.inputs) + 1
