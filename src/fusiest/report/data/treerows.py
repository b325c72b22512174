"""The LoopTree as rows of a table, each with its depth: loops, holders (a row per tensor), splits' branches, computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fusiest.looptree import (
    Compute,
    Loop,
    LoopTree,
    Node,
    Sequential,
    Spatial,
    Storage,
    Temporal,
    Toll,
    einsums,
    iterations,
    rank_words,
    tile_words,
)
from fusiest.model import Anatomy, Evaluation
from fusiest.report.data.background import Background
from fusiest.report.data.traffic import HolderCost, holder_costs

MOST_OPEN = 8
"""Tensors that one storage node may list before they are folded into a row."""


def tree_rows(background: Background, tree: LoopTree, parts: Anatomy, evaluation: Evaluation) -> list[dict[str, Any]]:
    """Rows in written order. `depth` is how far a row is indented; a row's children are the deeper ones after it."""
    walk = _RowWalk(background, evaluation, holder_costs(parts, evaluation))
    walk.nodes(tree.nodes, 0, ())
    return walk.rows


@dataclass
class _RowWalk:
    background: Background
    evaluation: Evaluation
    costs: dict[tuple[int, str], HolderCost]
    rows: list[dict[str, Any]] = field(default_factory=list)
    number: int = 0
    """Number of the next node, depth first, as the model counts them."""

    def nodes(self, nodes: tuple[Node, ...], depth: int, above: tuple[Loop, ...]) -> None:
        users = einsums(nodes)
        for node in nodes:
            if isinstance(node, Sequential):
                for branch in node.nodes:
                    self.branch(branch.nodes, depth, above)
                return
            if isinstance(node, Temporal | Spatial):
                self.rows.append(self.loop(node, depth, above, users))
                depth, above = depth + 1, (*above, node)
            elif isinstance(node, Compute):
                self.rows.append(self.compute(node, depth))
            else:
                self.holders(node, depth)
            self.number += 1

    def branch(self, nodes: tuple[Node, ...], depth: int, above: tuple[Loop, ...]) -> None:
        names = [str(name) for name in einsums(nodes)]
        evaluations = [self.evaluation.einsums[name] for name in names]
        row = {"kind": "branch", "depth": depth, "einsums": names,
               "energy": sum(e.energy for e in evaluations), "latency": sum(e.latency for e in evaluations)}  # fmt: skip
        self.rows.append(row)
        self.nodes(nodes, depth + 1, above)

    def loop(self, node: Loop, depth: int, above: tuple[Loop, ...], below: tuple[str, ...]) -> dict[str, Any]:
        bounds = {name: info.bounds for name, info in self.background.spec.info.einsums.items()}
        tile = tile_words(node, below).removeprefix("tile ")
        row = {"kind": "loop", "depth": depth, "variable": rank_words(node), "tile": int(tile) if tile.isdigit() else tile,
               "iterations": iterations(node, above, below, bounds)}  # fmt: skip
        if isinstance(node, Spatial):
            row |= {"kind": "spatial", "on": f"{node.component}.{node.name}"}
        return row

    def holders(self, node: Storage | Toll, depth: int) -> None:
        """A row per tensor; many of them lie below one row, which is folded at first. What they hold is not held at once."""
        if len(node.tensors) <= MOST_OPEN:
            self.rows += [self.holder(node, str(tensor), depth) for tensor in node.tensors]
            return
        rows = [self.holder(node, str(tensor), depth + 1) for tensor in node.tensors]
        sums: dict[str, Any] = {name: sum(row[name] for row in rows) for name in ("moved", "energy")}
        toll = isinstance(node, Toll)
        self.rows.append(
            {
                "kind": "holders",
                "depth": depth,
                "count": len(rows),
                "component": str(node.component),
                "toll": toll,
                **sums,
            }
        )
        self.rows += rows

    def holder(self, node: Any, tensor: str, depth: int) -> dict[str, Any]:
        cost = self.costs[self.number, tensor]
        row = {"kind": "storage", "depth": depth, "tensor": self.background.names.tensors[tensor],
               "component": str(node.component), "moved": cost.moved_bits, "energy": cost.energy}  # fmt: skip
        if isinstance(node, Storage):
            return row | {"held": cost.held_bits, "persistent": node.persistent}
        return row | {"kind": "toll"}

    def compute(self, node: Compute, depth: int) -> dict[str, Any]:
        einsum = self.evaluation.einsums[node.einsum]
        key = str(node.component), "", "compute"
        return {"kind": "compute", "depth": depth, "einsum": str(node.einsum), "component": str(node.component),
                "operations": self.background.limits[node.einsum].operations, "energy": einsum.energies[key]}  # fmt: skip
