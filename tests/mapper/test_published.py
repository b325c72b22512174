"""The mapper against published optima: tied or beaten, case by case."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fusiest
from fusiest.spec.hardware.architecture import Memory, Tensors

SHARED = Path(__file__).parents[3] / "shared"
pytestmark = pytest.mark.skipif(not SHARED.exists(), reason="no data beside the project: ../shared")


def _cases() -> list[dict[str, Any]]:
    file = SHARED / "specs" / "expected.json"
    return json.loads(file.read_text())["cases"] if file.exists() else []


def _load(case: dict[str, Any]) -> fusiest.Spec:
    files = [
        SHARED / "specs" / "arches" / f"{case['arch']}.yaml",
        SHARED / "specs" / "workloads" / f"{case['workload']}.yaml",
    ]
    spec = fusiest.load(*files, defines=case["defines"])
    if case["mode"] == "fused":
        return spec
    first = spec.require_arch().nodes[0]
    assert isinstance(first, Memory)
    kept = replace(first, tensors=Tensors(keep="All"))
    return fusiest.Spec(
        arch=replace(spec.require_arch(), nodes=(kept, *spec.require_arch().nodes[1:])),
        workload=spec.workload,
        renames=spec.renames,
        variables=spec.variables,
    )


def _name(case: dict[str, Any]) -> str:
    return "-".join(
        [case["arch"], case["workload"], *map(str, case["defines"].values()), case["mode"], case["objective"]]
    )


@pytest.mark.parametrize("case", [c for c in _cases() if not c["workload"].startswith("gpt3")], ids=_name)
def test_tied_or_beaten(case: dict[str, Any]) -> None:
    result = fusiest.map(_load(case), case["objective"], windows="none")
    assert result.optimal
    if "front" in case:
        for energy, latency in case["front"]:
            assert any(m.energy <= energy * (1 + 1e-6) and m.latency <= latency * (1 + 1e-6) for m in result.mappings)
        return
    best = result.best(case["objective"])
    if case["objective"] == "energy":
        assert best.energy <= case["energy"] * (1 + 1e-6)
    else:
        assert best.edp <= case["energy"] * case["latency"] * (1 + 1e-6)


@pytest.mark.parametrize(
    ("batch", "tokens", "exchange", "unfinished"),
    [(1, 1024, "finished", []), (1, 1024, "any", []), (64, 4096, "any", ["QK uses K", "AV uses V"])],
)
def test_gpt3_differs_from_the_published_optimum_by_the_copy_alone(
    batch: int, tokens: int, exchange: str, unfinished: list[str]
) -> None:
    """The published figure charges the copy of I into the global buffer as a read; the model (and the golden copy case)
    as a write. Nothing else differs, if Einsums may use tensors that are not finished, as the larger published mapping
    does."""
    case = next(c for c in _cases() if c["defines"] == {"BATCH_SIZE": batch, "N_TOKENS": tokens})
    orders = "all" if exchange == "finished" else "given"
    found = fusiest.map(_load(case), case["objective"], orders=orders, exchange=exchange).best(case["objective"])
    copied_bits = batch * tokens * 4096 * 8
    assert math.isclose(found.energy - copied_bits * (2.36e-12 - 1.88e-12), case["energy"], rel_tol=1e-6)
    assert math.isclose(found.latency, case["latency"], rel_tol=1e-6)
    warnings = found.evaluation.warnings
    assert [w.removeprefix("Einsum ").split(" before ")[0] for w in warnings] == unfinished


@pytest.mark.parametrize("name", ["m1_mm_tradeoff", "m2_two_mm_fused", "m3_mm_spatial"])
def test_golden_fronts(name: str) -> None:
    vector = json.loads((SHARED / "golden" / "mapper_vectors" / f"{name}.json").read_text())
    result = fusiest.map(fusiest.load(SHARED / "golden" / "mapper_cases" / f"{name}.yaml"))
    expected = [(point["energy"], point["latency"]) for point in vector["pareto"]]
    found = [(m.energy, m.latency) for m in result.mappings]
    assert len(found) == len(expected)
    for (energy, latency), (e, t) in zip(found, sorted(expected), strict=True):
        assert energy == pytest.approx(e, rel=1e-6)
        assert latency == pytest.approx(t, rel=1e-6)
