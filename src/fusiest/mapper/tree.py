"""From a chain of joined pmappings to one LoopTree: loops shared by neighbours become common nodes above a split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

from fusiest.frozen import FrozenDict
from fusiest.looptree.nodes import LoopTree, Nested, Node, Sequential, Spatial, Storage, Temporal, Toll
from fusiest.pmapping.table import Branch, FusedLoop


@dataclass(frozen=True)
class Step:
    """One Einsum of the chain: its nest, its fused loops in zones, and which of them it shares with those before."""

    einsum: str
    branch: Branch
    zones: tuple[tuple[FusedLoop, ...], ...]
    tiles: dict[FusedLoop, int]
    shared: dict[FusedLoop, int]
    """Loops that were open before this Einsum, each with its number in the tree."""
    sunk: frozenset[tuple[str, str]]
    """Holders (tensor, memory) whose space sinks into the loops right below: they stand last in their place."""


@dataclass
class _Loop:
    """A loop of the tree, with the name of its variable in each Einsum inside it."""

    names: dict[str, str]
    tile: int
    place: tuple[str, str] | None

    def node(self, einsums: Sequence[str]) -> Temporal | Spatial:
        """As it stands above these Einsums."""
        names = {einsum: self.names[einsum] for einsum in einsums}
        same = len(set(names.values())) == 1
        variable = next(iter(names.values())) if same else FrozenDict(names)
        if self.place is None:
            return Temporal(rank_variable=variable, tile_shape=self.tile)
        return Spatial(rank_variable=variable, tile_shape=self.tile, component=self.place[0], name=self.place[1])


def build_tree(
    steps: Sequence[Step], numbering: Sequence[dict[FusedLoop, int]], backed: dict[str, tuple[str, frozenset[int]]]
) -> LoopTree:
    """`numbering[i]`: per fused loop of step i, its number in the tree. `backed`: per tensor that is exchanged below
    loops, its memory and those loops."""
    loops: dict[int, _Loop] = {}
    before: dict[int, set[int]] = {}
    for step, numbers in zip(steps, numbering, strict=True):
        for v, n in numbers.items():
            loops.setdefault(n, _Loop({}, step.tiles[v], v.place)).names[step.einsum] = v.variable
            before.setdefault(n, set())
        groups = [[numbers[v] for v in zone] for zone in step.zones]
        for outer, inner in zip(groups, groups[1:], strict=False):
            for n in inner:
                before[n].update(outer)
        old = [numbers[v] for v in step.shared]
        for n in set(numbers.values()) - set(old):
            before[n].update(old)
    rank = {n: i for i, n in enumerate(TopologicalSorter(before).static_order())}
    order = [sorted(numbers.values(), key=lambda n: rank[n]) for numbers in numbering]
    top = _merge_storage([s for step in steps for s in step.branch.top])
    writer = _TreeWriter(steps, numbering, order, loops, backed)
    return LoopTree(nodes=(*top, *writer.node(0, range(len(steps)))))


def _merge_storage(holders: Sequence[Storage]) -> list[Storage]:
    """One node per memory for holders that stand side by side."""
    found: dict[tuple[str, bool], list[str]] = {}
    for holder in holders:
        tensors = found.setdefault((holder.component, holder.persistent), [])
        tensors += [t for t in holder.tensors if t not in tensors]
    return [Storage(tensors=tuple(t), component=c, persistent=p) for (c, p), t in found.items()]


@dataclass
class _TreeWriter:
    steps: Sequence[Step]
    numbering: Sequence[dict[FusedLoop, int]]
    order: Sequence[list[int]]
    loops: dict[int, _Loop]
    backed: dict[str, tuple[str, frozenset[int]]]

    def node(self, depth: int, einsums: range) -> tuple[Node, ...]:
        """What stands below `depth` common loops of these Einsums."""
        above = frozenset(self.order[einsums[0]][:depth])
        exchanged = [
            holder
            for i in einsums
            for holder, cut in self.steps[i].branch.between
            if isinstance(holder, Storage)
            and holder.tensors[0] in self.backed
            and self.backed[holder.tensors[0]] == (holder.component, above)
            and frozenset(self.numbering[i][v] for v in cut) == above
        ]
        runs: list[range] = []
        for i in einsums:
            loop = self.order[i][depth] if depth < len(self.order[i]) else None
            if runs and loop is not None and self._loop_at(runs[-1][0], depth) == loop:
                runs[-1] = range(runs[-1].start, i + 1)
            else:
                runs.append(range(i, i + 1))
        nodes: list[Node] = list(_merge_storage(exchanged))
        branches = [self._branch(depth, run, above) for run in runs]
        if len(branches) == 1:
            return (*nodes, *branches[0])
        return (*nodes, Sequential(nodes=tuple(Nested(nodes=branch) for branch in branches)))

    def _holders(self, run: range, above: frozenset[int]) -> list[Storage | Toll]:
        """Holders right below these loops, each once, in an order in which all that sink stand last for their Einsums."""
        lists = {i: self._held_at(i, above) for i in run}
        waits: dict[Storage | Toll, set[Storage | Toll]] = {}
        for i, own in lists.items():
            for n, holder in enumerate(own):
                shared = any(holder in other for j, other in lists.items() if j != i)
                sinks = (holder.tensors[0], holder.component) in self.steps[i].sunk
                waits.setdefault(holder, set()).update(own[:n] if sinks or not shared else ())
        nodes: list[Storage | Toll] = []
        while len(nodes) < len(waits):
            nodes.append(next(h for h, others in waits.items() if h not in nodes and others <= set(nodes)))
        return nodes

    def _held_at(self, i: int, above: frozenset[int]) -> list[Storage | Toll]:
        """An Einsum's holders right below these loops, without those that are exchanged here."""
        return [
            holder
            for holder, cut in self.steps[i].branch.between
            if frozenset(self.numbering[i][v] for v in cut) == above
            and self.backed.get(holder.tensors[0], ("", above))[0] != holder.component
        ]

    def _loop_at(self, i: int, depth: int) -> int | None:
        return self.order[i][depth] if depth < len(self.order[i]) else None

    def _branch(self, depth: int, run: range, above: frozenset[int]) -> tuple[Node, ...]:
        """One branch: holders of its Einsums at this depth, then their next common loop, or the rest of a leaf."""
        nodes = self._holders(run, above)
        loop = self._loop_at(run[0], depth)
        if loop is None:
            return (*nodes, *self.steps[run[0]].branch.inside)
        node = self.loops[loop].node([self.steps[i].einsum for i in run])
        return (*nodes, node, *self.node(depth + 1, run))
