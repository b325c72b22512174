"""Plans of structures of the fused part, without the rows of a seed: made once for all seeds that see the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fusiest.pmapping.fused.fused_tiles import TileClass
from fusiest.pmapping.fused.seen_by_neighbours import fused_form, zone_chain
from fusiest.pmapping.fused.structures import Above, LoopSet, Situation, Structures
from fusiest.pmapping.lattice.tile_problem import Problem
from fusiest.pmapping.nest.rules import HeldTensor
from fusiest.pmapping.nest.spatial import satisfies
from fusiest.pmapping.pareto import Floats, Ints
from fusiest.pmapping.table import Compatibility, FusedLoop


def bits_per_value(problem: Problem, holder: HeldTensor) -> float:
    """Bits of one value of a node's tensor in its memory."""
    component = problem.path.components[holder.memory]
    return float(component.bits_per_value[problem.tensors[holder.tensor].name])


@dataclass(frozen=True)
class FusedLayout:
    """One structure, with arrays as the kernel `assemble` takes them."""

    chain: tuple[LoopSet, ...]
    """Sets of loops between which fusion levels lie, outwards in."""
    meeting: tuple[Above, ...]
    """Storage nodes whose space is counted when joining."""
    above: tuple[tuple[HeldTensor, frozenset[FusedLoop]], ...]
    """From the innermost out: each node with the fused loops above it."""
    holders: Ints
    reserved: Floats
    met: np.ndarray | None
    """Per tiles, whether they obey all `tile_shape`; None: there are none."""


@dataclass(frozen=True)
class FusedPlan:
    """All structures for some fused loops above seeds of one holder."""

    situation: Situation
    seed: HeldTensor
    memories: tuple[int, ...]
    """Memories whose space is tracked."""
    tile_class: TileClass

    @cached_property
    def layouts(self) -> list[FusedLayout]:
        """A layout for each structure."""
        return [self._layout([self._seed, *structure]) for structure in self._structure_list]

    @cached_property
    def shapes(self) -> Ints:
        """Per point where nodes or their space stand, and per tiles: the tile shape there."""
        return np.array([self.tile_class.below(above) for above in self._points])

    def compatibility(self, layout: FusedLayout, exchanged_on_top: tuple[HeldTensor, ...]) -> Compatibility:
        """Make the compatibility of a structure, with the tensors that are exchanged above all loops."""
        is_backing = self.situation.stretch.is_backing
        on_top = [Above(holder, 0, 0) for holder in exchanged_on_top]
        backings = [above for above in layout.meeting if is_backing(above.holder)]
        others = [above for above in layout.meeting if not is_backing(above.holder)]
        return fused_form(self.situation.nest, self.tile_class.loops, layout.chain, [*on_top, *backings], others)

    @property
    def _problem(self) -> Problem:
        return self.situation.nest.problem

    @cached_property
    def _structures(self) -> Structures:
        return Structures(self.situation, self.tile_class.loops)

    @cached_property
    def _structure_list(self) -> list[tuple[Above, ...]]:
        return list(self._structures)

    @cached_property
    def _seed(self) -> Above:
        return Above(self.seed, self._structures.everything, self._structures.everything)

    @cached_property
    def _points(self) -> dict[LoopSet, int]:
        """Points where nodes and their space stand: a number for each set of loops above."""
        points = {self._structures.everything: 0}
        for above in itertools.chain.from_iterable(self._structure_list):
            points.setdefault(above.loops, len(points))
            points.setdefault(above.space, len(points))
        return points

    def _layout(self, held: list[Above]) -> FusedLayout:
        chain = zone_chain(held, self._structures.full)
        meeting = [above for above in held if self._meets(above)]
        holders = np.empty((len(held), 4), np.int64)
        reserved = np.empty((len(held), 3))
        for i, above in enumerate(held):
            holder = above.holder
            memory = self.memories.index(holder.memory) if holder.memory in self.memories else -1
            number = 1 + self.situation.remaining.index(holder) if i else 0
            zone = -1 if above in meeting else chain.index(above.space)
            holders[i] = number, holder.tensor, self._points[above.loops], self._points[above.space]
            reserved[i] = memory, zone, bits_per_value(self._problem, holder)
        over = tuple((above.holder, self._structures.named(above.loops)) for above in held[1:])
        return FusedLayout(chain, tuple(sorted(meeting)), over, holders, reserved, self._tile_shapes_met(held))

    def _meets(self, above: Above) -> bool:
        """Whether joining counts a node's space: its tensor is shared, and exchanged here or held above a fused loop."""
        backing = self.situation.stretch.is_backing(above.holder)
        meets = backing or above.loops != self._structures.everything
        return meets and self.situation.nest.is_shared(above.holder.tensor)

    def _tile_shapes_met(self, held: list[Above]) -> np.ndarray | None:
        """Tiles that obey `tile_shape` at the outermost node of each memory, where that stands in the fused part."""
        nest, stretch = self.situation.nest, self.situation.stretch
        met: np.ndarray | None = None
        for number, (holder, loops, _) in enumerate(held[1:], start=2):
            comparisons = nest.tile_shape(holder, (above.holder for above in held[number:]), stretch)
            if not comparisons:
                continue
            named = self._extents(loops)
            obeying = np.fromiter((all(satisfies(c, values) for c in comparisons) for values in named), np.bool_)
            met = obeying if met is None else met & obeying
        return met

    def _extents(self, above: LoopSet) -> Iterator[dict[str, int]]:
        """Per tiles, the extents of all variables below some of the loops."""
        bounds = dict(self._problem.info.bounds)
        for tiles in self.tile_class.tiles.tolist():
            inner = {loop.variable: tiles[i] for i, loop in enumerate(self.tile_class.loops) if above >> i & 1}
            yield bounds | inner
