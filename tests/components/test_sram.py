"""SRAM: never cheaper for more, no jumps, what is assumed, what is refused."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusiest.base.errors import SpecError
from fusiest.base.units import quantity
from fusiest.components import Estimate, estimate
from fusiest.components.sram_table import NODES as TABLE_NODES
from fusiest.components.sram_table import table

WIDTHS = st.integers(8, 2_048)
DEPTHS = st.integers(16, 1 << 18)
NODES = st.floats(5e-9, 180e-9)
BANKS = st.sampled_from([1, 2, 4, 8, 16])


def sram(width: float, depth: float, node: float, banks: int = 1, **more: object) -> Estimate:
    return estimate("SRAM", size=width * depth, width=width, tech_node=node, n_banks=banks, **more)


def figures(found: Estimate) -> list[float]:
    read, write = found.actions["read"], found.actions["write"]
    return [read.energy, write.energy, found.area, found.leak_power, read.latency, 1 / read.throughput]


@settings(max_examples=100, deadline=None)
@given(
    width=WIDTHS, depth=DEPTHS, node=NODES, banks=BANKS, more_bits=st.integers(0, 64), more_words=st.integers(0, 4_096)
)
def test_more_bits_or_words_are_never_cheaper(
    width: int, depth: int, node: float, banks: int, more_bits: int, more_words: int
) -> None:
    small = figures(sram(width, depth, node, banks))
    large = figures(sram(width + more_bits, depth + more_words, node, banks))
    assert all(b >= a * (1 - 1e-9) for a, b in zip(small, large, strict=True))


@settings(max_examples=100, deadline=None)
@given(
    width=st.integers(8, 60_000),
    depth=st.integers(16, 1 << 20),
    node=NODES,
    ports=st.integers(1, 8),
    more_bits=st.integers(0, 5_000),
    more_words=st.integers(0, 1 << 18),
)
def test_nor_with_more_ports_or_beyond_the_runs(
    width: int, depth: int, node: float, ports: int, more_bits: int, more_words: int
) -> None:
    try:
        large = figures(sram(width + more_bits, depth + more_words, node, n_rw_ports=ports))
    except SpecError:  # too far beyond them
        return
    small = figures(sram(width, depth, node, n_rw_ports=ports))
    assert all(b >= a * (1 - 1e-9) for a, b in zip(small, large, strict=True))


def test_wide_memories_beyond_the_runs_where_a_surface_would_fall() -> None:
    """Found at random: one more port or width continued as between its last neighbours made more words cheaper."""
    for width, depth, more_bits, more_words, ports in (
        (51_224, 9_107, 0, 4_123, 1), (57_304, 68, 1, 65, 7), (871, 46_761, 1_584, 0, 8), (1_956, 73, 1, 69, 8)
    ):  # fmt: skip
        small = figures(sram(width, depth, 130e-9, n_rw_ports=ports))
        large = figures(sram(width + more_bits, depth + more_words, 130e-9, n_rw_ports=ports))
        assert all(b >= a * (1 - 1e-9) for a, b in zip(small, large, strict=True))


@settings(max_examples=80, deadline=None)
@given(width=WIDTHS, depth=DEPTHS, node=st.floats(5e-9, 179.8e-9), banks=BANKS)
def test_the_node_makes_no_jumps(width: int, depth: int, node: float, banks: int) -> None:
    here, there = figures(sram(width, depth, node, banks)), figures(sram(width, depth, node * 1.001, banks))
    assert all(abs(b / a - 1) < 0.01 for a, b in zip(here, there, strict=True))


def test_only_the_tables_of_nodes_nearby_are_read_and_once() -> None:
    table.cache_clear()
    for depth in (512, 1024, 2048):
        sram(64, depth, 40e-9)
    assert table.cache_info().misses == 2


def test_runs_rise_so_that_the_table_takes_them_as_they_are() -> None:
    for node in TABLE_NODES:
        values = table(node, 1).values
        for row, wider in zip(values, values[1:], strict=False):
            assert all(a <= b for cell, other in zip(row, wider, strict=True) for a, b in zip(cell, other, strict=True))
        for row in values:
            for cell, deeper in zip(row, row[1:], strict=False):
                assert all(a <= b for a, b in zip(cell, deeper, strict=True))


def test_all_nodes_from_5_to_180_nm() -> None:
    """Every tenth of a per cent, across CACTI's nodes and where scaling begins."""
    node, before = 5e-9, figures(sram(64, 8_192, 5e-9))
    steps = 0
    while node * 1.001 < 180e-9:
        node *= 1.001
        now = figures(sram(64, 8_192, node))
        assert all(abs(b / a - 1) < 0.01 for a, b in zip(before, now, strict=True)), node
        before, steps = now, steps + 1
    assert steps > 3_500


def test_the_width_that_is_assumed() -> None:
    assert estimate("SRAM", size=65_536, tech_node=22e-9).attributes["width"] == 256
    assert estimate("SRAM", size=100, tech_node=22e-9).attributes["width"] == 16
    action = estimate("SRAM", size=65_536, tech_node=22e-9, bits_per_action=64)
    assert action.attributes["width"] == 64
    assert action.status == "assumed"
    assert estimate("SRAM", size=65_536, tech_node=22e-9, bits_per_action=64, n_banks=4).attributes["width"] == 256
    assert estimate("SRAM", width=64, depth=1_024, tech_node=22e-9).attributes["size"] == 65_536


def test_what_is_beyond_the_table_is_said() -> None:
    assert sram(64, 1_024, 22e-9).notes == ()
    assert "nodes" in sram(64, 1_024, 7e-9).notes[0]
    assert "at least 32 bits wide" in sram(8, 1_024, 22e-9).notes[0]
    assert "4 ports" in sram(64, 1_024, 22e-9, n_rw_ports=8).notes[0]
    assert sram(64, 1_024, 7e-9).status == "extrapolated"


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"size": 0, "tech_node": 22e-9}, "size of SRAM must be > 0"),
        ({"size": 65_536, "width": -8, "tech_node": 22e-9}, "width of SRAM must be > 0"),
        ({"size": 65_536, "tech_node": 0}, "tech_node of SRAM must be"),
        ({"size": 65_536, "tech_node": 3e-9}, "tech_node of SRAM must be"),
        ({"size": 65_536}, "needs the attribute 'tech_node'"),
        ({"tech_node": 22e-9}, "needs the attribute 'size'"),
        ({"size": "large", "tech_node": 22e-9}, "must be a number"),
        ({"size": 10**400, "tech_node": 22e-9}, "too large for a number"),
        ({"size": float("inf"), "tech_node": 22e-9}, "finite"),
        ({"size": 2**60, "width": 64, "tech_node": 22e-9}, "words deep"),
        ({"size": 2**40, "width": 2**20, "tech_node": 22e-9}, "bits wide"),
        ({"size": 65_536, "width": 64, "depth": 8, "tech_node": 22e-9}, "not its width"),
        ({"size": 65_536, "tech_node": 22e-9, "n_banks": 1.5}, "whole number"),
        ({"size": 65_536, "tech_node": 22e-9, "voltage": 0.1}, "threshold"),
        ({"size": 65_536, "tech_node": 22e-9, "banks": 2}, "did you mean 'n_banks'?"),
    ],
)
def test_bad_attributes_are_one_line(attributes: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        estimate("SRAM", **attributes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_lower_supply_takes_less_energy_and_more_time() -> None:
    nominal, low = sram(64, 1_024, 45e-9), sram(64, 1_024, 45e-9, voltage=0.8)
    assert low.actions["read"].energy == pytest.approx(0.64 * nominal.actions["read"].energy)
    assert low.leak_power == pytest.approx(0.8 * nominal.leak_power)
    assert low.actions["read"].latency > nominal.actions["read"].latency
    assert low.status == "assumed"


def test_more_ports_cost_more() -> None:
    one, two, four = (figures(sram(64, 8_192, 32e-9, n_rw_ports=ports)) for ports in (1, 2, 4))
    assert all(a < b < c for a, b, c in zip(one[:5], two[:5], four[:5], strict=True))
    assert one[5] > two[5] > four[5]


def test_sizes_as_people_write_them() -> None:
    assert quantity("64 KiB") == 524_288
    assert quantity("22nm") == 22e-9
    assert quantity("22") is None
    assert quantity("22 parsecs") is None


def errors(banks: tuple[int, ...]) -> dict[str, list[float]]:
    """How far the model is from CACTI's runs off the table, sorted, by figure."""
    found: dict[str, list[float]] = {name: [] for name in ("read", "write", "area", "leak", "access")}
    lines = [line for line in (Path(__file__).parent / "cacti_runs.csv").read_text().splitlines() if line[0] != "#"]
    for row in csv.DictReader(lines):
        if int(row["banks"]) in banks:
            one = estimate(
                "SRAM", size=8 * int(row["size_bytes"]), width=int(row["width_bits"]), n_banks=int(row["banks"]),
                tech_node=int(row["node_nm"]) * 1e-9,
            )  # fmt: skip
            read, write = one.actions["read"], one.actions["write"]
            pairs = zip(found, [read.energy, write.energy, one.area, one.leak_power, read.latency], strict=True)
            for (name, value), column in zip(
                pairs, ["read_J", "write_J", "area_m2", "leak_W", "access_s"], strict=True
            ):
                found[name].append(abs(value / float(row[column]) - 1))
    return {name: sorted(values) for name, values in found.items()}


def test_runs_of_cacti_that_are_not_in_the_table() -> None:
    for name, found in errors((1,)).items():
        assert len(found) == 350
        assert found[175] < 0.01, name
        assert found[315] < (0.09 if name == "read" else 0.06), name


def test_runs_of_cacti_with_several_banks() -> None:
    for name, found in errors((2, 4, 8, 16)).items():
        assert len(found) == 280
        assert found[140] < 0.06, name
        assert found[252] < 0.17, name
