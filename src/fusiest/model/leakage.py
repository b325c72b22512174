"""Leakage power while an Einsum runs: every component leaks, on the Einsum's path or not, unless it is gated off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fusiest.spec import BoundComponent, BoundDimension, EinsumInfo, Spec, architecture_names, bind_node
from fusiest.spec import architecture as arch


def _instances(
    nodes: tuple[arch.ArchitectureNode, ...],
    compute: str,
    bound: Mapping[str, BoundComponent],
    above: tuple[BoundDimension, ...],
    gated: bool,
) -> Iterator[tuple[BoundComponent, tuple[BoundDimension, ...], bool]]:
    """Each component with the fanout dimensions at or above it, and whether a Fork gates it off."""
    for node in nodes:
        if isinstance(node, arch.Fork):
            runs_here = _contains(node.nodes, compute)
            yield from _instances(
                node.nodes, compute, bound, above, gated or (node.forked_power_gateable and not runs_here)
            )
            gated = gated or (node.non_forked_power_gateable and runs_here)
            continue
        if isinstance(node, arch.Parallel):
            yield from _instances(node.nodes, compute, bound, above, gated)
            continue
        component = bound[str(node.name)]
        dimensions = above + component.dimensions
        yield component, dimensions, gated
        if not isinstance(node, arch.ComputeUnit):
            above = dimensions


def _contains(nodes: tuple[arch.ArchitectureNode, ...], compute: str) -> bool:
    return any(
        _contains(node.nodes, compute) if isinstance(node, arch.Fork) else node.name == compute for node in nodes
    )


def bind_all(spec: Spec, info: EinsumInfo) -> dict[str, BoundComponent]:
    """Every node of the architecture, evaluated for an Einsum."""
    nodes = list(arch.flatten(spec.require_arch().nodes))
    if spec.info.einsums.get(info.name) is not info:
        return _bound(spec, info, nodes)
    if len(spec.bound.get(info.name, ())) < len(nodes):
        spec.bound[info.name] = _bound(spec, info, nodes)
    return dict(spec.bound[info.name])


def _bound(spec: Spec, info: EinsumInfo, nodes: list[arch.Container]) -> dict[str, BoundComponent]:
    names = architecture_names(spec, info)
    return {str(node.name): bind_node(node, info, names) for node in nodes}


def instances(
    spec: Spec, bound: Mapping[str, BoundComponent]
) -> Iterator[tuple[BoundComponent, tuple[BoundDimension, ...]]]:
    """Each component with the fanout dimensions at or above it; `bound` is what `bind_all` gives."""
    for component, dimensions, _ in _instances(spec.require_arch().nodes, "", bound, (), False):
        yield component, dimensions


def leak_power(
    spec: Spec, compute: str, bound: Mapping[str, BoundComponent], used_fanout: Mapping[tuple[str, str], int]
) -> dict[str, float]:
    """Watts per component. `used_fanout` gives the instances in use of each fanout dimension on the Einsum's path."""
    watts: dict[str, float] = {}
    for component, dimensions, gated in _instances(spec.require_arch().nodes, compute, bound, (), False):
        if component.kind == "container":
            continue
        power = 0.0 if gated else component.leak_power
        for d in dimensions:
            power *= d.fanout
            if d.power_gateable:
                power *= used_fanout.get((d.component, d.name), 0) * d.usage_scale / d.fanout
        watts[component.name] = power
    return watts
