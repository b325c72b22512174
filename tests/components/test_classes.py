"""Classes as such: names, attributes, provenance, plug-ins, and the published figures that need no file."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusiest.base.errors import SpecError
from fusiest.components import (
    ActionCost,
    Attribute,
    ComponentClass,
    Figures,
    all_classes,
    built_in,
    estimate,
    find_class,
)
from fusiest.components.classes import MAX_NODE

REQUIRED: dict[str, dict[str, object]] = {
    "SRAM": {"size": 65_536, "width": 64},
    "SmartBufferSRAM": {"size": 65_536, "width": 64},
    "Register": {"width": 16},
    "DRAM": {"type": "HBM2"},
    "AdderTree": {"n_inputs": 64},
    "ADC": {"n_bits": 8, "throughput": 1e9},
    "R2RLadderDAC": {"resolution": 4, "voltage": 0.8, "unit_resistance": 5_000},
    "DualSidedR2RLadderDAC": {"resolution": 4, "voltage": 0.8, "unit_resistance": 5_000},
    "C2CLadderDAC": {"resolution": 4, "voltage": 0.8, "unit_capacitance": 2e-15},
    "C2CMultiplier": {"resolution": 4, "voltage": 0.8, "unit_capacitance": 2e-15},
    "C2CMultiplierPortB": {"resolution": 4, "voltage": 0.8, "unit_capacitance": 2e-15},
    "Capacitor": {"capacitance": 1e-15},
    "Wire": {"length": 1e-3},
    "RepeatedWire": {"length": 1e-3, "width": 64},
    "RRAMCell": {"resistance_on": 1e4, "resistance_off": 1e6, "read_voltage": 0.3, "read_pulse_width": 1e-8},
    "SRAMCimCell": {"voltage": 0.8},
    "RowDriver": {"cells": 128, "voltage": 0.8},
    "ColumnMux": {"n_inputs": 8, "voltage": 0.8},
}


@pytest.mark.parametrize("one", built_in(), ids=lambda one: one.name)
@settings(max_examples=12, deadline=None)
@given(node=st.floats(5e-9, 179.8e-9))
def test_every_class_is_continuous_in_the_node(one: ComponentClass, node: float) -> None:
    given_attributes = REQUIRED.get(one.name, {})
    if one.attribute("tech_node") is None:
        return
    here = one.estimate({**given_attributes, "tech_node": node})
    there = one.estimate({**given_attributes, "tech_node": node * 1.001})
    for name, action in here.actions.items():
        if action.energy:
            assert there.actions[name].energy == pytest.approx(action.energy, rel=0.01)
    assert there.area == pytest.approx(here.area, rel=0.01)
    assert there.leak_power == pytest.approx(here.leak_power, rel=0.01)


@pytest.mark.parametrize("one", built_in(), ids=lambda one: one.name)
def test_the_ends_of_ranges_are_in_them(one: ComponentClass) -> None:
    """However they are rounded: 180 * 1e-9 is more than 180e-9."""
    compared = 0
    for attribute in one.attributes:
        for end in (attribute.low, attribute.high):
            if attribute.choices or attribute.is_list or math.isinf(end) or end == 0 or attribute.name == "voltage":
                continue
            rest = {**REQUIRED.get(one.name, {}), **({"tech_node": 45e-9} if one.attribute("tech_node") else {})}
            exact = one.resolve({**rest, attribute.name: end})
            for near in (end * (1 + 3e-16), end * (1 - 3e-16)):
                assert one.resolve({**rest, attribute.name: near}) == exact
            compared += 1
    assert compared or one.attribute("tech_node") is None
    assert MAX_NODE < 180 * 1e-9


@pytest.mark.parametrize("one", built_in(), ids=lambda one: one.name)
def test_every_class_says_what_it_is(one: ComponentClass) -> None:
    assert one.meaning
    assert one.source
    assert one.formula
    assert one.error
    assert all(a.meaning for a in one.attributes)
    assert len({a.name for a in one.attributes}) == len(one.attributes)
    node = {"tech_node": 45e-9} if one.attribute("tech_node") is not None else {}
    found = one.estimate({**REQUIRED.get(one.name, {}), **node})
    assert list(found.actions) == list(one.actions)
    assert found.provenance.startswith(f"{found.status} by {one.name}(")


def test_names_of_classes_are_unique() -> None:
    names = [name.lower() for one in all_classes() for name in (one.name, *one.aliases)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["SmartBufferSRAM", "smartbuffer_sram", "SMART_BUFFER_SRAM"])
def test_case_and_underscores_are_ignored(name: str) -> None:
    assert find_class(name).name == "SmartBufferSRAM"


def test_an_unknown_class_is_one_line() -> None:
    with pytest.raises(SpecError, match=r"no component_class 'SmartBuferSRAM'; did you mean 'SmartBufferSRAM'\?"):
        find_class("SmartBuferSRAM")


@pytest.mark.parametrize(
    ("kind", "node", "picojoules"),
    [("int8", 45e-9, 0.2 + 0.1), ("fp16", 45e-9, 1.1 + 0.9), ("fp32", 45e-9, 3.7 + 0.9), ("int8", 7e-9, 0.07 + 0.03),
     ("bf16", 7e-9, 0.21 + 0.38), ("fp16", 7e-9, 0.34 + 0.38), ("fp32", 7e-9, 1.31 + 0.38), ("int32", 7e-9, 1.48 + 0.03)],
)  # fmt: skip
def test_mac_has_the_published_energies(kind: str, node: float, picojoules: float) -> None:
    assert estimate("MAC", format=kind, tech_node=node).actions["compute"].energy == pytest.approx(picojoules * 1e-12)


def test_wider_formats_cost_more() -> None:
    for formats in (("int4", "int8", "int16", "int32"), ("fp8", "bf16", "fp16", "fp32")):
        for node in (5e-9, 16e-9, 65e-9):
            found = [estimate("MAC", format=f, accumulate="fp32", tech_node=node) for f in formats]
            assert [f.actions["compute"].energy for f in found] == sorted(f.actions["compute"].energy for f in found)
            assert [f.area for f in found] == sorted(f.area for f in found)


def test_accumulators_by_default() -> None:
    assert estimate("MAC", format="int8", tech_node=7e-9).attributes["accumulate"] == "int32"
    assert estimate("MAC", format="bf16", tech_node=7e-9).attributes["accumulate"] == "fp32"


def test_adder_tree_is_a_sum_of_adders() -> None:
    tree = estimate("AdderTree", n_inputs=4, width=8, tech_node=40e-9)
    eight, nine = (estimate("Adder", width=width, tech_node=40e-9) for width in (8, 9))
    assert tree.actions["add"].energy == pytest.approx(2 * eight.actions["add"].energy + nine.actions["add"].energy)
    assert tree.area == pytest.approx(2 * eight.area + nine.area)
    assert estimate("AdderTree", n_inputs=1, tech_node=40e-9).area == 0


def test_an_adc_of_few_bits_says_that_it_is_extrapolated() -> None:
    few = estimate("ADC", n_bits=2, throughput=1e9, tech_node=22e-9)
    four = estimate("ADC", n_bits=4, throughput=1e9, tech_node=22e-9)
    assert few.actions == four.actions
    assert few.status == "extrapolated"
    assert four.status == "estimated"


def test_dram_can_be_overridden() -> None:
    found = estimate("LPDDR4", width=32, energy_per_bit=4e-12, rate_per_pin=1e9)
    assert found.actions["read"].energy == pytest.approx(128e-12)
    assert found.actions["read"].throughput == 1e9
    assert estimate("DRAM", type="lpddr4").actions == estimate("LPDDR4").actions


def test_an_rram_cell_is_joule_heat() -> None:
    cell = estimate(
        "RRAMCell", resistance_on=1e4, resistance_off=1e5, read_voltage=0.2, read_pulse_width=1e-8, pulse_bits=3,
        average_input=0.5, average_cell=0.25, wire_resistance=100, access_resistance=900, tech_node=130e-9,
    )  # fmt: skip
    conductance = 0.25 / 11_000 + 0.75 / 101_000
    assert cell.actions["read"].energy == pytest.approx(1e-8 * 0.04 * conductance * 0.5 * 7)
    assert cell.actions["read"].latency == pytest.approx(7e-8)


def broken(**fields: float) -> ComponentClass:
    cost = {"energy": 1.0, "throughput": 1.0, "area": 1.0, **fields}
    return ComponentClass(
        "Broken", "Tests", "a mistake", (Attribute("x", "a number", default=1.0),), ("read",), "nowhere",
        lambda attributes: Figures({"read": ActionCost(cost["energy"], cost["throughput"])}, cost["area"]),
    )  # fmt: skip


@pytest.mark.parametrize(
    "fields", [{"energy": -1.0}, {"energy": math.nan}, {"energy": math.inf}, {"throughput": 0.0}, {"area": -1.0}]
)
def test_a_class_cannot_give_impossible_figures(fields: dict[str, float]) -> None:
    with pytest.raises(SpecError, match="of Broken must be"):
        estimate(broken(**fields))


@pytest.mark.parametrize("value", [True, "one", math.nan, None, [1, 2]])
def test_a_number_must_be_one(value: object) -> None:
    with pytest.raises(SpecError, match="x of Broken must be a number"):
        estimate(broken(), x=value)
