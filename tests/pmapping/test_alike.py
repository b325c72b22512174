"""Which Einsums are explored once for all, and where they meet on chip; each rule by a pair that it alone tells apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import fusiest
from fusiest.pmapping.explore import explore
from fusiest.pmapping.nest.alignment import agreed_loops, common_loops
from fusiest.pmapping.nest.shared_memories import can_fuse, shared_memories
from fusiest.pmapping.placements.placement import _KNOWN, listed, placements
from fusiest.pmapping.placements.placement_graph import placement_graph
from fusiest.pmapping.question import Question
from fusiest.pmapping.reuse.identical import common_key, constraints_key
from fusiest.spec import bind, computes
from fusiest.spec.spec import Spec
from tests.load_text import load_text

TEXT = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {keep: KEPT, may_keep: All}}
  - !Memory {name: Buf, size: 100000, component_class: Dummy, tensors: {keep: Nothing, may_keep: All}}
  - !Compute {name: MAC, component_class: Dummy}
workload:
  bits_per_value: {All: 8}
  persistent_tensors: PERSISTENT
  rank_sizes: {M: 4, K: 4, W: 3, R: 2}
  einsums:
"""


def spec_of(folder: Path, *einsums: str, kept: str = "Nothing", persistent: str = "Nothing") -> Spec:
    file = folder / "spec.yaml"
    text = TEXT.replace("KEPT", kept).replace("PERSISTENT", persistent)
    file.write_text(text + "".join(f'  - "{einsum}"\n' for einsum in einsums))
    return fusiest.load(str(file))


def keys(spec: Spec) -> list[object]:
    return [common_key(spec, name) for name in spec.info.einsums]


def test_einsums_that_differ_only_by_names(tmp_path: Path) -> None:
    first, second = keys(spec_of(tmp_path, "Z[m] = A[m]", "Y[m] = B[m]"))
    assert first == second


def test_einsums_that_are_called_as_what_they_use(tmp_path: Path) -> None:
    """The second is called as its result, the third is not, the fourth as a rank variable: equal all the same."""
    spec = spec_of(tmp_path, "T[m] = A[m]", "U[m] = T[m]", "V[m] = U[m]", "W[m] = V[m]", "X[m] = W[m]", kept="A | X")
    names = {"V": "Third", "W": "m"}
    assert spec.workload is not None
    einsums = tuple(replace(e, name=names.get(e.name, e.name)) for e in spec.workload.einsums)
    renamed = replace(spec, workload=replace(spec.workload, einsums=einsums))
    assert len(set(keys(renamed)[1:4])) == 1
    found, expected = (fusiest.map(s, jobs=1).mappings for s in (renamed, spec))
    assert [(m.energy, m.latency) for m in found] == [(m.energy, m.latency) for m in expected]


def test_ways_through_a_toll_tell_einsums_apart(tmp_path: Path) -> None:
    """Also where tensors are called as the ways."""
    spec = spec_of(tmp_path, "up[m] = A[m]", "down[m] = B[m]")
    toll = "!Toll {name: Toll, direction: {up: up, down: down, Other: up_and_down}, component_class: Dummy, tensors: {keep: All}}"
    text = fusiest.dump(spec).replace("  - !Compute", f"  - {toll}\n  - !Compute")
    both = load_text(text)
    first, second = keys(both)
    assert first != second
    by_variables = [constraints_key(both, name, {"m": "0"}) for name in ("up", "up", "down")]
    assert by_variables[0] == by_variables[1] != by_variables[2]


def test_a_shared_tensor_tells_einsums_apart(tmp_path: Path) -> None:
    """Z goes on to X; Y goes nowhere. All else is the same: every memory may keep everything."""
    first, second, _ = keys(spec_of(tmp_path, "Z[m] = A[m]", "Y[m] = B[m]", "X[m] = Z[m] * C[m]"))
    assert first != second


@pytest.mark.parametrize(
    ("seconds", "same"),
    [("len(weight)", False), ("Slow", False), ("len(B)", False), ("operation == 'unary'", False), ("Steady", True),
     ("PE.fanout", True), ("n_parallel_instances", True)],
)  # fmt: skip
def test_what_a_latency_is_made_of_tells_einsums_apart(tmp_path: Path, seconds: str, same: bool) -> None:
    """Each Einsum has its own weight; sets, and variables made of them, are not the same in both."""
    array = "  - !Container {name: PE, spatial: [{name: X, fanout: 2}]}\n"
    compute = f'  - !Compute {{name: MAC, component_class: Dummy, total_latency: "sum(a.n_calls for a in actions) * ({seconds})"}}\n'
    text = TEXT.replace("KEPT", "All").replace("PERSISTENT", "Nothing")
    text = text.replace("  - !Compute {name: MAC, component_class: Dummy}\n", array + compute)
    text += (
        '  - {einsum: "Z[m] = A[m]", renames: {weight: A}}\n  - {einsum: "Y[m] = B[m]", renames: {weight: Nothing}}\n'
    )
    file = tmp_path / "spec.yaml"
    file.write_text(f"variables: {{Slow: 3 if len(weight) > 0 else 1, Steady: 2}}\n{text}")
    spec = fusiest.load(str(file))
    first, second = keys(spec)
    assert (first == second) == same
    fusiest.map(spec, "latency", jobs=1)


def test_loops_that_others_need_tell_einsums_apart(tmp_path: Path) -> None:
    """A is read below a loop over k by another Einsum, and may have to be held above it; B is not."""
    spec = spec_of(tmp_path, "Z[m] = A[m]", "Y[m] = B[m]", "X[m, k] = A[m] * C[k]", "V[m] = B[m] * D[m]")
    assert agreed_loops(spec, "Z") == {"A": frozenset({"m"})}
    assert agreed_loops(spec, "Y") == {}
    first, second, *_ = keys(spec)
    assert first != second


def test_loops_that_others_cannot_have(tmp_path: Path) -> None:
    """Z is read in windows over m, so no loop over m is above it on chip; Y is read element by element."""
    spec = spec_of(
        tmp_path, "Z[m, k] = A[m, k]", "Y[m, k] = B[m, k]", "X[w, k] = Z[M: w + r, k] * C[r]", "V[m, k] = Y[m, k]"
    )
    assert common_loops(spec, "Z") == {"Z": {"k"}}
    assert common_loops(spec, "Y") == {"Y": {"m", "k"}}
    first, second, *_ = keys(spec)
    assert first != second
    asked = Question(needed=True)
    small = spec.with_component("Buf", size=300)  # bits: not everything fits
    loops = {e: {loop.variable for c in explore(small, e, asked).groups for loop in c.loops} for e in "ZY"}
    assert loops == {"Z": {"k"}, "Y": {"m", "k"}}
    assert {loop.variable for c in explore(small, "Z", Question()).groups for loop in c.loops} == {"m", "k"}


@pytest.mark.parametrize(
    ("kept", "persistent", "expected"),
    [("Nothing", "Nothing", True), ("Z", "Nothing", False), ("Z", "A", True), ("Z | A", "A", False)],
)
def test_where_einsums_meet_on_chip(tmp_path: Path, kept: str, persistent: str, expected: bool) -> None:
    """Z, which both use, may be on chip; or A, which stays there all the time."""
    spec = spec_of(tmp_path, "Z[m] = A[m]", "Y[m] = Z[m]", kept=kept, persistent=persistent)
    assert can_fuse(spec) == expected


def test_the_order_of_names_tells_no_einsums_apart() -> None:
    """`T10` comes before `T9`, and so do placements that are listed by name."""
    spec = fusiest.load("tpu_v4i", "matmuls", N_EINSUMS=14, M=64, KN=64)
    assert len(set(keys(spec)[1:-1])) == 1


def renamed_placements(spec: Spec) -> int:
    """How many Einsums have another's placements under their own names; all are as if found by themselves."""
    paths = [bind(spec, name, compute) for name in spec.info.einsums for compute in computes(spec.require_arch())]
    for path in paths:
        assert placements(spec, path) == tuple(listed(placement_graph(spec, path)))
    return len(paths) - len(_KNOWN[spec].first)


@pytest.mark.parametrize(
    ("einsums", "kept", "count"),
    [
        (("Z[m] = A[m]", "Y[k] = B[k]"), "Nothing", 1),
        (("Z[m] = A[m]", "Y[k] = B[k]"), "A", 0),  # is held in DRAM, and B need not be
        (("Z[m] = A[m]", "Y[k] = B[k]"), "Inputs", 1),
        (("Z[m] = A[m]", "B[k] = Y[k]"), "Nothing", 0),  # the order of placements follows names
        (("Z[m] = A[m]", "Y[m] = B[m]", "X[m] = Z[m] * C[m]"), "Intermediates", 0),
        (("Z[m, k] = A[m] * D[k]", "Y[k, m] = B[k] * C[m]"), "Nothing", 0),  # so it does with names of variables
    ],
)
def test_placements_under_other_names(tmp_path: Path, einsums: tuple[str, ...], kept: str, count: int) -> None:
    assert renamed_placements(spec_of(tmp_path, *einsums, kept=kept)) == count


@pytest.mark.parametrize("arch", ["tpu_v4i", "eyeriss", "simple"])
def test_placements_of_bundled_networks_under_other_names(arch: str) -> None:
    assert renamed_placements(fusiest.load(arch, "resnet18")) > 20


def test_einsums_do_not_meet_where_none_can_run() -> None:
    """The vector unit alone does the additions of a block: that elements would hold one of its tensors below their fanout, whose bits
    would then have to be told apart in all their memories, is of no concern."""
    for workload in ("resnet18_block", "mobilenet_28"):
        assert shared_memories(fusiest.load("simba", workload)) == ("GlobalBuffer",)
