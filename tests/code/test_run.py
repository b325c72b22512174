"""Workloads in NumPy: what Einsums mean, against the simulator's values, closed forms, and by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import fusiest
from fusiest.base.errors import SpecError
from fusiest.code.functions import _DEFINED, PRIMITIVES, expanded
from fusiest.code.shapes import TensorShape, shapes
from fusiest.spec import formula_text, parse_formula
from tests import proving
from tests.load_text import load_text
from tests.proving import TALLY
from tests.reference.backings import Backings, TensorArray
from tests.reference.nest import nests
from tests.reference.simulator import computed_directly
from tests.strategies import Case, cases

EXACT = 2**53
WORKLOADS = sorted((Path(fusiest.__file__).parent / "library" / "workloads").glob("*.yaml"))
SMALL = {"N_TOKENS": 4, "SIZE": 32, "ROWS": 6, "COLUMNS": 6, "N_LAYERS": 1}
SLOW = {"gpt3_175B", "gpt3_175B_kv_cache", "mixtral_8x7B"}  # weights of some GB


@proving.floors(120)
@proving.cases(120, proving=5000)
@given(cases())
def test_values_are_those_of_the_simulator(case: Case) -> None:
    laid_out = nests(case.spec, case.tree)
    start = Backings(laid_out).start
    expected = computed_directly(laid_out, start)
    TALLY["compared"] += 1
    boxes = shapes(case.spec.info)
    turned = {tensor: _in_order(array, boxes[tensor]) for tensor, array in expected.items()}
    inputs = {t: turned[t] for t in turned if t not in case.spec.info.producers}
    for tensor, found in fusiest.run(case.spec, inputs, whole=True).items():
        if turned[tensor].max(initial=0) < EXACT:
            assert np.array_equal(found, turned[tensor]), tensor


def _in_order(array: TensorArray, shape: TensorShape) -> np.ndarray:
    """What the simulator has of a tensor, whose ranks it puts in alphabetical order; only that which exists."""
    if not shape.ranks:
        return array.values.reshape(())
    ranks = sorted(shape.ranks)
    place = dict(zip(ranks, array.box, strict=True))
    cut = tuple(slice(shape.bounds(rank)[0] - place[rank][0], shape.bounds(rank)[1] - place[rank][0]) for rank in ranks)
    return array.values[cut].transpose([ranks.index(rank) for rank in shape.ranks])


@pytest.mark.parametrize("file", [path for path in WORKLOADS if path.stem not in SLOW], ids=lambda path: path.stem)
def test_bundled_workloads_have_values(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    defines = {name: size for name, size in SMALL.items() if f"set {name} " in text}
    results = fusiest.run(fusiest.load(file.stem, **defines))
    assert results
    assert all(np.isfinite(array).all() for array in results.values()) or file.stem.startswith("mamba")


SOFTMAX = """
workload:
  bits_per_value: 8
  rank_sizes: {M: 5, P: 7}
  einsums:
  - "MX[m] = max(QK[m, p])"
  - "EX[m, p] = exp(QK[m, p] - MX[m])"
  - "SM[m] = EX[m, p]"
  - "S[m, p] = EX[m, p] / SM[m]"
  - {einsum: "R[m, p] = S[m, p]", operation: round}
  - {name: T, operation: max, tensor_accesses: [{name: R, projection: [m, p]}, {name: T, projection: [m], output: True}]}
"""


def test_softmax_in_steps() -> None:
    x = np.random.default_rng(0).normal(size=(5, 7))
    found = fusiest.run(load_text(SOFTMAX), {"QK": x}, whole=True)
    expected = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    assert np.allclose(found["S"], expected, rtol=1e-14)
    assert np.array_equal(found["T"], np.rint(expected).max(1))


ONE = """
workload:
  bits_per_value: 8
  rank_sizes: {{M: 3, K: 4, N: 2}}
  einsums:
  - {}
"""
A, B, C = np.arange(12.0).reshape(3, 4) - 5, np.arange(4.0) - 1, np.arange(3.0) - 1
SUMS = [
    ("A[m, k] * B[k]", A @ B),
    ("A[m, k], B[k]", A @ B),
    ("-A[m, k] * B[k]", -A @ B),
    ("relu(A[m, k] * B[k])", np.maximum(A @ B, 0)),
    ("relu(A[m, k] * B[k] + C[m])", np.maximum(A @ B + C, 0)),
    ("A[m, k] * B[k] / (C[m] + 3)", A @ B / (C + 3)),
    ("exp(A[m, k] - C[m])", np.exp(A - C[:, None]).sum(1)),
    ("A[m, k] + B[k]", (A + B).sum(1)),
    ("2 * A[m, k]", 2 * A.sum(1)),
    ("max(A[m, k])", A.max(1)),
    ("max(A[m, k], B[k])", np.maximum(A, B).sum(1)),
    ("max(A[m, k] * B[k]) - C[m]", (A * B).max(1) - C),
    ("min(A[m, k] + B[k])", (A + B).min(1)),
    ("prod(A[m, k])", A.prod(1)),
    ("sqrt(mean(A[m, k] * A[m, k]) + 1)", np.sqrt((A * A).mean(1) + 1)),
    ("sum(exp(A[m, k] * B[k]))", np.exp(A * B).sum(1)),
    ("where(C[m] > 0, A[m, k], B[k])", np.where(C[:, None] > 0, A, B).sum(1)),
    ("A[m, k] ** 2", (A**2).sum(1)),
    ("(A[m, k] >= 0) * (B[k] == 2)", ((A >= 0) * (B == 2)).sum(1)),
]


@pytest.mark.parametrize(("text", "expected"), SUMS)
def test_where_the_sum_stands(text: str, expected: np.ndarray) -> None:
    spec = load_text(ONE.format(f'"Z[m] = {text}"'))
    inputs = {t: {"A": A, "B": B, "C": C}[t] for t in spec.info.users if t != "Z"}
    assert np.allclose(fusiest.run(spec, inputs)["Z"], expected, rtol=1e-14)
    assert load_text(spec.to_yaml()) == spec
    assert np.allclose(fusiest.run(load_text(spec.to_yaml()), inputs)["Z"], expected, rtol=1e-14)


REFUSED = [
    ('"Z[m] = gobble(A[m])"', "Einsum Z: it is not known what the function gobble computes"),
    ('"Z[m] = tanhh(A[m])"', "tanhh computes; did you mean 'tanh'"),
    ('{einsum: "Z[m] = A[m]", operation: gate}', "what the function gate computes"),
    ('{einsum: "Z[m] = A[m], B[m]", operation: gate, formula: "gate(A)"}', "what the function gate computes"),
    ('"Z[m] = clip(A[m])"', "clip is a function of 3 arguments, but has 1"),
    ('"Z[m] = exp(A[m], B[m])"', "exp is a function of 1 argument, but has 2"),
    ('"Z[m] = sum(A[m, k]) / sum(B[m, k])"', "several reductions, sum and sum"),
    ('"Z[m] = max(A[m, k]) + B[k]"', "max does not reduce B"),
]


@pytest.mark.parametrize(("einsum", "words"), REFUSED)
def test_what_means_nothing_is_refused_by_name(einsum: str, words: str) -> None:
    spec = load_text(ONE.format(einsum))
    with pytest.raises(SpecError, match=words.replace("(", r"\(")):
        fusiest.run(spec)


def test_a_product_is_one_whatever_it_is_called() -> None:
    spec = load_text(ONE.format('{einsum: "Z[m, k] = A[m, k] * B[k]", operation: gate}'))
    assert np.array_equal(fusiest.run(spec, {"A": A, "B": B})["Z"], A * B)


def test_formulas_read_inputs() -> None:
    text = ONE.format('{einsum: "Z[m] = A[m]", formula: "exp(INPUT)"}')
    assert np.allclose(fusiest.run(load_text(text.replace("INPUT", "A")), {"A": C})["Z"], np.exp(C))
    for wrong, words in (
        ("Z", "reads no tensor 'Z'; known: A"),
        ("B", "reads no tensor 'B'"),
        ("A +", "expected a tensor"),
    ):
        with pytest.raises(SpecError, match=words):
            load_text(text.replace("INPUT", wrong))


def test_a_tensor_that_is_read_in_two_ways() -> None:
    with pytest.warns(UserWarning, match="reads A in two ways"):
        spec = load_text(ONE.format('"Z[m, n] = exp(A[m, k]) * A[M: n, k]"'))
    found = fusiest.run(spec, {"A": A / 9})["Z"]
    assert np.allclose(found, (np.exp(A / 9) @ A.T / 9)[:, :2])


CONVOLUTION = """
workload:
  bits_per_value: 8
  rank_sizes: {C: 2, K: 3, R: 3}
  iteration_space_shape: {p: 0 <= p < 4, r: 0 <= r < 3}
  einsums:
  - "O[k, p] = I[c, H: 2*p + r - 1] * W[k, c, r]"
  - "M[k, P: p] = max(O[k, P: p + r - 1])"
"""


def test_padding_adds_nothing() -> None:
    """It is what lies outside of an input as it is given, and outside of what is made."""
    random = np.random.default_rng(0)
    image, weight = random.normal(size=(2, 8)), random.normal(size=(3, 2, 3))
    found = fusiest.run(load_text(CONVOLUTION), {"I": image, "W": weight}, whole=True)
    padded = np.pad(image, ((0, 0), (1, 1)))
    expected = sum(np.einsum("cp,kc->kp", padded[:, r : r + 8 : 2], weight[:, :, r]) for r in range(3))
    assert np.allclose(found["O"], expected)
    around = np.pad(expected, ((0, 0), (1, 1)), constant_values=-np.inf)
    assert np.allclose(found["M"], np.max([around[:, r : r + 4] for r in range(3)], axis=0))
    whole = fusiest.run(load_text(CONVOLUTION), {"I": padded[:, :9], "W": weight})  # from -1 on: all that is read
    assert np.allclose(whole["M"], found["M"])
    with pytest.raises(SpecError, match="W has 3 of rank R, but the array has 2"):
        fusiest.run(load_text(CONVOLUTION), {"I": image, "W": weight[..., 1:]})


def test_inputs_are_checked() -> None:
    spec = fusiest.load("matmuls", N_EINSUMS=1, M=2, KN=2)
    with pytest.raises(SpecError, match="the workload has no input W; did you mean 'W0'"):
        fusiest.run(spec, {"W": np.zeros((2, 2))})
    with pytest.raises(SpecError, match="inputs are missing: W0"):
        fusiest.run(spec, {"T0": np.zeros((2, 2))})
    with pytest.raises(SpecError, match="T0 has the ranks M, N0, but the array has 1 axes"):
        fusiest.run(spec, {"T0": np.zeros(2), "W0": np.zeros((2, 2))})


CLOSED = {
    "relu6": lambda x: min(max(x, 0), 6),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "gelu": lambda x: x * (1 + math.erf(x / 2**0.5)) / 2,
    "softplus": lambda x: math.log1p(math.exp(x)), "sign": lambda x: int(x > 0) - int(x < 0),
    "hard_swish": lambda x: x * min(max(x + 3, 0), 6) / 6,
    "mish": lambda x: x * math.tanh(math.log1p(math.exp(x))), "not": lambda x: float(x == 0), "softsign": lambda x: x / (1 + abs(x)),
    "gelu_tanh": lambda x: x / 2 * (1 + math.tanh((2 / math.pi) ** 0.5 * (x + 0.044715 * x**3))), "square": lambda x: x * x,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CLOSED))
def test_functions_in_closed_form(name: str) -> None:
    x = np.array([-7.5, -1.0, -0.25, 0.0, 0.5, 3.0, 8.0])
    spec = load_text(ONE.format(f'"Z[i] = {name}(X[i])"').replace("N: 2", "I: 7"))
    assert np.allclose(fusiest.run(spec, {"X": x})["Z"], [CLOSED[name](value) for value in x], rtol=1e-12, atol=1e-15)


def test_functions_are_made_of_primitive_ones() -> None:
    for head, text in _DEFINED.items():
        term = expanded(parse_formula(head))
        assert formula_text(term) == formula_text(expanded(parse_formula(text)))
    assert all(primitive.arity in (1, 2, 3) for primitive in PRIMITIVES.values())
