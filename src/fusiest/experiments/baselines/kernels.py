"""Compiled steps that all baselines share: random numbers, the cost of a choice, random choices, repair.

`genes` holds one row number per Einsum. `s` is a `space.Space`; `w` a `Work`, the arrays that one run writes to.
"""

# mypy: disallow-untyped-defs=False
# Numba finds the types of compiled code.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fusiest.experiments.baselines.compiled_baselines import find, inlined, kernel

VALID, INCOMPATIBLE, TOO_LARGE = 0, 1, 2
PLACEMENT, LOOPS, INSIDE = 0, 1, 2
"""What a move changes of an Einsum: memories of shared tensors, the loops around them, or what no neighbour sees."""

_A, _B, _C = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_DRAWS = 64
UNKNOWN = -1
"""A group that is charged again at every mapping."""

INDEX_BITS, EARLY = 7, 64
"""Rows are looked up by Einsum, by which of their interfaces are given (a bit for each slot; or EARLY: those of tensors that
earlier Einsums use, and the form), and by the values of these."""


class Work(NamedTuple):
    """Random state and scratch arrays of one run."""

    random: npt.NDArray[np.uint64]
    reserved: npt.NDArray[np.float64]
    beside: npt.NDArray[np.float64]
    reserved_before: npt.NDArray[np.float64]
    beside_before: npt.NDArray[np.float64]
    leaf: npt.NDArray[np.float64]
    persistent: npt.NDArray[np.float64]
    tiles: npt.NDArray[np.int64]
    tiles_before: npt.NDArray[np.int64]
    settled: npt.NDArray[np.int64]
    order: npt.NDArray[np.int64]
    """All Einsums."""
    ranges: npt.NDArray[np.int64]
    cost: npt.NDArray[np.float64]
    """Energy and latency of the last compatible choice."""


def make_work(seed: int, einsums: int, memories: int, zones: int, columns: int, tensors: int, choices: int) -> Work:
    """`seed` may be any whole number; then the largest numbers of each in the space."""
    space = memories, zones + 2
    return Work(
        random=np.array([seed % (1 << 64)], np.uint64),
        reserved=np.zeros(space), beside=np.zeros(space), reserved_before=np.zeros(space), beside_before=np.zeros(space),
        leaf=np.zeros(memories), persistent=np.zeros(memories),
        tiles=np.zeros(columns + 1, np.int64), tiles_before=np.zeros(columns + 1, np.int64),
        settled=np.zeros(tensors + 1, np.int64), order=np.arange(einsums), ranges=np.zeros((choices, 2), np.int64), cost=np.zeros(2),
    )  # fmt: skip


@inlined
def mix(key, value):
    """A key for `key` and one more value (the finalizer of SplitMix64)."""
    z = (key ^ value) + _A
    z = (z ^ (z >> _30)) * _B
    z = (z ^ (z >> _27)) * _C
    return z ^ (z >> _31)


@inlined
def uniform(w):
    """A random number from 0 up to 1 (SplitMix64)."""
    number = mix(w.random[0], np.uint64(0))
    w.random[0] += _A
    return (number >> _11) * (1.0 / (1 << 53))


@inlined
def below(w, n):
    """A random whole number from 0 to n - 1."""
    return min(int(uniform(w) * n), n - 1)


@inlined
def edge_for(s, e, state, row, tiles):
    """The edge that joins a row of Einsum e to an open form with these open tiles; -1 if it does not fit."""
    edge = s.edge_of[s.edge_start[e] + state * s.forms[e] + s.form[row]]
    while edge >= 0:
        fits = True
        for i in range(0, s.matched[edge, 0], 2):
            if tiles[s.matched[edge, i + 1]] != s.tiles[row, s.matched[edge, i + 2]]:
                fits = False
                break
        if fits:
            return edge
        edge = s.next_way[edge]
    return -1


@inlined
def open_tiles(s, w, edge, row):
    """Tiles of the loops that stay open after an edge."""
    for c in range(s.open_tiles[edge, 0]):
        w.tiles_before[c] = s.tiles[row, s.open_tiles[edge, c + 1]]
    for c in range(s.open_tiles[edge, 0]):
        w.tiles[c] = w.tiles_before[c]


@kernel
def evaluate(s, w, genes):
    """Join the chosen rows one after the other, as `joining.kernels.joined_rows` does; costs go to `w.cost`.

    Rows that do not fit together are INCOMPATIBLE, however much space they need.
    """
    memories = len(s.sizes)
    state = 0
    fits = True
    energy = latency = 0.0
    for m in range(memories):
        w.beside[m, 0] = 0.0
        w.persistent[m] = 0.0
    for e in range(len(s.forms)):
        row = genes[e]
        edge = edge_for(s, e, state, row, w.tiles)
        if edge < 0:
            return INCOMPATIBLE
        energy += s.energy[row]
        latency += s.latency[row]
        fits = fits and _reserve(s, w, edge, row, memories)
        open_tiles(s, w, edge, row)
        state = s.after[edge]
    w.cost[0] = energy
    w.cost[1] = latency
    return VALID if fits else TOO_LARGE


@inlined
def _reserve(s, w, edge, row, memories):
    """Take space for one more Einsum; whether all memories can give it."""
    zones, still_open = s.zones[edge, 0], s.zones[edge, 1]
    outside, inside = s.open_boundaries[edge, 0], s.einsum_boundaries[edge, 0]
    for m in range(memories):
        for z in range(outside):
            w.reserved_before[m, z] = w.reserved[m, z]
            w.beside_before[m, z] = w.beside[m, z]
        for z in range(zones + 1):
            w.reserved[m, z] = 0.0
            w.beside[m, z] = 0.0
        for z in range(outside - 1):
            w.reserved[m, s.open_boundaries[edge, z + 1]] += w.reserved_before[m, z]
        for z in range(outside):
            w.beside[m, s.open_boundaries[edge, z + 1]] = w.beside_before[m, z]
        for z in range(inside - 1):
            w.reserved[m, s.einsum_boundaries[edge, z + 1]] += s.bits[row, m, z]
        w.leaf[m] = s.bits[row, m, inside - 1]
        w.persistent[m] += s.persistent[row, m]
    for charge in range(s.charge_start[edge], s.charge_start[edge + 1]):
        m, zone, bits = s.charge_memory[charge], s.charge_at[charge], s.charged[s.charge_bits[charge] + s.in_form[row]]
        if zone < 0:
            w.persistent[m] += bits
        elif zone == zones:
            w.leaf[m] += bits
        else:
            w.reserved[m, zone] += bits
    for m in range(memories):
        w.beside[m, zones] = max(w.beside[m, zones], w.leaf[m])
        total = w.beside[m, zones]
        for z in range(zones - 1, -1, -1):
            total = max(w.beside[m, z], w.reserved[m, z] + total)
            if z >= still_open:
                w.beside[m, z] = total
        if total + w.persistent[m] > s.sizes[m]:
            return False
    return True


@inlined
def _settle(s, w, e, row):
    for i in range(s.slots[e]):
        w.settled[s.tensors[e, i]] = s.interface[row, i]


@kernel
def sample(s, w, genes):
    """Random genes that fit together: Einsum by Einsum, any row that fits is as likely. False in a dead end."""
    state = 0
    w.settled[:] = -1
    for e in range(len(s.forms)):
        edge = row = -1
        for _ in range(_DRAWS):  # open loops above tensors that Einsum e does not use may ask for other tiles
            row = _fitting_row(s, w, e, state)
            if row < 0:
                return False
            edge = edge_for(s, e, state, row, w.tiles)
            if edge >= 0:
                break
        if edge < 0:
            return False
        genes[e] = row
        _settle(s, w, e, row)
        open_tiles(s, w, edge, row)
        state = s.after[edge]
    return True


@inlined
def _fitting_row(s, w, e, state):
    """A random row of the forms that can follow, with the interfaces that are settled; -1 if there is none."""
    first = s.choice_start[s.choice_first[e] + state]
    count = s.choice_start[s.choice_first[e] + state + 1] - first
    total = 0
    for k in range(count):
        key = mix(mix(np.uint64(0), np.uint64(e << INDEX_BITS | EARLY)), np.uint64(s.choices[first + k]))
        for i in range(s.slots[e]):
            if s.early[e] >> i & 1:
                key = mix(key, np.uint64(w.settled[s.tensors[e, i]]))
        w.ranges[k, 0], w.ranges[k, 1] = find(s.lookup, key)
        total += w.ranges[k, 1] - w.ranges[k, 0]
    if total == 0:
        return -1
    number = below(w, total)
    for k in range(count):
        length = w.ranges[k, 1] - w.ranges[k, 0]
        if number < length:
            return s.by_key[w.ranges[k, 0] + number]
        number -= length
    return -1


@kernel
def repair(s, w, order, genes):
    """Change genes so that users of each tensor agree. The first Einsum of `order` stays as it is, later ones give way.

    An Einsum that has to change keeps as many of its other interfaces as it can.
    """
    w.settled[:] = -1
    for e in order:
        must = 0
        agrees = True
        for i in range(s.slots[e]):
            interface = w.settled[s.tensors[e, i]]
            if interface >= 0:
                must |= 1 << i
                agrees = agrees and interface == s.interface[genes[e], i]
        if not agrees:
            row = _equivalent(s, w, e, genes[e], must)
            if row < 0:
                return False
            genes[e] = row
        _settle(s, w, e, genes[e])
    return True


@kernel
def _equivalent(s, w, e, old, must):
    """A row with the settled interfaces (`must`, by slot), and as many of the old row's others as possible."""
    for subset in s.subsets:
        if subset >= 1 << s.slots[e] or subset & must != must:
            continue
        key = mix(np.uint64(0), np.uint64(e << INDEX_BITS | subset))
        for i in range(s.slots[e]):
            if subset >> i & 1:
                interface = w.settled[s.tensors[e, i]] if must >> i & 1 else s.interface[old, i]
                key = mix(key, np.uint64(interface))
        row = _any_row(s, w, key)
        if row >= 0:
            return row
    return -1


@inlined
def _any_row(s, w, key):
    """A random one of the rows that have this key; -1 if there is none."""
    first, last = find(s.lookup, key)
    return s.by_key[first + below(w, last - first)] if last > first else -1


@kernel
def change(s, w, genes):
    """Change one Einsum at random (its placement, its loops, or only its inside), then its neighbours to fit."""
    e = below(w, len(s.forms))
    kind = below(w, 3)
    row = genes[e]
    if kind == INSIDE:
        key = mix(np.uint64(0), np.uint64(e << INDEX_BITS | (1 << s.slots[e]) - 1))
        for i in range(s.slots[e]):
            key = mix(key, np.uint64(s.interface[row, i]))
        genes[e] = _any_row(s, w, key)
    else:
        places = s.place_first[e + 1] - s.place_first[e]
        place = s.place[row]
        if kind == PLACEMENT and places > 1:
            place = (place + 1 + below(w, places - 1)) % places
        first = s.place_start[s.place_first[e] + place]
        last = s.place_start[s.place_first[e] + place + 1]
        genes[e] = s.by_place[first + below(w, last - first)]
    return genes[e] != row and repair(s, w, s.spread[e], genes)


@kernel
def price(s, genes, paid, fresh):
    """Evaluations for the groups of pmappings that `paid` does not have yet; for all if `fresh`; at least one."""
    total = 0.0
    for e in range(len(genes)):
        group = s.group[genes[e]]
        if fresh or group != s.group[paid[e]] or group == UNKNOWN:
            total += s.price[genes[e]]
    return max(total, 1.0)
