"""Components that are estimated by their class: what wins, what is scaled, what differs between Einsums."""

from __future__ import annotations

import math

import pytest

from fusiest.base.errors import SpecError
from fusiest.components import estimate
from fusiest.spec import BoundComponent
from fusiest.spec.dumping import dump
from fusiest.spec.hardware.costs import ComponentCosts, filled
from fusiest.spec.reading.loading import load_texts
from fusiest.spec.spec import Spec

ARCH = """
variables: {{voltage: 0.8}}
arch:
  attributes: {{tech_node: 22nm, cols: 128, voltage: 5}}
  nodes:
  - !Memory {{name: DRAM, component_class: LPDDR4, size: inf, tensors: {{keep: All}}}}
  - !Memory
    name: Buffer
    size: 64 * 1024 * 8
    tensors: {{keep: All}}
{buffer}
  - !Toll {{name: Converter, direction: up, component_class: ADC, attributes: {{n_bits: 8, throughput: 1e9}}}}
  - !Container {{name: Array, spatial: [{{name: X, fanout: 4}}, {{name: Y, fanout: 2}}]}}
  - !Compute {{name: MAC, component_class: MAC, attributes: {{format: bf16, voltage: voltage}}}}
"""
WORKLOAD = """
workload:
  rank_sizes: {M: 4, K: 4, N: 4, P: 4}
  bits_per_value: {A: 8, V: 4, B: 16, W: 2, C: 32}
  einsums: ["B[m, n] = A[m, k] * V[k, n]", "C[m, p] = B[m, n] * W[n, p]"]
renames:
  einsums: [{name: default, tensor_accesses: [{name: weight, source: V | W}]}]
"""
SRAM = "    component_class: SRAM\n    attributes: {width: 64, voltage: 0.85}"


def spec(buffer: str = SRAM, workload: bool = True) -> Spec:
    texts = {"arch.yaml": ARCH.format(buffer=buffer)}
    return load_texts({**texts, "workload.yaml": WORKLOAD} if workload else texts, {})


def costs(found: Spec) -> dict[str, ComponentCosts]:
    return {one.name: one for one in found.costs()}


def bound(found: Spec, einsum: str = "B") -> dict[str, BoundComponent]:
    from fusiest.spec.hardware.binding import bind_all

    return bind_all(found, found.info.einsums[einsum])


def test_a_conversion_is_one_of_a_value() -> None:
    """However many bits the value has, with the class and without it."""
    for found in (spec(), load_texts({"filled.yaml": dump(filled(spec()))}, {})):
        for einsum in ("B", "C"):
            assert bound(found, einsum)["Converter"].values_per_action("read", einsum) == 1


def test_an_action_moves_one_bit_unless_it_says_more() -> None:
    """Energy in proportion to bits, throughput in inverse proportion."""
    whole = estimate("SRAM", size=524_288, width=64, tech_node=22e-9, voltage=0.85)
    bit = bound(spec())["Buffer"].actions["read"]
    assert bit.energy == pytest.approx(whole.actions["read"].energy / 64)
    assert bit.throughput == pytest.approx(whole.actions["read"].throughput * 64)
    word = bound(spec(SRAM + "\n    bits_per_action: 128"))["Buffer"].actions["write"]
    assert word.energy == pytest.approx(whole.actions["write"].energy * 2)
    assert word.throughput == pytest.approx(whole.actions["write"].throughput / 2)


def test_values_of_converters_and_arithmetic_are_whole() -> None:
    found = bound(spec())
    convert = estimate("ADC", n_bits=8, throughput=1e9, tech_node=22e-9)
    assert found["Converter"].actions["read"].energy == convert.actions["convert"].energy
    mac = estimate("MAC", format="bf16", tech_node=22e-9, voltage=0.8)
    assert found["MAC"].actions["compute"].energy == mac.actions["compute"].energy
    assert found["DRAM"].actions["read"].energy == pytest.approx(8e-12)


def test_what_the_file_gives_wins_field_by_field() -> None:
    text = SRAM + "\n    area: 3e-9\n    actions: [{name: read, energy: 7e-12}, {name: write, throughput: 5}]"
    given, free = bound(spec(text))["Buffer"], bound(spec())["Buffer"]
    assert given.area == 3e-9
    assert given.leak_power == free.leak_power
    assert given.actions["read"].energy == 7e-12
    assert given.actions["read"].throughput == free.actions["read"].throughput
    assert given.actions["write"].energy == free.actions["write"].energy
    assert given.actions["write"].throughput == 5
    assert set(costs(spec(text))["Buffer"].provenance.values()) >= {"given"}
    assert costs(spec(text))["Buffer"].provenance["area"] == "given"
    assert costs(spec(text))["Buffer"].provenance["write.energy"].startswith("assumed by SRAM(")


def test_scales_multiply_the_estimate() -> None:
    scales = "    energy_scale: 2\n    throughput_scale: 3\n    area_scale: 5\n    leak_power_scale: 7\n    n_parallel_instances: 11"
    one, many = bound(spec())["Buffer"], bound(spec(f"{SRAM}\n{scales}"))["Buffer"]
    assert many.actions["read"].energy == pytest.approx(2 * one.actions["read"].energy)
    assert many.actions["read"].throughput == pytest.approx(33 * one.actions["read"].throughput)
    assert (many.area, many.leak_power) == pytest.approx((55 * (one.area or 0), 77 * one.leak_power))


def test_attributes_for_all_are_for_classes_that_have_them() -> None:
    """`cols` is no attribute of any class here; `voltage` is, and the component's own goes first."""
    assert bound(spec())["Buffer"].actions["read"].energy > 0
    with pytest.raises(SpecError, match="SRAM has no attribute 'cols'"):
        spec("    component_class: SRAM\n    attributes: {cols: 128}")


def test_a_figure_may_differ_between_einsums_but_not_silicon() -> None:
    text = "    component_class: SRAM\n    attributes: {width: 16 * weight.bits_per_value, voltage: 0.85}"
    found = spec(text)
    first, second = bound(found)["Buffer"], bound(found, "C")["Buffer"]
    assert first.actions["read"].energy != second.actions["read"].energy
    assert (first.area, first.leak_power) == (second.area, second.leak_power)
    wide, narrow = (estimate("SRAM", size=524_288, width=w, tech_node=22e-9, voltage=0.85) for w in (64, 32))
    assert first.area == max(wide.area, narrow.area)
    assert first.leak_power == max(wide.leak_power, narrow.leak_power)
    notes = " ".join(costs(found)["Buffer"].notes)
    assert "read energy differs between Einsums" in notes
    assert "area would differ between Einsums: the largest counts" in notes


def test_another_size_is_estimated_again() -> None:
    small, large = spec(), spec().with_component("Buffer", size=8 * 1024 * 1024)
    assert bound(large)["Buffer"].actions["read"].energy > bound(small)["Buffer"].actions["read"].energy
    assert (large.area or 0) > (small.area or 0)
    assert large.leak_power > small.leak_power


def test_counts_and_totals() -> None:
    found = spec()
    one = costs(found)
    assert [c.count for c in one.values()] == [1, 1, 1, 8]
    assert one["MAC"].total_area == pytest.approx(8 * (one["MAC"].area or 0))
    assert found.area == pytest.approx(math.fsum(c.total_area or 0 for c in one.values()))
    assert found.leak_power == pytest.approx(math.fsum(c.total_leak_power for c in one.values()))


def test_costs_need_no_workload() -> None:
    with_workload, without = costs(spec()), costs(spec(workload=False))
    assert {name: (c.area, c.leak_power, c.actions) for name, c in with_workload.items()} == {
        name: (c.area, c.leak_power, c.actions) for name, c in without.items()
    }
    needs = spec("    component_class: SRAM\n    attributes: {width: weight.bits_per_value}", workload=False)
    with pytest.raises(SpecError, match="give the workload, too"):
        needs.costs()


@pytest.mark.parametrize(
    "buffer", [SRAM, "    component_class: SRAM\n    attributes: {width: 16 * weight.bits_per_value}"]
)
def test_filled_in_figures_need_no_classes(buffer: str) -> None:
    """Also figures that differ between Einsums."""
    found = spec(buffer)
    again = load_texts({"filled.yaml": dump(filled(found))}, {})
    assert "component_class" not in dump(again)
    for einsum in ("B", "C"):
        before, after = bound(found, einsum), bound(again, einsum)
        for name, one in before.items():
            assert after[name].actions == one.actions
            assert (after[name].area, after[name].leak_power) == (one.area, one.leak_power)


def test_an_area_may_be_unknown() -> None:
    text = "    leak_power: 0\n    actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]"
    found = spec(text)
    assert found.area is None
    assert costs(found)["Buffer"].area is None
    assert costs(found)["Buffer"].provenance["area"] == "not given"


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        ("    component_class: SRM", r"arch.yaml:11: there is no component_class 'SRM'; did you mean 'SRAM'\?"),
        (
            "    component_class: SRAM\n    attributes: {tech_node: 0}",
            "arch.yaml:12: Buffer: tech_node of SRAM must be",
        ),
        (
            "    component_class: SRAM\n    attributes: {tech_node: 22}",
            r"arch.yaml:12: .* but is 22; did you mean 22 nm\?",
        ),
        ("    component_class: SRAM\n    attributes: {width: -8}", "Buffer: width of SRAM must be > 0"),
        (
            "    component_class: SRAM\n    attributes: {widht: 8}",
            r"SRAM has no attribute 'widht'; did you mean 'width'\?",
        ),
        ("    component_class: ADC\n    attributes: {n_bits: 8, throughput: 1}", "ADC has no action 'read'"),
        ("    component_class: ADC", "Buffer: ADC needs the attribute 'n_bits'"),
        ("    component_class: SRAM\n    attributes: {width: wide}", "must be a number, but is 'wide'"),
        ("    component_class: SRAM\n    attributes: {width: ~All}", "must be a number, but is '~All'"),
        ("    component_class: SRAM\n    values_per_action: {All: 1}", "values differ in theirs; give bits_per_action"),
        ("    component_class: SRAM\n    attributes: [1]", "attributes must be a mapping"),
        (
            "    component_class: SRAM\n    attributes: {}\n    extra_attributes_for_component_model: {}",
            "'extra_attributes_for_component_model' and 'attributes' are the same",
        ),
    ],
)
def test_mistakes_are_one_line(buffer: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        spec(buffer)
    assert "\n" not in str(caught.value)


def test_a_hundred_components_load_in_no_time() -> None:
    """Counted in estimates, not seconds: each component is estimated once, not once for each Einsum."""
    from unittest import mock

    from fusiest.components import ComponentClass

    nodes = "\n".join(
        f"  - !Memory {{name: B{i}, size: {1024 * (i + 8)}, component_class: SRAM, tensors: {{keep: Nothing, may_keep: Nothing}}}}"
        for i in range(100)
    )
    einsums = "\n".join(f'  - "T{i + 1}[m, n{i + 1}] = T{i}[m, n{i}] * W{i}[n{i}, n{i + 1}]"' for i in range(50))
    text = f"""
arch:
  attributes: {{tech_node: 22nm}}
  nodes:
  - !Memory {{name: DRAM, component_class: LPDDR4, size: inf, tensors: {{keep: All}}}}
{nodes}
  - !Compute {{name: MAC, component_class: MAC}}
workload:
  rank_sizes: {{M: 4, {", ".join(f"N{i}: 4" for i in range(51))}}}
  bits_per_value: {{All: 8}}
  einsums:
{einsums}
"""
    calls = 0
    original = ComponentClass.estimate

    def counted(self: ComponentClass, given: dict[str, object]) -> object:
        nonlocal calls
        calls += 1
        return original(self, given)

    with mock.patch.object(ComponentClass, "estimate", counted):
        load_texts({"spec.yaml": text}, {})
    assert calls == 102
