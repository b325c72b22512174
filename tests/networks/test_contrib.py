"""Operators of ONNX Runtime: a layer of an optimized model is the layer that it was made of."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.networks.alike import shape_of
from tests.networks.builders import Numbers, model_of, node
from tests.networks.imports import imported

TOKENS, WIDTH, HEADS = 6, 16, 4


def optimized(
    nodes: list[onnx.NodeProto], weights: dict[str, object], outputs: list[str], **inputs: list[int]
) -> onnx.ModelProto:
    model = model_of(nodes, {"x": [1, TOKENS, WIDTH], **inputs}, weights, outputs, 24)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def theirs(kind: str, inputs: list[str], outputs: list[str], **attributes: object) -> onnx.NodeProto:
    return node(kind, inputs, outputs, kind, domain="com.microsoft", **attributes)


def layer(whole: bool) -> onnx.ModelProto:
    """A layer of BERT as ONNX Runtime's optimizer leaves it, and written with ONNX's operators."""
    numbers = Numbers(1)
    weights: dict[str, object] = {
        "w": numbers(WIDTH, 3 * WIDTH), "b": numbers(3 * WIDTH), "o": numbers(WIDTH, WIDTH), "ob": numbers(WIDTH), "g": numbers(WIDTH),
        "beta": numbers(WIDTH), "up": numbers(WIDTH, 32), "upb": numbers(32), "down": numbers(32, WIDTH),
    }  # fmt: skip
    if whole:
        nodes = [
            theirs("Attention", ["x", "w", "b"], ["a"], num_heads=HEADS),
            node("MatMul", ["a", "o"], ["p"], "o"),
            theirs("SkipLayerNormalization", ["p", "x", "g", "beta", "ob"], ["n", "", "", "sum"], epsilon=1e-12),
            node("MatMul", ["n", "up"], ["u"], "up"),
            theirs("BiasGelu", ["u", "upb"], ["f"]),
            theirs("FusedMatMul", ["f", "down"], ["d"]),
            node("Add", ["d", "sum"], ["y"], "end"),
        ]
    else:
        nodes = [
            node("MatMul", ["x", "w"], ["m"], "w"),
            node("Add", ["m", "b"], ["mb"], "b"),
            node("Split", ["mb"], ["q", "k", "v"], "split", axis=-1, num_outputs=3),
            node("Attention", ["q", "k", "v"], ["a"], "a", q_num_heads=HEADS, kv_num_heads=HEADS),
            node("MatMul", ["a", "o"], ["p"], "o"),
            node("Add", ["p", "x"], ["px"], "residual"),
            node("Add", ["px", "ob"], ["sum"], "ob"),
            node("LayerNormalization", ["sum", "g", "beta"], ["n"], "n", axis=-1),
            node("MatMul", ["n", "up"], ["u"], "up"),
            node("Add", ["u", "upb"], ["ub"], "upb"),
            node("Gelu", ["ub"], ["f"], "f"),
            node("MatMul", ["f", "down"], ["d"], "down"),
            node("Add", ["d", "sum"], ["y"], "end"),
        ]
    return optimized(nodes, weights, ["y"])


def test_a_layer_of_bert() -> None:
    one, other = (imported(layer(whole)) for whole in (True, False))
    assert not one.lowered.cuts
    assert shape_of(one.spec) == shape_of(other.spec)


def test_groups_of_queries_with_a_cache() -> None:
    """A token of a decoder: fused weights of few bits, rotary embedding, keys and values of earlier tokens."""
    groups, size, past = 2, 4, 10
    columns = (HEADS + 2 * groups) * size
    weights = {"cos": np.zeros((64, size // 2)), "sin": np.zeros((64, size // 2)), "packed": np.zeros((columns, 1, 8), np.uint8),
               "scales": np.zeros(columns), "g": np.ones(WIDTH), "total": np.array(11, np.int32)}  # fmt: skip
    cache = ["past_k", "past_v"]
    nodes = [
        node("SimplifiedLayerNormalization", ["x", "g"], ["n"], "norm", axis=-1, epsilon=1e-5),
        theirs("MatMulNBits", ["n", "packed", "scales"], ["qkv"], K=WIDTH, N=columns, bits=4, block_size=16),
        theirs("GroupQueryAttention", ["qkv", "", "", *cache, "lengths", "total", "cos", "sin"], ["y", "k", "v"],
               num_heads=HEADS, kv_num_heads=groups, do_rotary=1),
    ]  # fmt: skip
    model = optimized(nodes, weights, ["y", "k", "v"], **{key: [1, groups, past, size] for key in cache})
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1
    model.graph.input.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, [1]))
    found = imported(model)
    assert all(cut.cache for cut in found.lowered.cuts)
    products = [
        int(np.prod(list(e.bounds.values()))) for e in found.spec.info.einsums.values() if e.operation == "matmul"
    ]
    assert sum(products) == WIDTH * columns + 2 * HEADS * size * (past + 1)


@pytest.mark.parametrize("masked", [False, True])
def test_heads_apart(masked: bool) -> None:
    weights = {name: Numbers()(WIDTH, WIDTH) for name in ("q", "k", "v")} | {"b": Numbers()(3 * WIDTH)}
    nodes = [node("MatMul", ["x", name], [f"{name}x"], name) for name in ("q", "k", "v")]
    inputs = ["qx", "kx", "vx", "b", *(["mask"] if masked else [])]
    model = optimized([*nodes, theirs("MultiHeadAttention", inputs, ["y"], num_heads=HEADS)], weights, ["y"])
    if masked:
        model.graph.input.append(helper.make_tensor_value_info("mask", TensorProto.INT32, [1, TOKENS]))
    found = imported(model)
    assert not found.lowered.cuts
    assert any("mask" in name for name in found.spec.info.users) == masked


def test_what_is_used_in_another_way_stays() -> None:
    """With a mean that is wanted, too, and no shape in the file: one line."""
    weights = {"g": np.ones(WIDTH), "beta": np.ones(WIDTH)}
    norm = theirs("SkipLayerNormalization", ["x", "x", "g", "beta"], ["n", "mean"])
    with pytest.raises(Exception, match=r"com.microsoft.SkipLayerNormalization is not known"):
        imported(optimized([norm], weights, ["n", "mean"]))
