"""Depth-first dataflows: windows counted by hand for all tiles, values by the simulator, and what cannot be a stack."""

from __future__ import annotations

import pytest

from fusiest import load, map
from fusiest.base.errors import FusiestError, SpecError
from fusiest.looptree import Compute, Temporal
from fusiest.mapper.stacks.depth_first import stack_tree
from fusiest.mapper.stacks.layer_nests import LayerNest
from fusiest.mapper.stacks.stack_plans import image_variables, plans_of_stack
from fusiest.model import Evaluation, evaluate
from fusiest.spec import DepthFirst, Spec, dump
from tests.command_line import run
from tests.load_text import load_text
from tests.reference import simulate

MODES = {
    "fused-layer": ("recomputed", "recomputed"),
    "defines-recompute": ("recomputed", "recomputed"),
    "defines-h-cached": ("recomputed", "retained"),
    "defines-cached": ("retained", "retained"),
}
ARCHITECTURE = """
arch:
  nodes:
  - !Memory {name: Far, size: inf, tensors: {keep: ~Intermediates, may_keep: All}, leak_power: 0, area: 0,
      actions: [{name: read, energy: 100, throughput: 1}, {name: write, energy: 100, throughput: 1}]}
  - !Memory {name: Near, size: %d, tensors: {keep: ~Far, may_keep: All}, leak_power: 0, area: 0,
      actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""
ROWS = """
workload:
  iteration_space_shape:
    p: 0 <= p < 8
    r: 0 <= r < 3
  bits_per_value: {All: 1}
  einsums: ["A[p] = x[H: p + r - 1] * WA[r]", "B[p] = A[P: p + r - 1] * WB[r]"]
"""
IMAGE = """
workload:
  iteration_space_shape:
    p: 0 <= p < 4
    q: 0 <= q < 6
    y: 0 <= y < 2
    z: 0 <= z < 3
    r: 0 <= r < 3
    s: 0 <= s < 3
    u: 0 <= u < 2
    v: 0 <= v < 2
  bits_per_value: {All: 1}
  einsums:
  - "A[p, q] = x[H: p + r - 1, W: q + s - 1] * WA[r, s]"
  - "B[p, q] = A[P: p + r - 1, Q: q + s - 1] * WB[r, s]"
  - "C[y, z] = max(B[P: 2*y + u, Q: 2*z + v])"
"""


def spec_of(workload: str, dataflow: str, size: int = 10_000) -> Spec:
    return load(load_text(ARCHITECTURE % size + workload), dataflow)


def products(cost: Evaluation, einsum: str) -> float:
    """How many an Einsum computes, those included that it computes again."""
    return sum(n for (component, _, _), n in cost.einsums[einsum].actions.items() if component == "MAC")


@pytest.mark.parametrize("overlap", ["recomputed", "retained"])
def test_all_tiles_of_two_layers_by_hand(overlap: str) -> None:
    """Rows that A makes, and room for them: t + 2 of 8 rows for each t rows of B, one less at the borders."""
    spec = spec_of(ROWS, "fused-layer")
    flow = DepthFirst(stacks="one", rows=overlap, columns=overlap)
    found = {}
    for plan in plans_of_stack(spec, ("A", "B"), flow, image_variables(spec)):
        if plan.loops:
            line = plan.loops[0].plan.tiling("A")
            tile = plan.loops[0].plan.tiles["B"].length
            lengths = line.lengths(8, 8 // tile)
            found[tile] = (sum(n * length for length, n in lengths.items()), plan.above["A"])
    again = {1: 2 + 6 * 3 + 2, 2: 3 + 4 + 4 + 3, 4: 5 + 5}
    assert found == {t: (again[t], 1) if overlap == "recomputed" else (8, 0) for t in (1, 2, 4)}


@pytest.mark.parametrize("overlap", ["recomputed", "retained"])
def test_costs_of_two_layers_by_hand(overlap: str) -> None:
    """Least energy where all of A (8) does not fit with a window of x (3): each row of A or B takes three products."""
    spec = load(load_text(ARCHITECTURE % 10 + ROWS), "fused-layer", OVERLAP=overlap)
    best = map(spec, "energy", jobs=1).best("energy")
    assert simulate(spec, best.looptree).wrong_tensors == ()
    assert products(best.evaluation, "B") == 24
    assert products(best.evaluation, "A") == (24 if overlap == "retained" else 3 * (5 + 5))
    moved: dict[str, float] = {}
    for (memory, tensor, _), n in (pair for e in best.evaluation.einsums.values() for pair in e.actions.items()):
        if memory == "Far":
            moved[tensor] = moved.get(tensor, 0) + n
    assert "A" not in moved
    assert moved["B"] == 8
    # Padding is read, too: 10 rows of x. Two tiles of 4 rows need 5 of A each, and those 7 of x; only that fits again.
    assert moved["x"] == (10 if overlap == "retained" else 7 + 7)


@pytest.mark.parametrize("dataflow", MODES)
def test_values_of_every_tile(dataflow: str) -> None:
    """Rows and columns with padding, and a pooling whose windows do not overlap: what is made is right, whatever the tiles."""
    spec = spec_of(IMAGE, dataflow)
    assert spec.dataflow is not None
    assert spec.dataflow.depth_first is not None
    flow = spec.dataflow.depth_first
    assert (flow.rows, flow.columns) == MODES[dataflow]
    names = ("A", "B", "C")
    compared = 0
    loops = {n: [Temporal(rank_variable=v, tile_shape=1) for v in spec.info.einsums[n].bounds] for n in names}
    for plan in plans_of_stack(spec, names, flow, image_variables(spec)):
        nests = [LayerNest((*loops[name], Compute(einsum=name, component="MAC")), ()) for name in names]
        tree = stack_tree(spec, plan, "Near", nests)
        cost = evaluate(spec, tree)
        simulation = simulate(spec, tree)
        assert not cost.warnings
        assert simulation.wrong_tensors == ()
        made = {name: products(cost, name) / 9 for name in "AB"}
        if "recomputed" not in MODES[dataflow]:
            assert (made["A"], made["B"]) == (24, 24)
        else:
            assert made["A"] >= made["B"] == 24
        compared += 1
    assert compared == 4  # rows in one tile or two, columns in one or three


def test_what_is_no_stack(capsys: pytest.CaptureFixture[str]) -> None:
    matmuls = ("map", "simple", "matmuls", "-D", "M=16", "-D", "KN=16", "--quiet")
    status, _, err = run(capsys, *matmuls, "--dataflow", "fused-layer")
    assert (status, err.count("\n")) == (3, 1)
    assert "cannot be one stack" in err
    status, out, _ = run(capsys, *matmuls, "--dataflow", "defines-cached")
    assert (status, "nothing is fused" in out) == (0, True)
    with pytest.raises(FusiestError, match="no tile of this dataflow fits"):
        map(spec_of(ROWS, "fused-layer", size=3), jobs=1)
    with pytest.raises(SpecError, match="leave out usage"):
        map(spec_of(ROWS, "fused-layer"), usage="Near", jobs=1)
    with pytest.raises(SpecError, match="rows 'retaind' is none of retained, recomputed"):
        load_text("dataflow: {depth_first: {rows: retaind, columns: retained}}")


def test_a_depth_first_dataflow_survives_dump() -> None:
    spec = load("simple", "vgg_e", "fused-layer", OVERLAP="retained")
    assert load_text(dump(spec)) == spec
    assert spec.dataflow is not None
    assert spec.dataflow.depth_first is not None
    assert spec.dataflow.depth_first.rows == "retained"
