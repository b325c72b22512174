"""Golden answers: what `fusiest.map` finds for bundled and random specs, kept bit for bit. They guard changes that should change nothing.

`python -m tests.golden_answers` computes them anew, for a change that is meant to change them; the difference is then read.
`python -m tests.golden_answers --draw` also draws the random specs anew.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import fusiest
from fusiest.spec import load_texts
from tests.drawing.dice import Dice
from tests.drawing.windows import draw_small_cnn
from tests.mapper_strategies import mapper_cases
from tests.workload_strategies import workload_cases

FILE = Path(__file__).parent / "golden" / "answers.json"
_FRONT: dict[str, Any] = {}
_EDP = {"objective": "edp"}
_OPTIONS: tuple[dict[str, Any], ...] = (
    _FRONT, _EDP, {"objective": "energy"}, {"objective": "latency"}, {"orders": "given"}, {"exchange": "any"},
    {"max_fused_loops": 1}, {"imperfect": True, "objective": "edp"}, {"coarse": False}, {"bounds": False},
)  # fmt: skip
_SIZES = {"BATCH_SIZE": 1, "N_TOKENS": 64}
_BUNDLED: tuple[tuple[tuple[str, ...], dict[str, Any], dict[str, Any]], ...] = (
    (("simple", "matmuls"), {"N_EINSUMS": 3}, _FRONT), (("simple", "matmuls"), {"N_EINSUMS": 3}, _EDP),
    (("simple", "matvecs"), {}, {"orders": "given"}), (("snowcat", "matmuls"), {"N_EINSUMS": 2}, _FRONT),
    (("tpu_v4i", "gpt3_6.7B"), _SIZES, {"objective": "energy"}), (("edge_transformer", "gpt2"), _SIZES, _EDP),
    (("eyeriss", "matmuls"), {"N_EINSUMS": 2}, _EDP), (("nvdla", "resnet18_downsample"), {}, {"objective": "latency"}),
    (("edge_npu", "resnet18_block"), {}, {"objective": "edp", "windows": "retained"}), (("simba", "matmuls"), {"N_EINSUMS": 2}, _EDP),
    (("edge_npu", "mobilenet_28"), {}, {"objective": "edp", "windows": "none"}),
)  # fmt: skip


def main() -> None:
    if "--draw" in sys.argv:
        cases = [{"files": list(files), "defines": d, "options": o} for files, d, o in _BUNDLED]
        cases += _drawn("Einsum", mapper_cases(), 30, lambda case: case.spec, _OPTIONS)
        cases += _drawn("workload", workload_cases(), 24, lambda case: case.spec, _OPTIONS)
        windows: tuple[dict[str, Any], ...] = ({"windows": "all", "objective": "edp"}, {"windows": "retained"})
        cases += _drawn("windows", _small_cnns(), 16, lambda spec: spec, windows)
    else:
        cases = [case for case, _ in kept()]
    answers = []
    for number, case in enumerate(cases):
        begin = time.process_time()
        answers.append({**case, "answer": answer(case)})
        print(
            number,
            case.get("kind") or case["files"],
            case["options"],
            f"{time.process_time() - begin:.1f} s",
            flush=True,
        )
    FILE.write_text(json.dumps(answers, indent=1) + "\n", encoding="utf-8")


def kept() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Cases and their answers."""
    return [(case, case.pop("answer")) for case in json.loads(FILE.read_text(encoding="utf-8"))]


def spec_of(case: dict[str, Any]) -> fusiest.Spec:
    if "files" in case:
        return fusiest.load(*case["files"], defines=case["defines"])
    return load_texts({"drawn": case["text"]}, {})


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """What `map` says: costs as hexadecimal floats, mappings by a hash of their YAML; or why there is none."""
    try:
        result = fusiest.map(spec_of(case), **case["options"], jobs=1)
    except (fusiest.NoMapping, fusiest.SpecError) as error:
        return {"mappings": [], "error": type(error).__name__}
    mappings = [
        [float(m.energy).hex(), float(m.latency).hex(), hashlib.sha256(fusiest.dump_mapping(m.looptree).encode()).hexdigest()[:12]]
        for m in result.mappings
    ]  # fmt: skip
    return {"mappings": mappings, "optimal": result.optimal, "gap": float(result.gap).hex(), "domain": result.domain}


def _drawn(
    kind: str, strategy: st.SearchStrategy[Any], count: int, spec: Callable[[Any], fusiest.Spec],
    options: tuple[dict[str, Any], ...],
) -> list[dict[str, Any]]:  # fmt: skip
    cases: dict[str, dict[str, Any]] = {}

    @seed(20261119)
    @settings(
        max_examples=8 * count,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    @given(strategy)
    def draw(case: Any) -> None:
        text = fusiest.dump(spec(case))
        try:
            load_texts({"drawn": text}, {})
        except fusiest.SpecError:  # a drawn name that no file can have
            return
        if len(text) > 1000:
            cases.setdefault(text, {"kind": kind, "text": text})

    draw()
    chosen = list(cases.values())[:: max(1, len(cases) // count)][:count]
    return [{**case, "options": options[i % len(options)]} for i, case in enumerate(chosen)]


@st.composite
def _small_cnns(draw: st.DrawFn) -> fusiest.Spec:
    dice = Dice(draw)
    return draw_small_cnn(dice, dice.one_of(["pair", "triple", "residual", "image", "pooled"]))


if __name__ == "__main__":
    main()
