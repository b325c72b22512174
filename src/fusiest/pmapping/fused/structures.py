"""Structures of the fused part: orders of storage nodes and fused loops, and where space sinks to.

A structure gives, for the remaining nodes from the innermost out, the fused loops above each, and those right below it
that its reservation passes. Sets of loops are bit masks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from fusiest.pmapping.nest.constraints import of_loops, pins_nodes
from fusiest.pmapping.nest.rules import HeldTensor, Nest, Stretch, sinkings
from fusiest.pmapping.table import FusedLoop

LoopSet = int
"""A set of fused loops, as a bit mask."""


class Above(NamedTuple):
    """A storage node of the fused part."""

    holder: HeldTensor
    loops: LoopSet
    """The loops above it."""
    space: LoopSet
    """The loops above its reservation."""


@dataclass(frozen=True)
class Situation:
    """The storage nodes above a seed, without loops."""

    nest: Nest
    stretch: Stretch
    """The memory group from the seed's memories outwards."""
    remaining: tuple[HeldTensor, ...]
    """Nodes to be placed above the seed."""
    orders: tuple[tuple[HeldTensor, ...], ...]
    """Orders in which they may stand, innermost first."""
    kept: frozenset[int]
    """Persistent tensors that must not be sent again."""
    tracked: frozenset[int]
    """Memories whose space counts beyond the Einsum."""

    @cached_property
    def key(self) -> object:
        """All that structures, and `tile_shape`, depend on."""
        nest, stretch = self.nest, self.stretch
        top = frozenset(h for h in stretch.on_top if nest.keeps(h, stretch) or pins_nodes(stretch.sets[h.memory]))
        held = tuple((h, stretch.is_backing(h)) for h in self.remaining)
        sets = (stretch.sets[m] for m in sorted({h.memory for h in self.remaining}))
        return held, tuple(map(of_loops, sets)), self.orders, top, self.kept_inside

    @cached_property
    def kept_inside(self) -> frozenset[int]:
        """Persistent tensors that must not be sent again and are held only further in."""
        return self.kept - {h.tensor for h in self.stretch.on_top}


@dataclass(frozen=True)
class Structures:
    """All structures for some fused loops."""

    situation: Situation
    loops: tuple[FusedLoop, ...]

    @property
    def everything(self) -> LoopSet:
        return (1 << len(self.loops)) - 1

    @cached_property
    def several(self) -> bool:
        """Whether some variable has more than one loop."""
        return any(loop.number for loop in self.loops)

    @cached_property
    def full(self) -> list[LoopSet]:
        """Per tensor, the loops that index it fully."""
        return [self._over(variables) for variables in self.situation.nest.full]

    @cached_property
    def partial(self) -> list[LoopSet]:
        return [self._over(variables) for variables in self.situation.nest.partial]

    @cached_property
    def barred(self) -> dict[HeldTensor, LoopSet]:
        """Per holder, the loops that must not stand above it."""
        nest, stretch = self.situation.nest, self.situation.stretch
        return {h: self._over(nest.barred_above(h, stretch)) for h in self.situation.remaining}

    def _over(self, variables: Set[str]) -> LoopSet:
        """Loops over some variables."""
        return sum(1 << i for i, loop in enumerate(self.loops) if loop.variable in variables)

    def named(self, loops: LoopSet) -> frozenset[FusedLoop]:
        return frozenset(loop for i, loop in enumerate(self.loops) if loops >> i & 1)

    def __iter__(self) -> Iterator[tuple[Above, ...]]:
        """Each structure once, its holders from the innermost out."""
        structures_seen: set[object] = set()
        for order in self.situation.orders:
            for cuts in self._cuts(order, self.everything):
                if self._resends(order, cuts):
                    continue
                for lowered in self._lowerings(order, cuts):
                    structure = tuple(Above(h, c, c | low) for h, c, low in zip(order, cuts, lowered, strict=True))
                    key = frozenset(structure)
                    if key not in structures_seen:
                        structures_seen.add(key)
                        yield structure

    # --- loops above holders ------------------------------------------------------------------------------------------

    def _cuts(self, order: tuple[HeldTensor, ...], below: LoopSet) -> Iterator[tuple[LoopSet, ...]]:
        """For each holder, the loops above it: fewer and fewer outwards."""
        if not order:
            if not self.several or self._is_gap(0, below):
                yield ()
            return
        holder, rest = order[0], order[1:]
        cut = below
        while True:
            zone = below ^ cut
            if (not self.several or self._is_gap(cut, zone)) and self._may_stand(holder, cut, zone):
                for others in self._cuts(rest, cut):
                    yield (cut, *others)
            if not cut:
                return
            cut = (cut - 1) & below

    def _is_gap(self, above: LoopSet, zone: LoopSet) -> bool:
        """Whether loops may stand in one gap below others: one over a variable, and that the next one of it."""
        outer = [loop for i, loop in enumerate(self.loops) if above >> i & 1]
        return all(
            loop.number == sum(o.variable == loop.variable for o in outer)
            for i, loop in enumerate(self.loops)
            if zone >> i & 1
        )

    def _may_stand(self, holder: HeldTensor, above: LoopSet, zone: LoopSet) -> bool:
        """Whether a holder may have these loops above it, and those of a zone right below."""
        if above & self.barred[holder]:
            return False
        return not zone or bool(zone & ~self.full[holder.tensor]) or bool(self._staying(holder, zone))

    def _staying(self, holder: HeldTensor, zone: LoopSet) -> LoopSet:
        """Fully relevant loops right below a holder that rule 1 does not move it below.

        These are loops that neighbours may have to hold the tensor above, and all where one of them might then meet
        another over its variable.
        """
        nest = self.situation.nest
        full = zone & self.full[holder.tensor]
        several = self.several and any(loop.number for i, loop in enumerate(self.loops) if zone >> i & 1)
        if several or not nest.sinks(holder, self.situation.stretch):
            return full
        agreed = nest.agreed.get(nest.names[holder.tensor])
        return full & self._over(agreed) if agreed else 0

    def _resends(self, order: tuple[HeldTensor, ...], cuts: tuple[LoopSet, ...]) -> bool:
        """`no_resend_to_below`: a loop that does not index a tensor fully stands between a holder and the next below."""
        nest, stretch = self.situation.nest, self.situation.stretch
        above = dict(zip(order, cuts, strict=True))
        for holder in (*stretch.on_top, *order):
            barred = self._over(nest.barred_below(holder, stretch))
            if not barred:
                continue
            inner = min((h for h in order if h.tensor == holder.tensor and h.memory > holder.memory), default=None)
            below = self.everything if inner is None else above[inner]
            if below & ~above.get(holder, 0) & barred:
                return True
        return any(self.everything & ~self.full[t] for t in self.situation.kept_inside)

    # --- space --------------------------------------------------------------------------------------------------------

    def _lowerings(self, order: tuple[HeldTensor, ...], cuts: tuple[LoopSet, ...]) -> Iterator[tuple[LoopSet, ...]]:
        """Per holder: loops right below it that its space sinks through."""
        below = [self.everything, *cuts[:-1]] if cuts else []
        zones = (outer ^ cut for outer, cut in zip(below, cuts, strict=True))
        yield from itertools.product(*(self._sunk(holder, zone) for holder, zone in zip(order, zones, strict=True)))

    def _sunk(self, holder: HeldTensor, zone: LoopSet) -> list[LoopSet]:
        """What a holder's space can sink through, depending on the order of the loops right below it."""
        if not zone or self.situation.stretch.is_backing(holder) or holder.memory not in self.situation.tracked:
            return [0]
        full, partial = zone & self.full[holder.tensor], zone & self.partial[holder.tensor]
        irrelevant = zone & ~full & ~partial
        return sinkings(full, partial, self._staying(holder, zone), zone if not irrelevant else None)
