"""AccelForge's own example files, unchanged: which load, and what the others want."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import fusiest

SHARED = Path(__file__).parents[3] / "shared" / "specs" / "accelforge"
pytestmark = pytest.mark.skipif(not SHARED.exists(), reason="no data beside the project: ../shared")
DEFINES: dict[str, object] = {
    "BATCH_SIZE": 2, "N_NEW_TOKENS": 64, "N_CACHED_TOKENS": 512, "N_EINSUMS": 2, "ATTENTION_TYPE": "grouped_query",
}  # fmt: skip
NOT_ACCEPTED = {
    "misc/component_annotated.yaml": "one component, no spec",
    "workloads/cnns/mobilenet/mobilenet_various_separate.yaml": "an older format, which AccelForge refuses as well",
}


def complete(folder: str) -> list[Path]:
    """Files that are specs: not those that others include, nor those that AccelForge does not take either."""
    files = sorted((SHARED / folder).rglob("*.yaml"))
    relative = {file: str(file.relative_to(SHARED)) for file in files}
    return [
        f
        for f in files
        if "/_" not in relative[f] and "memory_cells" not in relative[f] and relative[f] not in NOT_ACCEPTED
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("decode", [False, True])
@pytest.mark.parametrize("file", complete("workloads"), ids=lambda file: file.stem)
def test_every_workload_loads(file: Path, decode: bool) -> None:
    spec = fusiest.load(file, defines={**DEFINES, "DECODE": decode})
    assert len(spec.info.einsums) == len(spec.require_workload().einsums) >= 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("file", [*complete("mappings"), *complete("misc")], ids=lambda file: file.stem)
def test_mappings_and_the_rest_load(file: Path) -> None:
    spec = fusiest.load(file, defines=DEFINES)
    assert spec.mapping is not None or spec.workload is not None


@pytest.mark.filterwarnings("ignore")
def test_architectures() -> None:
    """All load but those of compute in memory, whose error names what they need."""
    refused: dict[str, str] = {}
    files = complete("arches")
    for file in files:
        try:
            fusiest.load(file, defines=DEFINES)
        except fusiest.SpecError as error:
            refused[file.stem] = str(error)
    assert not any("\n" in line for line in refused.values())
    assert len(files) - len(refused) >= 11, refused
    assert refused.keys() <= {file.stem for file in files if "compute_in_memory" in str(file)}
    assert all(re.search("unknown function '|no component_class '", line) for line in refused.values())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("decode", [False, True])
@pytest.mark.parametrize(
    "name", ["gpt/gpt3_6.7B", "qwen/qwen3_30B_A3B", "deepseek/deepseek_v3_671B", "llama/llama4_scout"]
)
def test_transformers_fit_the_tpu(name: str, decode: bool) -> None:
    files = SHARED / "arches" / "tpu_v4i.yaml", SHARED / "workloads" / "transformers" / f"{name}.yaml"
    assert len(fusiest.load(*files, defines={**DEFINES, "DECODE": decode}).info.einsums) >= 10


@pytest.mark.filterwarnings("ignore")
def test_gpt3_is_the_bundled_one() -> None:
    """Written in another way, with other names for some variables, but the same Einsums of the same sizes."""
    theirs = fusiest.load(
        SHARED / "workloads" / "transformers" / "gpt" / "gpt3_6.7B.yaml", defines={**DEFINES, "DECODE": False}
    )
    ours = fusiest.load("gpt3_6.7B", BATCH_SIZE=2, N_TOKENS=64)
    sizes = [
        {name: sorted(info.bounds.values()) for name, info in spec.info.einsums.items()} for spec in (theirs, ours)
    ]
    assert sizes[0] == sizes[1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("arch", "workload", "objective"), [("snowcat", "matvecs", "energy"), ("tpu_v4i", "matmuls", "edp")]
)
def test_optima_are_those_that_accelforge_reports(arch: str, workload: str, objective: str) -> None:
    """With its own files as they are; `unfused` keeps everything in the outermost memory."""
    cases = json.loads((SHARED.parent / "expected.json").read_text(encoding="utf-8"))["cases"]
    case = next(c for c in cases if (c["arch"], c["workload"], c["objective"]) == (arch, workload, objective))
    files = SHARED / "arches" / f"{arch}.yaml", SHARED / "workloads" / "basic" / f"{workload}.yaml"
    spec = fusiest.load(*files, defines=case["defines"])
    if case["mode"] == "unfused":
        spec = spec.with_component("MainMemory", tensors={"keep": "All"})
    best = fusiest.map(spec, objective=objective, exchange="any", max_fused_loops=1).best(objective)
    assert best.energy == pytest.approx(case["energy"], rel=1e-6)
    assert best.latency == pytest.approx(case.get("latency", best.latency), rel=1e-6)
