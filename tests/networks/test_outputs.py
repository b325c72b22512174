"""Operators with what is rarely used: outputs that are left out or that no Einsum gives, windows and lengths of attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.networks.builders import Numbers, model_of, node
from tests.networks.imports import check_values, imported


@pytest.mark.parametrize(
    ("opset", "options"),
    [
        (23, {"is_causal": 1}),
        (25, {"left_window_size": 2}),
        (25, {"left_window_size": 1, "right_window_size": 1}),
        (25, {"left_window_size": 2, "is_causal": 1}),
    ],
)
def test_attention_sees_a_band(opset: int, options: dict[str, Any]) -> None:
    numbers = Numbers(6)
    shape = [2, 3, 5, 4]
    model = model_of(
        [node("Attention", ["q", "k", "v"], ["y"], "a", **options)], dict.fromkeys("qkv", shape), {}, ["y"]
    )
    model.opset_import[0].version = opset
    found = check_values(model, {name: numbers(*shape) for name in "qkv"})
    assert not found.lowered.cuts
    assert any("counted in full" in note for note in found.lowered.lowering.notes)


@pytest.mark.parametrize("options", [{}, {"is_causal": 1}])
def test_attention_up_to_lengths(options: dict[str, Any]) -> None:
    """Caches that are longer than what is in them: an operand says how much each sample has."""
    numbers = Numbers(7)
    shapes = {"q": [2, 4, 2, 4], "k": [2, 2, 6, 4], "v": [2, 2, 6, 4]}
    inputs = ["q", "k", "v", "", "", "", "lengths"]
    model = model_of([node("Attention", inputs, ["y"], "a", **options)], dict(shapes), {}, ["y"], 24)
    model.graph.input.append(helper.make_tensor_value_info("lengths", TensorProto.INT64, [2]))
    given = {name: numbers(*shape) for name, shape in shapes.items()} | {"lengths": np.array([3, 6])}
    found = check_values(model, given)
    assert not found.lowered.cuts
    assert "a_lengths" in found.spec.info.einsums


def test_outputs_that_no_einsum_gives() -> None:
    """Where a maximum was is wanted, too: that is a cut, nothing that comes from nowhere."""
    pool = node("MaxPool", ["x"], ["y", "where"], "pool", kernel_shape=[2, 2], strides=[2, 2])
    found = check_values(model_of([pool], {"x": [1, 2, 4, 4]}, {}, ["y", "where"]), {"x": Numbers()(1, 2, 4, 4)})
    assert [cut.reason for cut in found.lowered.cuts] == ["no Einsum says output 2 of MaxPool"]
    assert not imported(model_of([pool], {"x": [1, 2, 4, 4]}, {}, ["y"])).lowered.cuts


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_a_first_output_that_is_left_out(kind: str, gates: int) -> None:
    numbers = Numbers()
    weights = {"w": numbers(1, gates * 4, 3), "r": numbers(1, gates * 4, 4)}
    last = node(kind, ["x", "w", "r"], ["", "h"], "cell", hidden_size=4)
    found = imported(model_of([last, node("Relu", ["h"], ["y"], "relu")], {"x": [5, 1, 3]}, weights, ["y"]))
    products = [e for e in found.spec.info.einsums.values() if e.operation == "matmul"]
    assert [np.prod(list(e.bounds.values())) for e in products] == [5 * 3 * gates * 4, 4 * gates * 4]


def test_a_cast_to_the_type_of_a_larger_value() -> None:
    numbers = Numbers()
    nodes = [
        node("MatMul", ["x", "w"], ["a"], "a"),
        node("ReduceMax", ["a"], ["m"], "m", keepdims=0),
        node("CastLike", ["m", "x"], ["c"], "c"),
        node("Sub", ["a", "c"], ["y"], "y"),
    ]
    found = check_values(model_of(nodes, {"x": [3, 4]}, {"w": numbers(4, 5)}, ["y"]), {"x": numbers(3, 4)})
    assert list(found.spec.info.einsums) == ["a", "m", "y"]


@pytest.mark.parametrize("made", [False, True])
def test_a_mask_of_truths(made: bool) -> None:
    """What a mask leaves out has no weight, be it given or the result of a comparison."""
    numbers = Numbers(8)
    shape = [1, 2, 3, 4]
    nodes = [node("Attention", ["q", "k", "v", "mask"], ["y"], "a")]
    mask = np.array([[True, False, False], [True, True, False], [False, True, True]])
    model = model_of(nodes, dict.fromkeys("qkv", shape) | ({"far": [3, 3]} if made else {}), {}, ["y"])
    if made:
        model.graph.node.insert(0, node("Less", ["far", "near"], ["less"], "less"))
        model.graph.node.insert(1, node("Unsqueeze", ["less", "axis"], ["mask"], "rows"))
        model.graph.initializer.extend(
            [numpy_helper.from_array(np.array(0.5), "near"), numpy_helper.from_array(np.array([0]), "axis")]
        )
    else:
        model.graph.input.append(helper.make_tensor_value_info("mask", TensorProto.BOOL, [3, 3]))
    given = {name: numbers(*shape) for name in "qkv"} | ({"far": 1.0 - mask} if made else {"mask": mask})
    assert not check_values(model, given).lowered.cuts


@pytest.mark.parametrize("opset", [23, 13])
def test_batch_norms_in_training_are_cut(opset: int) -> None:
    """They go by what the batch is like, which is no function of each element. Before opset 14, outputs alone say so."""
    numbers = Numbers(9)
    weights = {name: abs(numbers(2)) for name in ("scale", "shift", "mean", "variance")}
    training = {"training_mode": 1} if opset > 13 else {}
    outputs = ["n", "new_mean", "new_variance"] + ([] if opset > 13 else ["saved_mean", "saved_variance"])
    nodes = [
        node("BatchNormalization", ["x", *weights], outputs, "norm", **training),
        node("MatMul", ["n", "w"], ["y"], "product"),
    ]
    model = model_of(nodes, {"x": [3, 2]}, weights | {"w": numbers(2, 2)}, ["y"], opset)
    found = imported(model)
    assert list(found.spec.info.einsums) == ["product"]
    assert {cut.reason for cut in found.lowered.cuts} == {"it normalizes by what the batch itself is like (training)"}
