"""Results side by side as one HTML page, made like a report: its styles, its charts, its cards."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fusiest.base.objective import OBJECTIVES
from fusiest.comparison import Comparison, DifferenceLine, Row, Saved
from fusiest.model import fused_sets
from fusiest.report.charts.chart import Bars, Series
from fusiest.report.page import asset, page
from fusiest.report.reasons import difference, reasons

_ALL_LINES = 1_000_000


def comparison_html(comparison: Comparison, title: str = "") -> str:
    """The page: it needs no other file and no network."""
    files = [saved.file for saved in comparison.results]
    title = title or f"{', '.join(files[:-1])} and {files[-1]}"
    return page(title, asset("compare.html"), page_data(comparison, title), ("compare.js",))


def page_data(comparison: Comparison, title: str) -> dict[str, Any]:
    """All that the page shows."""
    from fusiest import __version__

    names, results = comparison.names(), comparison.results
    energy, latency = comparison.energy_by_einsum(), comparison.latency_by_einsum()
    return {
        "title": title,
        "note": f"{', '.join(names[1:])} against {names[0]}",
        "version": __version__,
        "names": names,
        "totals": [
            [OBJECTIVES[t.name].title.capitalize(), OBJECTIVES[t.name].unit, list(t.values)]
            for t in comparison.totals()
        ],
        "facts": [fact for name, saved in zip(names, results, strict=True) for fact in _facts(name, saved)],
        "charts": {
            "energy-component": _bars(names, "Energy by component", "energy", "J", comparison.energy_by_component()),
            "energy-einsum": _bars(names, "Energy by Einsum", "energy", "J", energy),
            "latency-einsum": _bars(names, "Latency by Einsum", "latency", "s", latency),
        },
        "einsums": [
            [e.name, list(e.values), list(s.values), comparison.limited_by(e.name) or "–"]
            for e, s in zip(energy, latency, strict=True)
        ],
        "sets": [row for name, saved in zip(names, results, strict=True) for row in _sets(name, saved)],
        "moved": [[tensor, *(m or "–" for m in memories)] for tensor, memories in comparison.moved_tensors().items()],
        "reasons": _reasons(comparison),
        "differences": [
            {
                "name": name,
                "tree": _lines(comparison.looptree_difference(i, _ALL_LINES)),
                "specs": _lines(comparison.spec_difference(i)),
            }
            for i, name in enumerate(names[1:], start=1)
        ],
    }


def _facts(name: str, saved: Saved) -> list[list[str]]:
    warnings = [["Warning", warning] for warning in saved.evaluation.warnings]
    return [[name, f"{saved.file}: {saved.about()}"], *warnings]


def _bars(names: list[str], title: str, axis: str, unit: str, rows: list[Row]) -> dict[str, Any]:
    shown = [row for row in rows if any(row.values)]
    colours = ["other", "found", *(f"set:{i}" for i in range(2, len(names)))]
    series = [
        Series(name=name, color=colours[i], values=[row.values[i] for row in shown]) for i, name in enumerate(names)
    ]
    categories = [row.name for row in shown]
    return asdict(Bars(title=title, axis=axis, unit=unit, categories=categories, series=series, stacked=False))


def _sets(name: str, saved: Saved) -> list[list[str]]:
    rows = []
    for fused in (s for s in fused_sets(saved.spec, saved.looptree) if len(s.einsums) > 1):
        memories = dict.fromkeys(fused.tensors.values())
        backings = [
            f"{', '.join(t for t, m in fused.tensors.items() if m == memory)} in {memory}" for memory in memories
        ]
        rows.append([name, ", ".join(fused.einsums), "; ".join(backings)])
    return rows or [[name, "none", "–"]]


def _reasons(comparison: Comparison) -> dict[str, Any] | None:
    """Tables of all that differs, for two mappings of one workload."""
    found = reasons(comparison)
    if found is None:
        return None
    return {
        "energy": [[row.name, *(value or 0 for value in row.values), difference(row)] for row in found.energy],
        "seconds": [[row.name, *(value or 0 for value in row.values), difference(row)] for row in found.seconds],
        "fetches": [
            [t, *(x for f in fetches for x in (f.memory, f.read, f.written))] for t, fetches in found.fetches.items()
        ],
    }


def _lines(lines: list[DifferenceLine]) -> list[list[str]]:
    return [[line.mark, line.text] for line in lines]
