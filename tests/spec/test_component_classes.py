"""Classes that a file describes, compounds, plug-ins, and what must not be possible with them."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fusiest.base.errors import SpecError
from fusiest.components import estimate, find_class
from fusiest.spec.dumping import dump
from fusiest.spec.reading.loading import load_texts
from fusiest.spec.spec import Spec

NODES = """
arch:
  attributes: {{tech_node: 22nm}}
  nodes:
  - !Memory {{name: DRAM, component_class: Dummy, size: inf, tensors: {{keep: All}}}}
  - !Memory {{name: Buffer, component_class: {name}, size: 65536, attributes: {{{attributes}}}, tensors: {{keep: All}}}}
  - !Compute {{name: MAC, component_class: Dummy}}
"""
COLUMN = """
component_classes:
- name: SenseColumn
  attributes: {rows: required, cell_capacitance: 0.3e-15, voltage: 0.8, tech_node: required}
  area: rows * 20 * tech_node ** 2
  leak_power: 0
  actions: [{name: read, energy: rows * cell_capacitance * voltage ** 2, throughput: inf}, {name: write, latency: 2e-9}]
  source: own estimate
"""
FIFO = """
component_classes:
- name: FifoBuffer
  attributes: {size: required, width: 64, tech_node: required}
  parts:
    sram: {class: SRAM, size: size, width: width, tech_node: tech_node}
    pointer: {class: Register, width: ceil(log2(size / width)), tech_node: tech_node}
  area: sram.area + 2 * pointer.area
  leak_power: sram.leak_power
  actions:
  - {name: read, energy: sram.read.energy + pointer.write.energy, throughput: sram.read.throughput}
  - {name: write, energy: sram.write.energy + pointer.write.energy, throughput: sram.write.throughput}
"""


def spec(classes: str, name: str, attributes: str = "") -> Spec:
    return load_texts({"spec.yaml": classes + NODES.format(name=name, attributes=attributes)}, {})


def test_a_class_of_expressions() -> None:
    column = spec(COLUMN, "sense_column", "rows: 256").costs()[1]
    assert column.actions["read"].energy == pytest.approx(256 * 0.3e-15 * 0.64)
    assert column.area == pytest.approx(256 * 20 * 22e-9**2)
    assert math.isinf(column.actions["read"].throughput)
    assert column.actions["write"].throughput == pytest.approx(5e8)
    assert column.provenance["area"].endswith("from own estimate")


def test_a_compound_adds_up_its_parts() -> None:
    fifo = spec(FIFO, "FifoBuffer").costs()[1]
    sram = estimate("SRAM", size=65_536, width=64, tech_node=22e-9)
    pointer = estimate("Register", width=10, tech_node=22e-9)
    assert fifo.area == pytest.approx(sram.area + 2 * pointer.area)
    read = sram.actions["read"].energy + pointer.actions["write"].energy
    assert fifo.actions["read"].energy == pytest.approx(read / 64)
    assert fifo.actions["read"].throughput == pytest.approx(sram.actions["read"].throughput * 64)


def test_classes_may_use_each_other_and_variables() -> None:
    text = """
component_classes:
- name: Pair
  attributes: {tech_node: required, count: 2, width: 8}
  variables: {both: count * one.area}
  parts: {one: {class: Unit, width: 2 * width, tech_node: tech_node}}
  area: both
  actions: [{name: read, energy: count * one.read.energy}, {name: write}]
- name: Unit
  attributes: {tech_node: required, width: required}
  area: width * area_scaling(tech_node, 45e-9) * 1e-12
  actions:
  - {name: read, energy: "width * energy_scaling(tech_node, 45e-9) * 1e-15"}
  - {name: write}
"""
    found = spec(text, "Pair", "count: 3").costs()[1]
    register = estimate("Register", width=16, tech_node=22e-9), estimate("Register", width=16, tech_node=45e-9)
    scale = register[0].actions["read"].energy / register[1].actions["read"].energy
    assert found.actions["read"].energy == pytest.approx(3 * 16e-15 * scale / 8)
    assert found.area == pytest.approx(3 * 16e-12 * register[0].area / register[1].area)


def test_defaults_may_be_expressions_and_ranges_are_checked() -> None:
    text = """
component_classes:
- name: Ranged
  attributes:
    rows: {default: 8, low: 1, high: 16, unit: rows, meaning: of cells}
    cells: rows ** 2
    kind: plain
  actions: [{name: read, energy: cells if kind == "plain" else 0}, {name: write}]
"""
    assert spec(text, "Ranged").costs()[1].actions["read"].energy == 64
    assert spec(text, "Ranged", "rows: 4").costs()[1].actions["read"].energy == 16
    assert spec(text, "Ranged", "kind: other").costs()[1].actions["read"].energy == 0
    with pytest.raises(SpecError, match="rows of Ranged must be ≥ 1, ≤ 16 rows, but is 17"):
        spec(text, "Ranged", "rows: 17")


def test_dump_keeps_classes() -> None:
    found = spec(FIFO, "FifoBuffer")
    assert load_texts({"spec.yaml": dump(found)}, {}) == found


def broken(fields: str, name: str = "Broken", attributes: str = "{x: 1}") -> str:
    return f"component_classes:\n- name: {name}\n  attributes: {attributes}\n{fields}\n"


ACTIONS = "  actions: [{name: read, energy: 1}, {name: write}]"


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (broken("  area: 1"), "has no actions"),
        (broken(f"{ACTIONS}\n  area: nonsense + 1"), "unknown name 'nonsense'"),
        (broken(f"{ACTIONS}\n  area: -1"), "area of Broken must be a finite number of at least 0, but is -1"),
        (broken(f"{ACTIONS}\n  area: inf"), "area of Broken must be a finite number"),
        (broken(f"{ACTIONS}\n  area: 1 / 0"), "division by zero"),
        (broken(f"{ACTIONS}\n  area: 10 ** 10 ** 10"), "bits"),
        (broken(f"{ACTIONS}\n  area: '(1).__class__'"), "a number has no attribute"),
        (broken(f"{ACTIONS}\n  area: open(x)"), "unknown function 'open'"),
        (broken(f"{ACTIONS}\n  parts: {{p: {{class: Broken}}}}"), "component class Broken uses Broken"),
        (broken(f"{ACTIONS}\n  parts: {{p: {{class: SRM}}}}"), "no component_class 'SRM'"),
        (broken(f"{ACTIONS}\n  parts: {{p: {{size: 8}}}}"), "needs its class"),
        (
            broken(f"{ACTIONS}\n  parts: {{p: {{class: SRAM, sise: 8}}}}\n  area: p.area"),
            "SRAM has no attribute 'sise'",
        ),
        (broken(f"{ACTIONS}\n  parts: {{x: {{class: Register, width: 8}}}}"), "says twice what x is"),
        (broken(f"{ACTIONS}\n  variables: {{a: b, b: a}}\n  area: a"), "class Broken: a uses b uses a"),
        (broken(f"{ACTIONS}\n  nonsense: 1"), "unknown field 'nonsense'"),
        (
            broken("  actions: [{name: read, throughput: 0}, {name: write}]"),
            "throughput of read of Broken must be positive",
        ),
        (broken("  actions: [{name: convert}]"), "Broken has no action 'read', only convert"),
        (broken(ACTIONS) + broken(ACTIONS).split("\n", 1)[1], "two component classes are named Broken"),
        (
            broken(f"{ACTIONS}\n  parts: {{p: {{class: B2}}}}")
            + broken(f"{ACTIONS}\n  parts: {{p: {{class: Broken}}}}", "B2").split("\n", 1)[1],
            "component class Broken uses B2 uses Broken",
        ),
    ],
)
def test_mistakes_are_one_line(classes: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec(classes, "Broken")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_parts_of_parts_are_counted() -> None:
    """Ten levels of ten parts each would be ten thousand millions."""
    levels = []
    for level in range(10):
        inner = f"L{level + 1}" if level < 9 else "Register"
        parts = ", ".join(f"p{i}: {{class: {inner}, width: width + {i}, tech_node: tech_node}}" for i in range(10))
        area = " + ".join(f"p{i}.area" for i in range(10))
        levels.append(
            f"- name: L{level}\n  attributes: {{tech_node: required, width: 8}}\n  parts: {{{parts}}}\n  area: {area}\n{ACTIONS}"
        )
    with pytest.raises(SpecError, match="more than 1000 parts of parts"):
        spec("component_classes:\n" + "\n".join(levels) + "\n", "L0")


def test_a_plug_in(tmp_path: Path) -> None:
    """A package with an entry point, made and installed here, gives a class; it changes no class that was there."""
    code = """
from fusiest.components import ActionCost, Attribute, ComponentClass, Figures

def cost(attributes):
    return Figures({"read": ActionCost(attributes["joules"]), "write": ActionCost(0.0)}, area=2e-12)

CLASSES = [
    ComponentClass(
        "Crystal", "Plug-in", "keeps light", (Attribute("joules", "of a read", default=3.0),), ("read", "write"), "a dream", cost
    ),
    ComponentClass("SRAM", "Plug-in", "not that one", (), ("read", "write"), "a dream", cost),
]
"""
    wheel = tmp_path / "crystal-1.0-py3-none-any.whl"
    info = "crystal-1.0.dist-info"
    files = {
        "crystal.py": code,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: crystal\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[fusiest.components]\ncrystal = crystal:CLASSES\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(target)}

    def fusiest(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "fusiest", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    (tmp_path / "chip.yaml").write_text(NODES.format(name="crystal", attributes="joules: 5"))
    shown = fusiest("show", str(tmp_path / "chip.yaml"), "--costs")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "Crystal" in shown.stdout or "crystal" in shown.stdout
    assert "a dream" in shown.stdout
    assert "keeps light" in fusiest("components").stdout
    assert "CACTI" in fusiest("components", "SRAM").stdout
    without = subprocess.run(
        [sys.executable, "-m", "fusiest", "components", "Crystal"], capture_output=True, text=True, check=False
    )
    assert (without.returncode, without.stderr.count("\n")) == (2, 1)


def test_built_in_classes_can_be_replaced_in_a_file_alone() -> None:
    text = COLUMN.replace("SenseColumn", "SRAM").replace("rows: required", "rows: 1, size: 0")
    assert spec(text, "SRAM").costs()[1].actions["read"].energy == pytest.approx(0.3e-15 * 0.64)
    assert find_class("SRAM").source.startswith("CACTI")
