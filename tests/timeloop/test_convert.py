"""Small Timeloop descriptions: what they become, with numbers by hand, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import fusiest
from fusiest.base.errors import SpecError
from fusiest.timeloop import import_timeloop
from tests.command_line import run
from tests.timeloop.descriptions import MAPPING, NODES, PROBLEM, PROCESSED, TABLES, write


def test_a_convolution_by_hand(tmp_path: Path) -> None:
    found = import_timeloop(write(tmp_path, PROBLEM, PROCESSED, TABLES, MAPPING))
    evaluation = fusiest.evaluate(found.spec)
    (einsum,) = evaluation.einsums.values()
    counts = {key: n * (8 if key[0] == "DRAM" else 1) for key, n in einsum.actions.items()}
    # 4 registers, each with the 3 weights of its output channel; the window slides over all 18 inputs.
    assert counts["DRAM", "Weights", "read"] == counts["Register", "Weights", "write"] == 12
    assert counts["DRAM", "Input", "read"] == 18  # to all four registers at once
    assert counts["Register", "Input", "write"] == 4 * 18
    assert counts["Register", "Input", "read"] == counts["Register", "Weights", "read"] == 4 * 16 * 3
    # Of three partial sums the first has nothing to read, and the last is read to be sent up.
    assert counts["Register", "Output", "read"] == 64 * (2 + 1)
    assert counts["Register", "Output", "write"] == 64 * 3
    assert counts["DRAM", "Output", "write"] == 64
    assert counts["DRAM", "Output", "read"] == 0
    # Writes of a register: 3 weights, 18 inputs, 16 * 3 sums, one in a cycle; its reads, 4 in a cycle, take less.
    assert einsum.latency == pytest.approx(69 * 2e-9)
    assert evaluation.leak_energy == pytest.approx(4 * 0.001e-12 * 69)  # the compute's leakage is not Timeloop's
    assert einsum.energies["Register", "Weights", "write"] == pytest.approx(12 * 0.25e-12)
    assert einsum.energies["MAC", "", "compute"] == pytest.approx(192 * 0.75e-12)


def test_timeloops_own_numbers_by_its_rules(tmp_path: Path) -> None:
    numbers = import_timeloop(write(tmp_path, PROBLEM, PROCESSED, TABLES, MAPPING)).report.numbers
    assert numbers is not None
    (different,) = [count for count in numbers.counts if not count.equal]
    assert (different.level, different.space, different.action) == ("Register", "Outputs", "read")
    assert (different.here, different.timeloop, different.difference) == (192, 128, "sent up")
    dram = 512 * (2 + 3 + 8)  # 12, 18 and 64 values in whole accesses of 8
    register = 0.5 * (192 + 192 + 128) + 0.25 * (12 + 72 + 192)
    assert numbers.timeloop_energy == pytest.approx((dram + register + 0.75 * 192 + 4 * 0.001 * 69) * 1e-12)


def test_the_form_that_users_write_is_the_same(tmp_path: Path) -> None:
    processed = import_timeloop(write(tmp_path, PROBLEM, PROCESSED, TABLES, MAPPING)).yaml
    written = import_timeloop(write(tmp_path, PROBLEM, NODES, TABLES, MAPPING.replace("inter_PE_spatial", "PE"))).yaml
    assert written == processed


@pytest.mark.parametrize(
    ("outer", "inner", "moved"),
    [
        ("P=16", "R=3", 18),
        ("P=2", "R=3,P=8", 18),  # windows of 10, 8 apart: the overlap stays
        ("P=8,R=3", "P=2", 8 * 4),  # in each of 8 places R slides a window of 2 by 1
        ("R=3,P=16", "", 3 * 16),  # single values, each for itself
    ],
)
def test_windows_slide(tmp_path: Path, outer: str, inner: str, moved: int) -> None:
    """Overlap stays where the loop just above the tile slides it."""
    mapping = MAPPING.replace('"P=16"', f'"{outer}"').replace('"R=3"', f'"{inner}"')
    found = import_timeloop(write(tmp_path, PROBLEM, PROCESSED, TABLES, mapping))
    actions = next(iter(fusiest.evaluate(found.spec).einsums.values())).actions
    assert actions["DRAM", "Input", "read"] * 8 == moved


def test_a_stride_leaves_gaps(tmp_path: Path) -> None:
    problem = PROBLEM.replace("P: 16", "P: 16, stride: 4")
    found = import_timeloop(write(tmp_path, problem, PROCESSED, TABLES, MAPPING))
    actions = next(iter(fusiest.evaluate(found.spec).einsums.values())).actions
    assert actions["DRAM", "Input", "read"] * 8 == 16 * 3  # windows of 3, 4 apart


def test_energies_that_no_table_gives_are_estimated(tmp_path: Path) -> None:
    technology = PROCESSED.replace("datawidth: 8,", 'datawidth: 8, technology: "40nm",')
    found = import_timeloop(write(tmp_path, PROBLEM, technology, MAPPING))
    einsum = next(iter(fusiest.evaluate(found.spec).einsums.values()))
    read = einsum.energies["Register", "Input", "read"] / einsum.actions["Register", "Input", "read"]
    # 8 flip-flops of 9 fJ, and a comparator of 5 bits for each of 32 words.
    assert read == pytest.approx(8 * 9e-15 + 32 * 29.47e-15 * 5 / 32, rel=1e-3)
    assert einsum.energies["DRAM", "Input", "read"] == pytest.approx(18 * 8 * 8e-12)
    assert "estimated: DRAM (LPDDR4), Register (Register and Comparator)" in found.report.remarks[0]
    assert "no energies are given for MAC" in found.report.remarks[1]


def test_instances_of_a_cluster_share_an_access(tmp_path: Path) -> None:
    clustered = PROCESSED.replace("depth: 32, width: 8,", "depth: 32, width: 16, cluster_size: 2,")
    one, other = (import_timeloop(write(tmp_path, PROBLEM, text, TABLES, MAPPING)) for text in (PROCESSED, clustered))
    first, second = (next(iter(fusiest.evaluate(found.spec).einsums.values())) for found in (one, other))
    assert first.actions == second.actions
    assert second.energies["Register", "Input", "read"] == pytest.approx(
        first.energies["Register", "Input", "read"] / 2
    )


def test_nothing_beside_parallel_memories(tmp_path: Path) -> None:
    register = NODES[NODES.index("  - !Component\n    name: Register") : NODES.index("  - !Component {name: MAC")]
    inner = "\n".join(f"  {line}" for line in register.splitlines())
    nothing = "    - !Nothing {constraints: {dataspace: {keep: [Inputs]}}}"
    kept = inner + "\n      constraints: {dataspace: {keep: [Weights]}}"
    text = NODES.replace(register, f"  - !Parallel\n    nodes:\n{kept}\n{nothing}\n")
    assert "{keep: Weights, may_keep: Output}" in import_timeloop(write(tmp_path, PROBLEM, text, TABLES)).yaml


OLD = """
architecture:
  version: 0.3
  subtree:
  - name: system
    local:
    - {name: DRAM, class: DRAM, attributes: {width: 64, block-size: 8, word-bits: 8}}
    subtree:
    - name: chip
      attributes: {global_cycle_seconds: 2e-9}
      subtree:
      - name: PE[0..3]
        local:
        - name: Register
          class: storage
          attributes: {memory_depth: 32, memory_width: 8, word-bits: 8, read_bandwidth: 4, write_bandwidth: 1}
        - {name: MAC, class: compute, attributes: {datawidth: 8}}
"""


def test_version_0_3(tmp_path: Path) -> None:
    """Nested subtrees; the fanout belongs to the level above it."""
    problem = PROBLEM.replace("data_spaces", "data-spaces").replace("read_write", "read-write")
    mapping = MAPPING.replace("inter_PE_spatial", "DRAM").replace('"R=3"', "R=3 K=1").replace("RKP}", '"R K P"}')
    old = import_timeloop(write(tmp_path, problem, OLD, TABLES, mapping)).yaml
    new = import_timeloop(write(tmp_path, PROBLEM, PROCESSED, TABLES, MAPPING)).yaml
    assert old.replace("DRAM_array", "PE") == new


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files, target, report = (
        write(tmp_path, PROBLEM, PROCESSED, TABLES, MAPPING),
        tmp_path / "spec.yaml",
        tmp_path / "r.json",
    )
    status, out, err = run(
        capsys, "import", "--from", "timeloop", *files, "-o", str(target), "--json", str(report), "--strict"
    )
    assert (status, err) == (0, "")
    assert "Inputs is Input" in out
    assert "11 of 12 counts are equal" in out
    assert "Register Outputs reads 192 (128)" in out
    assert json.loads(report.read_text())["timeloop_cycles"] == 69
    status, out, _ = run(capsys, "evaluate", str(target), str(target), str(target))
    assert status == 0
    assert "138 ns" in out
    status, out, _ = run(capsys, "map", str(target), str(target), "--objective", "energy", "--quiet")
    assert status == 0


@pytest.mark.parametrize(
    ("text", "change", "message"),
    [
        (PROBLEM, ("instance: {", "instance: {densities: {Weights: 0.5}, "), "densities are not supported"),
        (PROBLEM, ("R: 3", "R: three"), "unknown name 'three'"),
        (PROBLEM, ("[[[K]], [[R]]]", "[[[K]], [[S]]]"), "no dimension 'S'"),
        (PROBLEM, (", read_write: true", ""), "must have one data space that is read_write"),
        (PROCESSED, ("depth: 32", "depth: 32, multiple_buffering: 2"), "multiple_buffering 2 is not supported"),
        (PROCESSED, ("class: dummy_storage", "class: XY_NoC"), r"networks \(XY_NoC\) are not supported"),
        (PROCESSED, ("Register[1..4]", "Register[1..6]"), "meshX 4 does not divide its 6 instances"),
        (PROCESSED, ("subtree:", "sub_tree:"), "expected 'nodes' or 'subtree'"),
        (MAPPING, ("K=4", "K=8"), "spreads 8 along X, where there are 4"),
        (MAPPING, ("P=16", "P=8"), "the factors of P are 8, but its size is 16"),
        (MAPPING, ("target: DRAM", "target: DRUM"), "no level 'DRUM'; did you mean 'DRAM'"),
        (MAPPING, ("type: spatial", "type: skew"), "the type 'skew' is not supported"),
        (MAPPING, ("type: spatial", "type: [spatial]"), "the type '\\['spatial'\\]' is not supported"),
        (MAPPING, ("P=16", "P~16"), "'P~16' is not a factor"),
        (
            TABLES,
            ("ERT:", "sparse_optimizations: {targets: [a]}\nERT:"),
            "section 'sparse_optimizations' is not supported",
        ),
        (TABLES, ("energy: 0.75", "energy: -1"), "energy of compute must not be negative"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, change: tuple[str, str], message: str) -> None:
    assert change[0] in text
    texts = [one.replace(*change) if one is text else one for one in (PROBLEM, PROCESSED, TABLES, MAPPING)]
    with pytest.raises(SpecError, match=message) as caught:
        import_timeloop(write(tmp_path, *texts))
    assert re.search(r"part\d\.yaml:\d+: ", str(caught.value))


def test_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="section 'problem': give both"):
        import_timeloop(write(tmp_path, PROCESSED))


def test_a_base_and_variables(tmp_path: Path) -> None:
    """As layers of networks are written: a base that others take over, and attributes that are variables."""
    base = PROBLEM.replace("problem:", "problem_base: &base").replace("{K: 4, R: 3, P: 16}", "{K: 4, R: 1, P: 1}")
    layer = "{{include_text('part0.yaml')}}\nproblem:\n  <<<: *base\n  dnn_name: net\n  notes: the first\n  instance: {R: 3, P: 16}\n"
    variables = "variables: {technology: 40nm, global_cycle_seconds: 2e-9}\n"
    named = NODES.replace("2e-9", "global_cycle_seconds, technology: technology")
    given = NODES.replace("2e-9", "2e-9, technology: 40nm")
    mapping = MAPPING.replace("inter_PE_spatial", "PE")
    files = write(tmp_path, base, layer, variables + named, mapping)
    taken = import_timeloop(files[1:]).yaml
    written = import_timeloop(write(tmp_path, PROBLEM, given, mapping)).yaml
    assert taken.split("arch:")[1] == written.split("arch:")[1]
