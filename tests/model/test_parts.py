"""A tensor that two Einsums make: its space is there for both parts, and nobody reads it before both are made."""

from __future__ import annotations

import fusiest
from fusiest.spec.reading.loading import load_texts
from tests.model.test_model_vs_simulator import check_costs
from tests.reference.simulator import simulate

WORKLOAD = """
workload:
  bits_per_value: 8
  rank_sizes: {M: 4, D: 2, C: 6, N: 3, C1: 4, C2: 2}
  einsums:
  - {name: A, einsum: "T[m, C: c1] = X[m, d] * W1[d, c1]"}
  - {name: B, einsum: "T[m, C: c2 + 4] = X[m, d] * W2[d, c2]"}
  - "Y[m, n] = T[m, c] * W3[c, n]"
"""


def evaluated(nodes: str) -> tuple[fusiest.Evaluation, tuple[str, ...]]:
    """The model's evaluation, after the simulator has agreed, and tensors with wrong values."""
    spec = fusiest.load("simple", load_texts({"w.yaml": WORKLOAD + nodes}, {}))
    assert spec.mapping is not None
    evaluation, simulation = fusiest.evaluate(spec), simulate(spec, spec.mapping)
    check_costs(evaluation, simulation)
    return evaluation, simulation.wrong_tensors


def mapping(top: str, a: str, b: str, y: str) -> str:
    branches = "".join(
        f"    - !Nested\n      nodes: [{loops}, !Compute {{einsum: {einsum}, component: MAC}}]\n"
        for einsum, loops in (("A", a), ("B", b), ("Y", y))
    )
    held = "!Storage {tensors: [X, W1, W2, W3, Y], component: MainMemory}"
    return f"mapping:\n  nodes:\n  - {held}\n{top}  - !Sequential\n    nodes:\n{branches}"


def loop(*variables: str) -> str:
    return ", ".join(f"!Temporal {{rank_variable: {v}, tile_shape: 1}}" for v in variables)


def test_both_parts_have_room_from_the_first_on() -> None:
    top = "  - !Storage {tensors: [T], component: GlobalBuffer}\n"
    found, wrong = evaluated(mapping(top, loop("m", "d", "c1"), loop("m", "d", "c2"), loop("m", "n", "c")))
    assert wrong == found.warnings == ()
    assert [e.occupancy_bits["GlobalBuffer", "T"] for e in found.einsums.values()] == [4 * 6 * 8] * 3
    assert found.einsums["B"].actions["GlobalBuffer", "T", "write"] == 4 * 2 * 2 * 8
    assert found.peak_occupancy_bits["GlobalBuffer"] == 4 * 6 * 8


def test_fused_under_a_loop_that_does_not_step_the_shared_out_rank() -> None:
    top = "  - !Temporal {rank_variable: m, tile_shape: 1}\n  - !Storage {tensors: [T], component: GlobalBuffer}\n"
    found, wrong = evaluated(mapping(top, loop("d", "c1"), loop("d", "c2"), loop("n", "c")))
    assert wrong == found.warnings == ()
    assert found.peak_occupancy_bits["GlobalBuffer"] == 6 * 8


CHAINED = """
workload:
  bits_per_value: 8
  rank_sizes: {M: 4, C1: 3, C2: 3, C3: 3}
  einsums:
  - {name: V, einsum: "V[m, c1] = X[m, c1]"}
  - {name: A, einsum: "T[m, C: c1] = V[m, c1] * W1[c1]"}
  - {name: B, einsum: "T[m, C: c2 + 3] = V[m, C1: c2] * W2[c2]"}
  - {name: Y, einsum: "Y[m, c3] = T[m, C: %s] * V[m, C1: c3]"}
"""


TREE = """
mapping:
  nodes:
  - !Storage {tensors: [X, W1, W2, Y], component: MainMemory}
  - !Storage {tensors: [T], component: GlobalBuffer}
  - !Temporal {rank_variable: {A: c1, B: c2, V: c1, Y: c3}, tile_shape: 1}
  - !Storage {tensors: [V], component: GlobalBuffer}
  - !Sequential
    nodes:
"""


def chained(index: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A loop over thirds of the parts, in which V is exchanged: warnings, and tensors with wrong values."""
    branches = (f"    - !Nested {{nodes: [{loop('m')}, !Compute {{einsum: {e}, component: MAC}}]}}\n" for e in "VABY")
    spec = fusiest.load("simple", load_texts({"w.yaml": CHAINED % index + TREE + "".join(branches)}, {}))
    assert spec.mapping is not None
    return fusiest.evaluate(spec).warnings, simulate(spec, spec.mapping).wrong_tensors


def test_a_reader_must_not_get_ahead_of_any_producer() -> None:
    """In turn 0, 1, 2, parts 0 to 2 and 3 to 5 are made by one index each."""
    assert chained("c3") == ((), ())
    for index in ("2*c3", "5 - c3", "c3 + 1"):
        warnings, wrong = chained(index)
        assert "before Einsum" in warnings[0]
        assert wrong == ("Y",)
