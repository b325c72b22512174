"""Writes attention.onnx: self-attention with four heads and a residual, as docs/import.md reads it."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

tokens, width, heads = 16, 32, 4
shape = [1, tokens, width]
weights = {
    name: np.zeros((width, width), np.float32) for name in ("query.weight", "key.weight", "value.weight", "out.weight")
}
weights["heads"] = np.array([1, tokens, heads, width // heads])
weights["whole"] = np.array(shape)
weights["scale"] = np.array(0.35, np.float32)
nodes = []
for name in ("query", "key", "value"):
    nodes += [
        helper.make_node("MatMul", ["x", f"{name}.weight"], [name], name),
        helper.make_node("Reshape", [name, "heads"], [f"{name}_heads"], f"{name}_split"),
        helper.make_node(
            "Transpose",
            [f"{name}_heads"],
            [f"{name}_t"],
            f"{name}_turn",
            perm=[0, 2, 3, 1] if name == "key" else [0, 2, 1, 3],
        ),
    ]
nodes += [
    helper.make_node("MatMul", ["query_t", "key_t"], ["scores"], "attention"),
    helper.make_node("Mul", ["scores", "scale"], ["scaled"], "scaling"),
    helper.make_node("Softmax", ["scaled"], ["attended"], "softmax", axis=-1),
    helper.make_node("MatMul", ["attended", "value_t"], ["mixed"], "mix"),
    helper.make_node("Transpose", ["mixed"], ["mixed_t"], "turn_back", perm=[0, 2, 1, 3]),
    helper.make_node("Reshape", ["mixed_t", "whole"], ["mixed_whole"], "join_heads"),
    helper.make_node("MatMul", ["mixed_whole", "out.weight"], ["projected"], "out"),
    helper.make_node("Add", ["x", "projected"], ["y"], "residual"),
]
graph = helper.make_graph(
    nodes,
    "attention",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    [numpy_helper.from_array(array, name) for name, array in weights.items()],
)
onnx.save(helper.make_model(graph), "attention.onnx")
