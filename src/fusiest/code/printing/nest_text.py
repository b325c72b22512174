"""Statements as a function of nested loops: what C and TVM's script have in common; subclasses say how a language writes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusiest.base.errors import SpecError
from fusiest.code.bodies import IDENTITY
from fusiest.code.lowering.indices import Index
from fusiest.code.lowering.statements import (
    Array,
    Element,
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
    Tally,
    Tile,
    Turn,
)
from fusiest.code.printing.texts import ProgramText, TextLine
from fusiest.spec import REDUCED, Affine

MOST_BYTES = 2**31
"""Of all arrays: more wants another memory model of the compiler."""
LARGEST_INDEX = 2**31 - 1
_FUNCTIONS = {"sum": "add", "prod": "multiply", "max": "max", "min": "min"}


class NestText(ProgramText):
    """A program as lines of a language."""

    comment = "//"

    def __init__(self, program: Program) -> None:
        self.program = program
        self.lines: list[TextLine] = []
        self.depth = 1

    def add(self, text: str, defines: str = "") -> None:
        self.lines.append(TextLine(self.depth, text, defines))

    def note(self, text: str) -> None:
        self.add(f"{self.comment} {text}")

    # --- how a language writes it -----------------------------------------------------------------------------------

    def open(self, text: str) -> None:
        """Begin a block."""
        raise NotImplementedError

    def close(self) -> None:
        """End a block."""
        raise NotImplementedError

    def when(self, test: str) -> str:
        """The head of a block that runs where a test holds."""
        raise NotImplementedError

    def each(self, side: Side) -> None:
        """Begin a block that runs for each coordinate of a side."""
        raise NotImplementedError

    def loop(self, loop: Loop) -> None:
        raise NotImplementedError

    def let(self, name: str, value: Index) -> None:
        raise NotImplementedError

    def assign(self, target: str, value: str) -> None:
        raise NotImplementedError

    def pick(self, test: str, one: str, other: str) -> str:
        """One value where a test holds, else the other, which may be no value at all there."""
        raise NotImplementedError

    def clear(self, array: Array) -> None:
        """All elements are 0."""
        raise NotImplementedError

    def hold(self, array: Array) -> None:
        if array.gaps and array.outside is None:
            self.clear(array)

    def release(self, array: Array) -> None:
        """The room is free again: nothing, unless somebody counts."""

    def tally(self, einsum: str, tallies: Sequence[Tally], amount: str) -> None:
        """Count what happens, if somebody does."""

    def touch(self, tallies: Sequence[Tally], touched: Iterable[tuple[str, str, Array]], really: bool = True) -> None:
        """Trace elements that are read or written, if somebody does."""

    # --- statements -----------------------------------------------------------------------------------------------

    def statement(self, statement: Statement) -> None:
        match statement:
            case Loop():
                self.loop(statement)
            case If(tests):
                self.open(self.when(self.holds(tests)))
            case End():
                self.close()
            case Let(name, value):
                self.let(name, value)
            case Turn(einsums):
                self.note(f"Einsum{'s' if len(einsums) > 1 else ''} {', '.join(einsums)}")
            case Hold(array):
                self.hold(array)
            case Release(array):
                self.release(array)
            case Move():
                self.move(statement)
            case Point():
                self.point(statement)
            case Finish():
                self.finish(statement)

    def move(self, move: Move) -> None:
        inner, outer = move.inner.array, move.outer.array
        ways = [inner.memory, *reversed(move.through), outer.memory]
        verb, joint = ("fetch", " from ") if move.kind == "fetch" else ("drain", " into ")
        words = f"{verb} {inner.tensor} {'into' if move.kind == 'fetch' else 'from'} {joint.join(ways)}"
        self.tally(move.einsum, move.tallies, self.amount(move.box))
        if move.again == ():
            return
        self.note(words + (" (partial sums)" if move.again else ""))
        if move.again:
            self.open(self.when(self.any_of(move.again)))
        at = [side.coordinate for side in move.box]
        depth = self.box(move.box)
        near, far = self.element(move.inner, at), self.element(move.outer, at)
        down = move.kind == "fetch"
        self.touch(move.tallies, (("read", far, outer), ("write", near, inner)), down)
        self.touch(move.tallies, (("write", far, outer), ("read", near, inner)), not down)
        if down:
            self.assign(near, self.first_lane(move.alone, far, self.nothing(move.reduction)))
        else:
            self.assign(far, self.first_lane(move.alone, near, self.combined(move.reduction, far, near)))
        self.end_box(depth)
        if move.again:
            self.close()

    def first_lane(self, alone: Sequence[str], first: str, other: str) -> str:
        return self.pick(self.none_of(alone), first, other) if alone else first

    def box(self, box: Sequence[Side]) -> int:
        """Open a loop for each side; gives how many."""
        sides = [side for side in box if not side.alone]
        for side in sides:
            self.each(side)
        return len(sides)

    def end_box(self, count: int) -> None:
        for _ in range(count):
            self.close()

    def element(self, tile: Tile, at: Sequence[Affine]) -> str:
        places = self.places(tile, at) or ["0"]
        return tile.array.name + "".join(f"[{place}]" for place in places)

    # --- points ---------------------------------------------------------------------------------------------------

    def point(self, point: Point) -> None:
        for tally in point.tallies:
            self.tally(point.info.name, (tally,), "1")
        for tensor, element in (*point.reads.items(), (point.info.output, point.output)):
            array = element.tile.array
            actions = ("read", "write") if tensor == point.info.output else ("read",)
            self.touch(point.tallies, [(action, self.read(element), array) for action in actions])
        self.note(f"{point.info.name} on {point.component}")
        body, reads = point.body, {tensor: self.read(element) for tensor, element in point.reads.items()}
        target = self.read(point.output)
        before = [*point.again, *point.alone]
        more = bool(before) or body.begins is not None
        inside = {
            tensor: self.both.join(
                f"{self.index(at)} >= {low}{self.both}{self.index(at)} < {end}" for at, low, end in places
            )
            for tensor, places in point.outside.items()
        }
        for tensor in body.padding.keys() & inside.keys():
            reads[tensor] = self.pick(inside.pop(tensor), reads[tensor], self.number(body.padding[tensor]))
        text = self.term(body.map, reads, 2 if more and body.reduction in ("sum", "prod") and not inside else 0)
        if inside:
            text = self.pick(self.both.join(inside.values()), text, self.nothing(body.reduction))
        if more:
            reads |= {tensor: self.pick(test, reads[tensor], self.number(0)) for tensor, test in inside.items()}
            begins = self.nothing(body.reduction) if body.begins is None else self.term(body.begins, reads, 2)
            if body.begins is not None and point.lanes:
                begins = self.pick(self.none_of(point.lanes), begins, self.number(0))
            begun = self.pick(self.any_of(before), target, begins) if before else begins
            text = self.combined(body.reduction, begun, text)
        self.assign(target, text)
        if point.finishes and body.after != REDUCED:
            self.assign(target, self.term(body.after, {**reads, REDUCED.tensor: target}))

    def read(self, element: Element) -> str:
        return self.element(element.tile, element.coordinates)

    def finish(self, finish: Finish) -> None:
        self.note(f"{finish.info.name} is summed up")
        depth = self.box(finish.box)
        target = self.element(finish.tile, [side.coordinate for side in finish.box])
        reads = {name: self.read(element) for name, element in finish.parameters.items()}
        self.assign(target, self.term(finish.body.after, {**reads, REDUCED.tensor: target}))
        self.end_box(depth)

    def combined(self, reduction: str, one: str, other: str) -> str:
        """Two values of a reduction as one."""
        return self.call(_FUNCTIONS[reduction], [one, other])

    def nothing(self, reduction: str) -> str:
        """What a reduction of nothing is."""
        return self.number(IDENTITY[reduction])


def check_sizes(program: Program) -> None:
    """Refuse arrays that no program could have, and indices that no `int` can count."""
    for array in (*program.arrays, *program.inputs, *program.outputs):
        if any(size > LARGEST_INDEX for size in array.shape):
            raise SpecError(f"{array.tensor} is too large for code: an index of it goes beyond 2^31", array.tensor)
    total = sum(array.elements for array in program.arrays) * 8
    if total > MOST_BYTES:
        largest = max(program.arrays, key=lambda array: array.elements)
        raise SpecError(
            f"the arrays of this mapping take {total / 2**30:,.1f} GiB, of which {largest.name} takes "
            f"{largest.elements * 8 / 2**30:,.1f}; code has room for 2: make the workload smaller"
        )
