"""Two results side by side, as text."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from fusiest.comparison.compare import Comparison, Line, Row
from fusiest.comparison.saved import Saved
from fusiest.model.fusion import fused_sets
from fusiest.show import si
from fusiest.terminal.grid import Grid, Part, grid

_STYLES = {"-": "red", "+": "green", "…": "dim", " ": ""}
_UNITS = {"energy": "J", "latency": "s", "edp": "Js"}


def comparison_parts(comparison: Comparison) -> list[Part]:
    """Who is who, costs, fused sets, tensors that moved, then what differs in LoopTrees and specs."""
    a, b = comparison.a, comparison.b
    parts: list[Part] = [*_who("A", a), *_who("B", b), "", _totals(comparison), ""]
    parts += [_rows("energy by component", comparison.energy_by_component(), "J"), ""]
    parts += [_rows("energy by Einsum", comparison.energy_by_einsum(), "J"), "", _limits(comparison), ""]
    parts += [Text("fused sets", "bold"), *_sets("A", a), *_sets("B", b)]
    moved = comparison.moved_tensors()
    if moved:
        parts += ["", Text("tensors that moved", "bold")]
        parts += [f"  {tensor}: {one} → {other}" for tensor, (one, other) in moved.items()]
    parts += ["", *_difference("LoopTrees", comparison.looptree_difference())]
    return [*parts, "", *_difference("specs", comparison.spec_difference())]


def _who(name: str, saved: Saved) -> list[Part]:
    proof = "proven optimal" if saved.optimal else f"at most {saved.gap:.2%} better is possible"
    of = f", one of {saved.mappings:,} mappings" if saved.mappings > 1 else ""
    text = Text(f"{name}  ", "bold")
    text.append(saved.file, "cyan")
    text.append(f"  ({','.join(saved.objective)}{of}, {proof})", "dim")
    return [text, *(Text(f"   warning: {warning}", "yellow") for warning in saved.evaluation.warnings)]


def _totals(comparison: Comparison) -> Grid:
    table = grid("<", ">A", ">B", ">B / A")
    for row in comparison.totals():
        table.add("EDP" if row.name == "edp" else row.name, *_cells(row, _UNITS[row.name]))
    return table


def _rows(title: str, rows: Iterable[Row], unit: str) -> Grid:
    table = grid(f"<{title}", ">A", ">B", ">B / A")
    for row in rows:
        if row.a or row.b:
            table.add(row.name, *_cells(row, unit))
    return table


def _limits(comparison: Comparison) -> Grid:
    """The latency of each Einsum, and what limits it in both."""
    table = grid("<latency by Einsum", ">A", ">B", ">B / A", "?<limited by")
    for row in comparison.latency_by_einsum():
        table.add(row.name, *_cells(row, "s"), comparison.limited_by(row.name))
    return table


def _cells(row: Row, unit: str) -> tuple[str, str, str]:
    values = [si(value, unit) if value is not None else "-" for value in (row.a, row.b)]
    return values[0], values[1], f"{row.ratio:.4g}" if row.ratio is not None else "-"


def _sets(name: str, saved: Saved) -> list[Part]:
    sets = [fused.einsums for fused in fused_sets(saved.spec, saved.looptree) if len(fused.einsums) > 1]
    return [f"  {name if i == 0 else ' '}  {' '.join(einsums)}" for i, einsums in enumerate(sets or [("none",)])]


def _difference(title: str, lines: list[Line]) -> list[Part]:
    if not lines:
        return [Text(f"{title} are equal", "bold")]
    head = Text(title, "bold")
    head.append("  - only A, + only B", "dim")
    return [head, *(Text(f"{line.mark} {line.text}".rstrip(), _STYLES[line.mark]) for line in lines)]
