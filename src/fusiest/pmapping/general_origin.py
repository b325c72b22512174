"""From a row of the general search back to its nest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fusiest.looptree import Compute, Node, Spatial, Storage, Temporal, Toll
from fusiest.pmapping.general_nest import Skeleton, Slot
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


@dataclass(frozen=True)
class GeneralOrigin:
    """Rows found in one skeleton: the tile below every slot."""

    skeleton: Skeleton
    slots: Mapping[str, tuple[Slot, ...]]
    passed: Mapping[int, frozenset[str]]
    """Per holder, the variables whose loop right below it its reservation sinks through."""
    tiles: Mapping[str, Ints]
    """Per variable: rows × slots."""

    def branch(self, row: int, tiles: dict[FusedLoop, int]) -> Branch:
        skeleton = self.skeleton
        loops = self._loops(row)
        top = tuple(skeleton.nest.storage(h, on_top=True) for h in skeleton.top)
        between: list[tuple[Storage | Toll, frozenset[FusedLoop]]] = []
        names = fused_loops(skeleton, [(v, slot) for slot, v, _ in loops if slot.gap <= skeleton.last_fused])
        for gap in range(skeleton.last_fused + 1):
            cut = frozenset(loop for loop, slot in names.items() if slot.gap <= gap)
            between += [(skeleton.nest.toll(t), cut) for g, t in skeleton.tolls if g == gap]
            between.append((skeleton.nest.storage(skeleton.holders[gap]), cut))
        inside: list[Node] = []
        for gap in range(skeleton.last_fused + 1, len(skeleton.gaps)):
            inside += self._temporal(gap, loops)
            inside += self._tail(gap, loops)
            if gap < len(skeleton.holders):
                inside.append(skeleton.nest.storage(skeleton.holders[gap]))
        inside.append(Compute(einsum=skeleton.path.einsum.name, component=skeleton.path.compute.name))
        return Branch(top, tuple(between), tuple(inside))

    def _loops(self, row: int) -> list[tuple[Slot, str, int]]:
        """Loops with more than one iteration: where, over what, and their tile."""
        loops = []
        for v, slots in self.slots.items():
            extent = self.skeleton.path.einsum.bounds[v]
            for slot, tile in zip(slots, self.tiles[v][row].tolist(), strict=True):
                if tile < extent:
                    loops.append((slot, v, tile))
                extent = tile
        return loops

    def _temporal(self, gap: int, loops: list[tuple[Slot, str, int]]) -> list[Node]:
        """Loops that the reservation of the holder above passes come first, a partially relevant one last of them."""
        passed = self.passed.get(gap - 1, frozenset())
        full = self.skeleton.nest.full[self.skeleton.holders[gap - 1].tensor] if gap else frozenset()
        temporal = [(v, tile) for slot, v, tile in loops if slot == Slot(gap)]
        temporal.sort(key=lambda loop: (loop[0] not in passed, loop[0] not in full))
        return [Temporal(rank_variable=v, tile_shape=tile) for v, tile in temporal]

    def _tail(self, gap: int, loops: list[tuple[Slot, str, int]]) -> list[Node]:
        """Spatial loops and Tolls at the lower end of a gap, outer components first."""
        nodes: list[tuple[tuple[int, int], Node]] = []
        for slot, v, tile in loops:
            if slot.gap == gap and slot.dimension is not None:
                level, d = self.skeleton.dimensions[slot.dimension]
                node = Spatial(rank_variable=v, tile_shape=tile, component=d.component, name=d.name)
                nodes.append(((level, slot.dimension), node))
        dimensions = len(self.skeleton.dimensions)
        nodes += [((t.memory, dimensions), self.skeleton.nest.toll(t)) for g, t in self.skeleton.tolls if g == gap]
        return [node for _, node in sorted(nodes, key=lambda item: item[0])]
