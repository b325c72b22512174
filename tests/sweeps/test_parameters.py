"""Sweep files and designs: what they mean, and what is wrong with them, in a line."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

import fusiest
from fusiest.base.errors import SpecError
from fusiest.spec import flatten
from fusiest.sweeps.file.component_fields import with_field
from fusiest.sweeps.file.design_specs import Chips
from fusiest.sweeps.file.designs import Designs, RuledOut
from fusiest.sweeps.file.sweepfile import SweepFile, label_of, load_sweep, make_sweep
from fusiest.sweeps.session import Sweep
from tests.command_line import run

SWEEP = """
sweep:
  arch: simple
  workloads:
  - {file: matmuls, defines: {N_EINSUMS: 2, M: 16, KN: 16}, weight: 0.5, n_instances: 3}
  parameters:
PARAMETERS
  objective: edp
"""


def sweep(tmp_path: Path, parameters: str, more: str = "") -> SweepFile:
    path = tmp_path / "sweep.yaml"
    lines = "\n".join(f"    {line}" for line in parameters.splitlines())
    path.write_text(SWEEP.replace("PARAMETERS", lines) + more)
    return load_sweep(str(path))


def values(found: SweepFile, name: str) -> list[object]:
    return [design.values[name] for design in Designs(found)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GlobalBufferSize: [8192, 65536]", [8192, 65536]),
        ("GlobalBufferSize: 8192", [8192]),
        ("GlobalBufferSize: {range: [64, 1024], scale: log2}", [64, 128, 256, 512, 1024]),
        ("GlobalBufferSize: {range: [15, 120], steps: 8}", [15, 30, 45, 60, 75, 90, 105, 120]),
        ("GlobalBufferSize: {range: [10, 25], step: 10}", [10, 20]),
        ("GlobalBufferSize: {range: [1, 100], scale: log10}", [1, 10, 100]),
        ("KIB: [1, 2]\nGlobalBufferSize: {expression: KIB * 8192}", [8192, 16384]),
        ("GlobalBufferSize: {equal: KIB}\nKIB: [1, 2]", [1, 2]),
    ],
)
def test_values(text: str, expected: list[object], tmp_path: Path) -> None:
    found = sweep(tmp_path, text)
    assert values(found, "GlobalBufferSize") == expected
    Chips(found)


def test_a_range_between_powers_has_its_ends(tmp_path: Path) -> None:
    found = values(
        sweep(tmp_path, "GlobalBufferSize: {range: [1000, 8000], scale: log2, steps: 3}"), "GlobalBufferSize"
    )
    assert found == pytest.approx([1000, 2828.4271247, 8000], rel=1e-9)
    assert (found[0], found[-1]) == (1000, 8000)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("GlobalBuferSize: [1, 2]", "did you mean 'GlobalBufferSize'?"),
        ("GlobalBufferSize: []", "has no values"),
        ("GlobalBufferSize: {range: [10, 1], steps: 3}", "is empty"),
        ("GlobalBufferSize: {range: [0, 8], scale: log2}", "begins above 0"),
        ("GlobalBufferSize: {range: [1, 8]}", "needs steps"),
        ("GlobalBufferSize: {range: [1, 8], scale: log3}", "is none of"),
        ("GlobalBufferSize: [1, 1]", "twice"),
        ("A: {equal: B}\nB: {equal: A}\nGlobalBufferSize: {equal: A}", "uses"),
        ("GlobalBufferSize: {equal: KB}", "there is no parameter 'KB'"),
        ("GlobalBuffer.sise: [1, 2]", "did you mean 'size'?"),
        ("GlobalBufer.size: [1, 2]", "did you mean 'GlobalBuffer'?"),
        ("GlobalBuffer.reed.energy: [1, 2]", "did you mean 'read'?"),
        ("GlobalBuffer.size: [8192]\nGlobalBufferSize: [1, 2]", "both set GlobalBuffer.size"),
        ("A: [1, 2]\nGlobalBufferSize: {expression: A * 64}\nGlobalBuffer.size: [8192]", "both set GlobalBuffer.size"),
        ("GlobalBufferSize: [1, 2]\nM: [4, 8]", "also a define of a workload"),
        ("GlobalBufferSize: {range: [1, 1e12], step: 1}", "it may have 1,000,000"),
        ("GlobalBufferSize: {range: [1, 1e300], step: 1e-300}", "a range goes to 1e+150 at most"),
        ("GlobalBufferSize: {range: [0, 1e9], step: 1e-300}", "it may have 1,000,000"),
        ("GlobalBufferSize: {range: [1e-300, 8], scale: log2}", "begins above 0"),
        (f"GlobalBufferSize: {{range: [1, 1{'0' * 200}], scale: log2}}", "a range goes to 1e+150 at most"),
        (
            "energy: [1, 2]\nGlobalBufferSize: {equal: energy}",
            "parameter energy: figures and columns of tables are named so",
        ),
        ("dataflow: [free, matmuls]", "matmuls: no section 'dataflow:'"),
        ("dataflow: [free, fused-layer]", "what is best depth-first is not proven"),
        ("GlobalBuffer.name: [x]", "names are no parameters"),
        ("GlobalBuffer.size: [-1]", "parameter GlobalBuffer.size: "),
        (
            "MAC.compute.energy: [-1]",
            "sweep.yaml:7: parameter MAC.compute.energy: MAC.compute: energy must not be negative",
        ),
        ("MAC.compute.energy: [true]", "energy must be a number or an expression, but is 'True'"),
        ("MAC.compute.latency: [1e-9]", "give either 'throughput' or 'latency', not both"),
        ("GlobalBuffer.tensors: [All]", "sweep.yaml:7: parameter GlobalBuffer.tensors: tensors must be a mapping"),
        ("dataflow: [free, unfuse]", "did you mean 'unfused'?"),
    ],
)
def test_bad_parameters(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        Chips(sweep(tmp_path, text))
    assert words in str(caught.value)
    assert any(file in str(caught.value) for file in (str(tmp_path), "simple", "matmuls", "fused-layer"))


def test_too_many_designs_and_conditions(tmp_path: Path) -> None:
    axes = "\n".join(f"{name}: {{range: [1, 1000], step: 1}}" for name in ("GlobalBufferSize", "A", "B", "C"))
    with pytest.raises(SpecError, match=r"1,000,000,000,000 designs.*sample"):
        Designs(sweep(tmp_path, axes, "  where: [A + B + C > 0]"))
    sampled = Designs(sweep(tmp_path, axes, "  where: [A + B + C > 0]\n  sample: {random: 5, seed: 3}"))
    assert len({design.number for design in sampled}) == 5
    assert [d.number for d in sampled] == [d.number for d in sampled]


def test_which_condition_rules_out_how_many(tmp_path: Path) -> None:
    found = Designs(sweep(tmp_path, "A: [1, 2, 3, 4]\nGlobalBufferSize: {equal: A}", "  where: [A > 1, A < 3]"))
    out = RuledOut()
    assert [d.values["A"] for d in found.going(out)] == [2]
    assert out.by == {"A > 1": 1, "A < 3": 2}
    with pytest.raises(SpecError, match="'B' is no parameter"):
        Designs(sweep(tmp_path, "A: [1]\nGlobalBufferSize: {equal: A}", "  where: [B > 1]"))


def test_nothing_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sweep(tmp_path, "GlobalBufferSize: [8192, 16384]", "  where: [GlobalBufferSize > 1e6]")
    status, _, err = run(capsys, "sweep", "sweep.yaml", "--dry-run")
    assert (status, err.count("\n")) == (2, 1)
    assert "nothing is left: of 2 designs, 'GlobalBufferSize > 1e6' rules out 2" in err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("GlobalBuffer.size: [1 KiB, 1 KIB]", "did you mean"),
        ("MAC.compute.energy: [1e-12, -1]", "must not be negative"),
    ],
)
def test_a_plan_says_what_is_wrong_with_designs(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sweep(tmp_path, text)
    status, out, err = run(capsys, "sweep", "sweep.yaml", "--dry-run")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[:2] == ["2 designs", "2 runs: 0 known, 1 failed, 1 different ones to do"]
    assert lines[2].startswith("1 run, bad design: ")
    assert words in lines[2]
    assert lines[3].startswith("in 1 family, inside of which")


def test_areas_are_known_before_a_search(tmp_path: Path) -> None:
    found = make_sweep(
        {"arch": "tpu_v4i", "workloads": ["matmuls"], "parameters": {"LocalBuffer.area": [1e-6, 51e-6]},
         "where": ["area.LocalBuffer <= 5e-6", "area > 0"]}
    )  # fmt: skip
    assert [d.values for d in Designs(found, Chips(found).area)] == [{"LocalBuffer.area": 1e-6}]


def test_many_designs_take_no_memory(tmp_path: Path) -> None:
    """A part of a million; the rest is more of the same."""
    found = Designs(sweep(tmp_path, "A: {range: [1, 1000], step: 1}\nGlobalBufferSize: {range: [1, 1000], step: 1}",
                          "  where: [A > 0]"))  # fmt: skip
    assert len(found.grid) == 1_000_000
    going = iter(found)
    next(going)
    tracemalloc.start()
    for _ in range(20_000):
        next(going)
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()


def test_a_sweep_file_reads_no_other_project(tmp_path: Path) -> None:
    for name in ("/etc/passwd", "../../../../../../etc/passwd"):
        (tmp_path / "sweep.yaml").write_text(f"sweep: {{arch: {name}, workloads: [matmuls]}}")
        with pytest.raises(SpecError, match="not a relative path"):
            load_sweep(str(tmp_path / "sweep.yaml"))


def test_workloads_have_names(tmp_path: Path) -> None:
    found = make_sweep({"arch": "simple", "workloads": ["gpt3_6.7B", "gpt3_6.7B", "a/resnet18.onnx"]})
    assert [w.label for w in found.workloads] == ["gpt3_6_7B", "gpt3_6_7B_2", "resnet18"]
    assert label_of("3d.yaml") == "_3d"


def test_specs_are_those_that_load_gives(tmp_path: Path) -> None:
    (tmp_path / "chip.yaml").write_text(fusiest.load("simple").to_yaml())
    made = make_sweep({"arch": "simple", "workloads": [{"file": "matmuls", "defines": {"M": 32}}],
                       "parameters": {"GlobalBufferSize": [8192], "dataflow": ["unfused"]}})  # fmt: skip
    spec = Chips(made).spec(Designs(made).design(0), made.workloads[0])
    assert spec == fusiest.load("simple", "matmuls", "unfused", GlobalBufferSize=8192, M=32)


def test_a_small_sweep_makes_its_specs_once() -> None:
    sweep = make_sweep({"arch": "simple", "workloads": ["matmuls"], "parameters": {"GlobalBufferSize": [4096, 8192]}})
    chips, designs = Chips(sweep), list(Designs(sweep))
    specs = [chips.spec(design, sweep.workloads[0]) for design in designs]
    assert specs[0] != specs[1]
    for design, spec in zip(designs, specs, strict=True):
        assert chips.spec(design, sweep.workloads[0]) is spec


def test_windows_are_an_option() -> None:
    fields = {"arch": "simple", "workloads": ["matmuls"], "parameters": {"M": [8]}}
    assert make_sweep(fields).usual_windows
    chosen = make_sweep({**fields, "windows": "all"})
    assert (chosen.usual_windows, chosen.options.windows) == (False, "all")
    with pytest.raises(SpecError, match="windows 'al' is not known; did you mean 'all'"):
        make_sweep({**fields, "windows": "al"})


def test_an_action_that_only_its_class_gives_can_be_set() -> None:
    """`edge_npu` lists no actions of its main memory; a bandwidth of it can be swept all the same."""
    machine = fusiest.load("edge_npu")
    faster = with_field(machine, "MainMemory.read.throughput", 1e12)
    actions = next(node for node in flatten(faster.require_arch().nodes) if node.name == "MainMemory").actions
    assert [(action.name, action.throughput) for action in actions] == [("read", 1e12)]
    with pytest.raises(SpecError, match="has no action or dimension reads; did you mean 'read'"):
        with_field(machine, "MainMemory.reads.throughput", 1e12)


def test_nodes_that_are_equal_are_evaluated_once() -> None:
    """Also where a node has its class's name, and where the template is read again."""
    sweep = make_sweep({"arch": "edge_npu", "workloads": ["matmuls"], "parameters": {"CORES": [1, 2], "LOCAL_KIB": 64}})
    chips = Chips(sweep)
    bound = [next(iter(chips.spec(d, sweep.workloads[0]).bound.values())) for d in Designs(sweep)]
    shared = {name for name in bound[0] if bound[0][name] is bound[1][name]}
    assert shared >= {"MainMemory", "LocalBuffer", "Register", "MAC"}
    assert "Core" not in shared


@pytest.mark.parametrize(
    ("best", "words"),
    [
        ("{minimize: latency.matmul}", "best: latency.matmul: no workload 'matmul'; did you mean 'matmuls'?"),
        ("{minimize: edp, subject to: [energy.x <= 1]}", "best: energy.x: no workload 'x'"),
        ("{minimize: edp < 3}", "minimize: 'edp < 3' is no number"),
        ("{minimize: eDp}", "best: there is no 'eDp'; did you mean 'edp'?"),
    ],
)
def test_what_is_asked_for_is_checked_before_a_search(best: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        Sweep(sweep(tmp_path, "GlobalBufferSize: [8192]", f"  best: {best}\n"))
    assert words in str(caught.value)
    assert "sweep.yaml:9: " in str(caught.value)


def test_every_workload_is_loaded_before_a_search(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("workload: {rank_sizes: {M: 3}, einsums: [{name: A}]}\n")
    (tmp_path / "sweep.yaml").write_text("sweep: {arch: simple, workloads: [matmuls, broken.yaml]}\n")
    with pytest.raises(SpecError, match=r"broken.yaml:1: Einsum A needs"):
        Chips(load_sweep(str(tmp_path / "sweep.yaml")))


MANY = "{M: {range: [1, 1000000], step: 1}, GlobalBufferSize: {range: [1, 1000000], step: 1}}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("where: [GlobalBufferSize + 1]", "neither true nor false"),
        ("best: {minimize: edp, subject to: [area * 2]}", "neither true nor false"),
        ("best: {minimize: edp, subject to: [latency.matmuls]}", "neither true nor false"),
        ("best: {pareto: []}", "names no figure"),
        ("workloads: [{file: matmuls, name: lambda}]", "must be letters, digits and '_'"),
        ("workloads: [{file: matmul}]", "there is no file and no bundled spec 'matmul'; did you mean 'matmuls'?"),
        ("workloads: [{file: matmuls, defines: {MM: 3}}]", "take no define MM; did you mean 'M'?"),
        ("parameters: {GlobalBuffer.size: [hello]}", "parameter GlobalBuffer.size: GlobalBuffer: in 'hello': unknown"),
        (
            "parameters: {GlobalBuffer.read.energy: [1], GlobalBuffer.size: [hello]}",
            "parameter GlobalBuffer.size: GlobalBuffer: in 'hello': unknown",
        ),
        ("objective: energie", "objective 'energie' is not known"),
        ("orders: some", "orders 'some' is not known; known: all, given"),
        ("windows: most", "windows 'most' is not known"),
        (f"parameters: {MANY}", "1,000,000,000,000 designs; a grid may have 10,000,000"),
    ],
)
def test_bad_fields(text: str, words: str, tmp_path: Path) -> None:
    """Each is said with its line."""
    workloads = "" if "workloads" in text else "\n  workloads: [matmuls]"
    (tmp_path / "sweep.yaml").write_text(f"sweep:\n  arch: simple\n  {text}{workloads}\n")
    with pytest.raises(SpecError) as caught:
        Designs(made := load_sweep(str(tmp_path / "sweep.yaml")), Chips(made).area)
    assert words in str(caught.value)
    assert "sweep.yaml:3: " in str(caught.value)
