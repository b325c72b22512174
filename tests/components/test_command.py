"""`fusiest components`."""

from __future__ import annotations

import json

import pytest

from fusiest.components import all_classes, estimate
from tests.command_line import Capture, run


def test_every_class_has_a_line(capsys: Capture) -> None:
    status, out, err = run(capsys, "components")
    assert (status, err) == (0, "")
    words = [line.split()[0] for line in out.splitlines() if line.startswith("  ")]
    assert words == [
        one.name
        for group in dict.fromkeys(c.group for c in all_classes())
        for one in all_classes()
        if one.group == group
    ]


def test_a_class_in_full(capsys: Capture) -> None:
    status, out, err = run(capsys, "components", "sram")
    assert (status, err) == (0, "")
    for word in ("SRAM", "n_rw_ports", "required", "CACTI 7", "Expected error", "read, write"):
        assert word in out


def test_a_component_as_json(capsys: Capture) -> None:
    status, out, err = run(capsys, "components", "SRAM", "size=64KiB", "width=64", "tech_node=22nm", "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert list(found) == ["class", "attributes", "actions", "area", "leak_power", "provenance"]
    expected = estimate("SRAM", size=64 * 1024 * 8, width=64, tech_node=22e-9)
    assert found["class"] == "SRAM"
    assert found["actions"]["read"] == {
        "energy": expected.actions["read"].energy,
        "throughput": expected.actions["read"].throughput,
        "latency": expected.actions["read"].latency,
    }
    assert (found["area"], found["leak_power"]) == (expected.area, expected.leak_power)
    assert found["attributes"]["size"] == 524_288
    assert found["provenance"]["status"] == "estimated"


def test_a_component_as_text(capsys: Capture) -> None:
    _, out, _ = run(capsys, "components", "MAC", "format=bf16", "tech_node=7nm")
    assert "590 fJ" in out
    assert "Jouppi" in out
    _, out, _ = run(capsys, "components", "Register", "width=8", "tech_node=40e-9")
    assert "72 fJ  9 fJ/bit  unlimited" in out


def test_expressions_and_lists_are_values(capsys: Capture) -> None:
    _, out, _ = run(capsys, "components", "SRAM", "size=8*1024*64", "width=64", "tech_node=22nm", "--json")
    assert json.loads(out)["attributes"]["size"] == 524_288
    arguments = ("resolution=4", "voltage=800mV", "unit_resistance=5kohm", "tech_node=22nm")
    _, out, _ = run(capsys, "components", "R2RLadderDAC", *arguments, "hist=[1]*7+[9]*8", "--json")
    assert json.loads(out)["attributes"]["hist"] == [1] * 7 + [9] * 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("SRM",), "did you mean 'SRAM'?"),
        (("SRAM", "size=64KiB"), "tech_node"),
        (("SRAM", "size=64KiB", "tech_node=0"), "tech_node"),
        (("SRAM", "size=64KiB", "tech_node=22nm", "width=-1"), "width"),
        (("SRAM", "size=large", "tech_node=22nm"), "must be a number"),
        (("SRAM", "sise=1", "tech_node=22nm"), "did you mean 'size'?"),
        (("SRAM", "size"), "NAME=VALUE"),
        (("SRAM", "size=64KiB", "tech_node=22pJ"), "tech_node of SRAM is in m, but '22pJ' is in J"),
        (("SRAM", "size=1", "size=2"), "twice"),
        (("MAC", "format=int7", "tech_node=7nm"), "did you mean 'int"),
        (("--json",), "needs a class"),
    ],
)
def test_bad_input_is_one_line(capsys: Capture, arguments: tuple[str, ...], message: str) -> None:
    status, out, err = run(capsys, "components", *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err
