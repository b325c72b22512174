"""Leakage power while an Einsum runs: every component leaks, on the Einsum's path or not, unless it is gated off."""

from __future__ import annotations

from collections.abc import Mapping

from fusiest.spec import BoundComponent, Spec, instances


def leak_power(
    spec: Spec, compute: str, bound: Mapping[str, BoundComponent], used_fanout: Mapping[tuple[str, str], int]
) -> dict[str, float]:
    """Watts per component. `used_fanout` gives the instances in use of each fanout dimension on the Einsum's path."""
    watts: dict[str, float] = {}
    for component, dimensions, gated in instances(spec.require_arch().nodes, bound, compute):
        if component.kind == "container":
            continue
        power = 0.0 if gated else component.leak_power
        for d in dimensions:
            power *= d.fanout
            if d.power_gateable:
                power *= used_fanout.get((d.component, d.name), 0) * d.usage_scale / d.fanout
        watts[component.name] = power
    return watts
