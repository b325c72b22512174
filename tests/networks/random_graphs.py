"""Random small ONNX graphs, drawn from the table of operators that an import knows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.networks.interpreter import run_node

Array = np.ndarray[Any, Any]
OPSET = 23
UNARY = ["Abs", "Cos", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Neg", "Relu", "Round",
         "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Tanh", "Identity", "Dropout", "Celu", "Swish"]  # fmt: skip
REDUCE = [
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSumExp",
]


class Draw:
    """A graph that grows; every value is known, so shapes never have to be guessed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Array] = {}
        self.inputs: dict[str, Array] = {}
        self.values: dict[str, Array] = {}
        self.used: Counter[str] = Counter()
        self.read: set[str] = set()

    def input(self, shape: list[int]) -> str:
        name = f"in{len(self.inputs)}"
        self.inputs[name] = self.values[name] = self.numbers.normal(size=shape)
        return name

    def weight(self, shape: list[int] | tuple[int, ...], scale: float = 0.7) -> str:
        return self.constant(self.numbers.normal(size=shape) * scale)

    def constant(self, array: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(array)
        return name

    def add(self, kind: str, inputs: list[str], outputs: int = 1, **attributes: Any) -> list[str]:
        """Add a node, and compute it."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        node = helper.make_node(kind, inputs, names, name=f"{kind}_{len(self.nodes)}", **attributes)
        arrays = [self.values.get(name, self.weights.get(name)) if name else None for name in inputs]
        try:
            results = run_node(node, arrays, OPSET)
        except (ValueError, NotImplementedError):  # the reference's own limits
            raise Refused from None
        if any(
            not np.isfinite(r).all() or np.abs(r).max(initial=0) > 1e4 or r.size > 4000 or 0 in r.shape for r in results
        ):
            raise Refused
        self.nodes.append(node)
        self.used[kind] += 1
        self.read.update(inputs)
        self.values.update(zip(names, (np.asarray(r) for r in results), strict=True))
        return names

    def pick(self, fits: Callable[[Array], bool] = lambda a: True) -> str:
        """A value of the graph, one of the newest more often."""
        found = [name for name, array in self.values.items() if fits(array) and array.dtype == np.float64]
        if not found:
            raise Refused
        return found[-1] if self.dice.random() < 0.6 else self.dice.choice(found)

    def shape(self, name: str) -> list[int]:
        return list(self.values[name].shape)

    def model(self) -> onnx.ModelProto:
        outputs = [name for name in self.values if name not in self.read and name not in self.inputs][:4]
        infos = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(self.values[name].dtype), self.values[name].shape
            )
            for name in outputs
        ]
        graph = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_tensor_value_info(n, TensorProto.DOUBLE, a.shape) for n, a in self.inputs.items()],
            infos,
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


class Refused(Exception):
    """What was drawn is no good; nothing was added."""


def image(array: Array) -> bool:
    return array.ndim == 4 and array.size <= 600


def conv(d: Draw) -> None:
    n = d.dice.choice([1, 2, 2, 2, 3])
    x = d.pick(lambda a: a.ndim == n + 2 and a.size <= 600)
    shape = d.shape(x)
    groups = d.dice.choice([g for g in range(1, shape[1] + 1) if shape[1] % g == 0])
    kernel = [d.dice.choice([1, 1, 2, 3]) for _ in range(n)]
    more: dict[str, Any] = {"group": groups, "strides": [d.dice.choice([1, 1, 2]) for _ in range(n)]}
    if d.dice.random() < 0.3:
        more["auto_pad"] = d.dice.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
        more["kernel_shape"] = kernel
    else:
        more["pads"] = [d.dice.randrange(k) for k in kernel * 2]
        more["dilations"] = [d.dice.choice([1, 1, 2]) for _ in range(n)]
    for k, s, dil in zip(kernel, shape[2:], more.get("dilations", [1] * n), strict=True):
        if (k - 1) * dil + 1 > s:
            raise Refused
    out = groups * d.dice.choice([1, 2, 3])
    inputs = [x, d.weight([out, shape[1] // groups, *kernel])]
    inputs += [d.weight([out])] if d.dice.random() < 0.5 else []
    d.add("Conv", inputs, **more)


def conv_transpose(d: Draw) -> None:
    x = d.pick(image)
    shape = d.shape(x)
    groups = d.dice.choice([g for g in range(1, shape[1] + 1) if shape[1] % g == 0])
    if d.dice.random() < 0.5:
        strides, kernel, pads = [2, 2], [2, 2], [0] * 4
    else:
        strides, kernel = [1, d.dice.choice([1, 1, 2])], [d.dice.choice([1, 2, 3]) for _ in range(2)]
        pads = [d.dice.randrange(k) for k in kernel * 2]
    d.add(
        "ConvTranspose",
        [x, d.weight([shape[1], d.dice.choice([1, 2]), *kernel])],
        group=groups,
        strides=strides,
        pads=pads,
    )


def matmul(d: Draw) -> None:
    x = d.pick(lambda a: a.ndim >= 1 and a.size <= 600)
    shape = d.shape(x)
    width = d.dice.choice([1, 2, 4, 6])
    if len(shape) >= 2 and d.dice.random() < 0.2:
        d.add("MatMul", [d.weight([width, shape[-2]]), x])
    elif d.dice.random() < 0.15:
        d.add("MatMul", [x, d.weight([shape[-1]])])
    else:
        d.add("MatMul", [x, d.weight([shape[-1], width])])


def matmul_of_two(d: Draw) -> None:
    x = d.pick(lambda a: a.ndim >= 2 and a.size <= 300)
    shape = d.shape(x)
    y = d.pick(lambda a: a.ndim == len(shape) and list(a.shape[:-2]) == shape[:-2] and a.size <= 300)
    other = d.shape(y)
    if shape[-1] == other[-2]:
        d.add("MatMul", [x, y])
    elif shape[-1] == other[-1]:
        order = [*range(len(other) - 2), len(other) - 1, len(other) - 2]
        (turned,) = d.add("Transpose", [y], perm=order)
        d.add("MatMul", [x, turned])
    else:
        raise Refused


def gemm(d: Draw) -> None:
    x = d.pick(lambda a: a.ndim == 2 and a.size <= 600)
    m, k = d.shape(x)
    n, ta, tb = d.dice.choice([1, 3, 4]), d.dice.random() < 0.3, d.dice.random() < 0.5
    m, k = (k, m) if ta else (m, k)
    bias = d.dice.choice([None, [n], [1, n], [m, n], []])
    inputs = [x, d.weight([n, k] if tb else [k, n])] + ([d.weight(bias)] if bias is not None else [])
    d.add(
        "Gemm", inputs, transA=int(ta), transB=int(tb), alpha=d.dice.choice([1.0, 0.5]), beta=d.dice.choice([1.0, 2.0])
    )


def einsum(d: Draw) -> None:
    x = d.pick(lambda a: a.ndim == 3 and a.size <= 200)
    a, b, c = d.shape(x)
    kind = d.dice.choice(
        ["abc,cd->abd", "abc,cd->adb", "abc->ab", "abc->cab", "abc,ac->ab", "...c,cd->...d", "abc,b,cd->ad"]
    )
    rest = {"abc,cd": [[c, 3]], "abc": [], "abc,ac": [[a, c]], "...c,cd": [[c, 2]], "abc,b,cd": [[b], [c, 2]]}[
        kind.split("->")[0]
    ]
    d.add("Einsum", [x, *(d.weight(shape) for shape in rest)], equation=kind)


def attention(d: Draw) -> None:
    x = d.pick(lambda a: a.ndim == 3 and a.size <= 200)
    _, m, width = d.shape(x)
    groups, each, size = d.dice.choice([1, 2]), d.dice.choice([1, 2]), 2
    heads = groups * each
    q, k, v = (d.add("MatMul", [x, d.weight([width, n * size])])[0] for n in (heads, groups, groups))
    more: dict[str, Any] = {"q_num_heads": heads, "kv_num_heads": groups, "is_causal": int(d.dice.random() < 0.3)}
    mask = [d.constant(np.where(d.numbers.random((m, m)) < 0.3, -2.0, 0.0))] if d.dice.random() < 0.3 else []
    d.add("Attention", [q, k, v, *mask], **more)


def softmax(d: Draw) -> None:
    x = d.pick(lambda a: a.ndim >= 1 and np.abs(a).max() < 50)
    d.add(
        d.dice.choice(["Softmax", "Softmax", "LogSoftmax"]),
        [x],
        axis=d.dice.randrange(-len(d.shape(x)), len(d.shape(x))),
    )


def norm(d: Draw) -> None:
    x = d.pick(lambda a: a.ndim >= 2 and a.size > 3)
    shape = d.shape(x)
    kind = d.dice.choice(
        [
            "LayerNormalization",
            "RMSNormalization",
            "InstanceNormalization",
            "GroupNormalization",
            "BatchNormalization",
            "LRN",
        ]
    )
    if kind in ("LayerNormalization", "RMSNormalization"):
        axis = d.dice.randrange(1, len(shape))
        more = [d.weight(shape[axis:])] if kind[0] == "L" and d.dice.random() < 0.7 else []
        d.add(kind, [x, d.weight(shape[axis:]), *more], axis=axis, epsilon=0.1)
        return
    channel = [d.weight([shape[1]]) for _ in range(2)]
    if kind == "BatchNormalization":
        d.add(kind, [x, *channel, d.weight([shape[1]]), d.constant(d.numbers.random(shape[1]) + 0.5)])
        return
    if len(shape) < 3 or (kind == "LRN" and (len(shape) != 4 or shape[0] != shape[1])):
        raise Refused  # the reference goes over the batch where it should go over the channels
    if kind == "LRN":
        d.add(kind, [x], size=d.dice.choice([1, 2, 3, 5]), alpha=0.3)
    elif kind == "InstanceNormalization":
        d.add(kind, [x, *channel], epsilon=0.1)
    else:
        groups = d.dice.choice([g for g in range(1, shape[1] + 1) if shape[1] % g == 0])
        d.add(kind, [x, *channel], num_groups=groups, epsilon=0.1)


def pool(d: Draw) -> None:
    x = d.pick(lambda a: a.ndim in (3, 4) and a.size <= 1000)
    shape = d.shape(x)
    n = len(shape) - 2
    if d.dice.random() < 0.2 and n == 2:
        d.add(d.dice.choice(["GlobalAveragePool", "GlobalMaxPool"]), [x])
        return
    kernel = [d.dice.choice([1, 2, 3]) for _ in range(n)]
    if any(k > s for k, s in zip(kernel, shape[2:], strict=True)):
        raise Refused
    kind = d.dice.choice(["MaxPool", "AveragePool"])
    more: dict[str, Any] = {
        "strides": [d.dice.choice([1, 2]) for _ in range(n)],
        "pads": [d.dice.randrange((k + 1) // 2 + (k > 2)) // 2 for k in kernel * 2],
    }
    if kind == "AveragePool":
        more["count_include_pad"] = d.dice.choice([0, 1])
    more["pads"] = [min(more["pads"])] * 2 * n  # the reference reads other pads in another order
    d.add(kind, [x], kernel_shape=kernel, **more)


def reduce(d: Draw) -> None:
    x = d.pick(lambda a: a.ndim >= 1)
    rank = len(d.shape(x))
    if d.dice.random() < 0.15:
        d.add(d.dice.choice(["ArgMax", "ArgMin"]), [x], axis=d.dice.randrange(rank), keepdims=d.dice.choice([0, 1]))
        return
    axes = d.dice.sample(range(rank), d.dice.randrange(1, rank + 1))
    d.add(d.dice.choice(REDUCE), [x, d.constant(np.array(axes))], keepdims=d.dice.choice([0, 1]))


def unary(d: Draw) -> None:
    kind = d.dice.choice(UNARY)
    d.add(kind, [d.pick()])


def small_functions(d: Draw) -> None:
    """Functions of one tensor that exporters write out."""
    x = d.pick(lambda a: np.abs(a).max(initial=0) < 20)
    kind = d.dice.choice(["silu", "gelu", "clip", "prelu", "cast", "quantize", "scale"])
    if kind == "silu":
        (s,) = d.add("Sigmoid", [x])
        d.add("Mul", [x, s])
    elif kind == "gelu":
        (a,) = d.add("Div", [x, d.constant(np.array(2**0.5))])
        (b,) = d.add("Erf", [a])
        (c,) = d.add("Add", [b, d.constant(np.array(1.0))])
        (e,) = d.add("Mul", [x, c])
        d.add("Mul", [e, d.constant(np.array(0.5))])
    elif kind == "clip":
        low = d.constant(np.array(-0.5)) if d.dice.random() < 0.7 else ""
        d.add("Clip", [x, low, d.constant(np.array(0.6))])
    elif kind == "prelu":
        d.add("PRelu", [x, d.weight(d.shape(x)[-1:])])
    elif kind == "cast":
        (a,) = d.add("Cast", [x], to=TensorProto.FLOAT)
        d.add("Cast", [a], to=TensorProto.DOUBLE)
    elif kind == "quantize":
        (a,) = d.add("QuantizeLinear", [x, d.constant(np.array(0.05)), d.constant(np.array(3, np.int8))])
        d.add("DequantizeLinear", [a, d.constant(np.array(0.05)), d.constant(np.array(3, np.int8))])
    else:
        d.add(d.dice.choice(["Mul", "Add", "Sub", "Div"]), [x, d.constant(np.array([1.7]))])


def binary(d: Draw) -> None:
    x = d.pick()
    shape = d.shape(x)
    kind = d.dice.choice(["Add", "Sub", "Mul", "Max", "Min", "Sum", "Where", "Less"])
    if d.dice.random() < 0.5:
        y = d.pick(lambda a: list(a.shape) == shape or (a.ndim <= len(shape) and _fits(shape, list(a.shape))))
    else:
        keep = [d.dice.random() < 0.5 for _ in shape]
        y = d.weight(
            [size if k else 1 for size, k in zip(shape, keep, strict=True)][
                d.dice.randrange(len(shape) + 1) if shape else 0 :
            ]
        )
    if kind == "Where":
        if d.dice.random() < 0.5:
            (condition,) = d.add("Less", [x, y])
        else:
            condition = d.constant(d.numbers.random(shape[-2:]) < 0.5)
        d.add("Where", [condition, x, y])
    elif kind == "Less":
        (a,) = d.add("Less", [x, y])
        d.add("Cast", [a], to=TensorProto.DOUBLE)
    else:
        d.add(kind, [x, y] if d.dice.random() < 0.8 else [y, x])


def _fits(shape: list[int], other: list[int]) -> bool:
    return all(a in (1, b) for a, b in zip(other[::-1], shape[::-1], strict=False))


def reshape(d: Draw) -> None:
    x = d.pick(lambda a: a.size > 1)
    size = int(np.prod(d.shape(x)))
    sizes: list[int] = []
    while size > 1 and len(sizes) < 4:
        sizes.append(d.dice.choice([n for n in range(1, size + 1) if size % n == 0]))
        size //= sizes[-1]
    sizes.append(size)
    d.dice.shuffle(sizes)
    d.add("Reshape", [x, d.constant(np.array(sizes))])


def heads(d: Draw) -> None:
    """Split the last axis, turn it to the front, and back."""
    x = d.pick(lambda a: a.ndim == 3 and a.shape[2] % 2 == 0)
    b, m, w = d.shape(x)
    (y,) = d.add("Reshape", [x, d.constant(np.array([b, m, 2, w // 2]))])
    d.add("Transpose", [y], perm=[0, 2, 1, 3])


def transpose(d: Draw) -> None:
    x = d.pick(lambda a: a.ndim >= 2)
    order = list(range(len(d.shape(x))))
    d.dice.shuffle(order)
    d.add("Transpose", [x], perm=order)


def sizes_of_one(d: Draw) -> None:
    x = d.pick()
    shape = d.shape(x)
    ones = [i for i, size in enumerate(shape) if size == 1]
    kind = d.dice.choice(["Squeeze", "Unsqueeze", "Flatten"])
    if kind == "Squeeze" and ones:
        d.add("Squeeze", [x, d.constant(np.array([d.dice.choice(ones)]))])
    elif kind == "Unsqueeze" and len(shape) < 4:
        d.add("Unsqueeze", [x, d.constant(np.array([d.dice.randrange(len(shape) + 1)]))])
    elif kind == "Flatten" and shape:
        d.add("Flatten", [x], axis=d.dice.randrange(len(shape) + 1))
    else:
        raise Refused


def expand(d: Draw) -> None:
    x = d.pick(lambda a: 1 <= a.ndim <= 4 and a.size <= 300)
    shape = d.shape(x)
    if d.dice.random() < 0.4:
        d.add("Tile", [x, d.constant(np.array([d.dice.choice([1, 1, 2]) for _ in shape]))])
        return
    wanted = [d.dice.choice([1, 2, 3]) if size == 1 else size for size in shape]
    d.add("Expand", [x, d.constant(np.array(([2] if len(shape) < 4 and d.dice.random() < 0.3 else []) + wanted))])


def blocks(d: Draw) -> None:
    x = d.pick(image)
    shape = d.shape(x)
    if shape[1] % 4 == 0:
        d.add("DepthToSpace", [x], blocksize=2, mode=d.dice.choice(["DCR", "CRD"]))
    elif shape[2] % 2 == shape[3] % 2 == 0:
        d.add("SpaceToDepth", [x], blocksize=2)
    else:
        raise Refused


def parts(d: Draw) -> None:
    x = d.pick(lambda a: a.ndim >= 1 and max(a.shape) > 1)
    shape = d.shape(x)
    axis = d.dice.choice([i for i, size in enumerate(shape) if size > 1])
    kind = d.dice.choice(["Split", "Slice", "Slice", "Gather"])
    if kind == "Split":
        if shape[axis] % 2 == 0 and d.dice.random() < 0.7:
            d.add("Split", [x], 2, axis=axis, num_outputs=2)
        else:
            first = d.dice.randrange(1, shape[axis])
            d.add("Split", [x, d.constant(np.array([first, shape[axis] - first]))], 2, axis=axis)
    elif kind == "Slice":
        step = d.dice.choice([1, 1, 1, 2, -1])
        start = d.dice.randrange(shape[axis])
        end = d.dice.randrange(start + 1, shape[axis] + 1) if step > 0 else -10_000
        d.add("Slice", [x, *(d.constant(np.array([n])) for n in (start, end, axis, step))])
    else:
        index = d.dice.choice(
            [np.array(d.dice.randrange(shape[axis])), np.array([0, shape[axis] - 1]), np.arange(shape[axis])[::-1]]
        )
        d.add("Gather", [x, d.constant(index)], axis=axis)


def concat(d: Draw) -> None:
    x = d.pick(lambda a: a.ndim >= 1 and a.size <= 300)
    shape = d.shape(x)
    axis = d.dice.randrange(len(shape))
    y = (
        x
        if d.dice.random() < 0.3
        else d.pick(lambda a: a.ndim == len(shape) and all(i == axis or a.shape[i] == s for i, s in enumerate(shape)))
    )
    more = [d.weight(shape)] if d.dice.random() < 0.15 else []
    d.add("Concat", [x, y, *more], axis=axis)


def pad(d: Draw) -> None:
    x = d.pick(lambda a: a.ndim >= 1 and a.size <= 300)
    rank = len(d.shape(x))
    pads = [d.dice.choice([0, 0, 1, 2]) for _ in range(2 * rank)]
    mode = d.dice.choice(["constant", "constant", "constant", "edge"])
    value = [d.constant(np.array(d.dice.choice([0.0, 1.5])))] if mode == "constant" else []
    (y,) = d.add("Pad", [x, d.constant(np.array(pads)), *value], mode=mode)
    if rank == 4 and d.dice.random() < 0.6:
        c = d.shape(y)[1]
        d.add("Conv", [y, d.weight([2, c, 2, 2])])


def resize(d: Draw) -> None:
    x = d.pick(lambda a: image(a) and a.size <= 150)
    times = [1.0, 1.0, d.dice.choice([1.0, 2.0]), d.dice.choice([1.0, 2.0, 3.0])]
    more = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"} if d.dice.random() < 0.7 else {}
    mode = "linear" if d.dice.random() < 0.15 else "nearest"
    d.add("Resize", [x, "", d.constant(np.array(times, np.float32))], mode=mode, **({} if mode == "linear" else more))


def rotary(d: Draw) -> None:
    x = d.pick(lambda a: a.ndim == 4 and a.shape[3] % 2 == 0 and a.size <= 400)
    b, _, m, e = d.shape(x)
    turned = d.dice.random() < 0.5
    if turned:
        angle = d.numbers.random((b, m, e // 2))
        d.add(
            "RotaryEmbedding",
            [x, d.constant(np.cos(angle)), d.constant(np.sin(angle))],
            interleaved=d.dice.choice([0, 1]),
        )
        return
    angle = np.tile(d.numbers.random((1, 1, m, e // 2)), 2)
    end = d.constant(np.array([10_000]))
    half, zero, axis = d.constant(np.array([e // 2])), d.constant(np.array([0])), d.constant(np.array([3]))
    (first,) = d.add("Slice", [x, zero, half, axis])
    (second,) = d.add("Slice", [x, half, end, axis])
    (minus,) = d.add("Neg", [second])
    (other,) = d.add("Concat", [minus, first], axis=-1)
    (a,) = d.add("Mul", [x, d.constant(np.cos(angle))])
    (c,) = d.add("Mul", [other, d.constant(np.sin(angle))])
    d.add("Add", [a, c])


def quantized(d: Draw) -> None:
    x = d.pick(lambda a: a.ndim in (2, 4) and a.size <= 400 and np.abs(a).max() < 10)
    shape = d.shape(x)
    scale, zero = d.constant(np.array(0.1, np.float32)), d.constant(np.array(7, np.uint8))
    (xf,) = d.add("Cast", [x], to=TensorProto.FLOAT)
    (q,) = d.add("QuantizeLinear", [xf, scale, zero])
    small = d.numbers.integers
    if len(shape) == 2:
        w = d.constant(small(-20, 20, (shape[1], 3)).astype(np.int8))
        if d.dice.random() < 0.5:
            (y,) = d.add("MatMulInteger", [q, w, zero, d.constant(np.array(2, np.int8))])
            d.add("Cast", [y], to=TensorProto.DOUBLE)
        else:
            w = d.constant(small(0, 30, (shape[1], 3)).astype(np.uint8))
            ws, ys = d.constant(np.array(0.05, np.float32)), d.constant(np.array(0.4, np.float32))
            (y,) = d.add("QLinearMatMul", [q, scale, zero, w, ws, zero, ys, zero])
            d.add("Cast", [y], to=TensorProto.DOUBLE)
        return
    w = d.constant(small(0, 30, (2, shape[1], 2, 2)).astype(np.uint8))
    (y,) = d.add("ConvInteger", [q, w, zero], pads=[0, 1, 1, 0])
    d.add("Cast", [y], to=TensorProto.DOUBLE)


def unknown(d: Draw) -> None:
    """Operators that are cut."""
    x = d.pick(lambda a: a.ndim >= 1 and a.shape[-1] > 1)
    if d.dice.random() < 0.5:
        d.add("CumSum", [x, d.constant(np.array(d.dice.randrange(len(d.shape(x)))))])
    else:
        d.add("TopK", [x, d.constant(np.array([1]))], 2)


DRAWS = [conv, conv, conv_transpose, matmul, matmul, matmul_of_two, gemm, einsum, attention, softmax, norm, norm, pool, reduce, unary,
         small_functions, small_functions, binary, binary, reshape, reshape, heads, transpose, sizes_of_one, expand, blocks, parts,
         parts, concat, pad, resize, rotary, quantized, unknown]  # fmt: skip


def random_graph(seed: int) -> Draw:
    """Some nodes on one or two inputs."""
    d = Draw(seed)
    for _ in range(d.dice.choice([1, 1, 2])):
        rank = d.dice.choice([2, 3, 3, 4, 4, 4, 5])
        d.input(
            [
                d.dice.choice([1, 2]),
                *(d.dice.choice([1, 2, 3, 4, 4, 6, 8] if rank < 5 else [1, 2, 3]) for _ in range(rank - 1)),
            ]
        )
    wanted, tries = d.dice.randrange(2, 8), 0
    while len(d.nodes) < wanted and tries < 60:
        tries += 1
        before = len(d.nodes), set(d.read), dict(d.values), Counter(d.used)
        try:
            d.dice.choice(DRAWS)(d)
        except (Refused, IndexError):
            count, d.read, d.values, d.used = before
            del d.nodes[count:]
    return d
