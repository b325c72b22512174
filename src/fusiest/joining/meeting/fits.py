"""Whether an Einsum's pmappings fit a partial mapping: which loop is which, in what order, and what both must agree on.

That depends on the partial mapping's outline alone, the part that the Einsum sees. Many partial mappings have the same
outline.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from fusiest.joining.meeting.compatibility import APART, EinsumView, OpenCompatibility
from fusiest.joining.meeting.shared_nodes import HolderPlace, agree, moved, orders
from fusiest.model import keeps_behind
from fusiest.pmapping import Compatibility, FusedLoop, Holding


@dataclass(frozen=True)
class JoinRules:
    """Rules for all joins of a workload."""

    persistent: frozenset[str] = frozenset()
    """Tensors that take their space throughout."""
    only_finished: bool = True
    """Whether Einsums use only tensors that are finished (the exchange rule)."""
    uneven_copies: frozenset[str] = frozenset()
    """Tensors that are larger or smaller than their copies: they stay known as long as a copy shares their space."""


LoopMatch = Mapping[int, FusedLoop]
"""The Einsum's fused loop for each open loop, by the open loop's number."""


def matches(
    before: OpenCompatibility, einsum: Compatibility, view: EinsumView, shared: frozenset[str]
) -> Iterator[LoopMatch]:
    """Find which of the Einsum's loops each open loop can be.

    The Einsum must have all open loops, as it runs inside them.

    A loop above a shared tensor steps that tensor's rank. Below it, any fused loop of the Einsum with as many
    iterations will do: two Einsums that share nothing there may still be interleaved for the sake of a third.
    """
    candidates = []
    for loop in before.loops:
        tied = {view.variable_of(t, stepping) for t, stepping in loop.ranks if t in shared}
        if len(tied) > 1:
            return
        alike_loops = [v for v in einsum.loops if view.info.bounds[v.variable] == loop.bound and v.place == loop.place]
        candidates.append([v for v in alike_loops if not tied or v.variable in tied])
    outer = [_outer(before, i) for i in range(len(before.loops))]
    for chosen in itertools.product(*candidates):
        follows = (
            v.number == 0 if o is None else v == chosen[o]._replace(number=chosen[o].number + 1, place=v.place)
            for v, o in zip(chosen, outer, strict=True)
        )
        if len(set(chosen)) == len(chosen) and all(follows):
            yield dict(enumerate(chosen))


def _outer(compatibility: OpenCompatibility, i: int) -> int | None:
    """The next open loop outwards that steps the same ranks.

    An open loop divides its tile, or the whole rank if there is none.
    """
    loops = compatibility.loops
    return next((j for j in reversed(range(i)) if loops[j].ranks & loops[i].ranks), None)


def outline(before: OpenCompatibility, view: EinsumView, shared: frozenset[str]) -> object:
    """The part of a partial mapping that an Einsum sees.

    Where outlines are equal, the same pmappings fit in the same ways.
    """
    loops = (
        (
            loop.bound,
            loop.place,
            frozenset(item for item in loop.ranks if item[0] in shared),
            frozenset(item for item in loop.produced if item[0] in view.tensors),
            _outer(before, i),
        )
        for i, loop in enumerate(before.loops)
    )
    return (
        tuple(loops),
        tuple(len(zone) for zone in before.zones),
        tuple(b for b in before.backings if b.tensor in view.tensors),
        tuple(h for h, _ in before.holdings),
        tuple(item for item in before.inside if item[0] in view.tensors),
    )


@dataclass(frozen=True)
class Fit:
    """A partial mapping and an Einsum's pmappings, with a choice of which of the Einsum's loops each open loop is.

    `before` stands for all partial mappings with the same outline; nothing else of it is read.
    """

    before: OpenCompatibility
    einsum: Compatibility
    view: EinsumView
    match: LoopMatch
    rules: JoinRules

    def fits(self) -> bool:
        """Whether the loops of both sides can be put in one order, and both agree on what they share."""
        agreed = self.blocks is not None and self._in_turn() and self._backings_agree() and self._holders_agree()
        return agreed and self.orders is not None

    # --- zones --------------------------------------------------------------------------------------------------------

    @cached_property
    def zone(self) -> dict[FusedLoop, int]:
        """The Einsum's fusion level of each of its fused loops."""
        return {v: z for z, zone in enumerate(self.einsum.zones) for v in zone}

    @cached_property
    def column(self) -> dict[FusedLoop, int]:
        """The tile column of each of the Einsum's fused loops."""
        return {v: i for i, v in enumerate(self.einsum.loops)}

    @cached_property
    def open_column(self) -> dict[FusedLoop, int]:
        """The number of the open loop that each of the Einsum's loops is, if any."""
        return {v: i for i, v in self.match.items()}

    @cached_property
    def open_zone(self) -> dict[FusedLoop, int]:
        """The fusion level of the partial mapping at which each of the Einsum's loops is open, if it is."""
        numbers = [z for z, zone in enumerate(self.before.zones) for _ in zone]
        return {v: numbers[i] for i, v in self.match.items()}

    @cached_property
    def blocks(self) -> list[list[FusedLoop]] | None:
        """The Einsum's fused loops in the coarsest order that respects both sides, open loops first."""
        last = len(self.match) + 1
        key = {v: (self.open_zone.get(v, last), z) for v, z in self.zone.items()}
        order = sorted(key, key=lambda v: key[v])
        if any(key[outer][1] > key[inner][1] for outer, inner in itertools.pairwise(order)):
            return None
        return [list(block) for _, block in itertools.groupby(order, key=lambda v: key[v])]

    def above(self, zones: int) -> Iterator[FusedLoop]:
        """Loops above a boundary of the common refinement."""
        assert self.blocks is not None
        return itertools.chain.from_iterable(self.blocks[:zones])

    @cached_property
    def open_boundaries(self) -> tuple[int, ...]:
        """Boundaries of the partial mapping's fusion levels, by their boundary in the common refinement."""
        zones = len(self.before.zones)
        blocks = self.blocks or []
        return _boundaries(
            zones, [max((self.open_zone[v] for v in b if v in self.open_zone), default=zones) for b in blocks]
        )

    @cached_property
    def einsum_boundaries(self) -> tuple[int, ...]:
        """Boundaries of the Einsum's fusion levels, by their boundary in the common refinement."""
        return _boundaries(len(self.einsum.zones), [self.zone[block[0]] for block in self.blocks or []])

    # --- what both share ----------------------------------------------------------------------------------------------

    def _backings_agree(self) -> bool:
        boundary = {b.tensor: self.einsum_boundaries[b.zones] for b in self.einsum.backings}
        return all(
            boundary.get(b.tensor, self.open_boundaries[b.zones]) == self.open_boundaries[b.zones]
            for b in self.before.backings
        )

    def _in_turn(self) -> bool:
        """Whether each tensor is finished when the Einsum uses it, or grows piece by piece in loops that they share."""
        for i, loop in enumerate(self.before.loops):
            v = self.match[i]
            for tensor, step in loop.produced:
                if tensor not in self.view.tensors:
                    continue
                if tensor == self.view.info.output:
                    if step == APART:  # who makes another part holds it elsewhere above the loop
                        return False
                elif step is None or step == APART or not keeps_behind(self.view.info, tensor, v.variable, step):
                    return False
                if any(h.tensor == tensor and h.zones <= self.zone[v] for h in self.einsum.holdings):
                    return False
        return True

    @cached_property
    def einsum_holdings(self) -> list[Holding]:
        return [moved(h, self.einsum_boundaries) for h in self.einsum.holdings]

    @cached_property
    def _open_holdings(self) -> list[Holding]:
        return [moved(h, self.open_boundaries) for h, _ in self.before.holdings]

    def _holders_agree(self) -> bool:
        if self.view.info.is_copy_operation:  # whose further holders are ignored
            return True
        inside = {t: self.open_boundaries[zones] for t, zones in self.before.inside}
        return agree(self._open_holdings, self.einsum_holdings, inside, self.view.tensors)

    @cached_property
    def orders(self) -> dict[HolderPlace, set[HolderPlace]] | None:
        """The storage nodes that must stand above each node in the same place; None if no order satisfies all."""
        return orders([*self._open_holdings, *self.einsum_holdings])


def _boundaries(zones: int, zone_of_block: list[int]) -> tuple[int, ...]:
    """Count, per boundary below k fusion levels, the blocks of the refinement above it."""
    return tuple(sum(1 for z in zone_of_block if z < k) for k in range(zones + 1))


def fits(
    before: OpenCompatibility, einsum: Compatibility, view: EinsumView, shared: frozenset[str], rules: JoinRules
) -> tuple[Fit, ...]:
    """All ways in which both sides can be joined, given that their relaxed compatibilities agree.

    There is none if their loops cannot be put in one order.
    """
    candidates = (Fit(before, einsum, view, match, rules) for match in matches(before, einsum, view, shared))
    return tuple(fit for fit in candidates if fit.fits())
