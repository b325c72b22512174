"""Operators whole and written out give the same Einsums."""

from __future__ import annotations

import numpy as np
import pytest

from tests.networks.alike import shape_of
from tests.networks.builders import Numbers, decoder, layer_norm, model_of, node, rms_norm, scalars
from tests.networks.imports import check_values, imported


@pytest.mark.parametrize("softmax", ["cascade", "deferred", "online"])
def test_a_decoder(softmax: str) -> None:
    x = {"x": Numbers(5)(1, 6, 16)}
    whole, parts = (check_values(decoder(written_out, layers=2), x, softmax=softmax) for written_out in (False, True))
    assert not whole.lowered.cuts
    assert not parts.lowered.cuts
    assert shape_of(whole.spec) == shape_of(parts.spec)
    assert len(whole.spec.info.einsums) == {"cascade": 44, "deferred": 44, "online": 38}[softmax] + 1


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_normalizations(kind: str) -> None:
    found = []
    for parts in (False, True):
        weights = {**scalars(Numbers(), 3, 8), "g": Numbers(1)(8), "b": Numbers(2)(8), "w": Numbers(3)(8, 4)}
        norm = rms_norm("x", "y", "g", parts) if kind == "rms" else layer_norm("x", "y", "g", "b", parts)
        model = model_of([*norm, node("MatMul", ["y", "w"], ["z"], "z")], {"x": [1, 3, 8]}, weights, ["z"])
        found.append(check_values(model, {"x": Numbers(9)(1, 3, 8)}))
    assert shape_of(found[0].spec) == shape_of(found[1].spec)
    assert "RMSNormalization" in found[1].text or "LayerNormalization" in found[1].text


def test_group_normalization() -> None:
    numbers = Numbers()
    weights = {
        "g": numbers(6, 1, 1),
        "b": numbers(6, 1, 1),
        "in": np.array([1, 2, -1]),
        "out": np.array([1, 6, 4, 4]),
        "ones": np.ones(2),
        "zeros": np.zeros(2),
    }
    weights["w"] = numbers(3, 6, 1, 1)
    parts = [
        node("Reshape", ["x", "in"], ["r"], "r"), node("InstanceNormalization", ["r", "ones", "zeros"], ["i"], "i", epsilon=0.1),
        node("Reshape", ["i", "out"], ["o"], "o"), node("Mul", ["o", "g"], ["m"], "m"), node("Add", ["m", "b"], ["n"], "n"),
        node("Conv", ["n", "w"], ["y"], "y"),
    ]  # fmt: skip
    whole = [
        node("GroupNormalization", ["x", "g1", "b1"], ["n"], "n", num_groups=2, epsilon=0.1),
        node("Conv", ["n", "w"], ["y"], "y"),
    ]
    x = {"x": numbers(1, 6, 4, 4)}
    one = check_values(model_of(parts, {"x": [1, 6, 4, 4]}, weights, ["y"]), x)
    other = check_values(
        model_of(
            whole, {"x": [1, 6, 4, 4]}, {**weights, "g1": weights["g"].reshape(6), "b1": weights["b"].reshape(6)}, ["y"]
        ),
        x,
    )
    assert shape_of(one.spec) == shape_of(other.spec)


@pytest.mark.parametrize("kind", ["erf", "tanh", "silu"])
def test_functions_written_out(kind: str) -> None:
    numbers = Numbers()
    values = {"root": 2**0.5, "one": 1.0, "half": 0.5, "three": 3.0, "c": 0.044715, "s": (2 / np.pi) ** 0.5}
    weights = {"w": numbers(4, 4), "v": numbers(4, 4)} | {name: np.array(value) for name, value in values.items()}
    first, last = node("MatMul", ["x", "w"], ["a"], "a"), node("MatMul", ["z", "v"], ["y"], "y")
    written = {
        "erf": ["Div a root b", "Erf b e", "Add e one d", "Mul half d f", "Mul a f z"],
        "tanh": [
            "Mul a half h",
            "Pow a three p",
            "Mul p c q",
            "Add a q r",
            "Mul r s t",
            "Tanh t u",
            "Add u one o",
            "Mul h o z",
        ],
        "silu": ["Sigmoid a b", "Mul a b z"],
    }[kind]
    parts = [node(words[0], words[1:-1], words[-1:], f"{kind}_{words[-1]}") for words in map(str.split, written)]
    whole = [
        node("Swish", ["a"], ["z"])
        if kind == "silu"
        else node("Gelu", ["a"], ["z"], approximate="tanh" if kind == "tanh" else "none")
    ]
    x = {"x": numbers(3, 4)}
    one, other = (
        check_values(model_of([first, *nodes, last], {"x": [3, 4]}, weights, ["y"], 24), x) for nodes in (parts, whole)
    )
    assert shape_of(one.spec) == shape_of(other.spec)
    assert len(one.spec.info.einsums) == 2
    kept = imported(model_of([first, *parts, last], {"x": [3, 4]}, weights, ["y"], 24), elementwise="keep")
    assert len(kept.spec.info.einsums) == 3


def test_what_others_read_is_not_put_together() -> None:
    """The mean of squares is an output, too: the norm stays in parts, and its values are right."""
    weights = {**scalars(Numbers(), 3, 8), "g": Numbers(1)(8)}
    model = model_of(rms_norm("x", "y", "g", parts=True), {"x": [1, 3, 8]}, weights, ["y", "y_mean"])
    found = check_values(model, {"x": Numbers(9)(1, 3, 8)})
    assert "RMSNormalization" not in found.text


@pytest.mark.parametrize("softmax", ["cascade", "deferred", "online"])
def test_a_softmax_made_safe(softmax: str) -> None:
    """Rows that a mask leaves empty have no number in ONNX's softmax; exporters put zero there."""
    numbers = Numbers()
    weights = {"w": numbers(4, 4), "v": numbers(5, 4), "zero": np.array(0.0)}
    first = [node("MatMul", ["x", "w"], ["a"], "a"), node("Softmax", ["a"], ["s"], "s", axis=-1)]
    safe = [node("IsNaN", ["s"], ["n"], "n"), node("Where", ["n", "zero", "s"], ["z"], "z")]
    both = []
    for middle, read in (([], "s"), (safe, "z")):
        last = node("MatMul", [read, "w"], ["y"], "y")
        model = model_of([*first, *middle, last], {"x": [3, 4]}, weights, ["y"])
        both.append(check_values(model, {"x": numbers(3, 4)}, softmax=softmax))
    assert shape_of(both[0].spec) == shape_of(both[1].spec)


def test_a_scale_after_a_bias_and_heads() -> None:
    """The bias lies on two axes by then; both are folded all the same."""
    numbers = Numbers()
    weights = {
        "w": numbers(8, 8),
        "b": numbers(8),
        "heads": np.array([3, 2, 4]),
        "half": np.array(0.5),
        "v": numbers(4, 5),
    }
    nodes = [
        node("MatMul", ["x", "w"], ["a"], "a"), node("Add", ["a", "b"], ["c"], "c"), node("Reshape", ["c", "heads"], ["h"], "h"),
        node("Transpose", ["h"], ["t"], "t", perm=[1, 0, 2]), node("Mul", ["t", "half"], ["m"], "m"),
        node("MatMul", ["m", "v"], ["y"], "y"),
    ]  # fmt: skip
    for elementwise in ("fold", "keep"):
        found = check_values(
            model_of(nodes, {"x": [3, 8]}, weights, ["y"]), {"x": numbers(3, 8)}, elementwise=elementwise
        )
        assert len(found.spec.info.einsums) == 2


@pytest.mark.parametrize("elementwise", ["fold", "keep"])
def test_another_floating_type_is_a_view(elementwise: str) -> None:
    """Norms of exporters compute in another type, what goes around them does not: one tensor all the same."""
    numbers = Numbers()
    nodes = [
        node("MatMul", ["x", "w"], ["a"], "a"), node("Cast", ["a"], ["c"], "c", to=1), node("Cast", ["c"], ["d"], "d", to=11),
        node("MatMul", ["d", "w"], ["b"], "b"), node("Add", ["a", "b"], ["y"], "y"),
    ]  # fmt: skip
    found = check_values(
        model_of(nodes, {"x": [3, 4]}, {"w": numbers(4, 4)}, ["y"]), {"x": numbers(3, 4)}, elementwise=elementwise
    )
    assert list(found.spec.info.einsums) == ["a", "b", "y"]
    rounded = [nodes[0], node("Cast", ["a"], ["i"], "i", to=7), node("Cast", ["i"], ["d"], "d", to=11), *nodes[3:]]
    whole = check_values(model_of(rounded, {"x": [3, 4]}, {"w": numbers(4, 4)}, ["y"]), {"x": 3 * numbers(3, 4)})
    assert len(whole.spec.info.einsums) == 4
