"""Compatibility of fused loops and of storage nodes between them, for both solvers. Sets of loops are bit masks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from fusiest.pmapping.fused.structures import Above, LoopSet
from fusiest.pmapping.nest.rules import Nest
from fusiest.pmapping.table import Backing, Compatibility, FusedLoop, Holding, make_compatibility


def zone_chain(held: Iterable[Above], full: Sequence[LoopSet], others: Iterable[LoopSet] = ()) -> tuple[LoopSet, ...]:
    """Sets of loops between which fusion levels lie, outwards in.

    These are the loops above storage nodes, and those above their space, which passes the loops that index a tensor
    fully (`full`, per tensor) before another one. `others`: further sets.
    """
    levels = {0, *others}  # a holder between loops fixes which are above it, whatever its memory's size
    for holder, loops, space in held:
        levels |= {loops, loops | (space & full[holder.tensor]), space}
    return tuple(sorted(levels, key=int.bit_count))


def fused_form(
    nest: Nest,
    loops: Sequence[FusedLoop],
    chain: Sequence[LoopSet],
    exchanged: Iterable[Above],
    others: Iterable[Above],
) -> Compatibility:
    """Make the compatibility of a nest. `exchanged`: storage nodes in which Einsums exchange tensors.

    `others`: further nodes of such tensors, between loops.
    """
    names, components = nest.names, nest.path.components
    depth = {above: z for z, above in enumerate(chain)}
    pairs = itertools.pairwise(chain)
    zones = [tuple(sorted(loop for i, loop in enumerate(loops) if (inner ^ outer) >> i & 1)) for outer, inner in pairs]
    backings = [Backing(names[t], components[m].name, depth[space]) for (m, t), _, space in exchanged]
    holdings = [Holding(names[t], components[m].name, depth[above], depth[space]) for (m, t), above, space in others]
    return make_compatibility(zones, backings, holdings)
