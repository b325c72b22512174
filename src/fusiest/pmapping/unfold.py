"""From a row of a table back to the nest it stands for: LoopTree nodes from the fused loops down to the compute."""

from __future__ import annotations

from dataclasses import dataclass

from fusiest.looptree.nodes import Compute, Node, Spatial, Storage, Temporal, Toll
from fusiest.pmapping.factors import primes
from fusiest.pmapping.layers import Holder, Layer
from fusiest.pmapping.problem import Problem
from fusiest.pmapping.search import Search
from fusiest.pmapping.table import Branch, FusedLoop


@dataclass(frozen=True)
class SearchOrigin:
    """Rows found by a search: which of its layers they end in, and the holders above that in the fused part."""

    search: Search
    layer: int
    above: tuple[tuple[Holder, frozenset[FusedLoop]], ...] = ()
    """From the innermost out: each holder above the seed with the fused loops above it."""

    def branch(self, row: int, tiles: dict[FusedLoop, int]) -> Branch:
        search = self.search
        if not search.layers:
            search.run()
        top = [_storage(search, (chain[0], t)) for t, chain in enumerate(search.chains) if search.on_top[t]]
        holders = [*reversed(self.above)]
        layer = search.layers[self.layer]
        if layer.kind == "hold":
            assert layer.item is not None
            holders.append((layer.item, frozenset(tiles)))
        writer = _Writer(search, tiles)
        above: list[tuple[Storage | Toll, frozenset[FusedLoop]]] = []
        for holder, cut in holders:
            above += [(toll, cut) for toll in writer.tolls_to(holder)]
            above.append((_storage(search, holder), cut))
        return Branch(tuple(top), tuple(above), tuple(writer.write(self.layer, row)))


def _storage(search: Search, holder: Holder) -> Storage:
    index, t = holder
    persistent = search.nest.persistent[t] and index == search.chains[t][0]
    name = search.problem.tensors[t].name
    return Storage(tensors=(name,), component=search.problem.path.components[index].name, persistent=persistent)


class _Writer:
    """Writes nodes from the outside in, following a row back through the layers."""

    def __init__(self, search: Search, tiles: dict[FusedLoop, int]) -> None:
        self.search = search
        self.problem: Problem = search.problem
        self.extent = {m: self.problem.info.bounds[m] for v in self.problem.variables for m in v.members}
        self.extent.update({loop.variable: tiles[loop] for loop in sorted(tiles)})
        self.nodes: list[Node] = []
        components = self.problem.path.components
        self.tolls = [
            (i, t.name)
            for i, c in enumerate(components)
            if c.kind == "toll"
            for t in self.problem.tensors
            if t.name in search.placement.held[i]
        ]

    def write(self, layer_number: int, row: int) -> list[Node]:
        layer = self.search.layers[layer_number]
        first = int(layer.note[row]) if layer.kind == "hold" else -1
        while layer.kind != "begin":
            shape, note = int(layer.shape[row]), int(layer.note[row])
            inner, row = self.search.layers[int(layer.source[row])], int(layer.row[row])
            if layer.kind == "cross":
                self._spatial(layer, note)
            else:
                self._temporal(shape, int(inner.shape[row]), first)
            first = int(inner.note[row]) if inner.kind == "reserve" else -1
            if inner.kind == "hold":
                assert inner.item is not None
                self._pass_tolls(inner.item[0])
                self.nodes.append(_storage(self.search, inner.item))
                first = int(inner.note[row])
            layer = inner
        self._pass_tolls(len(self.problem.path.components) - 1)
        return [*self.nodes, Compute(einsum=self.problem.info.name, component=self.problem.path.compute.name)]

    def tolls_to(self, holder: Holder) -> list[Toll]:
        """Tolls that a tensor passes on its way to a holder in the fused part: right above that holder."""
        index, t = holder
        own = [toll for toll in self.tolls if toll[0] < index and toll[1] == self.problem.tensors[t].name]
        self.tolls = [toll for toll in self.tolls if toll not in own]
        return [Toll(tensors=(tensor,), component=self.problem.path.components[i].name) for i, tensor in own]

    def _pass_tolls(self, component: int) -> None:
        """Tolls above this component come now, below the loops of the gap."""
        for i, tensor in [toll for toll in self.tolls if toll[0] < component]:
            self.nodes.append(Toll(tensors=(tensor,), component=self.problem.path.components[i].name))
            self.tolls.remove((i, tensor))

    def _temporal(self, outer: int, inner: int, first: int) -> None:
        order = sorted(range(len(self.problem.variables)), key=lambda v: v != first)
        for v in order:
            ratio = int(self.problem.extents[v][outer] // self.problem.extents[v][inner])
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

    def _spatial(self, layer: Layer, note: int) -> None:
        assert layer.item is not None
        component = layer.item[0]
        self._pass_tolls(component)
        choice = self.search.crossings[note] if component == self.search.costs.outermost else self.search.fixed
        for d, at, factors in zip(choice.dimensions, choice.levels, choice.factors, strict=True):
            if at != component:
                continue
            for v, factor in enumerate(factors):
                for member, tile in self._split(v, factor):
                    self.nodes.append(
                        Spatial(rank_variable=member, tile_shape=tile, component=d.component, name=d.name)
                    )
