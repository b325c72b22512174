"""A network as a graph of operators, whoever exported it: what the readers give and the lowering takes.

Operators have ONNX's names and meanings. Shapes are known, constants are marked; their values are kept only where they are
few, as those of a shape or a scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=Hashable)
ONNX_FLOATING = frozenset([1, 10, 11, 16, 17, 18, 19, 20, 23])
"""ONNX's numbers of the types with a point."""
_TRUTHS = frozenset(
    ["And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor"]
)
"""Operators whose results are true or false."""
RANDOM = frozenset(
    ["RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli"]
)
MAX_KEPT = 4096
"""Constants with more values than this are not looked at."""


@dataclass(frozen=True, slots=True)
class GraphValue:
    """What flows along an edge."""

    name: str
    shape: tuple[int, ...]
    constant: bool = False
    data: np.ndarray[Any, Any] | None = None
    """The values of a small constant."""
    floating: bool = True
    unsigned: bool = False
    parameter: bool = False
    """A weight of the network, as opposed to a table or a mask."""

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def is_floating(kind: str, inputs: Sequence[GraphValue | None], attributes: Mapping[str, Any]) -> bool:
    """Whether results have a point: what is true or false, or a whole number, is a mask where scores are masked by it."""
    if kind == "Cast":
        return attributes.get("to") in ONNX_FLOATING
    return kind in RANDOM or (kind not in _TRUTHS and any(value is not None and value.floating for value in inputs))


@dataclass(frozen=True, slots=True, eq=False)
class GraphNode:
    """One operator. An input that is left out is an empty name."""

    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    path: str = ""
    """The module that it is in, such as `layer1.0.conv1`; empty where nothing says."""
    original: str = ""
    """What the file calls the operator, if that is another name."""
    parts: tuple[GraphNode, ...] = ()
    """Nodes of the file that were recognized as this one."""

    def input(self, position: int) -> str:
        """The name of an input; empty where it is left out."""
        return self.inputs[position] if position < len(self.inputs) else ""

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        value = self.attributes.get(name)
        return default if value is None else value

    @property
    def file_operator(self) -> str:
        """What the file calls the operator."""
        return self.original or self.operator

    def __str__(self) -> str:
        return f"{self.file_operator} {self.name}".strip()


@dataclass(slots=True)
class NetworkGraph:
    """Nodes in an order in which every value is made before it is used."""

    name: str
    nodes: list[GraphNode] = field(default_factory=list)
    values: dict[str, GraphValue] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    file_nodes: list[GraphNode] = field(default_factory=list)
    """The nodes as the file has them, where some of `nodes` stand for several."""

    def shape(self, name: str) -> tuple[int, ...]:
        return self.values[name].shape

    def is_constant(self, node: GraphNode) -> bool:
        """Whether all that a node gives is constant."""
        return all(self.values[name].constant for name in node.outputs if name)

    def readers(self) -> dict[str, list[GraphNode]]:
        """The nodes that use a value."""
        readers: dict[str, list[GraphNode]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                if name:
                    readers.setdefault(name, []).append(node)
        return readers

    def producers(self) -> dict[str, GraphNode]:
        return {name: node for node in self.nodes for name in node.outputs if name}

    def scalar(self, name: str) -> float | None:
        """The value of a constant with one value, if it is known."""
        value = self.values.get(name)
        if value is None or value.data is None or value.data.size != 1:
            return None
        return float(value.data.reshape(-1)[0])

    def constants(self, node: GraphNode) -> Iterator[str]:
        return (name for name in node.inputs if name and self.values[name].constant)


def entered_in(table: dict[str, F], prefix: str = "") -> Callable[..., Callable[[F], F]]:
    """A decorator that enters a function into the table, under each of its arguments.

    >>> table = {}
    >>> _ = entered_in(table)("Abs", "Neg")(str.upper)
    >>> list(table)
    ['Abs', 'Neg']
    """

    def under(*names: str) -> Callable[[F], F]:
        def enter(function: F) -> F:
            table.update((prefix + name, function) for name in names)
            return function

        return enter

    return under


def reached(starts: Iterable[T], onward: Callable[[T], Iterable[T]]) -> set[T]:
    """All that one comes to from here, the start included.

    >>> sorted(reached([3], lambda n: [n // 2]))
    [0, 1, 3]
    """
    places: set[T] = set()
    waiting = list(starts)
    while waiting:
        place = waiting.pop()
        if place not in places:
            places.add(place)
            waiting += onward(place)
    return places


def equal_share(shape: Sequence[int], chosen: int) -> int:
    """Tokens of an expert, if all that work have as many: each row of scores, one for an expert, chooses some of them.

    >>> equal_share((8, 4), 2), equal_share((1, 8), 2), equal_share((5, 4), 2)
    (4, 1, 3)
    """
    choices = math.prod(shape[:-1]) * chosen
    return -(-choices // max(1, min(shape[-1], choices)))
