"""A real browser for tests: Debian's chromium, headless. `make test-browser` installs what this needs."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.report.subjects import page

CHROMIUM = shutil.which("chromium")
NEEDS_CHROMIUM = pytest.mark.skipif(
    CHROMIUM is None or importlib.util.find_spec("playwright") is None,
    reason="no chromium: apt-get install chromium, or no Playwright: pip install 'fusiest[browser]'",
)

WIDTHS, THEMES = (400, 1600), ("light", "dark")


@dataclass
class Tab:
    """A page in the browser, and everything that it complained about or asked the network for."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def run(self, script: str, argument: Any = None) -> Any:
        return self.page.evaluate(script, argument)

    def saved(self, selector: str) -> bytes:
        with self.page.expect_download() as download:
            self.page.click(selector)
        return Path(download.value.path()).read_bytes()


OpenPage = Callable[..., Tab]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[OpenPage]:
    contexts = []

    def open_page(html: str | None = None, width: int = 1600, theme: str = "light", state: str = "") -> Tab:
        file = tmp_path / "report.html"
        file.write_text(html if html is not None else page(), encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        contexts.append(context)
        tab = Tab(context.new_page())
        tab.page.on("console", lambda message: tab.complaints.append(message.text))
        tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        tab.page.on("request", lambda request: tab.requests.append(request.url))
        tab.page.goto(file.as_uri() + state)
        tab.page.wait_for_selector("html[data-ready]")
        return tab

    yield open_page
    for context in contexts:
        context.close()


def point(tab: Tab, number: int) -> tuple[float, float]:
    """Where a mapping of the front, or a design of a sweep, is on the screen."""
    tab.page.locator("[data-chart=front]").scroll_into_view_if_needed()
    script = """(number) => {
        const plot = document.querySelector("[data-chart=front] .plot");
        const trace = plot.data.findIndex((t) => t.customdata && t.customdata.includes(number));
        const at = plot.data[trace].customdata.indexOf(number);
        const box = plot.querySelectorAll(".scatterlayer .trace")[trace].querySelectorAll(".point")[at].getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2];
    }"""
    x, y = tab.run(script, number)
    return x, y
