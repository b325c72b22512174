"""The drawing of a workload's graph: boxes do not meet, edges go from box to box around all others, rows fit."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusiest.report.charts.chart import ChartBox, Edge, Graph
from fusiest.report.charts.layout import Arrangement, arranged

pytest.importorskip("dukpy")


def graph(count: int, pairs: list[tuple[int, int]]) -> Graph:
    boxes = [ChartBox(name=f"Einsum{i}", note="GlobalBuffer", color="other", hover="") for i in range(count)]
    edges = [Edge(name="T", source=a, target=b, color="other", strong=True, hover="") for a, b in pairs]
    return Graph(title="", boxes=boxes, edges=edges)


def check(chart: Graph, found: Arrangement) -> None:
    """Nothing touches what it has no business with."""
    assert len(found.boxes) == len(chart.boxes)
    for (x, y, w, h), (a, b, c, d) in itertools.combinations(found.boxes, 2):
        assert x + w <= a or a + c <= x or y + h <= b or b + d <= y
    for edge, points in zip(chart.edges, found.edges, strict=True):
        for number, point in ((edge.source, points[0]), (edge.target, points[-1])):
            assert on_border(found.boxes[number], point), (edge, point)
        for a, b in itertools.pairwise(points):
            assert min(abs(a[0] - b[0]), abs(a[1] - b[1])) < 1e-6  # along or across
            middle = (a[0] + b[0]) / 2, (a[1] + b[1]) / 2
            for i, box in enumerate(found.boxes):
                assert i in (edge.source, edge.target) or not inside(box, middle), (edge, i)


def on_border(box: tuple[float, float, float, float], point: tuple[float, float]) -> bool:
    x, y, w, h = box
    within = x - 0.6 <= point[0] <= x + w + 0.6 and y - 0.6 <= point[1] <= y + h + 0.6
    return within and not inside((x + 0.6, y + 0.6, w - 1.2, h - 1.2), point)


def inside(box: tuple[float, float, float, float], point: tuple[float, float]) -> bool:
    x, y, w, h = box
    return x < point[0] < x + w and y < point[1] < y + h


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    count = draw(st.integers(1, 10))
    pairs = [(a, b) for b in range(count) for a in range(b)]
    return graph(count, draw(st.lists(st.sampled_from(pairs), unique=True, max_size=16)) if pairs else [])


@settings(max_examples=8)
@given(graphs(), st.sampled_from([400, 900]))
def test_layered(chart: Graph, room: int) -> None:
    check(chart, arranged(chart, room))


def test_a_residual_goes_around() -> None:
    chart = graph(4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    found = arranged(chart, 900)
    check(chart, found)
    assert found.width <= 900
    assert [box[0] for box in found.boxes] == sorted(box[0] for box in found.boxes)  # from left to right
    assert len(found.edges[3]) > 2


def test_a_long_chain_is_in_rows() -> None:
    chart = graph(24, [(i, i + 1) for i in range(23)])
    found = arranged(chart, 900)
    check(chart, found)
    assert found.width <= 900
    rows = {round(box[1]) for box in found.boxes}
    assert 3 <= len(rows) <= 6
    narrow = arranged(chart, 400)
    assert narrow.width <= 400
    assert len({round(box[1]) for box in narrow.boxes}) == 24  # from top to bottom
