"""Where energy and time go: energy by component, tensor and Einsum, latency by Einsum, and how busy everything is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from fusiest.model.evaluate import Anatomy, Evaluation
from fusiest.report.chart import Bars, Heat, Series
from fusiest.report.limits import Limit
from fusiest.report.names import Names

Split = Callable[[str, str, str, str], str]
"""(Einsum, component, tensor, action) → the category or series that its joules count for."""

COMPUTE, LEAK = "(compute)", "(leakage)"  # as no tensor can be named


def _tensor(einsum: str, component: str, tensor: str, action: str) -> str:
    return tensor or (LEAK if action == "leak" else COMPUTE)


def energy_by_component(names: Names, evaluation: Evaluation) -> Bars:
    categories = list(names.components)
    return _energy(names, evaluation, "Energy by component", categories, lambda e, c, t, a: c, _tensor)


def energy_by_tensor(names: Names, evaluation: Evaluation) -> Bars:
    """Largest first."""
    chart = _energy(
        names, evaluation, "Energy by tensor", [*names.tensors, COMPUTE, LEAK], _tensor, lambda e, c, t, a: c
    )
    totals = [sum(v or 0 for v in values) for values in zip(*(s.values for s in chart.series), strict=True)]
    order = sorted(range(len(totals)), key=lambda i: -totals[i])
    series = [dataclasses.replace(s, values=[s.values[i] for i in order]) for s in chart.series]
    return dataclasses.replace(chart, categories=[chart.categories[i] for i in order], series=series)


def energy_by_einsum(names: Names, evaluation: Evaluation) -> Bars:
    categories = list(evaluation.einsums)
    return _energy(names, evaluation, "Energy by Einsum", categories, lambda e, c, t, a: e, lambda e, c, t, a: c)


def _energy(
    names: Names, evaluation: Evaluation, title: str, categories: list[str], category: Split, split: Split
) -> Bars:
    """Joules per category, split into coloured parts; whatever takes no energy at all is left out."""
    joules: dict[str, dict[str, float]] = {}
    for einsum, own in evaluation.einsums.items():
        for (component, tensor, action), energy in own.energies.items():
            if energy:
                part = joules.setdefault(split(einsum, component, tensor, action), {})
                key = category(einsum, component, tensor, action)
                part[key] = part.get(key, 0.0) + energy
    categories = [c for c in categories if any(c in part for part in joules.values())]
    order = [*names.tensors, *names.components, COMPUTE, LEAK]
    series = [
        Series(name=name, color=_color(names, name), values=[joules[name].get(c, 0.0) for c in categories])
        for name in order if name in joules
    ]  # fmt: skip
    return Bars(title=title, axis="energy", unit="J", categories=[str(c) for c in categories], series=series)


def _color(names: Names, name: str) -> str:
    if name in names.tensors:
        return names.tensor_color(name)
    if name in names.components:
        return names.component_color(name)
    return "other" if name == COMPUTE else "leak"


def latency_by_einsum(names: Names, evaluation: Evaluation) -> Bars:
    """A bar per Einsum in the colour of its bottleneck, which is named at its end."""
    einsums = list(evaluation.einsums)
    limiting = {name: e.bottleneck for name, e in evaluation.einsums.items()}
    series = [
        Series(name=f"limited by {component}", color=names.component_color(component),
               values=[evaluation.einsums[e].latency if limiting[e] == component else 0 for e in einsums])
        for component in names.components if component in limiting.values()
    ]  # fmt: skip
    return Bars(
        title="Latency by Einsum",
        axis="latency",
        unit="s",
        categories=einsums,
        series=series,
        ends=list(limiting.values()),
    )


def busy_shares(names: Names, evaluation: Evaluation) -> Heat:
    """The share of an Einsum's time in which each component works; the bottleneck's is 1."""
    einsums = [e for e in evaluation.einsums if evaluation.einsums[e].latency]
    components = [c for c in names.components if any(c in evaluation.einsums[e].latency_per_component for e in einsums)]
    values: list[list[float | None]] = []
    for c in components:
        shares = []
        for e in einsums:
            busy = evaluation.einsums[e].latency_per_component.get(c)
            shares.append(None if busy is None else busy / evaluation.einsums[e].latency)
        values.append(shares)
    return Heat(title="Busy share of each component, in %", rows=components, columns=einsums, values=values)


def utilization(parts: Anatomy, evaluation: Evaluation, limit: Mapping[str, Limit]) -> Bars:
    """Of each Einsum: operations done over those that the compute which is best for it could have done meanwhile."""
    einsums = [e for e in evaluation.einsums if evaluation.einsums[e].latency and limit[e].operations]
    reached = [limit[e].compute_seconds / evaluation.einsums[e].latency for e in einsums]
    spatial = []
    for nest in parts.nests:
        if nest.einsum.name in einsums:
            used = nest.used_fanout()
            share = 1.0
            for component in nest.path.components:
                for d in component.dimensions:
                    share *= used[d.component, d.name] * d.usage_scale / d.fanout
            spatial.append(share)
    return Bars(
        title="Utilization of the computes", axis="share of the peak", unit="%", categories=einsums, stacked=False,
        series=[
            Series(name="operations per second", color="found", values=[100 * x for x in reached]),
            Series(name="instances in use", color="other", values=[100 * x for x in spatial]),
        ],
    )  # fmt: skip
