"""The compiled kernel of the fused part: it adds the costs of nodes above the seed to its rows."""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fusiest.base.compiled import compiled

if TYPE_CHECKING:
    from fusiest.pmapping.pareto import Floats, Ints


class SeedRows(NamedTuple):
    """Rows of a seed: row i has all tiles from first[number[i]] to first[number[i] + 1]."""

    number: Ints
    first: Ints
    base: Floats
    """Per row and criterion: energy, busy times, time."""
    space: Floats
    """Per row and memory, bits inside all fused loops."""


class HoldersAbove(NamedTuple):
    """Storage nodes above a seed, as arrays."""

    amounts: Floats
    """Per tensor, traffic, first pass and footprint at each shape."""
    shapes: Ints
    """Per point between loops and tiles, the shape there."""
    holders: Ints
    """Per node its number, its tensor, and the points where it stands and where its space is."""
    prices: Floats
    """Per number, the costs per value of traffic and of first pass."""
    reserved: Floats
    """Per node its memory, the fusion levels that its space is below (or -1: it counts when joining), and its bits per
    value."""


@compiled()
def assemble(seed, above, room, fixed, scale, out):
    """Add costs and space of the nodes above the seed to the seed's rows, for one structure of the fused part.

    room: per memory its size for these rows. fixed: per memory, bits that are taken throughout, and bits above all
    fused loops. scale: watts of leakage, number of instances.

    Writes for each row that fits the row of the seed, the tiles, and its criteria: energy, latency, and per memory
    running sums of bits down to each fusion level. Returns the number of such rows.
    """
    number, first, base, space = seed
    amounts, shapes, holders, prices, reserved = above
    rows, tiles, criteria = out
    columns, memories = base.shape[1], len(room)
    zones = (criteria.shape[1] - 2) // memories - 1 if memories else 0
    cost, bits = np.empty(columns), np.empty(len(holders))
    used = 0
    for row in range(len(number)):
        for tile in range(first[number[row]], first[number[row] + 1]):
            for h in range(len(holders)):
                bits[h] = amounts[holders[h, 1], 2, shapes[holders[h, 3], tile]] * reserved[h, 2]
            good = True
            for m in range(memories):
                total = fixed[m, 1] + space[row, m]
                for h in range(len(holders)):
                    if reserved[h, 0] == m:
                        total += bits[h]
                if total > room[m]:
                    good = False
            if not good:
                continue
            for c in range(columns):
                cost[c] = base[row, c]
            for h in range(1, len(holders)):
                price, tensor, shape = holders[h, 0], holders[h, 1], shapes[holders[h, 2], tile]
                traffic, once = amounts[tensor, 0, shape], amounts[tensor, 1, shape]
                for c in range(columns - 1):
                    cost[c] += traffic * prices[price, 0, c] + once * prices[price, 1, c]
            latency = 0.0
            for c in range(1, columns):
                latency = max(latency, cost[c])
            criteria[used, 0] = (cost[0] + scale[0] * latency) * scale[1]
            criteria[used, 1] = latency * scale[1]
            for m in range(memories):
                at = 2 + m * (zones + 1)
                running = fixed[m, 0]
                criteria[used, at] = running
                running += fixed[m, 1]
                for z in range(zones):
                    for h in range(len(holders)):
                        if reserved[h, 0] == m and reserved[h, 1] == z:
                            running += bits[h]
                    if z == zones - 1:
                        running += space[row, m]
                    criteria[used, at + 1 + z] = running
            rows[used], tiles[used] = row, tile
            used += 1
    return used
