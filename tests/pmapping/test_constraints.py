"""The table of constraints names every field of `tensors` that forbids something; what is not given is in none of them."""

from __future__ import annotations

import dataclasses

import pytest

from fusiest.pmapping.nest.constraints import CONSTRAINTS, is_about, may_bar_top, of_copies, of_loops, pins_nodes
from fusiest.pmapping.placements.placement import placements
from fusiest.spec import BoundComparison, PlacementSets, bind
from tests.load_text import load_text

HOLDS = {"keep", "may_keep", "back"}
"""Fields that say what is held: placements are chosen by them."""
GIVEN = {
    "tile_shape": (BoundComparison(frozenset({"m"}), "==", 2.0),),
    "no_refetch_from_above": frozenset({"T"}),
    "no_resend_to_below": frozenset({"T"}),
    "no_fused_loops": frozenset({"m"}),
    "tensor_order_options": ((frozenset({"T"}),),),
    "force_memory_hierarchy_order": False,
}
SPEC = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy}
  - !Compute {name: MAC, component_class: Dummy}
workload:
  rank_sizes: {M: 4}
  bits_per_value: {All: 8}
  einsums: ["Z[m] = A[m]"]
"""


def nothing() -> PlacementSets:
    spec = load_text(SPEC)
    (placement,) = placements(spec, bind(spec, "Z", "MAC"))
    assert placement.sets[0] is not None
    return placement.sets[0]


def test_every_field_is_a_row() -> None:
    """A field that is added must say what it is about."""
    assert {field.name for field in dataclasses.fields(nothing())} == CONSTRAINTS.keys() | HOLDS
    assert GIVEN.keys() == CONSTRAINTS.keys()


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_what_a_constraint_is_about(name: str) -> None:
    about = CONSTRAINTS[name].about
    free = nothing()
    given = dataclasses.replace(free, **{name: GIVEN[name]})
    assert not is_about(free, "tiles", "loops", "exchange", "orders")
    assert is_about(given, about)
    assert pins_nodes(given) == (name == "tile_shape")
    assert may_bar_top(given) == (name in ("tile_shape", "tensor_order_options"))
    assert (of_loops(given) == of_loops(free)) == (about == "orders")
    assert of_copies(given) == (given if name == "no_fused_loops" else free)
