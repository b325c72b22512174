"""What each component costs by itself, and where every figure comes from: the page's section for designs made of classes."""

from __future__ import annotations

import math
from typing import Any

from fusiest.spec import ComponentCosts, Spec


def cost_section(spec: Spec) -> dict[str, Any] | None:
    """Rows, totals and sources; None where no figure is estimated and nothing has an area or leaks."""
    costs = spec.costs()
    if not any(component.estimated or component.area or component.leak_power for component in costs):
        return None
    return {
        "rows": [_row(component) for component in costs],
        "area": math.fsum(component.total_area or 0.0 for component in costs),
        "area_unknown": [component.name for component in costs if component.area is None],
        "leak_power": math.fsum(component.total_leak_power for component in costs),
        "sources": [[component.name, list(component.explanations)] for component in costs if component.explanations],
    }


def _row(component: ComponentCosts) -> dict[str, Any]:
    figures = component.to_json()
    shown = ("name", "class", "count", "area", "leak_power", "total_area", "total_leak_power", "actions")
    return {**{name: figures[name] for name in shown}, "source": _source(component)}


def _source(component: ComponentCosts) -> str:
    """In a word; where figures differ in it, the word of most of them, and then which ones have another."""
    figures: dict[str, list[str]] = {}
    for figure, status in component.statuses.items():
        figures.setdefault(status, []).append(figure.replace(".", " ").replace("_", " "))
    first, *others = sorted(figures, key=lambda word: -len(figures[word]))
    return "; ".join([first, *(f"{word}: {', '.join(figures[word])}" for word in others)])
