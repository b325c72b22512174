"""Tolls charge what comes through them, and inputs held below a fanout may be there once per instance."""

from __future__ import annotations

from pathlib import Path

import pytest

import fusiest
from fusiest import SpecError
from tests.load_text import load_text
from tests.reference.exhaustive_workload import exhaustive_front
from tests.reference.simulator import simulate
from tests.values import check_values

LINK = """
arch:
  nodes:
  - !Memory
    name: DRAM
    size: inf
    tensors: {keep: ~Intermediates, may_keep: All}
    component_class: Dummy
    actions: [{name: read, energy: 50, bits_per_action: 8}, {name: write, energy: 50, bits_per_action: 8}]
  - !Toll
    name: Link
    direction: up_and_down
    tensors: {keep: KEPT}
    component_class: Dummy
    actions: [{name: read, energy: 1, bits_per_action: 8}]
  - !Memory {name: GLB, size: 3 * 8 * 64 * 64, tensors: {keep: All}, component_class: Dummy}
  - !Compute {name: MAC, component_class: Dummy}
"""


def mapped(spec: fusiest.Spec, objective: str) -> fusiest.Mapping:
    result = fusiest.map(spec, objective=objective, windows="none")
    assert result.optimal
    return result.best(objective)


@pytest.mark.parametrize(("kept", "link"), [("All", 4), ("T0 | T1 | T2", 2), ("Nothing", 0)])
def test_a_link_charges_what_comes_through_it(tmp_path: Path, kept: str, link: int) -> None:
    """`keep: All` of a Toll says nothing of a tensor that stays below it: the intermediate is fused, and never passes."""
    file = tmp_path / "link.yaml"
    file.write_text(LINK.replace("KEPT", kept))
    spec = fusiest.load(file, "matmuls", N_EINSUMS=2, M=64, KN=64)
    best = mapped(spec, "energy")
    assert best.energy == (4 * 50 + link) * 64 * 64
    assert {c for e in best.evaluation.einsums.values() for c, t, _ in e.actions if t == "T1"} == {"GLB"}


MACROS = """
arch:
  nodes:
  - !Memory {name: Buffer, size: inf, tensors: {keep: ~W}, component_class: Dummy, actions: [{name: read, energy: 1}]}
  - !Memory
    name: Macro
    spatial: [{name: X, fanout: 4}]
    size: SIZE
    tensors: {keep: W}
    component_class: Dummy
    actions: [{name: read, energy: 1}]
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, throughput: 1}]}
workload:
  rank_sizes: {M: 16, P: 4, I: 6, K: 3, N: 2}
  bits_per_value: {All: 8}
  einsums: [{einsum: "EINSUM"}]
"""


def macros(einsum: str, size: int) -> fusiest.Spec:
    return load_text(MACROS.replace("EINSUM", einsum).replace("SIZE", str(size)))


@pytest.mark.parametrize(
    ("einsum", "size", "seconds"),
    [
        ("Z[m] = A[m] * W[]", 8, 4),  # W four times
        ("Z[m, n] = A[m] * W[n]", 8 * 2, 8),
        ("Z[m, n] = A[m] * W[n]", 8, 8),  # no room for W whole: each half twice
        ("Z[p] = B[k] * W[I: p + k]", 8 * 3, 3),  # windows overlap
    ],
)
def test_inputs_below_a_fanout_are_there_once_per_instance(einsum: str, size: int, seconds: float) -> None:
    spec = macros(einsum, size)
    best = mapped(spec, "latency")
    assert best.latency == seconds
    assert best.evaluation.peak_occupancy_bits["Macro"] <= size
    check_values(spec, [best])
    assert min(m.latency for m in exhaustive_front(spec)) == seconds


def test_what_others_make_or_use_is_not_replicated() -> None:
    """It would have to be computed several times, or be found where another Einsum did not put it."""
    spec = macros('Y[m] = A[m] * W[]"}, {einsum: "Z[m] = Y[m] * W[] * B[m]', 8)
    assert {name: set(info.replicable) for name, info in spec.info.einsums.items()} == {"Y": {"A"}, "Z": {"B"}}
    assert mapped(spec, "latency").latency == 32


TREE = """
mapping:
  nodes:
  - !Storage {tensors: [A, Z], component: Buffer}
  - !Storage {tensors: [W], component: Macro}
  - !Temporal {rank_variable: m, tile_shape: 4}
  - !Spatial {rank_variable: m, tile_shape: 1, component: Macro, name: X}
  - !Compute {einsum: Z, component: MAC}
"""


def test_a_mapping_by_hand() -> None:
    """W is in four macros, is read there 4 times in each, and was never fetched."""
    spec = macros("Z[m] = A[m] * W[]", 8)
    tree = load_text(TREE).mapping
    assert tree is not None
    evaluation = fusiest.evaluate(spec, tree)
    assert evaluation.latency == 4
    assert evaluation.einsums["Z"].actions["Macro", "W", "read"] == 16 * 8
    assert evaluation.einsums["Z"].actions["Macro", "W", "write"] == 0
    assert evaluation.einsums["Z"].per_unit["Macro", "W", "read"] == 4 * 8
    assert evaluation.peak_occupancy_bits["Macro"] == 8
    assert simulate(spec, tree).wrong_tensors == ()


def test_a_loop_in_time_does_not_replicate() -> None:
    nodes = TREE.splitlines(keepends=True)
    nodes[4], nodes[5] = nodes[5], nodes[4]
    tree = load_text("".join(nodes)).mapping
    assert tree is not None
    with pytest.raises(SpecError, match="W would be recomputed"):
        fusiest.evaluate(macros("Z[m] = A[m] * W[]", 8), tree)


def test_outputs_are_not_replicated() -> None:
    """Partial sums in four places would never be added up."""
    text = MACROS.replace("keep: ~W", "keep: ~Z").replace("keep: W", "keep: Z").replace("SIZE", "8")
    best = mapped(load_text(text.replace("EINSUM", "Z[] = A[m] * W[m]")), "latency")
    assert best.latency == 16
