"""What differs between results: costs, fused sets, where tensors live, LoopTrees and specs."""

from __future__ import annotations

import difflib
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fusiest.base.objective import OBJECTIVES, cost_of
from fusiest.comparison.compared_result import Saved
from fusiest.looptree import outline
from fusiest.model import area_by_component, backing_memories, efficiency, leak_power_by_component
from fusiest.spec import dump

_NAME = re.compile(r"([ -]*)name: (.*)")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of each; None where one does not have it."""

    name: str
    values: tuple[float | None, ...]

    def ratio(self, i: int) -> float | None:
        """The figure of the i-th relative to the first."""
        first, other = self.values[0], self.values[i]
        return other / first if first and other is not None else None


@dataclass(frozen=True, slots=True)
class DifferenceLine:
    """A line of a difference: in both (` `), only in the first (`-`), only in the other (`+`), or left out (`…`)."""

    mark: str
    text: str


@dataclass(frozen=True)
class Comparison:
    """Any number of results; the others are compared with the first."""

    results: tuple[Saved, ...]

    def names(self) -> list[str]:
        """A, B, C, …; then A2, B2, …"""
        letters = string.ascii_uppercase
        return [letters[i % 26] + (str(i // 26 + 1) if i >= 26 else "") for i in range(len(self.results))]

    def totals(self) -> list[Row]:
        """Joules, seconds, joule-seconds."""
        evaluations = [saved.evaluation for saved in self.results]
        return [Row(name, tuple(cost_of(e, name) for e in evaluations)) for name in OBJECTIVES]

    def energy_by_component(self) -> list[Row]:
        return _rows([saved.evaluation.energy_by_component() for saved in self.results])

    def energy_by_einsum(self) -> list[Row]:
        return _rows([{n: e.energy for n, e in saved.evaluation.einsums.items()} for saved in self.results])

    def latency_by_einsum(self) -> list[Row]:
        return _rows([{n: e.latency for n, e in saved.evaluation.einsums.items()} for saved in self.results])

    def area_by_component(self) -> list[Row]:
        """Square metres; of nothing, where no component says how large it is."""
        return _rows([area_by_component(saved.spec) for saved in self.results])

    def efficiencies(self) -> list[Row]:
        """Leakage in watts, and operations per second, watt and area, in tera and square millimetres."""
        units = {"tops": "TOPS", "tops_per_watt": "TOPS/W", "tops_per_mm2": "TOPS/mm²"}
        figures = [efficiency(s.spec, s.evaluation, sum(area_by_component(s.spec).values())) for s in self.results]
        rows = [Row(unit, tuple(by_name[name] for by_name in figures)) for name, unit in units.items()]
        leaks = tuple(sum(leak_power_by_component(saved.spec).values()) or None for saved in self.results)
        return [Row("leakage, W", leaks), *rows]

    def limited_by(self, einsum: str) -> str:
        """The component that an Einsum waits for, one after the other if they differ; nothing if it takes no time."""
        evaluations = [saved.evaluation.einsums[einsum] for saved in self.results if einsum in saved.evaluation.einsums]
        return " → ".join(dict.fromkeys(e.bottleneck for e in evaluations if e.latency))

    def moved_tensors(self) -> dict[str, tuple[str | None, ...]]:
        """Tensors whose outermost memory differs: what it is in each; None where there is no such tensor."""
        backings = [backing_memories(saved.looptree) for saved in self.results]
        tensors = dict.fromkeys(t for backing in backings for t in backing)
        everywhere = {t: tuple(backing.get(t) for backing in backings) for t in tensors}
        return {t: memories for t, memories in everywhere.items() if len({*memories} - {None}) > 1}

    def looptree_difference(self, i: int = 1, context: int = 2) -> list[DifferenceLine]:
        """The LoopTrees' lines of the first and the i-th, equal stretches cut down to some context; empty if they are equal.

        Lines count as equal wherever they are indented, so that a loop put around a part does not change all of it.
        Lines of both are shown as in the i-th.
        """
        a, b = _outline(self.results[0]), _outline(self.results[i])
        lines = _difference(a, b, [line.lstrip(" •") for line in a], [line.lstrip(" •") for line in b], context)
        return lines or _difference(a, b, a, b, context)

    def spec_difference(self, i: int = 1) -> list[DifferenceLine]:
        """Lines of the specs of the first and the i-th that differ, each headed by the name of what it belongs to."""
        a, b = (dump(replace(s.spec, mapping=None)).splitlines() for s in (self.results[0], self.results[i]))
        lines: list[DifferenceLine] = []
        heading = ""
        for tag, a1, a2, b1, b2 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
            if tag == "equal":
                continue
            owner = _owner(a[:a1], (a[a1:a2] or b[b1:b2])[0])
            if owner != heading:
                heading = owner
                lines.append(DifferenceLine(" ", heading))
            lines += _replaced(a[a1:a2], b[b1:b2])
        return lines


def _owner(above: list[str], changed: str) -> str:
    """The nearest name above a changed line of YAML that is not deeper inside than the line itself."""
    indent = len(changed) - len(changed.lstrip(" -"))
    for line in reversed(above):
        match = _NAME.match(line)
        if match and len(match[1]) <= indent:
            return match[2]
    return ""


def _rows(tables: Sequence[Mapping[str, float]]) -> list[Row]:
    """The first one's names in their order, then those that only others have."""
    return [Row(name, tuple(t.get(name) for t in tables)) for name in dict.fromkeys(n for t in tables for n in t)]


def _outline(saved: Saved) -> list[str]:
    bounds = {name: info.bounds for name, info in saved.spec.info.einsums.items()}
    return outline(saved.looptree, bounds).splitlines()


def _difference(a: list[str], b: list[str], a_keys: list[str], b_keys: list[str], context: int) -> list[DifferenceLine]:
    """The lines of a and b that differ by key, with some context."""
    lines: list[DifferenceLine] = []
    for group in difflib.SequenceMatcher(None, a_keys, b_keys, autojunk=False).get_grouped_opcodes(context):
        if group[0][1] > 0 or lines:
            lines.append(DifferenceLine("…", ""))
        for tag, a1, a2, b1, b2 in group:
            if tag == "equal":
                lines += [DifferenceLine(" ", line) for line in b[b1:b2]]
            else:
                lines += _replaced(a[a1:a2], b[b1:b2])
    return lines


def _replaced(old: list[str], new: list[str]) -> list[DifferenceLine]:
    return [*(DifferenceLine("-", line) for line in old), *(DifferenceLine("+", line) for line in new)]
