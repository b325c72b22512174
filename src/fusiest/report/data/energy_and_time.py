"""Where energy and time go: energy by component, tensor and Einsum, latency by Einsum, and how busy everything is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fusiest.model import Anatomy, Evaluation
from fusiest.report.charts.chart import Bars, Heat, Series
from fusiest.report.charts.colours import Names
from fusiest.report.data.limits import SpeedLimit
from fusiest.report.data.roles import EnergyShare

PARTIAL, COMPUTE, LEAK = "(partial sums)", "(compute)", "(leakage)"  # as no tensor can be named
MOST_TENSORS = 24
"""That have a bar of their own."""


def energy_by_component(names: Names, shares: Sequence[EnergyShare]) -> Bars:
    """Split by tensor, in the colours of their roles, the small ones of each role together."""
    return _energy(
        shares, "Energy by component", list(names.components), lambda s: s.component, _tensors(names, shares)
    )


def energy_by_tensor(names: Names, shares: Sequence[EnergyShare]) -> Bars:
    """Largest first, split by component; beyond some, all others in one bar."""
    totals: dict[str, float] = {}
    for share in shares:
        totals[_spender(share)] = totals.get(_spender(share), 0.0) + share.joules
    order = sorted((t for t in totals if totals[t]), key=lambda t: -totals[t])
    shown = order if len(order) <= MOST_TENSORS + 1 else order[:MOST_TENSORS]
    others = f"{len(order) - len(shown)} others"
    categories = [*shown, *([others] if len(shown) < len(order) else [])]

    def category(share: EnergyShare) -> str:
        return _spender(share) if _spender(share) in shown else others

    return _energy(shares, "Energy by tensor", categories, category, _components(names))


def energy_by_einsum(names: Names, shares: Sequence[EnergyShare]) -> Bars:
    """Split by component."""
    einsums = list(dict.fromkeys(share.einsum for share in shares))
    return _energy(shares, "Energy by Einsum", einsums, lambda s: s.einsum, _components(names))


def _spender(share: EnergyShare) -> str:
    return share.tensor or (LEAK if share.action == "leak" else COMPUTE)


@dataclass(frozen=True, slots=True)
class _Split:
    """How bars are split: the series that a share belongs to, and all series in their order, with their colours."""

    series: Callable[[EnergyShare], str]
    colors: Mapping[str, str]


def _components(names: Names) -> _Split:
    return _Split(lambda share: share.component, {c: names.component_color(c) for c in names.components})


def _tensors(names: Names, shares: Sequence[EnergyShare]) -> _Split:
    """By tensor; partial sums, leakage and every compute are by themselves, a compute in its own colour."""
    amounts: dict[str, float] = {}
    for share in shares:
        if share.tensor and share.joules and not share.partial:
            amounts[share.tensor] = amounts.get(share.tensor, 0.0) + share.joules
    groups = names.groups(amounts)
    group_of = {tensor: group.name for group in groups for tensor in group.members}
    several = len(names.computes) > 1
    computing = {c: names.component_color(c) for c in names.computes} if several else {COMPUTE: "compute"}
    colors = {**{group.name: group.color for group in groups}, PARTIAL: "partial", **computing, LEAK: "leak"}

    def series(share: EnergyShare) -> str:
        if share.partial:
            return PARTIAL
        if share.tensor:
            return group_of[share.tensor]
        return share.component if several and share.action != "leak" else _spender(share)

    return _Split(series, colors)


def _energy(
    shares: Sequence[EnergyShare],
    title: str,
    categories: Sequence[str],
    category: Callable[[EnergyShare], str],
    split: _Split,
) -> Bars:
    """Joules per category, split into coloured parts; whatever takes no energy at all is left out."""
    joules: dict[str, dict[str, float]] = {}
    for share in shares:
        if share.joules:
            by_category = joules.setdefault(split.series(share), {})
            by_category[category(share)] = by_category.get(category(share), 0.0) + share.joules
    shown = [c for c in categories if any(c in by_category for by_category in joules.values())]
    series = [
        Series(name=name, color=color, values=[joules[name].get(c, 0.0) for c in shown])
        for name, color in split.colors.items() if name in joules
    ]  # fmt: skip
    return Bars(title=title, axis="energy", unit="J", categories=shown, series=series)


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


def utilization(parts: Anatomy, evaluation: Evaluation, limit: Mapping[str, SpeedLimit]) -> Bars:
    """Utilization by Einsum: operations done over those that the compute which is best for it could have done meanwhile."""
    einsums = [e for e in evaluation.einsums if evaluation.einsums[e].latency and limit[e].operations]
    reached = [limit[e].compute_seconds / evaluation.einsums[e].latency for e in einsums]
    spatial = []
    for nest in parts.nests:
        if nest.einsum.name in einsums:
            fanouts = nest.used_fanout()
            share = 1.0
            for component in nest.path.components:
                for d in component.dimensions:
                    share *= fanouts[d.component, d.name] * d.usage_scale / d.fanout
            spatial.append(share)
    return Bars(
        title="Utilization of the computes", axis="share of the peak", unit="%", categories=einsums, stacked=False,
        series=[
            Series(name="operations per second", color="found", values=[100 * share for share in reached]),
            Series(name="instances in use", color="other", values=[100 * share for share in spatial]),
        ],
    )  # fmt: skip
