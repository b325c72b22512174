"""How large the architecture is, what it leaks, and what a mapping does with both: operations per second, joule and area."""

from __future__ import annotations

from fusiest.model.evaluation import Evaluation
from fusiest.model.operations import operations
from fusiest.spec import Spec, bind_all, instances


def area_by_component(spec: Spec) -> dict[str, float]:
    """Square metres of all instances of each component that has an area.

    An expression may depend on the Einsum; the largest value is what has to be built.

    >>> from fusiest import load
    >>> {name: f"{1e6 * area:.1f} mm2" for name, area in area_by_component(load("tpu_v4i", "matmuls")).items()}["LocalBuffer"]
    '204.0 mm2'
    """
    return _by_component(spec, "area")


def leak_power_by_component(spec: Spec) -> dict[str, float]:
    """Watts of all instances of each component that leaks, none of them gated off; the largest value of all Einsums."""
    return _by_component(spec, "leak_power")


def _by_component(spec: Spec, figure: str) -> dict[str, float]:
    totals: dict[str, float] = {}
    if spec.arch is None or spec.workload is None:
        return totals
    for info in spec.info.einsums.values():
        for placed in instances(spec.arch.nodes, bind_all(spec, info)):
            component = placed.component
            value = getattr(component, figure)
            if value and component.kind != "container":
                totals[component.name] = max(totals.get(component.name, 0.0), value * placed.number)
    return totals


def efficiency(spec: Spec, evaluation: Evaluation, area: float | None) -> dict[str, float | None]:
    """`operations` of all Einsums, and in `tops` how many a second, a watt and a square millimetre; None where that is unknown.

    `area` is that of all components, in square metres.

    >>> from fusiest import evaluate, load
    >>> spec = load("simple", "matmuls", "unfused_matmuls_to_simple")
    >>> efficiency(spec, evaluate(spec), None)["operations"] == sum(operations(info) for info in spec.info.einsums.values())
    True
    """
    count = sum(operations(spec.info.einsums[name]) for name in evaluation.einsums)
    rate = count / evaluation.latency / 1e12 if evaluation.latency else None
    return {
        "operations": count,
        "tops": rate,
        "tops_per_watt": count / evaluation.energy / 1e12 if evaluation.energy else None,
        "tops_per_mm2": rate / (area * 1e6) if rate is not None and area else None,
    }
