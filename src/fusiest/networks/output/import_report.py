"""What became of every node of a network, and what the Einsums add up to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from fusiest.networks.graph.graph import GraphNode, reached
from fusiest.networks.lowering.lower import CutValue, Fate
from fusiest.networks.lowering.tensors import NetEinsum, NetTensor
from fusiest.networks.output.node_macs import node_macs
from fusiest.networks.output.readable_names import NetNames
from fusiest.networks.passes.lowered import Lowered

MOST_CUTS = 10
_LARGEST = 10**300
"""Beyond this, a product of sizes is no number that a computer shows."""


@dataclass(frozen=True, slots=True)
class NodeFate:
    """What became of a node: `einsums`, `view`, `folded`, `constant`, `input`, `cut` or `unused`; and which, or why."""

    name: str
    operator: str
    became: str
    detail: str


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import gives, in figures and node by node."""

    network: str
    macs: int
    vector_operations: int
    parameters: int
    einsums: int
    nodes: tuple[NodeFate, ...]
    cuts: tuple[NodeFate, ...]
    """Nodes at which values go through the outermost memory, and why."""
    cut_macs: int
    """Multiply-accumulates of Einsums that read what a cut gives or make what it takes."""
    lost_macs: int
    """Multiply-accumulates of nodes that are cut, by their shapes: no Einsum counts them."""
    uncounted: int
    """Cut nodes whose multiply-accumulates are not known."""
    cut_values: int
    """Values that cuts send to the outermost memory and take from it."""
    values: int
    """Values of all tensors, each counted once."""
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For `fusiest import --json`."""
        return {
            "network": self.network,
            "macs": self.macs,
            "vector_operations": self.vector_operations,
            "parameters": self.parameters,
            "einsums": self.einsums,
            "cuts": len(self.cuts),
            "cut_share_of_macs": self._share(self.cut_macs + self.lost_macs),
            "lost_share_of_macs": self._share(self.lost_macs),
            "cut_nodes_of_unknown_macs": self.uncounted,
            "cut_share_of_values": self.cut_values / self.values if self.values else 0.0,
            "notes": list(self.notes),
            "nodes": [asdict(node) for node in self.nodes],
        }

    def _share(self, macs: int) -> float:
        """Share of the network's multiply-accumulates, with those in cuts."""
        return macs / max(self.macs + self.lost_macs, 1)

    def summary(self) -> list[str]:
        """The figures, in lines."""
        counts = Counter(node.became for node in self.nodes)
        words = {"einsums": "became Einsums", "view": "are views", "folded": "are folded into others", "constant": "are constants",
                 "input": "give inputs", "cut": "are cut", "unused": "are not needed"}  # fmt: skip
        fates = ", ".join(f"{counts[key]:,} {text}" for key, text in words.items() if key in counts)
        lines = [
            f"{self.network}: {self.einsums:,} Einsum{'s' if self.einsums != 1 else ''}, {amount(self.macs)} multiply-accumulates, "
            f"{amount(self.vector_operations)} vector operations, {amount(self.parameters)} parameters",
            f"of {len(self.nodes):,} nodes, {fates}",
        ]
        if self.cuts:
            unknown = f", and those of {self.uncounted:,} cut nodes that fusiest cannot count" if self.uncounted else ""
            lines.append(
                f"lost in cuts: {self._share(self.lost_macs):.1%} of the multiply-accumulates{unknown}; next to cuts: "
                f"{self._share(self.cut_macs):.1%}; through cuts go {self.cut_values / max(self.values, 1):.1%} of the values"
            )
            lines += [f"cut at {cut.operator} {cut.name}: {cut.detail}" for cut in self.cuts[:MOST_CUTS]]
            if len(self.cuts) > MOST_CUTS:
                lines.append(f"and at {len(self.cuts) - MOST_CUTS:,} more")
        return lines + list(self.notes)

    def text(self) -> str:
        """All of it, a line for each node."""
        rows = [("node", "operator", "became", ""), *((n.name, n.operator, n.became, n.detail) for n in self.nodes)]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        table = [
            "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip()
            for row in rows
        ]
        return "\n".join([*self.summary(), "", *table]) + "\n"


def amount(number: int) -> str:
    """A count that can be read.

    >>> amount(1814073344), amount(950), amount(11679912)
    ('1.814 G', '950', '11.68 M')
    """
    for factor, letter in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= factor:
            return f"{min(number, _LARGEST) / factor:.4g} {letter}"
    return str(number)


def report_on(lowered: Lowered, names: NetNames) -> ImportReport:
    """The report of an import."""
    macs = [e for e in lowered.einsums if e.macs]
    vectors = [e for e in lowered.einsums if not e.macs and not e.copy]
    cuts = [cut for cut in lowered.cuts if not cut.cache]
    crossing = dict.fromkeys([c.tensor for c in cuts] + [v.tensor for c in cuts for v in c.sent])
    tensors = dict.fromkeys([a.tensor for e in lowered.einsums for a in (*e.reads, e.output)] + list(crossing))
    lost = list(_lost_macs(lowered))
    near = [e for e in macs if any(a.tensor in crossing for a in (*e.reads, e.output))]
    return ImportReport(
        network=lowered.lowering.graph.name,
        macs=sum(e.points for e in macs),
        vector_operations=sum(e.points for e in vectors),
        parameters=parameters(lowered),
        einsums=len(lowered.einsums),
        nodes=tuple(_fates(lowered, names)),
        cuts=tuple(_cuts(lowered)),
        cut_macs=sum(e.points for e in near),
        lost_macs=sum(count for count in lost if count is not None),
        uncounted=lost.count(None),
        cut_values=sum(map(_values, crossing)),
        values=sum(map(_values, tensors)),
        notes=tuple(lowered.lowering.notes),
    )


def _lost_macs(lowered: Lowered) -> Iterator[int | None]:
    """Multiply-accumulates of each node that is cut and became no Einsum."""
    kept = {node for einsum in lowered.einsums for node in (einsum.node, *einsum.nodes)}
    for node in dict.fromkeys(cut.node for cut in lowered.cuts if not cut.cache):
        if node not in kept:
            yield node_macs(lowered.lowering.graph, node)


def _values(tensor: NetTensor) -> int:
    return math.prod(rank.size for rank in tensor.ranks())


def parameters(lowered: Lowered) -> int:
    """Values of the weights that the network needs: no running statistics, masks, tables of angles."""
    graph = lowered.lowering.graph
    producers = graph.producers()

    def sources(name: str) -> list[str]:
        node = producers.get(name)
        read = (
            [operand for i, operand in enumerate(node.inputs) if operand and not _statistics(node, i)] if node else []
        )
        return [operand for operand in read if operand not in lowered.lowering.tables]

    needed = reached(graph.outputs, sources)
    return sum(value.size for value in graph.values.values() if value.parameter and value.name in needed)


def _statistics(node: GraphNode, position: int) -> bool:
    return node.operator == "BatchNormalization" and position in (3, 4)


def _fates(lowered: Lowered, names: NetNames) -> Iterator[NodeFate]:
    """Fates of all nodes of the file, in its order."""
    graph = lowered.lowering.graph
    fates: dict[GraphNode, Fate] = {}
    became, into = _einsums_of(lowered)
    cut = {c.node: c for c in lowered.cuts}
    for node in graph.nodes:
        fate = _fate(became.get(node, []), into.get(node, []), cut.get(node), names)
        fate = fate or lowered.lowering.fates.get(node)
        if fate is None or (fate.became == "cut" and node not in cut):
            fate = Fate("unused", "nothing that is wanted depends on it")
        fates[node] = fate
        for part in node.parts:
            fates[part] = Fate(fate.became, f"{node.operator}: {fate.detail}" if fate.detail else node.operator)
    for node in graph.file_nodes:
        yield _node_fate(node, fates[node])


def _einsums_of(lowered: Lowered) -> tuple[dict[GraphNode, list[NetEinsum]], dict[GraphNode, list[NetEinsum]]]:
    """The Einsums that nodes became, and those that they were folded into."""
    became: dict[GraphNode, list[NetEinsum]] = {}
    into: dict[GraphNode, list[NetEinsum]] = {}
    for einsum in lowered.einsums:
        if not einsum.copy:
            became.setdefault(einsum.node, []).append(einsum)
        for node in einsum.nodes:
            if node is not einsum.node:
                into.setdefault(node, []).append(einsum)
    return became, into


def _fate(became: list[NetEinsum], into: list[NetEinsum], cut: CutValue | None, names: NetNames) -> Fate | None:
    if became:
        detail = ", ".join(names.einsums[einsum] for einsum in became)
        if cut is not None:
            detail += f"; {'' if cut.cache else 'an input comes through a cut: '}{cut.reason}"
        return Fate("einsums", detail)
    if into:
        return Fate("folded", "into " + ", ".join(dict.fromkeys(names.einsums[einsum] for einsum in into)))
    if cut is not None:
        return Fate("input" if cut.cache else "cut", cut.reason)
    return None


def _cuts(lowered: Lowered) -> Iterator[NodeFate]:
    """Each node once, with its first reason."""
    seen: set[GraphNode] = set()
    for cut in lowered.cuts:
        if cut.node not in seen and not cut.cache:
            seen.add(cut.node)
            yield _node_fate(cut.node, Fate("cut", cut.reason))


def _node_fate(node: GraphNode, fate: Fate) -> NodeFate:
    return NodeFate(_line(node.name), _line(node.file_operator), fate.became, _line(fate.detail))


def _line(text: str) -> str:
    """Names may have anything in them, lines of a report not."""
    return "".join(c if c.isprintable() else "?" for c in text)[:300]
