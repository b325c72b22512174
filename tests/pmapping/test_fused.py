"""The fused part of Y[m, n] = A[m, k] * B[k, n], with what each row costs and takes worked out by hand.

Y is the seed, in GLB. 64 operations take 64 · 3 J. Each needs a value of B from DRAM, 10 J and 1 s, and one of A from GLB, 2 bits
of 1 J. It writes a sum of 2 J to GLB, having read one of 1 J, but for the 16 that are the first.
"""

from __future__ import annotations

import numpy as np
import pytest

from fusiest.pmapping.fused.by_compatibility import Gathered
from fusiest.pmapping.fused.fused_tiles import FusedTiles
from fusiest.pmapping.fused.grow import FusedPart, persistent_bits, top_bits
from fusiest.pmapping.lattice.tile_search import Lattice
from fusiest.pmapping.nest.rules import HeldTensor
from fusiest.pmapping.table import FusedLimits
from tests.pmapping.products import DRAM, GLB, PERSISTENT, PRODUCTS, in_glb, make_search

SEED = 64 * 3 + 64 * 10 + 64 * 2 * 1 + 64 * 2 + (64 - 16) * 1
SEED_SECONDS = 64


def gathered(search: Lattice, held: int = 1) -> list[Gathered]:
    """All fused parts above the seed up to which so many tensors are held: Y alone, or A below it."""
    search.run()
    (seed,) = (seed for seed in search.seeds if len(seed.placed) == held)
    tiles = FusedTiles(search.problem, FusedLimits(), {seed.holder.tensor: search.layers[seed.layer].shape})
    groups: dict[object, Gathered] = {}
    FusedPart(search, seed, 0, (GLB,), tiles).gather(groups, prune=False)
    return list(groups.values())


def rows_of(groups: list[Gathered]) -> dict[tuple[str, str], list[list[float]]]:
    """By the loops of all zones, and by those above A: tiles and criteria of each row."""
    rows: dict[tuple[str, str], list[list[float]]] = {}
    for group in groups:
        for origin, tile_class, fused in group.pieces:
            zones = "|".join("".join(loop.variable for loop in zone) for zone in group.compatibility.zones)
            above = sorted(loop.variable for _, loops in origin.ancestry.above for loop in loops)
            key = zones, "".join(above)
            rows[key] = np.column_stack([tile_class.tiles[fused.tiles], fused.criteria]).tolist()
    return rows


def cost(values: int) -> list[float]:
    """Energy and latency, if so many values of A go to GLB, each 2 bits: DRAM is the slowest, while GLB leaks 0.5 W."""
    seconds = SEED_SECONDS + values * 2
    return [SEED + values * 2 * (10 + 2) + 0.5 * seconds, seconds]


def test_each_structure_with_each_tile_is_a_row() -> None:
    """Tiles of m and n are 1 or 2, or 4 without a loop. Loops over both: A in three places, four tiles each. Over m: A below it. Over
    n: A below it, or above. Without: one."""
    found = rows_of(gathered(make_search("Y | A")))
    assert {key: len(rows) for key, rows in found.items()} == {
        ("mn", ""): 4, ("m|n", "m"): 4, ("mn", "mn"): 4, ("m", "m"): 2, ("n", "n"): 2, ("n", ""): 2, ("", ""): 1,
    }  # fmt: skip


def test_what_rows_cost_and_take() -> None:
    """Above all loops, A is filled once, with 16 values; so it is below m. Below n, too, it is as often as n has tiles.
    Per zone, from the outermost in, running sums of bits: nothing is persistent; A takes 16 values of 2 bits, or 4 for each of m in a
    tile, once its holder is reached. Y, which is exchanged, counts when joining."""
    found = rows_of(gathered(make_search("Y | A")))
    assert sorted(found["mn", ""]) == [[m, n, *cost(16), 0, 32, 32] for m in (1, 2) for n in (1, 2)]
    assert sorted(found["m|n", "m"]) == [[m, n, *cost(16), 0, 0, 8 * m, 8 * m] for m in (1, 2) for n in (1, 2)]
    assert sorted(found["mn", "mn"]) == [[m, n, *cost(16 * 4 // n), 0, 0, 8 * m] for m in (1, 2) for n in (1, 2)]
    assert found["", ""] == [[*cost(16), 0, 32]]


def test_rows_that_do_not_fit_are_left_out() -> None:
    """A and a tile of Y must fit together. A takes 32 bits, and Y 1 for each of its m · n. In 34 bits that leaves tiles of 1 x 1, 1 x 2
    and 2 x 1: none without a loop over m. Below m, A takes 8 or 16, and Y at most 8: all fit."""
    found = rows_of(gathered(make_search("Y | A", 34)))
    assert [row[:2] for row in sorted(found["mn", ""])] == [[1, 1], [1, 2], [2, 1]]
    assert len(found["m|n", "m"]) == len(found["mn", "mn"]) == 4
    assert found.keys() == {("mn", ""), ("m|n", "m"), ("mn", "mn"), ("m", "m")}


def test_what_is_held_below_the_seed_takes_space_below_all_loops() -> None:
    """One value of A, 2 bits, next to the compute: by rule 1 below all loops over m and k. It stays for all of n in a tile, so
    that 16 · 4 / n are filled."""
    search = make_search("Y | A")
    rows = [row for rows in rows_of(gathered(search, held=2)).values() for row in rows if len(row) == 2 + 2 + 3]
    assert sorted(rows) == [[m, n, *cost(16 * 4 // n), 0, 0, 2] for m in (1, 2) for n in (1, 2)]


def test_bits_above_all_loops() -> None:
    """16 values of 2 bits of A, and 16 of B. Y is exchanged, which counts when joining, and what is persistent counts apart."""
    for workload, bits in ((PRODUCTS, 32 + 16), (PERSISTENT, 16)):
        search = make_search("Y | A | B", workload=workload)
        assert top_bits(search, (DRAM, GLB), [in_glb(search, t) for t in "ABY"]).tolist() == [0, bits]


@pytest.mark.parametrize("shared", ["Y", "YA"])
def test_bits_of_persistent_tensors(shared: str) -> None:
    """A alone is persistent: of this Einsum, or shared with others."""
    search = make_search("Y | A", workload=PERSISTENT, shared=frozenset(shared))
    on_top = [HeldTensor(DRAM, search.nest.number[t]) for t in "AB"]
    found = [persistent_bits(search, (GLB, DRAM), on_top, shared=flag).tolist() for flag in (False, True)]
    assert found == ([[0, 0], [0, 32]] if "A" in shared else [[0, 32], [0, 0]])
