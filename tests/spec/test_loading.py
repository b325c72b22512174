"""Which files a load reads, and by which names errors speak of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import fusiest
from fusiest.base.errors import SpecError
from fusiest.spec.workload import einsums


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


def test_a_workload_has_so_many_einsums_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(einsums, "MOST_EINSUMS", 2)
    (tmp_path / "w.yaml").write_text('workload:\n  rank_sizes: {M: 2}\n  bits_per_value: {All: 8}\n  einsums:\n'
                                     '  - "B[m] = A[m]"\n  - ["C[m] = B[m]",\n     "D[m] = C[m]"]\n')  # fmt: skip
    with pytest.raises(SpecError, match=r"w\.yaml:7: a workload may have 2 Einsums at most"):
        fusiest.load(tmp_path / "w.yaml")
