"""The report's component costs: the figures of `spec.costs()`, each with where it comes from."""

from __future__ import annotations

import functools
import math

import pytest

import fusiest
from fusiest.report import report_html, subject_of
from fusiest.report.data.component_costs import cost_section
from fusiest.spec import Spec
from tests.report.test_page import data_of

SIZES = {"N_EINSUMS": 2, "M": 64, "KN": 64}


@functools.cache
def npu() -> Spec:
    """Made of classes, but for one area."""
    return fusiest.load("edge_npu", "matmuls", **SIZES).with_component("LocalBuffer", area=1e-7)


def test_the_page_has_the_figures_of_the_spec() -> None:
    result = fusiest.map(npu(), "energy", jobs=1, progress=False)
    section = data_of(report_html(subject_of(result, unfused=False)))["component_costs"]
    costs = npu().costs()
    assert len(costs) == 7
    for row, one in zip(section["rows"], costs, strict=True):
        assert (row["name"], row["class"], row["count"]) == (one.name, one.component_class, one.count)
        assert (row["area"], row["total_area"]) == (one.area, one.total_area)
        assert (row["leak_power"], row["total_leak_power"]) == (one.leak_power, one.total_leak_power)
        for name, action in one.actions.items():
            shown = row["actions"][name]
            assert (shown["energy"], shown["energy_per_bit"]) == (action.energy, action.energy_per_bit)
            assert float(shown["throughput"]) == action.throughput
    assert math.isclose(section["area"], npu().area or 0.0)
    assert math.isclose(section["leak_power"], npu().leak_power)
    assert section["area_unknown"] == []


def test_where_figures_come_from() -> None:
    section = cost_section(npu())
    assert section is not None
    words = {row["name"]: row["source"] for row in section["rows"]}
    assert words == {
        "MainMemory": "assumed",
        "SharedBuffer": "extrapolated",
        "Link": "extrapolated",
        "LocalBuffer": "extrapolated; given: area",
        "VectorUnit": "assumed",
        "Register": "estimated",
        "MAC": "assumed",
    }
    sources = dict(section["sources"])
    (text,) = sources["SharedBuffer"]
    assert text.startswith("extrapolated by SRAM(size=16777216, width=512, n_banks=16,")
    assert "CACTI 7" in text
    assert list(sources) == list(words)


@pytest.mark.parametrize(("component", "figures"), [("GlobalBuffer", {"area": 2e-6}), ("MAC", {"leak_power": 1e-3})])
def test_only_where_it_says_something(component: str, figures: dict[str, float]) -> None:
    plain = fusiest.load("simple", "matmuls", **SIZES)
    assert cost_section(plain) is None
    section = cost_section(plain.with_component(component, **figures))
    assert section is not None
    assert section["sources"] == []
    assert {row["source"].split(";")[0] for row in section["rows"]} == {"given"}
    assert (section["area"], section["leak_power"]) == (figures.get("area", 0), figures.get("leak_power", 0))
