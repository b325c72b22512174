"""Nests without their tiles, for the general search: storage nodes in an order, and slots for loops over each variable.

Gap i lies right above node i, the last right above the compute. Spatial loops and Tolls stand at the lower end of the
gap that follows the last node of the memories above them. Memories need not stand in hierarchy order.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from functools import cached_property

from fusiest.pmapping.nest.rules import HeldTensor, Nest, Stretch
from fusiest.pmapping.nest.spatial import never_spread
from fusiest.pmapping.placements.placement import Placement
from fusiest.spec import BoundDimension, Path


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a loop: the Temporal loop of a gap, or the loop on one of the path's fanout dimensions."""

    gap: int
    dimension: int | None = None


@dataclass(frozen=True)
class Skeleton:
    """A nest without its tiles."""

    nest: Nest
    placement: Placement
    stretch: Stretch
    """The memory group of all memories."""
    holders: tuple[HeldTensor, ...]
    """All storage nodes but those on top, outermost first."""
    imperfect: bool

    @property
    def path(self) -> Path:
        return self.nest.path

    @cached_property
    def top(self) -> tuple[HeldTensor, ...]:
        """Storage nodes of the outermost memory and of persistent tensors: no loop stands above them."""
        return tuple(sorted(self.stretch.on_top, key=lambda h: (h.tensor, h.memory)))

    @cached_property
    def gaps(self) -> range:
        return range(len(self.holders) + 1)

    @cached_property
    def dimensions(self) -> tuple[tuple[int, BoundDimension], ...]:
        """Fanout dimensions, outer ones first, each with the index of its component."""
        return tuple((level, d) for level, c in enumerate(self.path.components) for d in c.dimensions)

    def gap_below(self, level: int) -> int:
        """The gap that follows the last node of the memories above a component."""
        return 1 + max((i for i, h in enumerate(self.holders) if h.memory < level), default=-1)

    @cached_property
    def dimension_gaps(self) -> tuple[int, ...]:
        return tuple(self.gap_below(level) for level, _ in self.dimensions)

    @cached_property
    def tolls(self) -> tuple[tuple[int, HeldTensor], ...]:
        """Each Toll with its gap."""
        tolls = []
        for tensor, name in enumerate(self.nest.names):
            for level in self.placement.tolls(name, self.path):
                tolls.append((self._gap_of_toll(level, tensor), HeldTensor(level, tensor)))
        return tuple(tolls)

    def _gap_of_toll(self, level: int, tensor: int) -> int:
        """The gap of a Toll: right above the tensor's next node, but above the fanouts that lie below the Toll.

        Further out, a loop that another Einsum shares might come between, and the other Einsum would pass the Toll as
        well.
        """
        inner = [i for i, h in enumerate(self.holders) if h.tensor == tensor and h.memory > level]
        outermost, lowest = min([self.gap_below(level), *inner]), min(inner, default=len(self.holders))
        fanouts = zip(self.dimensions, self.dimension_gaps, strict=True)
        return outermost if any(below > level and gap <= lowest for (below, _), gap in fanouts) else lowest

    def is_backing(self, holder: HeldTensor) -> bool:
        return self.stretch.is_backing(holder)

    def is_persistent(self, holder: HeldTensor) -> bool:
        """Whether a persistent tensor is backed here: it takes its space throughout."""
        return self.is_backing(holder) and self.nest.names[holder.tensor] in self.path.einsum.persistent

    def is_exchanged(self, holder: HeldTensor) -> bool:
        """Whether Einsums exchange a tensor at this node."""
        return self.is_backing(holder) and self.nest.is_shared(holder.tensor)

    @cached_property
    def last_fused(self) -> int:
        """The innermost backing node of a shared tensor, or -1: loops in the gaps down to it are fused."""
        return max((i for i, h in enumerate(self.holders) if self.is_exchanged(h)), default=-1)

    @cached_property
    def everywhere(self) -> tuple[tuple[int, HeldTensor], ...]:
        """All storage nodes with their places, -1 for those on top."""
        return (*((-1, h) for h in self.top), *enumerate(self.holders))

    @cached_property
    def places(self) -> tuple[list[int], ...]:
        """Per tensor the places of its nodes, -1 for one on top."""
        return tuple([place for place, h in self.everywhere if h.tensor == t] for t in range(len(self.nest.names)))

    def holder(self, place: int, tensor: int) -> HeldTensor:
        return self.holders[place] if place >= 0 else next(h for h in self.top if h.tensor == tensor)

    # --- where loops may stand ----------------------------------------------------------------------------------------

    @cached_property
    def _bars(self) -> list[tuple[int, range, frozenset[str]]]:
        """Tensors, gaps, and variables that for their sake must have no Temporal loop there."""
        bars = []
        for place, holder in self.everywhere:
            below = next((p for p in self.places[holder.tensor] if p > place), len(self.holders))
            bars.append((holder.tensor, range(place + 1), self.nest.barred_above(holder, self.stretch)))
            bars.append((holder.tensor, range(place + 1, below + 1), self.nest.barred_below(holder, self.stretch)))
        return [(tensor, gaps, barred) for tensor, gaps, barred in bars if barred]

    def may_loop(self, variable: str, gap: int, but: Set[int] = frozenset()) -> bool:
        """Whether a Temporal loop recomputes, refetches and resends no tensor that must not be.

        Tensors in `but` are exempt, as they are backed below the loop.
        """
        return not any(t not in but and gap in gaps and variable in barred for t, gaps, barred in self._bars)

    def may_spread(self, variable: str, dimension: int) -> bool:
        """Whether a Spatial loop over a variable may use a dimension: it splits tensors backed below it, or replicates them."""
        level, d = self.dimensions[dimension]
        info = self.path.einsum
        if variable in never_spread(info, d):
            return False
        for _, holder in self.everywhere:
            if self.is_backing(holder) and holder.memory >= level:
                name = self.nest.names[holder.tensor]
                fits = variable in self.nest.full[holder.tensor] or name in info.replicable
                if variable in self.nest.unfused(holder, self.stretch) or self.is_persistent(holder) or not fits:
                    return False
        return True

    def swaps(self, variable: str, temporal: int, dimension: int) -> bool:
        """Whether some tensor sees a Temporal loop of a gap and a Spatial loop, both over this variable, change places."""
        level, _ = self.dimensions[dimension]
        if temporal > self.dimension_gaps[dimension]:
            return False
        return any(h.memory >= level and variable in self.nest.relevant[h.tensor] for h in self.holders[:temporal])

    def slots(self, variable: str) -> tuple[Slot, ...]:
        """Slots for loops over a variable, in written order."""
        return tuple(slot for gap in self.gaps for slot in self.gap_slots(variable, gap))

    def gap_slots(self, variable: str, gap: int) -> list[Slot]:
        if self.path.einsum.bounds[variable] == 1:
            return []
        temporal = self.may_loop(variable, gap) and not self._ruled_out(variable, gap)
        spread = [i for i, g in enumerate(self.dimension_gaps) if g == gap and self.may_spread(variable, i)]
        return [Slot(gap)] * temporal + [Slot(gap, i) for i in spread]

    # --- rules --------------------------------------------------------------------------------------------------------

    def _ruled_out(self, variable: str, gap: int) -> bool:
        """Rules 1 and 2 of `nest`, in gaps of unfused loops.

        Moving a loop may merge it with one over the same variable in the next gap. With imperfect tiles that leaves
        fewer, larger tiles: never worse, but where stride gaps count. Nor may it cross a Spatial loop over its variable.
        """
        if gap <= self.last_fused or (self.imperfect and variable in self._strided):
            return False
        above = self.holders[gap - 1].tensor if gap and not self.is_backing(self.holders[gap - 1]) else None
        sinks = gap > 0 and self.sinks(gap - 1) and not self._spreads(variable, gap - 1)
        hoists = gap < len(self.holders) and self.nest.hoists(self.holders[gap], self.stretch)
        below = self.holders[gap].tensor if hoists and not self._spreads(variable, gap) else None
        return not self.nest.is_useful(variable, above, below, sinks)

    @cached_property
    def _strided(self) -> frozenset[str]:
        """Variables with a coefficient other than ±1."""
        ranks = (rank for access in self.path.einsum.accesses.values() for rank in access.ranks.values())
        return frozenset(v for rank in ranks for v, a in rank.coefficients.items() if abs(a) > 1)

    def sinks(self, place: int) -> bool:
        """Whether rule 1 may move this node: every Spatial loop that its tensor sees above it must be written above it."""
        holder = self.holders[place]
        written = all(
            gap <= place
            for (level, _), gap in zip(self.dimensions, self.dimension_gaps, strict=True)
            if level <= holder.memory
        )
        return written and self.nest.sinks(holder, self.stretch)

    def sinks_among_fused(self, place: int) -> bool:
        """Whether rule 1 may move this node below fused loops: not if a neighbour may need it above them."""
        return self.sinks(place) and self.nest.names[self.holders[place].tensor] not in self.nest.agreed

    def _spreads(self, variable: str, gap: int) -> bool:
        """Whether a Spatial loop over this variable may stand in a gap."""
        return any(g == gap and self.may_spread(variable, i) for i, g in enumerate(self.dimension_gaps))
