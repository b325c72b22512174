"""The general search against the exhaustive mapper, and against the fast search where both apply.

FUSIEST_PROVE=1 tries thousands of cases instead of some dozens, and new ones each time.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import event, given

from fusiest.base.errors import SpecError
from fusiest.model.evaluate import evaluate_einsum
from fusiest.model.nest import TreeNode, build_nest
from fusiest.pmapping.chains import chain_search
from fusiest.pmapping.chains.tile_chains import tile_options
from fusiest.pmapping.nest.rules import Rules
from fusiest.pmapping.table import Table
from fusiest.spec.hardware.binding import bind, bind_all
from tests.drawing.targets import ODD_SIZES
from tests.load_text import load_text
from tests.mapper_strategies import MapperCase, mapper_cases
from tests.pmapping.fronts import branch_nodes, differences, equal_table, exhaustive_fronts, pmappings, search_fronts
from tests.proving import PROVE, TALLY, Decorator, cases, floors
from tests.reference.exhaustive import TooManyTrees, counted_mappers, exhaustive
from tests.reference.skeletons import ReferenceLimits

TREES = 10_000 if PROVE else 1_500
PERFECT, IMPERFECT = ReferenceLimits(trees=TREES), ReferenceLimits(trees=TREES, imperfect=True)


def run(examples: int) -> Decorator:
    return cases(examples, proving=500)


def general_table(case: MapperCase, imperfect: bool, rules: Rules | None = None) -> Table | None:
    """None for what no search can do yet, and for what is too large to compare."""
    try:
        counted_mappers(case.spec, case.einsum, ReferenceLimits(trees=TREES, imperfect=imperfect))
        return pmappings(case.spec, case.einsum, imperfect=imperfect, general=True, rules=rules)
    except TooManyTrees:
        event("too many trees")
    except SpecError as error:
        if "not supported" not in error.message:
            raise
        event(f"not supported: {error.message[-50:]}")
    return None


def check_fronts(case: MapperCase, imperfect: bool, rules: Rules | None = None) -> None:
    table = general_table(case, imperfect, rules)
    if table is None:
        return
    expected = exhaustive(case.spec, case.einsum, table.memories, ReferenceLimits(trees=TREES, imperfect=imperfect))
    event("compared" if expected else "nothing fits")
    TALLY["compared"] += 1
    assert differences(search_fronts(case.spec, table), exhaustive_fronts(expected)) == []


@floors(40)
@run(40)
@given(case=mapper_cases(sizes=ODD_SIZES, within=IMPERFECT))
def test_imperfect_tiles(case: MapperCase) -> None:
    check_fronts(case, imperfect=True)


@floors(20)
@run(20)
@given(case=mapper_cases(sizes=ODD_SIZES, unusual=True, within=IMPERFECT))
def test_imperfect_tiles_of_unusual_nests(case: MapperCase) -> None:
    check_fronts(case, imperfect=True)


@floors(40)
@run(40)
@given(case=mapper_cases(unusual=True, within=PERFECT))
def test_memories_out_of_order_and_backing_below_a_fanout(case: MapperCase) -> None:
    check_fronts(case, imperfect=False)


@pytest.mark.parametrize("rules", [Rules(sink=False), Rules(hoist=False), Rules(sink=False, hoist=False)])
@floors(10)
@run(10)
@given(case=mapper_cases(sizes=ODD_SIZES, within=IMPERFECT))
def test_no_rule_loses_anything(case: MapperCase, rules: Rules) -> None:
    check_fronts(case, imperfect=True, rules=rules)


@floors(40)
@run(40)
@given(case=mapper_cases(within=PERFECT))
def test_both_searches_find_the_same(case: MapperCase) -> None:
    table = general_table(case, imperfect=False)
    if table is not None:
        TALLY["compared"] += 1
        fast = pmappings(case.spec, case.einsum)
        assert differences(search_fronts(case.spec, table), search_fronts(case.spec, fast)) == []


@run(25)
@given(case=mapper_cases(sizes=ODD_SIZES, unusual=True))
def test_rows_are_nests(case: MapperCase) -> None:
    """Every row turns into a nest that the model finds valid, with the costs that the row says."""
    table = general_table(case, imperfect=True)
    for form, rows in table.groups.items() if table is not None else ():
        for i in range(min(len(rows), 5)):
            nodes = branch_nodes(table, form, rows, i)
            path = bind(case.spec, case.einsum, nodes[-1].component)
            nest = build_nest(tuple(TreeNode(n, node) for n, node in enumerate(nodes)), path)
            found = evaluate_einsum(case.spec, nest, bind_all(case.spec, nest.einsum))
            assert math.isclose(found.energy, rows.energy[i], rel_tol=1e-9)
            assert math.isclose(found.latency, rows.latency[i], rel_tol=1e-9)


@pytest.mark.parametrize("extent", [*range(1, 50), 97, 360, 1000])
def test_imperfect_tile_options(extent: int) -> None:
    assert set(tile_options(extent, True)) == {-(-extent // n) for n in range(1, extent + 1)}


ROWS = """
arch:
  nodes:
  - !Memory {name: DRAM, component_class: Dummy, size: inf, tensors: {keep: All}}
  - !Container {name: Array, spatial: [{name: X, fanout: 4}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, throughput: 1}]}
workload:
  bits_per_value: {All: 8}
  einsums:
  - {name: E, tensor_accesses: [{name: A, projection: {M: m}}, {name: Z, projection: {M: m}, output: true}],
     iteration_space_shape: [0 <= m < 7]}
"""


OUT_OF_ORDER = """
arch:
  nodes:
  - !Memory {name: DRAM, component_class: Dummy, size: inf, tensors: {keep: All, no_resend_to_below: All},
             actions: [{name: read, energy: 1}, {name: write, energy: 1}]}
  - !Memory {name: GLB, component_class: Dummy, size: 104, tensors: {keep: All, force_memory_hierarchy_order: false},
             actions: [{name: read, energy: 1}, {name: write, energy: 1}]}
  - !Container {name: Array, spatial: [{name: X, fanout: 2}]}
  - !Memory {name: Reg, component_class: Dummy, size: inf, tensors: {keep: Nothing, may_keep: Above},
             actions: [{name: read, energy: 1}, {name: write, energy: 0}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 1}]}
workload:
  bits_per_value: {All: 8}
  einsums:
  - {name: E1, tensor_accesses: [{name: A, projection: {W: 2*p+r}}, {name: Z, projection: {P: p}, output: true}],
     iteration_space_shape: [0 <= p < 4, 0 <= r < 4]}
"""


@pytest.mark.parametrize("imperfect", [False, True])
def test_a_holder_above_spatial_loops_that_it_sees_above_it(imperfect: bool) -> None:
    """Once a Spatial slot without a loop counted as one, and the Temporal loop above it with it."""
    equal_table(load_text(OUT_OF_ORDER), "E1", imperfect=imperfect)


def test_seven_rows_on_four_units_take_two_steps() -> None:
    spec = load_text(ROWS)
    assert min(float(rows.latency.min()) for rows in pmappings(spec, "E").groups.values()) == 7
    table = pmappings(spec, "E", imperfect=True)
    assert min(float(rows.latency.min()) for rows in table.groups.values()) == 2


def test_a_mapspace_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_search, "MOST_CANDIDATES", 3)
    with pytest.raises(SpecError, match="imperfect mapspace of Einsum E has more than"):
        pmappings(load_text(ROWS), "E", imperfect=True)
