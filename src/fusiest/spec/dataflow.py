"""A dataflow: constraints that can be put on any architecture, because they name memories by what they are.

`outermost` is the architecture's first memory, `shared` the last memory outside all fanouts, where Einsums can exchange
tensors on chip. Fields that are given take the place of the architecture's.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from fusiest.errors import SpecError, did_you_mean
from fusiest.spec import architecture as arch
from fusiest.spec.architecture import Architecture, Comparison, Memory, flatten

OUTERMOST, SHARED = "outermost", "shared"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenTensors:
    """The fields of `Tensors` that a dataflow gives, also if it gives the default; the others are None."""

    keep: str | None = None
    may_keep: str | None = None
    back: str | None = None
    tile_shape: tuple[Comparison, ...] | None = None
    no_refetch_from_above: str | None = None
    no_resend_to_below: str | None = None
    no_fused_loops: str | None = None
    tensor_order_options: tuple[tuple[str, ...], ...] | None = None
    force_memory_hierarchy_order: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConstraints:
    """What one memory may, must and must not do."""

    memory: str
    tensors: GivenTensors


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataflow:
    memories: tuple[MemoryConstraints, ...]


def constrained(architecture: Architecture, dataflow: Dataflow) -> Architecture:
    """The architecture with a dataflow's constraints."""
    wanted: dict[str, GivenTensors] = {}
    for entry in dataflow.memories:
        name = _memory(architecture, entry.memory)
        if name in wanted:
            raise SpecError(f"the dataflow names {name} twice", entry.memory)
        wanted[name] = entry.tensors
    nodes = tuple(_constrained(node, wanted) for node in architecture.nodes)
    return dataclasses.replace(architecture, nodes=nodes)


def _memory(architecture: Architecture, wanted: str) -> str:
    """The name of the memory that is meant."""
    names = [str(node.name) for node in flatten(architecture.nodes) if isinstance(node, Memory)]
    if wanted == OUTERMOST:
        if not names:
            raise SpecError("the dataflow constrains the outermost memory, but the architecture has none", wanted)
        return names[0]
    if wanted == SHARED:
        outside = _outside_fanouts(architecture)
        if len(outside) < 2:
            raise SpecError(
                "the dataflow constrains a memory that Einsums share, but the architecture has none", wanted
            )
        return outside[-1]
    if wanted not in names:
        raise SpecError(f"no memory '{wanted}'{did_you_mean(wanted, [OUTERMOST, SHARED, *names])}", wanted)
    return wanted


def _outside_fanouts(architecture: Architecture) -> list[str]:
    """Memories of the main path above its first fanout, outermost first."""
    found = []
    for node in architecture.nodes:
        if isinstance(node, arch.Fork):
            continue
        if node.spatial:
            break
        if isinstance(node, Memory):
            found.append(str(node.name))
    return found


def _constrained(node: arch.ArchitectureNode, wanted: dict[str, GivenTensors]) -> arch.ArchitectureNode:
    if isinstance(node, arch.Fork):
        return dataclasses.replace(node, nodes=tuple(_constrained(inner, wanted) for inner in node.nodes))
    if not isinstance(node, Memory) or str(node.name) not in wanted:
        return node
    fields = {f.name: getattr(wanted[str(node.name)], f.name) for f in dataclasses.fields(GivenTensors)}
    given = {name: value for name, value in fields.items() if value is not None}
    return dataclasses.replace(node, tensors=dataclasses.replace(node.tensors, **given))
