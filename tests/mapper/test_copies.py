"""Copies, worked out by hand. The same files are among those that are compared with the exhaustive mapper."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusiest import Spec, load, map
from fusiest.base.errors import SpecWarning
from fusiest.mapper.mapper import NoMapping
from fusiest.mapper.results.result import Mapping
from tests.load_text import load_text

FOUND = Path(__file__).parent / "found_cases"


def best(name: str) -> Mapping:
    (mapping,) = map(load(FOUND / name), "edp", jobs=1, windows="none").mappings
    return mapping


@pytest.mark.parametrize(
    ("name", "einsum", "read", "written"),
    [
        ("copy_of_every_other.yaml", "E1", ("GLB", "T0", 6), 6),
        ("copy_of_windows.yaml", "E0", ("DRAM", "W0", 48), 96),
        ("copy_of_windows_apart.yaml", "E0", ("DRAM", "W0", 64), 64),
    ],
)
def test_elements_are_read_and_written_once_each(
    name: str, einsum: str, read: tuple[str, str, int], written: int
) -> None:
    """Every other column: 3 × 2 elements, not the 3 × 3 of the box. Windows: 6 rows of 8 bits, then 4 × 3 of them.
    Windows of two rows, three apart: 4 × 2 rows are read, not the 11 from the first to the last."""
    actions = best(name).evaluation.einsums[einsum].actions
    source, tensor, count = read
    target = {"GLB": "DRAM", "DRAM": "GLB"}[source]
    assert (actions[source, tensor, "read"], actions[target, tensor, "write"]) == (count, written)


def test_a_part_that_is_busy_with_nothing() -> None:
    """The copy takes 2 reads / 2 = 1 s in DRAM and 0.4 s in GLB, but Reg takes 3 s; so leaks 1 W for 3 s."""
    copy = best("copy_beside_idle_parts.yaml").evaluation.einsums["E0"]
    assert copy.latency == 3
    assert copy.energies["DRAM", "", "leak"] == 3


def test_two_tensors_share_the_space_of_a_copy() -> None:
    """Of 72 bits, 40 for the copy and 16 for T1, which waits: also in the given order there is a mapping."""
    result = map(load(FOUND / "copy_between_others.yaml"), "energy", orders="given", jobs=1)
    assert result.mappings[0].evaluation.peak_occupancy_bits == {"DRAM": 56}


def test_an_einsum_uses_a_tensor_and_its_copy_in_one_space() -> None:
    """T1 and its copy take 4 × 8 bits together, and a value of T2 8. Per bit: T0 and W1 are read in DRAM for 20, T3 is written for 1; in
    GLB (2) 4 values are written by E1; 2 × 8 operands read, 8 sums written and 4 read by E2; 4 read by E3; 16 operations take 5 each."""
    with pytest.warns(SpecWarning, match="Einsum T1_copy copies it"):
        spec = load(FOUND / "copy_beside_its_source.yaml")
    (mapping,) = map(spec, "energy", jobs=1).mappings
    assert mapping.evaluation.peak_occupancy_bits["GLB"] == 40
    assert mapping.energy == 8 * (20 * 8 + 1 * 4 + 2 * (4 + 16 + 8 + 4 + 4)) + 5 * 16
    assert map(spec.with_component("GLB", size=39), "energy", jobs=1).mappings[0].energy > mapping.energy
    curve = [
        (m.evaluation.peak_occupancy_bits.get("GLB", 0), m.energy) for m in map(spec, "energy", usage="GLB").mappings
    ]
    assert max(curve) == (40, mapping.energy)


def test_a_copy_is_spread_where_it_does_not_fit_at_once() -> None:
    """6 values of 8 bits in two memories of 24: three each, so that writing takes 3 × 8 / 1 s, all in one go."""
    copy = best("copy_below_a_fanout.yaml").evaluation.einsums["E0"]
    assert copy.occupancy_bits["GLB", "W0"] == 24
    assert copy.latency == 24


def persistent_source(size: str) -> Spec:
    return load_text(
        """
        arch:
          nodes:
          - !Memory {name: DRAM, size: SIZE, tensors: {keep: All}, component_class: Dummy}
          - !Compute {name: MAC, component_class: Dummy}
        workload:
          bits_per_value: {All: 8}
          rank_sizes: {K: 3}
          n_instances: 2
          persistent_tensors: A
          einsums:
          - {einsum: "T[k] = A[k]", is_copy_operation: true}
          - "Z[k] = T[k]"
    """.replace("SIZE", size)
    )


def test_a_persistent_tensor_that_only_its_copy_uses() -> None:
    """A stays with 3 × 2 × 8 bits. T lies in its space; Z takes 24 bits more."""
    (mapping,) = map(persistent_source("72"), "energy", jobs=1).mappings
    assert mapping.evaluation.peak_occupancy_bits == {"DRAM": 48 + 24}
    spec = persistent_source("71")
    with pytest.raises(NoMapping, match="DRAM"):
        map(spec, "energy", jobs=1)
