"""Nodes of a network on arrays, by ONNX's own reference; and what it has no operator for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from fusiest.networks.lowering.tensors import Apply

NumpyArray = np.ndarray[Any, Any]


def run_node(node: onnx.NodeProto, arrays: Sequence[NumpyArray | None], opset: int) -> list[NumpyArray]:
    """One node, by ONNX's reference."""
    names = [f"i{i}" if array is not None else "" for i, array in enumerate(arrays)]
    copy = helper.make_node(
        node.op_type, names, [f"o{i}" if o else "" for i, o in enumerate(node.output)], domain=node.domain
    )
    copy.attribute.extend(node.attribute)
    given = {name: array for name, array in zip(names, arrays, strict=True) if array is not None}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype), np.shape(array))
        for name, array in given.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in copy.output if name]
    graph = helper.make_graph([copy], "one", inputs, outputs)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    )
    found: list[NumpyArray] = ReferenceEvaluator(model).run(None, given)
    return found


def constant_values(model: onnx.ModelProto, weights: Mapping[str, NumpyArray]) -> dict[str, NumpyArray]:
    """All values that depend on no input, by ONNX's reference."""
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    found = dict(weights)
    for node in model.graph.node:
        subgraph = any(a.type in (5, 10) for a in node.attribute)
        if all(not name or name in found for name in node.input) and not subgraph:
            arrays = [found[name] if name else None for name in node.input]
            found.update(zip([o for o in node.output if o], run_node(node, arrays, opset), strict=False))
    return found


def rotated(x: NumpyArray, cos: NumpyArray, sin: NumpyArray, attributes: Mapping[str, Any]) -> NumpyArray:
    """Pairs of elements of the last axis, turned; `cos` and `sin` are given for each element."""
    half = x.shape[-1] // 2
    if attributes.get("interleaved"):
        pairs = np.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
    else:
        pairs = np.concatenate([-x[..., half:], x[..., :half]], -1)
    found: NumpyArray = x * cos + pairs * sin
    return found


def over_axes(apply: Apply, arguments: list[Any], axes: list[int]) -> Any:
    """A function of whole axes: Softmax, or the rotary embedding."""
    x = arguments[0]
    if apply.operator in ("Softmax", "LogSoftmax"):
        raised = np.exp(x - x.max(tuple(axes), keepdims=True))
        found = raised / raised.sum(tuple(axes), keepdims=True)
        return found if apply.operator == "Softmax" else np.log(found)
    assert apply.operator == "RotaryEmbedding"
    x, cos, sin = np.broadcast_arrays(*arguments)
    order = [i for i in range(x.ndim) if i not in axes] + axes
    flat = [
        np.transpose(a, order).reshape(*[a.shape[i] for i in order[: len(order) - len(axes)]], -1)
        for a in (x, cos, sin)
    ]
    found = rotated(*flat, apply.attributes)
    return np.transpose(found.reshape([x.shape[i] for i in order]), np.argsort(order))
