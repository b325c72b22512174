"""Every experiment in miniature: what it writes, that it goes on where it stopped, and what its summary says."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fusiest import load, map
from fusiest.base.errors import FusiestError, SpecError
from fusiest.experiments.reproduce import ablation, convergence, gpt3_mapping, pieces, searching, time_per_einsum
from fusiest.experiments.reproduce.convergence_page import above
from fusiest.experiments.reproduce.edge import cases as edge
from fusiest.experiments.reproduce.edge import energy_breakdown, fusion_sets, transformer
from fusiest.experiments.reproduce.experiment_names import EXPERIMENTS
from fusiest.experiments.reproduce.experiment_output import Output, write
from fusiest.experiments.reproduce.pieces import Study
from fusiest.experiments.reproduce.run import chosen, reproduce
from tests.command_line import run

SMALL = {"N_EINSUMS": 2, "M": 64, "KN": 64}


def files(study: Study, name: str, output: Output) -> tuple[list[dict[str, str]], str]:
    """The rows of the CSV file and the summary, once all files are written."""
    written = {path.name for path in write(study, name, "Title", output)}
    pictures = {f"{name}.svg"} if output.draw is None else {f"{name}.svg", f"{name}.png"}
    assert {f"{name}.csv", f"{name}.md", *pictures} == written
    assert (study.out / f"{name}.svg").read_text(encoding="utf-8").rstrip().endswith("</svg>")
    rows = list(csv.DictReader((study.out / f"{name}.csv").open(encoding="utf-8")))
    text = (study.out / f"{name}.md").read_text(encoding="utf-8")
    assert f"{name}.svg" in text
    assert "paper" in text
    return rows, text


def test_convergence(tmp_path: Path) -> None:
    study = Study(tmp_path, quick=True, times=0.3, runs=2)
    rows, text = files(study, "convergence", convergence.run(study, "tpu_v4i", "matmuls", SMALL))
    last = {row["mapper"]: row for row in rows}
    assert set(last) == set(convergence.NAMES)
    assert all(float(row[run]) >= 0 for row in last.values() for run in ("run0", "run1"))
    assert "Mean ± standard deviation of 2 runs" in text
    assert "| SET |" in text


def test_convergence_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Larger budgets are added to smaller ones; without time, what is there is written, and how far it got."""
    calls: list[tuple[object, ...]] = []
    one_run = convergence._one_run

    def counted(settings: dict[str, object]) -> object:
        calls.append((settings["mapper"], settings["seed"], settings["times"], settings.get("free", True)))
        return one_run(settings)

    monkeypatch.setattr(convergence, "_one_run", counted)
    case = ("tpu_v4i", "matmuls", SMALL)
    small = Study(tmp_path, times=0.1, runs=2)
    convergence.run(small, *case)
    first = len(calls)
    assert first == len(set(calls)) > 2 * len(convergence.NAMES)
    out_of_time = Study(tmp_path, times=100.0, runs=2, hours=0.0, deadline=0.0)
    text = convergence.run(out_of_time, *case).summary
    assert len(calls) == first
    assert "The experiment is not finished: all runs are done up to SET 0.1×" in text
    assert "| not run | not run |" in text
    convergence.run(Study(tmp_path, times=1.0, runs=2), *case)
    assert len(calls) > first
    assert not set(calls[:first]) & set(calls[first:])


def test_a_run_that_found_the_optimum_is_not_made_again(tmp_path: Path) -> None:
    study = Study(tmp_path, times=100.0, runs=1)
    tiny = {"N_EINSUMS": 1, "M": 4, "KN": 4}
    text = convergence.run(study, "tpu_v4i", "matmuls", tiny).summary
    assert "4 of 4 runs found the optimum" in text
    made = {path.name for path in (tmp_path / "pieces" / "convergence").iterdir()}
    assert "set-0-100.json" not in made


def test_pieces_of_other_code_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = Study(tmp_path)
    assert study.piece("a", {}, lambda: 1) == 1
    monkeypatch.setattr(pieces, "_code", lambda: "other")
    assert study.piece("a", {}, lambda: 2) == 2


def test_no_time_left(tmp_path: Path) -> None:
    """Pieces that would take too long are left out; others are made."""
    study = Study(tmp_path, deadline=time.monotonic() + 50_000)
    wanted = {f"p/{x}": {"x": x} for x in range(3)}
    found = study.pieces(wanted, doubled, {"p/0": 1.0, "p/1": 100_000.0})
    assert found == {"p/0": 0, "p/2": 4}


def test_scaling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_per_einsum, "QUICK_COUNTS", (1, 2))
    study = Study(tmp_path, quick=True, times=5.0, runs=2)
    rows, text = files(study, "scaling", time_per_einsum.run(study, {"M": 64, "KN": 64}))
    ours = [row for row in rows if row["mapper"] == "fusiest"]
    assert [row["einsums"] for row in ours] == ["1", "2"]
    assert all(float(row["seconds"]) > 0 for row in ours)
    assert "| 2 |" in text


def test_scaling_counts_timeouts_as_the_paper() -> None:
    """Also their time: that of evaluations, as long as fusiest's, which spends half of its time on them."""
    ours = {"seconds": 2.0, "exploring": 1.0, "edp": 1.0}
    assert time_per_einsum._seconds([3.0, None], 1, ours, 2) == 2.5
    assert time_per_einsum._seconds([None, None], 2, ours, 2) is None
    assert time_per_einsum._seconds([None, None, 5.0], 2, ours, 3) is None


def test_mapping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpt3_mapping, "QUICK", {"BATCH_SIZE": 1, "N_TOKENS": 128})
    study = Study(tmp_path, quick=True)
    rows, text = files(study, "mapping", gpt3_mapping.run(study))
    assert len(rows) == 10
    assert {row["holds"] for row in rows} <= {"True", "False"}
    assert next(row for row in rows if "cores" in row["observation"])["holds"] == "True"
    assert f"{sum(row['holds'] == 'True' for row in rows)} of 10 observations hold" in text


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """Mappings for short sequences, made once for the three experiments about the edge accelerator."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edge, "QUICK_LENGTHS", (128, 256))
        yield Study(tmp_path_factory.mktemp("edge"), quick=True)


def test_edge_transformer(short: Study) -> None:
    rows, text = files(short, "edge-transformer", transformer.run(short))
    edp = {(row["tokens"], row["dataflow"]): float(row["edp"]) for row in rows if row["mac_energy"] == "per MAC"}
    assert len(edp) == 8
    for (tokens, _), value in edp.items():
        assert value >= edp[tokens, "fusiest"] * (1 - 1e-9)
    worst = max(edp[tokens, "transfusion"] / edp[tokens, "fusiest"] for tokens in ("128", "256"))
    assert f"up to {worst:.2f}× the optimum" in text
    assert "1.8×" in text


def test_energy_breakdown(short: Study) -> None:
    rows, text = files(short, "energy-breakdown", energy_breakdown.run(short))
    for row in rows:
        kinds = sum(float(row[kind]) for kind in energy_breakdown.KINDS)
        assert kinds == pytest.approx(float(row["off-chip memory"]))
    assert "TransFusion keeps other intermediates on chip: yes" in text


def test_fusion_sets(short: Study) -> None:
    rows, text = files(short, "fusion-sets", fusion_sets.run(short))
    assert {row["einsum"] for row in rows} == {"V", "K", "Q", "QK", "QK_softmax", "AV", "Z", "FFA", "FFB"}
    softmax = next(row for row in rows if row["einsum"] == "QK_softmax")
    assert float(softmax["operations_per_byte"]) == 0.5
    assert "the Einsum of least intensity (QK_softmax) is fused" in text


def test_ablation(tmp_path: Path) -> None:
    study = Study(tmp_path, quick=True)
    cases: dict[str, dict[str, object]] = {"two": {"workload": "matmuls", "defines": SMALL}}
    rows, text = files(study, "ablation", ablation.run(study, cases))
    assert [row["search"] for row in rows] == list(ablation.SWITCHES)
    assert len({row["edp"] for row in rows}) == 1
    assert all(row["finished"] == "True" for row in rows)
    assert "yes, checked for all searches that finished" in text


def test_a_search_without_one_of_its_parts_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def search(settings: dict[str, Any]) -> dict[str, object]:
        if "bounds" in settings["switches"]:
            time.sleep(100_000)
        return {"cpu_seconds": 1.0, "peak_survivors": 3, "pairs": 4, "finished": True, "edp": 2.0}

    limited = ablation._limited

    def patient(settings: dict[str, Any]) -> dict[str, object]:
        """What ends is waited for, however slow the machine is."""
        return limited({**settings, "limit": 0.1 if "bounds" in settings["switches"] else 100_000})

    monkeypatch.setattr(ablation, "_search", search)
    monkeypatch.setattr(ablation, "_limited", patient)
    monkeypatch.setattr(ablation, "QUICK_LIMIT", 0.5)
    study = Study(tmp_path, quick=True)
    rows, text = files(study, "ablation", ablation.run(study, {"one": {"workload": "matmuls", "defines": SMALL}}))
    assert [row["search"] for row in rows if row["finished"] == "False"] == ["no bounds", "no bounds, no grouping"]
    assert text.count("given up after 0.5 s | - | - |") == 2


def test_an_interrupted_search_leaves_no_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have found a mapping, but not the optimum that the experiment would take it for."""
    spec = load("simple", "matmuls", N_EINSUMS=1, M=8, KN=8)
    monkeypatch.setattr(searching, "run", lambda *_: replace(map(spec, jobs=1), optimal=False, stopped="interrupt"))
    monkeypatch.setattr(gpt3_mapping, "QUICK", {"BATCH_SIZE": 1, "N_TOKENS": 128})
    with pytest.raises(KeyboardInterrupt):
        gpt3_mapping.run(Study(tmp_path, quick=True))
    assert not list(tmp_path.rglob("*.json"))


def test_a_baseline_better_than_the_optimum_is_a_bug() -> None:
    assert above({"history": [[1.0, 3.0], [2.0, 2.0]]}, {"edp": 2.0}, np.inf) == 0
    assert np.isnan(above({"history": [[1.0, 3.0]]}, {"edp": 2.0}, 0.5))
    with pytest.raises(FusiestError, match="less than the optimum"):
        above({"history": [[1.0, 1.9]]}, {"edp": 2.0}, np.inf)


def test_pieces_are_computed_once(tmp_path: Path) -> None:
    calls: list[int] = []

    def compute() -> dict[str, int]:
        calls.append(1)
        return {"n": len(calls)}

    study = Study(tmp_path)
    assert study.piece("a/b", {"x": 1}, compute) == {"n": 1}
    assert study.piece("a/b", {"x": 1}, compute) == {"n": 1}
    assert study.piece("a/b", {"x": 2}, compute) == {"n": 2}
    (tmp_path / "pieces" / "a" / "b.json").write_text("{ half", encoding="utf-8")
    assert study.piece("a/b", {"x": 2}, compute) == {"n": 3}


def doubled(settings: dict[str, int]) -> int:
    return 2 * settings["x"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_pieces_in_processes(tmp_path: Path, jobs: int) -> None:
    study = Study(tmp_path, jobs=jobs)
    wanted = {f"p/{x}": {"x": x} for x in range(3)}
    assert study.pieces(wanted, doubled) == {"p/0": 0, "p/1": 2, "p/2": 4}
    assert study.has(wanted)
    assert not study.has({"p/0": {"x": 5}})


def test_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpt3_mapping, "QUICK", {"BATCH_SIZE": 1, "N_TOKENS": 128})
    out = tmp_path / "results"
    status, printed, progress = run(capsys, "reproduce", "mapping", "--quick", "--out", str(out))
    assert status == 0
    assert printed.split() == [str(out / f"mapping.{kind}") for kind in ("csv", "svg", "md")]
    assert "mapping" in progress
    assert (out / "pieces-quick" / "mapping" / "optimum.json").exists()


def test_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert chosen("all") == list(EXPERIMENTS)
    with pytest.raises(SpecError, match="did you mean 'scaling'"):
        chosen("scalin")
    status, _, err = run(capsys, "reproduce", "mapping", "--hours", "-1")
    assert (status, err) == (2, "hours must not be negative, but is -1.0\n")
    status, _, err = run(capsys, "reproduce", "convergence", "--times", "1e-5", "--out", str(tmp_path), "--quiet")
    assert (status, err) == (2, "times must be at least 0.001 for convergence, but is 1e-05\n")
    status, _, err = run(capsys, "reproduce", "mapping", "--runs", "0")
    assert (status, err) == (2, "runs must be positive, but is 0\n")
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(FusiestError, match="cannot be made"):
        reproduce("ablation", Study(blocked / "below", quick=True))
