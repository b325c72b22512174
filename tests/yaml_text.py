"""A spec and its LoopTree as the YAML that a user would write, to reproduce a failing case."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from fusiest.looptree.nodes import Compute, LoopTree, Nested, Node, Sequential
from fusiest.spec import architecture as arch
from fusiest.spec.hardware.actions import Action
from fusiest.spec.language.fields import tag_of
from fusiest.spec.spec import Spec
from fusiest.spec.workload.einsums import Einsum


def yaml_text(spec: Spec, tree: LoopTree | None = None) -> str:
    lines = ["arch:", "  nodes:"]
    for node in spec.require_arch().nodes:
        lines.append(f"  - {tag_of(type(node))} {_flow(_fields(node))}")
    workload = spec.require_workload()
    lines += ["workload:", f"  bits_per_value: {_flow(workload.bits_per_value)}"]
    lines += [f"  persistent_tensors: {workload.persistent_tensors}", f"  n_instances: {workload.n_instances}"]
    lines.append("  einsums:")
    lines += [f"  - {_flow(_einsum(einsum))}" for einsum in workload.einsums]
    if tree is not None:
        lines += ["mapping:", "  nodes:", *_nodes(tree.nodes, "  ")]
    return "\n".join([*lines, ""])


def _einsum(einsum: Einsum) -> dict[str, object]:
    accesses = [
        {"name": a.name, "projection": {rank: f"'{affine}'" for rank, affine in a.projection.items()}}
        | ({"output": True} if a.output else {})
        for a in einsum.tensor_accesses
    ]
    return {
        "name": einsum.name,
        "tensor_accesses": accesses,
        "iteration_space_shape": [f"'{c.text}'" for c in einsum.iteration_space_shape],
        "n_instances": einsum.n_instances,
        "is_copy_operation": einsum.is_copy_operation,
    }


def _nodes(nodes: tuple[Node, ...] | tuple[Nested, ...], indent: str) -> list[str]:
    lines: list[str] = []
    for node in nodes:
        if isinstance(node, (Sequential, Nested)):
            lines += [f"{indent}- {tag_of(type(node))}", f"{indent}  nodes:", *_nodes(node.nodes, indent + "  ")]
        else:
            lines.append(f"{indent}- {tag_of(type(node))} {_flow(_fields(node))}")
    return lines


def _fields(node: arch.ArchitectureNode | arch.Dimension | Action | Node | Compute) -> dict[str, object]:
    """The fields that differ from their defaults."""
    fields: dict[str, object] = {}
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if field.default_factory is not dataclasses.MISSING:
            default: object = field.default_factory()
        else:
            default = field.default
        if default is dataclasses.MISSING or value != default:
            fields[field.name] = value
    return fields


def _flow(value: object) -> str:
    if isinstance(value, arch.Container | arch.Fork | arch.Parallel):  # a node inside another
        return f"{tag_of(type(value))} {_flow(_fields(value))}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _flow(_fields(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
