"""The simulator against published numbers, hand-made LoopTrees, and what the Einsums themselves compute."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given

import fusiest
from fusiest.spec.hardware.binding import bind
from fusiest.spec.spec import Spec
from tests.model.test_model_vs_simulator import run
from tests.reference.late import most_held
from tests.reference.nest import nests, size
from tests.reference.occupancy import reservations
from tests.reference.simulator import Simulation, simulate
from tests.strategies import Case, cases

GOLDEN = Path(__file__).parents[2].parent / "shared" / "golden"
CASES = sorted(GOLDEN.glob("cases/*.yaml"))
INVALID = ("26", "27")

OURS: dict[str, dict[str, float]] = {
    "11": {"Buf/A/read": 1120, "Buf/B/read": 1120},
    "12": {"temporal_steps": 16},
    "28": {
        "DRAM/I/read": 768, "Buf/I/write": 768, "Buf/I/read": 672, "DRAM/W/read": 192, "Buf/W/write": 192,
    },
}  # fmt: skip
"""Remainder tiles counted as they are: where golden/README.md differs from the vectors on purpose."""


@pytest.mark.skipif(not CASES, reason="no data beside the project: ../shared")
@pytest.mark.parametrize("path", [c for c in CASES if c.name[:2] not in INVALID], ids=lambda path: path.stem)
def test_golden(path: Path) -> None:
    spec = fusiest.load(str(path))
    vector = json.loads((GOLDEN / "vectors" / f"{path.stem}.json").read_text())
    assert spec.mapping is not None
    simulation = simulate(spec, spec.mapping)
    assert simulation.wrong_tensors == ()
    ours = OURS.get(path.name[:2], {})
    for name, expected in vector["einsums"].items():
        simulated = simulation.einsums[name]
        assert simulated.steps == ours.get("temporal_steps", expected["compute"]["temporal_steps"])
        for key, count in expected["actions_total"].items():
            component, tensor, action = key.split("/")
            found = simulated.actions.get((component, "" if action == "compute" else tensor, action), 0)
            assert found == pytest.approx(ours.get(key, count), rel=1e-6), key
        for key, buffet in expected["per_buffet"].items():
            memory, tensor = key.split("/")
            if (memory, tensor) in simulated.occupancy_bits:
                persistent = buffet["loops_above_reservation"] == -1
                instances = spec.info.einsums[name].n_instances if persistent else 1
                assert simulated.occupancy_bits[memory, tensor] == pytest.approx(buffet["reserved_bits"] * instances)
                assert simulated.reservation_levels[memory, tensor] == buffet["loops_above_reservation"]
    _check_peaks(spec, simulation, vector["peak_reservation_fraction"])


def _check_peaks(spec: Spec, simulation: Simulation, fractions: dict[str, float]) -> None:
    path = bind(spec, next(iter(spec.info.einsums)), "MAC")
    for memory, fraction in fractions.items():
        component = path.component(memory)
        assert component is not None
        assert simulation.peak_occupancy_bits[memory] / component.size == pytest.approx(fraction, rel=1e-6)


@run
@given(cases(max_einsums=2))
def test_reservations_are_large_enough(case: Case) -> None:
    """What a holder must keep at any moment, if all is fetched as late as possible, fits its reservation."""
    laid_out = nests(case.spec, case.tree)
    for nest in laid_out:
        if not nest.info.is_copy_operation:
            for reserved in reservations(nest, laid_out):
                room = max(size(box) for tiles in reserved.tiles.values() for box in tiles.values())
                assert most_held(nest, reserved.tensor)[reserved.memory] <= room


ARCH = """
arch:
  nodes:
  - !Memory {name: DRAM, component_class: Dummy, size: inf}
  - !Memory {name: GLB, component_class: Dummy, size: inf}
  - !Compute {name: MAC, component_class: Dummy}
"""


def load(tmp_path: Path, text: str) -> Spec:
    file = tmp_path / "case.yaml"
    file.write_text(ARCH + text)
    return fusiest.load(str(file))


def test_a_sliding_window_keeps_its_halo(tmp_path: Path) -> None:
    spec = load(
        tmp_path,
        """
workload:
  iteration_space_shape: {p: 0 <= p < 8, r: 0 <= r < 3}
  bits_per_value: {All: 1}
  einsums:
  - {name: O, tensor_accesses: [{name: I, projection: {H: p+r}}, {name: W, projection: [r]}, {name: O, projection: [p], output: True}]}
mapping:
  nodes:
  - !Storage {tensors: [I, W, O], component: DRAM}
  - !Storage {tensors: [I], component: GLB}
  - !Temporal {rank_variable: p, tile_shape: 2}
  - !Temporal {rank_variable: r, tile_shape: 1}
  - !Temporal {rank_variable: p, tile_shape: 1}
  - !Compute {einsum: O, component: MAC}
""",
    )
    assert spec.mapping is not None
    simulated = simulate(spec, spec.mapping).einsums["O"]
    assert simulated.actions["DRAM", "I", "read"] == 10
    assert simulated.occupancy_bits["GLB", "I"] == 4
    assert most_held(nests(spec, spec.mapping)[0], "I")["GLB"] <= 4


def test_using_a_result_half_done_gives_wrong_numbers(tmp_path: Path) -> None:
    """The loop over m is shared because A is exchanged below it; but S is complete only when m is over."""
    spec = load(
        tmp_path,
        """
workload:
  iteration_space_shape: {m: 0 <= m < 4, k: 0 <= k < 3}
  bits_per_value: {All: 8}
  einsums:
  - {name: Sum, tensor_accesses: [{name: A, projection: [m, k]}, {name: S, projection: [k], output: True}]}
  - {name: Scale, tensor_accesses: [{name: A, projection: [m, k]}, {name: S, projection: [k]}, {name: Z, projection: [m, k], output: True}]}
mapping:
  nodes:
  - !Storage {tensors: [S, Z], component: DRAM}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Storage {tensors: [A], component: GLB}
  - !Sequential
    nodes:
    - !Nested
      nodes:
      - !Temporal {rank_variable: k, tile_shape: 1}
      - !Compute {einsum: Sum, component: MAC}
    - !Nested
      nodes:
      - !Temporal {rank_variable: k, tile_shape: 1}
      - !Compute {einsum: Scale, component: MAC}
""",
    )
    assert spec.mapping is not None
    assert simulate(spec, spec.mapping).wrong_tensors == ("Z",)
