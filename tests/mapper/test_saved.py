"""Saved results: what is written is documented, and read back it is the same."""

from __future__ import annotations

import copy
import csv
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pandas
import pytest

import fusiest
from fusiest.base.errors import FusiestError
from fusiest.experiments.baselines.baseline_options import BaselineOptions
from fusiest.experiments.baselines.running import run_baseline
from fusiest.mapper.options import Options
from fusiest.mapper.results.result import Result
from fusiest.mapper.results.saved import load_any
from fusiest.report import report_html, subject_of
from fusiest.spec.hardware.architecture import Memory, flatten
from tests.command_line import Capture, run
from tests.report.subjects import tradeoff

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
DEFINES = {"N_EINSUMS": 2, "M": 16, "KN": 16, "GlobalBufferSize": 2048}
SMALL = ("simple", "matmuls", *(f"-D{name}={value}" for name, value in DEFINES.items()))


@pytest.fixture(scope="module")
def front() -> Result:
    """More than one mapping."""
    result = tradeoff().result
    assert len(result.mappings) > 1
    return result


def strict(schema: Any) -> Any:
    """The same schema without leave to say more than it describes."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(value) for key, value in schema.items()}
    if "properties" in schema and "additionalProperties" not in schema:
        found["additionalProperties"] = False
    return found


def check(document: object) -> None:
    """As documented, and nothing else in it."""
    assert isinstance(document, dict)
    name = str(document["format"]).replace("/", "-")
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    plain = json.loads(json.dumps(document, allow_nan=False))
    jsonschema.Draft202012Validator(strict(schema), format_checker=jsonschema.FormatChecker()).validate(plain)


def test_results_are_as_documented(front: Result) -> None:
    check(front.to_json())
    spec = fusiest.load("simple", "matmuls", defines=DEFINES)
    for options in ({"usage": "GlobalBuffer"}, {"objective": "edp", "time_limit": 0, "max_fused_loops": 1}):
        check(fusiest.map(spec, jobs=1, **options).to_json())
    found = run_baseline(spec, Options(("edp",), jobs=1), BaselineOptions("timeloop", 0, 100))
    check(found.to_json())
    assert found.to_json()["mapper"] == "timeloop"


def test_evaluations_are_as_documented(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "evaluation.json"
    assert (
        run(capsys, "evaluate", "tpu_v4i", "matmuls", "-D", "M=8", "-D", "KN=8", str(mapped(tmp_path, capsys)))[0] == 0
    )
    files = ("simple", "matmuls", "fused_matmuls_to_simple")
    assert run(capsys, "evaluate", *files, "-D", "N_EINSUMS=2", "--json", str(target))[0] == 0
    document = json.loads(target.read_text())
    check(document)
    assert document["files"] == list(files)
    assert document["defines"] == {"N_EINSUMS": 2}
    assert document["command"][:2] == ["fusiest", "evaluate"]
    assert document["mapper"] == "given"


def mapped(folder: Path, capsys: Capture) -> Path:
    """A result on the TPU, which says how large it is."""
    target = folder / "tpu.json"
    command = ["map", "tpu_v4i", "matmuls", "-D", "M=8", "-D", "KN=8", "--objective", "edp", "--json", str(target)]
    assert run(capsys, *command, "--quiet", "--jobs", "1")[0] == 0
    document = json.loads(target.read_text())
    check(document)
    assert document["area"] == pytest.approx(sum(document["area_by_component"].values()))
    assert document["area_by_component"]["LocalBuffer"] == pytest.approx(4 * 51e-6)
    assert document["area_by_component"]["MAC"] == pytest.approx(4 * 128 * 128 * 8.5e-10)
    assert document["leak_power"] == sum(document["leak_power_by_component"].values())
    for mapping in document["mappings"]:
        assert mapping["tops"] == pytest.approx(mapping["operations"] / mapping["latency"] / 1e12)
        assert mapping["tops_per_watt"] == pytest.approx(mapping["operations"] / mapping["energy"] / 1e12)
        assert mapping["tops_per_mm2"] == pytest.approx(mapping["tops"] / document["area"] / 1e6)
    assert document["command"] == ["fusiest", *command, "--quiet", "--jobs", "1"]
    return target


def test_what_the_contract_names(front: Result) -> None:
    document: Any = front.to_json()
    assert {"format", "objective", "optimal", "gap", "mappings", "stats"} <= document.keys()
    assert document["format"] == "fusiest-result/1"
    for m in document["mappings"]:
        assert {"energy", "latency", "edp", "einsum_order", "mapping"} <= m.keys()
        assert m["energy"] == pytest.approx(sum(e["energy"] for e in m["einsums"].values()))
        assert m["latency"] == pytest.approx(sum(e["latency"] for e in m["einsums"].values()))
        for e in m["einsums"].values():
            assert e["latency"] == (e["latency_per_component"][e["bottleneck"]] if e["bottleneck"] else 0)
    assert {"wall_seconds", "cpu_seconds", "peak_rss_bytes", "pmappings", "joined"} <= document["stats"].keys()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["created"])
    assert document["version"] == fusiest.__version__


def test_a_result_comes_back_whole(front: Result, tmp_path: Path) -> None:
    front.save(tmp_path / "result.json")
    again = Result.load(tmp_path / "result.json")
    assert again.to_json() == front.to_json()
    assert again.mappings == front.mappings
    assert (again.objective, again.options, again.optimal, again.gap) == (
        front.objective, front.options, front.optimal, front.gap,
    )  # fmt: skip
    assert again.stats == front.stats
    assert again.provenance == front.provenance
    assert again.spec.info.einsums.keys() == front.spec.info.einsums.keys()
    assert report_html(subject_of(again, "x", unfused=False)) == report_html(subject_of(front, "x", unfused=False))


def test_defines_and_options_come_back(tmp_path: Path) -> None:
    constraints = {"keep": "All"}
    spec = fusiest.load("snowcat", "matmuls", M=8, KN=8, ADDITIONAL_MAINMEMORY_CONSTRAINTS=constraints)
    fusiest.map(spec, "energy", jobs=1, time_limit=100.0, max_fused_loops=1).save(tmp_path / "r.json")
    again = Result.load(tmp_path / "r.json")
    assert again.provenance.files == ("snowcat", "matmuls")
    assert again.provenance.defines == {"M": 8, "KN": 8, "ADDITIONAL_MAINMEMORY_CONSTRAINTS": constraints}
    assert again.options == Options(("energy",), jobs=1, time_limit=100.0, max_fused_loops=1, windows="all")
    changed = fusiest.map(spec.with_component("GlobalBuffer", size=4096), "energy", jobs=1)
    assert changed.provenance.files == ()


def test_results_of_older_versions_are_read(front: Result, tmp_path: Path) -> None:
    """What they did not say is left at its default."""
    document: Any = front.to_json()
    for name in ("version", "created", "command", "files", "defines", "mapper", "options", "stopped", "area"):
        del document[name]
    for m in document["mappings"]:
        del m["einsums"], m["dynamic_energy"]
    del document["stats"]["most_survivors"]
    (tmp_path / "old.json").write_text(json.dumps(document))
    again = Result.load(tmp_path / "old.json")
    assert again.mappings == front.mappings
    assert again.searched


def test_a_mapping_that_was_changed_is_refused(front: Result, tmp_path: Path) -> None:
    document: Any = copy.deepcopy(front.to_json())
    document["mappings"][-1]["latency"] *= 1.001
    (tmp_path / "changed.json").write_text(json.dumps(document))
    with pytest.raises(FusiestError, match="it was changed, or written by another version"):
        Result.load(tmp_path / "changed.json")


def test_an_evaluation_is_no_result(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "evaluation.json"
    run(capsys, "evaluate", "simple", "matmuls", "fused_matmuls_to_simple", "--json", str(target))
    with pytest.raises(FusiestError, match="not a result of fusiest map --json but fusiest-evaluation/1"):
        Result.load(target)
    result = load_any(target)
    assert not result.searched
    assert result.proof == "given, not searched for"
    assert result.mappings[0].einsum_order == ("Matmul0", "Matmul1")


@pytest.fixture
def saved(tmp_path: Path, capsys: Capture) -> str:
    target = str(tmp_path / "saved.json")
    assert run(capsys, "map", *SMALL, "--objective", "energy", "--json", target, "--quiet", "--jobs", "1")[0] == 0
    return target


def test_commands_take_a_result(saved: str, tmp_path: Path, capsys: Capture) -> None:
    """It has all sections; what another file has takes their place."""
    document = json.loads(Path(saved).read_text())
    energy = document["mappings"][0]["energy"]
    for files in ([saved], [saved, saved, saved], ["simple", saved, "-D", "GlobalBufferSize=2048"]):
        status, out, err = run(capsys, "evaluate", *files, "--json", str(tmp_path / "e.json"))
        assert (status, err) == (0, "")
        assert json.loads((tmp_path / "e.json").read_text())["energy"] == energy
    status, out, _ = run(capsys, "show", saved)
    assert status == 0
    assert ["Architecture" in out, "Workload" in out, "Mapping" in out] == [True] * 3
    assert run(capsys, "show", saved, "--svg", str(tmp_path / "m.svg"))[0] == 0
    status, out, _ = run(
        capsys, "map", saved, "--objective", "energy", "--quiet", "--json", str(tmp_path / "again.json")
    )
    assert json.loads((tmp_path / "again.json").read_text())["mappings"][0]["energy"] == energy
    larger = fusiest.load("simple", saved, GlobalBufferSize=4096)
    assert larger.arch is not None
    sizes = {str(n.name): n.size for n in flatten(larger.arch.nodes) if isinstance(n, Memory)}
    assert sizes["GlobalBuffer"] == 4096
    assert larger.mapping is not None
    assert fusiest.load(saved, "matmuls", M=8, KN=8).info.einsums["Matmul0"].bounds["m"] == 8


def test_a_mapping_that_does_not_fit_another_chip(saved: str, capsys: Capture) -> None:
    status, _, err = run(capsys, "evaluate", "simple", saved, "-D", "GlobalBufferSize=8")
    assert (status, err.count("\n")) == (3, 1)
    assert err.startswith(f"{saved} (mapping):")


def test_a_report_of_saved_results(saved: str, tmp_path: Path, capsys: Capture) -> None:
    evaluation = str(tmp_path / "given.json")
    assert run(capsys, "evaluate", saved, "--json", evaluation)[0] == 0
    status, out, err = run(capsys, "report", saved, evaluation, "--quiet")
    assert (status, err) == (0, "")
    assert out.split() == [str(tmp_path / "saved.html"), str(tmp_path / "given.html")]
    assert '"searched":true' in (tmp_path / "saved.html").read_text(encoding="utf-8")
    assert '"searched":false' in (tmp_path / "given.html").read_text(encoding="utf-8")
    assert run(capsys, "report", saved, "--no-unfused", "--quiet", "--out", str(tmp_path / "x.html"))[0] == 0
    assert (tmp_path / "x.html").exists()
    for wrong in (["--out", "x.html"], ["--charts", "x"]):
        status, _, err = run(capsys, "report", saved, evaluation, *wrong)
        assert (status, err.count("\n")) == (2, 1)
    status, _, err = run(capsys, "report", saved, "--out", saved)
    assert status == 2
    assert "would overwrite it" in err


def test_a_report_of_an_evaluation(saved: str, tmp_path: Path, capsys: Capture) -> None:
    status, out, err = run(capsys, "evaluate", saved, "--report", str(tmp_path / "r.html"), "--quiet", "--no-unfused")
    assert (status, err) == (0, "")
    assert out.startswith("energy ")
    assert '"searched":false' in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_stdout_has_the_document_and_nothing_else(saved: str, capsys: Capture) -> None:
    status, out, err = run(capsys, "evaluate", saved, "--json", "-")
    assert (status, err) == (0, "")
    check(json.loads(out))
    status, out, _ = run(capsys, "map", *SMALL, "--json", "-", "--quiet", "--jobs", "1")
    check(json.loads(out))
    status, out, _ = run(capsys, "map", *SMALL, "--mapping", "-", "--quiet", "--jobs", "1")
    assert out.startswith("mapping:\n")
    status, out, err = run(capsys, "evaluate", saved, "--json", "-", "--csv", "-")
    assert (status, out, err) == (2, "", "--csv -: --json writes it, too; only one can go to stdout\n")


def test_data_frames(front: Result) -> None:
    evaluation = front.mappings[0].evaluation
    frame = evaluation.to_frame()
    assert list(frame.columns) == ["einsum", "component", "tensor", "action", "count", "energy"]
    assert frame["energy"].sum() == pytest.approx(evaluation.energy)
    by_component = frame.groupby("component")["energy"].sum().to_dict()
    assert by_component == pytest.approx(evaluation.energy_by_component())
    everything = front.to_frame()
    assert list(everything.columns)[:2] == ["mapping", "einsum"]
    totals = everything.groupby("mapping")["energy"].sum()
    assert list(totals) == pytest.approx([m.energy for m in front.mappings])
    costs = front.to_frame("mapping")
    assert list(costs["latency"]) == [m.latency for m in front.mappings]
    assert any(name.endswith("_peak_bits") for name in costs.columns)
    einsums = front.to_frame("einsum")
    assert einsums.groupby("mapping")["latency"].sum().tolist() == pytest.approx([m.latency for m in front.mappings])
    with pytest.raises(FusiestError, match="a table by 'acton' is not known; did you mean 'action'"):
        front.to_frame("acton")


def test_without_pandas_a_line_says_so(front: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(FusiestError, match=r"data frames need pandas: pip install 'fusiest\[pandas\]'"):
        front.to_frame()


def test_csv(saved: str, capsys: Capture) -> None:
    """Needs no pandas, and is what pandas reads."""
    status, out, _ = run(capsys, "evaluate", saved, "--csv", "-")
    assert status == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    energy = json.loads(Path(saved).read_text())["mappings"][0]["energy"]
    assert sum(float(row["energy"]) for row in rows) == pytest.approx(energy)
    assert {row["action"] for row in rows} == {"read", "write", "compute", "leak"}
    assert pandas.read_csv(io.StringIO(out))["energy"].sum() == pytest.approx(energy)
    status, out, _ = run(capsys, "map", *SMALL, "--csv", "-", "--quiet", "--jobs", "1")
    assert out.splitlines()[0] == "mapping,einsum,component,tensor,action,count,energy"
