"""What structures above Y[m, n] = A[m, k] * B[k, n] come to, worked out by hand: zones, space, tile shapes, what neighbours see.

The fused loops are over m, with tiles of 2, and over n, with tiles of 1 or 2. In sets of loops, m is bit 0 and n is bit 1.
"""

from __future__ import annotations

import numpy as np

from fusiest.pmapping.fused.fused_tiles import TileClass
from fusiest.pmapping.fused.structure_plans import FusedLayout, FusedPlan, bits_per_value
from fusiest.pmapping.lattice.tile_search import Lattice
from fusiest.pmapping.nest.rules import Rules
from fusiest.pmapping.table import Backing, Compatibility, FusedLoop, Holding
from tests.pmapping.products import GLB, in_glb, make_search, shape, situation

M, N = FusedLoop("m"), FusedLoop("n")
NONE, ONLY_M, BOTH = 0b00, 0b01, 0b11
APART = -1
"""In place of a zone: space that is counted when joining."""


def make_plan(search: Lattice) -> FusedPlan:
    """Above a seed of Y, with A to be held further out."""
    tiles = TileClass(search.problem, (M, N), np.array([0, 2]), np.array([[2, 1], [2, 2]]))
    return FusedPlan(situation(search, "A"), in_glb(search, "Y"), (GLB,), tiles)


def below(plan: FusedPlan, *loops: FusedLoop) -> FusedLayout:
    """The layout with A below just these loops."""
    (layout,) = (layout for layout in plan.layouts if layout.above[0][1] == frozenset(loops))
    return layout


def test_a_holder_between_loops_cuts_them_into_zones() -> None:
    """Between them A stands below m: it is never right above m alone, which indexes it. Else there is one zone of both."""
    plan = make_plan(make_search("Y | A"))
    assert len(plan.layouts) == 3
    assert below(plan, M, N).chain == below(plan).chain == (NONE, BOTH)
    assert below(plan, M).chain == (NONE, ONLY_M, BOTH)


def test_tile_shapes_at_holders() -> None:
    """k is whole throughout. At Y, below both loops, 2 of m and 1 or 2 of n; at A, below m, 2 and all 4; on top, all."""
    search = make_search("Y | A")
    plan, p = make_plan(search), search.problem
    seed, a = below(plan, M).holders.tolist()
    assert (seed[:2], a[:2]) == ([0, search.nest.number["Y"]], [1, search.nest.number["A"]])
    assert plan.shapes[seed[2]].tolist() == [shape(p, m=2, n=1, k=4), shape(p, m=2, n=2, k=4)]
    assert plan.shapes[a[2]].tolist() == [shape(p, m=2, n=4, k=4)] * 2
    assert plan.shapes[below(plan).holders[1, 2]].tolist() == [shape(p, m=4, n=4, k=4)] * 2


def test_space_counts_from_its_zone_on() -> None:
    """GLB is memory 0 of those to track. Y, of 1 bit, is exchanged: its space counts when joining. A, of 2 bits, is nobody else's: it
    takes space from below none of the zones on, or one, or, of two loops in one zone, one again."""
    search = make_search("Y | A")
    plan = make_plan(search)
    assert (
        bits_per_value(search.problem, in_glb(search, "A")),
        bits_per_value(search.problem, in_glb(search, "Y")),
    ) == (2, 1)
    for layout, zone in ((below(plan), 0), (below(plan, M), 1), (below(plan, M, N), 1)):
        assert layout.reserved.tolist() == [[0, APART, 1], [0, zone, 2]]


def test_space_that_sinks_is_where_it_sinks_to() -> None:
    """Without rule 1, A may stand above m and n with m right below it, which its space sinks through: it stands in no zone,
    and its space, of 2 x 4 values, in the one below m."""
    search = make_search("Y | A", rules=Rules(sink=False))
    plan = make_plan(search)
    (sunk,) = (layout for layout in plan.layouts if not layout.above[0][1] and layout.chain == (NONE, ONLY_M, BOTH))
    _, _, stands, space = sunk.holders[1].tolist()
    assert plan.shapes[stands].tolist() == [shape(search.problem, m=4, n=4, k=4)] * 2
    assert plan.shapes[space].tolist() == [shape(search.problem, m=2, n=4, k=4)] * 2
    assert sunk.reserved[1].tolist() == [0, 1, 2]


def test_what_neighbours_see() -> None:
    """Zones from the outermost in, and where Y is exchanged. A is nobody else's."""
    plan = make_plan(make_search("Y | A"))
    assert plan.compatibility(below(plan), ()) == Compatibility(((M, N),), (Backing("Y", "GLB", 1),))
    assert plan.compatibility(below(plan, M), ()) == Compatibility(((M,), (N,)), (Backing("Y", "GLB", 2),))


def test_neighbours_see_other_holders_of_what_they_share_above_a_fused_loop() -> None:
    """If another Einsum used A, too, it could share what GLB holds of it; but not below all fused loops, where each has its own."""
    search = make_search("Y | A", shared=frozenset("YA"))
    plan = make_plan(search)
    y = Backing("Y", "GLB", 2)
    assert plan.compatibility(below(plan, M), ()) == Compatibility(((M,), (N,)), (y,), (Holding("A", "GLB", 1, 1),))
    assert below(plan, M).reserved[:, 1].tolist() == [APART, APART]
    assert plan.compatibility(below(plan, M, N), ()).holdings == ()
    assert below(plan, M, N).reserved[:, 1].tolist() == [APART, 1]


def test_tiles_obey_constraints_at_the_outermost_holder_of_a_memory() -> None:
    """`n <= 1` in GLB, whose outermost holder is A: tiles there have 1 or 2 of n if A is below its loop, else all 4. Such a
    constraint switches rule 1 off, so A stands below each set of loops, above both of them with space that sinks or does not."""
    search = make_search("Y | A", constraints=", tile_shape: [{expression: n, operator: '<=', value: 1}]")
    met = [(layout.above[0][1], layout.met) for layout in make_plan(search).layouts]
    assert len(met) == 5
    for above, found in met:
        assert found is not None
        assert found.tolist() == ([True, False] if N in above else [False, False])
    assert below(make_plan(make_search("Y | A")), M).met is None
