"""What a report says of what was mapped: figures of the architecture, Einsums, tensors, and where all of it comes from."""

from __future__ import annotations

import dataclasses

import pytest

import fusiest
from fusiest.mapper.options import Options
from fusiest.report.data.background import Background
from fusiest.report.data.mapped import component_rows, mapped, origin, spec_texts
from fusiest.spec.reading.loading import load_texts
from tests.command_line import run
from tests.report.subjects import gpt3, tradeoff
from tests.report.test_page import SMALL, data_of


def test_figures_of_the_tpu() -> None:
    rows = {row["name"]: row for row in component_rows(Background(gpt3().spec).machine)}
    assert list(rows) == [
        "MainMemory",
        "GlobalBuffer",
        "LocalBuffer",
        "ScalarUnit",
        "ProcessingElement",
        "Register",
        "MAC",
    ]
    assert [row["depth"] for row in rows.values()] == [0, 1, 2, 3, 3, 4, 5]
    assert rows["GlobalBuffer"]["size"] == [128 * 2**20] * 2
    assert [(a, rate[0], joules[0]) for a, rate, joules in rows["GlobalBuffer"]["actions"]] == [
        ("read", 8 * 2048e9, 1.88e-12), ("write", 8 * 1024e9, 2.36e-12),
    ]  # fmt: skip
    assert rows["MainMemory"]["size"] == [None, None]
    assert rows["LocalBuffer"]["count"] == 4
    assert rows["LocalBuffer"]["fanouts"] == [["Z", 4]]
    assert rows["MAC"]["peak"] == pytest.approx(2 * 65536 * 1.05e9)
    assert rows["Register"]["size"] == [0, 1]  # an Einsum without weights has none
    assert rows["GlobalBuffer"]["area"] == [112e-6, 112e-6]


@pytest.mark.parametrize("files", [("tpu_v4i", "gpt3_6.7B"), ("edge_transformer", "mobilenet"), ("snowcat", "matvecs")])
def test_the_files_load_to_what_was_mapped(files: tuple[str, str]) -> None:
    spec = fusiest.load(*files)
    again = load_texts(spec_texts(spec), {})
    assert (again.arch, again.workload, again.renames, again.variables) == (
        spec.arch,
        spec.workload,
        spec.renames,
        spec.variables,
    )


def test_einsums_and_tensors() -> None:
    found = mapped(tradeoff().background)
    assert [row[0] for row in found["einsums"]] == ["A", "B", "C", "D"]
    assert found["einsums"][1] == [
        "B",
        "B[m, n] = A[m, k] * W[k, n]",
        {"m": 16, "k": 8, "n": 16},
        1,
        "matmul",
        2 * 16 * 8 * 16,
    ]
    tensors = {row[0]: row[1:] for row in found["tensors"]}
    assert tensors["W"] == ["weights", {"K": 8, "N": 16}, 8, 128, True]
    assert tensors["D"][0] == "activations"


def test_where_it_comes_from() -> None:
    result = tradeoff().result
    again = dataclasses.replace(result, options=Options(usage=None, orders="given", time_limit=60))
    found = origin(again)
    assert found["made"]["options"] == "orders=given, time_limit=60"
    assert found["spec_sha256"] == result.to_json()["spec_sha256"]


def test_the_command_line_is_in_the_page(capsys: pytest.CaptureFixture[str], tmp_path: object) -> None:
    file = f"{tmp_path}/r.html"
    status, _, err = run(capsys, *SMALL, "--report", file, "--no-unfused")
    assert status == 0, err
    with open(file, encoding="utf-8") as stream:
        made = data_of(stream.read())["made"]
    assert made["files"] == ["simple", "matmuls"]
    assert made["defines"] == {"N_EINSUMS": "2", "M": "16", "KN": "16"}
    assert made["command"][1:4] == ["map", "simple", "matmuls"]
    assert made["version"] == fusiest.__version__
    assert made["created"].endswith("Z")
