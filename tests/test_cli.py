"""The command line: what it prints, writes and returns."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

import fusiest
import fusiest.pmapping
from fusiest import mapper
from fusiest.base import interrupt
from fusiest.mapper.options import Options
from fusiest.mapper.results.result import Result, Stats
from fusiest.show import si
from tests.command_line import MATMULS, TWO, Capture, run
from tests.malformed.good import GOOD


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    return str(path)


def test_evaluate_prints_the_totals(capsys: Capture) -> None:
    status, out, err = run(capsys, "evaluate", *MATMULS, "-D", "N_EINSUMS=3")
    result = fusiest.evaluate(fusiest.load(*MATMULS, N_EINSUMS=3))
    assert (status, err) == (0, "")
    assert out.startswith("energy ")
    assert si(result.edp, "Js") in out
    assert "Matmul2" in out
    assert "GlobalBuffer" in out


def test_defines_are_yaml_scalars(capsys: Capture) -> None:
    _, small, _ = run(capsys, "evaluate", *MATMULS, "-D", "N_EINSUMS=2", "-D", "KN=0x10", "-D", "MainMemoryEnergy=2.5")
    _, large, _ = run(capsys, "evaluate", *MATMULS, "-D", "N_EINSUMS=2", "-D", "KN=32", "-D", "MainMemoryEnergy=2.5")
    assert small != large
    status, _, err = run(capsys, "evaluate", *MATMULS, "-D", "N_EINSUMS='2'")
    assert (status, err.count("\n")) == (2, 1)


def test_evaluation_json(good: str, tmp_path: Path, capsys: Capture) -> None:
    status, out, err = run(capsys, "evaluate", good, good, good, "--json", str(tmp_path / "result.json"))
    assert (status, err) == (0, "")
    assert out.startswith("energy ")
    found = json.loads((tmp_path / "result.json").read_text())
    assert {
        "format", "energy", "dynamic_energy", "leak_energy", "latency", "edp", "peak_occupancy_bits", "einsums",
        "warnings", "spec", "mapping", "version", "created", "command",
    } <= found.keys()  # fmt: skip
    assert found["format"] == "fusiest-evaluation/1"
    assert found["edp"] == found["energy"] * found["latency"]
    assert found["energy"] == found["dynamic_energy"] + found["leak_energy"]
    assert found["peak_occupancy_bits"].keys() == {"DRAM", "Buffer"}
    assert list(found["einsums"]) == ["B", "C"]
    einsum = found["einsums"]["B"]
    assert list(einsum) == [
        "energy", "latency", "bottleneck", "latency_per_component", "actions", "energies", "occupancy_bits",
    ]  # fmt: skip
    assert einsum["actions"]["MAC//compute"] == 64
    assert {"DRAM/A/read", "Buffer/A/write", "Buffer/B/read"} <= einsum["actions"].keys()
    assert {"MAC//leak", "DRAM//leak", "DRAM/A/read", "MAC//compute"} <= einsum["energies"].keys()
    assert einsum["latency"] == max(einsum["latency_per_component"].values())
    assert einsum["occupancy_bits"].keys() == {f"DRAM/{t}" for t in "AV"} | {f"Buffer/{t}" for t in "AVB"}
    assert sum(e["energy"] for e in found["einsums"].values()) == pytest.approx(found["energy"])
    assert {p.name for p in tmp_path.iterdir()} == {"good.yaml", "result.json"}


@pytest.mark.parametrize("target", ["no/such/folder/result.json", ".", "good.yaml/result.json"])
def test_unwritable_result(target: str, good: str, tmp_path: Path, capsys: Capture) -> None:
    path = str(tmp_path / target)
    status, _, err = run(capsys, "evaluate", good, good, good, "--json", path)
    assert (status, err.count("\n")) == (2, 1)
    assert f"{path}: cannot be written" in err
    assert [p.name for p in tmp_path.iterdir()] == ["good.yaml"]


def test_one_file_by_several_paths(good: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(Path(good).parent)
    assert run(capsys, "evaluate", good, "good.yaml", "./good.yaml")[0] == 0


def test_a_folder_of_the_same_name_does_not_hide_a_bundled_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "simple").mkdir()
    assert run(capsys, "show", "simple")[0] == 0
    (tmp_path / "matvecs").write_text("workload: 3")
    assert run(capsys, "show", "matvecs")[2].startswith("matvecs:1: ")


def test_show(capsys: Capture) -> None:
    _, out, _ = run(capsys, "show", *MATMULS)
    assert ["Architecture" in out, "Workload" in out, "Mapping" in out] == [True] * 3
    assert "Memory GlobalBuffer 1 MiB" in out
    assert "Matmul0:  T1[m, n1] = T0[m, n0] * W0[n0, n1]  (m=128, n0=128, n1=128)" in out
    _, out, _ = run(capsys, "show", "tpu_v4i")
    assert "Memory LocalBuffer 4 MiB x4 Z" in out
    assert "Workload" not in out
    _, out, _ = run(capsys, "show", "fused_matmuls_to_simple")
    assert "for m (tile 1)" in out


def test_show_says_what_expressions_and_defines_are(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "chip.yaml"
    path.write_text(
        GOOD.replace("size: 100 * word", "size: 8 * KIB * SRAM_KIB").replace(
            "variables: {", "variables: {KIB: 1024, SRAM_KIB: {{ SRAM | default(2) }}, INPUTS: len(Inputs), ", 1
        )
    )
    _, out, err = run(capsys, "show", str(path))
    assert err == ""
    assert "Memory Buffer 2 KiB\n" in out
    assert "Variables\n  KIB = 1024\n  SRAM_KIB = 2\n" in out
    assert "  INPUTS = by Einsum\n" in out
    assert "Defines\n  SRAM  2  (default)\n" in out
    _, out, _ = run(capsys, "show", str(path), "-D", "SRAM=4")
    assert "Memory Buffer 4 KiB\n" in out
    assert "Defines\n  SRAM  4\n" in out
    _, out, _ = run(capsys, "show", "tpu_v4i", "gpt3_6.7B")
    assert "Memory Register 0 B to 1 B, by Einsum\n" in out
    assert "Defines\n  N_TOKENS    8192  (default)\n  BATCH_SIZE  1  (default)\n" in out


def test_show_pseudocode(capsys: Capture) -> None:
    status, out, _ = run(capsys, "show", *MATMULS, "--pseudocode")
    assert status == 0
    assert "T1[" in out
    assert run(capsys, "show", *MATMULS)[1] != out
    status, _, err = run(capsys, "show", "fused_matmuls_to_simple", "--pseudocode")
    assert (status, err) == (2, "pseudocode needs the workload too\n")


def test_show_svg(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "mapping.svg"
    assert run(capsys, "show", *MATMULS, "--svg", str(target))[0] == 0
    assert target.read_text().startswith("<svg")
    status, _, err = run(capsys, "show", "simple", "--svg", str(target))
    assert (status, err) == (2, "no file has a section 'mapping:' to draw\n")


def test_show_yaml(tmp_path: Path, capsys: Capture) -> None:
    """A bundled spec as a file to edit: it loads to the same spec."""
    target = tmp_path / "all.yaml"
    assert run(capsys, "show", *MATMULS, "-D", "N_EINSUMS=3", "--yaml", str(target))[0] == 0
    assert fusiest.load(target) == fusiest.load(*MATMULS, N_EINSUMS=3)


@pytest.mark.parametrize("option", ["--yaml", "--svg"])
def test_show_writes_to_stdout(option: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, "show", *MATMULS, "-D", "N_EINSUMS=2", option, "-")
    assert (status, err, list(tmp_path.iterdir())) == (0, "", [])
    assert out.startswith("<svg" if option == "--svg" else "arch:")
    assert "Workload\n" not in out


def test_a_report_goes_to_stdout(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, _ = run(capsys, "evaluate", *MATMULS, "-D", "N_EINSUMS=2", "--report", "-", "--no-unfused")
    assert (status, list(tmp_path.iterdir())) == (0, [])
    assert out.lower().startswith("<!doctype html>")


@pytest.mark.parametrize("options", [[], ["--pseudocode"]])
def test_show_a_mapping_of_another_workload(options: list[str], capsys: Capture) -> None:
    """Without an architecture, too, what does not belong together is an error and no traceback."""
    status, _, err = run(capsys, "show", "matvecs", "fused_matmuls_to_simple", *options)
    assert (status, err.count("\n")) == (2, 1)
    assert err.startswith("<fused_matmuls_to_simple>:")


def test_list(capsys: Capture) -> None:
    status, out, _ = run(capsys, "list")
    assert status == 0
    assert [line for line in out.splitlines() if not line.startswith(" ")] == [
        "arches:", "workloads:", "dataflows:", "mappings:",
    ]  # fmt: skip
    assert re.search(r"^  tpu_v4i +a model of Google's TPU v4i$", out, re.MULTILINE)


def test_version_and_help(capsys: Capture) -> None:
    assert run(capsys, "--version") == (0, f"fusiest {fusiest.__version__}\n", "")
    for arguments in ([], ["--help"], ["evaluate", "--help"]):
        status, out, err = run(capsys, *arguments)
        assert (status, err) == (0, "")
        assert out.startswith("Usage: fusiest")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["evaluat"], "No such command 'evaluat'"),
        (["--jsn"], "No such option: --jsn"),
        (["evaluate"], "Missing argument"),
        (["show", "simple", "--jsn", "x"], "No such option"),
        (["show", "simple", "-D"], "'-D' requires an argument"),
    ],
)
def test_wrong_usage(arguments: list[str], words: str, capsys: Capture) -> None:
    status, out, err = run(capsys, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert words in err
    known = ("evaluate", "show", "map")
    assert err.endswith(f"; see {' '.join(['fusiest', *(a for a in arguments[:1] if a in known)])} --help\n")


@pytest.mark.parametrize(
    ("option", "target"),
    [("--json", "none/x.json"), ("--mapping", "."), ("--report", "."), ("--charts", "file")],
)
def test_targets_are_checked_before_the_search(option: str, target: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").write_text("")
    status, out, err = run(capsys, *TWO, option, str(tmp_path / target))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"{tmp_path / target}: cannot be written: " in err


def test_a_file_that_fails_loses_nothing_else(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fills up during the search: the result is printed all the same, and the other files are written."""
    real = os.fsync

    def fail(number: int) -> None:
        if os.fstat(number).st_size != len((tmp_path / "before.yaml").read_text()):
            raise OSError(28, "No space left on device")
        real(number)

    assert run(capsys, *TWO, "--quiet", "--mapping", str(tmp_path / "before.yaml"))[0] == 0
    monkeypatch.setattr(os, "fsync", fail)
    files = [str(tmp_path / name) for name in ("r.json", "best.yaml", "r.html", "charts")]
    options = [x for pair in zip(("--json", "--mapping", "--report", "--charts"), files, strict=True) for x in pair]
    status, out, err = run(capsys, *TWO, "--quiet", *options)
    assert status == 2
    assert "proven optimal" in out
    lines = err.splitlines()
    assert [line.partition(": ")[0] for line in lines[:2]] == [files[0], files[2]]
    assert (len(lines), lines[2].startswith(files[3])) == (3, True)
    assert {p.name for p in tmp_path.iterdir() if p.is_file()} == {"before.yaml", "best.yaml"}


def test_an_interrupted_report_does_not_lose_the_result(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fusiest.report.data import unfused

    def stopped(*_: object) -> Result:
        return Result(fusiest.load("simple"), ("energy",), [], False, 1.0, Stats(), "interrupt")

    monkeypatch.setattr(unfused, "run", stopped)
    status, out, _ = run(capsys, *TWO, "--report", str(tmp_path / "r.html"), "--json", str(tmp_path / "r.json"))
    assert status == 130
    assert "proven optimal" in out
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


def test_options_that_would_be_ignored(capsys: Capture) -> None:
    assert run(capsys, *TWO, "--dataflow", "simple")[::2] == (2, "simple: no section 'dataflow:'\n")
    assert run(capsys, *TWO, "--seed", "1")[::2] == (2, "--seed is for a baseline; give --mapper\n")
    assert run(capsys, *TWO, "--budget", "9")[::2] == (2, "--budget is for a baseline; give --mapper\n")
    assert run(capsys, *TWO, "--mapper", "fusiest", "--seed", "1", "--budget", "9")[0] == 0
    status, _, err = run(capsys, "show", "simple", "--pseudocode")
    assert (status, err) == (2, "no file has a section 'mapping:' to show as pseudocode\n")


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ((*TWO, "--profile", "--quiet"), True),
        ((*TWO, "--json", "-x.json"), True),
        ((*TWO, "--charts", "--tree"), True),
        ((*TWO, "--usage", "--quiet"), False),
        (("show", "simple", "--yaml", "--svg"), True),
        (("import", "x.onnx", "--output", "--strict"), True),
    ],
)
def test_an_option_is_no_value_of_another(
    arguments: tuple[str, ...], path: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    option, value = arguments[-2:]
    hint = f"; what is really called so is ./{value}" if path else ""
    assert run(capsys, *arguments) == (2, "", f"{option} {value}: the value of {option} is missing{hint}\n")
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_read_is_not_overwritten(good: str, tmp_path: Path, capsys: Capture) -> None:
    """Also by another name for it, and not two outputs into one file."""
    link, text = tmp_path / "link.yaml", Path(good).read_text()
    link.symlink_to(good)
    for arguments in (
        ["map", good, good, "--json", good],
        ["map", good, good, "--mapping", str(link)],
        ["map", good, good, "--report", str(tmp_path / "." / "good.yaml")],
        ["evaluate", good, good, good, "--json", good],
        ["show", good, "--yaml", good],
        ["show", good, "--svg", str(link)],
    ):
        status, out, err = run(capsys, *arguments)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert f"{arguments[-2]} would overwrite it, and it is read here; name another file" in err
        assert Path(good).read_text() == text
    twice = str(tmp_path / "x.json")
    status, _, err = run(capsys, "map", good, good, "--json", twice, "--mapping", twice)
    assert (status, err) == (
        2,
        f"{twice}: --mapping would overwrite it, and --json writes it, too; name another file\n",
    )
    assert run(capsys, "evaluate", good, good, good, "--json", "/dev/null")[0] == 0


def test_a_time_limit_counts_from_when_the_program_began(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading is part of it. The result says what was asked for."""
    limits: list[float | None] = []

    def searched(spec: fusiest.Spec, options: Options, progress: object) -> Result:
        limits.append(options.time_limit)
        return fusiest.map(spec, options.objective, jobs=1)

    monkeypatch.setattr(mapper, "run", searched)
    for seconds, left in ((0.0, 5.0), (2.0, 3.0), (9.0, 0.0)):
        monkeypatch.setattr(interrupt, "program_seconds", lambda seconds=seconds: seconds)
        status, out, _ = run(capsys, *TWO, "--time-limit", "5", "--json", "-")
        assert (status, limits.pop()) == (0, left)
        assert json.loads(out)["options"]["time_limit"] == 5.0


def test_a_program_knows_how_long_it_has_run() -> None:
    assert interrupt.program_seconds() == 0
    with interrupt.program():
        first = interrupt.program_seconds()
        assert 0 <= first <= interrupt.program_seconds() < 60
        with interrupt.program(100.0):  # the outermost one began first
            assert interrupt.program_seconds() < 60
    with interrupt.program(100.0):
        assert 100 <= interrupt.program_seconds() < 160
    assert interrupt.program_seconds() == 0


def test_notes_take_a_tenth_of_the_time_limit(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Choices of Spatial loops may take long to count, and the search is over by then."""

    def endless(spec: fusiest.Spec) -> None:
        while True:
            interrupt.check()

    monkeypatch.setattr(fusiest.pmapping, "spatial_notes", endless)
    monkeypatch.setattr("fusiest.cli.commands.map.LONG_SECONDS", -1)
    for limit, most in (([], 1.0), (["--time-limit", "5"], 0.5)):
        begin = time.perf_counter()
        status, out, _ = run(capsys, *TWO, "-D", "M=4", "-D", "KN=4", *limit, "--json", "-")
        seconds = time.perf_counter() - begin - json.loads(out)["stats"]["wall_seconds"]
        assert status == 0
        assert most <= seconds < most + 1.5
