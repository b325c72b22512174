"""Results side by side: what differs, by how much, and what is refused."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

import fusiest
from fusiest.comparison import Comparison, DifferenceLine, Row, read_result
from fusiest.show import si
from tests.command_line import Capture, run

FAST = {"MainMemoryEnergy": 20e-12, "M": 16, "KN": 16}
# A buffer that cannot keep T1 of 16 x 16 values in one piece.
SMALL = {**FAST, "GlobalBufferSize": 512}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Results of two matmuls with a large and a small buffer, and of three."""
    folder = tmp_path_factory.mktemp("results")
    found = {}
    for name, defines in {"large": FAST, "small": SMALL, "three": {**FAST, "N_EINSUMS": 3}}.items():
        result = fusiest.map(fusiest.load("simple", "matmuls", defines={"N_EINSUMS": 2, **defines}))
        found[name] = str(folder / f"{name}.json")
        Path(found[name]).write_text(json.dumps(result.to_json()))
    return found


def comparison(files: dict[str, str], *names: str) -> Comparison:
    return Comparison(tuple(read_result(files[name]) for name in names))


def test_figures_are_those_of_the_results(files: dict[str, str]) -> None:
    found = comparison(files, "large", "small")
    large, small = (json.loads(Path(files[name]).read_text())["mappings"][0] for name in ("large", "small"))
    assert found.totals() == [Row(name, (large[name], small[name])) for name in ("energy", "latency", "edp")]
    rows = found.energy_by_component()
    assert {row.name: row.values[0] for row in rows} == pytest.approx(large["energy_by_component"])
    assert {row.name: row.values[1] for row in rows} == pytest.approx(small["energy_by_component"])
    assert sum(row.values[1] or 0 for row in found.energy_by_einsum()) == pytest.approx(small["energy"])
    assert (
        rows[0].ratio(1) == small["energy_by_component"]["MainMemory"] / large["energy_by_component"]["MainMemory"] > 1
    )


def test_the_small_buffer_is_what_differs_in_the_specs(files: dict[str, str]) -> None:
    lines = comparison(files, "large", "small").spec_difference()
    assert [(line.mark, line.text.strip()) for line in lines] == [
        (" ", "GlobalBuffer"), ("-", 'size: "8 * 1024 * 1024"'), ("+", "size: 512"),
    ]  # fmt: skip


def test_looptrees_differ_in_their_loops_only(files: dict[str, str]) -> None:
    found = comparison(files, "large", "small")
    lines = found.looptree_difference()
    changed = [line.text.lstrip(" -") for line in lines if line.mark in "-+"]
    assert changed
    assert "Matmul0 on MAC" not in changed
    assert [line.text.lstrip(" -") for line in lines if line.mark == " "].count("Matmul0 on MAC") == 1
    assert found.looptree_difference(context=0) == [
        line for line in found.looptree_difference(1, 0) if line.mark != " "
    ]


def test_a_result_equals_itself(files: dict[str, str], capsys: Capture) -> None:
    found = comparison(files, "small", "small")
    assert (found.looptree_difference(), found.spec_difference(), found.moved_tensors()) == ([], [], {})
    assert {row.ratio(1) for row in [*found.totals(), *found.latency_by_einsum()]} == {1.0}
    status, out, err = run(capsys, "compare", files["small"], files["small"])
    assert (status, err) == (0, "")
    assert "LoopTrees are equal\n\nspecs are equal\n" in out


def test_other_workloads_have_rows_of_their_own(files: dict[str, str], capsys: Capture) -> None:
    rows = {row.name: row for row in comparison(files, "large", "three").energy_by_einsum()}
    assert list(rows) == ["Matmul0", "Matmul1", "Matmul2"]
    assert (rows["Matmul2"].values[0], rows["Matmul2"].ratio(1)) == (None, None)
    status, out, _ = run(capsys, "compare", files["large"], files["three"])
    assert status == 0
    assert [line.split()[1] for line in out.splitlines() if line.startswith("Matmul2 ")] == ["-", "-"]


def test_text(files: dict[str, str], capsys: Capture) -> None:
    status, out, err = run(capsys, "compare", files["large"], files["small"])
    assert (status, err) == (0, "")
    found = comparison(files, "large", "small")
    energy = found.totals()[0]
    assert re.search(
        f"^energy +{si(energy.values[0] or 0, 'J')} +{si(energy.values[1] or 0, 'J')} +{energy.ratio(1):.4g}$",
        out,
        re.M,
    )
    assert "fused sets\n  A  Matmul0 Matmul1\n" in out
    assert "+     size: 512\n" in out


def test_tensors_that_moved(tmp_path: Path, capsys: Capture) -> None:
    """Where main memory is free of charge and the buffer is not, T1 goes through main memory."""
    names = []
    for energy in (0, 20e-12):
        spec = fusiest.load("simple", "matmuls", N_EINSUMS=2, M=4, KN=4, MainMemoryEnergy=energy)
        names.append(str(tmp_path / f"{energy}.json"))
        Path(names[-1]).write_text(json.dumps(fusiest.map(spec, "energy").to_json()))
    moved = Comparison((read_result(names[0]), read_result(names[1]))).moved_tensors()
    assert moved == {"T1": ("MainMemory", "GlobalBuffer")}
    out = run(capsys, "compare", *names)[1]
    assert "tensors that moved\n  T1: MainMemory → GlobalBuffer\n" in out
    assert "fused sets\n  A  none\n  B  Matmul0 Matmul1\n" in out


def test_by_chooses_from_a_front(tmp_path: Path) -> None:
    """A document with two mappings, in which energy and latency disagree about the best."""
    spec = fusiest.load("simple", "matmuls", "unfused_matmuls_to_simple", N_EINSUMS=2, M=4, KN=4)
    other = fusiest.load("simple", "matmuls", N_EINSUMS=2, M=4, KN=4)
    document = fusiest.map(other, "energy").to_json()
    assert isinstance(document["mappings"], list)
    found = fusiest.evaluate(spec)
    best = document["mappings"][0]
    assert found.energy > best["energy"]
    from fusiest.spec.dumping import dump_mapping

    assert spec.mapping is not None
    figures = {name: getattr(found, name) for name in ("energy", "latency", "edp")}
    document["mappings"].append({**figures, "mapping": dump_mapping(spec.mapping)})
    document["objective"] = ["energy", "latency"]
    path = tmp_path / "front.json"
    path.write_text(json.dumps(document))
    for by in ("energy", "latency", "edp"):
        saved = read_result(str(path), by)
        assert saved.mappings == 2
        assert getattr(saved.evaluation, by) == min(m[by] for m in document["mappings"])


def test_a_deeper_nest_of_equal_lines_is_a_difference(files: dict[str, str]) -> None:
    """Should only the indentation differ, the trees are still not equal."""
    from fusiest.comparison.compare import _difference

    assert _difference(["a", "b"], ["a", "  b"], ["a", "b"], ["a", "b"], 2) == []
    assert _difference(["a", "b"], ["a", "  b"], ["a", "b"], ["a", "  b"], 2) == [
        DifferenceLine(" ", "a"), DifferenceLine("-", "b"), DifferenceLine("+", "  b"),
    ]  # fmt: skip


def broken(good: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Name -> text of a file, words of the complaint."""
    mapping = good["mappings"][0]

    def changed(**fields: object) -> str:
        return json.dumps({**good, **fields})

    def other_mapping(**fields: object) -> str:
        return changed(mappings=[{**mapping, **fields}])

    return {
        "empty": ("", "not JSON"),
        "text": ("hello", "not JSON"),
        "cut": (json.dumps(good)[:-40], "not JSON"),
        "deep": ("[" * 100_000, "JSON"),
        "list": ("[1, 2]", "not a result of fusiest map --json"),
        "number": ("3", "not a result"),
        "null": ("null", "not a result"),
        "foreign": ('{"energy": 3}', "not a result"),
        "a later format": (changed(format="fusiest-result/2"), "but fusiest-result/2"),
        "no evaluation": (changed(format="fusiest-evaluation/1"), "no finite number"),
        "odd format": (changed(format=[1]), "not a result"),
        "no mappings": (changed(mappings=[]), "'mappings' must be a list that is not empty"),
        "mappings is text": (changed(mappings="x"), "'mappings' must be a list"),
        "mapping is a number": (changed(mappings=[3]), "no finite number"),
        "no energy": (other_mapping(energy=None), "'energy' is missing or no finite number"),
        "infinite": (other_mapping(energy=math.inf), "no finite number"),
        "huge integer": (other_mapping(edp=10**400), "no finite number"),
        "true": (other_mapping(energy=True), "no finite number"),
        "no objective": (changed(objective=None), "'objective'"),
        "odd objective": (changed(objective=["area"]), "'area' is none of energy, latency, edp"),
        "escape codes": (changed(objective=["energy", "\x1b[31m"]), r"'\x1b[31m' is none of energy, latency, edp"),
        "no gap": (changed(gap="x"), "'gap'"),
        "old": (changed(spec=None), "'spec' is missing or no text; make it again"),
        "spec in ruins": (changed(spec="arch: ["), "(spec):1"),
        "spec without architecture": (changed(spec="variables: {a: 1}"), "lacks an architecture"),
        "mapping in ruins": (other_mapping(mapping="mapping: 3"), "(mapping):1"),
        "no mapping in it": (other_mapping(mapping="variables: {a: 1}"), "a mapping in it is empty"),
        "odd options": (changed(options={"jobs": -1}), "'options': jobs must be at least 1, but is -1"),
        "odd option": (changed(options={"orders": [3]}), "'options'"),
        "odd statistics": (changed(stats={"wall_seconds": "x"}), "'wall_seconds' is missing or no finite number"),
        "odd funnel": (changed(stats={"funnel": [3]}), "'funnel' must be a list of tables"),
        "odd funnel step": (changed(stats={"funnel": [{}]}), "'finished' is missing"),
        "odd counts": (changed(stats={"pmappings": {"A": "x"}}), "'A' is missing or no finite number"),
        "odd joins": (changed(stats={"joined": [None]}), "'joined' is missing or no finite number"),
        "changed": (other_mapping(energy=mapping["energy"] * 2), "it was changed, or written by another version"),
    }


def test_files_that_are_no_results(files: dict[str, str], tmp_path: Path, capsys: Capture) -> None:
    good = json.loads(Path(files["large"]).read_text())
    for name, (text, words) in broken(good).items():
        path = tmp_path / f"{name}.json"
        path.write_text(text)
        for arguments in (
            ["compare", str(path), files["large"]],
            ["compare", files["large"], str(path)],
            ["report", str(path), "--no-unfused", "--quiet", "--out", str(tmp_path / "page.html")],
        ):
            status, out, err = run(capsys, *arguments)
            out = "" if arguments[0] == "report" else out
            assert (status, out, err.count("\n")) == (2, "", 1), name
            assert words in err, name


@pytest.mark.parametrize("name", ["missing.json", ".", "/dev/null"])
def test_files_that_cannot_be_read(name: str, files: dict[str, str], capsys: Capture) -> None:
    status, _, err = run(capsys, "compare", name, files["large"])
    assert (status, err.count("\n")) == (2, 1)


def test_an_unknown_criterion(files: dict[str, str], capsys: Capture) -> None:
    status, _, err = run(capsys, "compare", files["large"], files["large"], "--by", "area")
    assert (status, err) == (2, "'area' is none of energy, latency, edp\n")


def test_any_number_of_results_and_evaluations(files: dict[str, str], tmp_path: Path, capsys: Capture) -> None:
    given = str(tmp_path / "given.json")
    defines = [f"-D{name}={value}" for name, value in FAST.items()]
    assert run(capsys, "evaluate", "simple", "matmuls", "unfused_matmuls_to_simple", *defines, "--json", given)[0] == 0
    page = tmp_path / "page.html"
    status, out, err = run(capsys, "compare", *files.values(), given, "--report", str(page))
    assert (status, err) == (0, "")
    assert re.search(r"^ +A +B +B / A +C +C / A +D +D / A$", out, re.M)
    assert "D  " + given + "  (given, not searched for)" in out
    found = Comparison((*comparison(files, *files).results, read_result(given)))
    energy = found.totals()[0]
    assert energy.values[3] == json.loads(Path(given).read_text())["energy"]
    assert f"{energy.ratio(3):.4g}" in out
    assert found.moved_tensors()["T1"] == ("GlobalBuffer", "GlobalBuffer", "GlobalBuffer", "MainMemory")
    assert found.moved_tensors()["T2"] == ("MainMemory", "MainMemory", "GlobalBuffer", "MainMemory")
    assert "  D  differs from A in " in out
    assert "specs of A and B  - only A, + only B\n" in out
    assert "specs of A and D are equal\n" in out
    assert page.exists()


def test_names_go_on_after_z() -> None:
    assert Comparison((None,) * 28).names()[24:] == ["Y", "Z", "A2", "B2"]


def test_one_result_is_no_comparison(files: dict[str, str], capsys: Capture) -> None:
    status, _, err = run(capsys, "compare", files["large"])
    assert (status, err.count("\n")) == (2, 1)
    assert "with what is it to be compared?" in err
