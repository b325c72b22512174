"""What differs between two results: costs, fused sets, where tensors live, LoopTrees and specs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fusiest.comparison.saved import Saved
from fusiest.looptree.text import outline
from fusiest.model.fusion import backing_memories
from fusiest.spec.dump import dump

_NAME = re.compile(r"([ -]*)name: (.*)")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of both; None where one of them does not have it."""

    name: str
    a: float | None
    b: float | None

    @property
    def ratio(self) -> float | None:
        """b relative to a."""
        return self.b / self.a if self.a and self.b is not None else None


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a difference: in both (` `), only in a (`-`), only in b (`+`), or left out (`…`)."""

    mark: str
    text: str


@dataclass(frozen=True)
class Comparison:
    a: Saved
    b: Saved

    def totals(self) -> list[Row]:
        """Joules, seconds, joule-seconds."""
        one, other = self.a.evaluation, self.b.evaluation
        return [Row(name, getattr(one, name), getattr(other, name)) for name in ("energy", "latency", "edp")]

    def energy_by_component(self) -> list[Row]:
        return _rows(self.a.evaluation.energy_by_component(), self.b.evaluation.energy_by_component())

    def energy_by_einsum(self) -> list[Row]:
        return _rows(*({n: e.energy for n, e in s.evaluation.einsums.items()} for s in (self.a, self.b)))

    def latency_by_einsum(self) -> list[Row]:
        return _rows(*({n: e.latency for n, e in s.evaluation.einsums.items()} for s in (self.a, self.b)))

    def limited_by(self, einsum: str) -> str:
        """The component that an Einsum waits for, `a's → b's` if they differ; of one if the other has no such Einsum."""
        both = [s.evaluation.einsums[einsum].bottleneck for s in (self.a, self.b) if einsum in s.evaluation.einsums]
        return " → ".join(dict.fromkeys(name or "–" for name in both))

    def moved_tensors(self) -> dict[str, tuple[str, str]]:
        """Tensors of both whose outermost memory differs: from a's to b's."""
        one, other = backing_memories(self.a.looptree), backing_memories(self.b.looptree)
        return {t: (one[t], other[t]) for t in one if t in other and one[t] != other[t]}

    def looptree_difference(self, context: int = 2) -> list[Line]:
        """The LoopTrees' lines, equal stretches cut down to some lines of context; empty if they are equal.

        Lines count as equal wherever they are indented, so that a loop put around a part does not change all of it.
        Lines of both are shown as in b.
        """
        a, b = _outline(self.a), _outline(self.b)
        lines = _difference(a, b, [line.lstrip(" -") for line in a], [line.lstrip(" -") for line in b], context)
        return lines or _difference(a, b, a, b, context)

    def spec_difference(self) -> list[Line]:
        """Lines of the specs that differ, each headed by the name of what it belongs to."""
        one, other = (dump(replace(s.spec, mapping=None)).splitlines() for s in (self.a, self.b))
        lines: list[Line] = []
        heading = ""
        for tag, a1, a2, b1, b2 in difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
            if tag == "equal":
                continue
            owner = _owner(one[:a1], (one[a1:a2] or other[b1:b2])[0])
            if owner != heading:
                heading = owner
                lines.append(Line(" ", heading))
            lines += [Line("-", line) for line in one[a1:a2]] + [Line("+", line) for line in other[b1:b2]]
        return lines


def _owner(above: list[str], changed: str) -> str:
    """The nearest name above a changed line of YAML that is not deeper inside than the line itself."""
    indent = len(changed) - len(changed.lstrip(" -"))
    for line in reversed(above):
        found = _NAME.match(line)
        if found and len(found[1]) <= indent:
            return found[2]
    return ""


def _rows(a: Mapping[str, float], b: Mapping[str, float]) -> list[Row]:
    """a's names in their order, then those that only b has."""
    return [Row(name, a.get(name), b.get(name)) for name in dict.fromkeys([*a, *b])]


def _outline(saved: Saved) -> list[str]:
    bounds = {name: info.bounds for name, info in saved.spec.info.einsums.items()}
    return outline(saved.looptree, bounds).splitlines()


def _difference(a: list[str], b: list[str], a_keys: list[str], b_keys: list[str], context: int) -> list[Line]:
    """The lines of a and b that differ by key, with some context."""
    lines: list[Line] = []
    for group in difflib.SequenceMatcher(None, a_keys, b_keys, autojunk=False).get_grouped_opcodes(context):
        if group[0][1] > 0 or lines:
            lines.append(Line("…", ""))
        for tag, a1, a2, b1, b2 in group:
            if tag == "equal":
                lines += [Line(" ", line) for line in b[b1:b2]]
            else:
                lines += [Line("-", line) for line in a[a1:a2]] + [Line("+", line) for line in b[b1:b2]]
    return lines
