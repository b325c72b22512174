"""The page of a sweep: what it shows is what the sweep found, and it is whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fusiest.sweeps import Answer, Design, RunRow, unproven_words
from fusiest.sweeps.file.sweepfile import SweptWorkload
from tests.command_line import run
from tests.report.test_page import data_of


def test_the_page_of_a_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, _, err = run(
        capsys, "sweep", "simple", "matmuls", "-D", "GlobalBufferSize=8 KiB,64 b", "-D", "dataflow=free,unfused", "-D", "M=8",
        "-D", "KN=8", "--jobs", "1", "--quiet", "--report", "sweep.html",
    )  # fmt: skip
    assert (status, err) == (0, "")
    text = Path("sweep.html").read_text()
    data = data_of(text)
    assert (data["count"], len(data["designs"]), data["parameters"]) == (4, 4, ["GlobalBufferSize", "dataflow"])
    assert data["designs"][0] == data["best"][0]
    assert [d["edp"] for d in data["designs"]] == sorted(d["edp"] for d in data["designs"])
    front = data["charts"]["front"]["clouds"][1]
    assert min(front["ys"]) == min(d["energy"] for d in data["designs"])
    curve = data["charts"]["curve-0"]["clouds"][0]
    assert (curve["xs"], data["charts"]["curve-0"]["x_unit"]) == ([8, 8192], "B")
    assert curve["ys"][1] == data["best"][0]["edp"]
    assert data["charts"]["sensitivity"]["series"][0]["values"][0] == pytest.approx(curve["ys"][0] / curve["ys"][1])
    assert all(0 <= share <= 1 for line in data["lines"] for share in line["shares"])
    links = data["reports"][str(data["best"][0]["number"])]
    assert Path(links["matmuls"]).read_text().startswith("<!")
    assert text.count("</script>") == 3


def test_the_best_has_all_its_parameters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that no other design is left to compare with; what follows from others is in no chart."""
    monkeypatch.chdir(tmp_path)
    sweep = {"arch": "simple", "workloads": [{"file": "matmuls", "defines": {"M": 8, "KN": 8}}], "objective": "edp", "best": "edp",
             "parameters": {"A": [64, 65536], "GlobalBufferSize": {"equal": "A"}, "dataflow": ["free", "unfused"]}}  # fmt: skip
    Path("sweep.yaml").write_text(json.dumps({"sweep": sweep}))
    status, out, err = run(capsys, "sweep", "sweep.yaml", "--jobs", "1", "--quiet", "--report", "sweep.html")
    assert (status, err) == (0, "")
    assert "pruned" in out
    data = data_of(Path("sweep.html").read_text())
    assert data["parameters"] == ["A", "GlobalBufferSize", "dataflow"]
    assert len(data["best"][0]["values"]) == 3
    assert data["charts"]["sensitivity"]["categories"] == [
        name for name in ("A", "dataflow") if len({d["values"][0 if name == "A" else 2] for d in data["designs"]}) > 1
    ]


def test_results_that_are_not_proven_are_counted() -> None:
    design, workload = Design(0, {}), SweptWorkload("w", "w")
    rows = [
        RunRow("", "", "done", energy=1, gap=0.0),
        RunRow("", "", "time limit", energy=1, gap=0.25),
        RunRow("", "", "pruned"),
    ]
    answers = [Answer(design, workload, row, "searched") for row in rows]
    assert unproven_words(answers[:1]) == ""
    words = unproven_words(answers)
    assert words == "1 result may not be the best (1 time limit): what is best costs up to 25.0% less"


def test_tables_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Parquet has the rows and columns of CSV."""
    pandas = pytest.importorskip("pandas", reason="pip install 'fusiest[parquet]'")
    pytest.importorskip("pyarrow", reason="pip install 'fusiest[parquet]'")
    monkeypatch.chdir(tmp_path)
    for file in ("sweep.csv", "sweep.parquet"):
        status, _, err = run(
            capsys, "sweep", "simple", "matmuls", "-D", "GlobalBufferSize=64,65536", "-D", "M=8", "-D", "KN=8", "--jobs", "1",
            "--quiet", "--table", file,
        )  # fmt: skip
        assert (status, err) == (0, "")
    text, binary = pandas.read_csv("sweep.csv"), pandas.read_parquet("sweep.parquet")
    assert list(text.columns) == list(binary.columns)
    assert len(text) == len(binary) == 2
    assert list(binary["energy"]) == pytest.approx(list(text["energy"]))
