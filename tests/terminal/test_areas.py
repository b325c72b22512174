"""An area that nothing gives is a dash, never 0 µm²."""

from __future__ import annotations

import re

import fusiest
from fusiest.base.objective import OBJECTIVES
from fusiest.sweeps.file.designs import Design
from fusiest.sweeps.views.best_designs import DesignFigures, Figure
from fusiest.terminal import costs_text
from fusiest.terminal.console import render
from fusiest.terminal.sweep_text import designs_grid
from tests.load_text import load_text
from tests.terminal.streams import Terminal

ARCH = """
arch:
  nodes:
  - !Memory {name: Far, size: inf, leak_power: 0, tensors: {keep: All},
             actions: [{name: read, energy: 0, throughput: 1}, {name: write, energy: 0, throughput: 1}]}
  - !Compute {name: MAC, leak_power: 0, actions: [{name: compute, energy: 0, throughput: 1}]}
"""


def test_costs() -> None:
    assert "\nTotal area –, leakage 0 W" in costs_text(load_text(ARCH).costs())
    some = costs_text(load_text(ARCH.replace("name: MAC", "name: MAC, area: 1e-12")).costs())
    assert "\nTotal area more than 1 µm² (that of Far is not given), leakage 0 W" in some
    assert "\nTotal area 0 µm²" in costs_text(fusiest.load("simple").costs())


def test_designs_of_a_sweep() -> None:
    costs, areas = dict.fromkeys(OBJECTIVES, Figure(1.0, {})), [Figure(size, {}) for size in (0.0, 3e-6)]
    designs = [DesignFigures(Design(i, {"size": i}), {**costs, "area": area}) for i, area in enumerate(areas)]
    text = render([designs_grid(designs, {"edp": "EDP"})], Terminal(tty=False))
    assert [re.split("  +", line)[-1] for line in text.splitlines()[1:]] == ["–", "3 mm²"]
