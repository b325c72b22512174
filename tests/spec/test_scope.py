"""Variables: in any order, of any kind, once per Einsum; and what components are called in expressions."""

from __future__ import annotations

import pytest

from fusiest.base.errors import SpecError
from fusiest.spec import BoundComponent, architecture_names, bind
from fusiest.spec.dumping import dump
from fusiest.spec.spec import Spec
from tests.load_text import load_text

SPEC = """
arch:
  variables: {bits: round(weight.bits_per_value) if weight else 0}
  nodes:
  - !Memory {name: DRAM, component_class: Dummy, size: inf}
  - !Container
    name: Array
    spatial: [{name: X, fanout: rows}, {name: Y, fanout: 2 * rows}]
  - !Memory
    name: Buffer
    component_class: Dummy
    size: SIZE
  - !Compute {name: MAC, component_class: Dummy}
workload:
  rank_sizes: {M: 4, K: 4, N: 4}
  bits_per_value: {A: 8, V: 4, Other: wide}
  einsums:
  - {einsum: "B[m, n] = A[m, k] * V[k, n]", renames: {weight: V}}
  - {einsum: "C[m, n] = B[m, n]", renames: {weight: Nothing}}
variables:
  total: sum(hist)
  wide: 2 * narrow
  narrow: 8
  hist: [0, narrow / 8, "ones[1]", 3]
  ones: ([1] * 2)
  rows: 3
  name: "no expression, [ at all"
  on: true
  deep: [a, "b", "/a b"]
  a: 7
"""


def spec_with(size: str, **replaced: str) -> Spec:
    text = SPEC.replace("SIZE", size)
    for old, new in replaced.items():
        text = text.replace(f"  {old}: ", f"  {old}: {new} #")
    return load_text(text)


def size(text: str, einsum: str = "B", **replaced: str) -> float:
    found: BoundComponent | None = bind(spec_with(text, **replaced), einsum, "MAC").component("Buffer")
    assert found is not None
    return found.size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("total", 5),
        ("wide + len(hist)", 20),
        ("bits", 4),
        ("deep[0] + (deep[1] == 'b') + (deep[2] == '/a b')", 9),
        ('100 if name == "no expression, [ at all" and on else 0', 100),
        ("Array.fanout", 18),
        ("Array.get_fanout() + MAC.fanout", 19),
        ("len(M) + len(N | K)", 3),
    ],
)
def test_values(text: str, expected: float) -> None:
    assert size(text) == expected


def test_variables_have_a_value_per_einsum() -> None:
    assert [size("bits + 1", einsum) for einsum in "BC"] == [5, 1]
    assert size("len(K.rank_variables)", "C") == 0


def test_what_an_architecture_gives_goes_before() -> None:
    text = SPEC.replace("SIZE", "narrow").replace("variables: {bits", "variables: {narrow: 16, bits")
    spec = load_text(text)
    assert spec.info.einsums["C"].bits_per_value["C"] == 16
    assert bind(spec, "B", "MAC").components[2].size == 16


def test_they_survive_dump() -> None:
    spec = spec_with("total")
    assert load_text(dump(spec)) == spec


def test_unused_variables_are_evaluated_where_they_can_be() -> None:
    """`only` has no value in C, where there is no weight; `never` has none anywhere."""
    assert size("1", a="weight.bits_per_value") == 1
    with pytest.raises(SpecError, match=r"a\.yaml:\d+: .*division by zero"):
        spec_with("1", a="1 / (rows - 3)")


@pytest.mark.parametrize(
    "field", ["may_reuse: Buffer", "may_reuse: Above", "loop_bounds: [{expression: DRAM, operator: ==, value: 1}]"]
)
def test_what_a_memory_holds_is_known_only_in_tensors(field: str) -> None:
    with pytest.raises(SpecError, match="is a choice, known only in 'tensors'"):
        load_text(SPEC.replace("SIZE", "1").replace("fanout: rows}", f"fanout: rows, {field}}}"))


def test_choices_do_not_change_variables() -> None:
    spec = spec_with("total")
    names = architecture_names(spec, spec.info.einsums["B"]).choose("DRAM", frozenset("A"))
    assert names["total"] == 5
    assert names["bits"] == 4
    assert sorted(names["DRAM"].members) == ["A"]


@pytest.mark.parametrize(
    ("action", "throughput"),
    [
        ("latency: 1 / 4", 4),
        ("latency: 0", float("inf")),
        ("throughput: 6, latency_scale: 2", 3),
        ("throughput: 6, throughput_scale: inf", float("inf")),
        ("latency: 2, throughput_scale: 3, latency_scale: 0.5", 3),
    ],
)
def test_latency_is_the_inverse_of_throughput(action: str, throughput: float) -> None:
    text = SPEC.replace("SIZE", "1").replace("{name: MAC,", f"{{name: MAC, actions: [{{name: compute, {action}}}],")
    assert bind(load_text(text), "B", "MAC").compute.actions["compute"].throughput == throughput


def test_latency_scale_of_a_component() -> None:
    text = SPEC.replace("SIZE", "1").replace(
        "{name: MAC,", "{name: MAC, latency_scale: 4, actions: [{name: compute, throughput: 8}],"
    )
    assert bind(load_text(text), "B", "MAC").compute.actions["compute"].throughput == 2
