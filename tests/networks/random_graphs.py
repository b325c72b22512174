"""Random small ONNX graphs, drawn from the table of operators that an import knows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from onnx import TensorProto

from tests.networks.drawn_graph import Draw, Refused, image
from tests.networks.drawn_moves import (
    blocks,
    concat,
    expand,
    heads,
    pad,
    parts,
    reshape,
    resize,
    rotary,
    sizes_of_one,
    transpose,
)

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
        more["pads"] = [d.dice.randrange(k + 1) for k in kernel * 2]
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
