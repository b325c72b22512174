"""Shapes of operators' outputs, and attributes as the lowering wants them: resolved, whatever the version of the operator.

Each function takes an `Operator` and gives the shapes of its outputs. Nothing is computed but sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusiest.base.errors import SpecError, shown
from fusiest.networks.graph.graph import GraphValue, entered_in

ShapeOf = tuple[int, ...]
MAX_ELEMENTS = 2**60


class UnknownShape(Exception):
    """A shape that depends on data, or on an operator that nobody knows."""


@dataclass(slots=True)
class Operator:
    """A node of a file on its way into the graph."""

    kind: str
    inputs: list[GraphValue | None]
    attributes: dict[str, Any]
    outputs: int
    version: int
    """Version of the operator set."""

    def shape(self, position: int = 0) -> ShapeOf:
        value = self.inputs[position] if position < len(self.inputs) else None
        if value is None:
            raise SpecError(f"input {position + 1} is missing")
        return value.shape

    def data(self, position: int) -> np.ndarray[Any, Any] | None:
        """The values of a constant input; None where it is left out."""
        value = self.inputs[position] if position < len(self.inputs) else None
        if value is None:
            return None
        if value.data is None:
            raise UnknownShape(f"{'the values' if value.constant else 'it depends on the values'} of {value.name}")
        return value.data

    def numbers(self, name: str, position: int) -> list[int] | None:
        """Whole numbers that are an attribute in some versions and an input in others."""
        if name in self.attributes:
            return [int(number) for number in np.atleast_1d(self.attributes[name])]
        data = self.data(position)
        return None if data is None else [int(number) for number in data.reshape(-1)]

    def listed(self, name: str, default: int, count: int) -> list[int]:
        """Whole numbers that are an attribute; so many of the default if it is left out."""
        return [int(number) for number in self.attributes.get(name) or [default] * count]

    def axis(self, default: int, rank: int) -> int:
        axis = int(self.attributes.get("axis", default))
        if not -rank <= axis < max(rank, 1):
            raise SpecError(f"axis {axis} of {rank} axes")
        self.attributes["axis"] = axis % rank if rank else 0
        return axis % rank if rank else 0


def checked(shape: Sequence[int], least: int = 1) -> ShapeOf:
    """A shape that makes sense: of parts of a tensor, nothing may be left (at least 0)."""
    if any(size < least for size in shape):
        raise SpecError(f"the shape {shape_text(shape)} is empty")
    if math.prod(shape) > MAX_ELEMENTS:
        raise SpecError(f"the shape {shape_text(shape)} is too large")
    return tuple(int(size) for size in shape)


def shape_text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "1"


def broadcast(*shapes: ShapeOf) -> ShapeOf:
    """Broadcast shapes as NumPy does."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise SpecError(f"the shapes {' and '.join(map(shape_text, shapes))} do not fit together") from None


Inference = Callable[[Operator], list[ShapeOf]]
INFER: dict[str, Inference] = {}
infers = entered_in(INFER)


@infers("RMSNormalization", "InstanceNormalization", "GroupNormalization", "LRN", "Clip", "Dropout", "Identity", "Trilu", "CumSum",
        "Hardmax", "MeanVarianceNormalization", "LpNormalization", "ScatterElements", "ScatterND", "Scatter", "TensorScatter",
        "ReverseSequence", "QuantizeLinear", "DequantizeLinear", "RotaryEmbedding")  # fmt: skip
def _same(op: Operator) -> list[ShapeOf]:
    """All outputs are like the first input."""
    return [op.shape()] * op.outputs


@infers("BatchNormalization")
def _batch_norm(op: Operator) -> list[ShapeOf]:
    shape, channels = op.shape(), op.shape(1)
    if len(shape) < 2 or any(op.shape(i) != (shape[1],) for i in range(1, 5)):
        raise SpecError(f"parameters of {shown(channels)} for {shown(shape)}")
    return [shape, *[channels] * 4][: op.outputs]


def together(op: Operator) -> list[ShapeOf]:
    return [broadcast(*(value.shape for value in op.inputs if value is not None))]


@infers("Attention")
def _attention(op: Operator) -> list[ShapeOf]:
    q, k, v = (op.shape(i) for i in range(3))
    if len(q) == 3:
        heads, groups = (int(op.attributes.get(name, 0)) for name in ("q_num_heads", "kv_num_heads"))
        if not heads or not groups or q[2] % heads or k[2] % groups or v[2] % groups:
            raise SpecError("attention needs q_num_heads and kv_num_heads that divide the widths")
        q, k, v = ((s[0], n, s[1], s[2] // n) for s, n in ((q, heads), (k, groups), (v, groups)))
    if not len(q) == len(k) == len(v) == 4 or q[1] % k[1] or k[1] != v[1] or q[3] != k[3]:
        raise SpecError(f"the shapes {shape_text(q)}, {shape_text(k)} and {shape_text(v)} are no attention's")
    past = op.shape(4)[2] if len(op.inputs) > 4 and op.inputs[4] is not None else 0
    keys = k[2] + past
    result: ShapeOf = (q[0], q[1], q[2], v[3]) if len(op.shape()) == 4 else (q[0], q[2], q[1] * v[3])
    shapes: list[ShapeOf] = [result, (k[0], k[1], keys, k[3]), (v[0], v[1], keys, v[3]), (q[0], q[1], q[2], keys)]
    return shapes[: op.outputs]


# --- windows --------------------------------------------------------------------------------------------------------


def _window(op: Operator, kernel: Sequence[int], image: Sequence[int]) -> ShapeOf:
    """Sizes after a window; `pads`, `strides` and `dilations` are resolved on the way."""
    n = len(kernel)
    strides, dilations, pads = op.listed("strides", 1, n), op.listed("dilations", 1, n), op.listed("pads", 0, 2 * n)
    if (
        not len(image) == n == len(strides) == len(dilations) == len(pads) // 2
        or min([1, *strides, *dilations, *kernel]) < 1
    ):
        raise SpecError(f"a window of {shape_text(kernel)} over {shape_text(image)}")
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    auto = _word(op.attributes.get("auto_pad", "NOTSET"))
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        sizes = [-(-size // stride) for size, stride in zip(image, strides, strict=True)]
        total = [max((o - 1) * s + r - i, 0) for o, s, r, i in zip(sizes, strides, reach, image, strict=True)]
        half = [(t + (auto == "SAME_LOWER")) // 2 for t in total]
        pads = half + [t - h for t, h in zip(total, half, strict=True)]
    elif auto == "VALID":
        pads = [0] * 2 * n
    room = [i + pads[j] + pads[n + j] - reach[j] for j, i in enumerate(image)]
    ceil = bool(op.attributes.get("ceil_mode", 0))
    sizes = [(-(-free // s) if ceil else free // s) + 1 for free, s in zip(room, strides, strict=True)]
    if ceil:  # no window begins in the padding at the end
        sizes = [
            o - ((o - 1) * s >= i + pads[j]) for j, (o, s, i) in enumerate(zip(sizes, strides, image, strict=True))
        ]
    op.attributes |= {"strides": strides, "dilations": dilations, "pads": pads, "kernel_shape": list(kernel)}
    return checked(sizes)


@infers("Conv", "ConvInteger", "QLinearConv")
def _convolution(op: Operator) -> list[ShapeOf]:
    x, w = op.shape(), op.shape(3 if op.kind == "QLinearConv" else 1)
    groups = int(op.attributes.get("group", 1))
    if len(x) < 3 or len(x) != len(w) or groups < 1 or x[1] != w[1] * groups or w[0] % groups:
        raise SpecError(f"a convolution of {shape_text(x)} with {shape_text(w)} in {groups} groups")
    return [(x[0], w[0], *_window(op, w[2:], x[2:]))]


@infers("ConvTranspose")
def _transposed(op: Operator) -> list[ShapeOf]:
    x, w = op.shape(), op.shape(1)
    n, groups = len(x) - 2, int(op.attributes.get("group", 1))
    if n < 1 or len(x) != len(w) or groups < 1 or x[1] != w[0] or x[1] % groups:
        raise SpecError(f"a transposed convolution of {shape_text(x)} with {shape_text(w)}")
    strides, dilations, pads = op.listed("strides", 1, n), op.listed("dilations", 1, n), op.listed("pads", 0, 2 * n)
    output_padding = op.listed("output_padding", 0, n)
    full = [
        s * (i - 1) + m + d * (k - 1) + 1
        for s, i, m, d, k in zip(strides, x[2:], output_padding, dilations, w[2:], strict=True)
    ]
    auto = _word(op.attributes.get("auto_pad", "NOTSET"))
    output_shape = op.attributes.get("output_shape")
    if output_shape is not None or auto.startswith("SAME"):
        sizes = (
            [int(s) for s in output_shape][-n:]
            if output_shape is not None
            else [i * s for i, s in zip(x[2:], strides, strict=True)]
        )
        total = [f - s for f, s in zip(full, sizes, strict=True)]
        half = [t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in total]
        pads = half + [t - h for t, h in zip(total, half, strict=True)]
    sizes = [f - pads[i] - pads[n + i] for i, f in enumerate(full)]
    op.attributes |= {"strides": strides, "dilations": dilations, "pads": pads, "kernel_shape": list(w[2:])}
    return [(x[0], w[1] * groups, *checked(sizes))]


@infers("MaxPool", "AveragePool", "LpPool")
def _pool(op: Operator) -> list[ShapeOf]:
    x, kernel = op.shape(), op.listed("kernel_shape", 0, 0)
    if len(x) < 3 or len(kernel) != len(x) - 2:
        raise SpecError(f"a window of {shape_text(kernel)} over {shape_text(x)}")
    return [(*x[:2], *_window(op, kernel, x[2:]))] * op.outputs


@infers("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(op: Operator) -> list[ShapeOf]:
    x = op.shape()
    return [(*x[:2], *[1] * (len(x) - 2))]


def _word(value: object) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)


# --- products -------------------------------------------------------------------------------------------------------


@infers("MatMul", "MatMulInteger", "QLinearMatMul")
def _product(op: Operator) -> list[ShapeOf]:
    a, b = op.shape(), op.shape(3 if op.kind == "QLinearMatMul" else 1)
    if not a or not b or a[-1] != b[-2 if len(b) > 1 else -1]:
        raise SpecError(f"a product of {shape_text(a)} and {shape_text(b)}")
    return [broadcast(a[:-2], b[:-2]) + a[-2:-1] + (b[-1:] if len(b) > 1 else ())]


@infers("Gemm")
def _gemm(op: Operator) -> list[ShapeOf]:
    a, b = op.shape(), op.shape(1)
    if not len(a) == len(b) == 2:
        raise SpecError(f"a product of {shape_text(a)} and {shape_text(b)}")
    a, b = (a[::-1] if op.attributes.get("transA") else a), (b[::-1] if op.attributes.get("transB") else b)
    if a[1] != b[0]:
        raise SpecError(f"a product of {shape_text(a)} and {shape_text(b)}")
    return [(a[0], b[1])]


@infers("Einsum")
def _einsum(op: Operator) -> list[ShapeOf]:
    from fusiest.networks.lowering.contractions import equation
    from fusiest.networks.lowering.making import Unfit

    op.attributes["equation"] = _word(op.attributes.get("equation", ""))
    shapes = [op.shape(i) for i in range(len(op.inputs))]
    try:
        terms, output = equation(op.attributes["equation"], [len(shape) for shape in shapes])
    except Unfit as error:
        raise SpecError(str(error)) from None
    sizes: dict[str, int] = {}
    for shape, term in zip(shapes, terms, strict=True):
        for size, label in zip(shape, term, strict=True):
            if sizes.setdefault(label, size) != size:
                if 1 not in (size, sizes[label]):
                    raise SpecError(f"index {label} of an Einsum has sizes {sizes[label]} and {size}")
                sizes[label] = max(size, sizes[label])
    if not set(output) <= set(sizes):
        raise SpecError("an Einsum's output has an index that no input has")
    return [tuple(sizes[label] for label in output)]


@infers("Reshape")
def _reshape(op: Operator) -> list[ShapeOf]:
    shape, target = op.shape(), op.numbers("shape", 1)
    if target is None:
        raise SpecError("a reshape has no shape")
    sizes = [
        shape[i] if size == 0 and not op.attributes.get("allowzero") and i < len(shape) else size
        for i, size in enumerate(target)
    ]
    total = math.prod(shape)
    if sizes.count(-1) == 1:
        known_size = -math.prod(sizes)
        if known_size <= 0 or total % known_size:
            raise SpecError(f"{shape_text(shape)} cannot be reshaped to {shape_text(sizes)}")
        sizes[sizes.index(-1)] = total // known_size
    if math.prod(sizes) != total:
        raise SpecError(f"{shape_text(shape)} cannot be reshaped to {shape_text(sizes)}")
    return [checked(sizes)]


@infers("Flatten")
def _flatten(op: Operator) -> list[ShapeOf]:
    shape = op.shape()
    axis = int(op.attributes.get("axis", 1))
    axis += len(shape) if axis < 0 else 0
    return [(math.prod(shape[:axis]), math.prod(shape[axis:]))]


@infers("Squeeze")
def _squeeze(op: Operator) -> list[ShapeOf]:
    shape, axes = op.shape(), op.numbers("axes", 1)
    squeezed = (
        {i for i, size in enumerate(shape) if size == 1} if axes is None else {_axis(a, len(shape)) for a in axes}
    )
    if any(shape[i] != 1 for i in squeezed):
        raise SpecError(f"{shape_text(shape)} cannot be squeezed")
    return [tuple(size for i, size in enumerate(shape) if i not in squeezed)]


@infers("Unsqueeze")
def _unsqueeze(op: Operator) -> list[ShapeOf]:
    axes = op.numbers("axes", 1)
    if axes is None:
        raise SpecError("axes are missing")
    rank = len(op.shape()) + len(axes)
    new = {_axis(a, rank) for a in axes}
    if len(new) < len(axes):
        raise SpecError("an axis is named twice")
    sizes = iter(op.shape())
    return [tuple(1 if i in new else next(sizes) for i in range(rank))]


@infers("Transpose")
def _transpose(op: Operator) -> list[ShapeOf]:
    shape = op.shape()
    order = [int(i) for i in op.attributes.get("perm") or range(len(shape))[::-1]]
    if sorted(order) != list(range(len(shape))):
        raise SpecError(f"perm {order} of {len(shape)} axes")
    op.attributes["perm"] = order
    return [tuple(shape[i] for i in order)]


@infers("Expand")
def _expand(op: Operator) -> list[ShapeOf]:
    target = op.numbers("shape", 1)
    return [checked(broadcast(op.shape(), tuple(target or ())))]


@infers("Tile")
def _tile(op: Operator) -> list[ShapeOf]:
    times = op.numbers("repeats", 1)
    if times is None or len(times) != len(op.shape()):
        raise SpecError("repeats do not fit the tensor")
    return [checked([size * count for size, count in zip(op.shape(), times, strict=True)])]


@infers("DepthToSpace", "SpaceToDepth")
def _blocks(op: Operator) -> list[ShapeOf]:
    shape, b = op.shape(), int(op.attributes.get("blocksize", 1))
    if len(shape) != 4 or b < 1:
        raise SpecError(f"blocks of {b} in {shape_text(shape)}")
    op.attributes["mode"] = _word(op.attributes.get("mode", "DCR"))
    n, c, h, w = shape
    if c % b**2 if op.kind == "DepthToSpace" else h % b or w % b:
        raise SpecError(f"blocks of {b} in {shape_text(shape)}")
    return [(n, c // b**2, h * b, w * b) if op.kind == "DepthToSpace" else (n, c * b**2, h // b, w // b)]


@infers("Slice")
def _slice(op: Operator) -> list[ShapeOf]:
    shape = op.shape()
    starts, ends, axes, steps = (op.numbers(name, i + 1) for i, name in enumerate(("starts", "ends", "axes", "steps")))
    if starts is None or ends is None:
        raise SpecError("a slice without bounds")
    axes = list(range(len(starts))) if axes is None else [_axis(a, len(shape)) for a in axes]
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise SpecError("a slice with too few bounds")
    first, step_of, sizes = [0] * len(shape), [1] * len(shape), list(shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step == 0:
            raise SpecError("a slice in steps of 0")
        indices = range(
            *slice(start, end if abs(end) < 2**62 else None if (end > 0) == (step > 0) else end, step).indices(
                shape[axis]
            )
        )
        first[axis], step_of[axis], sizes[axis] = indices.start, step, len(indices)
    op.attributes |= {"starts": first, "steps": step_of}
    return [checked(sizes, 0)]


@infers("Split")
def _split(op: Operator) -> list[ShapeOf]:
    shape = op.shape()
    axis = op.axis(0, len(shape))
    sizes = op.numbers("split", 1)
    if sizes is None:
        part_size = -(-shape[axis] // op.outputs)
        sizes = [min(part_size, shape[axis] - i * part_size) for i in range(op.outputs)]
    if sum(sizes) != shape[axis] or len(sizes) != op.outputs:
        raise SpecError(f"a split of {shape[axis]} into {shape_text(sizes)}")
    return [checked((*shape[:axis], size, *shape[axis + 1 :]), 0) for size in sizes]


@infers("Gather")
def _gather(op: Operator) -> list[ShapeOf]:
    shape, axis = op.shape(), op.axis(0, len(op.shape()))
    return [checked(shape[:axis] + op.shape(1) + shape[axis + 1 :])]


@infers("Concat")
def _concat(op: Operator) -> list[ShapeOf]:
    shapes = [value.shape for value in op.inputs if value is not None]
    if not shapes:
        raise SpecError("nothing is put together")
    axis = op.axis(0, len(shapes[0]))
    other_axes = {(len(s), s[:axis], s[axis + 1 :]) for s in shapes}
    if len(other_axes) > 1:
        raise SpecError(f"the shapes {' and '.join(map(shape_text, shapes))} do not fit together")
    return [checked((*shapes[0][:axis], sum(s[axis] for s in shapes), *shapes[0][axis + 1 :]), 0)]


@infers("Pad")
def _pad(op: Operator) -> list[ShapeOf]:
    shape = op.shape()
    rank = len(shape)
    pads = op.numbers("pads" if "pads" in op.attributes else "paddings", 1)
    axes = op.data(3)
    if axes is not None and pads is not None:
        named = [_axis(int(a), rank) for a in axes.reshape(-1)]
        all_pads = [0] * 2 * rank
        for i, axis in enumerate(named):
            all_pads[axis], all_pads[rank + axis] = pads[i], pads[len(named) + i]
        pads = all_pads
    if pads is None or len(pads) != 2 * rank:
        raise SpecError("pads do not fit the tensor")
    value = op.attributes.get("value", 0.0)
    if len(op.inputs) > 2 and op.inputs[2] is not None:
        data = op.inputs[2].data
        value = float(data.reshape(-1)[0]) if data is not None else None
    op.attributes |= {"pads": pads, "value": value, "mode": _word(op.attributes.get("mode", "constant"))}
    return [checked([size + pads[i] + pads[rank + i] for i, size in enumerate(shape)])]


_BLOCKS = {("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"), ("half_pixel", "round_prefer_ceil"),
           ("pytorch_half_pixel", "round_prefer_floor"), ("half_pixel_symmetric", "round_prefer_floor")}  # fmt: skip
"""Ways to find the nearest element that make a block of each, where the size is a multiple."""


@infers("Resize", "Upsample")
def _resize(op: Operator) -> list[ShapeOf]:
    """`times` is set where every element becomes a block of equal ones."""
    shape = op.shape()
    at = 2 if op.kind == "Resize" and op.version > 10 else 1
    scales, scales_input = op.attributes.get("scales"), op.inputs[at] if len(op.inputs) > at else None
    if scales is None and scales_input is not None and scales_input.size:
        scales = op.data(at)
    sizes = op.data(3) if op.kind == "Resize" and len(op.inputs) > 3 and op.inputs[3] is not None else None
    axes = [_axis(int(a), len(shape)) for a in op.attributes.get("axes") or range(len(shape))]
    new_shape = list(shape)
    if sizes is None and scales is None:
        raise UnknownShape("a resize without scales")
    for axis, number in zip(axes, np.asarray(sizes if sizes is not None else scales).reshape(-1), strict=False):
        new_shape[axis] = int(number) if sizes is not None else math.floor(shape[axis] * float(number) + 1e-6)
    mode = _word(op.attributes.get("mode", "nearest"))
    is_integral = all(new % old == 0 for new, old in zip(new_shape, shape, strict=True))
    transform = _word(op.attributes.get("coordinate_transformation_mode", "half_pixel"))
    nearest = _word(op.attributes.get("nearest_mode", "round_prefer_floor"))
    plain = op.kind == "Upsample" or op.version < 11
    floors = (transform, nearest) in _BLOCKS
    stretched = _word(op.attributes.get("keep_aspect_ratio_policy", "stretch")) == "stretch"
    op.attributes["mode"] = mode
    if mode == "nearest" and is_integral and (plain or floors) and stretched:
        op.attributes["times"] = [new // old for new, old in zip(new_shape, shape, strict=True)]
    return [checked(new_shape)]


@infers("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum",
        "ReduceLogSumExp")  # fmt: skip
def _reduce(op: Operator) -> list[ShapeOf]:
    shape, axes = op.shape(), op.numbers("axes", 1)
    if not axes:
        axes = [] if op.attributes.get("noop_with_empty_axes") else list(range(len(shape)))
    return [_reduced(op, [_axis(a, len(shape)) for a in axes])]


@infers("ArgMax", "ArgMin")
def _arg(op: Operator) -> list[ShapeOf]:
    return [_reduced(op, [op.axis(0, len(op.shape()))])]


def _reduced(op: Operator, axes: list[int]) -> ShapeOf:
    op.attributes["axes"] = axes
    keep = bool(op.attributes.get("keepdims", 1))
    return tuple(1 if i in axes else size for i, size in enumerate(op.shape()) if keep or i not in axes)


@infers("Softmax", "LogSoftmax")
def _softmax(op: Operator) -> list[ShapeOf]:
    """Before version 13, all axes from `axis` on count as one."""
    rank = len(op.shape())
    axis = op.axis(-1 if op.version >= 13 else 1, rank)
    op.attributes["axes"] = [axis] if op.version >= 13 else list(range(axis, rank))
    return [op.shape()]


@infers("LayerNormalization")
def _layer_norm(op: Operator) -> list[ShapeOf]:
    shape = op.shape()
    axis = op.axis(-1, len(shape))
    return [shape, *[shape[:axis] + (1,) * (len(shape) - axis)] * 2][: op.outputs]


@infers("TopK")
def _topk(op: Operator) -> list[ShapeOf]:
    shape = op.shape()
    k = op.numbers("k", 1)
    axis = op.axis(-1, len(shape))
    return [checked((*shape[:axis], (k or [0])[0], *shape[axis + 1 :]))] * op.outputs


@infers("Shape")
def _shape(op: Operator) -> list[ShapeOf]:
    return [(len(range(len(op.shape()))[op.attributes.get("start", 0) : op.attributes.get("end")]),)]


@infers("Size")
def _size(op: Operator) -> list[ShapeOf]:
    return [()]


@infers("ConstantOfShape")
def _filled(op: Operator) -> list[ShapeOf]:
    return [checked(op.numbers("shape", 0) or [], 0)]


@infers("Range")
def _range(op: Operator) -> list[ShapeOf]:
    start, limit, delta = (float(data.reshape(-1)[0]) for i in range(3) if (data := op.data(i)) is not None)
    if delta == 0 or not math.isfinite(start + limit + delta):
        raise SpecError("a range in steps of 0")
    return [checked([max(0, math.ceil((limit - start) / delta))])]


@infers("OneHot")
def _one_hot(op: Operator) -> list[ShapeOf]:
    depth = op.numbers("depth", 1)
    shape = op.shape()
    axis = int(op.attributes.get("axis", -1)) % (len(shape) + 1)
    return [checked((*shape[:axis], (depth or [0])[0], *shape[axis:]))]


@infers("GatherElements")
def _gather_elements(op: Operator) -> list[ShapeOf]:
    return [op.shape(1)]


@infers("GatherND")
def _gather_nd(op: Operator) -> list[ShapeOf]:
    shape, indices, b = op.shape(), op.shape(1), int(op.attributes.get("batch_dims", 0))
    return [checked(indices[:-1] + shape[b + indices[-1] :])]


@infers("DynamicQuantizeLinear")
def _dynamic(op: Operator) -> list[ShapeOf]:
    return [op.shape(), (), ()][: op.outputs]


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise SpecError(f"axis {axis} of {rank} axes")
    return axis % rank
