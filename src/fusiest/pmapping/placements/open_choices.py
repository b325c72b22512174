"""Sets of open placements, from the inside out: placements that agree on everything further out are searched together.

A placement says which memory holds which tensor. The search goes from the compute outwards; at any point it depends
only on the outer part of a placement (proof 6a). So it keeps one state for all placements whose outer parts are equal
(`Outers`), and splits it where costs begin to differ: whenever a tensor's traffic is to be paid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from fusiest.pmapping.lattice.tile_problem import Problem
from fusiest.pmapping.nest.rules import BEYOND, NOWHERE, HeldTensor, HolderSource, Stretch
from fusiest.pmapping.placements.placement import Placement
from fusiest.spec import Path

Outers = frozenset[int]
"""Numbers of placements, one for each that differs further out."""


class Steps:
    """All placements of an Einsum on one compute."""

    def __init__(
        self, problem: Problem, placements: Sequence[Placement], lifted: frozenset[HeldTensor] = frozenset()
    ) -> None:
        """`lifted`: holders that stand above all loops where they are their tensor's outermost."""
        self.problem, self.placements, self.lifted = problem, placements, lifted
        self.path: Path = problem.path
        self.names = [t.name for t in problem.tensors]
        self.outermost = self.path.memories[0]
        self._known: dict[tuple[Outers, range], list[tuple[Stretch, Outers]]] = {}
        self._sources: dict[tuple[int, int, int, int], HolderSource] = {}

    @cached_property
    def _same(self) -> list[list[int]]:
        """Per component and placement, the number of the first placement that is the same outside of the component."""
        firsts: list[dict[object, int]] = [{} for _ in range(len(self.path.components) + 1)]
        firsts_outside: list[list[int]] = [[] for _ in firsts]
        numbers: dict[object, int] = {}
        for i, placement in enumerate(self.placements):
            prefix = -1
            for at in range(len(firsts)):
                firsts_outside[at].append(firsts[at].setdefault(prefix, i))
                if at < len(self.path.components):
                    longer = prefix, placement.held[at], placement.sets[at]
                    prefix = numbers.setdefault(longer, len(numbers))
        return firsts_outside

    def outside(self, placements: Iterable[int], component: int) -> Outers:
        """One placement for each that differs outside of a component."""
        first_outside = self._same[component]
        return frozenset(first_outside[i] for i in placements)

    def source(self, placement: int, tensor: int, child: int, region: int) -> HolderSource:
        """Where a tensor comes from that component `child` holds or uses.

        `region`: the outermost component that no fanout separates from it.
        """
        key = self._same[child][placement], tensor, child, region
        if key not in self._sources:
            self._sources[key] = self._source(*key)
        return self._sources[key]

    def _source(self, placement: int, tensor: int, child: int, region: int) -> HolderSource:
        held, name = self.placements[placement].held, self.names[tensor]
        components = self.path.components
        memory = max((i for i in range(child) if components[i].kind == "memory" and name in held[i]), default=NOWHERE)
        tolls = [i for i in range(max(memory + 1, region), child) if components[i].kind == "toll" and name in held[i]]
        sets = self.placements[placement].sets[memory] if memory != NOWHERE else None
        never_resent = sets is not None and name in sets.no_resend_to_below
        source = HolderSource(BEYOND if NOWHERE < memory < region else memory, tuple(tolls), never_resent)
        always_sends = self.problem.tensors[tensor].output and not components[memory].skip_initial_output_write
        return replace(source, skips=False) if always_sends and source.stations else source

    def split(
        self, outers: Outers, tensors: Sequence[int], child: int, region: int
    ) -> list[tuple[dict[int, HolderSource], Outers]]:
        """Split placements by where these tensors come from."""
        by_sources: dict[tuple[HolderSource, ...], list[int]] = {}
        for i in sorted(outers):
            by_sources.setdefault(tuple(self.source(i, t, child, region) for t in tensors), []).append(i)
        return [
            (dict(zip(tensors, sources, strict=True)), frozenset(numbers)) for sources, numbers in by_sources.items()
        ]

    def stretches(self, outers: Outers, memories: range, region: int) -> list[tuple[Stretch, Outers]]:
        """The memory groups of these placements in neighbouring memories, each with the placements then still open."""
        key = outers, memories
        if key not in self._known:
            self._known[key] = list(self._stretches(outers, memories, region))
        return self._known[key]

    def _stretches(self, outers: Outers, memories: range, region: int) -> Iterator[tuple[Stretch, Outers]]:
        slices: dict[object, list[int]] = {}
        for i in sorted(outers):
            placement = self.placements[i]
            slices.setdefault(tuple((placement.held[m], placement.sets[m]) for m in memories), []).append(i)
        for numbers in slices.values():
            still_open = self.outside(numbers, memories.start)
            for sources, after in self.split(still_open, range(len(self.names)), memories.start, region):
                yield self._stretch(numbers[0], memories, region, sources), after

    def _stretch(self, number: int, memories: range, region: int, outside: Mapping[int, HolderSource]) -> Stretch:
        """Make a placement's memory group, given where tensors come from further out."""
        placement = self.placements[number]
        held = [
            HeldTensor(m, t)
            for m in memories
            if self.path.components[m].kind == "memory"
            for t, name in enumerate(self.names)
            if name in placement.held[m]
        ]
        sources = {}
        for h in held:
            source = self.source(number, h.tensor, h.memory, region)
            sources[h] = source if source.memory >= memories.start else outside[h.tensor]
        top = frozenset(h for h in held if self._on_top(h, sources[h]))
        sets = {m: memory_sets for m in memories if (memory_sets := placement.sets[m]) is not None}
        return Stretch(memories, tuple(h for h in held if h not in top), top, sets, sources, outside)

    def _on_top(self, holder: HeldTensor, source: HolderSource) -> bool:
        """Whether a node stands above all loops: in the outermost memory, or as a persistent tensor's backing node."""
        if holder.memory == self.outermost:
            return True
        lifted = holder in self.lifted or self.names[holder.tensor] in self.problem.info.persistent
        return lifted and source.memory == NOWHERE

    def outer_stretch(self, placement: int, boundary: int) -> Stretch:
        """The memory group of all memories outside of a component, in one placement."""
        nowhere = dict.fromkeys(range(len(self.names)), HolderSource(NOWHERE, (), False))
        return self._stretch(placement, range(self.outermost, boundary), 0, nowhere)

    def extended(self, placement: int, stretch: Stretch) -> Stretch:
        """Extend a memory group by all memories further out, in one placement."""
        outer = self.outer_stretch(placement, stretch.memories.start)
        start = stretch.memories.start
        sources = {
            h: source if source.memory >= start else self.source(placement, h.tensor, start, 0)
            for h, source in stretch.sources.items()
        }
        return Stretch(
            range(self.outermost, stretch.memories.stop),
            (*outer.holders, *stretch.holders),
            outer.on_top | stretch.on_top,
            {**outer.sets, **stretch.sets},
            {**outer.sources, **sources},
            outer.outside,
        )


def memory_groups(problem: Problem, free: Iterable[tuple[int, int]]) -> list[range]:
    """The memories of the path from the inside out, but for the outermost, grouped.

    Memories whose nodes may stand in any order (`free` pairs), and all between them, are one group.
    """
    groups: list[range] = []
    for m in reversed(problem.path.memories[1:]):
        if groups and any(a <= m and b >= groups[-1].start for a, b in free):
            groups[-1] = range(m, groups[-1].stop)
        else:
            groups.append(range(m, m + 1))
    return groups
