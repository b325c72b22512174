"""What an Einsum costs at least, before any pmapping is known, is below all of them, and worth something."""

from __future__ import annotations

from hypothesis import assume, given

import fusiest
from fusiest.base.errors import SpecError
from fusiest.pmapping import Question, Table, explore, least_costs
from tests.drawing.targets import ODD_SIZES
from tests.load_text import load_text
from tests.mapper_strategies import MapperCase, mapper_cases
from tests.proving import TALLY, cases, floors
from tests.reference.skeletons import ReferenceLimits


def least_of(table: Table) -> tuple[float, float]:
    groups = table.groups.values()
    return min(float(rows.energy.min()) for rows in groups), min(float(rows.latency.min()) for rows in groups)


def _explored(case: MapperCase, question: Question) -> Table:
    try:
        return explore(case.spec, case.einsum, question)
    except SpecError as error:
        assume("not supported" not in error.message)
        raise


@floors(40, real=0.5)
@cases(40, proving=2500)
@given(case=mapper_cases())
def test_no_pmapping_costs_less_than_the_least(case: MapperCase) -> None:
    table = _explored(case, Question())
    TALLY["compared"] += 1
    if not len(table):
        return
    bounds = least_costs(case.spec, case.einsum, Question())
    for bound, least in zip(bounds, least_of(table), strict=True):
        assert bound <= least * (1 + 1e-9)
    TALLY["real"] += bounds[0] > 0.5 * least_of(table)[0]


@floors(15, real=0.5)
@cases(15, proving=1000)
@given(case=mapper_cases(sizes=ODD_SIZES, within=ReferenceLimits(trees=1_500, imperfect=True)))
def test_nor_with_tiles_that_do_not_divide(case: MapperCase) -> None:
    asked = Question(imperfect=True)
    table = _explored(case, asked)
    TALLY["compared"] += 1
    if not len(table):
        return
    bounds = least_costs(case.spec, case.einsum, asked)
    for bound, least in zip(bounds, least_of(table), strict=True):
        assert bound <= least * (1 + 1e-9)
    TALLY["real"] += bounds[0] > 0.5 * least_of(table)[0]


def test_what_operands_and_one_pass_over_each_tensor_take_is_nearly_all() -> None:
    """Of a product on the TPU v4i, whose arrays are full, the exact search saves no more than a fourth of that."""
    spec = fusiest.load("tpu_v4i", "matmuls", N_EINSUMS=2, M=1024, KN=1024)
    energy, latency = least_costs(spec, "Matmul0", Question())
    best = least_of(explore(spec, "Matmul0", Question()))
    assert 0.75 * best[0] < energy <= best[0]
    assert 0.99 * best[1] < latency <= best[1]


SUMMED_ACROSS_A_FANOUT = """
arch:
  nodes:
  - !Memory {name: DRAM, component_class: Dummy, size: inf, tensors: {keep: All},
             actions: [{name: read, energy: 1}, {name: write, energy: 1}]}
  - !Memory {name: GLB, component_class: Dummy, size: inf, tensors: {keep: Nothing}, spatial: [{name: X, fanout: 2}],
             actions: [{name: read, energy: 1}, {name: write, energy: 1}]}
  - !Toll {name: Link, component_class: Dummy, direction: up_and_down, tensors: {keep: All},
           actions: [{name: read, energy: 1}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 1}]}
workload:
  rank_sizes: {M: 2, N: 2, K: 2}
  bits_per_value: {All: 8}
  einsums: ["Z[m, n] = A[m, k] * B[k, n]"]
"""


def test_a_toll_inside_a_fanout_is_paid_once() -> None:
    """Both k at once: 8 operations; 8 operands of 8 bits each for A, B and into Z over the link; A and B from DRAM, Z there."""
    spec = load_text(SUMMED_ACROSS_A_FANOUT)
    best, _ = least_of(explore(spec, "Z", Question()))
    assert best == 8 + 3 * 64 + 2 * 64 + 32
    assert least_costs(spec, "Z", Question())[0] <= best


def test_a_fanout_that_cannot_be_filled_counts_as_far_as_it_can_be() -> None:
    """7 x 7 x 7 on arrays of 128 x 128: at most 49 at work."""
    spec = fusiest.load("tpu_v4i", "matmuls", N_EINSUMS=1, M=7, KN=7)
    _, latency = least_costs(spec, "Matmul0", Question())
    assert latency > 0.99 * least_of(explore(spec, "Matmul0", Question()))[1]


def test_an_einsum_without_variables_on_an_array() -> None:
    """It uses one unit of it: A is read, Z is written, 8 bits each, and one operation is done."""
    spec = load_text(SUMMED_ACROSS_A_FANOUT.replace("Z[m, n] = A[m, k] * B[k, n]", "Z[] = A[]"))
    for imperfect in (False, True):
        least, _ = least_costs(spec, "Z", Question(imperfect=imperfect))
        assert 8 + 8 < least <= 1 + 4 * 8 == least_of(explore(spec, "Z", Question(imperfect=imperfect)))[0]
