"""From a row of a table back to its nest: LoopTree nodes from the fused loops down to the compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fusiest.looptree import Compute, Node, Spatial, Storage, Temporal, Toll
from fusiest.pmapping.fused.by_compatibility import Ancestry
from fusiest.pmapping.lattice.layers import Layer
from fusiest.pmapping.nest.factors import primes
from fusiest.pmapping.nest.rules import HeldTensor, Nest
from fusiest.pmapping.nest.spatial import Fanout
from fusiest.pmapping.pareto import Ints
from fusiest.pmapping.table import Branch, FusedLoop


@dataclass(frozen=True)
class Past:
    """A layer without its criteria: the origins of its rows."""

    kind: str
    item: HeldTensor | None
    shape: Ints
    source: Ints
    row: Ints
    note: Ints
    tolls: tuple[HeldTensor, ...]


@dataclass(frozen=True)
class Trace:
    """All layers that led to the rows of a search."""

    nest: Nest
    fanouts: Mapping[int, Fanout]
    layers: Mapping[int, Past]


def make_trace(
    nest: Nest, fanouts: Mapping[int, Fanout], layers: list[Layer], first: Ints, needed: npt.NDArray[np.bool_]
) -> tuple[Trace, Ints]:
    """Keep the layers that led to some rows, and number the rows anew in each layer.

    `first`: per layer, the number of its first row among those of all layers. `needed`: marks the rows; those that led
    to them are added.
    """
    past = {}
    for number in range(len(layers) - 1, -1, -1):
        layer, rows = layers[number], np.flatnonzero(needed[first[number] : first[number + 1]])
        if len(rows):
            source, row = layer.source[rows], layer.row[rows]
            if layer.kind != "begin":
                needed[first[source] + row] = True
            past[number] = Past(layer.kind, layer.item, layer.shape[rows], source, row, layer.note[rows], layer.tolls)
    before = np.concatenate([[0], np.cumsum(needed)])
    numbers = before[:-1] - np.repeat(before[first[:-1]], np.diff(first))
    for number, before_it in past.items():
        if before_it.kind != "begin":
            past[number] = replace(before_it, row=numbers[first[before_it.source] + before_it.row])
    return Trace(nest, fanouts, past), numbers


@dataclass(frozen=True)
class SearchOrigin:
    """Rows found by a search over tile shapes."""

    trace: Trace
    layer: int
    """The layer in which they end."""
    ancestry: Ancestry
    """The nodes above that layer."""

    def branch(self, row: int, tiles: dict[FusedLoop, int]) -> Branch:
        trace, ancestry = self.trace, self.ancestry
        top = [trace.nest.storage(h, on_top=True) for h in sorted(ancestry.on_top, key=lambda h: h.tensor)]
        holders = [*reversed(ancestry.above)]
        item = trace.layers[self.layer].item
        if item is not None:
            holders.append((item, frozenset(tiles)))
        tolls = list(ancestry.tolls)
        above: list[tuple[Storage | Toll, frozenset[FusedLoop]]] = []
        for holder, cut in holders:
            passed = sorted(toll for toll in tolls if toll.tensor == holder.tensor and toll.memory < holder.memory)
            tolls = [toll for toll in tolls if toll not in passed]
            above += [(trace.nest.toll(toll), cut) for toll in passed]
            above.append((trace.nest.storage(holder), cut))
        return Branch(tuple(top), tuple(above), tuple(_Writer(trace, tiles).write(self.layer, row)))


class _Writer:
    """Writes nodes from the outside in, following a row back through the layers."""

    def __init__(self, trace: Trace, tiles: dict[FusedLoop, int]) -> None:
        self.trace = trace
        self.nest, self.problem = trace.nest, trace.nest.problem
        self.extent = {m: self.problem.info.bounds[m] for v in self.problem.variables for m in v.members}
        self.extent.update({loop.variable: tiles[loop] for loop in sorted(tiles)})
        self.nodes: list[Node] = []
        self.tolls: list[HeldTensor] = []

    def write(self, number: int, row: int) -> list[Node]:
        self.tolls = sorted(self._tolls(number, row))
        layer = self.trace.layers[number]
        first = int(layer.note[row]) if layer.kind == "hold" else -1
        while layer.kind != "begin":
            shape, note = int(layer.shape[row]), int(layer.note[row])
            inner, row = self.trace.layers[int(layer.source[row])], int(layer.row[row])
            if layer.kind == "cross":
                self._spatial(layer, note)
            else:
                self._temporal(shape, int(inner.shape[row]), first)
            first = int(inner.note[row]) if inner.kind == "reserve" else -1
            if inner.kind == "hold":
                assert inner.item is not None
                self._pass_tolls(inner.item.memory)
                self.nodes.append(self.nest.storage(inner.item))
                first = int(inner.note[row])
            layer = inner
        self._pass_tolls(len(self.problem.path.components) - 1)
        return [*self.nodes, Compute(einsum=self.problem.info.name, component=self.problem.path.compute.name)]

    def _tolls(self, number: int, row: int) -> list[HeldTensor]:
        """All Tolls that tensors pass below the fused loops."""
        tolls: list[HeldTensor] = []
        while True:
            layer = self.trace.layers[number]
            tolls += layer.tolls
            if layer.kind == "begin":
                return tolls
            number, row = int(layer.source[row]), int(layer.row[row])

    def _pass_tolls(self, component: int) -> None:
        """Write the Tolls above this component, below the loops of the gap."""
        self.nodes += [self.nest.toll(toll) for toll in self.tolls if toll.memory < component]
        self.tolls = [toll for toll in self.tolls if toll.memory >= component]

    def _temporal(self, outer: int, inner: int, first: int) -> None:
        order = sorted(range(len(self.problem.variables)), key=lambda v: v != first)
        for v in order:
            ratio = self.problem.extent(v, outer) // self.problem.extent(v, inner)
            for member, tile in self._split(v, ratio):
                self.nodes.append(Temporal(rank_variable=member, tile_shape=tile))

    def _split(self, v: int, ratio: int) -> list[tuple[str, int]]:
        """Loops over the members of a merged variable that make up a ratio, prime by prime."""
        touched: dict[str, int] = {}
        for p in primes(ratio):
            member = next(m for m in self.problem.variables[v].members if self.extent[m] % p == 0)
            self.extent[member] //= p
            touched[member] = self.extent[member]
        return list(touched.items())

    def _spatial(self, layer: Past, choice: int) -> None:
        assert layer.item is not None
        self._pass_tolls(layer.item.memory)
        fanout = self.trace.fanouts[layer.item.memory]
        for d, factors in zip(fanout.dimensions, fanout.factors[choice].tolist(), strict=True):
            for v, factor in enumerate(factors):
                for member, tile in self._split(v, factor):
                    self.nodes.append(
                        Spatial(rank_variable=member, tile_shape=tile, component=d.component, name=d.name)
                    )
