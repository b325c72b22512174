"""A result as the plain data that its page shows: what all mappings share, and one view per mapping."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fusiest.base.objective import OBJECTIVES
from fusiest.mapper import Mapping, Result
from fusiest.model import CONVENTION, take_apart
from fusiest.report.charts import funnel
from fusiest.report.charts.chart import Chart, is_empty
from fusiest.report.charts.front import front_charts, used_bytes
from fusiest.report.charts.waterfall import waterfall_charts
from fusiest.report.data.background import Background
from fusiest.report.data.component_costs import cost_section
from fusiest.report.data.limits import rates, shares
from fusiest.report.data.mapped import mapped, origin
from fusiest.report.data.roles import ROLES
from fusiest.report.data.view import mapping_charts, mapping_view

MOST_VIEWS = 300
"""Mappings of a front that are kept in full, so that a page stays small; all of its points are always shown."""


@dataclass(frozen=True)
class Subject:
    """What a report is about: a result, and what it is compared with."""

    result: Result
    unfused: Result | str | None
    """Without fusion, or why there is no such mapping; None if nobody looked for one."""
    title: str
    note: str
    changes: dict[str, Any] | None = None
    """What changes of the architecture do, if somebody looked."""

    @cached_property
    def background(self) -> Background:
        """Facts of the spec, with what the unfused optimum does, if there is one."""
        background = Background(self.result.spec)
        if not isinstance(self.unfused, Result):
            return background
        mapping, spec = self.unfused.best(self.result.aim), self.unfused.spec
        parts = take_apart(spec, mapping.looptree)
        return dataclasses.replace(
            background, unfused=rates(background.machine, parts, mapping.evaluation, background.limits)
        )

    @property
    def best(self) -> int:
        return self.result.mappings.index(self.result.best(self.result.aim))


def page_data(subject: Subject, version: str) -> dict[str, Any]:
    """All that the page needs, except the views."""
    result, background = subject.result, subject.background
    names = background.names
    return {
        "title": subject.title,
        "note": subject.note,
        "version": version,
        "objective": list(result.objective),
        "aim": result.aim,
        "objectives": {name: [o.powers, o.unit, o.title, o.short] for name, o in OBJECTIVES.items()},
        "searched": result.searched,
        "optimal": result.optimal,
        "gap": result.gap,
        "caution": result.caution,
        "domain": result.domain,
        "advice": result.advice,
        "best": subject.best,
        "usage": result.options.usage,
        "points": _points(result, result.options.usage),
        "kept": kept_views(subject),
        "tensors": [[t, names.tensor_color(t), ROLES[names.roles[t]]] for t in names.tensors],
        "outermost": background.machine.outermost[0],
        "unfused": _unfused(subject),
        "roofline": _roofline(subject),
        "mapped": mapped(background),
        "component_costs": cost_section(background.spec),
        "changes": subject.changes,
        **origin(result),
        "stats": {
            "wall_seconds": result.stats.wall_seconds,
            "cpu_seconds": result.stats.cpu_seconds,
            "peak_rss_bytes": result.stats.peak_rss_bytes,
            "orders": result.stats.orders,
            "evaluations": result.stats.evaluations,
            "generated": sum(result.stats.explored.values()),
            "pmappings": sum(result.stats.pmappings.values()),
            "compatible": sum(step.compatible for step in result.stats.funnel),
            "pairs": sum(step.pairs for step in result.stats.funnel),
            "partial": sum(step.kept for step in result.stats.funnel),
            "complete": any(step.kept for step in result.stats.funnel[-1:]),
            "forms": max((step.forms for step in result.stats.funnel), default=0),
        },
        "charts": {name: dataclasses.asdict(chart) for name, chart in result_charts(subject).items()},
    }


def views(subject: Subject) -> list[dict[str, Any]]:
    """One per kept mapping, in the order of `kept`."""
    chosen = [subject.result.mappings[i] for i in kept_views(subject)]
    return [mapping_view(subject.background, m.looptree, m.evaluation) for m in chosen]


def kept_views(subject: Subject) -> list[int]:
    """Numbers of the mappings shown in full: all, or the best ones and an even spread."""
    result = subject.result
    count = len(result.mappings)
    if count <= MOST_VIEWS:
        return list(range(count))
    always = {result.mappings.index(result.best(name)) for name in OBJECTIVES}
    spread = {round(i * (count - 1) / (MOST_VIEWS - 1)) for i in range(MOST_VIEWS - len(always))}
    return sorted(always | spread)


def result_charts(subject: Subject) -> dict[str, Chart]:
    """The charts that do not depend on which mapping is chosen."""
    unfused = subject.unfused if isinstance(subject.unfused, Result) else None
    charts: dict[str, Chart] = {**front_charts(subject.result, unfused)}
    charts["pmappings"] = funnel.pmapping_chart(subject.result.stats)
    charts["joins"] = funnel.join_chart(subject.result.stats)
    charts |= waterfall_charts(subject.changes)
    return {name: chart for name, chart in charts.items() if not is_empty(chart)}


def all_charts(subject: Subject, mapping: Mapping) -> dict[str, Chart]:
    """Every chart of a report with this mapping chosen."""
    return {**result_charts(subject), **mapping_charts(subject.background, mapping.looptree, mapping.evaluation)}


def _points(result: Result, memory: str | None) -> list[list[float]]:
    """Energy and latency of each mapping; and the bytes that it needs of a memory whose usage was an objective."""
    return [[m.energy, m.latency, *([used_bytes(m, memory)] if memory else [])] for m in result.mappings]


def _unfused(subject: Subject) -> dict[str, Any] | None:
    if subject.unfused is None:
        return None
    if isinstance(subject.unfused, str):
        return {"missing": subject.unfused}
    return {"points": _points(subject.unfused, subject.result.options.usage), "optimal": subject.unfused.optimal}


def _roofline(subject: Subject) -> dict[str, Any]:
    """What the whole workload takes at least: on each compute at its peak, and at the outermost memory's bandwidth."""
    limits, machine = subject.background.limits.values(), subject.background.machine
    computes = [dataclasses.asdict(share) for share in shares(limits) if share.peak < math.inf]
    memory = sum(limit.memory_seconds for limit in limits)
    bandwidth = machine.bandwidths[machine.outermost[0]]
    return {
        "convention": CONVENTION,
        "operations": sum(limit.operations for limit in limits),
        "computes": computes,
        "memory_seconds": memory,
        "seconds": max(sum(limit.compute_seconds for limit in limits), memory),
        "bandwidth": bandwidth if bandwidth < math.inf else None,
    }
