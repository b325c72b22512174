"""A spec with another part: a component, an Einsum, the size of a rank, a define."""

from __future__ import annotations

import pytest

import fusiest
from fusiest.spec.hardware.architecture import Component, Memory, flatten
from fusiest.spec.hardware.binding import bind_all
from fusiest.spec.reading.loading import load_texts


def sizes(spec: fusiest.Spec) -> dict[str, object]:
    return {str(node.name): node.size for node in flatten(spec.require_arch().nodes) if isinstance(node, Memory)}


def test_one_component_changes_and_the_spec_stays() -> None:
    spec = fusiest.load("tpu_v4i", "matmuls")
    changed = spec.with_component("GlobalBuffer", size=1000)
    assert sizes(changed) == {**sizes(spec), "GlobalBuffer": 1000}
    assert sizes(spec)["GlobalBuffer"] != 1000
    assert changed.workload is spec.workload


def test_it_is_as_if_it_had_been_written_so() -> None:
    template = {"N_EINSUMS": 2, "M": 8, "KN": 8}
    written = fusiest.load("simple", "matmuls", GlobalBufferSize=600, **template)
    assert fusiest.load("simple", "matmuls", **template).with_component("GlobalBuffer", size=600) == written


FORKED = """
arch:
  nodes:
  - !Memory {name: DRAM, component_class: Dummy, size: inf}
  - !Fork
    nodes:
    - !Compute {name: Vector, component_class: Dummy}
  - !Compute {name: MAC, component_class: Dummy}
"""


def test_inside_a_fork() -> None:
    spec = load_texts({"forked.yaml": FORKED}, {})
    leakage = {
        str(node.name): node.leak_power
        for node in flatten(spec.with_component("Vector", leak_power=7).require_arch().nodes)
        if isinstance(node, Component)
    }
    assert leakage == {"DRAM": None, "Vector": 7, "MAC": None}


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("GlobalBufer", {"size": 1}, "no component GlobalBufer; did you mean 'GlobalBuffer'?"),
        ("GlobalBuffer", {"sise": 1}, "GlobalBuffer has no field 'sise'; did you mean 'size'?"),
        ("GlobalBuffer", {"size": -1}, "GlobalBuffer: size must not be negative"),
        ("GlobalBuffer", {"size": "no_such_name"}, "no_such_name"),
        ("GlobalBuffer", {"size": "5 ns"}, "GlobalBuffer: size is in bit, but '5 ns' is in s"),
        ("GlobalBuffer", {"size": object()}, "GlobalBuffer: object is no value of a spec"),
        ("GlobalBuffer", {"raed.energy": 1}, "GlobalBuffer has no action or dimension raed; did you mean 'read'?"),
        ("GlobalBuffer", {"read.enrgy": 1}, "GlobalBuffer.read has no field 'enrgy'; did you mean 'energy'?"),
        ("GlobalBuffer", {"read.throughput": "1 pJ"}, "throughput"),
        ("GlobalBuffer", {"tensors": {"kep": "All"}}, "unknown field 'kep' in tensors; did you mean 'keep'?"),
    ],
)
def test_mistakes(name: str, fields: dict[str, object], words: str) -> None:
    with pytest.raises(fusiest.SpecError, match=words.replace("?", r"\?")):
        fusiest.load("simple", "matmuls").with_component(name, **fields)


def test_fields_as_a_file_has_them() -> None:
    spec = fusiest.load("simple", "matmuls")
    actions = [{"name": name, "energy": "1 pJ", "throughput": 1e9} for name in ("read", "write")]
    changed = spec.with_component("GlobalBuffer", actions=actions, tensors={"keep": "All"}, size="2 MiB")
    assert fusiest.load(changed) == changed
    assert fusiest.evaluate(fusiest.load(changed, "unfused_matmuls_to_simple")).energy > 0


def test_fields_of_actions_and_dimensions() -> None:
    """As sweeps name them; a rate in bytes counts the bits that an action moves."""
    spec = fusiest.load("edge_npu", "matmuls", N_EINSUMS=1, M=64, KN=64)
    slow = spec.with_component("MainMemory", **{"read.throughput": "1 GB/s"})
    whole = spec.with_component("MainMemory", actions=[{"name": "read", "throughput": "1 GB/s"}])
    assert slow == whole != spec
    assert fusiest.load(slow) == slow
    path = bind_all(slow, slow.info.einsums["Matmul0"])["MainMemory"]
    read = path.actions["read"]
    assert read.throughput * (read.bits or 0) == 8e9
    smaller = spec.with_component("ProcessingElement", **{"reuse_input.fanout": 8, "reuse_output.fanout": 4})
    (array,) = [node for node in flatten(smaller.require_arch().nodes) if node.name == "ProcessingElement"]
    assert [dimension.fanout for dimension in array.spatial] == [8, 4]
    both = spec.with_component("MainMemory", size="1 GiB", **{"read.energy": 0, "write.energy": "2 pJ/b"})
    (memory,) = [node for node in flatten(both.require_arch().nodes) if node.name == "MainMemory"]
    assert {str(action.name): action.energy for action in memory.actions} == {"read": 0, "write": "2 pJ/b"}
    assert memory.size == "1 GiB"


def bounds(spec: fusiest.Spec, einsum: str) -> dict[str, int]:
    return dict(spec.info.einsums[einsum].bounds)


SIZED = """
workload:
  rank_sizes: {M: 8, N: 2 * M, H: 10, P: 7}
  bits_per_value: {All: 8}
  iteration_space_shape: {r: 1 <= r < 4}
  einsums:
  - "B[m, n] = A[m, n]"
  - {name: C, einsum: "C[m] = B[m, n]", rank_sizes: {M: 4}}
  - "D[p] = X[H: p + r] * W[r]"
"""


@pytest.fixture
def sized() -> fusiest.Spec:
    return load_texts({"w.yaml": SIZED}, {})


def test_sizes_of_ranks(sized: fusiest.Spec) -> None:
    """Sizes that follow from it follow; an Einsum with a size of its own gets it, too."""
    changed = sized.with_rank_size("M", 16)
    assert bounds(changed, "B") == {"m": 16, "n": 32}
    assert bounds(changed, "C") == {"m": 16, "n": 32}
    assert changed == sized.with_rank_size(M=16)
    assert bounds(sized, "B") == {"m": 8, "n": 16}
    assert bounds(sized.with_rank_size(N=3, M=2), "B") == {"m": 2, "n": 3}
    assert fusiest.load(changed) == changed


def test_bounds_of_rank_variables(sized: fusiest.Spec) -> None:
    """A variable that begins at 1 still does."""
    changed = sized.with_rank_size(r=5)
    assert bounds(changed, "D")["r"] == 5
    assert changed.info.einsums["D"].least["r"] == 1
    assert bounds(fusiest.load("matmuls").with_rank_size(M=64), "Matmul1") == {"m": 64, "n1": 128, "n2": 128}


@pytest.mark.parametrize(
    ("name", "size", "words"),
    [
        ("Q", 4, "gives no size of Q"),
        ("M", 0, "whole number of at least 1"),
        ("M", "no", "no"),
        ("r", "2 * M", "bounds"),
    ],
)
def test_wrong_sizes(sized: fusiest.Spec, name: str, size: int, words: str) -> None:
    with pytest.raises(fusiest.SpecError, match=words):
        sized.with_rank_size(name, size)


def test_einsums(sized: fusiest.Spec) -> None:
    more = sized.with_einsum("E", einsum="E[p] = relu(D[p])", n_instances=3)
    assert (more.info.einsums["E"].operation, more.info.einsums["E"].n_instances) == ("relu", 3)
    assert list(more.info.einsums) == ["B", "C", "D", "E"]
    other = more.with_einsum("C", rank_sizes={"M": 2})
    assert bounds(other, "C")["m"] == 2
    assert list(other.with_einsum("B", einsum="B[m, n] = A[m] * Z[n]").info.users) == [
        "A",
        "Z",
        "B",
        "C",
        "X",
        "W",
        "D",
        "E",
    ]
    accesses = [{"name": "B", "projection": ["m", "n"]}, {"name": "F", "projection": ["m"], "output": True}]
    assert bounds(sized.with_einsum("F", tensor_accesses=accesses), "F") == {"m": 8, "n": 16}


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("Bb", {"n_instances": 2}, "no Einsum Bb; did you mean 'B'"),
        ("B", {"instances": 2}, "B has no field 'instances'; did you mean 'n_instances'"),
        ("B", {"n_instances": 0}, "at least 1"),
        ("E", {"einsum": "E[p] = D["}, "E: "),
        ("E", {"einsum": "C[p] = D[p]"}, "C"),
    ],
)
def test_wrong_einsums(sized: fusiest.Spec, name: str, fields: dict[str, object], words: str) -> None:
    with pytest.raises(fusiest.SpecError, match=words):
        sized.with_einsum(name, **fields)


def test_defines() -> None:
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=3, KN=16)
    assert spec.with_define(M=8, KN=4) == fusiest.load("simple", "matmuls", N_EINSUMS=3, KN=4, M=8)
    assert spec.with_define("M", 8).with_define("M", 9) == spec.with_define(M=9)
    both = fusiest.load("simple", fusiest.load("matmuls", KN=4), GlobalBufferSize=64)
    assert both.with_define(GlobalBufferSize=32) == fusiest.load("simple", "matmuls", KN=4, GlobalBufferSize=32)
    with pytest.raises(fusiest.SpecError, match="no define N_EINSUM; did you mean 'N_EINSUMS'"):
        spec.with_define(N_EINSUM=3)
    with pytest.raises(fusiest.SpecError, match="changed in Python"):
        spec.with_rank_size(m=3).with_define(KN=3)
