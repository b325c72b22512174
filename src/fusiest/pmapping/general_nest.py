"""Nests without their tiles, for the general search: holders in an order, and where loops over each variable may stand.

Gap i lies right above holder i, the last right above the compute. Spatial loops and Tolls stand at the lower end of the gap
that follows the last holder of the memories above them. Memories need not stand in hierarchy order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from fusiest.pmapping.nest import Rules
from fusiest.pmapping.placement import Placement
from fusiest.spec import BoundDimension, Path, PlacementSets


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor in the component with this index on the path."""

    tensor: str
    level: int
    backing: bool


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a loop: the Temporal loop of a gap, or the loop on one of the path's fanout dimensions."""

    gap: int
    dimension: int | None = None


@dataclass(frozen=True)
class Facts:
    """What is asked often about an Einsum on one compute, and what the skeletons of all placements have in common."""

    path: Path
    shared: frozenset[str]
    agreed: frozenset[str]
    """Tensors that a neighbour may have to hold at the same place."""
    beside: frozenset[tuple[int, int]]
    """Pairs of memories that stand in one `!Parallel`."""
    rules: Rules
    imperfect: bool

    @cached_property
    def variables(self) -> tuple[str, ...]:
        return tuple(self.path.einsum.bounds)

    @cached_property
    def full(self) -> dict[str, frozenset[str]]:
        """Per tensor, the variables that index it fully."""
        return {t: a.fully_relevant for t, a in self.path.einsum.accesses.items()}

    @cached_property
    def partial(self) -> dict[str, frozenset[str]]:
        return {t: a.partially_relevant for t, a in self.path.einsum.accesses.items()}

    @cached_property
    def relevant(self) -> dict[str, frozenset[str]]:
        return {t: a.variables for t, a in self.path.einsum.accesses.items()}

    @cached_property
    def ranks(self) -> dict[str, tuple[dict[str, int], ...]]:
        """Per tensor and rank, the variables with the absolute values of their coefficients."""
        return {
            t: tuple({v: abs(a) for v, a in r.coefficients.items()} for r in access.ranks.values())
            for t, access in self.path.einsum.accesses.items()
        }

    @cached_property
    def strided(self) -> frozenset[str]:
        """Variables with a coefficient other than ±1."""
        return frozenset(v for ranks in self.ranks.values() for rank in ranks for v, a in rank.items() if a > 1)

    @cached_property
    def dimensions(self) -> tuple[tuple[int, BoundDimension], ...]:
        """Fanout dimensions, outer ones first, each with the index of its component."""
        return tuple((level, d) for level, c in enumerate(self.path.components) for d in c.dimensions)


@dataclass(frozen=True)
class Skeleton:
    facts: Facts
    placement: Placement
    top: tuple[Held, ...]
    """Holders of the outermost memory and of persistent tensors: no loop stands above them."""
    holders: tuple[Held, ...]
    """All others, outermost first."""

    @property
    def path(self) -> Path:
        return self.facts.path

    @property
    def shared(self) -> frozenset[str]:
        return self.facts.shared

    @cached_property
    def gaps(self) -> range:
        return range(len(self.holders) + 1)

    @property
    def dimensions(self) -> tuple[tuple[int, BoundDimension], ...]:
        return self.facts.dimensions

    def gap_below(self, level: int) -> int:
        """The gap that follows the last holder of the memories above a component."""
        return 1 + max((i for i, h in enumerate(self.holders) if h.level < level), default=-1)

    @cached_property
    def dimension_gaps(self) -> tuple[int, ...]:
        return tuple(self.gap_below(level) for level, _ in self.dimensions)

    @cached_property
    def tolls(self) -> tuple[tuple[int, Held], ...]:
        """Each Toll with its gap."""
        found = []
        for tensor in self.path.einsum.accesses:
            for level in self.placement.tolls(tensor, self.path):
                inner = [i for i, h in enumerate(self.holders) if h.tensor == tensor and h.level > level]
                found.append((min([self.gap_below(level), *inner]), Held(tensor, level, False)))
        return tuple(found)

    @cached_property
    def last_fused(self) -> int:
        """The innermost backing holder of a shared tensor, or -1: loops in the gaps down to it are fused."""
        return max((i for i, h in enumerate(self.holders) if h.backing and h.tensor in self.shared), default=-1)

    def sets(self, holder: Held) -> PlacementSets:
        sets = self.placement.sets[holder.level]
        assert sets is not None
        return sets

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """Per tensor the places of its holders, -1 for one on top."""
        found: dict[str, list[int]] = {t: [] for t in self.facts.full}
        for place, holder in [*((-1, h) for h in self.top), *enumerate(self.holders)]:
            found[holder.tensor].append(place)
        return found

    def holder(self, place: int, tensor: str) -> Held:
        return self.holders[place] if place >= 0 else next(h for h in self.top if h.tensor == tensor)

    # --- where loops may stand ----------------------------------------------------------------------------------------

    def may_loop(self, variable: str, gap: int) -> bool:
        """Whether a Temporal loop recomputes no tensor, refetches none and resends none that must not be."""
        for tensor, places in self.places.items():
            if gap <= places[0] and not self._may_fuse(variable, self.holder(places[0], tensor)):
                return False
            if variable in self.facts.full[tensor]:
                continue
            if gap <= places[0]:
                return False
            for place, below in zip(places, [*places[1:], len(self.holders)], strict=True):
                sets = self.sets(self.holder(place, tensor))
                if tensor in sets.no_refetch_from_above and places[0] < gap <= place:
                    return False
                if tensor in sets.no_resend_to_below and place < gap <= below:
                    return False
        return True

    def _may_fuse(self, variable: str, backing: Held) -> bool:
        """`no_fused_loops`: whether a loop may stand above a tensor's outermost holder."""
        return backing.tensor not in self.facts.shared or variable not in self.sets(backing).no_fused_loops

    def may_spread(self, variable: str, dimension: int) -> bool:
        """Whether a Spatial loop over a variable may use a dimension: it splits tensors backed below it, or replicates them."""
        level, d = self.dimensions[dimension]
        if any(variable in self.facts.relevant[t] for t in d.reuse):
            return False
        for holder in (*self.top, *self.holders):
            if holder.backing and holder.level >= level:
                info = self.path.einsum
                fits = variable in self.facts.full[holder.tensor] or holder.tensor in info.replicable
                if not self._may_fuse(variable, holder) or holder.tensor in info.persistent or not fits:
                    return False
        return True

    def swaps(self, variable: str, temporal: int, dimension: int) -> bool:
        """Whether some tensor sees a Temporal loop of a gap and a Spatial loop, both over this variable, change places."""
        level, _ = self.dimensions[dimension]
        if temporal > self.dimension_gaps[dimension]:
            return False
        return any(h.level >= level and variable in self.facts.relevant[h.tensor] for h in self.holders[:temporal])

    def slots(self, variable: str) -> tuple[Slot, ...]:
        """Where loops over a variable may stand, in written order."""
        return tuple(slot for gap in self.gaps for slot in self.gap_slots(variable, gap))

    def gap_slots(self, variable: str, gap: int) -> list[Slot]:
        if self.path.einsum.bounds[variable] == 1:
            return []
        temporal = self.may_loop(variable, gap) and not self._ruled_out(variable, gap)
        spread = [i for i, own in enumerate(self.dimension_gaps) if own == gap and self.may_spread(variable, i)]
        return [Slot(gap)] * temporal + [Slot(gap, i) for i in spread]

    # --- rules --------------------------------------------------------------------------------------------------------

    def _ruled_out(self, variable: str, gap: int) -> bool:
        """Rules 1 and 2 of `search`, in gaps of unfused loops.

        Moving a loop may merge it with one over the same variable in the next gap. With imperfect tiles that leaves
        fewer, larger tiles: never worse, but where stride gaps count. Nor may it cross a Spatial loop over its variable.
        """
        if gap <= self.last_fused:
            return False
        if self.facts.imperfect and variable in self.facts.strided:
            return False
        return self._sunk(variable, gap) or self._hoisted(variable, gap)

    def sinks(self, place: int) -> bool:
        """Rule 1 may move this holder below fully relevant loops: it is not backing, no `tile_shape` depends on its
        place, and every Spatial loop that its tensor sees above it is written above it."""
        holder = self.holders[place]
        written = all(
            gap <= place
            for (level, _), gap in zip(self.dimensions, self.dimension_gaps, strict=True)
            if level <= holder.level
        )
        return self.facts.rules.sink and not holder.backing and not self.sets(holder).tile_shape and written

    def _sunk(self, variable: str, gap: int) -> bool:
        """Rule 1 moves the holder above the gap to below a loop over this variable, into the gap above."""
        if gap == 0 or variable not in self.facts.full[self.holders[gap - 1].tensor]:
            return False
        return self.sinks(gap - 1) and not self._spreads(variable, gap - 1)

    def _hoisted(self, variable: str, gap: int) -> bool:
        """Rule 2 moves a loop over this variable to below the holder under the gap."""
        if gap == len(self.holders) or not self.facts.rules.hoist:
            return False
        holder = self.holders[gap]
        sets = self.sets(holder)
        if (
            variable in self.facts.relevant[holder.tensor]
            or sets.tile_shape
            or holder.tensor in sets.no_resend_to_below
        ):
            return False
        if gap > 0 and variable in self.facts.partial[self.holders[gap - 1].tensor]:
            return False
        return not self._spreads(variable, gap)

    def _spreads(self, variable: str, gap: int) -> bool:
        """Whether a Spatial loop over this variable may stand in a gap."""
        return any(own == gap and self.may_spread(variable, i) for i, own in enumerate(self.dimension_gaps))
