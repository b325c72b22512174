"""The least that is still to come, per tile shape of Y[m, n] = A[m, k] * B[k, n], worked out by hand.

A value of A, 2 bits, costs 2 · (10 + 2) J on its way from DRAM to GLB and takes DRAM 2 s; one of B costs 12 J and takes 1 s. Both have
16 values. By rule 1 A stands right above loops over n alone, and B above those over m.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fusiest.pmapping.lattice.move_costs import BUSY, ENERGY
from fusiest.pmapping.lattice.remaining import Cutoff
from fusiest.pmapping.lattice.tile_search import Lattice
from fusiest.pmapping.pareto import Floats
from tests.pmapping.products import WINDOWS, glb_stretch, in_glb, make_search, shape

A, B = 2 * (10 + 2), 10 + 2
"""J per value."""
NEVER, NOTHING = math.inf, frozenset[str]()


def searched(held: str, size: int = 1_000, **options: Any) -> Lattice:
    """A search with a point to beat, so that busy times have columns."""
    return make_search(held, size, cutoff=Cutoff(np.full((1, 2), 1e30)), **options)


def least(search: Lattice, placed: str, last: str | None = None) -> Floats:
    """Shapes × columns, with some holders of GLB placed, and rule 2 for the last of them."""
    holders, one = frozenset(in_glb(search, t) for t in placed), frozenset([0])
    below = in_glb(search, last) if last else None
    return search.pruning.togo.within(glb_stretch(search), one, holders, below, frozenset())


def test_with_all_placed_the_rest_is_free_where_it_may_grow() -> None:
    """Above Y, rule 2 leaves loops over m and n, so k must be whole by then. Where the rule does not apply, anything may grow."""
    search = searched("Y", shared=NOTHING)
    for k, energy in ((1, NEVER), (2, NEVER), (4, 0)):
        assert least(search, "Y", "Y")[shape(search.problem, m=2, n=1, k=k), ENERGY] == energy
    assert (least(search, "Y") == 0).all()


def test_a_tensor_is_held_where_it_fits() -> None:
    """Y, of 1 bit, comes from nowhere, and costs nothing more. k grows below it; m and n need not, but what they have must fit."""
    search = searched("Y", 8, shared=NOTHING)
    for m, n, energy in ((1, 1, 0), (2, 4, 0), (4, 2, 0), (4, 4, NEVER)):
        assert {least(search, "")[shape(search.problem, m=m, n=n, k=k), ENERGY] for k in (1, 4)} == {energy}


def test_a_holder_is_filled_as_rarely_as_it_can_be() -> None:
    """Above A rule 2 leaves no loop over n, so that grows to 4 below it: 16 values are filled, in 2 · 16 s. From whichever shape,
    if it fits: m and k cannot grow below A. 16 bits are 8 values."""
    search = searched("Y | A", 16, shared=NOTHING)
    found, p = least(search, "Y", "Y"), search.problem
    for m, k, fits in ((1, 1, True), (2, 4, True), (4, 2, True), (4, 4, False)):
        for n in (1, 4):
            at = shape(p, m=m, n=n, k=k)
            assert found[at, ENERGY] == (A * 16 if fits else NEVER)
            assert found[at, BUSY] == (32 if fits else NEVER)


def test_the_better_order_of_two_holders() -> None:
    """In 8 bits, each alone: A takes 2 · m · k, B takes n · k. With A below B, n grows to n' below A, and m to 4 between them, above A:
    16 · 4 / n' of A and 16 of B are filled. With B below A, m grows to m' below B, and n to 4 between them: 16 · 4 / m' of B and 16 of A.

    k = 1 or 2: n' = 4 leaves B 8 bits at most. If A fits, both are filled once. k = 4: A fits with m = 1 alone, and B with n' = 2. So
    16 · 2 of A and 16 of B; or, with m' = 1, 16 of A and 16 · 4 of B, which is more in energy and, at 2 s for A and 1 for B, in time.
    """
    search = searched("Y | A | B", 8, shared=NOTHING)
    found, p = least(search, "Y", "Y"), search.problem
    once, again = (16 * A + 16 * B, 16 * 2 + 16), (2 * 16 * A + 16 * B, 2 * 16 * 2 + 16)
    assert again[0] < 16 * A + 4 * 16 * B
    assert again[1] < 16 * 2 + 4 * 16
    expected = {
        (1, 1, 1): once, (4, 4, 1): once, (2, 4, 2): once, (4, 1, 2): (NEVER, NEVER),
        (1, 1, 4): again, (1, 2, 4): again, (1, 4, 4): (NEVER, NEVER), (2, 1, 4): (NEVER, NEVER),
    }  # fmt: skip
    for (m, n, k), costs in expected.items():
        assert tuple(found[shape(p, m=m, n=n, k=k), [ENERGY, BUSY]]) == costs


def test_beyond_an_exchanged_tensor_each_holder_comes_at_its_least() -> None:
    """With m and k whole, A takes 32 bits and does not fit into 16. Above Y, which has to have k whole, too, that is known; unless
    Y is exchanged: fused loops above it may be over m, so that A is at least filled once, and nothing more is said."""
    for shared, energy in ((NOTHING, NEVER), (frozenset("Y"), 16 * A)):
        search = searched("Y | A", 16, shared=shared)
        assert least(search, "")[shape(search.problem, m=4, n=4, k=4), ENERGY] == energy


def test_a_window_fits_if_it_does_below_a_loop_over_a_part_of_it() -> None:
    """Y[m] = A[m + k] * B[k]: A has 2 bits for each of m + k - 1. Its space may be that below a loop over m or k right below it. In 4 bits
    that is so for m = 4, k = 2, where k = 2 is left below a loop over m: all 5 are filled once. In 3 bits one of both must be 1
    at A, and 8 are filled: of F · (4 / m) · (2 / k), F is 1, 2, 4 for k = 1 and 2 for m = 1."""
    for size, narrow, wide in ((4, 5 * A, 5 * A), (3, 8 * A, NEVER)):
        search = searched("Y | A", size, workload=WINDOWS, shared=NOTHING)
        found, p = least(search, "Y", "Y"), search.problem
        assert {found[shape(p, m=m, k=k), ENERGY] for m, k in ((1, 1), (2, 1), (4, 1), (1, 2))} == {narrow}
        assert {found[shape(p, m=m, k=2), ENERGY] for m in (2, 4)} == {wide}
