"""Bounds from seam to seam, by hand: A and B come before the seam, where T alone is live, C after it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fusiest.base.objective import IMPOSSIBLE, Least
from fusiest.joining.bounds.cuts import Seam, SeamBounds, SeamStretch, buckets
from fusiest.joining.bounds.relaxed import LowerBounds
from fusiest.joining.meeting.compatibility import OpenCompatibility, OpenLoop, TensorCompatibility, TensorCrossing
from fusiest.joining.rows.consolidation import BUCKETS, Room, start_rows
from fusiest.pmapping.table import Backing
from fusiest.spec.workload.analysis import Stepping

STEP = Stepping("M", 1, 0)
WHOLE, BY_ROW = TensorCompatibility("GLB", frozenset()), TensorCompatibility("GLB", frozenset({STEP}))
CHEAP, DEAR = Least(1.0, 2.0, 3.0), Least(4.0, 5.0, 6.0)
ROWS = TensorCrossing("GLB", (frozenset({STEP}),))
ROOM = Room(("GLB",), np.array([80.0]), np.array([True]))
SEAM = Seam(frozenset("AB"), "T", ROOM, {WHOLE: CHEAP, BY_ROW: CHEAP}, {ROWS: [CHEAP] * (BUCKETS - 1) + [DEAR]})


def test_what_comes_after_a_seam_depends_on_the_space_that_is_taken() -> None:
    assert SEAM.after(ROWS, 0) == CHEAP
    assert SEAM.after(ROWS, BUCKETS - 1) == DEAR
    assert SEAM.after(TensorCrossing("GLB", ()), BUCKETS - 1) == CHEAP  # only the relaxed bound is known
    assert SEAM.after(TensorCrossing("DRAM", ()), 0) == IMPOSSIBLE  # no one can take it from there


def test_taken_space_is_counted_in_eighths_of_the_memory() -> None:
    """Of 80 bits, 9 above the loop and 21 between loop and tensor are 3 eighths and some; 80 are the last eighth."""
    loop = OpenLoop(frozenset({("T", STEP)}), 4)
    compatibility = OpenCompatibility(((loop,),), (Backing("T", "GLB", 1),))
    rows = replace(start_rows(1, 3, 2), reserved=np.array([[[9.0, 21.0]], [[0.0, 0.0]], [[40.0, 40.0]]]))
    assert buckets(compatibility, rows, ROOM).tolist() == [3, 0, BUCKETS - 1]
    assert buckets(OpenCompatibility((), (Backing("T", "GLB", 0),)), rows, ROOM).tolist() == [
        0,
        0,
        0,
    ]  # nothing is open


def test_each_stretch_has_its_bounds() -> None:
    """Before the seam its own, at the seam the seam's, and where two stretches are begun those of the whole."""
    whole, first, second = (object.__new__(LowerBounds) for _ in range(3))
    bounds = SeamBounds(whole, [SeamStretch(None, frozenset("AB"), first), SeamStretch(SEAM, frozenset("CD"), second)])
    assert bounds.least(frozenset("AB"), (("T", BY_ROW),)) == CHEAP
    assert bounds.least(frozenset("AB"), (("T", TensorCompatibility("DRAM", frozenset())),)) == IMPOSSIBLE
    assert bounds._bounds_at(frozenset("A")) is first
    assert bounds._bounds_at(frozenset("ABC")) is second
