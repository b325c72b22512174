"""A spec and its LoopTree as the YAML that a user would write, to reproduce a failing case."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping

from fusiest.looptree.nodes import Compute, LoopTree, Nested, Node, Sequential
from fusiest.spec import architecture as arch
from fusiest.spec.hardware.actions import Action
from fusiest.spec.language.affine import Affine, Constraint
from fusiest.spec.language.fields import tag_of
from fusiest.spec.spec import Spec

_QUOTED = re.compile(r"[,:{}\[\]'#&*!%@`]|^[<>|?=-]")
"""What has a meaning in YAML, or may have."""


def yaml_text(spec: Spec, tree: LoopTree | None = None) -> str:
    architecture, workload = spec.require_arch(), spec.require_workload()
    lines = ["arch:"]
    for name, value in _fields(architecture).items():
        if name != "nodes":
            lines.append(f"  {name}: {_flow(value)}")
    lines += ["  nodes:", *(f"  - {tag_of(type(node))} {_flow(_fields(node))}" for node in architecture.nodes)]
    lines += ["workload:", f"  bits_per_value: {_flow(workload.bits_per_value)}"]
    lines += [f"  persistent_tensors: {workload.persistent_tensors}", f"  n_instances: {workload.n_instances}"]
    lines += [f"  {name}: {_flow(getattr(workload, name))}" for name in ("rank_sizes", "iteration_space_shape")]
    lines.append("  einsums:")
    lines += [f"  - {_flow(einsum)}" for einsum in workload.einsums]
    if spec.renames:
        lines += ["renames:", f"  einsums: {_flow(spec.renames)}"]
    if spec.variables:
        lines.append(f"variables: {_flow(spec.variables)}")
    if spec.component_classes:
        lines.append(f"component_classes: {_flow(spec.component_classes)}")
    if tree is not None:
        lines += ["mapping:", "  nodes:", *_nodes(tree.nodes, "  ")]
    return "\n".join([*lines, ""])


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
    if isinstance(value, Affine):
        return f"'{value}'"
    if isinstance(value, Constraint):
        return f"'{value.text}'"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _flow(_fields(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, str) and _QUOTED.search(value):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
