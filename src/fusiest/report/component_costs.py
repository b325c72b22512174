"""What each component costs by itself, and where every figure comes from: the page's section for designs made of classes."""

from __future__ import annotations

import math
from typing import Any

from fusiest.spec import ComponentCosts, Spec


def cost_section(spec: Spec) -> dict[str, Any] | None:
    """Rows, totals and sources; None where no figure is estimated and nothing has an area or leaks."""
    costs = spec.costs()
    if not any(one.estimated or one.area or one.leak_power for one in costs):
        return None
    return {
        "rows": [_row(one) for one in costs],
        "area": math.fsum(one.total_area or 0.0 for one in costs),
        "area_unknown": [one.name for one in costs if one.area is None],
        "leak_power": math.fsum(one.total_leak_power for one in costs),
        "sources": [[one.name, list(one.explanations)] for one in costs if one.explanations],
    }


def _row(one: ComponentCosts) -> dict[str, Any]:
    known = one.to_json()
    shown = ("name", "class", "count", "area", "leak_power", "total_area", "total_leak_power", "actions")
    return {**{name: known[name] for name in shown}, "source": _source(one)}


def _source(one: ComponentCosts) -> str:
    """In a word; where figures differ in it, the word of most of them, and then which ones have another.

    Whether a figure is `given`, `estimated`, `extrapolated` or `assumed` is how its provenance begins.
    """
    figures: dict[str, list[str]] = {}
    for figure, text in one.provenance.items():
        figures.setdefault(text.split(" by ")[0], []).append(figure.replace(".", " ").replace("_", " "))
    first, *others = sorted(figures, key=lambda word: -len(figures[word]))
    return "; ".join([first, *(f"{word}: {', '.join(figures[word])}" for word in others)])
