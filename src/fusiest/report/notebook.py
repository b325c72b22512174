"""A result in a notebook: its mappings as a table, and the best one drawn."""

from __future__ import annotations

import html

from fusiest.base.objective import OBJECTIVES, cost_of
from fusiest.looptree import draw_svg
from fusiest.mapper import Result
from fusiest.model import Evaluation
from fusiest.show import bits, si

MOST_ROWS = 12


def result_html(result: Result) -> str:
    """Nothing but a table and an SVG: notebooks show it without any script."""
    best, memory = result.best(result.aim), result.options.usage
    head = ["", *([memory] if memory else []), *(objective.short for objective in OBJECTIVES.values()), ""]
    rows = []
    for number, m in enumerate(result.mappings[:MOST_ROWS], start=1):
        used = [bits(m.evaluation.peak_occupancy_bits.get(memory, 0))] if memory else []
        costs = (si(cost_of(m, name), objective.unit) for name, objective in OBJECTIVES.items())
        rows.append(_row("td", [str(number), *used, *costs, "drawn below" if m is best else ""]))
    more = len(result.mappings) - MOST_ROWS
    if more > 0:
        rows.append(f"<tr><td colspan='{len(head)}'>and {more} more</td></tr>")
    bounds = {name: dict(info.bounds) for name, info in result.spec.info.einsums.items()}
    count = f"{len(result.mappings)} mapping{'s' if len(result.mappings) != 1 else ''}, {result.proof}"
    table = f"<table>{_row('th', head)}{''.join(rows)}</table>"
    return f"<p>{html.escape(count)}</p>{table}{warnings_html(best.evaluation)}{draw_svg(best.looptree, bounds)}"


def evaluation_html(evaluation: Evaluation) -> str:
    """Totals, a table of Einsums, and what memories hold at most."""
    costs = ", ".join(si(cost_of(evaluation, name), objective.unit) for name, objective in OBJECTIVES.items())
    rows = [_row("th", ["Einsum", "energy", "latency", "limited by"])]
    for name, e in evaluation.einsums.items():
        rows.append(_row("td", [name, si(e.energy, "J"), si(e.latency, "s"), e.bottleneck or "–"]))
    peaks = [_row("th", ["memory", "at most"])]
    peaks += [_row("td", [name, bits(peak)]) for name, peak in evaluation.peak_occupancy_bits.items()]
    tables = "".join(f"<table>{''.join(table)}</table>" for table in (rows, peaks))
    return f"<p>{html.escape(costs)}</p>{warnings_html(evaluation)}{tables}"


def _row(tag: str, cells: list[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def warnings_html(evaluation: Evaluation) -> str:
    """A paragraph for each."""
    return "".join(f"<p>Warning: {html.escape(warning)}</p>" for warning in evaluation.warnings)
