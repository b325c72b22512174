"""Advice as text: what binds, what is idle, what a change of each figure does, and what fusion did."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from fusiest.base.objective import OBJECTIVES
from fusiest.show import si
from fusiest.sweeps import FULL, IDLE, Advice, Binding, WaterfallStep
from fusiest.terminal.grid import Part, grid


def advice_parts(advice: Sequence[Advice], binds: Binding, steps: Sequence[WaterfallStep], aim: str) -> list[Part]:
    """All of it; `advice` is ranked."""
    table = grid("<change", f">{OBJECTIVES[aim].short}", ">energy", ">latency", "?<")
    for change in advice:
        if change.energy is None or change.latency is None:
            table.add(f"{change.what} x{change.factor:g}", "-", "-", "-", change.how)
            continue
        value = change.cost(aim) or 0.0
        style = "green" if value < 0.999 else "red" if value > 1.001 else "dim"
        cells = (f"{value:.4g}", f"{change.energy:.4g}", f"{change.latency:.4g}")
        table.add(f"{change.what} x{change.factor:g}", *cells, change.how, style=style)
    return [*_binding(binds), "", Text("each change alone, costs over those of the design as it is", "bold"), table,
            *_waterfall(steps)]  # fmt: skip


def _binding(binds: Binding) -> list[Part]:
    def shares(by_name: dict[str, float]) -> str:
        return (
            ", ".join(f"{name} {share:.1%}" for name, share in sorted(by_name.items(), key=lambda item: -item[1]))
            or "none"
        )

    table = grid("<", "<", header=False)
    table.add("full memories", shares({n: s for n, s in binds.full.items() if s >= FULL}))
    table.add("limiting, of the latency", shares(binds.limiting))
    table.add("idle: busy for", shares({n: s for n, s in binds.busy.items() if s < IDLE}))
    return [Text("what binds", "bold"), table]


def _waterfall(steps: Sequence[WaterfallStep]) -> list[Part]:
    if not steps:
        return []
    table = grid("<fused set", ">energy", ">latency")
    for i, step in enumerate(steps):
        energy_sign = "" if i == 0 else "+" if step.energy > 0 else "-" if step.energy < 0 else ""
        latency_sign = "" if i == 0 else "+" if step.latency > 0 else "-" if step.latency < 0 else ""
        table.add(step.name, energy_sign + si(abs(step.energy), "J"), latency_sign + si(abs(step.latency), "s"))
    total = sum(step.energy for step in steps), sum(step.latency for step in steps)
    table.add("in all", si(total[0], "J"), si(total[1], "s"), style="bold")
    return ["", Text("from the unfused optimum, a fused set at a time", "bold"), table]
