"""Shapes of operators that move or reduce data; see `shapes`."""

from __future__ import annotations

import math

import numpy as np

from fusiest.base.errors import SpecError
from fusiest.networks.graph.shapes import Operator, ShapeOf, UnknownShape, _word, broadcast, checked, infers, shape_text


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
