"""Two results as one HTML page, made like a report: its styles, its charts, its cards."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fusiest.comparison.compare import Comparison, Line, Row
from fusiest.comparison.saved import Saved
from fusiest.model.fusion import fused_sets
from fusiest.report.chart import Bars, Series
from fusiest.report.page import asset, page

_ALL_LINES = 1_000_000


def comparison_html(comparison: Comparison, title: str = "") -> str:
    """The page: it needs no other file and no network."""
    title = title or f"{comparison.a.file} and {comparison.b.file}"
    return page(title, asset("compare.html"), page_data(comparison, title), ("compare.js",))


def page_data(comparison: Comparison, title: str) -> dict[str, Any]:
    """All that the page shows."""
    from fusiest import __version__

    a, b = comparison.a, comparison.b
    energy, latency = comparison.energy_by_einsum(), comparison.latency_by_einsum()
    totals = zip(("Energy", "Latency", "Energy-delay product"), ("J", "s", "Js"), comparison.totals(), strict=True)
    return {
        "title": title,
        "note": "B against A",
        "version": __version__,
        "totals": [[name, unit, row.a, row.b] for name, unit, row in totals],
        "facts": [["A", _about(a)], *_warnings(a), ["B", _about(b)], *_warnings(b)],
        "charts": {
            "energy-component": _bars("Energy by component", "energy", "J", comparison.energy_by_component()),
            "energy-einsum": _bars("Energy by Einsum", "energy", "J", energy),
            "latency-einsum": _bars("Latency by Einsum", "latency", "s", latency),
        },
        "einsums": [
            [e.name, e.a, e.b, s.a, s.b, comparison.limited_by(e.name)] for e, s in zip(energy, latency, strict=True)
        ],
        "sets": [*_sets("A", a), *_sets("B", b)],
        "moved": [[tensor, one, other] for tensor, (one, other) in comparison.moved_tensors().items()],
        "tree": _lines(comparison.looptree_difference(_ALL_LINES)),
        "specs": _lines(comparison.spec_difference()),
    }


def _about(saved: Saved) -> str:
    proof = "proven optimal" if saved.optimal else f"not proven optimal, at most {saved.gap:.2%} better is possible"
    count = f"one of {saved.mappings:,} mappings, " if saved.mappings > 1 else ""
    return f"{saved.file}: {count}least {','.join(saved.objective)}, {proof}"


def _warnings(saved: Saved) -> list[list[str]]:
    return [["Warning", warning] for warning in saved.evaluation.warnings]


def _bars(title: str, axis: str, unit: str, rows: list[Row]) -> dict[str, Any]:
    shown = [row for row in rows if row.a or row.b]
    series = [
        Series(name="A", color="other", values=[row.a for row in shown]),
        Series(name="B", color="found", values=[row.b for row in shown]),
    ]
    names = [row.name for row in shown]
    return asdict(Bars(title=title, axis=axis, unit=unit, categories=names, series=series, stacked=False))


def _sets(name: str, saved: Saved) -> list[list[str]]:
    rows = []
    for fused in (s for s in fused_sets(saved.spec, saved.looptree) if len(s.einsums) > 1):
        memories = dict.fromkeys(fused.tensors.values())
        kept = [f"{', '.join(t for t, m in fused.tensors.items() if m == memory)} in {memory}" for memory in memories]
        rows.append([name, ", ".join(fused.einsums), "; ".join(kept)])
    return rows or [[name, "none", "–"]]


def _lines(lines: list[Line]) -> list[list[str]]:
    return [[line.mark, line.text] for line in lines]
