"""Operators that exporters write out as many, put together again: RMSNorm, LayerNorm, GroupNorm, rotary embedding, patches. What changes
no value (another floating type, a softmax made safe against rows without a number) is taken for what it is.

A group of nodes is recognized only if nothing outside of it reads what is inside. The new node remembers its parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fusiest.networks.graph.graph import ONNX_FLOATING, GraphNode, NetworkGraph
from fusiest.networks.lowering.patches import patches_in_a_row

_PASSING = ("Cast", "Identity")


def recognized(graph: NetworkGraph) -> NetworkGraph:
    """The graph with groups of nodes replaced by the operators that they are."""
    search = _Recognition(graph)
    for node in graph.nodes:
        if node.operator == "ReduceMean":
            search.take(_normalization(search, node))
        elif node.operator == "InstanceNormalization":
            search.take(_group_normalization(search, node))
        elif node.operator == "Add":
            search.take(_rotary(search, node))
        elif node.operator == "Where":
            search.take(_safe_softmax(search, node))
        elif node.operator == "Conv":
            search.take(patches_in_a_row(graph, search.readers, node))
    nodes = [search.last.get(node) or _plain(graph, node) for node in graph.nodes if node not in search.absorbed]
    return NetworkGraph(graph.name, nodes, graph.values, graph.inputs, graph.outputs, graph.nodes)


@dataclass(slots=True)
class _Recognition:
    """The graph to look around in, and what was found."""

    graph: NetworkGraph
    producers: dict[str, GraphNode] = field(default_factory=dict)
    readers: dict[str, list[GraphNode]] = field(default_factory=dict)
    last: dict[GraphNode, GraphNode] = field(default_factory=dict)
    """What stands for a group, by the last of its nodes."""
    absorbed: set[GraphNode] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.producers, self.readers = self.graph.producers(), self.graph.readers()

    def take(self, group: GraphNode | None) -> None:
        """Enter a group, unless something else needs what is inside or is made of the same nodes."""
        if group is None or any(part in self.absorbed or part in self.last for part in group.parts):
            return
        inside = set(group.parts)
        end = next(part for part in group.parts if part.outputs[0] == group.outputs[0])
        for part in group.parts:
            for name in part.outputs:
                outside = any(reader not in inside for reader in self.readers.get(name, []))
                if part is not end and name and (outside or name in self.graph.outputs):
                    return
        self.last[end] = group
        self.absorbed |= inside - {end}

    def maker(self, name: str, *operators: str, members: list[GraphNode]) -> GraphNode | None:
        """The node that makes a value, casts in between aside, if it is one of these operators."""
        node = self.producers.get(name)
        passed = []
        while node is not None and node.operator in _PASSING:
            passed.append(node)
            node = self.producers.get(node.inputs[0])
        if node is None or node.operator not in operators or self.graph.values[node.outputs[0]].constant:
            return None
        members += [*passed, node]
        return node

    def reader(self, name: str, members: list[GraphNode]) -> GraphNode | None:
        """The only node that reads a value, casts in between aside."""
        while True:
            readers = self.readers.get(name, [])
            if len(readers) != 1 or name in self.graph.outputs:
                return None
            if readers[0].operator not in _PASSING:
                return readers[0]
            members.append(readers[0])
            name = readers[0].outputs[0]

    def source(self, name: str) -> str:
        """A value before casts."""
        node = self.producers.get(name)
        while node is not None and node.operator in _PASSING:
            name = node.inputs[0]
            node = self.producers.get(name)
        return name

    def other_operand(self, node: GraphNode, name: str) -> str | None:
        """The operand of a node that is not this value."""
        operands = [operand for operand in node.inputs if self.source(operand) != self.source(name)]
        return operands[0] if len(node.inputs) == 2 and len(operands) == 1 else None

    def is_scalar(self, name: str, value: float | None = None) -> bool:
        scalar = self.graph.scalar(name)
        return scalar is not None and (value is None or abs(scalar - value) < 1e-6)

    def is_vector(self, name: str, size: int) -> bool:
        """A constant with a value for each index of the last axis."""
        value = self.graph.values[name]
        return value.constant and value.size == size and (not value.shape or value.shape[-1] == size)


def _group(
    kind: str, inputs: list[str], end: GraphNode, path: str, members: list[GraphNode], attributes: dict[str, Any]
) -> GraphNode:
    """The operator that these members are, of which `end` is the last."""
    parts = tuple(dict.fromkeys(members))
    return GraphNode(end.name, kind, tuple(inputs), end.outputs, attributes, path, parts=parts)


def _plain(graph: NetworkGraph, node: GraphNode) -> GraphNode:
    """A cast to a floating type is a view: how wide values are is for the workload to say."""
    if node.operator != "Cast":
        return node
    if not (node.get("to") in ONNX_FLOATING if node.get("to") else graph.values[node.outputs[0]].floating):
        return node
    return replace(node, operator="Identity", attributes={}, original=node.file_operator, parts=(node,))


def _safe_softmax(search: _Recognition, end: GraphNode) -> GraphNode | None:
    """`where(isnan(s), 0, s)` of a softmax: rows that are masked as a whole."""
    if len(end.inputs) != 3:
        return None
    test = search.producers.get(end.inputs[0])
    if test is None or test.operator != "IsNaN" or test.inputs[0] != end.inputs[2]:
        return None
    if not search.is_scalar(end.inputs[1], 0.0) or search.maker(test.inputs[0], "Softmax", members=[]) is None:
        return None
    if search.graph.shape(end.outputs[0]) != search.graph.shape(test.inputs[0]):
        return None
    return GraphNode(end.name, "Identity", (test.inputs[0],), end.outputs, {}, end.path, end.operator, (test, end))


# --- normalizations -------------------------------------------------------------------------------------------------


def _normalization(search: _Recognition, mean: GraphNode) -> GraphNode | None:
    """`x / sqrt(mean(x²) + ε) · γ`, or the same of `x − mean(x)`, plus β."""
    members = [mean]
    rank = len(search.graph.shape(mean.inputs[0]))
    axes = sorted(axis % rank for axis in mean.get("axes", ()))
    if axes != list(range(rank - len(axes), rank)) or not axes or not mean.get("keepdims", 1):
        return None
    squared = _squared(search, mean.inputs[0], members)
    if squared is None:
        return None
    scaled = _divided(search, mean, squared, members)
    if scaled is None:
        return None
    end, epsilon, numerator = scaled
    inputs = [numerator]
    kind = "RMSNormalization"
    centre = _centred(search, numerator, squared, axes, members)
    if centre is not None:
        kind, inputs = "LayerNormalization", [centre]
    width = search.graph.shape(mean.inputs[0])[-1]
    end = _scaled_and_shifted(search, end, width if len(axes) == 1 else 0, inputs, members, shift=kind[0] == "L")
    return _group(kind, inputs, end, mean.path, members, {"axis": axes[0], "epsilon": epsilon})


def _squared(search: _Recognition, name: str, members: list[GraphNode]) -> str | None:
    """x of `x²`."""
    square = search.maker(name, "Pow", "Mul", members=members)
    if square is None:
        return None
    first, second = square.inputs
    if square.operator == "Pow":
        return search.source(first) if search.is_scalar(second, 2.0) else None
    return search.source(first) if search.source(first) == search.source(second) else None


def _divided(
    search: _Recognition, mean: GraphNode, squared: str, members: list[GraphNode]
) -> tuple[GraphNode, float, str] | None:
    """The division by the root of a mean: its node, ε, and what is divided."""
    added = search.reader(mean.outputs[0], members)
    if added is None or added.operator != "Add":
        return None
    epsilon = next((search.graph.scalar(name) for name in added.inputs if search.is_scalar(name)), None)
    root = search.reader(added.outputs[0], members)
    if epsilon is None or root is None:
        return None
    members += [added, root]
    name = root.outputs[0]
    inverse = root.operator == "Pow" and search.is_scalar(root.inputs[1], -0.5)
    if root.operator == "Sqrt":
        after = search.reader(name, members)
        one_over = after is not None and after.operator == "Div" and search.is_scalar(after.inputs[0], 1.0)
        if after is not None and (after.operator == "Reciprocal" or one_over):
            members.append(after)
            name, inverse = after.outputs[0], True
    elif not inverse:
        return None
    end = search.reader(name, members)
    if end is None or end.operator != ("Mul" if inverse else "Div"):
        return None
    members.append(end)
    numerator = search.other_operand(end, name)
    if numerator is None or (not inverse and search.source(end.inputs[1]) != search.source(name)):
        return None
    is_same_square = search.source(numerator) == squared or _same_difference(search, search.source(numerator), squared)
    return (end, epsilon, numerator) if is_same_square else None


def _same_difference(search: _Recognition, left: str, right: str) -> bool:
    """Two nodes that compute the same difference."""
    makers = [search.producers.get(name) for name in (left, right)]
    if any(node is None or node.operator != "Sub" for node in makers):
        return False
    first, second = ([search.source(name) for name in node.inputs] for node in makers if node is not None)
    return first == second


def _centred(
    search: _Recognition, numerator: str, squared: str, axes: list[int], members: list[GraphNode]
) -> str | None:
    """x, if what is normalized is `x − mean(x)`."""
    inner: list[GraphNode] = []
    differences = [search.maker(name, "Sub", members=inner) for name in dict.fromkeys([numerator, squared])]
    if any(node is None for node in differences):
        return None
    subtractions = [node for node in differences if node is not None]
    mean = search.maker(subtractions[0].inputs[1], "ReduceMean", members=inner)
    if mean is None or search.source(mean.inputs[0]) != search.source(subtractions[0].inputs[0]):
        return None
    rank = len(search.graph.shape(mean.inputs[0]))
    if sorted(axis % rank for axis in mean.get("axes", ())) != axes:
        return None
    members += inner
    return subtractions[0].inputs[0]


def _scaled_and_shifted(
    search: _Recognition, end: GraphNode, width: int, inputs: list[str], members: list[GraphNode], shift: bool
) -> GraphNode:
    """The multiplication with γ and the addition of β that follow, if they do."""
    for operator in ("Mul", "Add") if shift else ("Mul",):
        passed: list[GraphNode] = []
        after = search.reader(end.outputs[0], passed)
        if after is None or after.operator != operator:
            break
        constants = [name for name in after.inputs if search.is_vector(name, width)]
        if (
            not width
            or len(constants) != 1
            or len(search.graph.shape(after.outputs[0])) != len(search.graph.shape(end.outputs[0]))
        ):
            break
        inputs.append(constants[0])
        members += [*passed, after]
        end = after
    return end


def _group_normalization(search: _Recognition, norm: GraphNode) -> GraphNode | None:
    """A reshape to groups, instance normalization without parameters, the reshape back, γ and β."""
    graph, members = search.graph, [norm]
    before = search.maker(norm.inputs[0], "Reshape", members=members)
    after = search.reader(norm.outputs[0], members)
    if before is None or after is None or after.operator != "Reshape":
        return None
    shape, groups = graph.shape(before.inputs[0]), graph.shape(norm.inputs[0])
    plain = _all(graph, norm.input(1), 1.0) and _all(graph, norm.input(2), 0.0)
    if (
        not plain
        or graph.shape(after.outputs[0]) != shape
        or len(shape) < 3
        or len(groups) != 3
        or groups[0] != shape[0]
    ):
        return None
    if shape[1] % groups[1]:
        return None
    members.append(after)
    inputs, end = [before.inputs[0]], after
    for operator in ("Mul", "Add"):
        node = search.reader(end.outputs[0], [])
        if node is None or node.operator != operator:
            break
        constant = next((name for name in node.inputs if _per_channel(graph, name, shape)), None)
        if constant is None:
            break
        inputs.append(constant)
        members.append(node)
        end = node
    attributes = {"num_groups": groups[1], "epsilon": norm.get("epsilon", 1e-5)}
    return _group("GroupNormalization", inputs, end, norm.path, members, attributes)


def _all(graph: NetworkGraph, name: str, value: float) -> bool:
    data = graph.values[name].data if name else None
    return data is not None and bool(np.all(data == value))


def _per_channel(graph: NetworkGraph, name: str, shape: tuple[int, ...]) -> bool:
    value = graph.values[name]
    expected = (shape[1],) + (1,) * (len(shape) - 2)
    return value.constant and value.shape in (expected, (1, *expected))


# --- rotary embedding -----------------------------------------------------------------------------------------------


def _rotary(search: _Recognition, end: GraphNode) -> GraphNode | None:
    """`x · cos + [−x₂, x₁] · sin`."""
    for first, second in (end.inputs, end.inputs[::-1]) if len(end.inputs) == 2 else ():
        members = [end]
        straight, crossed = search.maker(first, "Mul", members=members), search.maker(second, "Mul", members=members)
        if straight is None or crossed is None:
            return None
        for turned, sine in (crossed.inputs, crossed.inputs[::-1]):
            candidates = list(members)
            x = _half_turned(search, turned, candidates)
            cosine = search.other_operand(straight, x) if x is not None else None
            if x is not None and cosine is not None and search.source(x) in map(search.source, straight.inputs):
                inputs = [x, cosine, sine]
                return _group("RotaryEmbedding", inputs, end, end.path, candidates, {"per_element": True})
    return None


def _half_turned(search: _Recognition, name: str, members: list[GraphNode]) -> str | None:
    """x of `concat(−x[half:], x[:half])`."""
    joined = search.maker(name, "Concat", members=members)
    if joined is None or len(joined.inputs) != 2:
        return None
    rank = len(search.graph.shape(joined.outputs[0]))
    minus = search.maker(joined.inputs[0], "Neg", members=members)
    if minus is None or int(joined.get("axis", 0)) % rank != rank - 1:
        return None
    halves = list(_halves(search, (joined.inputs[1], minus.inputs[0]), members))
    if len(halves) != 2 or halves[0][0] != halves[1][0]:
        return None
    source, half = halves[0][0], search.graph.shape(halves[0][0])[-1] // 2
    starts = [start for _, start in halves]
    return source if starts == [0, half] and search.graph.shape(joined.inputs[1])[-1] == half else None


def _halves(search: _Recognition, names: tuple[str, str], members: list[GraphNode]) -> Iterator[tuple[str, int]]:
    """What each is cut from along the last axis, and where it begins."""
    for name in names:
        node = search.maker(name, "Slice", "Split", members=members)
        if node is None:
            return
        rank = len(search.graph.shape(node.inputs[0]))
        if node.operator == "Split":
            if int(node.get("axis", 0)) % rank == rank - 1:
                before = node.outputs[: node.outputs.index(search.source(name))]
                yield node.inputs[0], sum(search.graph.shape(output)[-1] for output in before if output)
        elif all(s == 1 for s in node.get("steps")) and not any(node.get("starts")[:-1]):
            yield node.inputs[0], node.get("starts")[-1]
