"""Architectures made of classes alone, and what other tools estimate for the same parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fusiest
from fusiest.spec.hardware.architecture import Component, flatten

EXPECTED = Path(__file__).parents[3] / "shared" / "components" / "expected_arch_costs.json"
OF_CLASSES = ("eyeriss", "simba", "nvdla", "edge_npu")


@pytest.mark.parametrize("name", OF_CLASSES)
def test_nothing_is_given_by_hand(name: str) -> None:
    """No energy, leakage or area: all of them are estimated, and every area is known."""
    spec = fusiest.load(name)
    for node in flatten(spec.require_arch().nodes):
        if isinstance(node, Component):
            assert node.component_class not in (None, "Dummy")
            assert (node.leak_power, node.area) == (None, None)
            assert all(action.energy is None for action in node.actions)
    assert spec.area
    assert spec.leak_power > 0


@pytest.mark.skipif(not EXPECTED.exists(), reason="no data beside the project: ../shared")
def test_energies_of_eyeriss() -> None:
    expected = json.loads(EXPECTED.read_text(encoding="utf-8"))["eyeriss"]["evaluated"]
    found = {one.name: one for one in fusiest.load("eyeriss").costs()}
    compared = 0
    for name, component in expected.items():
        for action, figures in component["actions"].items():
            assert found[name].actions[action].energy == pytest.approx(figures["energy_J"], rel=0.1)
            compared += 1
    assert compared == 11


def test_a_larger_buffer_costs_more() -> None:
    """The same spec with another size is estimated again."""
    spec = fusiest.load("edge_npu", "matmuls")
    larger = spec.with_component("SharedBuffer", size=8 * 8 * 1024 * 1024)
    small, large = ({one.name: one for one in s.costs()}["SharedBuffer"] for s in (spec, larger))
    assert large.actions["read"].energy > 1.1 * small.actions["read"].energy
    assert large.area is not None
    assert small.area is not None
    assert large.area > 3 * small.area
    assert larger.leak_power > spec.leak_power
