"""The comparison page: what it shows is what the results say, and nothing in them can break out of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fusiest.comparison import Comparison, read_result
from fusiest.report.comparison_page import comparison_html, page_data
from tests.command_line import run
from tests.report.subjects import HOSTILE, tradeoff
from tests.report.test_page import data_of


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "tradeoff.json"
    path.write_text(json.dumps(tradeoff().result.to_json()))
    return str(path)


def both_ends(file: str) -> Comparison:
    """The front's mapping of least energy against that of least latency."""
    return Comparison((read_result(file, "energy"), read_result(file, "latency")))


def test_figures(file: str) -> None:
    mappings = tradeoff().result.mappings
    data = page_data(both_ends(file), "two ends")
    assert [row[2] for row in data["totals"][:2]] == [
        [mappings[0].energy, mappings[-1].energy], [mappings[0].latency, mappings[-1].latency],
    ]  # fmt: skip
    chart = data["charts"]["energy-component"]
    assert [series["name"] for series in chart["series"]] == ["A", "B"]
    assert sum(chart["series"][0]["values"]) == pytest.approx(mappings[0].energy)
    assert {row[0] for row in data["einsums"]} == set(mappings[0].evaluation.einsums)
    assert {mark for mark, _ in data["differences"][0]["tree"]} >= {"+", "-"}
    assert data["differences"][0]["specs"] == []


def test_the_page_is_whole_and_nothing_breaks_out(file: str) -> None:
    text = comparison_html(both_ends(file), f"ends {HOSTILE}")
    assert data_of(text)["title"] == f"ends {HOSTILE}"
    assert any(HOSTILE in line for _, line in data_of(text)["differences"][0]["tree"])
    assert text.count("</script>") == 3
    assert "<img" not in text


def test_from_the_command_line(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "comparison.html"
    status, out, _ = run(capsys, "compare", file, file, "--report", str(target))
    assert (status, out.count("are equal")) == (0, 2)
    assert data_of(target.read_text(encoding="utf-8"))["differences"][0]["tree"] == []
    status, _, err = run(capsys, "compare", file, file, "--report", str(tmp_path / "no" / "folder.html"))
    assert (status, err.count("\n")) == (2, 1)
