"""Whether an Einsum's pmappings fit a partial mapping: which loop is which, in what order, and what both must agree on.

That depends on what the Einsum sees of the partial mapping, its outline, which many of them have in common.
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
    """What holds for all joins of a workload."""

    persistent: frozenset[str] = frozenset()
    """Tensors that take their space throughout."""
    only_finished: bool = True
    """Einsums use only tensors that are finished."""
    uneven_copies: frozenset[str] = frozenset()
    """Tensors that are larger or smaller than their copies: what shares their space must know of them when they are dead."""


LoopMatch = Mapping[int, FusedLoop]
"""Of each open loop, by number, the Einsum's own."""


def matches(
    before: OpenCompatibility, einsum: Compatibility, view: EinsumView, shared: frozenset[str]
) -> Iterator[LoopMatch]:
    """Which loop of the Einsum is each open loop. It must have all of them: it runs inside them.

    A loop above a shared tensor steps that tensor's rank. Below it, any fused loop of the Einsum with as many iterations
    will do: two Einsums that share nothing there may still take turns for the sake of a third.
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
    """The next open loop outwards that steps the same ranks: an open loop divides its tile, else the whole rank."""
    loops = compatibility.loops
    return next((j for j in reversed(range(i)) if loops[j].ranks & loops[i].ranks), None)


def outline(before: OpenCompatibility, view: EinsumView, shared: frozenset[str]) -> object:
    """All of a partial mapping that an Einsum sees: where outlines are equal, the same pmappings fit in the same ways."""
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
    """Both sides, given which of the Einsum's loops each open loop is.

    `before` stands for all partial mappings with the same outline: only that is looked at.
    """

    before: OpenCompatibility
    einsum: Compatibility
    view: EinsumView
    match: LoopMatch
    rules: JoinRules

    def fits(self) -> bool:
        """Whether their loops can be put in one order, and they agree on what they share."""
        agreed = self.blocks is not None and self._in_turn() and self._backings_agree() and self._holders_agree()
        return agreed and self.orders is not None

    # --- zones --------------------------------------------------------------------------------------------------------

    @cached_property
    def zone(self) -> dict[FusedLoop, int]:
        """Of each loop of the Einsum, its zone there."""
        return {v: z for z, zone in enumerate(self.einsum.zones) for v in zone}

    @cached_property
    def column(self) -> dict[FusedLoop, int]:
        return {v: i for i, v in enumerate(self.einsum.loops)}

    @cached_property
    def open_column(self) -> dict[FusedLoop, int]:
        """Of each loop of the Einsum that is open, which one it is there."""
        return {v: i for i, v in self.match.items()}

    @cached_property
    def open_zone(self) -> dict[FusedLoop, int]:
        """Of each loop of the Einsum that is open, its zone there."""
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
        """Loops above a boundary of the refinement."""
        assert self.blocks is not None
        return itertools.chain.from_iterable(self.blocks[:zones])

    @cached_property
    def open_boundaries(self) -> tuple[int, ...]:
        zones = len(self.before.zones)
        blocks = self.blocks or []
        return _boundaries(
            zones, [max((self.open_zone[v] for v in b if v in self.open_zone), default=zones) for b in blocks]
        )

    @cached_property
    def einsum_boundaries(self) -> tuple[int, ...]:
        return _boundaries(len(self.einsum.zones), [self.zone[block[0]] for block in self.blocks or []])

    # --- what both share ----------------------------------------------------------------------------------------------

    def _backings_agree(self) -> bool:
        boundary = {b.tensor: self.einsum_boundaries[b.zones] for b in self.einsum.backings}
        return all(
            boundary.get(b.tensor, self.open_boundaries[b.zones]) == self.open_boundaries[b.zones]
            for b in self.before.backings
        )

    def _in_turn(self) -> bool:
        """Whether every tensor that the Einsum uses is finished by then, or piece by piece in the loops it shares."""
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
        """Of each holder, those that must stand above it in the same place; None if they cannot all do so."""
        return orders([*self._open_holdings, *self.einsum_holdings])


def _boundaries(zones: int, zone_of_block: list[int]) -> tuple[int, ...]:
    """Per boundary below k zones: how many blocks of the refinement lie above it."""
    return tuple(sum(1 for z in zone_of_block if z < k) for k in range(zones + 1))


def fits(
    before: OpenCompatibility, einsum: Compatibility, view: EinsumView, shared: frozenset[str], rules: JoinRules
) -> tuple[Fit, ...]:
    """All ways in which both can meet, if they agree relaxed; none if their loops cannot be put in one order."""
    candidates = (Fit(before, einsum, view, match, rules) for match in matches(before, einsum, view, shared))
    return tuple(fit for fit in candidates if fit.fits())
