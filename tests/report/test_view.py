"""Everything that a report says of a mapping adds up to what the model says, on random specs and mappings."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, given, settings

import fusiest
from fusiest.mapper.results.result import Mapping, Result, Stats
from fusiest.model.evaluate import take_apart
from fusiest.model.fusion import backing_memories
from fusiest.report import Subject, subject_of
from fusiest.report.charts.chart import Bars, Chart, Graph, Heat
from fusiest.report.data.background import Background
from fusiest.report.data.limits import limits, rates, traffic_bits
from fusiest.report.data.machine import Machine
from fusiest.report.data.view import mapping_charts, mapping_view
from fusiest.report.data.whole import page_data, views
from fusiest.report.page import json_text
from tests.reference.nest import nests
from tests.reference.occupancy import peaks
from tests.report.subjects import gpt3, tradeoff
from tests.strategies import Case, cases

run = settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))


def total(values: Iterable[float | None]) -> float:
    return math.fsum(v or 0 for v in values)


def height(chart: Chart | None) -> float:
    """The length of all bars together; a chart without any is left out."""
    assert chart is None or isinstance(chart, Bars)
    return total(v for s in chart.series for v in s.values) if chart else 0.0


def close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-18)


@run
@given(cases())
def test_everything_adds_up(case: Case) -> None:
    spec, background = case.spec, Background(case.spec)
    evaluation, parts = fusiest.evaluate(spec, case.tree), take_apart(spec, case.tree)
    view = mapping_view(background, case.tree, evaluation)
    charts = mapping_charts(background, case.tree, evaluation)

    for name in ("energy-component", "energy-tensor", "energy-einsum"):
        assert close(height(charts.get(name)), evaluation.energy), name

    rows = [row for row in view["tree"] if row["kind"] in ("storage", "toll", "compute")]
    assert close(total(row["energy"] for row in rows), evaluation.dynamic_energy)
    outer = background.machine.outermost
    moved = total(row["moved"] for row in rows if row.get("component") in outer and "moved" in row)
    assert close(moved, total(traffic_bits(parts, evaluation, outer).values()))
    assert close(total(s["moved"] for s in view["sets"]), moved)
    assert close(total(s["energy"] for s in view["sets"]), evaluation.energy)

    latency = charts.get("latency-einsum")
    assert close(height(latency), evaluation.latency)
    if latency is None:
        return
    assert isinstance(latency, Bars)
    for einsum, limiting in zip(latency.categories, latency.ends, strict=True):
        busy = evaluation.einsums[einsum].latency_per_component
        assert (limiting == "") == (evaluation.einsums[einsum].latency == 0)
        assert not limiting or busy[limiting] == evaluation.einsums[einsum].latency


@run
@given(cases())
def test_memory_over_time_is_what_the_simulator_sees(case: Case) -> None:
    evaluation = fusiest.evaluate(case.spec, case.tree)
    charts = mapping_charts(Background(case.spec), case.tree, evaluation)
    simulated = peaks(nests(case.spec, case.tree))
    shown = {name.removeprefix("memory-"): c for name, c in charts.items() if name.startswith("memory-")}
    assert shown.keys() == evaluation.peak_occupancy_bits.keys()
    for memory, chart in shown.items():
        assert isinstance(chart, Bars)
        stacks = [total(s.values[i] for s in chart.series) * 8 for i in range(len(chart.categories))]
        assert close(max(stacks), evaluation.peak_occupancy_bits[memory])
        for stack, held in zip(stacks, simulated, strict=True):
            assert close(stack, held.get(memory, 0)), memory
        for stack, size in zip(stacks, chart.limit, strict=False):
            assert size is None or stack <= size * 8


@run
@given(cases())
def test_nothing_is_above_the_roofs(case: Case) -> None:
    """No Einsum does more operations per second than the compute can, or moves more bytes than a memory can."""
    machine, evaluation = Machine(case.spec), fusiest.evaluate(case.spec, case.tree)
    found = rates(machine, take_apart(case.spec, case.tree), evaluation, limits(machine))
    for rate in found.values():
        if rate.speed is not None:
            assert rate.speed <= max(machine.peaks.values()) * (1 + 1e-9)
        for memory, intensity in rate.intensities.items():
            if rate.speed is not None and intensity is not None:
                assert rate.speed <= intensity * machine.bandwidths[memory] * (1 + 1e-9), memory


@run
@given(cases())
def test_any_mapping_makes_a_page(case: Case) -> None:
    """No figure is infinite or not a number, which JSON cannot hold."""
    evaluation = fusiest.evaluate(case.spec, case.tree)
    mapping = Mapping(case.tree, tuple(evaluation.einsums), evaluation)
    result = Result(case.spec, ("edp",), [mapping], False, 0.5, Stats())
    subject = Subject(result, result, "", "")
    assert json.loads(json_text(page_data(subject, "")))["points"] == [[evaluation.energy, evaluation.latency]]
    (view,) = views(subject)
    assert json.loads(json_text(view))["energy"] == evaluation.energy


def test_every_row_of_the_tree() -> None:
    subject = tradeoff()
    mapping = subject.result.mappings[0]
    rows = mapping_view(subject.background, mapping.looptree, mapping.evaluation)["tree"]
    kinds = [row["kind"] for row in rows]
    assert {"storage", "toll", "loop", "spatial", "branch", "compute"} == set(kinds)
    assert [row["einsum"] for row in rows if row["kind"] == "compute"] == list(mapping.einsum_order)
    assert all(row["iterations"] >= 1 and row["tile"] >= 1 for row in rows if row["kind"] in ("loop", "spatial"))
    assert any(row.get("persistent") for row in rows)
    for above, below in zip(rows, rows[1:], strict=False):
        assert below["depth"] <= above["depth"] + 1


def test_fused_sets_in_the_graph() -> None:
    subject = tradeoff()
    mapping = subject.result.best("energy")
    charts = mapping_charts(subject.background, mapping.looptree, mapping.evaluation)
    graph, backing = charts["fusion"], backing_memories(mapping.looptree)
    assert isinstance(graph, Graph)
    boxes = {box.name: box for box in graph.boxes}
    assert list(boxes) == list(subject.result.spec.info.einsums)
    assert all(box.note == backing[name] for name, box in boxes.items())  # each Einsum has its result's name
    edges = {(graph.boxes[e.source].name, graph.boxes[e.target].name): e for e in graph.edges}
    assert edges.keys() == {("A", "B"), ("B", "C"), ("C", "D")}
    assert {edge.name: edge.strong for edge in graph.edges} == {t: backing[t] != "DRAM" for t in ("A", "B", "C")}
    assert any(edge.strong for edge in graph.edges)
    for (producer, user), edge in edges.items():
        one, other = boxes[producer], boxes[user]
        assert not edge.strong or (one.color == other.color == edge.color != "other" and one.tag == other.tag != "")
    alone = [box for box in graph.boxes if box.color == "other"]
    assert all(box.tag == "" for box in alone)


def test_einsums_that_are_not_fused_share_a_row() -> None:
    result = gpt3()
    mapping = result.mappings[0]
    (row,) = mapping_view(Background(result.spec), mapping.looptree, mapping.evaluation)["sets"]
    assert (row["name"], row["kept"], row["einsums"]) == ("", [], list(result.spec.info.einsums))


def test_one_einsum_has_no_fused_sets_and_no_second_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fusiest.report.unfused_optimum", None)
    subject = subject_of(fusiest.map(fusiest.load("simple", "matmuls", N_EINSUMS=1, M=8, KN=8), "energy", jobs=1))
    mapping = subject.result.mappings[0]
    assert subject.unfused is None
    assert "fusion" not in mapping_charts(subject.background, mapping.looptree, mapping.evaluation)


def test_busy_shares() -> None:
    subject = tradeoff()
    for mapping in subject.result.mappings:
        heat = mapping_charts(subject.background, mapping.looptree, mapping.evaluation)["busy"]
        assert isinstance(heat, Heat)
        for column in zip(*heat.values, strict=True):
            assert max(v for v in column if v is not None) == pytest.approx(1)
