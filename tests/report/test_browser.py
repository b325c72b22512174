"""The report in a real browser: Debian's chromium, headless. `make test-browser` installs what this needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fusiest
from fusiest.comparison import Comparison, read_result
from fusiest.mapper.results.document import spec_and_hash
from fusiest.mapper.results.result import Mapping, Result, Stats
from fusiest.report import Subject, report_html
from fusiest.report.charts.front import used_bytes
from fusiest.report.comparison_page import comparison_html
from fusiest.show import si
from fusiest.spec.reading.loading import load_texts
from tests.report.browsing import NEEDS_CHROMIUM, THEMES, WIDTHS, OpenPage, browser, opened, point
from tests.report.contrast import HEAT, READABLE, TEXTS, contrast
from tests.report.subjects import chain_page, gpt3_page, page, slope, tradeoff

__all__ = ["browser", "opened"]

pytestmark = NEEDS_CHROMIUM


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_loads_without_complaint(opened: OpenPage, width: int, theme: str) -> None:
    tab = opened(width=width, theme=theme)
    assert tab.complaints == []
    assert [url for url in tab.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert "hit" not in tab.page.title().split()
    assert tab.run("document.images.length") == 0
    drawn = tab.run("[...document.querySelectorAll('[data-chart]')].filter((c) => c.querySelector('.plot svg')).length")
    assert drawn == tab.run("document.querySelectorAll('[data-chart]:not([hidden])').length") >= 13


@pytest.mark.parametrize("width", WIDTHS)
def test_long_chain(opened: OpenPage, width: int) -> None:
    tab = opened(chain_page(), width=width)
    assert tab.complaints == []
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run("document.querySelector('[data-chart=latency-einsum]').hidden")
    names = "[...document.querySelectorAll('[data-chart=\"memory-MainMemory\"] .xtick')].map((x) => x.getBoundingClientRect().left)"
    places = sorted(tab.run(names))
    assert 5 < len(places) < 64
    assert min(b - a for a, b in zip(places, places[1:], strict=False)) > 8
    assert "far above" in tab.text("[data-chart='memory-GlobalBuffer'] .legend")


def test_nothing_costs_anything(opened: OpenPage) -> None:
    """An architecture without a single figure: all energies and latencies are zero, and nothing has a limit."""
    text = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {keep: All}}
  - !Compute {name: MAC, component_class: Dummy}
workload:
  rank_sizes: {M: 4}
  bits_per_value: {All: 8}
  einsums: ["Z[m] = A[m]"]
mapping:
  nodes:
  - !Storage {tensors: [A, Z], component: DRAM}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Compute {einsum: Z, component: MAC}
"""
    spec = load_texts({"spec": text}, {})
    assert spec.mapping is not None
    evaluation = fusiest.evaluate(spec)
    result = Result(spec, ("edp",), [Mapping(spec.mapping, ("Z",), evaluation)], True, 0.0, Stats())
    for unfused in ("no other mapping", None):
        tab = opened(report_html(Subject(result, unfused, "", "")))
        assert tab.complaints == []
        for word in ("NaN", "undefined", "Infinity", "null"):
            assert word not in tab.text("body")


@pytest.mark.parametrize("width", [*WIDTHS, 1000])
def test_nothing_is_wider_than_the_screen(opened: OpenPage, width: int) -> None:
    for html in (page(), gpt3_page()):
        tab = opened(html, width=width)
        assert tab.run("document.documentElement.scrollWidth") <= width
        script = """() => [...document.querySelectorAll(".card, .panel, .figurebox, .plot .main-svg, .facts, button")]
            .filter((node) => node.getBoundingClientRect().right > innerWidth + 0.5)
            .filter((node) => !node.closest(".wide")).map((node) => node.className + node.id)"""
        assert tab.run(script) == []


def test_click_on_a_point_shows_its_mapping_everywhere(opened: OpenPage) -> None:
    tab, mappings = opened(), tradeoff().result.mappings
    shown = ("#figures", "#tree", "#code", "#sets", "#costs-lead", "[data-chart=energy-einsum] .plot")
    before = {selector: tab.text(selector) for selector in shown}
    best = int(tab.run("document.documentElement.dataset.shown"))
    other = 0 if best else len(mappings) - 1
    tab.page.mouse.click(*point(tab, other))
    tab.page.wait_for_selector(f"html[data-shown='{other}']")
    assert {selector for selector in shown if tab.text(selector) == before[selector]} == set()
    assert si(mappings[other].energy, "J") in tab.text("#figures")
    assert tab.run("document.getElementById('chosen').value") == str(other)
    tab.page.select_option("#chosen", str(best))
    tab.page.wait_for_selector(f"html[data-shown='{best}']")
    assert {selector: tab.text(selector) for selector in shown} == before
    assert tab.complaints == []


def test_cost_against_capacity(opened: OpenPage) -> None:
    """With a memory's usage as an objective, the picture is cost against capacity, and every mapping says its size."""
    tab, mappings = opened(report_html(slope())), slope().result.mappings
    assert tab.text("#h-front") == "Cost against capacity"
    assert "beats in both" not in tab.text("body")
    axes = tab.page.text_content("[data-chart=front] .infolayer")
    assert "capacity of GlobalBuffer" in axes
    assert "latency" not in axes
    options = tab.run("[...document.querySelectorAll('#chosen option')].map((option) => option.textContent)")
    assert len(options) == len(mappings)
    for option, mapping in zip(options, mappings, strict=True):
        used = used_bytes(mapping, "GlobalBuffer")
        assert f": {used / 1024:.4g} KiB, {si(mapping.energy, 'J')}" in option or f": {used:.4g} B, " in option
    last = len(mappings) - 1
    tab.page.mouse.click(*point(tab, last))
    tab.page.wait_for_selector(f"html[data-shown='{last}']")
    assert "of GlobalBuffer" in tab.text("#facts")
    assert tab.complaints == []


def test_a_link_opens_a_mapping(opened: OpenPage) -> None:
    """The address says what is shown: it can be sent, and it can be changed."""
    count = len(tradeoff().result.mappings)
    tab = opened(state="#mapping=5&timed")
    assert tab.run("document.documentElement.dataset.shown") == "4"
    assert tab.run("document.getElementById('timed').getAttribute('aria-pressed')") == "true"
    tab.page.select_option("#chosen", "2")
    tab.page.wait_for_selector("html[data-shown='2']")
    assert tab.run("location.hash") == "#mapping=3&timed"
    tab.run("location.hash = '#fusion&mapping=6'")
    tab.page.wait_for_selector("html[data-shown='5']")
    top = tab.run("document.getElementById('fusion').getBoundingClientRect().top")
    assert 0 <= top < 120
    tab.page.select_option("#chosen", str(tradeoff().best))
    tab.page.wait_for_selector(f"html[data-shown='{tradeoff().best}']")
    assert tab.run("location.hash") == "#fusion"  # the best mapping needs no word
    for wrong in ("#mapping=0", "#mapping=x", "#nowhere&mapping", f"#mapping={count + 100}", "#%3Cimg%3E"):
        other = opened(state=wrong)
        assert other.complaints == []
        assert other.run("document.documentElement.dataset.shown") in (str(tradeoff().best), str(count - 1))
    assert tab.complaints == []


@pytest.mark.parametrize("width", WIDTHS)
def test_moving_in_the_page(opened: OpenPage, width: int) -> None:
    tab = opened(width=width)
    links = tab.run("[...document.querySelectorAll('#links a')].map((a) => a.getAttribute('href'))")
    assert links == [
        "#found",
        "#front",
        "#mapping",
        "#fusion",
        "#costs",
        "#memory",
        "#mapped",
        "#component-costs",
        "#search",
    ]
    for link in ("#costs", "#search", "#found"):
        tab.page.click(f"#links a[href='{link}']")
        place = tab.run("(id) => [document.querySelector(id).getBoundingClientRect().top, innerHeight]", link)
        bar = tab.run("document.getElementById('nav').getBoundingClientRect()")
        assert bar["top"] <= (0 if link != "#found" else 120)
        assert place[0] < place[1]
        assert tab.run("location.hash") == link
    assert tab.run("document.documentElement.scrollWidth") <= width


def test_the_search_is_folded(opened: OpenPage) -> None:
    tab = opened()
    chart = "[data-chart=pmappings] .plot"
    assert not tab.page.is_visible(chart)
    tab.page.click("#search summary")
    tab.page.wait_for_function("document.querySelector('[data-chart=pmappings] .main-svg')?.clientWidth > 400")
    assert tab.page.is_visible(chart)
    assert tab.complaints == []


def test_what_was_mapped(opened: OpenPage) -> None:
    """The page says it, and its files load to what was mapped."""
    tab, spec = opened(), tradeoff().result.spec
    rows = tab.run("[...document.querySelectorAll('#components tbody tr')].map((row) => row.innerText)")
    assert len(rows) == 5
    assert all(word in rows[0] for word in ("DRAM", "unlimited", "32 GB/s", "20 pJ/b"))
    assert all(word in rows[1] for word in ("Buffer", "1.563 KiB", "3 GB/s", "2 pJ/b", "1 mW"))
    assert all(word in rows[4] for word in ("MAC", "8", "1 G/s", "100 fJ", "16 Gop/s"))
    assert "B[m, n] = A[m, k] * W[k, n]" in tab.text("#einsums")
    assert spec_and_hash(spec)[1] in tab.text("#origin")
    texts = {name: tab.saved(f"[data-file={name}]").decode() for name in ("architecture", "workload")}
    again = load_texts(texts, {})
    assert (again.arch, again.info) == (spec.arch, spec.info)
    assert tab.complaints == []


def test_component_costs(opened: OpenPage) -> None:
    """A section where there are estimates, areas or leakage, which the page's navigation leads to; else none."""
    tab = opened(state="#component-costs")
    rows = tab.run("[...document.querySelectorAll('#cost-table tbody tr')].map((row) => row.innerText)")
    assert len(rows) == 6
    assert all(word in rows[1] for word in ("Buffer", "read", "write", "2 pJ/b", "1 mW", "given"))
    assert all(word in rows[-1] for word in ("Total", "1 mW"))
    tab = opened(report_html(slope()))
    assert not tab.page.is_visible("#component-costs")
    assert not tab.run("Boolean(document.querySelector('#links a[href=\"#component-costs\"]'))")
    npu = fusiest.map(fusiest.load("edge_npu", "matmuls", N_EINSUMS=1, M=64, KN=64), "energy", jobs=1, progress=False)
    for width in WIDTHS:
        tab = opened(report_html(Subject(npu, None, "", "")), width=width)
        assert tab.run("document.documentElement.scrollWidth") <= width
        assert "× 2,048 = 0.05054 mm²" in tab.text("#cost-table")
        assert "CACTI 7" in tab.text("#cost-sources")
        for word in ("NaN", "undefined", "null"):
            assert word not in tab.text("#component-costs")
        assert tab.complaints == []


def test_hover_shows_figures(opened: OpenPage) -> None:
    tab, mapping = opened(), tradeoff().result.mappings[0]
    tab.page.mouse.move(*point(tab, 0))
    tab.page.wait_for_selector("[data-chart=front] .hovertext")
    told = tab.page.text_content("[data-chart=front] .hoverlayer")
    assert si(mapping.energy, "J") in told
    assert si(mapping.latency, "s") in told
    bar = tab.page.locator("[data-chart=energy-component] .bars .point").first
    bar.scroll_into_view_if_needed()
    bar.hover(force=True)
    tab.page.wait_for_selector("[data-chart=energy-component] .hovertext")
    assert "DRAM" in tab.page.text_content("[data-chart=energy-component] .hoverlayer")


def test_point_at_a_tensor_to_see_its_holders(opened: OpenPage) -> None:
    tab = opened()
    tensor = tradeoff().background.names.tensors["B"]
    holders = tab.page.locator(f"#tree [data-tensor='{tensor}']").count()
    assert holders >= 3
    tab.page.hover(f"#tree [data-tensor='{tensor}'] >> nth=0")
    assert tab.page.locator(f"#tree .lit[data-tensor='{tensor}']").count() == holders
    assert tab.page.locator("#tree .lit").count() == holders
    tab.page.mouse.move(0, 0)
    assert tab.page.locator("#tree .lit").count() == 0
    tab.page.click(f"#tensors [data-tensor='{tensor}']")
    tab.page.mouse.move(0, 0)
    tab.page.focus("#copy")
    assert tab.page.locator("#tree .lit").count() == holders


def test_tree_folds(opened: OpenPage) -> None:
    tab = opened()
    visible = "[...document.querySelectorAll('#tree .row')].filter((row) => !row.hidden).length"
    everything = tab.run(visible)
    tab.page.click("#tree .row.branch >> nth=1")
    folded = tab.run(visible)
    assert folded < everything
    tab.page.keyboard.press("ArrowRight")
    assert tab.run(visible) == everything
    tab.page.keyboard.press("ArrowLeft")
    assert tab.run(visible) == folded
    tab.page.keyboard.press("Home")
    assert tab.run("document.activeElement === document.querySelector('#tree .row')")
    tab.page.click("#collapse")
    assert tab.run(visible) < folded
    tab.page.click("#expand")
    assert tab.run(visible) == everything


def test_everything_is_reached_by_keyboard(opened: OpenPage) -> None:
    tab = opened()
    reached, outlined = set(), set()
    for _ in range(200):
        tab.page.keyboard.press("Tab")
        name, outline = tab.run(
            "() => { const n = document.activeElement; return [n.id || n.className || n.tagName, getComputedStyle(n).outlineStyle]; }"
        )
        if name == "BODY":
            break
        reached.add(name.split(" ")[0])
        if outline != "none":
            outlined.add(name.split(" ")[0])
    assert reached >= {
        "theme",
        "print",
        "chosen",
        "A",
        "chip",
        "expand",
        "collapse",
        "yaml",
        "row",
        "copy",
        "as-pseudocode",
        "as-c",
        "save-code",
        "code",
        "even",
        "timed",
    }
    assert "SUMMARY" in reached
    assert reached == outlined


@pytest.mark.parametrize("theme", THEMES)
def test_readable(opened: OpenPage, theme: str) -> None:
    tab = opened(gpt3_page(), theme=theme)
    tab.page.hover("#tree [data-tensor]:not([hidden]) >> nth=0")
    pairs = [json.loads(text) for text in tab.run(TEXTS)]
    assert len(pairs) > 20
    faint = {(what, round(contrast(a, b), 2)) for a, b, what in pairs if contrast(a, b) < READABLE}
    assert faint == set()
    cells = tab.run(HEAT)
    assert len(cells) > 20
    assert [cell for cell in cells if contrast(cell[0], cell[1]) < READABLE] == []


def test_theme_button(opened: OpenPage) -> None:
    tab = opened()
    grounds = set()
    for _ in range(3):
        tab.page.click("#theme")
        grounds.add((tab.text("#theme"), tab.run("getComputedStyle(document.body).backgroundColor")))
    assert {text for text, _ in grounds} == {"Theme: auto", "Theme: light", "Theme: dark"}
    assert len({color for _, color in grounds}) == 2


def test_copy_and_downloads(opened: OpenPage) -> None:
    tab, subject = opened(), tradeoff()
    best = subject.result.mappings[subject.best]
    tab.page.click("#copy")
    tab.run("document.body.append(Object.assign(document.createElement('textarea'), {id: 'paste'}))")
    tab.page.focus("#paste")
    tab.page.keyboard.press("Control+V")
    pseudocode = tab.text("#code")
    assert tab.page.input_value("#paste").strip() == tab.run("document.getElementById('code').textContent").strip()
    tab.page.click("#as-c")
    assert tab.text("#code") != pseudocode
    assert tab.saved("#save-code").decode() == best.code()
    mapping = load_texts({"mapping": tab.saved("#yaml").decode()}, {}).mapping
    assert fusiest.evaluate(subject.result.spec, mapping).energy == best.energy


def test_every_chart_can_be_saved(opened: OpenPage) -> None:
    tab = opened(state="#search")
    names = tab.run("[...document.querySelectorAll('[data-chart]:not([hidden])')].map((card) => card.dataset.chart)")
    assert {"front", "fusion", "intensity", "memory-Buffer", "busy"} <= set(names)
    for i, name in enumerate(names):
        # Chromium drops the eleventh file that a page gives, unless a person agrees to more.
        tab = opened(state="#search") if i and i % 8 == 0 else tab
        assert tab.saved(f"[data-chart='{name}'] .save button >> nth=0").startswith(b"<svg"), name
    for name in ("front", "fusion", "busy"):
        assert tab.saved(f"[data-chart='{name}'] .save button >> nth=1").startswith(b"\x89PNG"), name
    assert tab.complaints == []


def test_memory_over_time_by_latency(opened: OpenPage) -> None:
    tab = opened()
    width = "document.querySelector('[data-chart=\"memory-Buffer\"] .plot').layout.xaxis.range[1]"
    assert tab.run(width) == len(tradeoff().result.spec.info.einsums)
    tab.page.click("#timed")
    assert tab.run(width) == pytest.approx(tradeoff().result.mappings[tradeoff().best].latency)


def test_prints(opened: OpenPage) -> None:
    tab = opened(theme="dark")
    tab.run("dispatchEvent(new Event('beforeprint'))")
    assert tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.run("document.documentElement.scrollWidth - Math.max(innerWidth, 700)") <= 0
    assert tab.run("Math.max(...[...document.querySelectorAll('.plot .main-svg')].map((x) => x.clientWidth))") <= 690
    tab.run("dispatchEvent(new Event('afterprint'))")
    assert tab.run("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert tab.page.pdf().startswith(b"%PDF")
    assert tab.complaints == []


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_comparison(opened: OpenPage, tmp_path: Path, width: int, theme: str) -> None:
    """The other page: its charts and differences are there, it fits, and it asks no network for anything."""
    file = tmp_path / "tradeoff.json"
    file.write_text(json.dumps(tradeoff().result.to_json()))
    comparison = Comparison((read_result(str(file), "energy"), read_result(str(file), "latency")))
    tab = opened(comparison_html(comparison), width=width, theme=theme)
    assert tab.complaints == []
    assert [url for url in tab.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert tab.run("document.querySelectorAll('[data-chart] .main-svg').length") >= 3
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run("document.querySelectorAll('#tree .added').length") == len(
        [line for line in comparison.looptree_difference() if line.mark == "+"]
    )
    assert si(comparison.totals()[0].values[1] or 0, "J") in tab.text("#figures")
    assert tab.saved("[data-chart=energy-component] .save button >> nth=0").startswith(b"<svg")
