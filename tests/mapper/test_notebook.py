"""Progress in notebooks, with a stand-in for IPython."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import fusiest
from fusiest.mapper.notebook_progress import NotebookLine, notebook_progress
from fusiest.mapper.progress import Step


class Shown:
    """What a notebook shows: one output that can be shown anew."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, data: dict[str, str], raw: bool, display_id: bool) -> Shown:
        assert raw
        assert display_id
        assert not self.texts
        self.update(data, raw=raw)
        return self

    def update(self, data: dict[str, str], raw: bool) -> None:
        self.texts.append(data["text/html"])


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    found = Shown()
    ipython: Any = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    ipython.display = SimpleNamespace(display=found)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    monkeypatch.setattr("fusiest.mapper.notebook_progress.SECONDS_BEFORE", 0.0)
    monkeypatch.setattr("fusiest.mapper.notebook_progress.SECONDS_BETWEEN", 0.0)
    return found


def test_a_search_shows_its_steps_and_leaves_nothing(shown: Shown) -> None:
    spec = fusiest.load("simple", "matmuls", M=8, KN=8)
    fusiest.map(spec, "energy", jobs=1)
    assert any("exploring" in text and "<progress" in text for text in shown.texts)
    assert shown.texts[-1] == ""
    count = len(shown.texts)
    fusiest.map(spec, "energy", jobs=1, progress=False)
    heard: list[Step] = []
    fusiest.map(spec, "energy", jobs=1, progress=heard.append)
    assert heard
    assert len(shown.texts) == count


def test_a_moment_shows_nothing() -> None:
    shown, now = Shown(), [0.0]
    line = NotebookLine(shown, lambda: now[0])
    line(Step("joining"))
    line.erase()
    assert shown.texts == []
    now[0] = 1.0
    line(Step("<b>", done=1, total=2))
    line(Step("too soon"))
    assert shown.texts == ['<pre>   1.0 s  <progress value="1" max="2"></progress> &lt;b&gt; 1 of 2 Einsums</pre>']


def test_elsewhere_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    with notebook_progress() as line:
        assert line is None
