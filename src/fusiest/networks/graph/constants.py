"""Values of small constants: shapes, axes and scales that nodes compute from other constants.

Only what can decide the shape of something is computed, on at most a few thousand values. Weights are never looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fusiest.networks.graph.graph import MAX_KEPT
from fusiest.networks.graph.shapes import Operator, ShapeOf

Values = np.ndarray[Any, Any]
_DTYPES: dict[int, Any] = {1: np.float32, 2: np.uint8, 3: np.int8, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16,
                           11: np.float64, 12: np.uint32, 13: np.uint64}  # fmt: skip


def values_of(op: Operator, shape: ShapeOf) -> Values | None:
    """The values of a node's only output, if they can be told and are few."""
    if op.kind == "Shape":
        return np.array(op.shape()[op.attributes.get("start", 0) : op.attributes.get("end")], dtype=np.int64)
    if op.kind == "Size":
        return np.array(int(np.prod(op.shape(), dtype=object)), dtype=np.int64)
    function = _FUNCTIONS.get(op.kind)
    args = [value.data if value is not None else None for value in op.inputs]
    all_known = all(value is None or value.data is not None for value in op.inputs)
    if function is None or not all_known or int(np.prod(shape, dtype=object)) > MAX_KEPT:
        return None
    try:
        with np.errstate(all="ignore"):
            return np.asarray(function(op, args, shape)).reshape(shape)
    except (ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError, KeyError):
        return None


def _slice(op: Operator, args: list[Any], shape: ShapeOf) -> Values:
    starts, steps = op.attributes["starts"], op.attributes["steps"]
    index = [start + step * np.arange(count) for start, step, count in zip(starts, steps, shape, strict=True)]
    sliced: Values = args[0][np.ix_(*index)]
    return sliced


def _divide(op: Operator, args: list[Any], _: ShapeOf) -> Values:
    if np.issubdtype(args[0].dtype, np.integer):
        return np.asarray(np.trunc(np.divide(args[0], args[1])), dtype=args[0].dtype)
    return np.asarray(np.divide(args[0], args[1]))


def _fill(op: Operator, _: list[Any], shape: ShapeOf) -> Values:
    value = op.attributes.get("value")
    return np.full(shape, value.reshape(-1)[0] if isinstance(value, np.ndarray) and value.size else np.float32(0))


def _each(function: np.ufunc) -> Callable[[Operator, list[Any], ShapeOf], Any]:
    return lambda op, args, shape: function(*(args[i] for i in range(function.nin)))


def _reduced(function: Callable[..., Any]) -> Callable[[Operator, list[Any], ShapeOf], Any]:
    return lambda op, args, shape: function(args[0], axis=tuple(op.attributes["axes"]))


_FUNCTIONS: dict[str, Callable[[Operator, list[Any], ShapeOf], Any]] = {
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"), lambda op, args, shape: args[0].reshape(shape)),
    "Cast": lambda op, args, shape: args[0].astype(_DTYPES[int(op.attributes["to"])]),
    "Concat": lambda op, args, shape: np.concatenate([arg for arg in args if arg is not None], axis=op.attributes["axis"]),
    "Gather": lambda op, args, shape: np.take(args[0], args[1].astype(np.int64), axis=op.attributes["axis"], mode="wrap"),
    "Slice": _slice,
    "Transpose": lambda op, args, shape: np.transpose(args[0], op.attributes["perm"]),
    "Expand": lambda op, args, shape: np.broadcast_to(args[0], shape),
    "Tile": lambda op, args, shape: np.tile(args[0], args[1].reshape(-1)),
    "ConstantOfShape": _fill,
    "Range": lambda op, args, shape: args[0].reshape(()) + np.arange(shape[0]).astype(args[0].dtype) * args[2].reshape(()),
    "Where": lambda op, args, shape: np.where(args[0], args[1], args[2]),
    "Add": _each(np.add), "Sub": _each(np.subtract), "Mul": _each(np.multiply), "Div": _divide, "Mod": _each(np.mod),
    "Pow": _each(np.power), "Equal": _each(np.equal), "Less": _each(np.less), "Greater": _each(np.greater),
    "LessOrEqual": _each(np.less_equal), "GreaterOrEqual": _each(np.greater_equal), "And": _each(np.logical_and),
    "Or": _each(np.logical_or), "Max": _each(np.maximum), "Min": _each(np.minimum),
    "Not": _each(np.logical_not), "Neg": _each(np.negative), "Sqrt": _each(np.sqrt), "Floor": _each(np.floor),
    "Ceil": _each(np.ceil), "Abs": _each(np.abs), "Reciprocal": _each(np.reciprocal),
    "ReduceProd": _reduced(np.prod), "ReduceSum": _reduced(np.sum), "ReduceMax": _reduced(np.max), "ReduceMin": _reduced(np.min),
}  # fmt: skip
