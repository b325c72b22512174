"""Results side by side, as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from fusiest.base.objective import OBJECTIVES
from fusiest.comparison import Comparison, DifferenceLine, Row, Saved
from fusiest.model import fused_sets
from fusiest.report import Reasons, difference, reasons
from fusiest.show import si
from fusiest.terminal.component_table import area
from fusiest.terminal.grid import Grid, Part, grid

MOST_REASONS = 10
_STYLES = {"-": "red", "+": "green", "…": "dim", " ": ""}


def comparison_parts(comparison: Comparison) -> list[Part]:
    """Who is who, costs, fused sets, tensors that moved, then what differs in LoopTrees and specs."""
    names = comparison.names()
    named = list(zip(names, comparison.results, strict=True))
    parts: list[Part] = [part for name, saved in named for part in _heading(name, saved)]
    parts += ["", _totals(comparison), ""]
    parts += [_rows("energy by component", names, comparison.energy_by_component()), ""]
    parts += [_rows("energy by Einsum", names, comparison.energy_by_einsum()), "", _limits(comparison), ""]
    parts += [Text("fused sets", "bold"), *(part for name, saved in named for part in _sets(name, saved))]
    moved = comparison.moved_tensors()
    if moved:
        parts += ["", Text("tensors that moved", "bold")]
        parts += [f"  {tensor}: {' → '.join(m or '-' for m in memories)}" for tensor, memories in moved.items()]
    found = reasons(comparison)
    if found is not None:
        parts += ["", *_reasons(found, names)]
    parts += ["", *_looptrees(comparison)]
    for i, name in enumerate(names[1:], start=1):
        parts += ["", *_difference("specs", names[0], name, comparison.spec_difference(i), len(names) > 2)]
    return parts


def _heading(name: str, saved: Saved) -> list[Part]:
    text = Text(f"{name}  ", "bold")
    text.append(saved.file, "cyan")
    text.append(f"  ({saved.about()})", "dim")
    return [text, *(Text(f"   warning: {warning}", "yellow") for warning in saved.evaluation.warnings)]


def _columns(names: Sequence[str]) -> list[str]:
    """The first, then each other one with its ratio to the first."""
    return [f">{names[0]}", *(title for name in names[1:] for title in (f">{name}", f">{name} / {names[0]}"))]


def _cells(row: Row, unit: str) -> list[str]:
    shown = [_quantity(value, unit) if value is not None else "-" for value in row.values]
    ratios = [row.ratio(i) for i in range(len(row.values))]
    cells = [shown[0]]
    for text, ratio in zip(shown[1:], ratios[1:], strict=True):
        cells += [text, f"{ratio:.4g}" if ratio is not None else "-"]
    return cells


def _quantity(value: float, unit: str) -> str:
    return area(value) if unit == "m2" else si(value, unit) if unit else f"{value:.4g}"


def _totals(comparison: Comparison) -> Grid:
    table = grid("<", *_columns(comparison.names()))
    for row in comparison.totals():
        objective = OBJECTIVES[row.name]
        table.add(objective.short, *_cells(row, objective.unit))
    by_result = zip(*(row.values for row in comparison.area_by_component()), strict=True)
    areas = [sum(value or 0.0 for value in values) or None for values in by_result]
    if any(areas):
        table.add("area", *_cells(Row("area", tuple(areas)), "m2"))
    for row in comparison.efficiencies():
        if any(row.values):
            table.add(row.name, *_cells(row, ""))
    return table


def _rows(title: str, names: Sequence[str], rows: Iterable[Row]) -> Grid:
    table = grid(f"<{title}", *_columns(names))
    for row in rows:
        if any(row.values):
            table.add(row.name, *_cells(row, "J"))
    return table


def _limits(comparison: Comparison) -> Grid:
    """The latency of each Einsum, and what limits it in each."""
    table = grid("<latency by Einsum", *_columns(comparison.names()), "?<limited by")
    for row in comparison.latency_by_einsum():
        table.add(row.name, *_cells(row, "s"), comparison.limited_by(row.name) or "–")
    return table


def _sets(name: str, saved: Saved) -> list[Part]:
    sets = [fused.einsums for fused in fused_sets(saved.spec, saved.looptree) if len(fused.einsums) > 1]
    return [f"  {name if i == 0 else ' '}  {' '.join(einsums)}" for i, einsums in enumerate(sets or [("none",)])]


def _reasons(found: Reasons, names: Sequence[str]) -> list[Part]:
    """By component and tensor, the largest difference first; then how often tensors are fetched, where that differs."""
    parts: list[Part] = []
    for title, unit, rows in (("energy of", "J", found.energy), ("busy time of", "s", found.seconds)):
        table = grid(f"<{title}", *(f">{name}" for name in names), f">{names[1]} - {names[0]}")
        for row in [row for row in rows if difference(row)][:MOST_REASONS]:
            sign = "+" if difference(row) > 0 else "-"
            table.add(row.name, *(si(value or 0, unit) for value in row.values), sign + si(abs(difference(row)), unit))
        parts += [table, ""] if table.rows else []
    sides = [f"{side}{name} {what}" for name in names for side, what in (("<", "in"), (">", "read"), (">", "written"))]
    table = grid("<times, against once", *sides)
    for tensor, fetches in found.fetches.items():
        if len({(f.memory, round(f.read, 9), round(f.written, 9)) for f in fetches}) > 1:
            table.add(tensor, *(cell for f in fetches for cell in (f.memory, _times(f.read), _times(f.written))))
    return [*parts, table] if table.rows else parts[:-1]


def _times(count: float) -> str:
    return f"{count:.4g} x" if count else "-"


def _looptrees(comparison: Comparison) -> list[Part]:
    """LoopTrees: the lines that differ between two; of more only which are equal, as lines would fill screens."""
    names = comparison.names()
    if len(names) == 2:
        return _difference("LoopTrees", names[0], names[1], comparison.looptree_difference(), False)
    parts: list[Part] = [Text("LoopTrees", "bold")]
    for i, name in enumerate(names[1:], start=1):
        changed = sum(line.mark in "+-" for line in comparison.looptree_difference(i))
        words = f"differs from {names[0]} in {changed} lines" if changed else f"is equal to {names[0]}'s"
        parts.append(f"  {name}  {words}")
    return parts


def _difference(title: str, first: str, second: str, lines: list[DifferenceLine], many: bool) -> list[Part]:
    title = f"{title} of {first} and {second}" if many else title
    if not lines:
        return [Text(f"{title} are equal", "bold")]
    head = Text(title, "bold")
    head.append(f"  - only {first}, + only {second}", "dim")
    return [head, *(Text(f"{line.mark} {line.text}".rstrip(), _STYLES[line.mark]) for line in lines)]
