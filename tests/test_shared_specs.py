"""The specs as AccelForge publishes them: all load, and the mappings have a cost."""

from __future__ import annotations

from pathlib import Path

import pytest

import fusiest

SHARED = Path(__file__).parents[2] / "shared" / "specs"
pytestmark = pytest.mark.skipif(not SHARED.exists(), reason="no data beside the project: ../shared")
FILES = sorted(SHARED.glob("*/*.yaml"))
NEEDS_LENGTH = ("matmuls", "fused_matmuls_to_simple", "unfused_matmuls_to_simple")


def defines(*names: str, n: int = 3) -> dict[str, object]:
    return {"N_EINSUMS": n} if any(name in NEEDS_LENGTH for name in names) else {}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_file_loads(file: Path) -> None:
    spec = fusiest.load(file, defines=defines(file.stem))
    assert (spec.arch or spec.workload or spec.mapping) is not None


@pytest.mark.parametrize("workload", sorted(SHARED.glob("workloads/*.yaml")), ids=lambda file: file.stem)
@pytest.mark.parametrize("arch", ["simple", "snowcat", "tpu_v4i"])
def test_pairs_load_together(arch: str, workload: Path) -> None:
    files = (SHARED / "arches" / f"{arch}.yaml", workload)
    if (arch, workload.stem) == ("tpu_v4i", "matvecs"):
        with pytest.raises(fusiest.SpecError, match="unknown name 'input'"):
            fusiest.load(*files)
    else:
        fusiest.load(*files, defines=defines(workload.stem))


@pytest.mark.parametrize(
    ("workload", "mapping", "n"),
    [
        ("matvecs", "unfused_matvecs_to_simple", 0),
        ("matvecs", "fused_matvecs_to_simple_tiled", 0),
        ("matvecs", "fused_matvecs_to_simple_tiled_reuse_A", 0),
        ("matvecs", "fused_matvecs_to_simple_untiled", 0),
        *(("matmuls", "unfused_matmuls_to_simple", n) for n in (1, 2, 3, 8)),
        *(("matmuls", "fused_matmuls_to_simple", n) for n in (2, 3, 8)),
    ],
)
def test_mappings_have_a_cost(workload: str, mapping: str, n: int) -> None:
    files = [SHARED / f"{kind}.yaml" for kind in ("arches/simple", f"workloads/{workload}", f"mappings/{mapping}")]
    result = fusiest.evaluate(fusiest.load(*files, defines=defines(workload, n=n)))
    assert result.energy > 0
    assert result.latency > 0


def test_a_mapping_that_holds_a_tensor_twice() -> None:
    files = [
        SHARED / f"{kind}.yaml" for kind in ("arches/simple", "workloads/matmuls", "mappings/fused_matmuls_to_simple")
    ]
    with pytest.raises(
        fusiest.SpecError, match=r"fused_matmuls_to_simple\.yaml:\d+: .*T0 is held twice in GlobalBuffer"
    ):
        fusiest.evaluate(fusiest.load(*files, N_EINSUMS=1))
