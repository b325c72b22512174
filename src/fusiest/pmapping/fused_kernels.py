"""The compiled kernel of the fused part: what holders above the seed add to its rows."""

# mypy: allow-untyped-defs

from __future__ import annotations

import numpy as np

from fusiest.compiled import compiled


@compiled()
def assemble(rows, tiles, base, space, amounts, shapes, holders, prices, reserved, room, fixed, scale, out):
    """Rows of one structure of the fused part: costs and space of the holders above the seed, added to the seed's rows.

    rows: of the seed; tiles: the number of the tiles of each. base: per row of the seed and criterion (energy, busy times,
    time); space: per row of the seed and memory, bits inside all fused loops. amounts: per tensor traffic, first pass and
    footprint at each shape. shapes: per point between loops and number of tiles, the shape there. holders: per holder its
    number, its tensor, and the points where it stands and where its space is; prices: per number, per value of traffic and
    of first pass. reserved: per holder its memory, the zones that its space is below (or -1: it counts when joining), and
    its bits per value. room: per memory what it can hold. fixed: per memory, bits that are taken throughout, and bits above
    all fused loops. scale: watts of leakage, number of instances.

    Writes energy, latency, and per memory running sums of bits down to each zone; returns which rows fit.
    """
    columns, count, memories = base.shape[1], len(rows), len(room)
    zones = (out.shape[1] - 2) // memories - 1 if memories else 0
    fits = np.empty(count, np.int64)
    used = 0
    cost = np.empty(columns)
    bits = np.empty(len(holders))
    for i in range(count):
        row, tile = rows[i], tiles[i]
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
            number, tensor, shape = holders[h, 0], holders[h, 1], shapes[holders[h, 2], tile]
            traffic, first = amounts[tensor, 0, shape], amounts[tensor, 1, shape]
            for c in range(columns - 1):
                cost[c] += traffic * prices[number, 0, c] + first * prices[number, 1, c]
        latency = 0.0
        for c in range(1, columns):
            latency = max(latency, cost[c])
        out[used, 0] = (cost[0] + scale[0] * latency) * scale[1]
        out[used, 1] = latency * scale[1]
        for m in range(memories):
            at = 2 + m * (zones + 1)
            running = fixed[m, 0]
            out[used, at] = running
            running += fixed[m, 1]
            for z in range(zones):
                for h in range(len(holders)):
                    if reserved[h, 0] == m and reserved[h, 1] == z:
                        running += bits[h]
                if z == zones - 1:
                    running += space[row, m]
                out[used, at + 1 + z] = running
        fits[used] = i
        used += 1
    return fits[:used].copy()
