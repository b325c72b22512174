"""Which rows of the search over tile shapes matter, on rows of Y[m, n] = A[m, k] * B[k, n] whose prospects are worked out by hand.

Columns are energy, how long DRAM and MAC are busy, the time of what is complete, and bits in GLB. If A is still to be placed, that takes
at least 16 values of 2 bits, 10 + 2 J each, and DRAM 1 s for a bit. GLB leaks 0.5 W.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fusiest.pmapping.lattice.layers import Layer
from fusiest.pmapping.lattice.move_costs import ENERGY
from fusiest.pmapping.lattice.pruning import Pruning
from fusiest.pmapping.lattice.remaining import Cutoff
from fusiest.pmapping.lattice.states import Key, Last, Place
from fusiest.pmapping.lattice.tile_search import Lattice
from tests.pmapping.products import DRAM, GLB, glb_stretch, in_glb, make_search, shape

KEY = Key(frozenset([0]), None, (), frozenset(), frozenset())
MAC = 2
ShapedRow = tuple[int, list[float]]
"""A shape and criteria."""


def make_alone(size: int = 1_000, *points: tuple[float, float], shared: str = "") -> Lattice:
    """A search that shares nothing, or Y, with GLB to hold Y and A; there may be costs to beat."""
    cutoff = Cutoff(np.array(points)) if points else None
    return make_search("Y | A", size, shared=frozenset(shared), cutoff=cutoff)


def layer(rows: list[ShapedRow]) -> Layer:
    shapes, zeros = np.array([s for s, _ in rows], np.int64), np.zeros(len(rows), np.int64)
    return Layer("hold", None, shapes, np.array([c for _, c in rows], np.float64).reshape(-1, 5), zeros, zeros, zeros)


def merged(
    search: Lattice, rows: list[ShapedRow], placed: str, pruning: Pruning | None = None, last: str = "Y"
) -> Layer:
    """Rows that matter once some holders are placed; no `last`: the fused part follows."""
    holders = frozenset(in_glb(search, tensor) for tensor in placed)
    place = Last(in_glb(search, last), True) if last else None
    return (pruning or search.pruning).merged([layer(rows)], glb_stretch(search), KEY, holders, place)


# --- busy times ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "busy", "raised"),
    [
        (1, 10, 150 - 2 * 64),  # A is filled with at most 16 · 4 values, if no loop over n is below it
        (4, 10, 150 - 2 * 16),  # and with 16 if all of n is
        (4, 130, 130),  # more than that already
    ],
)
def test_a_component_that_cannot_be_the_slowest_counts_as_busier(n: int, busy: float, raised: float) -> None:
    """What is complete takes 150 s."""
    search = make_alone()
    found = merged(search, [(shape(search.problem, m=1, n=n, k=4), [100, busy, 0, 150, 1])], "Y")
    assert found.criteria.tolist() == [[100, raised, 0, 150, 1]]


def test_with_nothing_to_come_the_busiest_is_all_that_counts() -> None:
    """DRAM is complete, and busier than what was in the first row. The second row then is worse than the third in all."""
    search = make_alone()
    at = shape(search.problem, m=1, n=4, k=4)
    found = merged(search, [(at, [100, 170, 0, 150, 1]), (at, [90, 10, 0, 180, 1]), (at, [90, 175, 0, 160, 1])], "YA")
    assert sorted(found.criteria.tolist()) == [[90, 0, 0, 175, 1], [100, 0, 0, 170, 1]]


def test_components_further_in_are_settled() -> None:
    """MAC is further in than GLB, DRAM is not."""
    pruning, criteria = make_alone().pruning, np.array([[1.0, 70, 60, 50, 0], [1, 70, 40, 50, 0]])
    pruning.settle(criteria, GLB)
    assert criteria.tolist() == [[1, 70, 0, 60, 0], [1, 70, 0, 50, 0]]
    pruning.settle(criteria, DRAM)
    assert criteria.tolist() == [[1, 0, 0, 70, 0]] * 2


# --- what is known ------------------------------------------------------------------------------------------------------

ENERGY_TO_BEAT, SECONDS_TO_BEAT = 1000 + 16 * 2 * 12 + 0.5 * 96, 64 + 16 * 2


@pytest.mark.parametrize("last", ["Y", ""])
@pytest.mark.parametrize(("more", "kept"), [((-0.1, -0.1), 0), ((1, 0), 1), ((0, 1), 1), ((-1, -1), 0), ((-1, 1), 1)])
def test_a_row_must_be_able_to_beat_what_is_known(more: tuple[float, float], kept: int, last: str) -> None:
    """1,000 J and 64 s of DRAM have been paid, A is to come: at least 1,432 J and 96 s in all. It has to be less in one of both."""
    energy, seconds = more
    to_beat = ENERGY_TO_BEAT + energy, SECONDS_TO_BEAT + seconds
    search = make_alone(1_000, to_beat, shared="" if last else "Y")
    rows: list[ShapedRow] = [(shape(search.problem, m=1, n=4, k=4), [1000, 64, 0, 64, 1])]
    assert len(merged(search, rows, "Y", last=last).shape) == kept


def test_a_row_that_leads_nowhere_goes() -> None:
    """A does not fit into 16 bits with m and k whole. If the fused part follows, with loops over m above, it may."""
    search, fused = make_alone(16, (1e9, 1e9)), make_alone(16, (1e9, 1e9), shared="Y")
    rows: list[ShapedRow] = [(shape(search.problem, m=m, n=4, k=4), [1000, 64, 0, 64, 1]) for m in (2, 4)]
    assert merged(search, rows, "Y").shape.tolist() == [rows[0][0]]
    assert len(merged(fused, rows, "Y", last="").shape) == 2


def test_what_crossing_a_fanout_is_told() -> None:
    """From one operation on, A is still to be filled once; leakage and the number of instances; costs to beat."""
    search = make_alone(1_000, (500.0, 100.0))
    beaten = search.pruning.beaten(MAC, KEY)
    assert beaten is not None
    assert beaten.bar.togo[shape(search.problem, m=1, n=1, k=1), ENERGY] == 16 * 2 * 12
    assert beaten.bar.goal.scale.tolist() == [0.5, 1]
    assert beaten.bar.goal.points == pytest.approx(np.array([[500, 100]]))
    assert make_alone().pruning.beaten(MAC, KEY) is None


# --- a quick look -------------------------------------------------------------------------------------------------------

LOOKED_AT = [(300.0, 5.0), (100.0, 10.0), (45.0, 29.0), (40.0, 30.0), (10.0, 100.0)]
"""Joules and seconds. With 0.5 J more for each second: the first is the fastest; the second has the least product, 105 · 10; the
fourth the least energy, 55 J, before the third, 59.5 J, and the last, 60 J."""


@pytest.mark.parametrize(("beam", "kept"), [(3, [0, 1, 3]), (4, [0, 1, 3]), (5, [0, 1, 2, 3, 4])])
def test_a_quick_look_takes_the_best_by_each_measure(beam: int, kept: list[int]) -> None:
    search = make_alone()
    at = shape(search.problem, m=4, n=4, k=4)
    rows: list[ShapedRow] = [(at, [energy, 0, 0, seconds, 1]) for energy, seconds in LOOKED_AT]
    found = merged(search, rows, "YA", replace(search.pruning, beam=beam))
    assert sorted(map(tuple, found.criteria[:, [0, 3]].tolist())) == sorted(LOOKED_AT[i] for i in kept)
    assert found.promise == 105 * 10


def test_in_haste_only_the_most_promising_state_goes_on() -> None:
    search = make_alone()
    one: ShapedRow = (0, [1.0, 0, 0, 0, 0])
    first, second, empty = (Place(frozenset([in_glb(search, t)]), None, ()) for t in "AYB")
    reached = {first: layer([one]), second: layer([one]), empty: layer([])}
    reached[first].promise, reached[second].promise, reached[empty].promise = 7.0, 5.0, 1.0
    assert search.pruning.going_on(reached).keys() == {first, second}
    assert replace(search.pruning, hasty=True).going_on(reached).keys() == {second}
