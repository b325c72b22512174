"""Draws of operators that move values: other shapes, parts, parts put together."""

from __future__ import annotations

import numpy as np

from tests.networks.drawn_graph import Draw, Refused, image


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
