"""A part of a network: the nodes between two of them."""

from __future__ import annotations

from fusiest.base.errors import SpecError, did_you_mean
from fusiest.networks.graph.graph import GraphNode, NetworkGraph, reached


def between(graph: NetworkGraph, first: str | None, last: str | None) -> NetworkGraph:
    """The nodes that depend on `first` and that `last` depends on, both included.

    What comes from outside is an input; what `last` gives, or without it what the network gives, is the output.
    """
    if first is None and last is None:
        return graph
    readers, producers = graph.readers(), graph.producers()
    below, end = set(graph.nodes), _find(graph, last) if last is not None else None
    if first is not None:
        below = reached([_find(graph, first)], lambda node: [r for name in node.outputs for r in readers.get(name, [])])
    ends = [end] if end is not None else [producers[name] for name in graph.outputs if name in producers]
    above = reached(ends, lambda node: [producers[name] for name in node.inputs if name in producers])
    nodes = [node for node in graph.nodes if node in below & above or graph.is_constant(node)]
    if all(map(graph.is_constant, nodes)):
        raise SpecError(f"{graph.name}: nothing lies from {first} to {last}")
    produced = {name for node in nodes for name in node.outputs}
    read = dict.fromkeys(name for node in nodes for name in node.inputs if name)
    inputs = [name for name in read if name not in produced and not graph.values[name].constant]
    outputs = list(end.outputs) if end is not None else [name for name in graph.outputs if name in produced]
    return NetworkGraph(graph.name, nodes, graph.values, inputs, [name for name in outputs if name])


def _find(graph: NetworkGraph, name: str) -> GraphNode:
    """By its name, or by that of a value that it makes."""
    for node in graph.nodes:
        if name in (node.name, *node.outputs):
            return node
    raise SpecError(f"{graph.name}: there is no node {name}{did_you_mean(name, [node.name for node in graph.nodes])}")
