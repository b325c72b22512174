"""A result in a notebook: its mappings as a table, and the best one drawn."""

from __future__ import annotations

import html

from fusiest.looptree.svg import svg
from fusiest.mapper.result import Mapping, Result
from fusiest.show import si

MOST_ROWS = 12


def result_html(result: Result) -> str:
    """Nothing but a table and an SVG: notebooks show it without any script."""
    best = result.best(result.aim)
    state = "proven optimal" if result.optimal else f"at most {result.gap:.2%} better is possible"
    rows = []
    for number, m in enumerate(result.mappings[:MOST_ROWS], start=1):
        cells = (
            str(number),
            si(m.energy, "J"),
            si(m.latency, "s"),
            f"{m.edp:.4g} Js",
            "drawn below" if m is best else "",
        )
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    more = len(result.mappings) - MOST_ROWS
    if more > 0:
        rows.append(f"<tr><td colspan='5'>and {more} more</td></tr>")
    head = "".join(f"<th>{name}</th>" for name in ("", "energy", "latency", "EDP", ""))
    bounds = {name: dict(info.bounds) for name, info in result.spec.info.einsums.items()}
    count = f"{len(result.mappings)} mapping{'s' if len(result.mappings) != 1 else ''}, {state}"
    return f"<p>{html.escape(count)}</p><table><tr>{head}</tr>{''.join(rows)}</table>{warnings_html(best)}{svg(best.looptree, bounds)}"


def warnings_html(mapping: Mapping) -> str:
    """A paragraph for each."""
    return "".join(f"<p>Warning: {html.escape(warning)}</p>" for warning in mapping.evaluation.warnings)
