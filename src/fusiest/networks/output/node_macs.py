"""Multiply-accumulates of nodes that became no Einsum, by their shapes: what a cut leaves out is said, too."""

from __future__ import annotations

from math import prod

from fusiest.networks.graph.graph import GraphNode, NetworkGraph
from fusiest.networks.lowering.contractions import equation, quantization
from fusiest.networks.lowering.lower import LOWER
from fusiest.networks.lowering.making import Unfit
from fusiest.networks.lowering.recurrences import GATES


def node_macs(graph: NetworkGraph, node: GraphNode) -> int | None:
    """Multiply-accumulates of a node: 0 if it is no product, None if its shapes do not say."""
    if node.operator not in LOWER or node.get("unresolved") or node.operator == "Attention":
        return None
    try:
        return _products(graph, node)
    except (KeyError, IndexError, Unfit):
        return None


def _products(graph: NetworkGraph, node: GraphNode) -> int:
    operands = quantization(node)
    match node.operator:
        case "Conv" | "ConvInteger" | "QLinearConv" | "Patches":
            weight = graph.shape(operands.second)
            return prod(graph.shape(node.outputs[0])) * prod(weight[1:])
        case "ConvTranspose":
            return prod(graph.shape(node.inputs[0])) * prod(graph.shape(node.inputs[1])[1:])
        case "MatMul" | "MatMulInteger" | "QLinearMatMul":
            return prod(graph.shape(node.outputs[0])) * graph.shape(operands.first)[-1]
        case "Gemm":
            return prod(graph.shape(node.outputs[0])) * graph.shape(node.inputs[0])[0 if node.get("transA", 0) else 1]
        case "Einsum" if len(node.inputs) > 1:
            shapes = [graph.shape(name) for name in node.inputs]
            terms, _ = equation(str(node.get("equation", "")), [len(shape) for shape in shapes])
            sizes = {
                (label, size)
                for term, shape in zip(terms, shapes, strict=True)
                for label, size in zip(term, shape, strict=True)
            }
            return prod(max(size for other, size in sizes if other == label) for label in {label for label, _ in sizes})
        case operator if operator in GATES:
            steps, batch = graph.shape(node.inputs[0])[:2]
            return steps * batch * sum(prod(graph.shape(name)) for name in node.inputs[1:3])
    return 0
