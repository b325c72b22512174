"""The page: one file, bounded, safe, and what is missing is said in a line."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

import fusiest
from fusiest.mapper.results.result import Result
from fusiest.report import report_html
from fusiest.report.data import whole as report_data
from fusiest.report.data.whole import Subject, kept_views
from fusiest.report.page import LIBRARIES, asset, json_text, library
from tests.command_line import run
from tests.report.subjects import HOSTILE, gpt3_page, page, tradeoff

SMALL = ["map", "simple", "matmuls", "-D", "N_EINSUMS=2", "-D", "M=16", "-D", "KN=16", "--jobs", "1"]


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found is not None
    return dict(json.loads(found[1]))


def test_data_survives() -> None:
    data, subject = data_of(page()), tradeoff()
    assert data["title"] == f"tradeoff {HOSTILE}"
    assert data["points"] == [[m.energy, m.latency] for m in subject.result.mappings]
    views = [json.loads(gzip.decompress(base64.b64decode(text))) for text in data["views"]]
    assert [view["energy"] for view in views] == [m.energy for m in subject.result.mappings]
    assert any(HOSTILE in row.get("on", "") for view in views for row in view["tree"])


def test_nothing_breaks_out() -> None:
    """Markup is what the template has; the rest is text."""
    text = page()
    assert text.count("</script>") == 2 + len(LIBRARIES)
    assert "<img" not in text
    assert "&lt;/script&gt;" in text.partition("</title>")[0]


def test_json_in_a_script() -> None:
    data = {"a": "</script><!--<script>", "b": ["&amp;", "\u2028", "é", "\udcff"]}
    text = json_text(data)
    assert json.loads(text) == data
    assert not set("<>&\u2028") & set(text)


def test_nothing_is_fetched() -> None:
    text = gpt3_page().replace("http://www.w3.org/2000/svg", "")  # the name of SVG's elements, not an address
    assert not re.search(r"(src|href)=\"|@import|url\(|fetch\(|XMLHttpRequest|https?://", text)
    assert "default-src 'none'" in text


def test_libraries_are_those_of_their_packages() -> None:
    """The sums in the list of what reports carry are those of the scripts, and each has its licence there."""
    listed = asset("vendor/README.md")
    for name, file in LIBRARIES.items():
        (row,) = [line for line in listed.splitlines() if line.startswith(f"| `{file}`")]
        assert hashlib.sha256(gzip.decompress(library(name))).hexdigest() in row
        licence = re.search(r"`(LICENSE\.[^`]*)`", row)
        assert licence is not None
        assert asset(f"vendor/{licence[1]}")


def test_gpt3_is_below_2_mb() -> None:
    assert len(gpt3_page().encode()) < 2e6
    tensors = data_of(gpt3_page())["tensors"]
    assert tensors[0] == ["WFFA", "weight:0", "weights"]
    assert tensors[6] == ["QK", "activation:0", "activations"]


def test_long_fronts_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = tradeoff()
    many = [dataclasses.replace(m) for m in subject.result.mappings for _ in range(100)]
    result = dataclasses.replace(subject.result, mappings=many)
    monkeypatch.setattr(report_data, "MOST_VIEWS", 12)
    long = Subject(result, subject.unfused, "", "")
    kept = kept_views(long)
    assert len(kept) <= 12
    assert {0, long.best} <= set(kept)
    data = data_of(report_html(long))
    assert len(data["points"]) == 800
    assert len(data["views"]) == len(kept)


def test_same_result_same_page() -> None:
    assert report_html(tradeoff()) == page()


def test_result_methods(tmp_path: Path) -> None:
    result = fusiest.map(fusiest.load("simple", "matmuls", N_EINSUMS=2, M=16, KN=16), jobs=1)
    text = result.report(tmp_path / "r.html", title="Two matmuls")
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == text
    assert data_of(text)["title"] == "Two matmuls"
    names = {path.name for path in result.charts(tmp_path / "charts")}
    assert {"front.svg", "front.png", "memory-GlobalBuffer.svg", "fusion.png"} <= names
    html = result._repr_html_()
    assert "proven optimal" in html
    assert "<svg" in html


def test_title_that_is_no_unicode(tmp_path: Path) -> None:
    """File names may be any bytes, and they are in the title."""
    text = report_html(dataclasses.replace(tradeoff(), title="caf\udce9.yaml"))
    (tmp_path / "r.html").write_text(text, encoding="utf-8")
    assert data_of(text)["title"] == "caf\udce9.yaml"
    assert "<title>caf?.yaml</title>" in text


def test_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page_file, charts = tmp_path / "r.html", tmp_path / "charts"
    status, _, err = run(capsys, *SMALL, "--report", str(page_file), "--charts", str(charts))
    assert status == 0, err
    data = data_of(page_file.read_text(encoding="utf-8"))
    assert (data["title"], data["note"]) == ("matmuls on simple", "N_EINSUMS=2, M=16, KN=16")
    assert (charts / "energy-component.svg").exists()
    assert "unfused optimum" in err


def test_without_the_unfused_optimum(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It is a second search: without it nothing is compared, and nothing says that there were no such mapping."""
    file, charts = tmp_path / "r.html", tmp_path / "charts"
    status, _, err = run(capsys, *SMALL, "--report", str(file), "--charts", str(charts), "--no-unfused")
    assert (status, "unfused" in err) == (0, False)
    data = data_of(file.read_text(encoding="utf-8"))
    assert data["unfused"] is None
    assert [cloud["name"] for cloud in data["charts"]["front"]["clouds"]] == ["optimal mapping"]
    assert "unfused" not in (charts / "roofline.svg").read_text(encoding="utf-8")


def test_no_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, out, err = run(capsys, *SMALL, "--report", str(tmp_path / "none" / "r.html"))
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert "there is no folder" in err


def test_interrupted_result_says_so() -> None:
    subject = tradeoff()
    result: Result = dataclasses.replace(subject.result, optimal=False, gap=0.25)
    data = data_of(report_html(Subject(result, "DRAM is too small", "", "")))
    assert (data["optimal"], data["gap"]) == (False, 0.25)
    assert data["unfused"] == {"missing": "DRAM is too small"}
