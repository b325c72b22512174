"""Usage of a memory as an objective: every point is the best for its size, and the best for all sizes are there."""

from __future__ import annotations

import math

import pytest

import fusiest
from fusiest.base.errors import SpecError
from fusiest.mapper.results.result import Mapping
from fusiest.spec.spec import Spec
from tests.load_text import load_text

MACHINE = """
arch:
  nodes:
  - !Memory {name: DRAM, component_class: Dummy, leak_power: 0, size: inf, tensors: {keep: ~Intermediates, may_keep: All}, actions: [{name: read, energy: 50, throughput: 4}, {name: write, energy: 60, throughput: 4}]}
  - !Memory {name: GLB, component_class: Dummy, leak_power: 0, size: %s, tensors: {keep: KEEP, may_keep: All}, actions: [{name: read, energy: 1, throughput: 16}, {name: write, energy: 2, throughput: 16}]}
  - !Compute {name: MAC, component_class: Dummy, leak_power: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
workload:
  bits_per_value: {All: 8}
  rank_sizes: {M: 8, K: 4, N: 6}
  einsums:
"""  # noqa: E501
ONE = ["Z[m, n] = A[m, k] * B[k, n]"]
CHAIN = ["T[m, n] = A[m, k] * B[k, n]", "Z[m, k] = T[m, n] * C[k, n]"]
DIAMOND = ["T[m, n] = A[m, k] * C[k, n]", "U[m, n] = B[m, n]", "Z[m, n] = T[m, n] * U[m, n]"]


def machine(einsums: list[str], size: float) -> Spec:
    lines = "".join(f'  - "{einsum}"\n' for einsum in einsums)
    keep = "~DRAM" if len(einsums) > 1 else "Nothing"
    return load_text((MACHINE % size).replace("KEEP", keep) + lines)


def used(mapping: Mapping) -> float:
    return mapping.evaluation.peak_occupancy_bits.get("GLB", 0)


@pytest.mark.parametrize("einsums", [ONE, CHAIN, DIAMOND], ids=["one", "chain", "diamond"])
@pytest.mark.parametrize("objective", ["energy", "latency", "edp"])
def test_every_point_is_the_best_for_its_size(einsums: list[str], objective: str) -> None:
    points = [
        (used(m), getattr(m, objective)) for m in fusiest.map(machine(einsums, 4096), objective, usage="GLB").mappings
    ]
    points.sort()
    assert len(points) > 1
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in zip(points, points[1:], strict=False))
    for usage, cost in points:
        own = fusiest.map(machine(einsums, max(usage, 1)), objective).best(objective)
        assert math.isclose(getattr(own, objective), cost, rel_tol=1e-9)
    for (_, dearer), (usage, _) in zip(points, points[1:], strict=False):
        smaller = fusiest.map(machine(einsums, usage - 8), objective).best(objective)
        assert math.isclose(getattr(smaller, objective), dearer, rel_tol=1e-9)


def test_front_of_energy_latency_and_usage() -> None:
    spec = machine(CHAIN, 4096)
    points = [(m.energy, m.latency, used(m)) for m in fusiest.map(spec, usage="GLB").mappings]
    plain = [(m.energy, m.latency) for m in fusiest.map(spec).mappings]
    for p in points:
        assert not any(q != p and all(x <= y for x, y in zip(q, p, strict=True)) for q in points)
    for energy, latency in plain:
        assert any(math.isclose(p[0], energy) and math.isclose(p[1], latency) for p in points)


def test_a_memory_without_limit_cannot_be_watched() -> None:
    with pytest.raises(SpecError, match="usage of DRAM"):
        fusiest.map(machine(CHAIN, 4096), usage="DRAM")


def test_a_memory_whose_size_depends_on_the_einsum_cannot_be_watched() -> None:
    """A mapping that is best for some size of it: there is no such size. The curve had points that others were better than."""
    spec = machine(CHAIN, 4096).with_component("GLB", size="4096 if A else 2048")
    with pytest.raises(SpecError, match="its size is not the same for all Einsums"):
        fusiest.map(spec, usage="GLB")
