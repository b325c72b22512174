"""The orders that the holders of one placement may stand in, and the loops that space sinks through, for the general search."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fusiest.pmapping.general_nest import Facts, Held, Skeleton, Slot
from fusiest.pmapping.placement import Placement
from fusiest.spec import PlacementSets


def skeletons(facts: Facts, placement: Placement) -> Iterator[Skeleton]:
    """All orders of the holders below those on top, less those that another one makes superfluous."""
    path = facts.path
    outermost = next(i for i, c in enumerate(path.components) if c.kind == "memory")
    top: list[Held] = []
    nested: list[Held] = []
    for tensor in path.einsum.accesses:
        levels = placement.holders(tensor, path)
        for level in levels:
            holder = Held(tensor, level, level == levels[0])
            persistent = holder.backing and tensor in path.einsum.persistent
            (top if level == outermost or persistent else nested).append(holder)
    nested.sort(key=lambda h: h.level)
    empty = Skeleton(facts, placement, tuple(top), tuple(nested))
    for skeleton in _orders(empty, ()):
        if all(_option_met(top, skeleton.holders, level, sets) for level, sets in enumerate(placement.sets)):
            yield skeleton


def _orders(skeleton: Skeleton, below: tuple[Held, ...]) -> Iterator[Skeleton]:
    """From the innermost holder out. What a gap may hold does not depend on the order of the holders above it."""
    left = [h for h in skeleton.holders if h not in below]
    if not left:
        yield skeleton
    for holder in left:
        rest = [h for h in left if h != holder]
        if any(_must_stand_above(holder, other, skeleton) for other in rest):
            continue
        extended = replace(skeleton, holders=(*rest, holder, *below))
        if not _superfluous(extended, len(rest)):
            yield from _orders(extended, (holder, *below))


def _superfluous(skeleton: Skeleton, place: int) -> bool:
    """[A] [B] → [B] [A]   where no loop can stand between the two, and B's reservation passes nothing below it.

    The other order has the same nests, with reservations that pass at least as much. Of the two, the one that lists
    the holders by level and tensor stays.
    """
    if place + 1 >= len(skeleton.holders):
        return False
    outer, inner = skeleton.holders[place : place + 2]
    if (outer.level, outer.tensor) < (inner.level, inner.tensor) or _must_stand_above(outer, inner, skeleton):
        return False
    if outer.level == inner.level and skeleton.sets(outer).tensor_order_options:
        return False
    if any((outer.level < level) != (inner.level < level) for level, _ in skeleton.dimensions):
        return False
    bounds = skeleton.path.einsum.bounds
    if any(skeleton.gap_slots(v, place + 1) for v in bounds):
        return False
    relevant = skeleton.facts.relevant[inner.tensor]
    return inner.backing or not any(Slot(place + 2) in skeleton.gap_slots(v, place + 2) for v in relevant)


def _must_stand_above(outer: Held, inner: Held, skeleton: Skeleton) -> bool:
    if outer.level >= inner.level or (outer.level, inner.level) in skeleton.facts.beside:
        return False
    if outer.tensor == inner.tensor or (outer.backing and outer.tensor in skeleton.shared):
        return True
    return all(skeleton.sets(holder).force_memory_hierarchy_order for holder in (outer, inner))


def _option_met(top: Sequence[Held], order: Sequence[Held], level: int, sets: PlacementSets | None) -> bool:
    """`tensor_order_options`: at least one option agrees with where this memory's tensors stand."""
    if sets is None or not sets.tensor_order_options:
        return True
    above = [h.tensor for h in top if h.level == level]
    nested = [h.tensor for h in order if h.level == level]
    for option in sets.tensor_order_options:
        rank = {tensor: i for i, part in enumerate(option) for tensor in part}
        inner = [rank[t] for t in nested if t in rank]
        outer = [rank[t] for t in above if t in rank]
        met = all(a <= b for a, b in itertools.pairwise(inner))
        if met and all(a <= b for a in outer for b in inner):
            return True
    return False


def lowerings(
    skeleton: Skeleton, slots: Mapping[str, tuple[Slot, ...]], per_variable: int
) -> Iterator[dict[int, frozenset[str]]]:
    """Per holder, the variables whose loop right below it its reservation passes: fully relevant ones, then at most one
    partially relevant. In an unfused gap all fully relevant ones stand first; a fused gap's order is part of the form."""
    options: list[list[frozenset[str]]] = []
    for place, holder in enumerate(skeleton.holders):
        own = [v for v in slots if Slot(place + 1) in slots[v]]
        full = [v for v in own if v in skeleton.facts.full[holder.tensor]]
        partial = [frozenset([v]) for v in own if v in skeleton.facts.partial[holder.tensor]]
        limited = math.isfinite(skeleton.path.components[holder.level].size)
        if holder.backing or (not limited and place + 1 <= skeleton.last_fused):
            options.append([frozenset()])
        elif place + 1 > skeleton.last_fused:
            options.append([frozenset(full) | last for last in partial or [frozenset[str]()]])
        else:
            moved = skeleton.sinks(place) and holder.tensor not in skeleton.facts.agreed
            if moved and per_variable == 1 and place not in skeleton.dimension_gaps:
                full = []
            runs = [frozenset(c) for n in range(len(full) + 1) for c in itertools.combinations(full, n)]
            options.append([run | last for run in runs for last in [frozenset[str](), *partial]])
    for chosen in itertools.product(*options):
        passed = dict(enumerate(chosen))
        fused = Counter(v for place in range(skeleton.last_fused) for v in passed[place])
        if all(count <= per_variable for count in fused.values()):
            yield passed
