"""Statements as pseudocode: what moves where, when, and what is computed in the middle.

`T0[32*m1..32*m1 + 32, :]` is the part of T0 that is moved, with `:` for ranks of which all is. Indices of loops are numbered down
to 0 at the innermost: m1, m0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fusiest.code.lowering.indices import value_of
from fusiest.code.lowering.statements import (
    Array,
    End,
    Finish,
    Hold,
    If,
    Let,
    Loop,
    Move,
    Point,
    Program,
    Release,
    Side,
    Statement,
    Turn,
)
from fusiest.code.printing.reserved import placed
from fusiest.code.printing.texts import ProgramText, TextLine, joined
from fusiest.code.shapes import TensorShape
from fusiest.spec import REDUCED, EinsumInfo, access_text, formula_text


class Pseudocode(ProgramText):
    """A program as lines for people."""

    choose = "({1} if {0} == 0 else {2})"
    both, either = " and ", " or "

    def __init__(self, program: Program, shapes: Mapping[str, TensorShape]) -> None:
        self.program, self.shapes = program, shapes
        self.lines: list[TextLine] = []
        self.depth = 0

    def text(self) -> str:
        outside = (*self.program.inputs, *self.program.outputs)
        self.held([array for array in outside if array.persistent], " (persistent)")
        self.held([array for array in outside if not array.persistent])
        held: list[Array] = []
        for statement in self.program.statements:
            if isinstance(statement, Hold):
                held.append(statement.array)
                continue
            self.held([array for array in held if array.backing and array.outside is None])
            held.clear()
            self.statement(statement)
        return "\n".join(joined(self.lines))

    def add(self, text: str, defines: str = "") -> None:
        self.lines.append(TextLine(self.depth, text, defines))

    def statement(self, statement: Statement) -> None:
        match statement:
            case Loop(index, count, words, place):
                keyword = "parallel-for" if place else "for"
                where = f" on {placed(place)}" if place else ""
                comment = f"  # {words}" if words else ""
                self.add(f"{keyword} {index} in 0..{self.index(count)}{where}:{comment}")
                self.depth += 1
            case If(tests):
                self.add(f"if {self.holds(tests)}:")
                self.depth += 1
            case End():
                self.depth -= 1
            case Let(name, value):
                self.add(f"{name} = {self.index(value)}", name)
            case Turn(einsums):
                self.add(f"# Einsum{'s' if len(einsums) > 1 else ''} {', '.join(einsums)}")
            case Move():
                self.move(statement)
            case Point():
                self.point(statement)
            case Finish(info, _, box, body, _):
                part = self.part(info.output, box)
                reads = {**_accesses(info), REDUCED.tensor: part}
                self.add(f"{part} = {formula_text(body.after, reads.__getitem__)}")
            case Release():
                pass

    def held(self, arrays: Sequence[Array], words: str = "") -> None:
        """What memories hold from here on, where Einsums exchange it."""
        for memory in dict.fromkeys(array.memory for array in arrays):
            rooms = ", ".join(self.room(array) for array in arrays if array.memory == memory)
            self.add(f"# {memory} holds {rooms}{words}")

    def room(self, array: Array) -> str:
        """A tensor, or how much of it there is room for."""
        shape = self.shapes[array.tensor]
        if array.outside is not None or array.shape == shape.size:
            return array.tensor
        moving = f", a window that moves along {shape.ranks[array.ring]}" if array.ring is not None else ""
        return f"{' x '.join(map(str, array.shape))} of {array.tensor}{moving}"

    def move(self, move: Move) -> None:
        if move.again == ():
            return
        inner, outer = move.inner.array, move.outer.array
        part = self.part(inner.tensor, move.box)
        tolls = "".join(f" through {toll}" for toll in move.through)
        notes = []
        if move.kind == "fetch":
            text = f"fetch {part} from {outer.memory} into {inner.memory}{tolls}"
            notes += ["partial sums"] if move.again else []
        else:
            text = f"drain {part} from {inner.memory} into {outer.memory}{tolls}"
        if move.alone:
            lanes = ", ".join(move.alone)
            notes.append(f"the first of {lanes}" if move.kind == "fetch" else f"added up over {lanes}")
        when = f"if {self.any_of(move.again)}: " if move.again else ""
        self.add(when + text + (f"  # {', '.join(notes)}" if notes else ""))

    def part(self, tensor: str, box: Sequence[Side]) -> str:
        """`T0[m1, :]`, or the bare name if it is all of the tensor."""
        shape = self.shapes[tensor]
        texts = [self.side(side, *shape.bounds(rank)) for side, rank in zip(box, shape.ranks, strict=True)]
        return f"{tensor}[{', '.join(texts)}]" if any(text != ":" for text in texts) else tensor

    def side(self, side: Side, low: int, end: int) -> str:
        if (value_of(side.low), value_of(side.end)) == (low, end):
            return ":"
        return self.index(side.low) if side.alone else f"{self.index(side.low)}..{self.index(side.end)}"

    def point(self, point: Point) -> None:
        info, body = point.info, point.body
        for variable, value in point.variables.items():
            if str(value) != variable:
                self.add(f"{variable} = {value}")
        reads = _accesses(info)
        output = access_text(info.output, info.accesses[info.output].ranks.items())
        text = formula_text(body.map, reads.__getitem__)
        if point.finishes:
            if body.after != REDUCED:
                text = formula_text(body.after, {**reads, REDUCED.tensor: text}.__getitem__)
            step = f"{output} = {text}"
        elif body.reduction in ("max", "min"):
            step = f"{output} = {body.reduction}({output}, {text})"
        else:
            step = f"{output} {'+=' if body.reduction == 'sum' else '*='} {text}"
        self.add(f"{step}  # on {point.component}")


def _accesses(info: EinsumInfo) -> dict[str, str]:
    """Each input with its indices."""
    return {tensor: access_text(tensor, access.ranks.items()) for tensor, access in info.accesses.items()}
