"""Tensors that are used before they are finished: their costs, and the warnings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fusiest
from fusiest.reference.simulator import simulate
from tests.command_line import run
from tests.model.test_model_vs_simulator import check_costs

Capture = pytest.CaptureFixture[str]

SPEC = """
arch:
  nodes:
  - !Memory
    name: DRAM
    size: inf
    component_class: Dummy
    tensors: {keep: All}
    actions: [{name: read, energy: 20, throughput: inf}, {name: write, energy: 20, throughput: inf}]
  - !Memory
    name: GLB
    size: inf
    component_class: Dummy
    tensors: {keep: All}
    actions: [{name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 1, throughput: 1}]}
workload:
  iteration_space_shape: {m: 0 <= m < 4, k: 0 <= k < 3}
  bits_per_value: {All: 8}
  einsums:
  - {name: Sum, tensor_accesses: [{name: A, projection: [m, k]}, {name: S, projection: RANKS, output: true}]}
  - name: Scale
    tensor_accesses:
    - {name: A, projection: [m, k]}
    - {name: S, projection: RANKS}
    - {name: Z, projection: [m, k], output: true}
mapping:
  nodes:
  - !Storage {tensors: [Z], component: DRAM}
  - !Storage {tensors: [S], component: DRAM}
  COPY
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Storage {tensors: [A], component: GLB}
  - !Sequential
    nodes:
    - !Nested {nodes: [!Temporal {rank_variable: k, tile_shape: 1}, !Compute {einsum: Sum, component: MAC}]}
    - !Nested {nodes: [!Temporal {rank_variable: k, tile_shape: 1}, !Compute {einsum: Scale, component: MAC}]}
"""
"""The loop over m is common, as A is exchanged below it; S is summed up over m, or has a row for each."""
COPY = "- !Storage {tensors: [S], component: GLB}"


def written(folder: Path, ranks: str, copy: str = "") -> str:
    path = folder / "scale.yaml"
    path.write_text(SPEC.replace("RANKS", ranks).replace("COPY", copy))
    return str(path)


@pytest.mark.parametrize(
    ("ranks", "copy", "line", "reason"),
    [
        ("[k]", "", 30, "they share the loop over m (tile 1), which does not step one rank of S in both; hold S below"),
        ("[m]", COPY, 31, "Einsum Sum holds it in GLB above the loop over m (tile 1), through which it is exchanged"),
    ],
)
def test_costs_and_a_warning(ranks: str, copy: str, line: int, reason: str, tmp_path: Path, capsys: Capture) -> None:
    file = written(tmp_path, ranks, copy)
    status, out, err = run(capsys, "evaluate", file, file, file, "--json", str(tmp_path / "evaluation.json"))
    begin = "Einsum Scale uses S before Einsum Sum has finished it: "
    assert status == 0
    assert err.startswith(f"{file}:{line}: warning: {begin}{reason}")
    assert err.endswith(", or split above it\n")
    assert err.count("\n") == 1
    assert "warnings  1" in out
    saved = json.loads((tmp_path / "evaluation.json").read_text())
    assert len(saved["warnings"]) == 1
    assert saved["warnings"][0].startswith(begin + reason)
    spec = fusiest.load(file)
    assert spec.mapping is not None
    evaluation = fusiest.evaluate(spec)
    assert evaluation.warnings == tuple(saved["warnings"])
    assert evaluation.energy == saved["energy"] > 0
    check_costs(evaluation, simulate(spec, spec.mapping))


def test_no_warning_where_pieces_are_finished(tmp_path: Path, capsys: Capture) -> None:
    """Each turn makes one row of S and uses that row alone."""
    file = written(tmp_path, "[m]")
    status, out, err = run(capsys, "evaluate", file, file, file)
    assert (status, err) == (0, "")
    assert "warning" not in out
    spec = fusiest.load(file)
    assert spec.mapping is not None
    assert fusiest.evaluate(spec).warnings == simulate(spec, spec.mapping).wrong_tensors == ()


def test_a_tensor_in_two_places_is_still_an_error(tmp_path: Path, capsys: Capture) -> None:
    file = written(tmp_path, "[m]")
    text = Path(file).read_text().replace("  - !Storage {tensors: [S], component: DRAM}\n", "")
    inside = "!Storage {tensors: [S], component: GLB}, "
    Path(file).write_text(text.replace("nodes: [!Temporal", f"nodes: [{inside}!Temporal"))
    status, _, err = run(capsys, "evaluate", file, file, file)
    assert status == 2
    assert "share tensor S but hold it outermost in different places" in err
