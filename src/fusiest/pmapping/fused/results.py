"""Results of a search over tile shapes, as pieces of a table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fusiest.pmapping.fused.by_compatibility import Ancestry, Gathered
from fusiest.pmapping.fused.fused_tiles import FusedTiles
from fusiest.pmapping.fused.grow import FusedPart, persistent_bits, top_bits
from fusiest.pmapping.lattice.states import Key
from fusiest.pmapping.lattice.tile_search import Lattice
from fusiest.pmapping.lattice.traceback import SearchOrigin, make_trace
from fusiest.pmapping.pareto import Ints
from fusiest.pmapping.reuse.symbolic_throughput import closed_costs, open_costs
from fusiest.pmapping.table import Backing, Compatibility, FusedLimits, Rows, TablePiece, make_compatibility


def searched(search: Lattice, memories: tuple[int, ...], limits: FusedLimits, counted: bool) -> Iterator[TablePiece]:
    """Rows of a search that has run, with their origins. `counted`: keep all candidates, also dominated ones."""
    groups: dict[object, Gathered] = {}
    tiles = FusedTiles(search.problem, limits, _seed_shapes(search))
    for seed in search.seeds:
        for outer in sorted(seed.key.outers):
            FusedPart(search, seed, outer, memories, tiles).gather(groups, prune=not counted)
    first = np.cumsum([0, *(len(layer.shape) for layer in search.layers)])
    needed = np.zeros(first[-1], np.bool_)
    taken = [(gathered, *gathered.taken(first, len(memories), prune=not counted)) for gathered in groups.values()]
    for _, rows, _ in taken:
        needed[rows.row] = True
    for _, layer in search.finals:
        needed[first[layer] : first[layer + 1]] = True
    trace, numbers = make_trace(search.nest, search.fanouts, search.layers, first, needed)
    for key, layer in search.finals:
        compatibility, rows = _unfused(search, key, layer, memories)
        lifted = key.on_top & search.space.lifted
        ancestry = Ancestry(key.on_top - lifted, tuple((holder, frozenset()) for holder in sorted(lifted)))
        good = search.pruning.final(rows.energy, rows.latency)
        if good is not None:
            rows = rows.take(np.flatnonzero(good))
        yield TablePiece(compatibility, rows, [SearchOrigin(trace, layer, ancestry)], len(rows))
    for gathered, rows, ends in taken:
        rows.row[:] = numbers[rows.row]
        origins = [SearchOrigin(trace, layer, ancestry) for layer, ancestry in ends]
        yield TablePiece(gathered.compatibility, rows, origins, gathered.explored, is_pruned=not counted)


def _seed_shapes(search: Lattice) -> dict[int, Ints]:
    """Per tensor, the tile shapes at its seeds, in order."""
    by_tensor: dict[int, list[Ints]] = {}
    for seed in search.seeds:
        by_tensor.setdefault(seed.holder.tensor, []).append(search.layers[seed.layer].shape)
    return {tensor: np.unique(np.concatenate(shapes)) for tensor, shapes in by_tensor.items()}


def _unfused(search: Lattice, key: Key, number: int, memories: tuple[int, ...]) -> tuple[Compatibility, Rows]:
    """Rows without fused loops: all shared tensors are exchanged in the outermost memory."""
    layer, p = search.layers[number], search.problem
    exchanged = (h for h in key.on_top if search.nest.is_shared(h.tensor))
    form = make_compatibility((), [Backing(p.tensors[t].name, p.path.components[m].name, 0) for m, t in exchanged], ())
    watts = search.watts(key.used)
    energy, latency = closed_costs(search, layer.criteria, watts)
    calls = open_costs(search, layer.criteria, watts)
    count = len(energy)
    bits = np.zeros((count, len(memories), 1))
    bits[:, :, 0] = top_bits(search, memories, key.on_top)
    for i, memory in enumerate(memories):
        column = search.columns.bits_column(memory)
        if column is not None:
            bits[:, i, 0] += layer.criteria[:, column]
    persistent = np.tile(persistent_bits(search, memories, key.on_top, shared=False), (count, 1))
    empty = np.empty((count, 0), np.int64)
    return form, Rows(empty, energy, latency, bits, np.zeros(count, np.int64), np.arange(count), persistent, calls)
