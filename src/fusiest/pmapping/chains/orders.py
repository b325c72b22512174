"""Orders of the storage nodes of one placement, and the loops that space sinks through, for the general search."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from fusiest.base.errors import SpecError
from fusiest.pmapping.chains.skeleton import Skeleton, Slot
from fusiest.pmapping.nest.rules import HeldTensor, Nest, OrderOptions, sinkings
from fusiest.pmapping.placements.open_choices import Steps
from fusiest.pmapping.placements.placement import Placement


def skeletons(nest: Nest, placement: Placement, imperfect: bool, kind: type[Skeleton] = Skeleton) -> Iterator[Skeleton]:
    """All orders of the storage nodes below those on top, without those that another one makes superfluous."""
    whole = Steps(nest.problem, [placement]).outer_stretch(0, len(nest.path.components))
    empty = kind(nest, placement, whole, whole.holders, imperfect)
    return _orders(empty, (), nest.order_options(whole))


def _orders(skeleton: Skeleton, below: tuple[HeldTensor, ...], options: OrderOptions) -> Iterator[Skeleton]:
    """Extend a skeleton from the innermost node out. A gap's slots do not depend on the order of the nodes above it."""
    if len(below) == len(skeleton.holders):
        yield skeleton
    for holder, after in skeleton.nest.followers(frozenset(below), options, skeleton.stretch):
        above = [h for h in skeleton.stretch.holders if h not in below and h != holder]
        extended = replace(skeleton, holders=(*above, holder, *below))
        if not _superfluous(extended, len(above)):
            yield from _orders(extended, (holder, *below), after)


def _superfluous(skeleton: Skeleton, place: int) -> bool:
    """[A] [B] → [B] [A]   where no loop can stand between the two, and B's reservation passes nothing below it.

    The other order has the same nests, with reservations that pass at least as much. Of the two, the one that lists
    the holders by level and tensor stays.
    """
    if place + 1 >= len(skeleton.holders):
        return False
    outer, inner = skeleton.holders[place : place + 2]
    if outer < inner or skeleton.nest.must_stand_above(outer, inner, skeleton.stretch):
        return False
    if outer.memory == inner.memory and skeleton.stretch.sets[outer.memory].tensor_order_options:
        return False
    if any((outer.memory < level) != (inner.memory < level) for level, _ in skeleton.dimensions):
        return False
    bounds = skeleton.path.einsum.bounds
    if any(skeleton.gap_slots(v, place + 1) for v in bounds):
        return False
    relevant = skeleton.nest.relevant[inner.tensor]
    return skeleton.is_backing(inner) or not any(Slot(place + 2) in skeleton.gap_slots(v, place + 2) for v in relevant)


def lowerings(
    skeleton: Skeleton, slots: Mapping[str, tuple[Slot, ...]], per_variable: int
) -> Iterator[dict[int, frozenset[str]]]:
    """Per storage node, the variables whose loop right below it its reservation passes.

    Fully relevant ones come first, then at most one partially relevant one. In an unfused gap all fully relevant ones
    stand first; a fused gap's order is part of the compatibility.
    """
    options: list[list[frozenset[str]]] = []
    for place, holder in enumerate(skeleton.holders):
        below = [v for v in slots if Slot(place + 1) in slots[v]]
        full = [v for v in below if v in skeleton.nest.full[holder.tensor]]
        partial = [v for v in below if v in skeleton.nest.partial[holder.tensor]]
        limited = math.isfinite(skeleton.path.components[holder.memory].size)
        if skeleton.is_backing(holder) or not limited:
            options.append([frozenset()])
        elif place + 1 > skeleton.last_fused:
            options.append([frozenset([*full, v]) for v in partial] or [frozenset(full)])
        else:
            alone = per_variable == 1 and place not in skeleton.dimension_gaps
            moved = alone and skeleton.sinks_among_fused(place)
            masks = sinkings(_mask(full, below), _mask(partial, below), staying=0 if moved else _mask(full, below))
            options.append([frozenset(v for i, v in enumerate(below) if mask >> i & 1) for mask in masks])
    for chosen in itertools.product(*options):
        passed = dict(enumerate(chosen))
        fused = Counter(v for place in range(skeleton.last_fused) for v in passed[place])
        if all(count <= per_variable for count in fused.values()):
            yield passed


def check_supported(nest: Nest, placement: Placement) -> None:
    """Fused Spatial loops stand above what is exchanged below them, as long as memories stand in hierarchy order and
    the outermost memory is above all fanouts."""
    path, components = nest.path, nest.path.components
    fanout = next((i for i, c in enumerate(components) if c.dimensions), len(components))
    ordered = all(sets is None or sets.force_memory_hierarchy_order for sets in placement.sets)
    outermost = path.memories[0]
    for tensor in path.einsum.accesses:
        backing = placement.holders(tensor, path)[0]
        if tensor in nest.shared and backing >= fanout and (not ordered or outermost >= fanout):
            why = "as is every memory" if outermost >= fanout else "while force_memory_hierarchy_order is off"
            raise SpecError(
                f"shared tensor {tensor} of Einsum {path.einsum.name} may be backed in {components[backing].name}, "
                f"below a fanout, {why}: not supported yet"
            )


def all_sunk(skeleton: Skeleton, ways: Sequence[Mapping[int, frozenset[str]]]) -> dict[int, frozenset[str]]:
    """The sinking that lowers space most: below fused loops, through every loop that any of these ways sinks through.

    No nest needs less space.
    """
    fused = skeleton.last_fused
    return {
        place: passed if place < fused else passed.union(*(other[place] for other in ways))
        for place, passed in ways[0].items()
    }


def _mask(chosen: Iterable[str], variables: Sequence[str]) -> int:
    return sum(1 << variables.index(v) for v in chosen)
