"""The architecture as the user wrote it: frozen objects, expressions not yet evaluated.

`binding` evaluates them for one Einsum. A `Value` is a number or the text of an expression.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from fusiest.frozen import FrozenDict
from fusiest.spec.variables import VariableValue

Value: TypeAlias = int | float | str
PerTensor: TypeAlias = int | float | str | FrozenDict[str, Value]
"""One value for all tensors, or values by set expression (disjoint; `Other` is the rest)."""

SMALLEST, LARGEST = 1e-100, 1e100
"""What a number may be besides 0 and infinity: costs are products of few of these and counts, and stay numbers."""

OPERATORS = ("==", "<=", ">=", "<", ">", "product==", "product<=", "product>=", "product<", "product>")


class FieldError(ValueError):
    """A field with an impossible value; the reader adds file and line. `at` is text nearer to it than the field."""

    def __init__(self, field_name: str, message: str, at: str | None = None) -> None:
        self.field_name = field_name
        self.message = message
        self.at = at
        super().__init__(f"{field_name}: {message}")


_POSITIVE = frozenset(
    ["throughput", "throughput_scale", "bits_per_action", "values_per_action", "bits_per_value",
     "n_parallel_instances", "usage_scale"]
)  # fmt: skip
_FINITE = frozenset(
    ["energy", "energy_scale", "throughput_scale", "actions_scale", "leak_power", "leak_power_scale", "area",
     "area_scale", "bits_per_value", "n_parallel_instances", "usage_scale"]
)  # fmt: skip


def complaint(name: str, value: int | float) -> str | None:
    """Why a field cannot have this value; None if it can.

    >>> complaint("size", -1)
    'size must not be negative, but is -1'
    """
    if name == "fanout" and not (1 <= value < math.inf and value == int(value)):
        return f"fanout must be a whole number of at least 1, but is {value}"
    if name == "min_usage" and not 0 <= value <= 1:
        return f"min_usage is a fraction of the fanout, from 0 to 1, but is {value}"
    if name in _POSITIVE and not value > 0:
        return f"{name} must be positive, but is {value}"
    if not value >= 0:
        return f"{name} must not be negative, but is {value}"
    if name in _FINITE and value == math.inf:
        return f"{name} must be finite"
    if LARGEST < value < math.inf:
        return f"{name} is too large"
    if 0 < value < SMALLEST:
        return f"{name} is too small"
    return None


def check_numbers(owner: object, *names: str) -> None:
    """Refuse impossible numbers; what is still an expression is checked by `binding`."""
    for name in names:
        field_value = getattr(owner, name)
        table = field_value if isinstance(field_value, FrozenDict) else {None: field_value}
        for key, value in table.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                wrong = complaint(name, value)
                if wrong:
                    raise FieldError(name, wrong, key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a component does for energy and time: `read`, `write` or `compute`."""

    name: str
    energy: Value | None = None
    throughput: Value | None = None
    bits_per_action: PerTensor | None = None
    values_per_action: PerTensor | None = None
    energy_scale: Value = 1
    throughput_scale: Value = 1
    actions_scale: Value = 1

    def __post_init__(self) -> None:
        check_numbers(
            self, "energy", "throughput", "bits_per_action", "values_per_action",
            "energy_scale", "throughput_scale", "actions_scale",
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """For each rank variable of the set `expression`: its loop bound or tile extent `operator` `value`."""

    expression: str
    operator: str
    value: Value

    def __post_init__(self) -> None:
        if self.operator not in OPERATORS:
            raise FieldError("operator", f"operator '{self.operator}' is none of {' '.join(OPERATORS)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One dimension of a fanout: the node that carries it, and all below, exist `fanout` times."""

    name: str
    fanout: Value
    may_reuse: str | None = None
    reuse: str | None = None
    loop_bounds: tuple[Comparison, ...] = ()
    min_usage: Value = 0
    usage_scale: Value = 1
    power_gateable: bool = False

    def __post_init__(self) -> None:
        check_numbers(self, "fanout", "min_usage", "usage_scale")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensors:
    """What a memory or Toll may, must and must not do with which tensors. Sets are expressions."""

    keep: str | None = None
    may_keep: str | None = None
    back: str = "Nothing"
    tile_shape: tuple[Comparison, ...] = ()
    no_refetch_from_above: str = "Nothing"
    no_resend_to_below: str = "Nothing"
    no_fused_loops: str = "Nothing"
    tensor_order_options: tuple[tuple[str, ...], ...] = ()
    force_memory_hierarchy_order: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A node without a function of its own; it carries a fanout."""

    name: str
    spatial: tuple[Dimension, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Component(Container):
    """What Memory, Toll and Compute have in common."""

    component_class: str | None = None
    enabled: Value = True
    leak_power: Value | None = None
    area: Value | None = None
    actions: tuple[Action, ...] = ()
    total_latency: str | None = None
    n_parallel_instances: Value = 1
    bits_per_action: PerTensor | None = None
    values_per_action: PerTensor | None = None
    bits_per_value: PerTensor | None = None
    energy_scale: Value = 1
    throughput_scale: Value = 1
    actions_scale: Value = 1
    leak_power_scale: Value = 1
    area_scale: Value = 1

    def __post_init__(self) -> None:
        check_numbers(
            self, "leak_power", "area", "n_parallel_instances", "bits_per_action", "values_per_action",
            "bits_per_value", "energy_scale", "throughput_scale", "actions_scale", "leak_power_scale", "area_scale",
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(Component):
    size: Value
    tensors: Tensors = field(default_factory=Tensors)
    skip_initial_output_write: bool = True

    def __post_init__(self) -> None:
        Component.__post_init__(self)
        check_numbers(self, "size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toll(Component):
    """Data passes through and is charged (a network, a converter); nothing is kept."""

    direction: str | FrozenDict[str, str]
    tensors: Tensors = field(default_factory=Tensors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute(Component):
    skip_initial_output_write: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A side branch below the node above; the main path continues after it."""

    nodes: tuple[ArchitectureNode, ...]
    name: str | None = None
    forked_power_gateable: bool = False
    non_forked_power_gateable: bool = False


ArchitectureNode: TypeAlias = Memory | Toll | Compute | Container | Fork


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    nodes: tuple[ArchitectureNode, ...]
    variables: FrozenDict[str, VariableValue] = field(default_factory=FrozenDict)

    def __post_init__(self) -> None:
        if not computes(self):
            raise FieldError("nodes", "the architecture has no !Compute")


def flatten(nodes: tuple[ArchitectureNode, ...]) -> Iterator[Container]:
    """All nodes, Forks' contents included."""
    for node in nodes:
        if isinstance(node, Fork):
            yield from flatten(node.nodes)
        else:
            yield node


def path_nodes(nodes: tuple[ArchitectureNode, ...], compute: str) -> list[Container] | None:
    """The nodes from the outermost to this compute, or None if it is not among them."""
    path: list[Container] = []
    for node in nodes:
        if isinstance(node, Fork):
            inside = path_nodes(node.nodes, compute)
            if inside is not None:
                return path + inside
        elif isinstance(node, Compute):
            if node.name == compute:
                return [*path, node]
        else:
            path.append(node)
    return None


def computes(architecture: Architecture) -> list[str]:
    """The names of all computes."""
    return [str(node.name) for node in flatten(architecture.nodes) if isinstance(node, Compute)]
