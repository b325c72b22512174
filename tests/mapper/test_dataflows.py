"""Dataflows: what the mappings found under them fuse, read from the mappings, and what a dataflow file may say."""

from __future__ import annotations

import pytest

from fusiest import Spec, load
from fusiest.base.errors import SpecError
from fusiest.looptree.nodes import Compute, LoopTree, Node, Storage, Temporal
from fusiest.mapper.mapper import Mapping, NoMapping, map
from fusiest.model.fusion import backing_memories, fused_sets
from fusiest.spec.dumping import dump
from tests.command_line import run
from tests.load_text import load_text

ARCHITECTURES = ("edge_transformer", "tpu_v4i")
FUSABLE = {"I", "V", "K", "Q", "QK", "QK_softmax", "AV", "Z", "FFA"}


def layer(architecture: str, dataflow: str, workload: str = "gpt3_6.7B") -> tuple[Spec, Mapping]:
    spec = load(architecture, workload, dataflow, N_TOKENS=512, BATCH_SIZE=2)
    return spec, map(spec, "edp", jobs=1).best("edp")


def nest_of(tree: LoopTree, einsum: str) -> tuple[Node, ...]:
    return next(n for n in tree.paths() if isinstance(n[-1], Compute) and n[-1].einsum == einsum)


def place(nest: tuple[Node, ...], tensor: str, memory: str) -> int | None:
    """Where a memory holds a tensor in a nest."""
    held = [i for i, n in enumerate(nest) if isinstance(n, Storage) and n.component == memory and tensor in n.tensors]
    return held[0] if held else None


def variables_above(nest: tuple[Node, ...], end: int, einsum: str) -> set[str]:
    loops = [node.rank_variable for node in nest[:end] if isinstance(node, Temporal)]
    return {loop if isinstance(loop, str) else loop[einsum] for loop in loops}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_unfused_exchanges_everything_off_chip(architecture: str) -> None:
    spec, best = layer(architecture, "unfused")
    assert all(len(fused.einsums) == 1 for fused in fused_sets(spec, best.looptree))
    assert {backing_memories(best.looptree)[t] for t in FUSABLE} == {"MainMemory"}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("workload", ["gpt3_6.7B", "gpt3_6.7B_kv_cache"])
def test_flat_fuses_attention_and_never_tiles_the_keys(architecture: str, workload: str) -> None:
    spec, best = layer(architecture, "flat", workload)
    fused = [set(f.einsums) for f in fused_sets(spec, best.looptree) if len(f.einsums) > 1]
    assert fused == [{"QK", "QK_softmax", "AV"}]
    where = backing_memories(best.looptree)
    assert {t for t in FUSABLE & spec.info.users.keys() if where[t] == "GlobalBuffer"} == {"QK", "QK_softmax"}
    for einsum, tensor in (("QK", "QK"), ("QK_softmax", "QK"), ("QK_softmax", "QK_softmax"), ("AV", "QK_softmax")):
        nest = nest_of(best.looptree, einsum)
        at = place(nest, tensor, "GlobalBuffer")
        assert at is not None
        assert variables_above(nest, at, einsum) <= {"b", "m", "h"}


def test_flat_needs_space_for_whole_rows_of_keys() -> None:
    """A row of 16k logits, and one of probabilities, do not fit into 24 KiB: FLAT ends there, tiled keys do not."""

    def small(dataflow: str) -> Spec:
        text = dump(load("edge_transformer", "gpt3_6.7B", dataflow, N_TOKENS=16 * 1024))
        assert "5 * 1024 * 1024" in text
        return load_text(text.replace("5 * 1024 * 1024", "24 * 1024"))

    with pytest.raises(NoMapping):
        map(small("flat"), "edp", jobs=1)
    assert map(small("transfusion"), "edp", jobs=1).mappings


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_transfusion_fuses_all_but_k_and_v(architecture: str) -> None:
    spec, best = layer(architecture, "transfusion")
    fused = [set(f.einsums) for f in fused_sets(spec, best.looptree) if len(f.einsums) > 1]
    assert fused == [{"Q", "QK", "QK_softmax", "AV", "Z", "FFA", "FFB"}]
    where = backing_memories(best.looptree)
    assert {t for t in FUSABLE if where[t] == "MainMemory"} == {"I", "K", "V"}
    for einsum, other in (("Q", "WQ"), ("QK", "K"), ("AV", "V"), ("Z", "WZ"), ("FFA", "WFFA"), ("FFB", "WFFB")):
        nest = nest_of(best.looptree, einsum)
        below = place(nest, other, "GlobalBuffer")
        stationary = [
            place(nest, t, "GlobalBuffer") for t in spec.info.einsums[einsum].accesses if t in FUSABLE - {"I", "K", "V"}
        ]
        assert all(at is not None and (below is None or at < below) for at in stationary)


def test_less_freedom_never_helps() -> None:
    def edp(*dataflow: str) -> float:
        spec = load("edge_transformer", "gpt3_6.7B", *dataflow, N_TOKENS=512, BATCH_SIZE=1)
        return map(spec, "edp", jobs=1).best("edp").edp

    best = edp()
    assert all(edp(name) >= best * (1 - 1e-9) for name in ("unfused", "flat", "transfusion"))


def test_a_dataflow_survives_dump() -> None:
    spec = load("simple", "matmuls", "unfused", N_EINSUMS=2)
    again = load_text(dump(spec))
    assert again == spec
    assert again.arch is not None
    assert load("simple", "matmuls", N_EINSUMS=2).arch != spec.arch


ARCHITECTURE = """
arch:
  nodes:
  - !Memory {name: Far, size: inf, component_class: Dummy, tensors: {keep: ~Intermediates, may_keep: All}}
  - !Memory {name: Near, size: 100, component_class: Dummy, tensors: {keep: ~Far, may_keep: Inputs}}
  - !Container {name: Array, spatial: [{name: X, fanout: 2}]}
  - !Memory {name: Tiny, size: 100, component_class: Dummy}
  - !Compute {name: MAC, component_class: Dummy}
"""


def constrained(dataflow: str) -> dict[str, object]:
    spec = load_text(ARCHITECTURE + f"dataflow:\n  memories: [{dataflow}]\n")
    return {str(node.name): getattr(node, "tensors", None) for node in spec.require_arch().nodes}


def test_memories_by_role_and_by_name() -> None:
    plain = constrained("")
    outermost = constrained("{memory: outermost, tensors: {keep: All}}")
    shared = constrained("{memory: shared, tensors: {may_keep: Nothing}}")
    named = constrained("{memory: Tiny, tensors: {keep: Outputs}}")
    assert [name for name in plain if outermost[name] != plain[name]] == ["Far"]
    assert [name for name in plain if shared[name] != plain[name]] == ["Near"]
    assert [name for name in plain if named[name] != plain[name]] == ["Tiny"]
    assert (shared["Near"].keep, shared["Near"].may_keep) == ("~Far", "Nothing")


@pytest.mark.parametrize(
    ("dataflow", "words"),
    [
        ("{memory: Nir, tensors: {}}", "no memory 'Nir'; known: Far, Near, Tiny, outermost, shared"),
        ("{memory: shared, tensors: {}}, {memory: Near, tensors: {}}", "the dataflow names Near twice"),
        ("{memory: shared, tensors: {kep: All}}", "unknown field 'kep'"),
        ("{memory: shared}", "needs the field 'tensors'"),
    ],
)
def test_wrong_dataflows(dataflow: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        constrained(dataflow)


def test_no_shared_memory() -> None:
    text = ARCHITECTURE.replace("name: Near,", "name: Near, spatial: [{name: Y, fanout: 2}],")
    with pytest.raises(SpecError, match="constrains a memory that Einsums share, but the architecture has none"):
        load_text(text + "dataflow: {memories: [{memory: shared, tensors: {}}]}\n")


def test_no_fused_loops_is_a_set_of_variables() -> None:
    text = ARCHITECTURE.replace("may_keep: Inputs", "no_fused_loops: T1")
    workload = "workload: {einsums: ['T1[m] = T0[m]', 'T2[m] = T1[m]'], rank_sizes: {M: 4}, bits_per_value: {All: 8}}\n"
    with pytest.raises(SpecError, match=r"is a set of tensors; add \.rank_variables"):
        load_text(text + workload)


def test_a_dataflow_of_other_tensors(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("map", "simple", "matmuls", "-D", "M=16", "-D", "KN=16", "--quiet")
    status, _, err = run(capsys, *arguments, "--dataflow", "flat")
    assert (status, err.count("\n")) == (2, 1)
    assert "QK" in err
    status, out, _ = run(capsys, *arguments, "--dataflow", "transfusion", "-D", "OFF_CHIP=Nothing")
    assert status == 0
    assert "T1" in out
