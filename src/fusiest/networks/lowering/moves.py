"""Operators that move no data: views of their input. What is no view is an Einsum that copies, or a cut."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fusiest.networks.graph.graph import GraphNode
from fusiest.networks.graph.shapes import shape_text
from fusiest.networks.lowering import views
from fusiest.networks.lowering.concats import concatenated
from fusiest.networks.lowering.elementwise import mapped
from fusiest.networks.lowering.lower import Fate, Lowering, Recipe, lowers
from fusiest.networks.lowering.making import Unfit, axis_labels
from fusiest.networks.lowering.tensors import Apply, View
from fusiest.networks.lowering.views import laid


def _viewed(lowering: Lowering, node: GraphNode, *functions: Callable[[View], View | None]) -> None:
    """The outputs as views of the first input; a cut where one of them is none."""
    source = lowering.view(node.inputs[0])
    outputs: list[View] = []
    for function in functions:
        view = function(source)
        if view is None:
            lowering.cut(node, _reason(node, lowering))
            return
        outputs.append(view)
    lowering.define(node, *outputs)
    lowering.fates[node] = Fate("view")


def _reason(node: GraphNode, lowering: Lowering) -> str:
    before, after = (shape_text(lowering.shape(name)) for name in (node.inputs[0], node.outputs[0]))
    return (
        f"{before} does not factor into {after}"
        if node.operator == "Reshape"
        else f"{before} to {after} is no affine index"
    )


def _reordered(lowering: Lowering, node: GraphNode, function: Callable[[View], View | None]) -> None:
    """A view of all values, each once: an expression that waits can go on waiting."""
    waiting = lowering.expression(node.inputs[0])
    if isinstance(waiting, Apply):
        try:
            lowering.define(node, mapped(waiting, function))
        except Unfit:
            pass
        else:
            lowering.fates[node] = Fate("view")
            return
    _viewed(lowering, node, function)


@lowers("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout")
def reshape(lowering: Lowering, node: GraphNode) -> None:
    """The output's shape says all."""
    shape = lowering.shape(node.outputs[0])
    _reordered(lowering, node, lambda view: views.reshape(view, shape))


@lowers("Transpose")
def transpose(lowering: Lowering, node: GraphNode) -> None:
    order = node.get("perm", range(len(lowering.shape(node.inputs[0])))[::-1])
    _reordered(lowering, node, lambda view: views.transpose(view, order))


@lowers("Expand")
def expand(lowering: Lowering, node: GraphNode) -> None:
    shape = lowering.shape(node.outputs[0])
    _viewed(lowering, node, lambda view: views.expand(view, shape))


@lowers("Tile")
def tile(lowering: Lowering, node: GraphNode) -> None:
    def tiled(view: View) -> View | None:
        for axis, (before, after) in enumerate(zip(view.shape, lowering.shape(node.outputs[0]), strict=True)):
            view = views.repeat(view, axis, after // before)
        return view

    _viewed(lowering, node, tiled)


@lowers("DepthToSpace", "SpaceToDepth")
def blocks(lowering: Lowering, node: GraphNode) -> None:
    """Channels from or to blocks of the image: splits and another order."""
    n, c, h, w = lowering.shape(node.inputs[0])
    b = int(node.get("blocksize", 1))
    if node.operator == "SpaceToDepth":
        split, order = [n, c, h // b, b, w // b, b], [0, 3, 5, 1, 2, 4]
    elif node.get("mode", "DCR") == "CRD":
        split, order = [n, c // b**2, b, b, h, w], [0, 1, 4, 2, 5, 3]
    else:
        split, order = [n, b, b, c // b**2, h, w], [0, 3, 4, 1, 5, 2]

    def moved(view: View) -> View | None:
        split_view = views.reshape(view, split)
        if split_view is None:
            return None
        return views.reshape(views.transpose(split_view, order), lowering.shape(node.outputs[0]))

    _reordered(lowering, node, moved)


@lowers("Slice")
def slices(lowering: Lowering, node: GraphNode) -> None:
    """`starts` and `steps` are resolved by the reader, one for each axis; the output's shape gives the counts."""
    starts, steps, shape = node.get("starts"), node.get("steps"), lowering.shape(node.outputs[0])

    def sliced(view: View) -> View | None:
        result: View | None = view
        for axis, (start, count, step) in enumerate(zip(starts, shape, steps, strict=True)):
            result = views.cut_out(result, axis, start, count, step) if result is not None else None
        return result

    _viewed(lowering, node, sliced)


@lowers("Split")
def split(lowering: Lowering, node: GraphNode) -> None:
    axis = int(node.get("axis", 0)) % len(lowering.shape(node.inputs[0]))
    functions, start = [], 0
    for name in node.outputs:
        count = lowering.shape(name)[axis] if name else 0  # what has no name has no elements
        functions.append(
            lambda view, start=start, count=count: views.cut_out(view, axis, start, count) if count else view
        )
        start += count
    _viewed(lowering, node, *functions)


@lowers("Gather")
def gather(lowering: Lowering, node: GraphNode) -> None:
    """By constants in equal steps, a slice; of a table by data, rows that come from outside; else a cut."""
    source, indices = node.inputs[0], lowering.graph.values[node.inputs[1]]
    shape = lowering.shape(node.outputs[0])
    axis = int(node.get("axis", 0)) % len(lowering.shape(source))
    if lowering.is_constant(source) and not indices.constant:
        batched = lowering.view(indices.name).tensor.batch is not None
        lowering.define(node, lowering.new_input(shape, node.outputs[0], batched, node))
        lowering.fates[node] = Fate("input", f"the rows of {source} that are read are an input")
        return
    if indices.data is None:
        lowering.cut(node, "gathers by data" if not indices.constant else "gathers by indices that are not in the file")
        return
    positions = indices.data.reshape(-1).astype(int) % lowering.shape(source)[axis]
    step = int(positions[1] - positions[0]) if len(positions) > 1 else 1
    if step == 0 or not np.array_equal(positions, positions[0] + step * np.arange(len(positions))):
        lowering.cut(node, "gathers by indices that are no range")
        return

    def sliced(view: View) -> View | None:
        result = views.cut_out(view, axis, int(positions[0]), len(positions), step)
        return views.reshape(result, shape) if result is not None else None

    _viewed(lowering, node, sliced)


@lowers("Concat")
def concat(lowering: Lowering, node: GraphNode) -> None:
    """Lower Concat: one tensor several times is a broadcast; others are parts of a tensor that several Einsums make."""
    axis = int(node.get("axis", 0)) % len(lowering.shape(node.outputs[0]))
    inputs = [name for name in node.inputs if name]
    if len(inputs) == 1:
        _viewed(lowering, node, lambda view: view)
    elif len(set(inputs)) == 1:
        _viewed(lowering, node, lambda view: views.repeat(view, axis, len(inputs)))
    elif lowering.caches(node, inputs):
        new = lowering.view(inputs[-1])
        lowering.define(node, lowering.cache(node, node.outputs[0], lowering.shape(node.outputs[0]), new))
    else:
        lowering.define(node, concatenated(lowering, node, [lowering.view(name) for name in inputs], axis))


@lowers("Pad")
def pad(lowering: Lowering, node: GraphNode) -> None:
    """Constant padding: indices outside of the tensor, which the window of a reader takes in; else an Einsum that copies."""
    pads, value = node.get("pads"), node.get("value", 0.0)
    rank = len(pads) // 2
    if node.get("mode", "constant") != "constant" or value is None:
        lowering.cut(node, f"pads by {node.get('mode', 'constant')}")
        return

    def padded(view: View) -> View | None:
        result: View | None = view
        for axis in range(rank):
            if result is not None and (pads[axis] or pads[rank + axis]):
                result = views.pad(result, axis, pads[axis], pads[rank + axis], value)
        return result

    view = padded(lowering.view(node.inputs[0]))
    if view is None:
        lowering.cut(node, "pads what is no single rank")
        return
    readers = lowering.readers(node.outputs[0])
    if value == 0 and readers and all(reader.operator in ("Conv", "Pad") for reader in readers):
        lowering.define(node, view)
        lowering.fates[node] = Fate("view", "in the window of its reader")
        return
    labels = axis_labels(view.shape)
    lowering.define(node, lowering.einsum(node, [(view, labels)], labels, Recipe("pad", lambda a, _: a[0])))


@lowers("Resize", "Upsample")
def resize(lowering: Lowering, node: GraphNode) -> None:
    """To a multiple of the size, by the nearest element: each of them several times."""
    shape = lowering.shape(node.outputs[0])
    times = node.get("times")
    if times is None:
        lowering.cut(node, f"resizes by {node.get('mode', 'nearest')}")
        return

    def enlarged(view: View) -> View | None:
        for axis, count in enumerate(times):
            view = views.repeat(view, axis, count, inner=True)
        return laid(view, shape)

    _viewed(lowering, node, enlarged)


@lowers("NonZero")
def nonzero(lowering: Lowering, node: GraphNode) -> None:
    """How many are found depends on data. The readers of files take an equal share, where experts share tokens."""
    lowering.cut(node, "what it finds depends on data; each expert is taken to have an equal share of the tokens")
