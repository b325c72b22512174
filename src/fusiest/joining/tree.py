"""From a sequence of joined pmappings to one LoopTree: loops shared by neighbours become common nodes above a split."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import NamedTuple

from fusiest.base.frozen import FrozenDict
from fusiest.looptree import LoopTree, Nested, Node, Sequential, Spatial, Storage, Temporal, Toll
from fusiest.pmapping import Branch, Compatibility, FusedLoop


@dataclass(frozen=True)
class JoinedBranch:
    """One Einsum of a joined mapping: its nest, its fused loops, and those that it shares with earlier Einsums."""

    einsum: str
    branch: Branch
    compatibility: Compatibility
    tiles: dict[FusedLoop, int]
    numbers: dict[FusedLoop, int]
    """The number of each fused loop in the tree."""
    shared: frozenset[FusedLoop]
    """Loops that were open before this Einsum."""

    @property
    def sunk(self) -> frozenset[tuple[str, str]]:
        """Storage nodes (tensor, memory) whose space sinks into the loops right below: they stand last in their place."""
        return frozenset((h.tensor, h.memory) for h in self.compatibility.holdings if h.depth > h.zones)


class ExchangePlace(NamedTuple):
    """Where a tensor is exchanged."""

    memory: str
    """Its backing memory."""
    above: frozenset[int]
    """Numbers of the loops above it."""


@dataclass
class _TreeLoop:
    """A loop of the tree."""

    names: dict[str, str]
    """The name of its variable in each Einsum inside it."""
    tile: int
    place: tuple[str, str] | None
    """Component and dimension of a Spatial loop."""

    def node(self, einsums: Sequence[str]) -> Temporal | Spatial:
        """Write the loop as the node above these Einsums."""
        names = {einsum: self.names[einsum] for einsum in einsums}
        is_common = len(set(names.values())) == 1
        variable = next(iter(names.values())) if is_common else FrozenDict(names)
        if self.place is None:
            return Temporal(rank_variable=variable, tile_shape=self.tile)
        return Spatial(rank_variable=variable, tile_shape=self.tile, component=self.place[0], name=self.place[1])


def build_tree(branches: Sequence[JoinedBranch]) -> LoopTree:
    """Build one tree of all branches."""
    loops: dict[int, _TreeLoop] = {}
    before: dict[int, set[int]] = {}
    for joined in branches:
        for v, n in joined.numbers.items():
            loops.setdefault(n, _TreeLoop({}, joined.tiles[v], v.place)).names[joined.einsum] = v.variable
            before.setdefault(n, set())
        groups = [[joined.numbers[v] for v in zone] for zone in joined.compatibility.zones]
        for outer, inner in itertools.pairwise(groups):
            for n in inner:
                before[n].update(outer)
        shared = {joined.numbers[v] for v in joined.shared}
        for n in set(joined.numbers.values()) - shared:
            before[n].update(shared)
    rank = {n: i for i, n in enumerate(TopologicalSorter(before).static_order())}
    order = [sorted(joined.numbers.values(), key=lambda n: rank[n]) for joined in branches]
    top = merge_storage([s for joined in branches for s in joined.branch.top])
    writer = _TreeWriter(branches, order, loops, _exchange_places(branches))
    return LoopTree(nodes=(*top, *writer.node(0, range(len(branches)))))


def _exchange_places(branches: Sequence[JoinedBranch]) -> dict[str, ExchangePlace]:
    places = {}
    for joined in branches:
        for b in joined.compatibility.backings:
            above = frozenset(joined.numbers[v] for zone in joined.compatibility.zones[: b.zones] for v in zone)
            places[b.tensor] = ExchangePlace(b.memory, above)
    return places


def merge_storage(holders: Sequence[Storage]) -> list[Storage]:
    """Merge storage nodes that stand side by side into one per memory."""
    merged: dict[tuple[str, bool], list[str]] = {}
    for holder in holders:
        tensors = merged.setdefault((holder.component, holder.persistent), [])
        tensors += [t for t in holder.tensors if t not in tensors]
    return [Storage(tensors=tuple(t), component=c, persistent=p) for (c, p), t in merged.items()]


def in_turn(branches: Sequence[tuple[Node, ...]]) -> tuple[Node, ...]:
    """Put branches one after the other; a single one needs no split."""
    return branches[0] if len(branches) == 1 else (Sequential(nodes=tuple(Nested(nodes=b) for b in branches)),)


@dataclass(frozen=True)
class _TreeWriter:
    branches: Sequence[JoinedBranch]
    order: Sequence[list[int]]
    loops: dict[int, _TreeLoop]
    exchanged: dict[str, ExchangePlace]

    def node(self, depth: int, einsums: range) -> tuple[Node, ...]:
        """Write all nodes of these Einsums below their first `depth` common loops."""
        above = frozenset(self.order[einsums[0]][:depth])
        exchanged = [
            holder
            for i in einsums
            for holder, cut in self.branches[i].branch.between
            if isinstance(holder, Storage)
            and self.exchanged.get(holder.tensors[0]) == (holder.component, above)
            and self._numbers(i, cut) == above
        ]
        runs: list[range] = []
        for i in einsums:
            loop = self._loop_at(i, depth)
            if runs and loop is not None and self._loop_at(runs[-1][0], depth) == loop:
                runs[-1] = range(runs[-1].start, i + 1)
            else:
                runs.append(range(i, i + 1))
        return (*merge_storage(exchanged), *in_turn([self._branch(depth, run, above) for run in runs]))

    def _numbers(self, i: int, loops: Iterable[FusedLoop]) -> frozenset[int]:
        return frozenset(self.branches[i].numbers[v] for v in loops)

    def _holders(self, run: range, above: frozenset[int]) -> list[Storage | Toll]:
        """Storage nodes right below these loops, each once. Nodes that sink stand last for their Einsums."""
        lists = {i: self._held_at(i, above) for i in run}
        waits: dict[Storage | Toll, set[Storage | Toll]] = {}
        for i, holders in lists.items():
            sunk = self.branches[i].sunk
            for n, holder in enumerate(holders):
                shared = any(holder in other for j, other in lists.items() if j != i)
                sinks = (holder.tensors[0], holder.component) in sunk
                waits.setdefault(holder, set()).update(holders[:n] if sinks or not shared else ())
        nodes: list[Storage | Toll] = []
        while len(nodes) < len(waits):
            nodes.append(next(h for h, awaited in waits.items() if h not in nodes and awaited <= set(nodes)))
        return nodes

    def _held_at(self, i: int, above: frozenset[int]) -> list[Storage | Toll]:
        """An Einsum's storage nodes right below these loops, without those at which tensors are exchanged."""
        return [
            holder
            for holder, cut in self.branches[i].branch.between
            if self._numbers(i, cut) == above
            and self.exchanged.get(holder.tensors[0], ("", above))[0] != holder.component
        ]

    def _loop_at(self, i: int, depth: int) -> int | None:
        return self.order[i][depth] if depth < len(self.order[i]) else None

    def _branch(self, depth: int, run: range, above: frozenset[int]) -> tuple[Node, ...]:
        """Write one branch: the storage nodes at this depth, then the next common loop, or the rest of a leaf."""
        nodes = self._holders(run, above)
        loop = self._loop_at(run[0], depth)
        if loop is None:
            return (*nodes, *self.branches[run[0]].branch.inside)
        node = self.loops[loop].node([self.branches[i].einsum for i in run])
        return (*nodes, node, *self.node(depth + 1, run))
