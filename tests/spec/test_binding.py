"""Every field of an architecture: what it means for one Einsum."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fusiest.base.errors import SpecError
from fusiest.spec import BoundComponent, BoundDimension, architecture_names, bind
from fusiest.spec import architecture as arch
from fusiest.spec import spec as spec_module
from fusiest.spec.hardware.actions import Action
from fusiest.spec.hardware.placement_sets import PlacementSets, placement_sets
from fusiest.spec.spec import Spec
from fusiest.spec.workload.analysis import EinsumNames
from tests.load_text import load_text

WORKLOAD = """\
workload:
  rank_sizes: {M: 8, K: 4, N: 2, P: 2}
  bits_per_value: {All: 8, Z: 8}
  einsums:
  - {einsum: "B[m, n] = A[m, k] * V[k, n]", renames: {weight: V}}
  - {einsum: "C[m, p] = B[m, n] * W[n, p]", renames: {weight: W}}
  - {einsum: "D[m] = E[m]", renames: {weight: Nothing}}
""".replace(", Z: 8", "")

ARCH = """\
arch:
  nodes:
  - !Memory
    name: DRAM
    size: inf
    component_class: Dummy
    tensors: {keep: ~Intermediates, may_keep: All}
  - !Memory
    name: Buffer
    size: 1024
    component_class: Dummy
  - !Toll
    name: Link
    direction: down
    component_class: Dummy
  - !Container
    name: Array
    spatial:
    - {name: X, fanout: 4}
  - !Compute
    name: MAC
    component_class: Dummy
"""
BUFFER = "    name: Buffer\n"
DIMENSION = "{name: X, fanout: 4}"


def bound(
    component: str, old: str = BUFFER, new: str = BUFFER, einsum: str = "B", variables: str = ""
) -> BoundComponent:
    spec = load_text(ARCH.replace(old, new), WORKLOAD, "variables: {" + variables + "}")
    found = bind(spec, einsum, "MAC").component(component)
    assert found is not None
    return found


def buffer(fields: str, einsum: str = "B", variables: str = "") -> BoundComponent:
    return bound("Buffer", BUFFER, BUFFER + "".join(f"    {line}\n" for line in fields.split("\n")), einsum, variables)


def dimension(fields: str, einsum: str = "B") -> BoundDimension:
    return bound("Array", DIMENSION, "{name: X, fanout: 4, " + fields + "}", einsum).dimensions[0]


def test_a_dummy_costs_nothing() -> None:
    found = bound("Buffer")
    assert (found.leak_power, found.area, found.size) == (0, 0, 1024)
    assert {(a.energy, a.throughput) for a in found.actions.values()} == {(0, math.inf)}
    assert bound("MAC").actions.keys() == {"compute"}
    assert bound("Link").actions.keys() == {"read"}


def test_what_a_dummy_gives_still_counts() -> None:
    found = buffer("leak_power: 2\nactions: [{name: read, energy: 3}]")
    assert (found.leak_power, found.actions["read"].energy, found.actions["write"].energy) == (2, 3, 0)


def test_scales_and_parallel_instances() -> None:
    found = buffer(
        "leak_power: 2\narea: 3\nn_parallel_instances: 4\nleak_power_scale: 5\narea_scale: 7\n"
        "energy_scale: 2\nthroughput_scale: 3\nactions_scale: 5\n"
        "actions: [{name: read, energy: 11, throughput: 13, energy_scale: 7, throughput_scale: 11, actions_scale: 13}]"
    )
    read = found.actions["read"]
    assert (found.leak_power, found.area, found.size) == (2 * 5 * 4, 3 * 7 * 4, 1024)
    assert (read.energy, read.throughput, read.actions_scale) == (11 * 2 * 7, 13 * 3 * 11 * 4, 5 * 13)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("", (1 / 8, 1 / 8)),
        ("bits_per_action: 64", (8, 8)),
        ("bits_per_action: 64\nactions: [{name: read, bits_per_action: 16}]", (2, 8)),
        ("values_per_action: 5", (5, 5)),
        ("values_per_action: 5\nbits_per_action: 64", (5, 5)),
        ("values_per_action: 5\nactions: [{name: read, values_per_action: 6}]", (6, 5)),
        ("values_per_action: {A: 5}\nactions: [{name: read, bits_per_action: 16}]", (5, 5)),
        ("values_per_action: {V: 5}\nbits_per_action: {A: 16, Other: 32}", (2, 2)),
        ("bits_per_value: {A: 4}\nbits_per_action: 16", (4, 4)),
        ("bits_per_value: 2", (0.5, 0.5)),
        ("values_per_action: {Inputs: 3}\nactions: [{name: write, values_per_action: {A: 7}}]", (3, 7)),
    ],
)
def test_values_per_action(fields: str, expected: tuple[float, float]) -> None:
    found = buffer(fields) if fields else bound("Buffer")
    assert (found.values_per_action("read", "A"), found.values_per_action("write", "A")) == expected


def test_bits_per_value_of_a_component() -> None:
    assert buffer("bits_per_value: {Outputs: 24}").bits_per_value == {"A": 8, "V": 8, "B": 24}


def test_enabled_and_size_per_einsum() -> None:
    assert [buffer("enabled: len(All) == 3", e).enabled for e in "BD"] == [True, False]
    assert buffer("enabled: false").enabled is False
    assert buffer("enabled: weight", "D").enabled is False
    by_weight = ("    size: 1024\n", "    size: weight.bits_per_value if weight else 0\n")
    assert [bound("Buffer", *by_weight, einsum=e).size for e in "BD"] == [8, 0]


def test_variables_of_the_spec_and_of_the_architecture() -> None:
    assert buffer("leak_power: 3 * word", variables="byte: 8, word: 2 * byte").leak_power == 48
    with_own = ARCH.replace("arch:\n", "arch:\n  variables: {word: byte * 4}\n").replace("size: 1024", "size: word")
    spec = load_text(with_own, WORKLOAD, "variables: {byte: 8}")
    assert bind(spec, "B", "MAC").components[1].size == 32


def test_variables_of_the_workload_too() -> None:
    spec = load_text(ARCH, WORKLOAD.replace("All: 8", "All: word"), "variables: {word: 16}")
    assert spec.info.einsums["B"].bits_per_value["A"] == 16


def test_skip_initial_output_write() -> None:
    assert bound("Buffer").skip_initial_output_write
    assert not buffer("skip_initial_output_write: false").skip_initial_output_write
    assert bound("Link").skip_initial_output_write


@pytest.mark.parametrize(
    ("direction", "expected"),
    [
        ("up", {"A": "up", "V": "up", "B": "up"}),
        ("{Inputs: down, Outputs: up_and_down}", {"A": "down", "V": "down", "B": "up_and_down"}),
        ("{weight: down, Other: up}", {"A": "up", "V": "down", "B": "up"}),
    ],
)
def test_direction(direction: str, expected: dict[str, str]) -> None:
    assert bound("Link", "    direction: down\n", f"    direction: {direction}\n").direction == expected


@pytest.mark.parametrize(
    ("fields", "may_reuse", "reuse"),
    [
        ("", "AVB", ""),
        ("reuse: A", "A", "A"),
        ("reuse: A, may_reuse: Nothing", "", "A"),
        ("may_reuse: Inputs", "AV", ""),
        ("may_reuse: weight", "V", ""),
        ("may_reuse: C", "", ""),
    ],
)
def test_reuse(fields: str, may_reuse: str, reuse: str) -> None:
    found = dimension(fields) if fields else bound("Array").dimensions[0]
    assert (found.may_reuse, found.reuse) == (set(may_reuse), set(reuse))


def test_other_fields_of_a_dimension() -> None:
    found = dimension("min_usage: 0.5, usage_scale: 2, power_gateable: true")
    assert (found.fanout, found.min_usage, found.usage_scale, found.power_gateable) == (4, 0.5, 2, True)
    assert bound("Array", DIMENSION, "{name: X, fanout: 2 * 8}").dimensions[0].fanout == 16


@pytest.mark.parametrize(
    ("expression", "variables"),
    [
        ("m", "m"),
        ("~m", "kn"),
        ("weight.rank_variables", "kn"),
        ("~weight.rank_variables", "m"),
        ("A.rank_variables & V.rank_variables", "k"),
        ("All", "mkn"),
        ("Nothing", ""),
        ("C.rank_variables", ""),
    ],
)
def test_loop_bounds(expression: str, variables: str) -> None:
    found = dimension(f"loop_bounds: [{{expression: {expression}, operator: product<=, value: 2 * 4}}]").loop_bounds[0]
    assert (found.variables, found.operator, found.value) == (set(variables), "product<=", 8)


@pytest.mark.parametrize("operator", arch.OPERATORS)
def test_operators(operator: str) -> None:
    assert (
        dimension(f"loop_bounds: [{{expression: m, operator: '{operator}', value: 1}}]").loop_bounds[0].operator
        == operator
    )


def test_total_latency_sees_actions_and_attributes() -> None:
    found = buffer(
        "leak_power: 7\ntotal_latency: max(a.n_calls / a.throughput for a in actions) + leak_power + size\n"
        "actions: [{name: read, throughput: 2}, {name: write, throughput: 5}]"
    )
    assert found.latency({"read": 10, "write": 20}) == 5 + 7 + 1024
    by_name = buffer("total_latency: sum(a.n_calls for a in actions if a.name == 'read')")
    assert by_name.latency({"read": 10, "write": 20}) == 10
    ports = buffer("actions: [{name: read, throughput: 2}, {name: write, throughput: 5}]")
    assert ports.latency({"read": 10, "write": 20}) == 5 + 4


def sets(tensors: str, chosen: str = "AV", einsum: str = "B") -> PlacementSets:
    spec, names = names_for(tensors, einsum)
    node = spec.require_arch().nodes[1]
    assert isinstance(node, arch.Memory)
    return placement_sets(node, names.choose("DRAM", frozenset(chosen)), frozenset(chosen))


def names_for(tensors: str, einsum: str) -> tuple[Spec, EinsumNames]:
    spec = load_text(ARCH.replace(BUFFER, BUFFER + f"    tensors: {tensors}\n"), WORKLOAD)
    return spec, architecture_names(spec, spec.info.einsums[einsum])


@pytest.mark.parametrize(
    ("tensors", "keep", "may_keep"),
    [
        ("{}", "", "AVB"),
        ("{keep: A}", "A", ""),
        ("{keep: A, may_keep: All}", "A", "VB"),
        ("{may_keep: V}", "", "V"),
        ("{keep: ~DRAM}", "B", ""),
        ("{keep: ~DRAM.tensors, may_keep: All}", "B", "AV"),
        ("{keep: ~Above}", "B", ""),
        ("{back: B}", "B", "AV"),
        ("{back: B, keep: A}", "AB", ""),
        ("{back: B, may_keep: All}", "B", "AV"),
        ("{keep: weight | Outputs}", "VB", ""),
        ("{keep: Intermediates}", "B", ""),
        ("{keep: W}", "", ""),
    ],
)
def test_keep(tensors: str, keep: str, may_keep: str) -> None:
    found = sets(tensors)
    assert (found.keep, found.may_keep) == (set(keep), set(may_keep))


def test_back() -> None:
    assert (sets("{back: B}").back, sets("{keep: A}").back) == ({"B"}, set())


def test_what_a_memory_forbids() -> None:
    found = sets("{no_refetch_from_above: weight, no_resend_to_below: Inputs, force_memory_hierarchy_order: false}")
    assert (found.no_refetch_from_above, found.no_resend_to_below) == ({"V"}, {"A", "V"})
    assert found.force_memory_hierarchy_order is False
    assert sets("{}").force_memory_hierarchy_order is True


def test_tile_shape_and_order() -> None:
    found = sets(
        "{tile_shape: [{expression: ~weight.rank_variables, operator: '==', value: 1}],"
        " tensor_order_options: [[weight, ~weight], [B, A]]}"
    )
    assert [(c.variables, c.operator, c.value) for c in found.tile_shape] == [({"m"}, "==", 1)]
    assert found.tensor_order_options == (({"V"}, {"A", "B"}), ({"B"}, {"A"}))


def test_expressions_have_an_allowance_for_all_einsums_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spec_module, "MAX_STEPS", 20_000)
    monkeypatch.setattr(spec_module, "MAX_STEPS_PER_EINSUM", 1_000)
    every = " ".join(f"for {v} in All" for v in "abcdefg")
    text = ARCH.replace("size: 1024", f"size: sum(1 {every})")
    assert load_text(text, WORKLOAD).arch is not None
    more = "".join(f'  - "Y{i}[m] = X[m, K: k] * U[k]"\n' for i in range(5))
    with pytest.raises(SpecError, match=r"a\.yaml:10: in 'sum.*takes too long to check"):
        load_text(text, WORKLOAD + more)


def test_nodes_have_an_allowance_for_all_einsums_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spec_module, "MAX_STEPS", 0)
    monkeypatch.setattr(spec_module, "MAX_STEPS_PER_EINSUM", 50)
    with pytest.raises(SpecError, match=r"a\.yaml:\d+: .*the spec takes too long to check"):
        load_text(ARCH, WORKLOAD)
    monkeypatch.setattr(spec_module, "STEPS_PER_NODE", 0)
    assert load_text(ARCH, WORKLOAD).arch is not None


FORKED = """\
arch:
  nodes:
  - !Memory {name: Outer, size: inf, component_class: Dummy}
  - !Compute {name: Near, component_class: Dummy}
  - !Fork
    nodes:
    - !Memory {name: Side, size: 8, component_class: Dummy}
    - !Fork
      nodes:
      - !Compute {name: Deep, component_class: Dummy}
    - !Compute {name: Aside, component_class: Dummy}
  - !Hierarchical
    nodes:
    - !Memory {name: Inner, size: 8, component_class: Dummy}
    - !Compute {name: Main, component_class: Dummy}
"""


@pytest.mark.parametrize(
    ("compute", "path"),
    [
        ("Near", ["Outer", "Near"]),
        ("Aside", ["Outer", "Side", "Aside"]),
        ("Deep", ["Outer", "Side", "Deep"]),
        ("Main", ["Outer", "Inner", "Main"]),
    ],
)
def test_paths(compute: str, path: list[str]) -> None:
    assert [c.name for c in bind(load_text(FORKED, WORKLOAD), "B", compute).components] == path


def test_an_unknown_compute() -> None:
    with pytest.raises(SpecError, match="no compute Mian; did you mean 'Main'"):
        bind(load_text(FORKED, WORKLOAD), "B", "Mian")


@pytest.mark.parametrize(
    "make",
    [
        lambda: arch.Memory(name="M", size=-1),
        lambda: Action(name="read", throughput=0),
        lambda: arch.Dimension(name="X", fanout=1.5),
        lambda: arch.Architecture(nodes=()),
        lambda: arch.WrittenComparison(expression="m", operator="=", value=1),
    ],
)
def test_impossible_values_from_python(make: Any) -> None:
    with pytest.raises(ValueError):
        make()
