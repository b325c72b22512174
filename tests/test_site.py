"""The documentation site builds without a warning, its links lead somewhere, and it asks no network for anything."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
PAGES = {
    path.relative_to(ROOT / "docs").with_suffix("")
    for path in (ROOT / "docs").rglob("*.md")
    if not path.name.endswith(".in.md")
}
NOTEBOOKS = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.ipynb")}


class Page(HTMLParser):
    """What a page links to, what it loads, and the anchors in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        if "id" in values:
            self.anchors.add(values["id"])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        self.loads += [values[name] for name in ("src", "srcset") if name in values]
        if tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(values["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    for module in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(module, reason="pip install fusiest[docs]")
    target = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(ROOT / "docs"), str(target / "site")],
        capture_output=True, text=True, check=False, cwd=target,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return {path: Page(path) for path in (target / "site").rglob("*.html")}


def test_every_page_is_there(site: dict[Path, Page]) -> None:
    top = next(path.parent for path in site if path.name == "index.html")
    assert {path.relative_to(top).with_suffix("") for path in site} >= PAGES | NOTEBOOKS


def test_links_lead_to_pages_and_anchors(site: dict[Path, Page]) -> None:
    dead = []
    for path, page in site.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            found = site.get(target)
            if not target.exists() or (found and parts.fragment and unquote(parts.fragment) not in found.anchors):
                dead.append(f"{path.name}: {link}")
    assert dead == []


def test_nothing_comes_from_the_network(site: dict[Path, Page]) -> None:
    loads = [load for page in site.values() for load in page.loads]
    assert loads
    assert [load for load in loads if urlsplit(load).scheme not in ("", "data") or load.startswith("//")] == []
