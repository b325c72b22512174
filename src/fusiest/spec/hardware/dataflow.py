"""A dataflow: constraints that can be put on any architecture, because they name memories by what they are.

`outermost` is the architecture's first memory, `shared` the last memory outside all fanouts, where Einsums can exchange
tensors on chip. Fields that are given take the place of the architecture's. A dataflow can also say that layers run
depth-first, tile by tile (`mapper/stacks/depth_first.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

from fusiest.base.errors import SpecError, check_known
from fusiest.base.frozen import FrozenDict
from fusiest.spec.hardware import architecture as arch
from fusiest.spec.hardware.architecture import Architecture, Memory, flatten, memory_names
from fusiest.spec.language.fields import Reader, read_given
from fusiest.spec.reading.yamlfile import YamlNode

OUTERMOST, SHARED = "outermost", "shared"
Overlap: TypeAlias = Literal["retained", "recomputed"]


def _read_given(node: YamlNode, what: str) -> FrozenDict[str, object]:
    return read_given(node, arch.Tensors, what)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConstraints:
    """What one memory may, must and must not do."""

    memory: Annotated[
        str,
        "`outermost`; `shared`, the last memory outside all fanouts, where Einsums can exchange tensors on chip; or a name.",
    ]
    tensors: Annotated[
        FrozenDict[str, object],
        Reader(_read_given, "table"),
        "As `tensors` of a memory. Fields that are given take the place of the architecture's, the others stay.",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthFirst:
    """Layers of a CNN are fused in stacks: tile by tile of the last one's result, through all of them."""

    stacks: Annotated[
        Literal["one", "any"],
        "`one` stack of all Einsums, or `any`: the best way to cut them, in the order given, into stacks and single ones.",
    ] = "any"
    rows: Annotated[
        Overlap, "Whether what tiles have in common with those above and below stays on chip, or is made again."
    ]
    columns: Annotated[Overlap, "The same of tiles side by side. If there is one such rank alone, `rows` is for it."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataflow:
    """Constraints to put on an architecture."""

    memories: Annotated[tuple[MemoryConstraints, ...], "The memories that are constrained."] = ()
    depth_first: Annotated[DepthFirst | None, "Fuse layers in stacks, tile by tile, and in no other way."] = None


def constrained(architecture: Architecture, dataflow: Dataflow) -> Architecture:
    """The architecture with a dataflow's constraints."""
    constraints: dict[str, FrozenDict[str, object]] = {}
    for entry in dataflow.memories:
        name = _memory(architecture, entry.memory)
        if name in constraints:
            raise SpecError(f"the dataflow names {name} twice", entry.memory)
        constraints[name] = entry.tensors

    def change(node: arch.Container) -> arch.Container:
        if not isinstance(node, Memory) or str(node.name) not in constraints:
            return node
        tensors: Any = constraints[str(node.name)]
        return replace(node, tensors=replace(node.tensors, **tensors))

    return replace(architecture, nodes=arch.rewritten(architecture.nodes, change))


def _memory(architecture: Architecture, memory: str) -> str:
    """The name of the memory that is meant."""
    names = memory_names(architecture)
    if memory == OUTERMOST:
        if not names:
            raise SpecError("the dataflow constrains the outermost memory, but the architecture has none", memory)
        return names[0]
    if memory == SHARED:
        outside = _outside_fanouts(architecture)
        if len(outside) < 2:
            raise SpecError(
                "the dataflow constrains a memory that Einsums share, but the architecture has none", memory
            )
        return outside[-1]
    check_known(memory, [OUTERMOST, SHARED, *names], f"no memory '{memory}'", memory)
    return memory


def _outside_fanouts(architecture: Architecture) -> list[str]:
    """Memories of the main path above its first fanout, outermost first."""
    memories = []
    for node in architecture.nodes:
        if isinstance(node, arch.Fork):
            continue
        if isinstance(node, arch.Parallel):
            memories += [str(inner.name) for inner in flatten(node.nodes)]
            continue
        if node.spatial:
            break
        if isinstance(node, Memory):
            memories.append(str(node.name))
    return memories
