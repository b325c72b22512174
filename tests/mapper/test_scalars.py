"""Einsums without any rank variable: one value from others, on arrays as well."""

from __future__ import annotations

import pytest

from fusiest.mapper.mapper import NoMapping, map
from tests.load_text import load_text
from tests.mapper.test_exhaustive_workload import same_front
from tests.reference.exhaustive_workload import WorkloadLimits, exhaustive_front
from tests.values import check_values

ARRAY = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, tensors: {keep: ~Intermediates, may_keep: All}, component_class: Dummy, actions: [{name: read, energy: 10, throughput: 2}]}
  - !Memory {name: GLB, size: 24, tensors: {keep: ~DRAM, may_keep: All}, component_class: Dummy, actions: [{name: read, energy: 3}, {name: write, energy: 1}]}
  - !Container {name: PE, spatial: [{name: X, fanout: 2, DIMENSION}, {name: Y, fanout: 3}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 1, throughput: 5}]}
workload:
  bits_per_value: 8
  rank_sizes: {M: 4}
  einsums:
"""  # noqa: E501
IMPOSSIBLE = "loop_bounds: [{expression: All, operator: product==, value: 2}]"


@pytest.mark.parametrize(
    "einsums", [["T[] = A[]"], ["T[] = A[] * B[]", "Z[] = T[]"], ["T[] = A[m]", "U[] = T[]", "Z[m] = U[] * B[m]"]]
)
@pytest.mark.parametrize("dimension", ["min_usage: 1", IMPOSSIBLE])
@pytest.mark.parametrize("imperfect", [False, True])
def test_scalars_on_an_array(einsums: list[str], dimension: str, imperfect: bool) -> None:
    spec = load_text(ARRAY.replace("DIMENSION", dimension) + "".join(f'  - "{einsum}"\n' for einsum in einsums))
    expected = [(m.energy, m.latency) for m in exhaustive_front(spec, limits=WorkloadLimits(imperfect=imperfect))]
    try:
        mappings = map(spec, imperfect=imperfect, jobs=1).mappings
    except NoMapping:
        mappings = ()
    assert bool(expected) == (dimension != IMPOSSIBLE)
    assert same_front([(m.energy, m.latency) for m in mappings], expected)
    check_values(spec, mappings)
