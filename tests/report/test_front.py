"""What was found, as points: the energy-latency front, or cost against the capacity of a memory."""

from __future__ import annotations

import re

import fusiest
from fusiest.report.charts.chart import Points
from fusiest.report.charts.front import front_charts, used_bytes
from fusiest.report.data.whole import page_data
from fusiest.show import bits
from tests.report.subjects import slope, tradeoff


def test_a_front() -> None:
    subject = tradeoff()
    chart = front_charts(subject.result, None)["front"]
    (cloud,) = chart.clouds
    assert list(cloud.numbers) == list(range(len(subject.result.mappings)))
    assert (chart.x_unit, chart.y_unit, chart.log_x) == ("s", "J", False)
    assert page_data(subject, "")["usage"] is None


def test_cost_against_capacity() -> None:
    """Sizes go up and costs down, the size of a point is what its mapping needs, and the line is one of steps."""
    subject = slope()
    result = subject.result
    assert isinstance(subject.unfused, fusiest.Result)
    charts = front_charts(result, subject.unfused)
    assert charts.keys() == {"front"}
    chart = charts["front"]
    assert (chart.title, chart.x_unit, chart.y_unit) == ("Energy against the capacity of GlobalBuffer", "B", "J")
    found, unfused = chart.clouds
    assert len(found.xs) == len(result.mappings) > 5
    assert list(found.xs) == sorted(found.xs)
    assert list(found.ys) == sorted(found.ys, reverse=True)
    assert found.steps
    sizes = [used_bytes(result.mappings[i], "GlobalBuffer") for i in found.numbers]
    assert sizes[0] == 0  # nothing is kept, which has no place on a logarithmic axis
    assert chart.zero_x == found.xs[0] == sizes[1] / 4
    assert list(found.xs[1:]) == sizes[1:]
    assert not unfused.numbers  # it cannot be chosen: it is another search's
    data = page_data(subject, "")
    assert data["usage"] == "GlobalBuffer"
    assert [point[2] for point in data["points"]] == [used_bytes(m, "GlobalBuffer") for m in result.mappings]


def test_both_costs_against_capacity() -> None:
    """Every mapping is in both charts, on the steps or beside them, and none is below the steps."""
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=2, M=16, KN=16, GlobalBufferThroughput=16e9)
    result = fusiest.map(spec, usage="GlobalBuffer", jobs=1)
    charts = front_charts(result, None)
    assert charts.keys() == {"front-energy", "front-latency"}
    for chart in charts.values():
        assert isinstance(chart, Points)
        assert sorted(i for cloud in chart.clouds for i in cloud.numbers) == list(range(len(result.mappings)))
        steps, *others = chart.clouds
        for cloud in others:
            for x, y in zip(cloud.xs, cloud.ys, strict=True):
                assert any(a <= x and b <= y for a, b in zip(steps.xs, steps.ys, strict=True))
    assert len(charts["front-energy"].clouds) == 2


def test_sizes_in_a_notebook() -> None:
    result = slope().result
    html = result._repr_html_()
    assert "<th></th><th>GlobalBuffer</th><th>energy</th>" in html
    for mapping in result.mappings[:12]:
        assert f"<td>{bits(mapping.evaluation.peak_occupancy_bits['GlobalBuffer'])}</td>" in html
    assert len({len(re.findall("<t[dh]", row)) for row in html.split("<tr>")[1:] if "colspan" not in row}) == 1
    assert "GlobalBuffer</th>" not in tradeoff().result._repr_html_()
