"""Texts of charts in a real browser: they never cover each other, however many there are and however narrow the page is."""

from __future__ import annotations

import functools

import pytest

import fusiest
from fusiest.mapper.options import Options
from fusiest.mapper.results.result import Result
from fusiest.report import Subject, report_html
from fusiest.report.data.unfused import unfused_optimum
from tests.report.browsing import NEEDS_CHROMIUM, WIDTHS, OpenPage, Tab, browser, opened
from tests.report.subjects import gpt3, gpt3_page

__all__ = ["browser", "opened"]

pytestmark = NEEDS_CHROMIUM

PLACES = """(selector) => [...document.querySelectorAll(selector)].map((node) => {
    const box = node.getBoundingClientRect();
    return [box.left, box.top, box.right, box.bottom];
})"""
TextBox = tuple[float, float, float, float]


@functools.cache
def timed_chain_page() -> str:
    """40 matmuls on a machine that takes time for them, each alone."""
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=40, M=16, KN=16)
    found = unfused_optimum(spec, Options(jobs=1))
    assert isinstance(found, Result)
    return report_html(Subject(found, found, "40 matmuls", ""))


def boxes(tab: Tab, selector: str) -> list[TextBox]:
    return [tuple(box) for box in tab.run(PLACES, selector)]


def covering(found: list[TextBox]) -> list[tuple[TextBox, TextBox]]:
    """Pairs of boxes of which one covers more than a pixel of the other."""
    return [
        (a, b)
        for i, a in enumerate(found)
        for b in found[i + 1 :]
        if min(a[2], b[2]) - max(a[0], b[0]) > 1 and min(a[3], b[3]) - max(a[1], b[1]) > 1
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_names_of_many_einsums_have_room(opened: OpenPage, width: int) -> None:
    tab = opened(timed_chain_page(), width=width)
    names = boxes(tab, "[data-chart=busy] .ytick text")
    assert len(names) == 40
    assert covering(names) == []
    assert tab.run("document.querySelector('[data-chart=busy]').innerText.includes('Matmul39')")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", [gpt3_page, timed_chain_page])
def test_texts_of_the_roofline_have_room(opened: OpenPage, page: functools._lru_cache_wrapper[str], width: int) -> None:
    tab = opened(page(), width=width)
    ticks = boxes(tab, "[data-chart=roofline] .xtick text")
    assert len(ticks) >= 2
    assert covering(ticks) == []
    assert covering(boxes(tab, "[data-chart=roofline] .annotation-text")) == []


def test_many_held_tensors_are_folded_at_first(opened: OpenPage) -> None:
    tab = opened(timed_chain_page())
    group = "document.querySelector('#tree li.holders')"
    count = "[...document.querySelectorAll('#tree li.storage')].filter((row) => !row.hidden).length"
    assert "81 tensors in MainMemory" in tab.run(f"{group}.innerText").replace("\n", " ")
    folded = tab.run(count)
    tab.run(f"{group}.click()")
    assert tab.run(count) == folded + 81


def test_layers_are_sorted_by_a_chosen_column(opened: OpenPage) -> None:
    tab = opened(gpt3_page())
    rows = "[...document.querySelectorAll('#layers tbody tr')].map((row) => row.firstElementChild.innerText)"
    executed = tab.run(rows)
    assert len(executed) > 8
    evaluation = gpt3().mappings[0].evaluation
    energies = {name: einsum.energy for name, einsum in evaluation.einsums.items()}
    assert executed == list(energies)
    tab.page.click("#layers th:nth-child(2) button")
    assert tab.run(rows) == sorted(energies, key=lambda name: -energies[name]) != executed
    assert tab.run("document.querySelector('#layers th:nth-child(2)').getAttribute('aria-sort')") == "descending"
    tab.page.click("#layers th:nth-child(2) button")
    assert tab.run(rows) == sorted(energies, key=lambda name: energies[name])
    tab.page.click("#layers th:nth-child(2) button")
    assert tab.run(rows) == executed
    assert tab.complaints == []
