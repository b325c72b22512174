"""Sizes of memories as the search sees them: where space cannot run out, it is no concern."""

from __future__ import annotations

import math

import pytest
from hypothesis import given

from fusiest.pmapping.explore import explore
from fusiest.pmapping.nest.memory_sizes import ample_memories, most_bits, sized_paths
from fusiest.pmapping.nest.shared_memories import meeting_memories
from fusiest.pmapping.question import Question
from tests.load_text import load_text
from tests.mapper.test_exhaustive_workload import check_front
from tests.proving import cases
from tests.workload_strategies import WorkloadCase, workload_cases

TWO_MEMORIES = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {keep: ~Intermediates, may_keep: All},
             actions: [{name: read, energy: 9}, {name: write, energy: 9}]}
  - !Memory {name: GLB, size: "{{ SIZE }}", component_class: Dummy, tensors: {keep: ~DRAM, may_keep: All},
             actions: [{name: read, energy: 1}, {name: write, energy: 1}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, throughput: 1}]}
"""
TWO = (
    TWO_MEMORIES
    + """
workload:
  rank_sizes: {M: 4, K: 2, N: 3}
  bits_per_value: {All: 8}
  einsums:
  - "T[m, n] = A[m, k] * B[k, n]"
  - "Z[m] = T[m, n]"
"""
)
NEED = 8 * ((4 * 2 + 2 * 3 + 4 * 3) + (4 * 3 + 4))
"""Every tensor of every Einsum at once."""


@pytest.mark.parametrize(("size", "ample"), [(NEED, True), (NEED - 1, False), (math.inf, False)])
def test_ample_is_what_holds_everything(size: float, ample: bool) -> None:
    spec = load_text(TWO, SIZE=size)
    assert ample_memories(spec) == ({"GLB"} if ample else set())
    assert Question().ample(spec) == ample_memories(spec)
    assert not Question(usage=True).ample(spec)
    assert sized_paths(spec, "T", Question().ample(spec))[0].components[1].size == (math.inf if ample else size)
    assert sized_paths(spec, "T")[0].components[1].size == size
    wanted = () if ample or math.isinf(size) else ("GLB",)
    assert meeting_memories(spec, usage=False, ample=Question().ample(spec)) == wanted


def test_space_counts_where_usage_is_asked_for() -> None:
    spec = load_text(TWO, SIZE=NEED)
    assert explore(spec, "T", Question(usage=True)).memories == ("GLB",)
    assert explore(spec, "T", Question()).memories == ()


def test_a_size_that_is_ample_for_one_einsum_only_is_none() -> None:
    spec = load_text(TWO.replace('"{{ SIZE }}"', f"{NEED} if len(All) == 2 else 100"))
    assert ample_memories(spec) == frozenset()


@cases(10, proving=300)
@given(case=workload_cases())
def test_a_memory_that_is_just_ample(case: WorkloadCase) -> None:
    """As large as all tensors of all Einsums: the mapper leaves its size out, the exhaustive mapper does not."""
    spec = case.spec.with_component("GLB", size=most_bits(case.spec)["GLB"])
    assert "GLB" in ample_memories(spec)
    check_front(WorkloadCase(spec, case.orders))
