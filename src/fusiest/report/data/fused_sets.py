"""What is fused: the workload's graph with its fused sets in colour, and what that does for computational intensity."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

from fusiest.looptree import LoopTree
from fusiest.model import Anatomy, Evaluation, FusedSet, backing_memories, fused_sets
from fusiest.report.charts.chart import Bars, ChartBox, Edge, Graph, Series
from fusiest.report.data.background import Background
from fusiest.report.data.limits import Rate, intensity, traffic_bits
from fusiest.show import einsum_line

MOST_DRAWN = 400
"""Einsums, in a graph: more of them say nothing that their table does not say better."""


def set_names(sets: tuple[FusedSet, ...]) -> list[str]:
    """`A`, `B`, … for sets of several Einsums; a single Einsum is not fused and has no letter."""
    letters = iter([chr(ord("A") + i) for i in range(26)] + [str(i) for i in range(27, 10_000)])
    return [next(letters) if len(s.einsums) > 1 else "" for s in sets]


def graph(background: Background, tree: LoopTree) -> Graph:
    """The Einsums, each with where its result is kept, and the tensors that go from one to the next: thick on chip."""
    info, outer = background.spec.info, background.machine.outermost
    if not 1 < len(info.einsums) <= MOST_DRAWN:
        return Graph(title="Fused sets", boxes=[], edges=[])
    sets = fused_sets(background.spec, tree)
    letters, color = set_names(sets), _set_colors(sets)
    letter = {e: name for name, s in zip(letters, sets, strict=True) for e in s.einsums}
    backing, number = backing_memories(tree), {name: i for i, name in enumerate(info.einsums)}
    boxes = []
    for name, einsum in info.einsums.items():
        memory = backing[einsum.output]
        note = memory if name == einsum.output else f"{einsum.output} in {memory}"
        boxes.append(
            ChartBox(name=str(name), note=note, color=color[name], tag=letter[name], hover=einsum_line(einsum))
        )
    edges = [
        Edge(
            name=str(tensor), source=number[producer], target=number[user], strong=backing[tensor] not in outer,
            color="other" if backing[tensor] in outer else color[producer],
            hover=f"{tensor} from {producer} to {user} through {backing[tensor]}",
        )
        for tensor, makers in info.producers.items() for producer in makers
        for user in info.users[tensor] if user not in makers
    ]  # fmt: skip
    legend = [(color[s.einsums[0]], f"fused set {name}", "") for name, s in zip(letters, sets, strict=True) if name]
    if any(edge.strong for edge in edges):
        legend.append(("", "stays on chip", "line"))
    if not all(edge.strong for edge in edges):
        legend.append(("", f"goes through {' or '.join(outer)}", "dash"))
    return Graph(title="Fused sets", boxes=boxes, edges=edges, legend=legend)


def _set_colors(sets: tuple[FusedSet, ...]) -> dict[str, str]:
    """The colour of each Einsum: that of its set, or none."""
    numbers = itertools.count()
    colors = {}
    for fused in sets:
        color = f"set:{next(numbers)}" if len(fused.einsums) > 1 else "other"
        colors.update(dict.fromkeys(fused.einsums, color))
    return colors


def set_table(background: Background, tree: LoopTree, parts: Anatomy, evaluation: Evaluation) -> list[dict[str, Any]]:
    """Per fused set, and for all other Einsums together: what stays on chip and where, operations, and what the outermost
    memory sees."""
    names, limit = background.names, background.limits
    traffic = traffic_bits(parts, evaluation, background.machine.outermost)
    sets = fused_sets(background.spec, tree)
    color = _set_colors(sets)
    rows = [(letter, s.einsums, s.tensors) for letter, s in zip(set_names(sets), sets, strict=True) if letter]
    alone = tuple(s.einsums[0] for s in sets if len(s.einsums) == 1)
    table = []
    for letter, einsums, tensors in [*rows, *([("", alone, {})] if alone else [])]:
        operations = sum(limit[e].operations for e in einsums)
        moved = sum(traffic[e] for e in einsums)
        evaluations = [evaluation.einsums[e] for e in einsums]
        table.append(
            {"name": letter, "color": color[einsums[0]], "einsums": list(einsums),
             "kept": [[m, [names.tensors[t] for t in tensors if tensors[t] == m]] for m in dict.fromkeys(tensors.values())],
             "operations": operations, "moved": moved, "intensity": intensity(operations, moved),
             "energy": sum(e.energy for e in evaluations), "latency": sum(e.latency for e in evaluations)}
        )  # fmt: skip
    return table


def intensity_chart(background: Background, rates: Mapping[str, Rate]) -> Bars:
    """Operations per byte of outermost-memory traffic, per Einsum, with the balance of the machine as a line."""
    machine, unfused = background.machine, background.unfused
    series = [Series(name="this mapping", color="found", values=[rate.outer for rate in rates.values()])]
    if unfused:
        series.append(Series(name="unfused optimum", color="other", values=[unfused[e].outer for e in rates]))
    busiest = max(background.limits.values(), key=lambda limit: limit.operations)
    balance = busiest.peak / machine.bandwidths[machine.outermost[0]]
    memory = machine.outermost[0]
    return Bars(
        title="Computational intensity",
        axis=f"operations per byte of {memory} traffic",
        unit="op/B",
        categories=list(rates),
        series=series,
        ends=[_end(background.limits[e].operations, rates[e].outer, memory) for e in rates],
        level=balance if 0 < balance < math.inf else None,
        level_name=f"balance of {busiest.compute} and {memory}: bandwidth-bound below",
        stacked=False,
        log=True,
    )


def _end(operations: float, value: float | None, memory: str) -> str:
    if value is not None:
        return ""
    return f"without {memory}" if operations else "no operations"
