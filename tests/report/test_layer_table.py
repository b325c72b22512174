"""A row per layer: in data frames, in files and on the page; its figures are those of the evaluation."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

import fusiest
from fusiest.mapper.results.result import Result
from fusiest.report.data.background import Background
from fusiest.report.data.view import mapping_view
from fusiest.report.layers import FIRST, layer_tables
from tests.command_line import Capture, run
from tests.report.subjects import gpt3, tradeoff

SMALL = ("simple", "matmuls", "-D", "N_EINSUMS=2", "-D", "M=8", "-D", "KN=8")


@pytest.fixture(scope="module", params=["front", "gpt3"])
def result(request: pytest.FixtureRequest) -> Result:
    return tradeoff().result if request.param == "front" else gpt3()


def test_rows_are_shares_of_the_evaluation(result: Result) -> None:
    table = result.table("einsum")
    assert table.columns[:5] == ("mapping", *FIRST)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    names = list(result.spec.info.einsums)
    assert len(rows) == len(names) * len(result.mappings)
    for row in rows:
        evaluation = result.mappings[int(str(row["mapping"])) - 1].evaluation
        einsum = evaluation.einsums[str(row["einsum"])]
        assert (row["energy"], row["latency"], row["bottleneck"]) == (
            einsum.energy,
            einsum.latency,
            einsum.bottleneck or None,
        )
        by_component = [row[f"{name}_energy"] for name in evaluation.energy_by_component()]
        assert sum(map(float, map(str, by_component))) == pytest.approx(einsum.energy)
        assert row["macs"] in (0, row["operations"] // 2)
        assert row["operations"] in (0, einsum.points * (1 + (row["macs"] != 0)))
        assert row["share_of_peak"] is None or 0 < row["share_of_peak"] <= 1 + 1e-9


def test_by_hand() -> None:
    """8 x 8 x 8 multiplications of values of 8 bits, a bit per action: every value read or written once in main memory."""
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=2, M=8, KN=8)
    result = fusiest.map(spec, "energy", jobs=1)
    table = result.table("einsum")
    row = dict(zip(table.columns, table.rows[0], strict=True))
    best = result.best("energy")
    assert (row["einsum"], row["operation"], row["sizes"]) == ("Matmul0", "matmul", "m=8, n0=8, n1=8")
    assert (row["macs"], row["operations"], row["fused_set"]) == (512, 1024, "A")
    assert row["share_of_peak"] == pytest.approx(1024 / (2e9 * best.evaluation.einsums["Matmul0"].latency))
    assert row["MainMemory_traffic_bits"] == 2 * 64 * 8  # T0 and W0; T1 stays on chip
    actions = best.evaluation.einsums["Matmul0"].actions
    assert row["GlobalBuffer_traffic_bits"] == sum(n for (c, _, _), n in actions.items() if c == "GlobalBuffer")
    (alone,) = layer_tables(spec, [(best.looptree, best.evaluation)])
    assert tuple(table.rows[0][1:]) == alone.rows[0]


def test_columns_of_an_evaluation_stay() -> None:
    assert gpt3().mappings[0].evaluation.table("einsum").columns == FIRST


def test_files(tmp_path: Path, capsys: Capture) -> None:
    saved = str(tmp_path / "result.json")
    layers = tmp_path / "layers.csv"
    status, _, err = run(capsys, "map", *SMALL, "--json", saved, "--csv-layers", str(layers), "--quiet", "--jobs", "1")
    assert (status, err) == (0, "")
    rows = list(csv.DictReader(io.StringIO(layers.read_text())))
    document = json.loads(Path(saved).read_text())
    assert {row["mapping"] for row in rows} == {str(i + 1) for i in range(len(document["mappings"]))}
    first = [row for row in rows if row["mapping"] == "1"]
    assert sum(float(row["energy"]) for row in first) == pytest.approx(document["mappings"][0]["energy"])
    status, out, _ = run(capsys, "evaluate", saved, "--csv-layers", "-")
    assert status == 0
    given = list(csv.DictReader(io.StringIO(out)))
    assert [row["einsum"] for row in given] == ["Matmul0", "Matmul1"]
    assert {"sizes", "macs", "share_of_peak", "fused_set", "MainMemory_traffic_bits", "MAC_energy"} <= given[0].keys()
    status, _, err = run(capsys, "evaluate", saved, "--csv", "-", "--csv-layers", "-")
    assert status == 2
    assert "--csv-layers" in err


def test_the_page_has_the_same_rows() -> None:
    subject = tradeoff()
    mapping = subject.result.mappings[0]
    view = mapping_view(Background(subject.result.spec), mapping.looptree, mapping.evaluation)["layers"]
    (table,) = layer_tables(subject.result.spec, [(mapping.looptree, mapping.evaluation)])
    assert len(view["rows"]) == len(table.rows)
    titles, units = zip(*view["columns"], strict=True)
    assert titles[:4] == ("Einsum", "energy", "latency", "bottleneck")
    assert units[:4] == (None, "J", "s", None)
    for shown, row in zip(view["rows"], table.rows, strict=True):
        for value, of, unit in zip(shown, row, units, strict=True):
            assert value == (of * {"B": 1 / 8, "%": 100}.get(unit, 1) if isinstance(of, (int, float)) else of)
