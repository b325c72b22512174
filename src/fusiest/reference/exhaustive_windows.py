"""Every mapping with windows of two Einsums along one rank, on two memories: one after the other, nothing pruned.

Both share one loop over the rows, kept or made again. What an Einsum does inside the loop costs and needs space for itself, so its
ways are tried one by one, beside a plain way of the other, and the best of both go together. Everything is evaluated by the model.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from fusiest.errors import FusiestError
from fusiest.frozen import FrozenDict
from fusiest.looptree import Compute, LoopTree, Nested, Node, Sequential, Storage, Temporal
from fusiest.model import evaluate
from fusiest.spec import EinsumInfo, Spec, computes, flatten

Way: TypeAlias = tuple[Node, ...]


@dataclass
class WindowedPair:
    """The least energy of two Einsums that share a loop which makes windows."""

    spec: Spec
    evaluated: int = 0
    least: float = math.inf
    maker: EinsumInfo = field(init=False)
    user: EinsumInfo = field(init=False)

    def __post_init__(self) -> None:
        self.maker, self.user = self.spec.info.einsums.values()
        self.outer, self.inner = (
            str(node.name) for node in itertools.islice(flatten(self.spec.require_arch().nodes), 2)
        )
        (self.compute,) = computes(self.spec.require_arch())
        self.tensor = self.maker.output
        (affine,) = self.user.accesses[self.tensor].ranks.values()
        (self.rows,) = (v for v in affine.variables if v in self.user.accesses[self.user.output].variables)
        (self.taps,) = (v for v in affine.variables if v != self.rows)
        self.stride, self.reach = affine.coefficients[self.rows], affine.length({**self.user.bounds, self.rows: 1})
        ((self.maker_rows,),) = (affine.variables for affine in self.maker.accesses[self.tensor].ranks.values())

    def search(self) -> float:
        """Over all numbers of iterations that divide, kept and made again, whatever is held above the loop."""
        bound = self.user.bounds[self.rows]
        other_tensors = [t for info in (self.maker, self.user) for t in info.accesses if t != self.tensor]
        for times in (n for n in range(2, bound + 1) if bound % n == 0):
            for kept, count in itertools.product((True, False), range(len(other_tensors) + 1)):
                for above in itertools.combinations(other_tensors, count):
                    for last in above or ("",):  # of holders in a row, only the last one's space sinks into the loop
                        self._try_loop(bound // times, kept, sorted(above, key=lambda t: t == last))
        return self.least

    def _try_loop(self, tile: int, kept: bool, above: Sequence[str]) -> None:
        step, window = self.stride * tile, self.stride * (tile - 1) + self.reach
        keeps = kept and window > step
        if kept and not keeps:
            return
        names = {self.maker.name: self.maker_rows, self.user.name: self.rows}
        tiles = {self.maker.name: step if keeps else window, self.user.name: tile}
        loop = Temporal(
            rank_variable=FrozenDict(names),
            tile_shape=FrozenDict(tiles),
            initial_tile_shape=FrozenDict({self.maker.name: window}) if keeps else None,
            step=FrozenDict({self.maker.name: step}) if not keeps and step != window else None,
        )
        held = self._held(self.tensor)
        top: Way = (*(self._held(t) for t in above), *((held, loop) if keeps else (loop, held)))
        best = 0.0
        for info, variable, rows in ((self.maker, self.maker_rows, window), (self.user, self.rows, tile)):
            inside = [t for t in info.accesses if t != self.tensor and t not in above]
            costs = (self._cost(top, info, way) for way in self._ways(info, variable, rows, inside))
            best += min(costs, default=math.inf)
        self.least = min(self.least, best)

    def _ways(self, info: EinsumInfo, variable: str, rows: int, inside: Sequence[str]) -> Iterator[Way]:
        """All orders of loops and holders; rows in one loop, or in two with tiles that divide."""
        (taps,) = (v for v in info.bounds if v != variable)
        chains: list[tuple[int, ...]] = [(1,)] if rows > 1 else [()]
        chains += [(t, 1) for t in range(2, rows) if rows % t == 0]
        for chain, count in itertools.product(chains, range(len(inside) + 1)):
            loops = [Temporal(rank_variable=variable, tile_shape=t) for t in chain]
            tap_loops = [Temporal(rank_variable=taps, tile_shape=1)] if info.bounds[taps] > 1 else []
            for held in itertools.combinations(inside, count):
                nodes: list[Node] = [*loops, *tap_loops, *(self._held(t) for t in held)]
                for way in itertools.permutations(nodes):
                    if [n for n in way if n in loops] == loops:
                        yield way

    def _cost(self, top: Way, info: EinsumInfo, way: Way) -> float:
        """Energy of one Einsum if it goes this way; infinite if that does not fit or is wrong."""
        branches = []
        for branch_info, variable in ((self.maker, self.maker_rows), (self.user, self.rows)):
            plain: Way = tuple(
                Temporal(rank_variable=v, tile_shape=1) for v in (variable, *(branch_info.bounds.keys() - {variable}))
            )
            nodes = way if branch_info is info else plain
            branches.append(Nested(nodes=(*nodes, Compute(einsum=branch_info.name, component=self.compute))))
        outer = tuple(t for branch_info in (self.maker, self.user) for t in branch_info.accesses if t != self.tensor)
        tree = LoopTree(nodes=(Storage(tensors=outer, component=self.outer), *top, Sequential(nodes=tuple(branches))))
        self.evaluated += 1
        try:
            evaluation = evaluate(self.spec, tree)
        except FusiestError:
            return math.inf
        return math.inf if evaluation.warnings else evaluation.einsums[info.name].energy

    def _held(self, tensor: str) -> Storage:
        return Storage(tensors=(tensor,), component=self.inner)
