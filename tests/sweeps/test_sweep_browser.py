"""The page of a sweep in a real browser (`make test-browser`)."""

from __future__ import annotations

from pathlib import Path

import pytest

import fusiest
from fusiest.report import Subject, report_html
from tests.command_line import run
from tests.report.browsing import NEEDS_CHROMIUM, THEMES, WIDTHS, OpenPage, browser, opened, point
from tests.report.test_page import data_of

__all__ = ["browser", "opened"]

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sweep")


@pytest.fixture
def html(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Four designs, of which two have reports: the best, and the one with less latency."""
    monkeypatch.chdir(folder)
    if not Path("sweep.html").exists():
        status, _, err = run(
            capsys, "sweep", "simple", "matmuls", "-D", "GlobalBufferSize=512,65536", "-D", "dataflow=free,unfused",
            "-D", "M=16", "-D", "KN=16", "--jobs", "1", "--quiet", "--report", "sweep.html", "--reports", "2",
        )  # fmt: skip
        assert (status, err) == (0, "")
    return Path("sweep.html").read_text()


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_whole(html: str, opened: OpenPage, width: int, theme: str) -> None:
    tab = opened(html, width=width, theme=theme)
    assert tab.complaints == []
    assert [url for url in tab.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert tab.run("document.documentElement.scrollWidth") <= width
    drawn = tab.run("[...document.querySelectorAll('[data-chart]')].filter((c) => c.querySelector('.plot svg')).length")
    assert drawn == tab.run("document.querySelectorAll('[data-chart]').length") >= 3
    assert tab.run("document.querySelectorAll('#parallel polyline').length") == 4
    assert tab.run("document.querySelectorAll('#designs tbody tr').length") == 4
    text = "getComputedStyle(document.querySelector('#parallel text')).fill"
    assert tab.run(text) == tab.run("getComputedStyle(document.body).color")


def test_points_open_reports(html: str, opened: OpenPage, folder: Path, tmp_path: Path) -> None:
    """A point of the front, a row and a line: each shows its design, and opens the report of its mapping."""
    (tmp_path / "sweep_reports").symlink_to(folder / "sweep_reports")
    tab, data = opened(html), data_of(html)
    best = data["best"][0]["number"]
    x, y = point(tab, best)
    with tab.page.context.expect_page() as report:
        tab.page.mouse.click(x, y)
    assert report.value.url.endswith(f"sweep_reports/{best}_matmuls.html")
    assert f"Design {best}" in tab.text("#chosen")
    report.value.wait_for_selector("html[data-ready]")
    other = next(d["number"] for d in data["designs"] if str(d["number"]) not in data["reports"])
    tab.page.click(f"#designs tbody button:text-is('{other}')")
    assert "No report" in tab.text("#chosen")
    tab.run("document.querySelector('#parallel polyline:last-of-type').dispatchEvent(new Event('click'))")
    assert f"Design {best}" in tab.text("#chosen")


def test_a_report_with_advice(opened: OpenPage) -> None:
    """The section is there, whole and in the contents, if somebody asked for it; else it is not."""
    result = fusiest.map(fusiest.load("simple", "matmuls", M=8, KN=8), "edp", jobs=1)
    changes = {"aim": "edp", "full": {"GlobalBuffer": 0.95}, "limiting": {"MAC": 1.0}, "idle": {},
               "changes": [["MAC.throughput_scale", 2.0, 0.5, 1.0, 0.5, "searched"],
                           ["MAC.energy_scale", 2.0, None, None, None, "no valid mapping"]],
               "steps": [["unfused", 2.0, 1.0], ["Matmul0 + Matmul1", -0.5, 0.0]]}  # fmt: skip
    tab = opened(report_html(Subject(result, None, "advice", "", changes)))
    assert tab.complaints == []
    assert [
        tab.run(f"document.querySelectorAll('#{name} tbody tr').length") for name in ("changes-table", "changes-steps")
    ] == [2, 3]
    bars = tab.run(
        "document.querySelector('[data-chart=waterfall-energy] .plot').data.map((d) => [d.name, d.base, d.x])"
    )
    assert bars == [["unfused optimum", [0, 2, 0], [2, None, None]], ["saved", [0, 2, 0], [None, -0.5, None]],
                    ["this mapping", [0, 2, 0], [None, None, 1.5]]]  # fmt: skip
    assert "−500 mJ" in tab.text("[data-chart=waterfall-energy] .plot")
    for width in (400, 1600):
        tab.page.set_viewport_size({"width": width, "height": 900})
        assert tab.run("document.documentElement.scrollWidth") <= width
    assert "GlobalBuffer 95.0 %" in tab.text("#changes-facts")
    assert "MAC.throughput_scale × 2" in tab.text("#changes-table")
    without = opened(report_html(Subject(result, None, "none", "")))
    assert without.complaints == []
    assert without.run("document.getElementById('changes').hidden")
