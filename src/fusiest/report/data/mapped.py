"""What was mapped, and where it comes from: the architecture in figures, the Einsums, the tensors, both specs as files."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fusiest.mapper import Options, Result, spec_and_hash
from fusiest.model import footprint, operations
from fusiest.report.data.background import Background
from fusiest.report.data.machine import Machine
from fusiest.report.data.roles import ROLES
from fusiest.show import einsum_text
from fusiest.spec import BoundComponent, Spec, dump, tag_of
from fusiest.spec import architecture as arch

Extremes = list[float | None] | None
"""The least and the most over all Einsums and tensors, null for what is unlimited; None if there is no such figure."""


def mapped(background: Background) -> dict[str, Any]:
    """Tables and texts for the page."""
    spec = background.spec
    return {
        "components": component_rows(background.machine),
        "einsums": [
            [str(name), einsum_text(info), dict(info.bounds), info.n_instances,
             info.operation, operations(info)]
            for name, info in spec.info.einsums.items()
        ],
        "tensors": tensor_rows(background),
        "specs": spec_texts(spec),
    }  # fmt: skip


def origin(result: Result) -> dict[str, Any]:
    """Who made the result, when, from what and how; what made the page; and the hash by which others can check the spec."""
    provenance = result.provenance
    usual = Options()
    names = [f.name for f in dataclasses.fields(usual) if f.name not in ("objective", "windows")]  # said by the domain
    changed = {
        name: getattr(result.options, name) for name in names if getattr(result.options, name) != getattr(usual, name)
    }
    return {
        "made": {
            "version": provenance.version,
            "created": provenance.created,
            "command": list(provenance.command),
            "files": list(provenance.files),
            "defines": {name: str(value) for name, value in provenance.defines.items()},
            "mapper": provenance.mapper,
            "options": ", ".join(f"{name}={value}" for name, value in changed.items()),
        },
        "spec_sha256": spec_and_hash(result.spec)[1],
    }


def spec_texts(spec: Spec) -> dict[str, str]:
    """The architecture and the workload, templates filled in: together they load to what was mapped."""
    architecture = dataclasses.replace(spec, workload=None, mapping=None, renames=(), dataflow=None)
    workload = Spec(workload=spec.workload, renames=spec.renames)
    return {"architecture": dump(architecture), "workload": dump(workload)}


def component_rows(machine: Machine) -> list[dict[str, Any]]:
    """A row per component, outermost first, with what one instance of it holds, does and costs."""
    return list(_walk(machine, machine.nodes, 0))


def _walk(machine: Machine, nodes: tuple[arch.ArchitectureNode, ...], depth: int) -> Iterator[dict[str, Any]]:
    for node in nodes:
        if isinstance(node, arch.Fork):
            yield from _walk(machine, node.nodes, depth)
            continue
        beside = arch.flatten(node.nodes) if isinstance(node, arch.Parallel) else [node]
        yield from (_row(machine, one, depth) for one in beside)
        if not isinstance(node, arch.ComputeUnit):
            depth += 1


def _row(machine: Machine, node: arch.Component | arch.Container, depth: int) -> dict[str, Any]:
    name = str(node.name)
    components = [bound[name] for bound in machine.bound.values()]
    row: dict[str, Any] = {
        "name": name,
        "kind": tag_of(type(node)).lstrip("!"),
        "depth": depth,
        "fanouts": [[d.name, d.fanout] for d in components[0].dimensions],
        "count": machine.instances[name],
    }
    if components[0].kind == "container":
        return row
    row["leak"] = _span(c.leak_power for c in components)
    row["area"] = _span(c.area or 0.0 for c in components)
    row["actions"] = [
        [action, _span(_figures(components, action, _rate)), _span(_figures(components, action, _joules))]
        for action in components[0].actions
    ]
    if components[0].kind == "memory":
        row["size"] = _span(c.size / 8 for c in components)
    if name in machine.peaks:
        row["peak"] = machine.peaks[name] if machine.peaks[name] < math.inf else None
    return row


def _figures(
    components: list[BoundComponent], action: str, figure: Callable[[BoundComponent, str, str], float]
) -> list[float]:
    """Per bit for memories and Tolls, per action for computes; for each tensor that it may be about."""
    return [figure(c, action, tensor) for c in components for tensor in (c.bits_per_value or [""])]


def _rate(component: BoundComponent, action: str, tensor: str) -> float:
    """Bits or actions per second."""
    bound = component.actions[action]
    if not bound.actions_scale:
        return math.inf
    return bound.throughput * _bits(component, action, tensor) / bound.actions_scale


def _joules(component: BoundComponent, action: str, tensor: str) -> float:
    """Per bit or action."""
    bound = component.actions[action]
    return bound.energy * bound.actions_scale / _bits(component, action, tensor)


def _bits(component: BoundComponent, action: str, tensor: str) -> float:
    """Bits of one action; 1 for what moves no tensor."""
    if component.kind == "compute" or not tensor:
        return 1.0
    return component.values_per_action(action, tensor) * component.bits_per_value[tensor]


def _span(values: Iterable[float]) -> Extremes:
    figures = list(values)
    if not figures:
        return None
    return [value if value < math.inf else None for value in (min(figures), max(figures))]


def tensor_rows(background: Background) -> list[list[Any]]:
    """Name, role, ranks with their extents, bits per value, bytes, and whether it is persistent."""
    info, names = background.spec.info, background.names
    rows = []
    for tensor in names.tensors:
        einsum = info.einsums[info.users[tensor][0]]
        access, bits = einsum.accesses[tensor], einsum.bits_per_value[tensor]
        shape = {str(rank): affine.length(einsum.bounds) for rank, affine in access.ranks.items()}
        size = footprint(access, einsum.bounds) * bits / 8
        persistent = any(tensor in info.einsums[user].persistent for user in info.users[tensor])
        rows.append([tensor, ROLES[names.roles[tensor]], shape, bits, size, persistent])
    return rows
