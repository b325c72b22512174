"""Calls of torch as operators with ONNX's names: first those that compute, then those that only move data or make constants."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from fusiest.networks.torch.torch_graph import ATEN, AtenCall, converts

_UNARY = {
    "relu": "Relu", "silu": "Swish", "sigmoid": "Sigmoid", "tanh": "Tanh", "exp": "Exp", "sqrt": "Sqrt", "erf": "Erf", "log": "Log",
    "abs": "Abs", "neg": "Neg", "sin": "Sin", "cos": "Cos", "hardswish": "HardSwish", "hardsigmoid": "HardSigmoid", "elu": "Elu",
    "leaky_relu": "LeakyRelu", "softplus": "Softplus", "mish": "Mish", "selu": "Selu", "celu": "Celu", "reciprocal": "Reciprocal",
    "floor": "Floor", "ceil": "Ceil", "round": "Round", "sign": "Sign", "logical_not": "Not", "bitwise_not": "BitwiseNot", "tan": "Tan",
    "sinh": "Sinh", "cosh": "Cosh", "asin": "Asin", "acos": "Acos", "atan": "Atan", "isnan": "IsNaN", "isinf": "IsInf",
    "log_sigmoid": "Softplus", "hardshrink": "Shrink", "softshrink": "Shrink", "log1p": "Log", "expm1": "Exp",
    "to": "Cast", "_to_copy": "Cast", "type_as": "Cast", "float": "Cast",
}  # fmt: skip
_BINARY = {
    "mul": "Mul", "maximum": "Max", "minimum": "Min", "eq": "Equal", "ne": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater",
    "ge": "GreaterOrEqual", "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "bitwise_and": "BitwiseAnd",
    "bitwise_or": "BitwiseOr", "remainder": "Mod", "fmod": "Mod", "__and__": "And", "__or__": "Or",
}  # fmt: skip


_OPERATORS = {
    **{name: (operator, "self input") for name, operator in _UNARY.items()},
    **{name: (operator, "self", "other") for name, operator in _BINARY.items()},
    **dict.fromkeys(("matmul", "mm", "bmm", "dot", "mv"), ("MatMul", "self input", "other mat2 tensor vec")),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), ("Expand", "self")),
    **dict.fromkeys(("tril", "triu"), ("Trilu", "self")),
    "pow": ("Pow", "self", "exponent"), "square": ("Mul", "self", "self"), "masked_fill": ("Where", "mask", "value", "self"),
    "embedding": ("Gather", "weight", "indices"),
}  # fmt: skip
"""Calls that are one operator of their arguments, each of which may have one of several names."""


def _operator(operator: str, operands: Sequence[str], call: AtenCall) -> None:
    call.node(operator, [call.operand(*names.split()) for names in operands])


for _name, (_kind, *_operands) in _OPERATORS.items():
    converts(_name)(partial(_operator, _kind, _operands))


@converts("add", "sub", "rsub")
def _sum(call: AtenCall) -> None:
    first, second = call.operand("self"), call.operand("other")
    factor = call.get("alpha", 1)
    if factor != 1:
        second = call.node("Mul", [second, call.constant(factor)], call.shape(second))
    operator = "Add" if ".add" in call.call.target else "Sub"
    call.node(operator, [second, first] if "rsub" in call.call.target else [first, second])


@converts("div", "true_divide", "floor_divide")
def _quotient(call: AtenCall) -> None:
    operands = [call.operand("self"), call.operand("other")]
    if call.get("rounding_mode") or "floor" in call.call.target:
        call.node("Floor", [call.node("Div", operands, call.result)])
    else:
        call.node("Div", operands)


@converts("gelu")
def _gelu(call: AtenCall) -> None:
    call.node("Gelu", [call.tensor("self")], approximate=call.get("approximate", "none"))


@converts("rsqrt")
def _inverse_root(call: AtenCall) -> None:
    call.node("Reciprocal", [call.node("Sqrt", [call.tensor("self")], call.result)])


@converts("relu6", "hardtanh", "clamp", "clip", "clamp_min", "clamp_max")
def _clip(call: AtenCall) -> None:
    low, high = call.get("min_val", call.get("min")), call.get("max_val", call.get("max"))
    if "relu6" in call.call.target:
        low, high = 0.0, 6.0
    elif "hardtanh" in call.call.target:
        low, high = -1.0 if low is None else low, 1.0 if high is None else high
    bounds = [call.constant(float(bound)) if isinstance(bound, (int, float)) else "" for bound in (low, high)]
    call.node("Clip", [call.tensor("self"), *bounds])


@converts("prelu")
def _prelu(call: AtenCall) -> None:
    x, slope = call.tensor("self"), call.tensor("weight")
    rank = len(call.shape(x))
    if call.shape(slope)[0] > 1 and rank > 2:
        slope = call.node("Reshape", [slope], (call.shape(slope)[0],) + (1,) * (rank - 2))
    call.node("PRelu", [x, slope])


@converts("where")
def _where(call: AtenCall) -> None:
    if call.get("other") is None:
        call.several("NonZero", [call.tensor("condition")])
        return
    call.node("Where", [call.tensor("condition"), call.operand("self"), call.operand("other")])


@converts("addcmul", "addcdiv")
def _with_product(call: AtenCall) -> None:
    operator = "Mul" if "mul" in call.call.target else "Div"
    product = call.node(operator, [call.tensor("tensor1"), call.tensor("tensor2")], call.result)
    call.node("Add", [call.tensor("self"), product])


# --- products -------------------------------------------------------------------------------------------------------


@converts("conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _convolution(call: AtenCall) -> None:
    x, w = call.tensor("input"), call.tensor("weight")
    n = len(call.shape(w)) - 2
    strides, dilations = call.listed("stride", n, 1), call.listed("dilation", n, 1)
    kernel = call.shape(w)[2:]
    padding = call.get("padding", 0)
    if isinstance(padding, str):
        total = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilations, kernel, strict=True)]
        pads = [t // 2 for t in total] + [t - t // 2 for t in total]
    else:
        pads = call.listed("padding", n, 0) * 2
    transposed = "transpose" in call.call.target or call.get("transposed", False)
    parameters = [name for name in (w, call.tensor("bias")) if name]
    attributes = {
        "strides": strides,
        "dilations": dilations,
        "pads": pads,
        "group": int(call.get("groups", 1)),
        "kernel_shape": list(kernel),
    }
    _on_images(call, "ConvTranspose" if transposed else "Conv", x, parameters, attributes)


def _on_images(call: AtenCall, operator: str, x: str, parameters: Sequence[str], attributes: dict[str, Any]) -> None:
    """An operator of images; those without a batch are a batch of one."""
    if len(call.shape(x)) == len(attributes["kernel_shape"]) + 2:
        call.node(operator, [x, *parameters], **attributes)
        return
    batch = call.node("Reshape", [x], (1, *call.shape(x)))
    call.node("Reshape", [call.node(operator, [batch, *parameters], (1, *call.result), **attributes)])


@converts("linear")
def _linear(call: AtenCall) -> None:
    x, w, bias = call.tensor("input"), call.tensor("weight"), call.tensor("bias")
    product = call.node("MatMul", [x, w], call.result if bias else "", transB=1)
    if bias:
        call.node("Add", [product, bias])


@converts("_grouped_mm", "grouped_mm")
def _experts(call: AtenCall) -> None:
    """Rows, sorted by expert, times the expert's weight: every expert that works has an equal share of the rows."""
    rows, weight = (call.tensor(name) for name in list(call.call.arguments)[:2])
    (count, width), (experts, _, inner) = call.shape(rows), call.shape(weight)
    working = min(experts, count)
    if count % working:
        call.several(call.call.target, [rows, weight])
        return
    split_shape = (working, count // working)
    if working < experts:
        weight = call.node("Slice", [weight], (working, width, inner), starts=[0, 0, 0], steps=[1, 1, 1])
    split = call.node("Reshape", [rows], (*split_shape, width))
    call.node("Reshape", [call.node("MatMul", [split, weight], (*split_shape, inner))])


ATEN["transformers.grouped_mm_fallback"] = _experts


@converts("addmm", "addbmm", "baddbmm", "addmv")
def _added_product(call: AtenCall) -> None:
    first, second = call.tensor("mat1", "batch1", "mat"), call.tensor("mat2", "batch2", "vec")
    product = call.node("MatMul", [first, second], call.result)
    if call.get("alpha", 1) != 1:
        product = call.node("Mul", [product, call.constant(call.get("alpha"))], call.result)
    bias = call.tensor("self")
    if call.get("beta", 1) != 1:
        bias = call.node("Mul", [bias, call.constant(call.get("beta"))], call.shape(bias))
    call.node("Add", [product, bias])


@converts("einsum")
def _einsum(call: AtenCall) -> None:
    call.node("Einsum", call.tensors("tensors"), equation=str(call.get("equation")))


@converts("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention",
          "_scaled_dot_product_efficient_attention")  # fmt: skip
def _attention(call: AtenCall) -> None:
    q, k, v = (call.tensor(name) for name in ("query", "key", "value"))
    mask = call.tensor("attn_mask", "attn_bias")
    attributes = {"is_causal": int(bool(call.get("is_causal", False))), "scale": call.get("scale")}
    shape = call.result
    if len(shape) == 4:
        call.node("Attention", [q, k, v, *([mask] if mask else [])], **attributes)
        return
    flat = [_as_four(call, name) for name in (q, k, v)]
    whole = (*call.shape(flat[0])[:3], shape[-1])
    call.node("Reshape", [call.node("Attention", [*flat, *([mask] if mask else [])], whole, **attributes)])


def _as_four(call: AtenCall, name: str) -> str:
    """All axes before the heads as one."""
    shape = call.shape(name)
    whole = (math.prod(shape[:-3]), *((1,) * (3 - len(shape[-3:]))), *shape[-3:])
    return call.node("Reshape", [name], whole)


# --- normalizations and reductions ----------------------------------------------------------------------------------


@converts("layer_norm", "native_layer_norm", "group_norm", "native_group_norm", "instance_norm")
def _normalization(call: AtenCall) -> None:
    inputs = [call.tensor("input"), call.tensor("weight"), call.tensor("bias")]
    while not inputs[-1]:
        inputs.pop()
    operator, attributes = "InstanceNormalization", {"epsilon": call.get("eps", 1e-5)}
    if "layer" in call.call.target:
        operator, attributes["axis"] = "LayerNormalization", call.rank() - len(call.get("normalized_shape"))
    elif "group" in call.call.target:
        operator, attributes["num_groups"] = "GroupNormalization", int(call.get("num_groups", call.get("group", 1)))
    call.node(operator, inputs, **attributes)


@converts("rms_norm", "_fused_rms_norm")
def _rms_norm(call: AtenCall) -> None:
    axis, epsilon = call.rank() - len(call.get("normalized_shape")), call.get("eps", 1e-6)
    call.node("RMSNormalization", [call.tensor("input"), call.tensor("weight")], axis=axis, epsilon=epsilon)


@converts("batch_norm", "_native_batch_norm_legit_no_training", "cudnn_batch_norm")
def _batch_norm(call: AtenCall) -> None:
    x, *parameters = map(call.tensor, ("input", "weight", "bias", "running_mean", "running_var"))
    channels = (call.shape(x)[1],)
    scale, shift, mean, variance = (
        name or call.constant([default] * channels[0])
        for name, default in zip(parameters, (1.0, 0.0, 0.0, 1.0), strict=True)
    )
    training = int(bool(call.get("training", False)) or not all(parameters[2:]))
    inputs = [x, scale, shift, mean, variance]
    call.node("BatchNormalization", inputs, epsilon=call.get("eps", 1e-5), training_mode=training)


@converts("softmax", "_softmax", "log_softmax", "_log_softmax")
def _softmax(call: AtenCall) -> None:
    operator = "LogSoftmax" if "log" in call.call.target else "Softmax"
    call.node(operator, [call.tensor("self")], axes=[call.axis()])


_REDUCE = {"mean": "ReduceMean", "sum": "ReduceSum", "amax": "ReduceMax", "amin": "ReduceMin", "prod": "ReduceProd", "max": "ReduceMax",
           "min": "ReduceMin", "logsumexp": "ReduceLogSumExp", "linalg_vector_norm": "ReduceL2", "norm": "ReduceL2", "any": "ReduceMax",
           "all": "ReduceMin", "argmax": "ArgMax", "argmin": "ArgMin"}  # fmt: skip


@converts(*_REDUCE)
def _reduce(call: AtenCall) -> None:
    name = call.call.target.split(".")[1]
    x = call.tensor("self")
    if call.tensor("other"):
        call.node("Max" if name == "max" else "Min", [x, call.tensor("other")])
        return
    rank, dim = len(call.shape(x)), call.get("dim")
    if name in ("norm", "linalg_vector_norm") and call.get("p", call.get("ord", 2)) != 2:
        raise ValueError("only the norm of order 2")
    axes: Sequence[int] = range(rank) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
    resolved = [int(axis) % max(rank, 1) for axis in axes]
    call.node(_REDUCE[name], [x], axes=resolved, keepdims=int(bool(call.get("keepdim", False))))
    if len(call.outputs) > 1:
        call.node("ArgMax" if name == "max" else "ArgMin", [x], call.outputs[1], axes=resolved)


@converts("max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool1d", "avg_pool2d",
          "avg_pool3d")  # fmt: skip
def _pool(call: AtenCall) -> None:
    x = call.tensor("self", "input")
    n = int(call.call.target.split("pool")[1][0])
    kernel = call.listed("kernel_size", n, 1)
    strides = call.listed("stride", n, 1) if call.get("stride") else kernel
    average = "avg" in call.call.target
    attributes: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": strides,
        "dilations": call.listed("dilation", n, 1),
        "pads": call.listed("padding", n, 0) * 2,
        "ceil_mode": int(bool(call.get("ceil_mode", False))),
        "count_include_pad": int(average and bool(call.get("count_include_pad", True))),
    }
    _on_images(call, "AveragePool" if average else "MaxPool", x, [], attributes)


@converts("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d", "adaptive_max_pool2d",
          "adaptive_max_pool1d")  # fmt: skip
def _adaptive(call: AtenCall) -> None:
    """To one place, or in equal windows; else nothing says it."""
    x = call.tensor("self")
    n = int(call.call.target.split("pool")[1][0])
    image, target = call.shape(x)[-n:], call.result[-n:]
    average = "avg" in call.call.target
    if set(target) == {1}:
        axes = [len(call.shape(x)) - n + i for i in range(n)]
        call.node("ReduceMean" if average else "ReduceMax", [x], axes=axes, keepdims=1)
    elif image == target:
        call.alias(x)
    elif all(size % new == 0 for size, new in zip(image, target, strict=True)) and len(call.shape(x)) == n + 2:
        kernel = [size // new for size, new in zip(image, target, strict=True)]
        call.node("AveragePool" if average else "MaxPool", [x], kernel_shape=kernel, strides=kernel)
    else:
        call.several("adaptive pooling", [x])


_SHAPED = ["view", "reshape", "_unsafe_view", "unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "_reshape_alias", "view_as",
           "reshape_as", "ravel", "atleast_1d"]  # fmt: skip
_NOTHING = ["contiguous", "clone", "detach", "alias", "dropout", "feature_dropout", "alpha_dropout", "native_dropout", "lift_fresh",
            "lift_fresh_copy", "positive"]  # fmt: skip


@converts(*_SHAPED, *_NOTHING)
def _shaped(call: AtenCall) -> None:
    """The output's shape says all."""
    x = call.tensor("self", "input")
    call.node("Reshape" if call.shape(x) != call.result else "Identity", [x])


def _turned(call: AtenCall, order: Iterable[int]) -> None:
    call.node("Transpose", [call.tensor("self", "input")], perm=list(order))


@converts("permute")
def _permute(call: AtenCall) -> None:
    _turned(call, (int(d) % call.rank() for d in call.get("dims")))


@converts("transpose", "swapaxes", "swapdims")
def _transpose(call: AtenCall) -> None:
    order = list(range(call.rank()))
    pairs = (("dim0", "axis0"), ("dim1", "axis1"))
    first, second = (int(call.get(name, call.get(alias, 0))) % call.rank() for name, alias in pairs)
    order[first], order[second] = order[second], order[first]
    _turned(call, order)


@converts("t", "numpy_T", "mT")
def _reversed(call: AtenCall) -> None:
    _turned(call, reversed(range(call.rank())))


@converts("movedim")
def _moved(call: AtenCall) -> None:
    rank = call.rank()
    source, target = ([d] if isinstance(d, int) else list(d) for d in (call.get("source"), call.get("destination")))
    unmoved = iter(i for i in range(rank) if i not in [d % rank for d in source])
    placed = {d % rank: s % rank for s, d in zip(source, target, strict=True)}
    _turned(call, (placed[i] if i in placed else next(unmoved) for i in range(rank)))


@converts("repeat", "tile")
def _repeat(call: AtenCall) -> None:
    x = call.tensor("self")
    missing = len(call.result) - len(call.shape(x))
    if missing:
        x = call.node("Reshape", [x], (1,) * missing + call.shape(x))
    call.node("Tile", [x])


@converts("repeat_interleave")
def _repeat_each(call: AtenCall) -> None:
    x, times = call.tensor("self"), call.get("repeats")
    if not isinstance(times, int) or call.get("dim") is None:
        raise ValueError("repeats that are data")
    shape, axis = call.shape(x), call.axis()
    unsqueezed = call.node("Reshape", [x], (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    expanded = call.node("Expand", [unsqueezed], (*shape[: axis + 1], times, *shape[axis + 1 :]))
    call.node("Reshape", [expanded])


# --- parts ----------------------------------------------------------------------------------------------------------


def _slice(call: AtenCall, x: str, axis: int, start: int, step: int = 1, output: str | tuple[int, ...] = "") -> str:
    rank = len(call.shape(x))
    starts, steps = [0] * rank, [1] * rank
    starts[axis], steps[axis] = start, step
    return call.node("Slice", [x], output, starts=starts, steps=steps)


@converts("slice", "narrow", "slice_copy")
def _sliced(call: AtenCall) -> None:
    x, axis = call.tensor("self"), call.axis()
    size = call.shape(x)[axis]
    if "narrow" in call.call.target:
        start, end, step = int(call.get("start", 0)) % size, None, 1
    else:
        start, end, step = int(call.get("start", 0)), call.get("end"), int(call.get("step", 1))
    indices = range(*slice(start, min(int(end), size) if end is not None else None, step).indices(size))
    _slice(call, x, axis, indices.start, step)


@converts("select", "select_copy")
def _select(call: AtenCall) -> None:
    index = call.constant(int(call.get("index", 0)))
    call.node("Gather", [call.tensor("self"), index], axis=call.axis())


@converts("split", "split_with_sizes", "chunk", "unsafe_chunk", "unsafe_split", "tensor_split")
def _split(call: AtenCall) -> None:
    call.several("Split", [call.tensor("self")], axis=call.axis())


@converts("unbind")
def _unbind(call: AtenCall) -> None:
    x, axis = call.tensor("self"), call.axis()
    for i, name in enumerate(call.outputs):
        call.node("Gather", [x, call.constant(i)], name, axis=axis)


@converts("index_select")
def _index_select(call: AtenCall) -> None:
    call.node("Gather", [call.tensor("self"), call.tensor("index")], axis=call.axis())


@converts("index")
def _index(call: AtenCall) -> None:
    """One list of indices is a gathering along its axis; several are something else."""
    x, indices = call.tensor("self"), call.tensors("indices")
    named = [i for i, name in enumerate(indices) if name]
    if len(named) == 1 and call.reader.graph.values[indices[named[0]]].shape != ():
        call.node("Gather", [x, indices[named[0]]], axis=named[0])
    else:
        call.several("aten.index", [x, *(name for name in indices if name)])


@converts("flip")
def _flip(call: AtenCall) -> None:
    x = call.tensor("self")
    shape = call.shape(x)
    axes = [int(axis) % len(shape) for axis in call.get("dims")]
    starts = [size - 1 if i in axes else 0 for i, size in enumerate(shape)]
    call.node("Slice", [x], starts=starts, steps=[-1 if i in axes else 1 for i in range(len(shape))])


@converts("roll")
def _roll(call: AtenCall) -> None:
    """Along each axis, its end before its beginning."""
    x = call.tensor("self")
    shape = call.shape(x)
    shifts, axes = ([n] if isinstance(n, int) else list(n) for n in (call.get("shifts"), call.get("dims", [0])))
    moves = [
        (shift % shape[axis], axis % len(shape))
        for shift, axis in zip(shifts, axes, strict=True)
        if shift % shape[axis]
    ]
    if not moves:
        call.alias(x)
    for i, (shift, axis) in enumerate(moves):
        first, second = ((*shape[:axis], n, *shape[axis + 1 :]) for n in (shift, shape[axis] - shift))
        end = _slice(call, x, axis, shape[axis] - shift, 1, first)
        begin = _slice(call, x, axis, 0, 1, second)
        x = call.node("Concat", [end, begin], "" if i == len(moves) - 1 else shape, axis=axis)


# --- joining, padding, resizing -------------------------------------------------------------------------------------


@converts("cat", "concat", "concatenate")
def _cat(call: AtenCall) -> None:
    tensors = [name for name in call.tensors("tensors") if math.prod(call.shape(name)) > 0]
    call.node("Concat", tensors, axis=int(call.get("dim", 0)) % len(call.result))


@converts("stack")
def _stack(call: AtenCall) -> None:
    axis = int(call.get("dim", 0)) % len(call.result)
    shape = (*call.result[:axis], 1, *call.result[axis + 1 :])
    call.node("Concat", [call.node("Reshape", [name], shape) for name in call.tensors("tensors")], axis=axis)


@converts("constant_pad_nd", "pad")
def _pad(call: AtenCall) -> None:
    x, rank, pads = call.tensor("self"), call.rank(), [int(n) for n in call.get("pad", [])]
    if not any(pads):
        call.alias(x)
        return
    before, after = [0] * rank, [0] * rank
    for i in range(len(pads) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = pads[2 * i], pads[2 * i + 1]
    call.node(
        "Pad", [x], pads=before + after, value=float(call.get("value", 0.0)), mode=str(call.get("mode", "constant"))
    )


@converts("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact2d", "upsample_bilinear2d",
          "upsample_bicubic2d", "upsample_linear1d", "_upsample_bilinear2d_aa")  # fmt: skip
def _upsample(call: AtenCall) -> None:
    x = call.tensor("self", "input")
    shape, target = call.shape(x), call.result
    if "nearest" in call.call.target and all(new % old == 0 for new, old in zip(target, shape, strict=True)):
        call.node("Resize", [x], times=[new // old for new, old in zip(target, shape, strict=True)], mode="nearest")
    else:
        call.node("Resize", [x], mode=call.call.target.removeprefix("aten.upsample_"))


@converts("pixel_shuffle")
def _pixel_shuffle(call: AtenCall) -> None:
    call.node("DepthToSpace", [call.tensor("self")], blocksize=int(call.get("upscale_factor")), mode="CRD")


@converts("pixel_unshuffle")
def _pixel_unshuffle(call: AtenCall) -> None:
    x, b = call.tensor("self"), int(call.get("downscale_factor"))
    n, c, h, w = call.shape(x)
    blocks = call.node("Reshape", [x], (n, c, h // b, b, w // b, b))
    call.node("Reshape", [call.node("Transpose", [blocks], (n, c, b, b, h // b, w // b), perm=[0, 1, 3, 5, 2, 4])])


@converts("channel_shuffle", "native_channel_shuffle")
def _channel_shuffle(call: AtenCall) -> None:
    x, groups = call.tensor("self"), int(call.get("groups"))
    n, c, *image = call.shape(x)
    grouped = call.node("Reshape", [x], (n, groups, c // groups, *image))
    order = [0, 2, 1, *range(3, 3 + len(image))]
    call.node("Reshape", [call.node("Transpose", [grouped], (n, c // groups, groups, *image), perm=order)])


@converts(
    "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty", "rand_like"
)
def _like(call: AtenCall) -> None:
    """Depends on a shape, not on values."""
    call.several("Constant", [call.constant(0.0)])
