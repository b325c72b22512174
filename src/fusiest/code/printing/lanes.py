"""Which Spatial loops of a program may run in any order, or at once: each lane writes elements that no other lane touches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusiest.code.lowering.indices import Index, minus, value_of
from fusiest.code.lowering.statements import (
    Element,
    End,
    Finish,
    Hold,
    If,
    Loop,
    Move,
    Point,
    Program,
    Side,
    Statement,
    Tile,
)
from fusiest.spec import Affine


def independent_lanes(program: Program) -> set[int]:
    """Places, among the statements, of Spatial loops whose lanes are independent of each other."""
    statements, ends = program.statements, _ends(program.statements)
    return {
        i
        for i, statement in enumerate(statements)
        if isinstance(statement, Loop) and statement.place and _independent(statement, statements[i + 1 : ends[i]])
    }


def _ends(statements: Sequence[Statement]) -> dict[int, int]:
    """Where each block ends, by where it begins."""
    found, open_blocks = {}, []
    for i, statement in enumerate(statements):
        if isinstance(statement, Loop | If):
            open_blocks.append(i)
        elif isinstance(statement, End):
            found[open_blocks.pop()] = i
    return found


def _independent(loop: Loop, inside: Sequence[Statement]) -> bool:
    others = {statement.index for statement in inside if isinstance(statement, Loop)}
    for statement in inside:
        match statement:
            case Move(kind, alone=alone):
                tile = statement.inner if kind == "fetch" else statement.outer
                if not _own(tile, loop.index) and (
                    loop.index in alone or not _apart(statement.box, loop.index, others)
                ):
                    return False
            case Point(output=output, alone=alone):
                if not _own(output.tile, loop.index) and (
                    loop.index in alone or not _one_each(output, loop.index, others)
                ):
                    return False
            case Finish(tile=tile, box=box):
                if not _own(tile, loop.index) and not _apart(box, loop.index, others):
                    return False
            case Hold(array):
                if array.gaps:
                    return False
    return True


def _own(tile: Tile, index: str) -> bool:
    """Whether each lane has an array of its own."""
    return index in tile.lanes


def _one_each(element: Element, index: str, others: set[str]) -> bool:
    """Whether each lane writes another element."""
    return any(_steps(at, index, others) for at in element.coordinates)


def _apart(box: Sequence[Side], index: str, others: set[str]) -> bool:
    """Whether the boxes of all lanes are apart, along some rank."""
    return any(step >= length for side in box for step, length in _lengths(side, index, others))


def _lengths(side: Side, index: str, others: set[str]) -> Iterator[tuple[int, int]]:
    if isinstance(side.low, Affine) and isinstance(side.end, Affine) and _steps(side.low, index, others):
        length = value_of(minus(side.end, side.low))
        if length is not None:
            yield abs(side.low.coefficients[index]), length


def _steps(at: Index, index: str, others: set[str]) -> bool:
    """Whether a coordinate goes on with a loop, and with no loop inside of it."""
    return isinstance(at, Affine) and index in at.coefficients and not others & at.coefficients.keys()
