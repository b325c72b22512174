"""Views: what reshapes, transposes, slices, broadcasts and paddings make of a tensor, without moving it.

Each function gives the new view, or None where no affine index says it. Then the value is a cut. `laid` raises Unfit instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from fusiest.networks.graph.shapes import shape_text
from fusiest.networks.lowering.extents import Axis, Extent, Factor, spread
from fusiest.networks.lowering.making import Unfit
from fusiest.networks.lowering.tensors import View


def transpose(view: View, order: Sequence[int]) -> View:
    """The axes in another order."""
    return replace(view, axes=tuple(view.axes[i] for i in order))


def reshape(view: View, shape: Sequence[int]) -> View | None:
    """See values in their order under another shape: axes are split and put together.

    >>> from fusiest.networks.lowering.tensors import tensor_view
    >>> tokens = tensor_view([1, 128, 768], "input", "x")
    >>> heads = reshape(tokens, [128, 12, 64])
    >>> [leaf.size for axis in tokens.tensor.axes for leaf in axis.leaves()]
    [128, 12, 64]
    >>> reshape(tensor_view([6, 4], "input", "x"), [8, 3]) is None
    True
    """
    stack = spread([factor for axis in view.axes for factor in axis])
    axes: list[tuple[Factor, ...]] = []
    for size in reversed(shape):
        axis_factors: list[Factor] = []
        missing = size
        while missing > 1:
            if not stack:
                return None
            factor = stack.pop()
            leaves = factor.leaves()
            if len(leaves) > 1:  # an earlier split was of this extent, too
                stack += leaves
            elif missing % factor.size == 0:
                axis_factors.append(factor)
                missing //= factor.size
            elif factor.extent.split(missing):
                stack += factor.leaves()
            else:
                return None
        axes.append(tuple(reversed(axis_factors)))
    if any(factor.size > 1 for factor in stack):
        return None
    return replace(view, axes=tuple(reversed(axes)))


def laid(view: View, shape: Sequence[int]) -> View:
    """A view reshaped, or Unfit."""
    reshaped = reshape(view, shape)
    if reshaped is None:
        raise Unfit(f"{shape_text(view.shape)} does not factor into {shape_text(shape)}")
    return reshaped


def expand(view: View, shape: Sequence[int]) -> View:
    """Broadcast to a shape, as NumPy does."""
    shape = list(shape)
    axes: list[tuple[Factor, ...]] = [()] * (len(shape) - len(view.axes)) + list(view.axes)
    for i, size in enumerate(shape):
        if size > 1 and not axes[i]:
            axes[i] = (Factor(Extent(size)),)
    return replace(view, axes=tuple(axes))


def repeat(view: View, axis: int, times: int, inner: bool = False) -> View:
    """An axis several times: as a whole, or (`inner`) each of its elements."""
    if times <= 1:
        return view
    repeats, factors = Factor(Extent(times)), view.axes[axis]
    return _with_axis(view, axis, (*factors, repeats) if inner else (repeats, *factors))


def cut_out(view: View, axis: int, start: int, count: int, step: int = 1) -> View | None:
    """`count` indices of an axis, from `start` on. Equal parts become a constant index of an outer rank.

    >>> from fusiest.networks.lowering.tensors import tensor_view
    >>> both = tensor_view([10, 64], "input", "x")
    >>> half = cut_out(both, 1, 32, 32)
    >>> [leaf.size for leaf in both.tensor.axes[1].leaves()], half.shape, list(half.offsets().values())
    ([2, 32], (10, 32), [1])
    """
    whole = math.prod(factor.size for factor in view.axes[axis])
    if (start, count, step) == (0, whole, 1):
        return view
    if step != 1:
        return _strided(view, axis, start, count, step)
    stack = spread(view.axes[axis])
    factors: list[Factor] = []
    constants = view.offsets()
    while stack:
        factor = stack.pop()
        leaves = factor.leaves()
        if len(leaves) > 1:
            stack += leaves
        elif start % factor.size == 0 and count % factor.size == 0:
            factors.append(factor)
            start, count = start // factor.size, count // factor.size
        elif (grain := math.gcd(start, count, factor.size)) > 1 and factor.extent.split(grain):
            stack += factor.leaves()
        elif (start + count - 1) // factor.size == start // factor.size:
            part = _moved(factor, start % factor.size, count, 1, constants)
            factors += [part] if count > 1 else []
            start, count = start // factor.size, 1
        else:
            return None
    return _with_axis(replace(view, constants=constants), axis, factors[::-1])


def _strided(view: View, axis: int, start: int, count: int, step: int) -> View | None:
    """Every so many indices; the whole of one phase, of a size that `step` divides, is a constant index of an inner rank."""
    if count == 1:
        return cut_out(view, axis, start, 1)
    factors = spread(view.axes[axis])
    if 0 <= start < step and len(factors) == 1 and factors[0].size == count * step and factors[0].extent.split(step):
        phased = reshape(view, [*view.shape[:axis], count, step, *view.shape[axis + 1 :]])
        phase = cut_out(phased, axis + 1, start, 1) if phased is not None else None
        return reshape(phase, [*view.shape[:axis], count, *view.shape[axis + 1 :]]) if phase is not None else None
    return _on_one_factor(view, axis, start, count, step)


def pad(view: View, axis: int, before: int, after: int, value: float) -> View | None:
    """More indices on both sides of an axis, where `value` is read; fewer, if negative."""
    if view.padded is not None and view.padded != value:
        return None
    if any(factor.axis is None for factor in view.axes[axis]):
        return None
    padded = _on_one_factor(view, axis, -before, view.shape[axis] + before + after, 1)
    outside = value if before > 0 or after > 0 else view.padded
    return replace(padded, padded=outside) if padded is not None else None


def _on_one_factor(view: View, axis: int, start: int, count: int, step: int) -> View | None:
    """An axis that is one rank, from another start on and in other steps."""
    factors = spread(view.axes[axis])
    if len(factors) != 1:
        return None
    constants = view.offsets()
    part = _moved(factors[0], start, count, step, constants)
    return _with_axis(replace(view, constants=constants), axis, [part] if count > 1 else [])


def _moved(factor: Factor, start: int, count: int, step: int, constants: dict[Axis, int]) -> Factor:
    """A part of a factor. Its rank is rigid from now on, unless only one index is left."""
    if factor.axis is not None:
        constants[factor.axis] = constants.get(factor.axis, 0) + factor.coefficient * start
        if count > 1:
            factor.axis.extent.root().rigid = True
    return Factor(Extent(count), factor.axis, factor.coefficient * step)


def _with_axis(view: View, axis: int, factors: Sequence[Factor]) -> View:
    axes = list(view.axes)
    axes[axis] = tuple(factors)
    return replace(view, axes=tuple(axes))
