"""The values of an architecture for one Einsum on one compute: the nodes of a path, with numbers and sets in place of expressions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from fusiest.base.errors import SpecError, shown
from fusiest.base.frozen import FrozenDict
from fusiest.spec.hardware import architecture as arch
from fusiest.spec.hardware.placement_sets import BoundComparison
from fusiest.spec.language.expressions import Record, evaluate_expression
from fusiest.spec.language.namesets import Attributed, NameSet
from fusiest.spec.language.operators import kind_of
from fusiest.spec.language.ranges import LARGEST
from fusiest.spec.workload.analysis import EinsumInfo

ComponentKind: TypeAlias = Literal["memory", "toll", "compute", "container"]


@dataclass(frozen=True, slots=True)
class BoundDimension:
    component: str
    name: str
    fanout: int
    may_reuse: frozenset[str]
    reuse: frozenset[str]
    loop_bounds: tuple[BoundComparison, ...]
    min_usage: float
    usage_scale: float
    power_gateable: bool

    @property
    def most(self) -> int:
        """How many instances can be used. 100 times 0.07 are 7, whatever floating-point numbers say."""
        return math.floor(self.fanout / self.usage_scale * (1 + 1e-9))


@dataclass(frozen=True, slots=True)
class BoundAction:
    """An action with all scales applied."""

    name: str
    energy: float
    throughput: float
    actions_scale: float
    values_per_action: FrozenDict[str, float]
    bits: float | None = None
    """What it moves, if that is the same for all tensors."""


@dataclass(frozen=True, slots=True)
class BoundComponent:
    name: str
    kind: ComponentKind
    dimensions: tuple[BoundDimension, ...]
    enabled: bool = True
    size: float = math.inf
    leak_power: float = 0.0
    area: float | None = 0.0
    """None where nobody knows."""
    actions: FrozenDict[str, BoundAction] = field(default_factory=FrozenDict)
    bits_per_value: FrozenDict[str, int | float] = field(default_factory=FrozenDict)
    skip_initial_output_write: bool = True
    direction: FrozenDict[str, str] = field(default_factory=FrozenDict)
    total_latency: str | None = None
    attributes: FrozenDict[str, object] = field(default_factory=FrozenDict)

    @property
    def latency_names(self) -> dict[str, object]:
        """What names in `total_latency` stand for: numbers, words and sets; of a component, its fanout."""
        return {
            name: value
            if isinstance(value, NameSet) or not isinstance(value, Attributed)
            else value.attribute("fanout")
            for name, value in self.attributes.items()
        }

    def values_per_action(self, action: str, tensor: str) -> float:
        return self.actions[action].values_per_action[tensor]

    def evaluate_latency(self, calls: Mapping[str, object]) -> object:
        """The `total_latency` expression over numbers, or arrays of numbers, of calls per action."""
        assert self.total_latency is not None
        records = [
            Record({"name": a.name, "n_calls": calls.get(a.name, 0), "throughput": a.throughput})
            for a in self.actions.values()
        ]
        return evaluate_expression(self.total_latency, {**self.attributes, "actions": records})

    def latency(self, calls: Mapping[str, float]) -> float:
        """Seconds for these numbers of calls per action, on one instance."""
        if self.total_latency is None:
            return sum(n / self.actions[name].throughput for name, n in calls.items() if n)
        seconds = self.evaluate_latency(calls)
        if isinstance(seconds, (int, float)) and not isinstance(seconds, bool):
            if 0 <= seconds <= LARGEST:
                return seconds
            written = shown(seconds)
        else:
            written = kind_of(seconds)
        raise SpecError(
            f"total_latency of {self.name} must be a finite number from 0 to {LARGEST:g}, but is {written}",
            self.total_latency,
        )


@dataclass(frozen=True, slots=True)
class Path:
    """The nodes that serve one Einsum on one compute, outermost first."""

    einsum: EinsumInfo
    components: tuple[BoundComponent, ...]

    @property
    def compute(self) -> BoundComponent:
        return self.components[-1]

    @property
    def runs(self) -> bool:
        """Whether the Einsum can run here: a copy needs no compute."""
        return self.compute.enabled or self.einsum.is_copy_operation

    @property
    def memories(self) -> list[int]:
        """Indices of the memories, outermost first."""
        return [i for i, c in enumerate(self.components) if c.kind == "memory"]

    def component(self, name: str) -> BoundComponent | None:
        return next((c for c in self.components if c.name == name), None)

    def index(self, name: str) -> int:
        return next(i for i, c in enumerate(self.components) if c.name == name)


class Instances(NamedTuple):
    """A component, the fanout dimensions at or above it, and whether a Fork gates it off."""

    component: BoundComponent
    dimensions: tuple[BoundDimension, ...]
    gated: bool

    @property
    def number(self) -> int:
        """How many there are of it in the whole chip."""
        return math.prod(d.fanout for d in self.dimensions)


def instances(
    nodes: tuple[arch.ArchitectureNode, ...],
    bound: Mapping[str, BoundComponent],
    compute: str = "",
    above: tuple[BoundDimension, ...] = (),
    gated: bool = False,
) -> Iterator[Instances]:
    """Instances of each component, while this compute runs. `bound` is what `bind_all` gives."""
    for node in nodes:
        if isinstance(node, arch.Fork):
            runs_here = _contains(node.nodes, compute)
            yield from instances(
                node.nodes, bound, compute, above, gated or (node.forked_power_gateable and not runs_here)
            )
            gated = gated or (node.non_forked_power_gateable and runs_here)
            continue
        if isinstance(node, arch.Parallel):
            yield from instances(node.nodes, bound, compute, above, gated)
            continue
        component = bound[str(node.name)]
        dimensions = above + component.dimensions
        yield Instances(component, dimensions, gated)
        if not isinstance(node, arch.ComputeUnit):
            above = dimensions


def _contains(nodes: tuple[arch.ArchitectureNode, ...], compute: str) -> bool:
    return any(
        _contains(node.nodes, compute) if isinstance(node, arch.Fork) else node.name == compute for node in nodes
    )
