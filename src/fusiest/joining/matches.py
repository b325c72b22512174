"""Which loop of an Einsum is which open loop, and what of a partial mapping decides whether an Einsum's pmappings fit it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from fusiest.joining.compatibility import EinsumView, OpenCompatibility
from fusiest.pmapping import Compatibility, FusedLoop

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
        same = [v for v in einsum.loops if view.info.bounds[v.variable] == loop.bound and v.place == loop.place]
        candidates.append([v for v in same if not tied or v.variable in tied])
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
