"""Transposed convolutions: each element of the input makes a window of the output, which may overlap.

With stride 1 that is a convolution backwards. Where windows lie side by side, each element makes a block of its own. Else the output
has as many phases as the stride has steps: each is a convolution with some of the kernel's elements, and writes its own part of the output.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from fusiest.networks.graph.graph import GraphNode
from fusiest.networks.lowering import views
from fusiest.networks.lowering.concats import concatenated
from fusiest.networks.lowering.contractions import Sliding, contracted, finished, sliding
from fusiest.networks.lowering.extents import Axis, Extent, Factor, spread
from fusiest.networks.lowering.lower import Lowering, lowers
from fusiest.networks.lowering.making import Operand, Subscript, Unfit, Window, labelled
from fusiest.networks.lowering.tensors import NetTensor, View
from fusiest.networks.lowering.views import laid

ROLES = {"n": "b", "g": "g", "c": "c", "k": "c"}


@dataclass(frozen=True, slots=True)
class _Transposed:
    """The operands, batch and groups first: `x[b, g, c, …]` and `w[g, c, k, …]`; and the image of the result."""

    node: GraphNode
    x: View
    w: View
    slide: Sliding
    shape: Sequence[int]

    @property
    def labels(self) -> list[str | None]:
        return labelled("ngck", (*self.x.shape[:3], self.w.shape[2]))

    def in_blocks(self, i: int) -> bool:
        """Whether windows lie side by side along an image axis, and nothing is cropped."""
        kernel, pads = self.slide.kernel[i], (self.slide.before[i], self.slide.after[i])
        side_by_side = kernel == self.slide.strides[i] and pads == (0, 0)
        return side_by_side and self.slide.outputs[i] == self.x.shape[3 + i] * kernel


@lowers("ConvTranspose")
def transposed_convolution(lowering: Lowering, node: GraphNode) -> None:
    """One Einsum, or one for each phase."""
    x, w = lowering.view(node.inputs[0]), lowering.view(node.inputs[1])
    shape = lowering.shape(node.outputs[0])
    groups, n = int(node.get("group", 1)), len(x.axes) - 2
    x = laid(x, [x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]])
    w = laid(w, [groups, w.shape[0] // groups, *w.shape[1:]])
    slide = sliding(node, w.shape[3:], shape[2:])
    whole = _Transposed(node, x, w, slide, shape)
    if all(slide.strides[i] == 1 or whole.in_blocks(i) for i in range(n)):
        lowering.define(node, finished(lowering, node, laid(_in_one(lowering, whole), shape), 1))
    else:
        lowering.define(node, _in_phases(lowering, whole))


def _in_one(lowering: Lowering, whole: _Transposed) -> View:
    slide, (batch, g, c, k) = whole.slide, whole.labels
    image: list[Subscript] = []
    written: list[str | None] = []
    sizes = {f"r{i}": size for i, size in enumerate(slide.kernel)}
    for i, (kernel, stride) in enumerate(zip(slide.kernel, slide.strides, strict=True)):
        if stride == 1:
            terms = ((f"p{i}", 1),) + (((f"r{i}", -slide.dilations[i]),) if kernel > 1 else ())
            image.append(Window(terms, slide.before[i]))
            written += [slide.image[i], None]
            sizes[f"p{i}"] = slide.outputs[i]
        else:
            label = f"p{i}" if whole.x.shape[3 + i] > 1 else None
            image.append(label)
            written += [label, slide.window[i]]
    operands: list[Operand] = [(whole.x, [batch, g, c, *image]), (whole.w, [g, c, k, *slide.window])]
    roles = {**ROLES, **slide.roles()}
    return contracted(lowering, whole.node, operands, [batch, g, k, *written], (), sizes, roles)


# --- phases ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Phase:
    """Every so many places along an image axis: the elements of the kernel that reach them, and where in the input."""

    taps: range
    shift: int


def _phase(slide: Sliding, i: int, phase: int) -> _Phase:
    """Place stride·p + phase has the input h and the element r of the kernel where stride·h + dilation·r = place + padding: with
    r = stride·t + least, h = p + shift − dilation·t."""
    stride, dilation = slide.strides[i], slide.dilations[i]
    place = phase + slide.before[i]
    least = next((r for r in range(min(stride, slide.kernel[i])) if (place - dilation * r) % stride == 0), None)
    if least is None or math.gcd(stride, dilation) > 1 or slide.outputs[i] % stride:
        raise Unfit(f"its windows of {slide.kernel[i]} at stride {stride} have phases that are not alike")
    return _Phase(range(least, slide.kernel[i], stride), (place - dilation * least) // stride)


def _in_phases(lowering: Lowering, whole: _Transposed) -> View:
    """`O[k, P: p, Q: q, S: i] = I[c, H: p + shift - t, …] * W[c, k, t, …]` for each phase i."""
    slide, shape = whole.slide, whole.shape
    strides = slide.strides
    places = [size // stride for size, stride in zip(slide.outputs, strides, strict=True)]
    parts = []
    for number, combination in enumerate(itertools.product(*map(range, strides))):
        phases = [_phase(slide, i, phase) for i, phase in enumerate(combination)]
        part = laid(_one_phase(lowering, whole, phases, places, number), [*shape[:2], *places])
        value = finished(lowering, whole.node, part, 1)
        part = value if isinstance(value, View) else lowering.materialized(value)
        parts.append(View(part.tensor, (*part.axes, ())))
    result = concatenated(lowering, whole.node, parts, len(shape))
    return _interleaved(result, strides)


def _one_phase(
    lowering: Lowering, whole: _Transposed, phases: Sequence[_Phase], places: Sequence[int], number: int
) -> View:
    slide = Sliding([len(phase.taps) for phase in phases], [1] * len(phases), whole.slide.dilations, (), (), places)
    batch, g, c, k = whole.labels
    image = [
        Window(((f"p{i}", 1),) + (((f"r{i}", -slide.dilations[i]),) if slide.window[i] else ()), phase.shift)
        for i, phase in enumerate(phases)
    ]
    kernel = _part_of_kernel(whole.w, [phase.taps for phase in phases])
    operands: list[Operand] = [(whole.x, [batch, g, c, *image]), (kernel, [g, c, k, *slide.window])]
    result = contracted(
        lowering, whole.node, operands, [batch, g, k, *slide.image], (), slide.sizes(), {**ROLES, **slide.roles()}
    )
    lowering.einsums[-1].suffix = f"phase{number}"
    return result


def _part_of_kernel(w: View, taps: Sequence[range]) -> View:
    """Every so many elements of a kernel. Of a weight that is a tensor of its own, as whoever runs it would lay it out."""
    first = len(w.axes) - len(taps)
    for leaf in (leaf for axis in w.axes[first:] for leaf in spread(axis)):
        leaf.extent.root().rigid = True
    if not w.constant:
        for i, part in enumerate(taps, first):
            cut = views.cut_out(w, i, part.start, len(part), part.step)
            if cut is None:
                raise Unfit("its kernel cannot be taken apart")
            w = cut
        return w
    axes, slices, new = list(w.axes), {}, {}
    for i, part in enumerate(taps, first):
        for leaf in spread(w.axes[i]):
            if leaf.axis is None or not leaf.plain or leaf.size != w.shape[i] or w.tensor.origin is not None:
                raise Unfit("its kernel cannot be taken apart")
            slices[leaf.axis] = (part.start, len(part), part.step)
            new[leaf.axis] = [Axis(Extent(len(part)), leaf.axis.role)] if len(part) > 1 else []
            axes[i] = tuple(Factor(axis.extent, axis) for axis in new[leaf.axis])
    kernel_axes = [axis for whole in w.tensor.ranks() for axis in new.get(whole, [whole])]
    return View(NetTensor(kernel_axes, "constant", w.tensor.source, None, w.tensor, slices), tuple(axes), w.constants)


def _interleaved(result: View, strides: Sequence[int]) -> View:
    """Phases back in their places: along each image axis first the place, then the phase."""
    *axes, (phase,) = result.axes
    assert phase.axis is not None
    stepped = [i for i, stride in enumerate(strides) if stride > 1]
    image = list(axes[2:])
    step = phase.size
    for i in stepped:
        step //= strides[i]
        place = phase if len(stepped) == 1 else Factor(Extent(strides[i]), phase.axis, step)
        image[i] = (*image[i], place)
    if len(stepped) > 1:
        phase.axis.extent.root().rigid = True
    return View(result.tensor, (*axes[:2], *image))
