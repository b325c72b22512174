"""Measurements that were made are not lost, and the README's table is never of a part."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import bench.__main__ as bench
import pytest
from bench.cases import CASES, README_CASES, find
from bench.table import BEGIN

RECORD = {"search_seconds": 1, "process_seconds": 2, "cpu_seconds": 3, "peak_rss_bytes": 4, "pmappings": {}}


@pytest.fixture
def readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.setattr(bench, "run_case", lambda *_: RECORD)
    monkeypatch.setattr(bench, "versions", lambda: versions("a"))
    (tmp_path / "README.md").write_text(f"before\n{BEGIN}\n")
    return tmp_path / "README.md"


def versions(revision: str) -> dict[str, Any]:
    return {"python": "3", "numpy": "2", "numba": "0", "fusiest": "0", "revision": revision}


def measure(monkeypatch: pytest.MonkeyPatch, folder: Path, *options: str) -> dict[str, list[str]]:
    """The cases in each file of results."""
    monkeypatch.setattr(sys, "argv", ["bench", "--results", str(folder), *options])
    bench.main()
    return {f.name[10:]: list(json.loads(f.read_text())["cases"]) for f in sorted(folder.iterdir())}


def test_results_are_kept(readme: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every = [case.name for case in CASES]
    before = readme.read_text()
    folder = tmp_path / "results"
    assert measure(monkeypatch, folder, "--only", every[0]) == {".json": every[:1]}
    assert measure(monkeypatch, folder, "--only", every[1]) == {".json": every[:2]}
    assert readme.read_text() == before
    assert measure(monkeypatch, folder, "--no-readme") == {".json": every}
    assert readme.read_text() == before
    assert measure(monkeypatch, folder, "--only", every[0]) == {".json": every}
    table = readme.read_text()
    shown = [f"| {find(name).about} | `{find(name).chip}` |" for name in README_CASES]
    assert [row for row in shown if row not in table] == []
    assert CASES[0].about not in table
    monkeypatch.setattr(bench, "versions", lambda: versions("b"))
    assert measure(monkeypatch, folder, "--only", every[0]) == {"-2.json": every[:1], ".json": every}
    assert readme.read_text() == table
