"""A program in parts: what runs between nodes of a network that are no Einsums, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fusiest.base.errors import SpecError
from fusiest.code.lowering.statements import End, If, Loop, Program, Statement, Turn
from fusiest.networks import CutNode, NetworkMeaning, Picked
from fusiest.spec import WorkloadInfo


@dataclass(frozen=True, slots=True)
class ProgramPart:
    """Einsums that run together, and their statements."""

    einsums: tuple[str, ...]
    program: Program


def parts_of(program: Program, info: WorkloadInfo) -> list[ProgramPart]:
    """The groups of Einsums between which nothing runs: where no loop is open and another group follows."""
    parts: list[tuple[tuple[str, ...], list[Statement]]] = []
    before: list[Statement] = []
    depth = 0
    for statement in program.statements:
        if depth == 0 and isinstance(statement, Turn):
            parts.append((statement.einsums, [*before, statement]))
            before = []
            continue
        depth += isinstance(statement, Loop | If) - isinstance(statement, End)
        (parts[-1][1] if parts else before).append(statement)
    if not parts:
        parts = [(tuple(info.einsums), before)]
    return [ProgramPart(einsums, replace(program, statements=tuple(statements))) for einsums, statements in parts]


def in_order(parts: Sequence[ProgramPart], info: WorkloadInfo, meaning: NetworkMeaning) -> list[ProgramPart | CutNode]:
    """Parts and cut nodes, each after those whose results it takes."""
    waiting: list[ProgramPart | CutNode] = [*parts, *meaning.cuts]
    there = {*meaning.weights, *meaning.inputs, *meaning.parameters, *meaning.given}
    done: set[str] = set()
    ordered: list[ProgramPart | CutNode] = []
    while waiting:
        ready = next((step for step in waiting if _takes(step, info) <= there), None)
        if ready is None:
            names = next(part.einsums for part in waiting if isinstance(part, ProgramPart))
            raise SpecError(
                f"Einsums {', '.join(names[:4])} run together, but nodes that are no Einsums come between them"
            )
        waiting.remove(ready)
        ordered.append(ready)
        if isinstance(ready, CutNode):
            there |= set(ready.outputs.values())
        else:
            done |= set(ready.einsums)
            there |= {tensor for tensor, makers in info.producers.items() if done.issuperset(makers)}
    return ordered


def _takes(step: ProgramPart | CutNode, info: WorkloadInfo) -> set[str]:
    """Tensors that a step takes from others."""
    if isinstance(step, CutNode):
        return {item.source for item in step.inputs if isinstance(item, Picked)}
    accesses = [access for name in step.einsums for access in info.einsums[name].accesses.values()]
    own = {tensor for tensor, makers in info.producers.items() if set(makers) & set(step.einsums)}
    return {access.tensor for access in accesses if not access.output} - own
