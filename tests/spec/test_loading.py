"""Which files a load reads, and by which names errors speak of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import fusiest
from fusiest.errors import SpecError


def test_a_file_named_twice_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("v.yaml").write_text("variables: {a: 1}")
    Path("link.yaml").symlink_to("v.yaml")
    assert fusiest.load("v.yaml", "./v.yaml", "link.yaml", tmp_path / "v.yaml").variables == {"a": 1}


def test_a_path_through_a_linked_folder_is_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "far" / "folder").mkdir(parents=True)
    (tmp_path / "far" / "v.yaml").write_text("variables: {b: 2}")
    (tmp_path / "v.yaml").write_text("variables: {a: 1}")
    (tmp_path / "link").symlink_to(Path("far") / "folder")
    monkeypatch.chdir(tmp_path)
    assert fusiest.load("link/../v.yaml", "v.yaml").variables == {"a": 1, "b": 2}


def test_errors_name_a_file_by_its_shorter_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("v.yaml").write_text("variabels: {a: 1}")
    with pytest.raises(SpecError, match=r"^v\.yaml:1: "):
        fusiest.load("./v.yaml")
