"""Small ONNX models for tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

node = helper.make_node
WeightArrays = dict[str, Any]


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[Any]],
    weights: WeightArrays,
    outputs: list[str],
    opset: int = 23,
) -> onnx.ModelProto:
    """A model in double precision; outputs without shapes."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


class Numbers:
    """Random arrays, the same at every run."""

    def __init__(self, seed: int = 0) -> None:
        self.dice = np.random.default_rng(seed)

    def __call__(self, *shape: int) -> np.ndarray[Any, Any]:
        return self.dice.normal(size=shape)


def rms_norm(x: str, y: str, gamma: str, parts: bool) -> list[onnx.NodeProto]:
    """RMSNorm, whole or in parts; needs the scalars `two`, `epsilon` and the axes `last`."""
    if not parts:
        return [node("RMSNormalization", [x, gamma], [y], f"{y}_norm", axis=-1, epsilon=0.1)]
    return [
        node("Pow", [x, "two"], [f"{y}_pow"], f"{y}_pow"),
        node("ReduceMean", [f"{y}_pow", "last"], [f"{y}_mean"], f"{y}_mean", keepdims=1),
        node("Add", [f"{y}_mean", "epsilon"], [f"{y}_add"], f"{y}_add"),
        node("Sqrt", [f"{y}_add"], [f"{y}_sqrt"], f"{y}_sqrt"),
        node("Reciprocal", [f"{y}_sqrt"], [f"{y}_r"], f"{y}_r"),
        node("Mul", [x, f"{y}_r"], [f"{y}_scaled"], f"{y}_scaled"),
        node("Mul", [gamma, f"{y}_scaled"], [y], f"{y}_norm"),
    ]


def layer_norm(x: str, y: str, gamma: str, beta: str, parts: bool) -> list[onnx.NodeProto]:
    """LayerNorm, whole or in parts."""
    if not parts:
        return [node("LayerNormalization", [x, gamma, beta], [y], f"{y}_norm", axis=-1, epsilon=0.1)]
    return [
        node("ReduceMean", [x, "last"], [f"{y}_mean"], f"{y}_mean", keepdims=1),
        node("Sub", [x, f"{y}_mean"], [f"{y}_sub"], f"{y}_sub"),
        node("Pow", [f"{y}_sub", "two"], [f"{y}_pow"], f"{y}_pow"),
        node("ReduceMean", [f"{y}_pow", "last"], [f"{y}_var"], f"{y}_var", keepdims=1),
        node("Add", [f"{y}_var", "epsilon"], [f"{y}_eps"], f"{y}_eps"),
        node("Sqrt", [f"{y}_eps"], [f"{y}_sqrt"], f"{y}_sqrt"),
        node("Div", [f"{y}_sub", f"{y}_sqrt"], [f"{y}_div"], f"{y}_div"),
        node("Mul", [f"{y}_div", gamma], [f"{y}_mul"], f"{y}_mul"),
        node("Add", [f"{y}_mul", beta], [y], f"{y}_norm"),
    ]


def rotary(x: str, y: str, width: int, parts: bool) -> list[onnx.NodeProto]:
    """Rotary embedding; needs `cos` and `sin` for pairs, `cos_full` and `sin_full` for elements, and `zero`, `half`, `end`, `axis`."""
    if not parts:
        return [node("RotaryEmbedding", [x, "cos", "sin"], [y], f"{y}_rope")]
    return [
        node("Slice", [x, "zero", "half", "axis"], [f"{y}_1"], f"{y}_1"),
        node("Slice", [x, "half", "end", "axis"], [f"{y}_2"], f"{y}_2"),
        node("Neg", [f"{y}_2"], [f"{y}_neg"], f"{y}_neg"),
        node("Concat", [f"{y}_neg", f"{y}_1"], [f"{y}_cat"], f"{y}_cat", axis=-1),
        node("Mul", [x, "cos_full"], [f"{y}_a"], f"{y}_a"),
        node("Mul", [f"{y}_cat", "sin_full"], [f"{y}_b"], f"{y}_b"),
        node("Add", [f"{y}_a", f"{y}_b"], [y], f"{y}_rope"),
    ]


def scalars(numbers: Numbers, tokens: int, width: int) -> WeightArrays:
    """What the parts above need."""
    angle = numbers(1, tokens, width // 2)
    return {
        "two": np.array(2.0), "epsilon": np.array(0.1), "last": np.array([-1]), "zero": np.array([0]), "half": np.array([width // 2]),
        "end": np.array([10**9]), "axis": np.array([3]), "cos": np.cos(angle), "sin": np.sin(angle),
        "cos_full": np.cos(np.concatenate([angle, angle], -1))[:, None], "sin_full": np.sin(np.concatenate([angle, angle], -1))[:, None],
    }  # fmt: skip


def decoder(
    parts: bool, layers: int = 1, tokens: int = 6, groups: int = 2, each: int = 2, size: int = 4
) -> onnx.ModelProto:
    """Layers of a decoder with grouped queries and SwiGLU, operators whole or written out."""
    numbers, width, heads = Numbers(1), groups * each * size, groups * each
    weights = scalars(numbers, tokens, size)
    nodes: list[onnx.NodeProto] = []
    x = "x"
    for i in range(layers):
        p = f"l{i}"
        for name, out in (
            ("q", heads * size),
            ("k", groups * size),
            ("v", groups * size),
            ("o", width),
            ("gate", 8),
            ("up", 8),
        ):
            weights[f"{p}.{name}.weight"] = numbers(width if name != "o" else heads * size, out) * 0.3
        weights[f"{p}.down.weight"] = numbers(8, width) * 0.3
        weights[f"{p}.g1"], weights[f"{p}.g2"] = numbers(width), numbers(width)
        nodes += rms_norm(x, f"{p}n1", f"{p}.g1", parts)
        nodes += _attention(p, parts, (tokens, groups, each, size), weights)
        nodes += [
            node("MatMul", [f"{p}a", f"{p}.o.weight"], [f"{p}z"], f"{p}.o"),
            node("Add", [x, f"{p}z"], [f"{p}r"], f"{p}.add"),
        ]
        nodes += rms_norm(f"{p}r", f"{p}n2", f"{p}.g2", parts)
        nodes.append(node("MatMul", [f"{p}n2", f"{p}.gate.weight"], [f"{p}gate"], f"{p}.gate"))
        nodes.append(node("MatMul", [f"{p}n2", f"{p}.up.weight"], [f"{p}up"], f"{p}.up"))
        if parts:
            nodes.append(node("Sigmoid", [f"{p}gate"], [f"{p}sig"], f"{p}.sig"))
            nodes.append(node("Mul", [f"{p}gate", f"{p}sig"], [f"{p}act"], f"{p}.act"))
        else:
            nodes.append(node("Swish", [f"{p}gate"], [f"{p}act"], f"{p}.act"))
        nodes.append(node("Mul", [f"{p}act", f"{p}up"], [f"{p}glu"], f"{p}.glu"))
        nodes.append(node("MatMul", [f"{p}glu", f"{p}.down.weight"], [f"{p}down"], f"{p}.down"))
        nodes.append(node("Add", [f"{p}r", f"{p}down"], [f"{p}y"], f"{p}.add2"))
        x = f"{p}y"
    return model_of(nodes, {"x": [1, tokens, width]}, weights, [x], opset=24)


def _attention(p: str, parts: bool, shape: tuple[int, int, int, int], weights: WeightArrays) -> list[onnx.NodeProto]:
    tokens, groups, each, size = shape
    heads = groups * each
    nodes = [node("MatMul", [f"{p}n1", f"{p}.{n}.weight"], [f"{p}{n}"], f"{p}.{n}") for n in "qkv"]
    weights |= {
        "h": np.array([1, tokens, heads, size]),
        "g": np.array([1, tokens, groups, size]),
        "w": np.array([1, tokens, heads * size]),
    }
    weights |= {
        "spread": np.array([1, groups, each, tokens, size]),
        "all": np.array([1, heads, tokens, size]),
        "two_axis": np.array([2]),
    }
    weights["scale"] = np.array(size**-0.5)
    for name, shaped in (("q", "h"), ("k", "g"), ("v", "g")):
        nodes.append(node("Reshape", [f"{p}{name}", shaped], [f"{p}{name}s"], f"{p}.{name}.split"))
        nodes.append(node("Transpose", [f"{p}{name}s"], [f"{p}{name}t"], f"{p}.{name}.turn", perm=[0, 2, 1, 3]))
    nodes += rotary(f"{p}qt", f"{p}qr", size, parts) + rotary(f"{p}kt", f"{p}kr", size, parts)
    if not parts:
        nodes.append(node("Attention", [f"{p}qr", f"{p}kr", f"{p}vt"], [f"{p}av"], f"{p}.attention"))
    else:
        for name in ("kr", "vt"):
            nodes.append(node("Unsqueeze", [f"{p}{name}", "two_axis"], [f"{p}{name}u"], f"{p}.{name}.u"))
            nodes.append(node("Expand", [f"{p}{name}u", "spread"], [f"{p}{name}e"], f"{p}.{name}.e"))
            nodes.append(node("Reshape", [f"{p}{name}e", "all"], [f"{p}{name}a"], f"{p}.{name}.a"))
        nodes.append(node("Transpose", [f"{p}kra"], [f"{p}ktt"], f"{p}.ktt", perm=[0, 1, 3, 2]))
        nodes.append(node("MatMul", [f"{p}qr", f"{p}ktt"], [f"{p}qk"], f"{p}.qk"))
        nodes.append(node("Mul", [f"{p}qk", "scale"], [f"{p}sc"], f"{p}.scale"))
        nodes.append(node("Softmax", [f"{p}sc"], [f"{p}sm"], f"{p}.softmax", axis=-1))
        nodes.append(node("MatMul", [f"{p}sm", f"{p}vta"], [f"{p}av"], f"{p}.av"))
    nodes.append(node("Transpose", [f"{p}av"], [f"{p}at"], f"{p}.back", perm=[0, 2, 1, 3]))
    nodes.append(node("Reshape", [f"{p}at", "w"], [f"{p}a"], f"{p}.join"))
    return nodes
