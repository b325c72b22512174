"""More than one fused loop per rank variable, and fused Spatial loops, against the exhaustive mapper."""

from __future__ import annotations

from hypothesis import event, given

from fusiest.errors import SpecError
from fusiest.pmapping.explore import pmappings
from fusiest.pmapping.table import Table
from fusiest.reference.exhaustive import Limits, TooManyTrees, count_trees, exhaustive
from tests.mapper_strategies import ODD_SIZES, MapperCase, mapper_cases
from tests.pmapping.fronts import differences, exhaustive_fronts, search_fronts
from tests.pmapping.test_exhaustive import TREES, run


def check_fronts(case: MapperCase, limits: Limits, general: bool = False) -> None:
    try:
        count_trees(case.spec, case.einsum, limits)
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
    assert differences(search_fronts(case.spec, table), exhaustive_fronts(expected)) == []


def _kind(table: Table) -> str:
    """What of interest the table has."""
    loops = [loop for form in table.forms for loop in form.loops]
    several = "several loops over a variable" if any(loop.number for loop in loops) else "one loop over each variable"
    spatial = ", Spatial" if any(loop.place for loop in loops) else ""
    return f"compared: {several}{spatial}"


@run(60)
@given(case=mapper_cases())
def test_two_fused_loops_per_variable(case: MapperCase) -> None:
    check_fronts(case, Limits(fused_loops_per_variable=2, trees=TREES))


@run(20)
@given(case=mapper_cases())
def test_limits_of_both_kinds(case: MapperCase) -> None:
    check_fronts(case, Limits(fused_loops=2, fused_loops_per_variable=3, trees=TREES))


@run(30)
@given(case=mapper_cases(sizes=ODD_SIZES))
def test_two_imperfect_fused_loops_per_variable(case: MapperCase) -> None:
    check_fronts(case, Limits(fused_loops_per_variable=2, trees=TREES, imperfect=True))


@run(30)
@given(case=mapper_cases(unusual=True))
def test_general_search_with_two_fused_loops_per_variable(case: MapperCase) -> None:
    check_fronts(case, Limits(fused_loops_per_variable=2, trees=TREES), general=True)
