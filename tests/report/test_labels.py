"""What charts, trees and differences say: one colour for a component, names that cover no others, lists that fold."""

from __future__ import annotations

import random

import pytest

import fusiest
from fusiest.looptree import outline
from fusiest.mapper.options import Options
from fusiest.mapper.results.result import Result
from fusiest.report.charts.chart import Bars, Points
from fusiest.report.charts.palette import colour
from fusiest.report.charts.placing import _covered, _scale, placed
from fusiest.report.data.background import Background
from fusiest.report.data.treerows import MOST_OPEN
from fusiest.report.data.unfused import unfused_optimum
from fusiest.report.data.view import mapping_view
from tests.report.subjects import gpt3
from tests.report.test_view import mapping_charts


def test_a_component_has_one_colour_in_all_charts() -> None:
    """Also a compute in the bars of energy by component, where several of them compute."""
    result = gpt3()
    mapping = result.mappings[0]
    charts = mapping_charts(Background(result.spec), mapping.looptree, mapping.evaluation)
    colours: dict[str, set[tuple[str, str]]] = {}
    names = {"MainMemory", "GlobalBuffer", "LocalBuffer", "Register", "ScalarUnit", "MAC"}
    for chart in charts.values():
        series = [*chart.series] if isinstance(chart, Bars) else [*chart.lines] if isinstance(chart, Points) else []
        for one in series:
            words = set(one.name.replace(",", " ").split()) & names
            if len(words) == 1:
                colours.setdefault(words.pop(), set()).add(colour(one.color))
    assert {"MAC", "ScalarUnit", "MainMemory"} <= colours.keys()
    assert {name: found for name, found in colours.items() if len(found) > 1} == {}
    assert len({found.pop() for found in colours.values()}) == len(names & colours.keys())
    by_component = charts["energy-component"]
    assert isinstance(by_component, Bars)
    assert "MAC" in {series.name for series in by_component.series}


def test_names_beside_points_never_cover_each_other() -> None:
    chance = random.Random(7)
    left_out = shown = 0
    for _ in range(60):
        points = [(10 ** chance.uniform(0, 2), 10 ** chance.uniform(0, 1)) for _ in range(30)]
        named = {f"Einsum_{i}": point for i, point in enumerate(points)}
        notes = placed(named, points)
        pixels = _scale(points)
        boxes = [_covered(n.text, pixels((n.x, n.y)), (n.right, n.up)) for n in notes]
        assert not any(a.shared(b) for i, a in enumerate(boxes) for b in boxes[i + 1 :])
        shown += len(notes)
        left_out += sum(note.text.count("Einsum_") for note in notes) < 30
    assert left_out > 30
    assert shown > 600


@pytest.mark.parametrize("einsums", [3, 6])
def test_a_long_list_of_held_tensors_is_one_row(einsums: int) -> None:
    found = unfused_optimum(fusiest.load("simple", "matmuls", N_EINSUMS=einsums, M=8, KN=8), Options(jobs=1))
    assert isinstance(found, Result)
    mapping = found.mappings[0]
    rows = mapping_view(Background(found.spec), mapping.looptree, mapping.evaluation)["tree"]
    tensors = 2 * einsums + 1
    assert (tensors > MOST_OPEN) == (einsums == 6)
    groups = [i for i, row in enumerate(rows) if row["kind"] == "holders"]
    assert groups == ([0] if tensors > MOST_OPEN else [])
    for i in groups:
        inside = rows[i + 1 : i + 1 + tensors]
        assert rows[i]["count"] == tensors
        assert all(row["kind"] == "storage" and row["depth"] == rows[i]["depth"] + 1 for row in inside)
        assert rows[i + 1 + tensors]["depth"] == rows[i]["depth"]
        assert rows[i]["energy"] == pytest.approx(sum(row["energy"] for row in inside))


def test_branches_look_like_no_difference() -> None:
    mapping = fusiest.load("matmuls", "unfused_matmuls_to_simple", N_EINSUMS=2).mapping
    assert mapping is not None
    lines = outline(mapping).splitlines()
    assert sum(line.startswith("• ") for line in lines) == 2
    assert not any(line.lstrip().startswith(("-", "+", "−")) for line in lines)
