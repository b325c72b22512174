"""Quantities in specs: `2 MiB`, `5 pJ`, `51.2 GB/s`, each where its unit makes sense, with the number that it stands for."""

from __future__ import annotations

import pytest

import fusiest
from fusiest.base.units import UNITS, read_quantity, without_units
from fusiest.spec import Path, bind
from fusiest.spec.reading.loading import load_texts
from fusiest.spec.spec import Spec

SPEC = """
arch:
  variables: {{node: 22 nm, part: 2 KiB}}
  nodes:
  - !Memory
    name: DRAM
    size: inf
    leak_power: 5 mW
    area: 3 mm2
    bits_per_action: {bits}
    tensors: {{keep: All}}
    actions: [{{name: read, energy: {energy}, throughput: {throughput}}}, {{name: write, energy: 5 pJ, latency: 2 ns}}]
  - !Memory
    name: SRAM
    size: {size}
    leak_power: 0
    actions: [{{name: read, energy: 1 pJ, throughput: 1 GHz}}, {{name: write, energy: 1 pJ, throughput: 1 GHz}}]
  - !Compute {{name: MAC, leak_power: 0, actions: [{{name: compute, energy: {compute}, throughput: 1 GHz}}]}}
workload:
  rank_sizes: {{M: 8, K: 8, N: 8}}
  bits_per_value: {{A: 1 B, Other: 16 bits}}
  einsums: ["C[m, n] = A[m, k] * B[k, n]"]
"""


def spec(**changes: str) -> Spec:
    values = {"bits": "64", "energy": "4 pJ/bit", "throughput": "51.2 GB/s", "size": "2 MiB", "compute": "0.1 pJ"}
    return load_texts({"f.yaml": SPEC.format(**{**values, **changes})}, {})


def bound(**changes: str) -> Path:
    return bind(spec(**changes), "C", "MAC")


def test_figures_with_units() -> None:
    path = bound()
    dram, sram = path.component("DRAM"), path.component("SRAM")
    assert dram is not None
    assert sram is not None
    assert (dram.leak_power, dram.area, sram.size) == (5e-3, 3e-6, 8 * 2 * 2**20)
    assert dram.actions["write"].energy == 5e-12
    assert dram.actions["write"].throughput == pytest.approx(5e8)
    assert path.compute.actions["compute"].energy == 1e-13
    assert dict(path.einsum.bits_per_value) == {"A": 8, "B": 16, "C": 16}


@pytest.mark.parametrize("bits", [1, 64])
def test_rates_that_count_bits(bits: int) -> None:
    """4 pJ a bit are 256 pJ for an action of 64 bits, and 51.2 GB/s are 6.4 G such actions a second."""
    dram = bound(bits=str(bits)).component("DRAM")
    assert dram is not None
    assert dram.actions["read"].energy == pytest.approx(4e-12 * bits)
    assert dram.actions["read"].throughput == pytest.approx(51.2e9 * 8 / bits)


@pytest.mark.parametrize(
    ("size", "expected"), [("4 * 512 KiB", 2**24), ("part * 3", 6 * 2**13), ("0.5 kB + 8 b", 4008)]
)
def test_units_in_expressions(size: str, expected: float) -> None:
    sram = bound(size=size).component("SRAM")
    assert sram is not None
    assert sram.size == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": "5 ns"}, "f.yaml:15: size is in bit, but '5 ns' is in s"),
        ({"energy": "5 GB/s"}, "f.yaml:12: energy is in J or J/bit, but '5 GB/s' is in bit/s"),
        ({"throughput": "4 pJ"}, "throughput is in Hz or bit/s, but '4 pJ' is in J"),
        ({"size": "64 KB"}, "there is no unit 'KB'; did you mean kB, kb, KiB or Kib?"),
        ({"size": "8B"}, "there is no unit"),
        ({"throughput": "2 * 3 GB/s"}, "a rate that counts bits stands alone"),
        ({"compute": "3 pJ/bit"}, "energy '3 pJ/bit' counts bits, but compute of MAC moves none"),
        ({"bits": "{A: 8, Other: 16}"}, "read of DRAM moves different numbers of them, by tensor"),
        ({"bits": "4 ns"}, "bits_per_action is in bit"),
        ({"size": "-2 MiB"}, "size must not be negative"),
    ],
)
def test_wrong_units(changes: dict[str, str], message: str) -> None:
    with pytest.raises(fusiest.SpecError) as error:
        spec(**changes)
    assert message in str(error.value)


def test_a_total_latency_is_a_time() -> None:
    def spec_of(latency: str) -> fusiest.Spec:
        text = SPEC.replace("!Compute {{name: MAC", f"!Compute {{{{total_latency: {latency}, name: MAC")
        return load_texts({"f.yaml": text.format(bits=1, energy=1, throughput=1, size=1, compute=1)}, {})

    with pytest.raises(fusiest.SpecError, match=r"total_latency is in s, but '5 pJ' is in J"):
        spec_of("5 pJ")
    mac = bind(spec_of("5 ns"), "C", "MAC").component("MAC")
    assert mac is not None
    assert mac.latency({"compute": 3}) == 5e-9


def test_a_fanout_has_no_unit() -> None:
    with pytest.raises(fusiest.SpecError, match=r"fanout takes no unit, but '4 nm' is in m"):
        load_texts({"f": SPEC.replace("!Compute {{name: MAC", "!Compute {{spatial: [{{name: X, fanout: 4 nm}}], name: MAC")
                   .format(bits=1, energy=1, throughput=1, size=1, compute=1)}, {})  # fmt: skip


def test_units_are_written_back() -> None:
    assert fusiest.load(spec()) == spec()


def test_units_of_defines() -> None:
    """In templates a quantity is its number; a rate stays text, for the field where it is written."""
    small = fusiest.load("simple", "matmuls", GlobalBufferSize="2 KiB", GlobalBufferThroughput="1 GB/s")
    path = bind(small, "Matmul0", "MAC").component("GlobalBuffer")
    assert path is not None
    assert (path.size, path.actions["read"].throughput) == (2 * 2**13, 8e9)


def test_every_unit_is_read() -> None:
    for name, unit in UNITS.items():
        found = read_quantity(f"3 {name}")
        assert found is not None, name
        assert found.unit == unit
        assert found.value == pytest.approx(3 * unit.factor)
        assert unit.per_bit or float(without_units(f"3 {name}")) == found.value
    assert without_units("'2 nm' if a2 else 0x2B") == "'2 nm' if a2 else 0x2B"
