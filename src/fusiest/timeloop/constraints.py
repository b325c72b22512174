"""Timeloop's constraints as those of a spec."""

from __future__ import annotations

from dataclasses import dataclass, field

from fusiest.timeloop.directives import Directive
from fusiest.timeloop.levels import TimeloopLevel, find_level
from fusiest.timeloop.problem import TimeloopProblem


@dataclass(slots=True)
class LevelLimits:
    """Lines of YAML: what a memory keeps, and what the loops on each axis of the fanout below it must obey."""

    tensors: list[str] = field(default_factory=list)
    axes: dict[str, list[str]] = field(default_factory=dict)


def read_limits(
    directives: list[Directive], problem: TimeloopProblem, levels: list[TimeloopLevel]
) -> tuple[list[LevelLimits], list[str]]:
    """Per level, and what could not be applied."""
    keep: list[set[str]] = [set() for _ in levels]
    bypass: list[set[str]] = [set() for _ in levels]
    for directive in directives:
        number = find_level(levels, directive.target, directive.source)
        if directive.kind == "dataspace":
            keep[number] |= {problem.space(name, directive.source).name for name in directive.keep}
            bypass[number] |= {problem.space(name, directive.source).name for name in directive.bypass}
    found = []
    for number, level in enumerate(levels):
        limits = LevelLimits()
        if level.kind == "memory":
            free = [s.name for s in problem.spaces if s.name not in keep[number] | bypass[number]]
            parts = [f"keep: {_set(sorted(keep[number]))}", f"may_keep: {_set(free)}"]
            limits.tensors.append("tensors: {keep: All}" if number == 0 else f"tensors: {{{', '.join(parts)}}}")
        found.append(limits)
    return found, []


def _set(names: list[str]) -> str:
    return " | ".join(names) or "Nothing"
