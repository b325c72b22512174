"""Calls of torch that move data: views, slices, joining, padding, tables; and those that only make constants."""

from __future__ import annotations

import math
from collections.abc import Iterable

from fusiest.networks.torch.torch_graph import AtenCall, converts

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
