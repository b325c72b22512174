"""Broken networks: models with random changes, as a careless or hostile exporter would write them."""

from __future__ import annotations

import random
from typing import Any

import onnx

NUMBERS = [0, 1, -1, 2, 3, 7, 64, 1000, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63), -5]
FLOATS = [0.0, -1.0, 0.5, 3.0, 1e30, -1e30, float("inf"), float("nan")]
NAMES = [
    "",
    "x",
    "no such value",
    "a\nb",
    "{{ 1 }}",
    "{% for %}",
    "é\u2028",
    "a" * 5000,
    "[m, n]",
    '"',
    "input",
    "weight",
    "All",
    "for",
    "0",
]


def mutated(model: onnx.ModelProto, dice: random.Random) -> onnx.ModelProto:
    """The model with one to four changes."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for _ in range(dice.choice([1, 1, 2, 4])):
        dice.choice([_node, _attribute, _attribute, _shape, _constant, _edge, _outputs, _operator])(found.graph, dice)
    return found


def _node(graph: onnx.GraphProto, dice: random.Random) -> None:
    """Drop, repeat, exchange or rename a node."""
    if not graph.node:
        return
    i = dice.randrange(len(graph.node))
    kind = dice.randrange(4)
    if kind == 0:
        del graph.node[i]
    elif kind == 1:
        graph.node.add().CopyFrom(graph.node[i])
    elif kind == 2:
        j = dice.randrange(len(graph.node))
        one, other = onnx.NodeProto(), onnx.NodeProto()
        one.CopyFrom(graph.node[i])
        other.CopyFrom(graph.node[j])
        graph.node[i].CopyFrom(other)
        graph.node[j].CopyFrom(one)
    else:
        graph.node[i].name = dice.choice(NAMES)


def _operator(graph: onnx.GraphProto, dice: random.Random) -> None:
    if graph.node:
        one = dice.choice(graph.node)
        one.op_type = dice.choice(
            [
                dice.choice(graph.node).op_type,
                "Loop",
                "NoSuch",
                "",
                "If",
                "TopK",
                "Concat",
                "Reshape",
                "Einsum",
                "Resize",
            ]
        )
        one.domain = dice.choice(["", "", "", "com.microsoft", "x\ny"])


def _attribute(graph: onnx.GraphProto, dice: random.Random) -> None:
    nodes = [node for node in graph.node if node.attribute]
    if not nodes:
        return
    node = dice.choice(nodes)
    attribute = dice.choice(node.attribute)
    kind = dice.randrange(6)
    if kind == 0:
        node.attribute.remove(attribute)
    elif kind == 1:
        attribute.i = dice.choice(NUMBERS)
    elif kind == 2 and len(attribute.ints):
        attribute.ints[dice.randrange(len(attribute.ints))] = dice.choice(NUMBERS)
    elif kind == 3:
        del attribute.ints[:]
        attribute.ints.extend(dice.choice(NUMBERS) for _ in range(dice.randrange(6)))
    elif kind == 4:
        attribute.type = dice.choice([1, 2, 3, 4, 6, 7, 8, 5])
    else:
        attribute.s, attribute.f = dice.choice(NAMES).encode(), dice.choice(FLOATS)


def _shape(graph: onnx.GraphProto, dice: random.Random) -> None:
    infos: list[Any] = [*graph.input]
    if infos:
        dims = dice.choice(infos).type.tensor_type.shape.dim
        kind = dice.randrange(4)
        if kind == 0 and dims:
            del dims[dice.randrange(len(dims))]
        elif kind == 1:
            dims.add().dim_value = dice.choice(NUMBERS)
        elif kind == 2 and dims:
            dice.choice(dims).dim_param = dice.choice(NAMES)
        elif dims:
            dice.choice(dims).dim_value = dice.choice(NUMBERS)


def _constant(graph: onnx.GraphProto, dice: random.Random) -> None:
    if not graph.initializer:
        return
    tensor = dice.choice(graph.initializer)
    kind = dice.randrange(5)
    if kind == 0 and tensor.dims:
        tensor.dims[dice.randrange(len(tensor.dims))] = dice.choice(NUMBERS)
    elif kind == 1:
        tensor.raw_data = tensor.raw_data[: dice.randrange(len(tensor.raw_data) + 1)]
    elif kind == 2:
        tensor.data_type = dice.choice(range(24))
    elif kind == 3 and len(tensor.raw_data) >= 8:
        value = dice.choice(NUMBERS) % 2**64
        at = 8 * dice.randrange(len(tensor.raw_data) // 8)
        tensor.raw_data = tensor.raw_data[:at] + value.to_bytes(8, "little") + tensor.raw_data[at + 8 :]
    else:
        tensor.data_location = 1
        tensor.ClearField("raw_data")


def _edge(graph: onnx.GraphProto, dice: random.Random) -> None:
    if not graph.node:
        return
    node = dice.choice(graph.node)
    names = [name for one in graph.node for name in (*one.input, *one.output)] + NAMES
    kind = dice.randrange(4)
    if kind == 0 and node.input:
        node.input[dice.randrange(len(node.input))] = dice.choice(names)
    elif kind == 1 and node.input:
        del node.input[dice.randrange(len(node.input))]
    elif kind == 2:
        node.input.append(dice.choice(names))
    elif node.output:
        node.output[dice.randrange(len(node.output))] = dice.choice(names)


def _outputs(graph: onnx.GraphProto, dice: random.Random) -> None:
    names = [name for one in graph.node for name in one.output] + NAMES[:4]
    if dice.random() < 0.5 and graph.output:
        del graph.output[dice.randrange(len(graph.output))]
    else:
        graph.output.add().name = dice.choice(names)
