"""Patches of an image, as vision transformers take them: a convolution of an input whose windows do not overlap, laid in a row.

Rows and columns of places cannot be one rank of a tensor as long as the image has two. But where an input lies in the outermost
memory in which order is free: here, patch by patch. Then the convolution is a product.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fusiest.networks.graph.graph import GraphNode, NetworkGraph
from fusiest.networks.lowering import views
from fusiest.networks.lowering.contractions import contracted, finished
from fusiest.networks.lowering.lower import Lowering, lowers
from fusiest.networks.lowering.making import labelled
from fusiest.networks.lowering.tensors import tensor_view


def patches_in_a_row(
    graph: NetworkGraph, readers: Mapping[str, Sequence[GraphNode]], conv: GraphNode
) -> GraphNode | None:
    """A convolution of an input, with what flattens the places of its windows; None if it is something else."""
    after = readers.get(conv.outputs[0], [])
    image, weight = conv.input(0), conv.input(1)
    if len(after) != 1 or after[0].operator not in ("Reshape", "Flatten") or conv.outputs[0] in graph.outputs:
        return None
    if (
        image not in graph.inputs
        or image in graph.outputs
        or any(len(readers.get(n, ())) != 1 for n in (image, weight))
    ):
        return None
    shapes = [graph.shape(name) for name in (image, weight, conv.outputs[0])]
    if len({len(shape) for shape in shapes}) > 1 or len(shapes[0]) < 3:
        return None
    (batch, _, *space), (_, _, *kernel), (_, channels, *places) = shapes
    covers = [p * r for p, r in zip(places, kernel, strict=True)] == space and kernel == list(conv.get("strides", [1]))
    plain = conv.get("group", 1) == 1 and not any(conv.get("pads", [])) and graph.values[weight].constant
    if not (covers and plain and graph.shape(after[0].outputs[0]) == (batch, channels, math.prod(places))):
        return None
    return GraphNode(conv.name, "Patches", conv.inputs, after[0].outputs, {}, conv.path, parts=(conv, after[0]))


@lowers("Patches")
def patches(lowering: Lowering, node: GraphNode) -> None:
    """`O[k,m] = I[m,c] * W[k,c]`, where c is all that is in a patch."""
    name, weight = node.inputs[:2]
    shape = lowering.shape(node.outputs[0])
    batch, channels, *space = lowering.shape(name)
    kernel = lowering.shape(weight)[2:]
    inside = channels * math.prod(kernel)
    x = lowering.new_input([batch, shape[2], inside], name, batched=True)
    pairs = [n for size, r in zip(space, kernel, strict=True) for n in (size // r, r)]
    places, windows = range(2, 2 + len(pairs), 2), range(3, 3 + len(pairs), 2)
    x.tensor.laid = (batch, channels, *pairs), (0, *places, 1, *windows)
    w = tensor_view([shape[1], inside], "constant", weight)
    n, m, c, k = labelled("nmck", (batch, shape[2], inside, shape[1]))
    roles = {"n": "b", "m": "m", "c": "d", "k": "d"}
    result = contracted(lowering, node, [(x, [n, m, c]), (w, [k, c])], [n, m, k], [k], None, roles)
    lowering.define(node, finished(lowering, node, views.transpose(result, [0, 2, 1]), 1))
    lowering.note(f"{name} is taken from the outermost memory patch by patch")
