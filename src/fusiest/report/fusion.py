"""What is fused: the workload's graph with its fused sets in colour, and what that does for computational intensity."""

from __future__ import annotations

import math
from typing import Any

from fusiest.looptree.nodes import LoopTree
from fusiest.model.evaluate import Anatomy, Evaluation
from fusiest.model.fusion import FusedSet, backing_memories, fused_sets
from fusiest.report.chart import Bars, Box, Edge, Graph, Series
from fusiest.report.layout import layered
from fusiest.report.limits import Limit, Rate, intensity, outermost, traffic_bits
from fusiest.report.names import Names
from fusiest.show import einsum_line


def set_names(sets: tuple[FusedSet, ...]) -> list[str]:
    """`A`, `B`, … for sets of several Einsums; a single Einsum is not fused and has no letter."""
    letters = iter([chr(ord("A") + i) for i in range(26)] + [str(i) for i in range(27, 10_000)])
    return [next(letters) if len(s.einsums) > 1 else "" for s in sets]


def graph(names: Names, tree: LoopTree) -> Graph:
    """The Einsums, and the tensors that go from one to the next: thick where they stay on chip."""
    info = names.spec.info
    sets = fused_sets(names.spec, tree)
    lettered = [s for s in sets if len(s.einsums) > 1]
    color = {e: f"set:{i}" for i, s in enumerate(lettered) for e in s.einsums}
    backing, outer = backing_memories(tree), outermost(names.spec)
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


def set_table(
    names: Names, tree: LoopTree, parts: Anatomy, evaluation: Evaluation, limit: dict[str, Limit]
) -> list[dict[str, Any]]:
    """Per fused set: its Einsums, the tensors that stay on chip and where, operations, and what the outermost memory sees."""
    traffic = traffic_bits(parts, evaluation, outermost(names.spec))
    sets = fused_sets(names.spec, tree)
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


def intensity_chart(names: Names, own: dict[str, Rate], limit: dict[str, Limit], unfused: dict[str, Rate]) -> Bars:
    """Operations per byte of outermost-memory traffic, per Einsum, with the balance of the machine as a line."""
    series = [Series(name="this mapping", color="found", values=[rate.intensity for rate in own.values()])]
    if unfused:
        series.append(Series(name="unfused optimum", color="other", values=[unfused[e].intensity for e in own]))
    busiest = max(limit.values(), key=lambda x: x.operations)
    balance = busiest.peak / (busiest.bandwidth / 8)
    memory = outermost(names.spec)[0]
    return Bars(
        title="Computational intensity",
        axis=f"operations per byte of {memory} traffic",
        unit="op/B",
        categories=list(own),
        series=series,
        ends=[_end(limit[e].operations, own[e].intensity, memory) for e in own],
        level=balance if 0 < balance < math.inf else None,
        level_name="machine balance: bandwidth-bound below",
        stacked=False,
        log=True,
    )


def _end(operations: float, value: float | None, memory: str) -> str:
    if value is not None:
        return ""
    return f"now without {memory}" if operations else "no operations"
