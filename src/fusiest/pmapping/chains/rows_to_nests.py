"""From a row of the general search back to its nest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fusiest.looptree import Compute, Node, Spatial, Storage, Temporal, Toll
from fusiest.pmapping.chains.skeleton import Skeleton, Slot
from fusiest.pmapping.pareto import Ints
from fusiest.pmapping.table import Branch, FusedLoop


def fused_loops(skeleton: Skeleton, loops: Iterable[tuple[str, Slot]]) -> dict[FusedLoop, Slot]:
    """Names for fused loops, given with the outermost of each variable first."""
    named: dict[FusedLoop, Slot] = {}
    for v, slot in loops:
        number = sum(loop.variable == v for loop in named)
        d = skeleton.dimensions[slot.dimension][1] if slot.dimension is not None else None
        named[FusedLoop(v, number, (d.component, d.name) if d is not None else None)] = slot
    return named


class SlotLoop(NamedTuple):
    """A loop, by the number of its variable's slot."""

    variable: str
    number: int
    tile: int


@dataclass(frozen=True)
class GeneralOrigin:
    """Rows found in one skeleton: the tile below every slot."""

    skeleton: Skeleton
    slots: Mapping[str, tuple[Slot, ...]]
    passed: Mapping[int, frozenset[str]]
    """Per storage node, the variables whose loop right below it its reservation sinks through."""
    tiles: Mapping[str, Ints]
    """Per variable: rows × slots."""

    def branch(self, row: int, tiles: dict[FusedLoop, int]) -> Branch:
        skeleton = self.skeleton
        loops = self._loops(row)
        top = tuple(skeleton.nest.storage(h, on_top=True) for h in skeleton.top)
        between: list[tuple[Storage | Toll, frozenset[FusedLoop]]] = []
        places = ((loop.variable, self.slots[loop.variable][loop.number]) for loop in loops)
        names = fused_loops(skeleton, [place for place in places if place[1].gap <= skeleton.last_fused])
        for gap in range(skeleton.last_fused + 1):
            cut = frozenset(loop for loop, slot in names.items() if slot.gap <= gap)
            between += [(node, cut) for node in self._held(gap)]
        return Branch(top, tuple(between), self._inside(skeleton.last_fused + 1, loops))

    def _loops(self, row: int) -> list[SlotLoop]:
        """Loops with more than one iteration."""
        loops = []
        for v in self.slots:
            extent = self.skeleton.path.einsum.bounds[v]
            for number, tile in enumerate(self.tiles[v][row].tolist()):
                if tile < extent:
                    loops.append(SlotLoop(v, number, tile))
                extent = tile
        return loops

    def _held(self, gap: int) -> list[Storage | Toll]:
        """Tolls of a gap, and the storage node below."""
        skeleton = self.skeleton
        tolls = [skeleton.nest.toll(t) for g, t in skeleton.tolls if g == gap]
        return [*tolls, skeleton.nest.storage(skeleton.holders[gap])]

    def _inside(self, first: int, loops: list[SlotLoop]) -> tuple[Node, ...]:
        """All nodes from some gap on."""
        skeleton = self.skeleton
        inside: list[Node] = []
        for gap in range(first, len(skeleton.gaps)):
            inside += self._temporal(gap, loops)
            inside += self._tail(gap, loops)
            if gap < len(skeleton.holders):
                inside.append(skeleton.nest.storage(skeleton.holders[gap]))
        return (*inside, Compute(einsum=skeleton.path.einsum.name, component=skeleton.path.compute.name))

    def _temporal(self, gap: int, loops: list[SlotLoop]) -> list[Node]:
        """Temporal loops of a gap.

        Those that the reservation of the node above passes come first, a partially relevant one last of them.
        """
        full = self.skeleton.nest.full[self.skeleton.holders[gap - 1].tensor] if gap else frozenset()
        temporal = [loop for loop in loops if self.slots[loop.variable][loop.number] == Slot(gap)]
        temporal.sort(key=lambda loop: (not self._passes(gap - 1, loop), loop.variable not in full))
        return [Temporal(rank_variable=loop.variable, tile_shape=loop.tile) for loop in temporal]

    def _passes(self, place: int, loop: SlotLoop) -> bool:
        """Whether the reservation of the node at a place sinks through a loop, which stands right below it."""
        return loop.variable in self.passed.get(place, frozenset())

    def _tail(self, gap: int, loops: list[SlotLoop]) -> list[Node]:
        """Spatial loops and Tolls at the lower end of a gap, outer components first."""
        nodes: list[tuple[tuple[int, int], Node]] = []
        for v, number, tile in loops:
            slot = self.slots[v][number]
            if slot.gap == gap and slot.dimension is not None:
                level, d = self.skeleton.dimensions[slot.dimension]
                node = Spatial(rank_variable=v, tile_shape=tile, component=d.component, name=d.name)
                nodes.append(((level, slot.dimension), node))
        dimensions = len(self.skeleton.dimensions)
        nodes += [((t.memory, dimensions), self.skeleton.nest.toll(t)) for g, t in self.skeleton.tolls if g == gap]
        return [node for _, node in sorted(nodes, key=lambda item: item[0])]
