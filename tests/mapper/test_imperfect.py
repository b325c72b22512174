"""Imperfect tiles in whole workloads, against the exhaustive mapper."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given

import fusiest
from fusiest.mapper.mapper import NoMapping
from tests.load_text import load_text
from tests.mapper.test_exhaustive_workload import LIMITS, check_front, run
from tests.proving import floors
from tests.workload_strategies import WorkloadCase, workload_cases


@floors(25, fused=0.25)
@run(25)
@given(case=workload_cases())
def test_fronts_with_imperfect_tiles(case: WorkloadCase) -> None:
    check_front(case, limits=dataclasses.replace(LIMITS, imperfect=True))


SMALL = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {keep: ~A},
             actions: [{name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]}
  - !Memory {name: Buf, size: 8, component_class: Dummy,
             tensors: {keep: A, tile_shape: [{expression: All, operator: ">=", value: 2}]},
             actions: [{name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 1, throughput: 1}]}
workload:
  rank_sizes: {M: 7}
  bits_per_value: {All: 8}
  einsums:
  - {name: E0, tensor_accesses: [{name: A, projection: [m]}, {name: Z, projection: [m], output: true}]}
"""


@pytest.mark.parametrize(("imperfect", "need"), [(False, 7 * 8), (True, 2 * 8)])
def test_why_nothing_fits_knows_which_tiles_there_are(imperfect: bool, need: int) -> None:
    """Of 7, the only tile that divides and is at least 2 is 7."""
    with pytest.raises(NoMapping, match=f"Buf would have to hold at least {need} bits"):
        fusiest.map(load_text(SMALL), imperfect=imperfect, jobs=1)


TOLL = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {keep: T},
             actions: [{name: read, energy: 20, throughput: 2}, {name: write, energy: 5, throughput: inf}]}
  - !Toll {name: Net, direction: down, component_class: Dummy, tensors: {keep: All},
           actions: [{name: read, energy: 1, throughput: 5}]}
  - !Memory {name: Buf, size: 48, component_class: Dummy, tensors: {keep: All},
             actions: [{name: read, energy: 1, throughput: 5}, {name: write, energy: 0, throughput: 2}]}
  - !Memory {name: Reg, size: 16, component_class: Dummy, leak_power: 3, tensors: {keep: Nothing, may_keep: Above},
             actions: [{name: read, energy: 0, throughput: inf}, {name: write, energy: 0, throughput: 1}]}
  - !Compute {name: MAC, component_class: Dummy}
workload:
  rank_sizes: {A0: 3, B: 3, T0: 3, T1: 5, M: 2}
  bits_per_value: {All: 8}
  einsums:
  - {name: E0, einsum: "T[T0: q, T1: k] = A[A0: k, B: q]", iteration_space_shape: [0 <= k < 3]}
  - {name: E1, einsum: "T[T0: k, T1: p + 3] = A[A0: k, B: p + m] * W[m]", iteration_space_shape: [0 <= p < 2]}
"""


def test_a_toll_of_one_einsum_above_a_loop_that_another_shares() -> None:
    """Where Einsums share a loop, a Toll above it would be passed by both, each of which has its own further in."""
    spec = load_text(TOLL)
    (best,) = fusiest.map(spec, "energy", jobs=1, imperfect=True, windows="none").mappings
    (divided,) = fusiest.map(spec, "energy", jobs=1, windows="none").mappings
    assert (best.energy, best.latency) == (divided.energy, divided.latency)
