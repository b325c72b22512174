"""What a network is lowered to: tensors, views of them, Einsums over them, and expressions of what these compute.

Expressions are never evaluated here. They name operations, and a test runs them to prove that an Einsum means what its
node means.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from fusiest.networks.graph.graph import GraphNode
from fusiest.networks.lowering.extents import Axis, Extent, Factor, spread


@dataclass(slots=True, eq=False)
class NetTensor:
    """A tensor of the workload. Axes of size 1 are none."""

    axes: list[Axis]
    kind: str
    """`input`, `constant` (a weight, or what is computed from weights alone) or `result` (of an Einsum)."""
    source: str
    """The graph's name for it."""
    batch: Axis | None = None
    """An axis that no operator sees."""
    origin: NetTensor | None = None
    """The whole of which a constant is a part."""
    slices: dict[Axis, tuple[int, int, int]] = field(default_factory=dict)
    """Where the part begins on axes of the whole, how long it is, and its steps."""
    node: GraphNode | None = None
    """The node that was cut, of an input that is its output; or whose result several Einsums make."""
    laid: tuple[Sequence[int], Sequence[int]] | None = None
    """Shape and order of axes in which to see an input whose values are taken in another order than the network's."""

    def ranks(self) -> list[Axis]:
        """All axes, as they are split now."""
        batch_ranks = [*self.batch.leaves()] if self.batch is not None else []
        return batch_ranks + [leaf for axis in self.axes for leaf in axis.leaves()]


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A tensor as a value of the graph: for each axis of the value, which axes of the tensor it moves."""

    tensor: NetTensor
    axes: tuple[tuple[Factor, ...], ...]
    constants: Mapping[Axis, int] = field(default_factory=dict)
    """Where indices of the tensor's axes begin, if not at 0."""
    padded: float | None = None
    """What is read outside of the tensor, if the view reaches there."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(math.prod(factor.size for factor in axis) for axis in self.axes)

    @property
    def constant(self) -> bool:
        return self.tensor.kind == "constant"

    def offsets(self) -> dict[Axis, int]:
        """`constants` for the axes as they are split now."""
        offsets: dict[Axis, int] = {}
        for axis, value in self.constants.items():
            for leaf in reversed(axis.leaves()):
                offsets[leaf] = value if leaf is axis else value % leaf.size
                value //= leaf.size
        return offsets

    def same(self, other: View) -> bool:
        """Whether both read the same values in the same order."""
        return self is other or (self.tensor is other.tensor and self._key() == other._key())

    def _key(self) -> object:
        axes = [
            [(leaf.size, leaf.coefficient, leaf.axis) for leaf in spread(axis) if leaf.size > 1] for axis in self.axes
        ]
        return axes, {axis: value for axis, value in self.offsets().items() if value}, self.padded


def tensor_view(
    shape: Sequence[int], kind: str, source: str, batch: Axis | None = None, node: GraphNode | None = None
) -> View:
    """A new tensor of this shape, and the view that is the tensor itself."""
    axes = [Axis(Extent(size)) if size > 1 else None for size in shape]
    tensor = NetTensor([axis for axis in axes if axis is not None], kind, source, batch, node=node)
    return View(tensor, tuple((Factor(axis.extent, axis),) if axis is not None else () for axis in axes))


@dataclass(frozen=True, slots=True, eq=False)
class Position:
    """Where an access is on one rank: a sum of variables, and a constant."""

    terms: Mapping[Axis, int]
    constant: int = 0

    def settled(self) -> Position:
        """The position in terms of the variables as they are split now."""
        terms: dict[Axis, int] = {}
        for variable, coefficient in self.terms.items():
            for leaf in reversed(variable.leaves()):
                terms[leaf] = coefficient
                coefficient *= leaf.size
        order = [leaf for variable in self.terms for leaf in variable.leaves()]
        return Position({leaf: terms[leaf] for leaf in order}, self.constant)

    @property
    def alone(self) -> Axis | None:
        """The variable that this is, if it is nothing else."""
        if self.constant == 0 and len(self.terms) == 1:
            ((variable, coefficient),) = self.terms.items()
            return variable if coefficient == 1 else None
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """Values count only where 0 <= position < size: what lies outside is padding."""

    position: Position
    size: int


@dataclass(slots=True, eq=False)
class NetAccess:
    """How an Einsum reads or writes a tensor."""

    tensor: NetTensor
    index: dict[Axis, Position]
    guards: tuple[Guard, ...] = ()
    padded: float | None = None
    foldable: bool = False
    """A small constant, such as a bias, that needs no place of its own where its Einsum is folded into another."""

    def settle(self) -> None:
        """Split the index as the ranks and variables are split now."""
        index: dict[Axis, Position] = {}
        for rank, position in self.index.items():
            leaves = rank.leaves()
            variable = position.alone
            if len(leaves) == 1:
                index[rank] = position.settled()
            elif variable is not None:
                index.update((r, Position({v: 1})) for r, v in zip(leaves, variable.leaves(), strict=True))
            else:
                assert not position.terms, "a rank that is read at a sum is rigid"
                remainder = position.constant
                for leaf in reversed(leaves):
                    index[leaf] = Position({}, remainder % leaf.size)
                    remainder //= leaf.size
        order = {rank: i for i, rank in enumerate(self.tensor.ranks())}
        self.index = dict(sorted(index.items(), key=lambda item: order[item[0]]))
        self.guards = tuple(Guard(guard.position.settled(), guard.size) for guard in self.guards)

    @property
    def variables(self) -> set[Axis]:
        return {variable for position in self.index.values() for variable in position.terms}

    def is_whole(self, variables: Iterable[Axis]) -> bool:
        """Whether an Einsum of these variables meets every element of the tensor, each once."""
        alone = [position.alone for position in self.index.values()]
        is_in_order = all(v is not None and v.size == rank.size for v, rank in zip(alone, self.index, strict=True))
        return is_in_order and set(alone) == set(variables) and self.padded is None


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """An operation on expressions, element by element, as ONNX defines it."""

    operator: str
    arguments: tuple[Expression, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    node: GraphNode | None = None


def apply(operator: str, *arguments: Expression, **attributes: object) -> Apply:
    """An operation that is part of an operator's meaning."""
    return Apply(operator, arguments, attributes)


class _Summed:
    """What an Einsum has summed up, in the expression that comes after."""


RESULT = _Summed()
Expression: TypeAlias = Apply | View | NetAccess | _Summed


def walk(expression: Expression) -> Iterator[Expression]:
    """Every part of an expression, once, from the outside in and from left to right."""
    seen: set[int] = set()
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        if id(part) not in seen:
            seen.add(id(part))
            yield part
            if isinstance(part, Apply):
                waiting += reversed(part.arguments)


def rebuilt(expression: Expression, leaves: Mapping[int, Expression]) -> Expression:
    """The expression with other leaves, by their identity; parts that occur twice stay shared."""
    table: dict[int, Expression] = dict(leaves)
    waiting = [expression]
    while waiting:
        part = waiting[-1]
        if id(part) in table:
            waiting.pop()
        elif isinstance(part, Apply):
            missing = [argument for argument in part.arguments if id(argument) not in table]
            if missing:
                waiting += missing
                continue
            arguments = tuple(table[id(argument)] for argument in part.arguments)
            table[id(part)] = Apply(part.operator, arguments, part.attributes, part.node)
        else:
            table[id(part)] = part
    return table[id(expression)]


@dataclass(slots=True, eq=False)
class NetEinsum:
    """An Einsum, with what it computes: `after` of the `reduction`, over what the output lacks, of `body`."""

    node: GraphNode
    operation: str
    reads: list[NetAccess]
    output: NetAccess
    variables: list[Axis]
    body: Expression
    reduction: str | None = None
    after: Expression = RESULT
    folded: list[NetAccess] = field(default_factory=list)
    """Constants in the expressions that cost nothing: biases, scales."""
    suffix: str = ""
    """Tells the Einsums of one node apart."""
    nodes: list[GraphNode] = field(default_factory=list)
    """Nodes that were folded into it."""
    instances: int = 1
    copy: bool = False
    move: bool = False
    """It only puts a part of a tensor where it belongs."""
    elementwise: bool = False
    """An expression over one tensor and small constants, which the Einsum before it could compute as well."""

    @property
    def macs(self) -> bool:
        """Whether its points are multiply-accumulates."""
        return self.operation == "matmul"

    @property
    def operands(self) -> tuple[NetAccess, ...]:
        """All that it reads, constants that cost nothing included."""
        return (*self.reads, *self.folded)

    @property
    def accesses(self) -> tuple[NetAccess, ...]:
        """All that it reads, and what it writes."""
        return (*self.operands, self.output)

    def settle(self) -> None:
        self.variables = [leaf for variable in self.variables for leaf in variable.leaves()]
        for access in self.accesses:
            access.settle()

    @property
    def points(self) -> int:
        """Size of the iteration space."""
        return math.prod((variable.size for variable in self.variables), start=self.instances)
