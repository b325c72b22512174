"""How holders and fused loops may stand above Y[m, n] = A[m, k] * B[k, n], written out by hand.

The seed is Y in GLB. Loops above it index Y, so they are over m and n. A is not indexed by n, and B not by m.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from fusiest.pmapping.fused.structures import Structures
from fusiest.pmapping.nest.rules import Rules
from fusiest.pmapping.table import FusedLoop
from tests.pmapping.products import WINDOWS, make_search, situation

M, N = FusedLoop("m"), FusedLoop("n")


def written(structures: Structures) -> list[str]:
    """Each structure as text, in no order: per tensor the loops above it, and after a dash those its space sinks through."""
    names, texts = structures.situation.nest.names, []
    for structure in structures:
        holders = []
        for holder, loops, space in sorted(structure):
            above, sunk = (
                "".join(sorted(loop.variable + "'" * loop.number for loop in structures.named(mask)))
                for mask in (loops, space & ~loops)
            )
            holders.append(f"{names[holder.tensor]}:{above}" + (f"-{sunk}" if sunk else ""))
        texts.append(" ".join(holders))
    return sorted(texts)


def test_a_holder_does_not_stand_right_above_loops_that_all_index_its_tensor() -> None:
    """Of the four sets of loops above A: below all is nothing in between; above n, or above both, n repeats A; but above m
    alone rule 1 (sink) moves A below m. Nothing sinks: n, right below A, stops its space."""
    structures = Structures(situation(make_search("Y | A"), "A"), (M, N))
    assert written(structures) == ["A:", "A:m", "A:mn"]


def test_without_the_sink_rule_space_sinks_instead() -> None:
    """A may stand above m alone, and its space then sinks through m, down to Y. Above both, m or n is right below A:
    its space sinks through m, or does not."""
    search = make_search("Y | A", rules=Rules(sink=False))
    assert written(Structures(situation(search, "A"), (M, N))) == ["A:", "A:-m", "A:m", "A:mn", "A:n-m"]


def test_structures_of_two_orders_are_the_same_where_no_loop_is_between() -> None:
    """A inside B: below A is nothing, n, or both; between B and A then nothing or what has m, as n indexes B.
    A below m and n: B below both, below n, or below none. A below m: B below m, or below none. A below none: B, too. Six in all.
    So has B inside A, with m and n in each other's places; of these the two with A and B below the same loops, both or none,
    are known. 6 + 6 - 2 = 10."""
    structures = Structures(situation(make_search("Y | A | B"), "AB", "BA"), (M, N))
    inner_a = {"A:mn B:mn", "A:mn B:n", "A:mn B:", "A:m B:m", "A:m B:", "A: B:"}
    inner_b = {"A:mn B:mn", "A:m B:mn", "A: B:mn", "A:n B:n", "A: B:n", "A: B:"}
    assert written(structures) == sorted(inner_a | inner_b)
    assert len(written(structures)) == 10


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ("no_refetch_from_above: A", ["A:", "A:m"]),  # n above A would fetch it again
        ("no_resend_to_below: A", ["A:mn"]),  # n between A and the compute would send it again
    ],
)
def test_a_constraint_says_where_a_loop_that_repeats_a_tensor_stands(constraint: str, expected: list[str]) -> None:
    search = make_search("Y | A", constraints=f", {constraint}")
    assert written(Structures(situation(search, "A"), (M, N))) == expected


def test_loops_over_one_variable_have_a_holder_between_them() -> None:
    """The outer one is above A, the inner one below: rule 1 would make them meet, so A stays. Its space sinks down to Y."""
    structures = Structures(situation(make_search("Y | A"), "A"), (M, FusedLoop("m", 1)))
    assert written(structures) == ["A:m-m'"]


def test_a_holder_stays_above_a_loop_where_a_neighbour_may_need_it() -> None:
    """As without the rule: m, the one that indexes A, is agreed on. A loop over n would change nothing."""
    alone = situation(make_search("Y | A"), "A")
    for agreed, expected in (("m", ["A:", "A:-m", "A:m", "A:mn", "A:n-m"]), ("n", ["A:", "A:m", "A:mn"])):
        nest = replace(alone.nest, agreed={"A": frozenset(agreed)})
        assert written(Structures(replace(alone, nest=nest), (M, N))) == expected


def test_space_sinks_through_a_loop_over_a_part_of_a_window() -> None:
    """Y[m] = A[m + k] * B[k]: m indexes A partially, so A may stand above its loop, with the space of one tile below it."""
    search = make_search("Y | A", workload=WINDOWS)
    assert written(Structures(situation(search, "A"), (M,))) == ["A:-m", "A:m"]


def test_space_that_nobody_tracks_sinks_nowhere() -> None:
    """Where it is does not matter: of the two structures with A above both loops, one is left. Rule 1 holds as ever."""
    for sink, expected in ((False, ["A:", "A:m", "A:mn", "A:n"]), (True, ["A:", "A:m", "A:mn"])):
        tracked = situation(make_search("Y | A", rules=Rules(sink=sink)), "A")
        assert written(Structures(replace(tracked, tracked=frozenset()), (M, N))) == expected
