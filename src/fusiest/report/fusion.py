"""What is fused: the workload's graph with its fused sets in colour, and what that does for computational intensity."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fusiest.looptree.nodes import LoopTree
from fusiest.model.evaluate import Anatomy, Evaluation
from fusiest.model.fusion import FusedSet, backing_memories, fused_sets
from fusiest.report.background import Background
from fusiest.report.chart import Bars, Box, Edge, Graph, Series
from fusiest.report.layout import layered
from fusiest.report.limits import Rate, intensity, traffic_bits
from fusiest.show import einsum_line


def set_names(sets: tuple[FusedSet, ...]) -> list[str]:
    """`A`, `B`, … for sets of several Einsums; a single Einsum is not fused and has no letter."""
    letters = iter([chr(ord("A") + i) for i in range(26)] + [str(i) for i in range(27, 10_000)])
    return [next(letters) if len(s.einsums) > 1 else "" for s in sets]


def graph(background: Background, tree: LoopTree) -> Graph:
    """The Einsums, and the tensors that go from one to the next: thick where they stay on chip."""
    info = background.spec.info
    sets = fused_sets(background.spec, tree)
    lettered = [s for s in sets if len(s.einsums) > 1]
    color = {e: f"set:{i}" for i, s in enumerate(lettered) for e in s.einsums}
    backing, outer = backing_memories(tree), background.machine.outermost
    edges = [
        (str(info.producer[t]), str(user), str(t))
        for t, users in info.users.items() if t in info.producer
        for user in users if user != info.producer[t]
    ]  # fmt: skip
    layout = layered([str(e) for e in info.einsums], edges)
    boxes = [
        Box(name=name, x=x, y=y, color=color.get(name, "other"), hover=einsum_line(info.einsums[name]))
        for name, (x, y) in layout.places.items()
    ]
    drawn = []
    for edge, curve in layout.curves.items():
        tensor, strong = edge[2], backing[edge[2]] not in outer
        drawn.append(
            Edge(name=tensor, xs=[x for x, _ in curve], ys=[y for _, y in curve], strong=strong,
                 color=color.get(edge[0], "other") if strong else "other",
                 hover=f"{tensor} from {edge[0]} to {edge[1]} through {backing[tensor]}")
        )  # fmt: skip
    letters = [letter for letter in set_names(sets) if letter]
    legend = {f"set:{i}": f"fused set {letter}" for i, letter in enumerate(letters)}
    if len(lettered) < len(sets):
        legend["other"] = "not fused"
    return Graph(title="Fused sets", boxes=boxes, edges=drawn, legend=legend)


def set_table(background: Background, tree: LoopTree, parts: Anatomy, evaluation: Evaluation) -> list[dict[str, Any]]:
    """Per fused set: its Einsums, the tensors that stay on chip and where, operations, and what the outermost memory sees."""
    names, limit = background.names, background.limits
    traffic = traffic_bits(parts, evaluation, background.machine.outermost)
    sets = fused_sets(background.spec, tree)
    color = iter(f"set:{i}" for i in range(len(sets)))
    rows = []
    for letter, fused in zip(set_names(sets), sets, strict=True):
        operations = sum(limit[e].operations for e in fused.einsums)
        moved = sum(traffic[e] for e in fused.einsums)
        own = [evaluation.einsums[e] for e in fused.einsums]
        rows.append(
            {"name": letter, "color": next(color) if letter else "other", "einsums": list(fused.einsums),
             "kept": [[m, [names.tensors[t] for t in fused.tensors if fused.tensors[t] == m]]
                      for m in dict.fromkeys(fused.tensors.values())],
             "operations": operations, "moved": moved, "intensity": intensity(operations, moved),
             "energy": sum(e.energy for e in own), "latency": sum(e.latency for e in own)}
        )  # fmt: skip
    return rows


def intensity_chart(background: Background, own: Mapping[str, Rate]) -> Bars:
    """Operations per byte of outermost-memory traffic, per Einsum, with the balance of the machine as a line."""
    machine, unfused = background.machine, background.unfused
    series = [Series(name="this mapping", color="found", values=[rate.outer for rate in own.values()])]
    if unfused:
        series.append(Series(name="unfused optimum", color="other", values=[unfused[e].outer for e in own]))
    busiest = max(background.limits.values(), key=lambda x: x.operations)
    balance = busiest.peak / machine.bandwidths[machine.outermost[0]]
    memory = machine.outermost[0]
    return Bars(
        title="Computational intensity",
        axis=f"operations per byte of {memory} traffic",
        unit="op/B",
        categories=list(own),
        series=series,
        ends=[_end(background.limits[e].operations, own[e].outer, memory) for e in own],
        level=balance if 0 < balance < math.inf else None,
        level_name=f"balance of {busiest.compute} and {memory}: bandwidth-bound below",
        stacked=False,
        log=True,
    )


def _end(operations: float, value: float | None, memory: str) -> str:
    if value is not None:
        return ""
    return f"without {memory}" if operations else "no operations"
