"""Random small specs with LoopTrees that are valid by construction, for hypothesis.

A case prints as the YAML that reproduces it. Total iterations stay small enough to simulate every one.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.vendor.pretty import RepresentationPrinter

from fusiest.looptree.nodes import LoopTree
from fusiest.spec.spec import Spec
from tests.drawing.architectures import draw_architecture
from tests.drawing.bits import draw_bits
from tests.drawing.dice import Dice
from tests.drawing.looptrees import TreeDrawer
from tests.drawing.workloads import build_workload, draft_workload
from tests.yaml_text import yaml_text


@dataclass(frozen=True)
class Case:
    spec: Spec
    tree: LoopTree

    def __repr__(self) -> str:
        return f"Case(\n{yaml_text(self.spec, self.tree)})"

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:
        printer.text(repr(self))


def draw_case(dice: Dice, max_einsums: int = 4, max_points: int = 240) -> Case:
    """A spec and a valid LoopTree of at most `max_points` iterations per Einsum."""
    draft = draft_workload(dice, max_einsums, max_points)
    architecture = draw_architecture(dice, draft)
    spec = Spec(arch=architecture, workload=build_workload(dice, draft))
    tree = TreeDrawer(dice, draft, architecture, imperfect=dice.chance(40)).tree()
    return Case(draw_bits(dice, spec) if dice.chance(30) else spec, tree)


@st.composite
def cases(draw: st.DrawFn, max_einsums: int = 4, max_points: int = 240) -> Case:
    """A random case, as `draw_case`."""
    return draw_case(Dice(draw), max_einsums, max_points)
