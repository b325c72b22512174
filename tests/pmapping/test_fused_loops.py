"""More than one fused loop per rank variable, and fused Spatial loops, against the exhaustive mapper."""

from __future__ import annotations

from hypothesis import event, given

from fusiest.base.errors import SpecError
from fusiest.pmapping.table import Table
from tests.drawing.targets import ODD_SIZES
from tests.load_text import load_text
from tests.mapper_strategies import MapperCase, mapper_cases
from tests.pmapping.fronts import differences, equal_table, exhaustive_fronts, pmappings, search_fronts
from tests.pmapping.test_exhaustive import TREES, run
from tests.proving import TALLY, floors
from tests.reference.exhaustive import TooManyTrees, counted_mappers, exhaustive
from tests.reference.skeletons import ReferenceLimits


def check_fronts(case: MapperCase, limits: ReferenceLimits, general: bool = False) -> None:
    try:
        counted_mappers(case.spec, case.einsum, limits)
        table = pmappings(
            case.spec,
            case.einsum,
            max_fused_loops=limits.fused_loops,
            max_fused_loops_per_variable=limits.fused_loops_per_variable,
            imperfect=limits.imperfect,
            general=general,
        )
    except TooManyTrees:
        event("too many trees")
        return
    except SpecError as error:
        if "not supported" not in error.message:
            raise
        event("not supported")
        return
    expected = exhaustive(case.spec, case.einsum, table.memories, limits)
    event(_kind(table))
    TALLY["compared"] += 1
    TALLY["spatial"] += any(loop.place for form in table.groups for loop in form.loops)
    assert differences(search_fronts(case.spec, table), exhaustive_fronts(expected)) == []


def _kind(table: Table) -> str:
    """What of interest the table has."""
    loops = [loop for form in table.groups for loop in form.loops]
    several = "several loops over a variable" if any(loop.number for loop in loops) else "one loop over each variable"
    spatial = ", Spatial" if any(loop.place for loop in loops) else ""
    return f"compared: {several}{spatial}"


TWO = ReferenceLimits(fused_loops_per_variable=2, trees=TREES)
TWO_IMPERFECT = ReferenceLimits(fused_loops_per_variable=2, trees=TREES, imperfect=True)
BOTH_KINDS = ReferenceLimits(fused_loops=2, fused_loops_per_variable=3, trees=TREES)
ONE, ONE_IMPERFECT = ReferenceLimits(trees=TREES), ReferenceLimits(trees=TREES, imperfect=True)


@floors(50)
@run(50)
@given(case=mapper_cases(within=TWO))
def test_two_fused_loops_per_variable(case: MapperCase) -> None:
    check_fronts(case, TWO)


@floors(15)
@run(15)
@given(case=mapper_cases(within=BOTH_KINDS))
def test_limits_of_both_kinds(case: MapperCase) -> None:
    check_fronts(case, BOTH_KINDS)


@floors(20)
@run(20)
@given(case=mapper_cases(sizes=ODD_SIZES, within=TWO_IMPERFECT))
def test_two_imperfect_fused_loops_per_variable(case: MapperCase) -> None:
    check_fronts(case, TWO_IMPERFECT)


@floors(20)
@run(20)
@given(case=mapper_cases(unusual=True, within=TWO))
def test_general_search_with_two_fused_loops_per_variable(case: MapperCase) -> None:
    check_fronts(case, TWO, general=True)


@floors(40, spatial=0.1)
@run(40)
@given(case=mapper_cases(deep=True, within=ONE))
def test_fused_spatial_loops(case: MapperCase) -> None:
    """Common Spatial loops, above what is exchanged below a fanout."""
    check_fronts(case, ONE)


@floors(15)
@run(15)
@given(case=mapper_cases(sizes=ODD_SIZES, deep=True, within=ONE_IMPERFECT))
def test_imperfect_fused_spatial_loops(case: MapperCase) -> None:
    check_fronts(case, ONE_IMPERFECT)


@floors(15)
@run(15)
@given(case=mapper_cases(deep=True, within=TWO))
def test_two_fused_loops_per_variable_some_spatial(case: MapperCase) -> None:
    check_fronts(case, TWO)


HOLDER_BELOW_A_FANOUT = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {keep: ~Intermediates, may_keep: All},
             actions: [{name: read, energy: 1, throughput: 2}, {name: write, energy: 2, throughput: 5}]}
  - !Container {name: Array, spatial: [{name: X, fanout: 2}]}
  - !Memory {name: Reg, size: 16, component_class: Dummy, tensors: {keep: ~DRAM, may_keep: ~Shared},
             actions: [{name: read, energy: 0, throughput: 5}, {name: write, energy: 20, throughput: 5}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 1, throughput: inf}]}
workload:
  rank_sizes: {M: 2, K: 2}
  bits_per_value: {All: 8}
  einsums:
  - {name: P0, tensor_accesses: [{name: X, projection: [m, k]}, {name: A, projection: [m, k], output: true}]}
  - {name: E1, tensor_accesses: [{name: A, projection: [m, k]}, {name: Z, projection: [m], output: true}]}
"""


def test_a_holder_stays_between_a_spatial_loop_and_a_temporal_one() -> None:
    """Z would do as well below the loop over m. But that loop would then stand above the Spatial loop, not below it."""
    equal_table(load_text(HOLDER_BELOW_A_FANOUT), "E1")
