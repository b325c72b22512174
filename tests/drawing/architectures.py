"""Random architectures: one to three levels of memories, the innermost now and then of several beside each other; Tolls
between them, fanouts anywhere below the outermost memory."""

from __future__ import annotations

import dataclasses
import math

from fusiest.base.frozen import FrozenDict
from fusiest.spec import architecture as arch
from fusiest.spec.hardware.actions import Action
from tests.drawing.dice import Dice
from tests.drawing.workloads import DraftWorkload


def _dimensions(dice: Dice, percent: int, draft: DraftWorkload) -> tuple[arch.Dimension, ...]:
    count = 0 if not dice.chance(percent) else dice.number(1, 2)
    sets = [None, "Nothing", "Inputs", "Outputs", "All", *draft.tensors]
    return tuple(
        arch.Dimension(name="XY"[i], fanout=dice.number(2, 4), may_reuse=dice.one_of(sets) if dice.chance(50) else None)
        for i in range(count)
    )


def _figures(dice: Dice, draft: DraftWorkload, actions: tuple[str, ...]) -> dict[str, object]:
    """What may differ between components without changing what is moved."""
    figures: dict[str, object] = {"component_class": "Dummy"}
    if dice.chance(15):
        figures["bits_per_value"] = FrozenDict({dice.one_of(draft.tensors): 12})
    if dice.chance(15):
        figures["values_per_action"] = FrozenDict({dice.one_of(draft.tensors): 4})
    if dice.chance(15):
        figures["bits_per_action"] = 16
    if dice.chance(10):
        figures["actions_scale"] = 1.5
    if dice.chance(10):
        figures["actions"] = (Action(name=actions[0], values_per_action=2, actions_scale=2),)
    return figures


def draw_architecture(dice: Dice, draft: DraftWorkload) -> arch.Architecture:
    nodes: list[arch.ArchitectureNode] = []
    tolls = 0

    def toll() -> None:
        nonlocal tolls
        if dice.chance(12):
            ways = ["up_and_down", "down", "up"]
            one = dice.one_of(ways)
            mixed = FrozenDict({dice.one_of(draft.tensors): dice.one_of(ways), "Other": one})
            figures = _figures(dice, draft, ("read",))
            dimensions = _dimensions(dice, 25, draft)
            direction = mixed if dice.chance(30) else one
            nodes.append(arch.TollStation(name=f"Toll{tolls}", direction=direction, spatial=dimensions, **figures))
            tolls += 1

    def memory(name: str, percent: int) -> arch.Memory:
        figures = _figures(dice, draft, ("read", "write"))
        skip = not dice.chance(12)
        fanout = _dimensions(dice, percent, draft)
        size = math.inf if percent == 0 else 1e9
        return arch.Memory(name=name, size=size, spatial=fanout, skip_initial_output_write=skip, **figures)

    def beside(names: str) -> arch.Parallel:
        return arch.Parallel(nodes=tuple(dataclasses.replace(memory(f"Reg{name}", 1), spatial=()) for name in names))

    nodes.append(memory("DRAM", 0))
    toll()
    if dice.chance(85):
        nodes.append(memory("GLB", 35))
        toll()
    if dice.chance(35):
        nodes.append(arch.Container(name="PE", spatial=_dimensions(dice, 100, draft)))
    if dice.chance(50):
        nodes.append(beside("ABC"[: dice.number(2, 3)]) if dice.chance(25) else memory("Reg", 30))
        toll()
    if dice.chance(10):
        nodes.append(arch.ComputeUnit(name="ALU", component_class="Dummy"))
    skip = not dice.chance(12)
    nodes.append(
        arch.ComputeUnit(
            name="MAC", component_class="Dummy", spatial=_dimensions(dice, 30, draft), skip_initial_output_write=skip
        )
    )
    return arch.Architecture(nodes=tuple(nodes))
