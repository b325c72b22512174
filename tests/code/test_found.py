"""Mappings that searches find and that the library has, as C: every value, every count, every high-water mark.

Workloads with more than 10⁹ multiply-accumulates are made smaller.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fusiest
from fusiest.spec import library_files
from tests.code.compiled import Batch, needs_compiler
from tests.mapper.test_published import _cases, _load, _name
from tests.proving import PROVE

pytestmark = needs_compiler
FAST = ("-std=c99", "-O2", "-Wall", "-Werror")
SMALLER: dict[str, dict[str, Any]] = {"matmuls": {"M": 256, "KN": 128}, "gpt3_6.7B": {"BATCH_SIZE": 1, "N_TOKENS": 4}}
BUNDLED = [
    ("matmuls", "fused_matmuls_to_simple"),
    ("matmuls", "unfused_matmuls_to_simple"),
    ("matvecs", "fused_matvecs_to_simple_tiled"),
    ("matvecs", "unfused_matvecs_to_simple"),
]
WINDOWS: list[tuple[str, str, dict[str, Any]]] = [
    ("edge_transformer", "fsrcnn", {"ROWS": 12, "COLUMNS": 16}),
    ("edge_transformer", "mobilenet", {"SIZE": 28}),
    ("edge_transformer", "resnet18_block", {"SIZE": 28, "CHANNELS": 16}),
    ("fused_layer_fpga", "vgg_e", {"SIZE": 32}),
]


def shrunk(case: dict[str, Any]) -> dict[str, Any]:
    """A case with fewer than 10⁹ multiply-accumulates."""
    smaller = SMALLER.get(case["workload"], {})
    if case["workload"] == "matmuls" and case["defines"].get("M", 0) <= 1000:
        return case
    return {**case, "defines": {**case["defines"], **smaller}}


@pytest.mark.skipif(not PROVE, reason="many cases: FUSIEST_PROVE=1")
@pytest.mark.parametrize("case", [shrunk(case) for case in _cases()], ids=_name)
def test_published_optima(case: dict[str, Any], tmp_path: Path) -> None:
    batch, spec = Batch(), _load(case)
    for mapping in fusiest.map(spec, case["objective"], windows="none").mappings:
        batch.add(spec, mapping.looptree)
    batch.run(tmp_path, FAST)


def test_bundled_mappings(tmp_path: Path) -> None:
    batch = Batch()
    for workload, mapping in BUNDLED:
        spec = fusiest.load("simple", workload, mapping)
        assert spec.mapping is not None
        batch.add(spec, spec.mapping)
    batch.run(tmp_path, FAST)


@pytest.mark.skipif(not PROVE, reason="many cases: FUSIEST_PROVE=1")
@pytest.mark.parametrize("arch", [name for name in library_files("arches") if "cim" in name])
def test_compute_in_memory(arch: str, tmp_path: Path) -> None:
    """A product on each chip that has a mapping of it."""
    batch, spec = Batch(), fusiest.load(arch, "matmuls", N_EINSUMS=1, M=16, KN=32)
    try:
        best = fusiest.map(spec, "edp").best()
    except fusiest.NoMapping as error:
        pytest.skip(str(error))
    batch.add(spec, best.looptree)
    batch.run(tmp_path, FAST)


@pytest.mark.skipif(not PROVE, reason="many cases: FUSIEST_PROVE=1")
@pytest.mark.parametrize("windows", ["retained", "all"])
@pytest.mark.parametrize(("arch", "workload", "sizes"), WINDOWS)
def test_windows(arch: str, workload: str, sizes: dict[str, Any], windows: str, tmp_path: Path) -> None:
    """Convolutions that are fused through their halos."""
    batch, spec = Batch(), fusiest.load(arch, workload, **sizes)
    batch.add(spec, fusiest.map(spec, "edp", windows=windows, time_limit=60).best().looptree)
    batch.run(tmp_path, FAST)
