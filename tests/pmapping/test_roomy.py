"""Where all that Einsums exchange has room, nothing is fused by loops, and nothing is lost."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import event, given

from fusiest.pmapping.explore import explore
from fusiest.pmapping.nest.no_fusion_needed import alive_bits, roomy_memories
from fusiest.pmapping.question import Question
from fusiest.spec import Spec
from tests.load_text import load_text
from tests.mapper.test_exhaustive_workload import check_front
from tests.pmapping.test_sizes import TWO_MEMORIES
from tests.proving import cases
from tests.workload_strategies import WorkloadCase, workload_cases

CHIP = (
    TWO_MEMORIES
    + """
workload:
  rank_sizes: {M: 4, N: 3}
  bits_per_value: {All: 8}
  einsums:
"""
)
CHAIN = (
    CHIP
    + """
  - "B[m, n] = A[m, n]"
  - "C[m] = B[m, n] * W[n]"
  - "D[m, n] = C[m] * V[n]"
  - "E[m, n] = D[m, n]"
"""
)
CHAIN_NEEDS = 8 * (12 + 12)
"""A and B; D and E. C runs with B, W and C: fewer."""
BRANCHES = (
    CHIP
    + """
  - "B[m] = A[m]"
  - "C[m, n] = A[m] * W[n]"
  - "D[m] = B[m] * C[m, n]"
"""
)
BRANCHES_NEED = 8 * (4 + 4 + 12 + 3)
"""B and C may run in any order: with C, which reads A and W, B may be there. D runs with B, C and D, which is less."""


@pytest.mark.parametrize(("text", "need"), [(CHAIN, CHAIN_NEEDS), (BRANCHES, BRANCHES_NEED)])
def test_what_can_be_alive_must_fit(text: str, need: int) -> None:
    for size, roomy in ((need, True), (need - 1, False), (math.inf, True)):
        spec = load_text(text, SIZE=size)
        assert alive_bits(spec, "GLB") == need
        assert roomy_memories(spec) == (frozenset({"GLB"}) if roomy else None)


def test_tables_for_joining_then_have_no_fused_loops() -> None:
    spec = load_text(CHAIN, SIZE=CHAIN_NEEDS)
    needed, everything = explore(spec, "B", Question(needed=True)), explore(spec, "B", Question())
    assert not any(compatibility.zones for compatibility in needed.groups)
    assert any(compatibility.zones for compatibility in everything.groups)
    assert needed.memories == ()
    assert everything.memories == ("GLB",)
    usage = explore(spec, "B", Question(needed=True, usage=True))
    assert any(compatibility.zones for compatibility in usage.groups)
    assert usage.memories == ("GLB",)


@pytest.mark.parametrize("constraint", ["tile_shape: [{expression: m, operator: '<=', value: 2}]"])
def test_constraints_on_tiles_forbid_it(constraint: str) -> None:
    text = CHAIN.replace(
        "tensors: {keep: ~DRAM, may_keep: All}", f"tensors: {{keep: ~DRAM, may_keep: All, {constraint}}}"
    )
    assert roomy_memories(load_text(text, SIZE=math.inf)) is None


def test_copies_live_as_long_as_any() -> None:
    """They share one reservation: A's 12 values are there as long as its copy, so with D, which has 12 as well."""
    copied = """
  - {einsum: "B[m, n] = A[m, n]", is_copy_operation: true}
  - "C[m] = B[m, n]"
  - "D[m, n] = B[m, n] * C[m]"
"""
    spec = load_text(CHIP + copied, SIZE=1)
    assert alive_bits(spec, "GLB") == 8 * (12 + 12 + 4 + 12)


@cases(15, proving=500)
@given(case=workload_cases())
def test_a_memory_that_is_just_roomy(case: WorkloadCase) -> None:
    """As large as what can be alive: the mapper fuses nothing by loops, the exhaustive mapper does as it likes."""
    check_front(WorkloadCase(case.spec.with_component("GLB", size=alive_bits(case.spec, "GLB")), case.orders))


def costs_by_form(spec: Spec, einsum: str, parts: float) -> dict[object, list[tuple[float, float]]]:
    """Energy and latency of pmappings, with room for all that Einsums exchange; searched by parts after so many rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[explore.__module__], "_WORTH_PARTS", parts)
        table = explore(spec, einsum, Question(needed=True, unlimited=True))
    return {form: sorted(zip(rows.energy, rows.latency, strict=True)) for form, rows in table.groups.items()}


@cases(12, proving=400)
@given(case=workload_cases())
def test_by_parts_the_same_is_found(case: WorkloadCase) -> None:
    """Each way to hold what Einsums exchange for itself, with something to beat."""
    roomy = Question(needed=True, unlimited=True).is_roomy(case.spec)
    event("roomy" if roomy else "not roomy")
    for einsum, info in case.spec.info.einsums.items() if roomy else ():
        if info.is_copy_operation:
            continue
        whole, parts = (costs_by_form(case.spec, einsum, rows) for rows in (math.inf, -1))
        assert whole.keys() == parts.keys()
        for form, rows in whole.items():
            assert np.array(parts[form]) == pytest.approx(np.array(rows), rel=1e-9)
