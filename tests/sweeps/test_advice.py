"""Advice: each change's costs are those of mapping the changed design; steps of fusion add up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import fusiest
from fusiest.report import Subject, report_html
from fusiest.report.charts.waterfall import MOST_SETS, waterfall_charts
from fusiest.report.data.unfused import unfused_optimum
from fusiest.spec import architecture as arch
from fusiest.sweeps.file.component_fields import field_of, with_field
from fusiest.sweeps.runs.attempt import Outcome
from fusiest.sweeps.views.advice import Change, advice_on, binding, changes, whole_advice
from tests.load_text import load_text
from tests.report.test_page import data_of
from tests.sweeps.test_random_sweeps import Here


def test_changes_are_mapped() -> None:
    spec = fusiest.load("simple", "matmuls", M=8, KN=8, N_EINSUMS=2, GlobalBufferSize=1024)
    result = fusiest.map(spec, "edp", jobs=1)
    unfused = unfused_optimum(spec, result.options)
    assert not isinstance(unfused, str)
    heard: list[tuple[str, int]] = []
    whole = whole_advice(result, unfused, Here(), lambda what, total: heard.append((what, total)))
    found = whole.changes
    assert len(found) == len(heard) == heard[0][1]
    by_name = {(one.what, one.factor): one for one in found}
    assert {
        ("GlobalBuffer.size", 0.5),
        ("MainMemory.throughput_scale", 2.0),
        ("MAC.energy_scale", 2.0),
    } <= by_name.keys()
    assert any(one.how == "covered" for one in found)
    for change in list(changes(spec))[::3]:
        best, one = fusiest.map(change.spec, "edp", jobs=1).best(), by_name[change.what, change.factor]
        assert one.cost("edp") == pytest.approx(best.edp / result.best().edp, rel=1e-9)
    values = [one.cost("edp") for one in found]
    assert values == sorted(values, key=lambda x: (x is None, x or 0))
    binds = binding(result)
    assert sum(binds.limiting.values()) >= 1 - 1e-9
    assert all(0 <= share <= 1 for share in binds.full.values())
    steps = whole.steps
    assert sum(step.energy for step in steps) == pytest.approx(result.best().energy)
    assert sum(step.latency for step in steps) == pytest.approx(result.best().latency)
    best = result.best()
    data = data_of(report_html(Subject(result, unfused, "advice", "", whole.section())))
    assert data["changes"]["changes"][0][:3] == [found[0].what, found[0].factor, found[0].cost("edp")]
    for name, least in (("energy", best.energy), ("latency", best.latency), ("edp", best.edp)):
        bars = data["charts"][f"waterfall-{name}"]
        values = [sum(s["values"][i] or 0 for s in bars["series"]) for i in range(len(steps) + 1)]
        assert values[0] == getattr(unfused.best("edp"), name)
        ends = [start + value for start, value in zip(bars["starts"], values, strict=True)]
        assert ends[:-2] == pytest.approx(bars["starts"][1:-1])
        assert [*ends[-2:], values[-1]] == pytest.approx([least] * 3)
    without = data_of(report_html(Subject(result, unfused, "none", "")))
    assert without["changes"] is None
    assert not [name for name in without["charts"] if name.startswith("waterfall")]


@pytest.mark.parametrize(
    ("cost", "gap", "base_gap", "compared"),
    [(0.5, 0.0, 0.0, True), (1.0, 0.0, 0.0, True), (0.9, 0.2, 0.05, True), (0.9, 0.0, 0.2, False), (1.1, 0.2, 0.0, False),
     (1.1, 0.05, 0.0, True), (1.0, 0.1, 0.0, False)],
)  # fmt: skip
def test_answers_whose_gaps_overlap_are_not_compared(cost: float, gap: float, base_gap: float, compared: bool) -> None:
    """What a design may cost lies between its bound and what was found; overlapping, either may be the better one."""
    spec = fusiest.load("simple", "matmuls", M=4, KN=4, N_EINSUMS=1)
    result = fusiest.map(spec, "energy", jobs=1)
    result = replace(result, optimal=not base_gap, gap=base_gap)
    best = result.best("energy")
    outcome = Outcome("done", "", cost * best.energy, best.latency, gap)
    advice = advice_on(Change("GlobalBuffer.size", 2.0, spec), outcome, result, "searched")
    assert (advice.energy == pytest.approx(cost)) if compared else (advice.energy is None)
    assert ("gaps" in advice.how) == (not compared)


def test_a_waterfall_of_many_sets() -> None:
    """Those that change most have bars of their own, in their order; the others are one."""
    steps = [("unfused", 100.0, 1.0), *((f"E{i}", -float(i % 7), 0.0) for i in range(MOST_SETS + 10))]
    chart = waterfall_charts({"aim": "energy", "steps": steps})["waterfall-energy"]
    assert len(chart.categories) == MOST_SETS + 3
    assert chart.categories[1:3] == ["E2", "E3"]
    assert chart.categories[-2:] == ["10 others", "this mapping"]
    assert chart.starts[-2] + next(s for s in chart.series if s.name == "saved").values[-2] == pytest.approx(
        100 - sum(i % 7 for i in range(MOST_SETS + 10))
    )
    assert set(waterfall_charts({"aim": "energy", "steps": steps})) == {"waterfall-energy", "waterfall-latency"}
    assert waterfall_charts({"aim": "edp", "steps": []}) == {}


def test_estimated_figures_are_changed_too() -> None:
    text = """
arch:
  attributes: {tech_node: 22nm}
  nodes:
  - !Memory {name: DRAM, component_class: LPDDR5, size: inf, tensors: {keep: All}}
  - !Memory {name: Buffer, component_class: SRAM, size: 8 KiB, attributes: {width: 64}, tensors: {may_keep: All}}
  - !Compute {name: MAC, component_class: MAC}
"""
    spec = load_text(text + fusiest.dump(fusiest.load("matmuls", N_EINSUMS=1, M=8, KN=8)))
    found = {change.what: change for change in changes(spec) if change.factor == 2}
    assert {
        "Buffer.size",
        "DRAM.throughput_scale",
        "DRAM.energy_scale",
        "Buffer.throughput_scale",
        "MAC.throughput_scale",
        "MAC.energy_scale",
    } == found.keys() - {"Buffer.energy_scale"}
    before, after = (
        next(p for p in s.costs() if p.name == "DRAM").actions["read"]
        for s in (spec, found["DRAM.throughput_scale"].spec)
    )
    assert after.throughput == pytest.approx(2 * before.throughput)
    assert after.energy == before.energy


ARRAY = """
arch:
  variables: {cols: 4, odd: 3}
  nodes:
  - !Memory
    {name: DRAM, size: inf, tensors: {keep: All}, leak_power: 0, area: 0,
     actions: [{name: read, energy: 8, throughput: 1}, {name: write, energy: 8, throughput: 1}]}
  - !Container {name: PE, spatial: [{name: X, fanout: cols}, {name: Y, fanout: 2 * 2}, {name: Z, fanout: odd}, {name: W, fanout: 6}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""


def test_fanouts_as_expressions_are_changed(tmp_path: Path) -> None:
    """As those that are numbers: halved where that is whole."""
    spec = load_text(ARRAY + fusiest.dump(fusiest.load("matmuls", N_EINSUMS=1, M=8, KN=8)))
    found = [(change.what, change.factor) for change in changes(spec) if "fanout" in change.what]
    names = ["PE.X.fanout", "PE.Y.fanout", "PE.Z.fanout", "PE.W.fanout"]
    assert found == [*((n, 0.5) for n in names if n != "PE.Z.fanout"), *((n, 2.0) for n in names)]
    by_name = {(change.what, change.factor): change.spec for change in changes(spec)}
    for name, size in (("PE.X.fanout", 8), ("PE.Y.fanout", 8), ("PE.Z.fanout", 6), ("PE.W.fanout", 12)):
        node = next(n for n in arch.flatten(spec.arch.nodes) if n.name == "PE")
        spatial = tuple(replace(d, fanout=size) if name == f"PE.{d.name}.fanout" else d for d in node.spatial)
        whole = fusiest.map(spec.with_component("PE", spatial=spatial), "latency", jobs=1)
        assert fusiest.map(by_name[name, 2.0], "latency", jobs=1).best().latency == whole.best().latency


def test_advice_names_what_a_sweep_takes() -> None:
    """Every change is a parameter's name that a sweep file accepts."""
    spec = load_text(ARRAY + fusiest.dump(fusiest.load("matmuls", N_EINSUMS=1, M=8, KN=8)))
    for what in dict.fromkeys(change.what for change in changes(spec)):
        assert with_field(spec, what, field_of(spec, what)) == spec
