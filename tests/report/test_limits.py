"""The unfused optimum and the roofline that a result is compared with."""

from __future__ import annotations

import pytest

import fusiest
from fusiest.base.errors import FusiestError
from fusiest.mapper.options import Options
from fusiest.mapper.results.result import Result
from fusiest.model.evaluate import take_apart
from fusiest.model.fusion import backing_memories
from fusiest.report.charts.chart import Points
from fusiest.report.data import unfused
from fusiest.report.data.limits import Rate, limits, rates, shares
from fusiest.report.data.machine import Machine
from fusiest.report.data.unfused import unfused_optimum
from fusiest.report.data.whole import all_charts, page_data
from fusiest.spec.reading.loading import load_texts
from tests.report.subjects import TRADEOFF, gpt3, tradeoff


def test_unfused_means_through_the_outermost_memory() -> None:
    subject = tradeoff()
    assert isinstance(subject.unfused, Result)
    for mapping in subject.unfused.mappings:
        backing = backing_memories(mapping.looptree)
        assert {backing[t] for t in ("A", "B", "C")} == {"DRAM"}
        assert fusiest.evaluate(subject.result.spec, mapping.looptree).energy == mapping.energy
    for objective in ("energy", "latency", "edp"):
        fused, unfused = subject.result.best(objective), subject.unfused.best(objective)
        assert getattr(fused, objective) <= getattr(unfused, objective)
    assert subject.result.best("energy").energy < 0.9 * subject.unfused.best("energy").energy


def test_unfused_einsums_are_independent() -> None:
    """Two equal matmuls without fusion cost twice what one costs."""
    one, two = (fusiest.load("simple", "matmuls", N_EINSUMS=n, M=32, KN=32, MainMemoryEnergy=2e-12) for n in (1, 2))
    alone = fusiest.map(one, "energy", jobs=1).best("energy")
    both = unfused_optimum(two, Options(objective=("energy",), jobs=1))
    assert isinstance(both, Result)
    assert both.best("energy").energy == pytest.approx(2 * alone.energy, rel=1e-12)


def test_no_unfused_mapping() -> None:
    """A buffer that insists on backing B leaves none; the report says why."""
    text = TRADEOFF.read_text(encoding="utf-8").replace(
        "tensors: {keep: ~DRAM.tensors, may_keep: All}", "tensors: {keep: ~DRAM.tensors, may_keep: All, back: B}"
    )
    found = unfused_optimum(load_texts({"spec": text}, {}), Options(jobs=1))
    assert isinstance(found, str)
    assert "B" in found


def test_only_a_missing_mapping_is_reported_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Result:
        raise FusiestError("internal error")

    monkeypatch.setattr(unfused, "run", fail)
    with pytest.raises(FusiestError, match="internal error"):
        unfused_optimum(fusiest.load("simple", "matmuls"), Options(jobs=1))


MIXED = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {keep: All}}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 1, throughput: 1e9}]}
workload:
  rank_sizes: {M: 4, K: 4, N: 4}
  bits_per_value: {All: 8}
  einsums: ["T[m, n] = A[m, k] * B[k, n]", "Z[m, n] = T[m, n] + C[m, n]"]
"""


def test_roofline_of_gpt3() -> None:
    """By hand: MACs over 4 x 128 x 128 at 1.05 GHz, and the softmax on 4 units of 128 elements per cycle."""
    spec = gpt3().spec
    tokens, model, attention = 64 * 4096, 4096, 64 * 32 * 4096 * 4096
    macs = tokens * model * model * 4 + 2 * tokens * model * 4 * model + 2 * attention * 128
    machine = Machine(spec)
    limit = limits(machine)
    assert sum(x.operations for name, x in limit.items() if name != "QK_softmax") == 2 * macs
    assert limit["QK_softmax"].operations == attention
    seconds = macs / (4 * 128 * 128 * 1.05e9) + attention / (4 * 128 * 1.05e9)
    assert sum(x.compute_seconds for x in limit.values()) == pytest.approx(seconds, rel=1e-12)
    weights = 4 * model * model + 2 * 4 * model * model
    assert sum(x.memory_seconds for x in limit.values()) == pytest.approx((weights + 2 * tokens * model) / 614e9)
    assert machine.peaks == pytest.approx({"MAC": 2 * 4 * 128 * 128 * 1.05e9, "ScalarUnit": 4 * 128 * 1.05e9})
    assert machine.bandwidths["MainMemory"] == pytest.approx(614e9)
    assert machine.bandwidths["GlobalBuffer"] == pytest.approx((2048 + 1024) * 1e9)
    assert machine.instances["LocalBuffer"] == 4
    assert machine.instances["MAC"] == 4 * 128 * 128


def test_what_computes_do_divides_out() -> None:
    """Operations over the peak are the seconds, of each compute and where steps are one and two operations on the same."""
    for machine in (Machine(gpt3().spec), Machine(load_texts({"spec": MIXED}, {}))):
        limit = limits(machine)
        rows = shares(limit.values())
        assert all(row.seconds == pytest.approx(row.operations / row.peak, rel=1e-12) for row in rows)
        assert sum(row.seconds for row in rows) == pytest.approx(sum(x.compute_seconds for x in limit.values()))
        assert sum(row.operations for row in rows) == sum(x.operations for x in limit.values())
    assert [(row.compute, row.operations, round(row.peak)) for row in rows] == [("MAC", 128, 2e9), ("MAC", 16, 1e9)]
    assert machine.peaks == pytest.approx({"MAC": 2e9})


def test_bandwidth_of_two_ports() -> None:
    """A memory that reads and writes at the same time moves both; `max` says so in its spec."""
    text = TRADEOFF.read_text(encoding="utf-8")
    both = text.replace(
        "name: DRAM\n", "name: DRAM\n    total_latency: max(a.n_calls / a.throughput for a in actions)\n"
    )
    for spec, ports in ((text, 1), (both, 2)):
        assert Machine(load_texts({"spec": spec}, {})).bandwidths["DRAM"] == pytest.approx(ports * 32e9)


def test_no_mapping_beats_the_roofline() -> None:
    subject = tradeoff()
    roofline = page_data(subject, "")["roofline"]
    assert 0 < roofline["seconds"] <= subject.result.best("latency").latency


def test_intensity() -> None:
    """Q K^T without fusion reads Q and K and writes the scores: 128 MACs for each of them."""
    result = gpt3()
    mapping = result.best("edp")
    parts = take_apart(result.spec, mapping.looptree)
    machine = Machine(result.spec)
    found = rates(machine, parts, mapping.evaluation, limits(machine))
    rows = 4096
    assert found["QK"].outer == pytest.approx(2 * rows * rows * 128 / (2 * rows * 128 + rows * rows))
    assert found["QK"].intensities["MainMemory"] == found["QK"].outer
    assert found["QK"].intensities.keys() == {"MainMemory", "GlobalBuffer"}  # no other has a limit
    operations = 2 * rows * rows * 128 * 64 * 32
    assert found["QK"].speed == pytest.approx(operations / mapping.evaluation.einsums["QK"].latency)
    assert found["I"] == Rate({"MainMemory": None, "GlobalBuffer": None}, None, None)


def test_points_are_below_the_roof() -> None:
    subject = tradeoff()
    for mapping in subject.result.mappings:
        chart = all_charts(subject, mapping)["roofline"]
        assert isinstance(chart, Points)
        roofs = {line.name: line for line in chart.lines}
        assert len({label.split(",")[0] for cloud in chart.clouds for label in cloud.labels}) == 3
        assert {name for note in chart.notes for name in note.text.split(", ")} == {"B", "C", "D"}
        seen = 0
        for cloud in chart.clouds:
            memory = "DRAM" if "DRAM" in cloud.name else "Buffer"
            slope = roofs.get(f"bandwidth of {memory}")
            for x, y in zip(cloud.xs, cloud.ys, strict=True):
                assert y <= max(line.ys[-1] for line in roofs.values()) * (1 + 1e-9)
                assert slope is None or y <= slope.ys[0] / slope.xs[0] * x * (1 + 1e-9)
                seen += slope is not None
        assert seen >= 3


def test_funnel_narrows() -> None:
    stats = tradeoff().result.stats
    assert stats.groups.keys() == stats.pmappings.keys() == stats.explored.keys()
    assert all(1 <= stats.groups[e] <= stats.pmappings[e] <= stats.explored[e] for e in stats.groups)
    assert any(step.compatible for step in stats.funnel)
    for step in stats.funnel:
        assert step.compatible >= step.pairs >= step.kept >= step.forms
