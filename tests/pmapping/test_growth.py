"""All ways to put a holder above a row of the search over tile shapes, listed by hand.

A holder of A costs 1 J for each value filled, and takes 1 bit for each value of its space. It is put above one operation.
"""

from __future__ import annotations

import numpy as np
import pytest

from fusiest.pmapping.lattice.growth import Growth, Put
from fusiest.pmapping.lattice.layers import Layer
from fusiest.pmapping.lattice.tile_problem import FOOTPRINT, TRAFFIC, Problem
from fusiest.pmapping.nest.rules import HeldTensor
from tests.pmapping.products import GLB, PRODUCTS, WINDOWS, make_search, shape

ENERGY, BITS = 0, 1
ListedRows = list[tuple[tuple[int, ...], float, float]]
"""Extents (m, n and k, or m and k), energy and bits of each row."""


def make_growth(workload: str = WINDOWS, **extents: int) -> Growth:
    """With one row, at these extents and 1 of all other variables, which has cost 100 J and taken 10 bits."""
    problem = make_search("Y | A", workload=workload).problem
    ones = {variable.members[0]: 1 for variable in problem.variables}
    one, zero = np.array([shape(problem, **(ones | extents))]), np.zeros(1, np.int64)
    return Growth(problem, [Layer("begin", None, one, np.array([[100.0, 10.0]]), zero - 1, zero, zero - 1)])


def make_put(problem: Problem, growing: str, most: float = 1_000.0) -> Put:
    weights = np.zeros((3, 2))
    weights[TRAFFIC, ENERGY] = weights[FOOTPRINT, BITS] = 1
    limits, numbers = np.array([np.inf, most]), variables(problem, growing)
    a = next(t for t, tensor in enumerate(problem.tensors) if tensor.name == "A")
    return Put(HeldTensor(GLB, a), weights, limits, numbers, frozenset(), None, True, ())


def variables(problem: Problem, members: str) -> frozenset[int]:
    return frozenset(v for v, variable in enumerate(problem.variables) if variable.members[0] in members)


def rows_of(growth: Growth, put: Put) -> list[ListedRows]:
    """Of each layer, what the holder adds to the row."""
    p = growth.problem
    names = [variable.members[0] for variable in p.variables]
    order = [names.index(name) for name in "mnk" if name in names]
    return [
        sorted(
            (tuple(p.extent(v, s) for v in order), energy - 100, bits - 10)
            for s, (energy, bits) in zip(layer.shape.tolist(), layer.criteria.tolist(), strict=True)
        )
        for layer in growth.placed(put, 0)
    ]


def test_loops_that_do_not_index_a_tensor_only_save_traffic() -> None:
    """Y[m, n] = A[m, k] * B[k, n]: one value of A, filled 64 times; or, above n with 2 or 4, 32 or 16 times."""
    growth = make_growth(PRODUCTS)
    put = make_put(growth.problem, "n")
    assert rows_of(growth, put) == [[((1, 1, 1), 64, 1), ((1, 2, 1), 32, 1), ((1, 4, 1), 16, 1)]]


def test_space_sinks_below_one_loop_over_a_part_of_a_window() -> None:
    """Y[m] = A[m + k] * B[k], with 4 of m and 2 of k. A tile has m + k - 1 values, and there are (4 / m) · (2 / k) of them.

    No loop below A: m = k = 1, filled 8 times. One over m right below it: that over k, inside, may have 2 or not; the space is that with
    m = 1. One over k right below it: m may have grown inside, and the space is that with k = 1.
    """
    growth = make_growth()
    assert rows_of(growth, make_put(growth.problem, "mk")) == [
        [((1, 1), 8, 1)],
        [((2, 1), 8, 1), ((2, 2), 2 * 3, 2), ((4, 1), 8, 1), ((4, 2), 5, 2)],
        [((1, 2), 8, 1), ((2, 2), 2 * 3, 2), ((4, 2), 5, 4)],
    ]


def test_rows_know_the_loop_right_below_their_holder() -> None:
    growth = make_growth()
    layers = list(growth.placed(make_put(growth.problem, "mk"), 0))
    names = [growth.problem.variables[int(v)].members[0] if v >= 0 else "" for layer in layers for v in set(layer.note)]
    assert sorted(names) == ["", "k", "m"]
    assert all(layer.source.tolist() == layer.row.tolist() == [0] * len(layer.shape) for layer in layers)


def test_the_space_of_what_einsums_exchange_stays_at_its_holder() -> None:
    """All of m and k may grow, and the space is the whole tile, m + k - 1."""
    growth = make_growth()
    put = make_put(growth.problem, "mk")._replace(lowers=False)
    assert rows_of(growth, put) == [
        [((1, 1), 8, 1), ((1, 2), 8, 2), ((2, 1), 8, 2), ((2, 2), 6, 3), ((4, 1), 8, 4), ((4, 2), 5, 5)]
    ]


def test_only_larger_tiles_are_stepped_to() -> None:
    """From m = 2 a loop over m leads to 4, with the space of 2; k does not grow."""
    growth = make_growth(m=2)
    assert rows_of(growth, make_put(growth.problem, "m")) == [[((2, 1), 8, 2)], [((4, 1), 8, 2)]]


def test_rows_over_a_limit_are_left_out() -> None:
    """11 bits leave one for A: no row with k = 2 below a loop over m, and of those with k right below A, m = 1."""
    growth = make_growth()
    found = rows_of(growth, make_put(growth.problem, "mk", 11.0))
    assert found == [[((1, 1), 8, 1)], [((2, 1), 8, 1), ((4, 1), 8, 1)], [((1, 2), 8, 1)]]


def test_space_sinks_below_loops_that_index_a_tensor_where_the_holder_stays() -> None:
    """Y[m, n] = A[m, k] * B[k, n], without rule 1: n grows inside, then m right below A. The space is below m, so it is one value.
    16 · 4 / n are filled, wherever m is."""
    growth = make_growth(PRODUCTS)
    (found,) = rows_of(growth, make_put(growth.problem, "mn"))
    assert found == [((m, n, 1), 64 / n, 1) for m in (1, 2, 4) for n in (1, 2, 4)]
    begin, reserved = growth.layers
    assert (begin.kind, reserved.kind) == ("begin", "reserve")
    assert (
        reserved.criteria.tolist() == [[100, 11]] * 3
    )  # with n = 1, 2, 4; the traffic is not known before m has grown


@pytest.mark.parametrize(("whole", "extents"), [("", [1, 2, 4]), ("n", [4])])
def test_what_must_be_whole_is(whole: str, extents: list[int]) -> None:
    growth = make_growth(PRODUCTS)
    put = make_put(growth.problem, "n")._replace(whole=variables(growth.problem, whole))
    assert rows_of(growth, put) == [[((1, n, 1), 64 / n, 1) for n in extents]]


def test_a_holder_stands_only_where_it_may() -> None:
    """At m = 4, however it came there: in one step right below the holder, with k = 1 or 2 inside; or before, with k then."""
    growth = make_growth()
    p = growth.problem
    (m,) = variables(p, "m")
    put = make_put(p, "mk")._replace(allowed=p.complete[m])
    assert rows_of(growth, put) == [[], [((4, 1), 8, 1), ((4, 2), 5, 2)], [((4, 2), 5, 4)]]
