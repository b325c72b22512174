"""The search funnel: how many pmappings, groups and joins there were, and what was pruned on the way."""

from __future__ import annotations

from fusiest.mapper import Stats
from fusiest.report.charts.chart import Bars, Series


def pmapping_chart(stats: Stats) -> Bars:
    """Per Einsum: tile shapes looked at one by one, and what pruning left to be joined."""
    einsums = list(stats.pmappings)
    return Bars(
        title="Pmappings per Einsum", axis="pmappings", unit="", categories=einsums, stacked=False, log=True,
        ends=[_groups(stats.groups[e]) if e in stats.groups else "" for e in einsums],
        series=[
            Series(name="generated", color="other", values=[stats.explored.get(e, 0) or None for e in einsums]),
            Series(name="kept after pruning", color="found", values=[stats.pmappings[e] or None for e in einsums]),
        ],
    )  # fmt: skip


def join_chart(stats: Stats) -> Bars:
    """Per join: pairs, those that fit and that no bound rules out, and what no other dominates; until none is left."""
    last = next((i for i, step in enumerate(stats.funnel) if not step.kept), len(stats.funnel))
    steps = stats.funnel[: last + 1]
    return Bars(
        title="Partial mappings after each join", axis="partial mappings", unit="", stacked=False, log=True,
        categories=[f"{s.finished} Einsum{'s' if s.finished > 1 else ''}" for s in steps],
        ends=[_groups(s.forms) for s in steps],
        series=[
            Series(name="pairs of compatible groups", color="rest-weight", values=[s.compatible or None for s in steps]),
            Series(name="fit, and may still win", color="other", values=[s.pairs or None for s in steps]),
            Series(name="kept after pruning", color="found", values=[s.kept or None for s in steps]),
        ],
    )  # fmt: skip


def _groups(count: int) -> str:
    return f"{count:,} group{'s' if count != 1 else ''}"
