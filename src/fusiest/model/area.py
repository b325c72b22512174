"""How large the architecture is."""

from __future__ import annotations

import math

from fusiest.model.leakage import bind_all, instances
from fusiest.spec import Spec


def area_by_component(spec: Spec) -> dict[str, float]:
    """Square metres of all instances of each component that has an area.

    An expression may depend on the Einsum; the largest value is what has to be built.

    >>> from fusiest import load
    >>> {name: f"{1e6 * area:.1f} mm2" for name, area in area_by_component(load("tpu_v4i", "matmuls")).items()}["LocalBuffer"]
    '204.0 mm2'
    """
    found: dict[str, float] = {}
    if spec.arch is None or spec.workload is None:
        return found
    for info in spec.info.einsums.values():
        for component, dimensions in instances(spec, bind_all(spec, info)):
            if component.area:
                whole = component.area * math.prod(d.fanout for d in dimensions)
                found[component.name] = max(found.get(component.name, 0.0), whole)
    return found
