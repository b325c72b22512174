"""What an optimum is over, in phrases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fusiest
from fusiest.mapper.options import Options
from fusiest.mapper.results.domain import domain
from fusiest.terminal.summary import result_parts

SMALL = {"N_EINSUMS": 2, "M": 16, "KN": 16}


def test_by_default() -> None:
    assert domain(fusiest.load("simple", "matmuls", **SMALL), Options(), "all") == [
        "tiles that divide",
        "holders in the order of memories",
        "at most one fused loop per rank variable",
        "tensors used when they are finished",
        "all orders of Einsums",
    ]


def test_with_every_option() -> None:
    options = Options(imperfect=True, max_fused_loops=3, max_fused_loops_per_variable=2, exchange="any", orders="given")
    assert domain(fusiest.load("simple", "matmuls", **SMALL), options, "given (more than 10,000 sets)") == [
        "tiles that divide or not",
        "holders in the order of memories",
        "at most 2 fused loops per rank variable",
        "at most 3 per Einsum",
        "tensors used finished or not",
        "Einsums in the order given",
    ]


def test_what_the_architecture_leaves_out(tmp_path: Path) -> None:
    spec = fusiest.load("tpu_v4i", "matmuls", **SMALL)
    assert any(line.startswith("`min_usage` of ") for line in domain(spec, Options(), "all"))
    text = fusiest.dump(fusiest.load("simple", "matmuls", **SMALL))
    file = tmp_path / "free.yaml"
    file.write_text(text.replace("tensors:", "tensors:\n      force_memory_hierarchy_order: false", 1))
    assert "holders in the order of memories, but for MainMemory" in domain(fusiest.load(str(file)), Options(), "all")


@pytest.mark.parametrize(("m", "noted"), [(16, False), (197, True)])
def test_results_say_so(m: int, noted: bool) -> None:
    result = fusiest.map(fusiest.load("simple", "matmuls", N_EINSUMS=1, M=m, KN=4), "energy", jobs=1)
    document = json.loads(json.dumps(result.to_json()))
    assert document["domain"] == result.domain
    assert document["advice"] == result.advice
    assert any("imperfect" in line for line in result.advice) == noted
    assert "Optimal among: tiles that divide; " in str(result_parts(result)[0])
