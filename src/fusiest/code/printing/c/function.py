"""Statements as a function in C99, with no dependency but the C library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from fusiest.base.errors import SpecError
from fusiest.code.lowering.indices import Index, plus
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
from fusiest.code.printing.c.counting import Counters
from fusiest.code.printing.c.tracing import Trace
from fusiest.code.printing.texts import ProgramText, TextLine, joined
from fusiest.spec import REDUCED, Affine

MOST_BYTES = 2**31
"""Of all arrays: more wants another memory model of the compiler."""
LARGEST_INDEX = 2**31 - 1
_COMBINED = {"sum": "{0} + {1}", "prod": "{0} * {1}", "max": "most({0}, {1})", "min": "least({0}, {1})"}
_HELPERS = {
    "min": "static inline int min(int a, int b) { return a < b ? a : b; }",
    "max": "static inline int max(int a, int b) { return a > b ? a : b; }",
    "most": "static inline value most(value a, value b) { return a > b ? a : b; }",
    "least": "static inline value least(value a, value b) { return a < b ? a : b; }",
}


class CText(ProgramText):
    """A program as lines of C. Without counters, nothing is counted; without a trace, nothing is traced."""

    def __init__(self, program: Program, counters: Counters | None = None, trace: Trace | None = None) -> None:
        self.program, self.counters, self.trace = program, counters, trace
        self.lines: list[TextLine] = []
        self.seen: list[str] = []
        """Arrays of what a copy has moved."""
        self.used: set[str] = set()
        """Arrays that something is read from."""
        self.depth = 1

    def function(self, name: str) -> str:
        """The function, with its arrays."""
        body = self.body()
        unused = [f"  (void){array.name};" for array in self.program.arrays if array.name not in self.used]
        arrays = [f"  {line}" for line in self.globals()]
        return "\n".join([self.head(name), *arrays, *self.seen, *unused, *body, "}"]) + "\n"

    def part(self, name: str) -> str:
        """The function, whose arrays are those of the file."""
        return "\n".join([f"static {self.head(name)}", *self.body(), "}"]) + "\n"

    def globals(self) -> list[str]:
        """The arrays."""
        check_sizes(self.program)
        return list(self.arrays())

    def body(self) -> list[str]:
        for statement in self.program.statements:
            self.statement(statement)
        return joined(self.lines)

    def head(self, name: str) -> str:
        given = (*self.program.inputs, *self.program.parameters)
        arguments = [f"const value {a.name}{_sizes(a.shape)}" for a in given]
        arguments += [f"value {a.name}{_sizes(a.shape)}" for a in self.program.outputs]
        return f"void {name}({', '.join(arguments)}) {{"

    def arrays(self) -> Iterator[str]:
        for array in self.program.arrays:
            sizes = _sizes((*(lane.iterations for lane in array.lanes), *array.shape))
            each = " in each instance" if array.lanes else ""
            yield f"static value {array.name}{sizes}; // {array.memory} reserves {array.bits:.15g} bits{each}"

    def add(self, text: str, defines: str = "") -> None:
        self.lines.append(TextLine(self.depth, text, defines))

    # --- statements -----------------------------------------------------------------------------------------------

    def statement(self, statement: Statement) -> None:
        match statement:
            case Loop():
                self.loop(statement)
            case If(tests):
                self.open(f"if ({self.holds(tests)})")
            case End():
                self.close()
            case Let(name, value):
                self.add(f"const int {name} = {self.index(value)};", name)
            case Turn(einsums):
                self.add(f"// Einsum{'s' if len(einsums) > 1 else ''} {', '.join(einsums)}")
            case Hold(array):
                self.hold(array)
            case Release(array):
                if self.counters is not None:
                    self.add(f"RELEASE({self.counters.rooms[id(array)]});")
            case Move():
                self.move(statement)
            case Point():
                self.point(statement)
            case Finish():
                self.finish(statement)

    def open(self, text: str) -> None:
        self.add(f"{text} {{".lstrip())
        self.depth += 1

    def close(self) -> None:
        self.depth -= 1
        self.add("}")

    def loop(self, loop: Loop) -> None:
        words = [f"side by side on {'.'.join(loop.place)}"] if loop.place else []
        words += [loop.words] if loop.words else []
        comment = f" // {'; '.join(words)}" if words else ""
        self.add(f"for (int {loop.index} = 0; {loop.index} < {self.index(loop.count)}; {loop.index}++) {{{comment}")
        self.depth += 1

    def hold(self, array: Array) -> None:
        if self.counters is not None:
            self.add(f"HOLD({self.counters.rooms[id(array)]});")
        if array.gaps and array.outside is None:
            self.add(f"memset({array.name}, 0, sizeof {array.name});")

    def move(self, move: Move) -> None:
        inner, outer = move.inner.array, move.outer.array
        ways = [inner.memory, *reversed(move.through), outer.memory]
        verb, joint = ("fetch", " from ") if move.kind == "fetch" else ("drain", " into ")
        words = f"{verb} {inner.tensor} {'into' if move.kind == 'fetch' else 'from'} {joint.join(ways)}"
        self.tally(move.einsum, move.tallies, self.amount(move.box))
        if move.again == ():
            return
        self.add(f"// {words}" + (" (partial sums)" if move.again else ""))
        if move.again:
            self.open(f"if ({self.any_of(move.again)})")
        at = [side.coordinate for side in move.box]
        depth = self.box(move.box)
        near, far = self.element(move.inner, at), self.element(move.outer, at)
        down = move.kind == "fetch"
        self.used.add((outer if down else inner).name)
        self.touch(move.tallies, (("read", far, outer), ("write", near, inner)), down)
        self.touch(move.tallies, (("write", far, outer), ("read", near, inner)), not down)
        if down:
            self.add(f"{near} = {self.first_lane(move.alone, far, _nothing(move.reduction))};")
        else:
            more = _COMBINED[move.reduction].format(far, near)
            self.add(f"{far} = {self.first_lane(move.alone, near, more)};")
        self.end_box(depth)
        if move.again:
            self.close()

    def first_lane(self, alone: Sequence[str], first: str, other: str) -> str:
        return f"{self.none_of(alone)} ? {first} : {other}" if alone else first

    def box(self, box: Sequence[Side]) -> int:
        """Open a loop for each side; gives how many."""
        sides = [side for side in box if not side.alone]
        for side in sides:
            step = f"{side.name} += {side.step}" if side.step > 1 else f"{side.name}++"
            self.open(f"for (int {side.name} = {self.index(side.low)}; {side.name} < {self.index(side.end)}; {step})")
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
        self.add(f"// {point.info.name} on {point.component}")
        body, reads = point.body, {tensor: self.read(element) for tensor, element in point.reads.items()}
        target = self.read(point.output)
        before = [*point.again, *point.alone]
        more = bool(before) or body.begins is not None
        inside = {
            tensor: " && ".join(f"{self.index(at)} >= {low} && {self.index(at)} < {end}" for at, low, end in places)
            for tensor, places in point.outside.items()
        }
        for tensor in body.padding.keys() & inside.keys():
            reads[tensor] = f"({inside.pop(tensor)} ? {reads[tensor]} : {self.number(body.padding[tensor])})"
        text = self.term(body.map, reads, 2 if more and body.reduction in ("sum", "prod") and not inside else 0)
        if inside:
            text = f"({' && '.join(inside.values())} ? {text} : {_nothing(body.reduction)})"
        if more:
            reads |= {tensor: f"({test} ? {reads[tensor]} : 0)" for tensor, test in inside.items()}
            begins = _nothing(body.reduction) if body.begins is None else self.term(body.begins, reads, 2)
            if body.begins is not None and point.lanes:
                begins = f"({self.none_of(point.lanes)} ? {begins} : 0)"
            begun = f"({self.any_of(before)} ? {target} : {begins})" if before else begins
            text = _COMBINED[body.reduction].format(begun, text)
        if not point.finishes or body.after == REDUCED:
            self.add(f"{target} = {text};")
            return
        self.open("")
        self.add(f"const value x = {text};")
        self.add(f"{target} = {self.term(body.after, {**reads, REDUCED.tensor: 'x'})};")
        self.close()

    def read(self, element: Element) -> str:
        self.used.add(element.tile.array.name)
        return self.element(element.tile, element.coordinates)

    def finish(self, finish: Finish) -> None:
        self.add(f"// {finish.info.name} is summed up")
        depth = self.box(finish.box)
        target = self.element(finish.tile, [side.coordinate for side in finish.box])
        reads = {name: self.read(element) for name, element in finish.parameters.items()}
        self.add(f"{target} = {self.term(finish.body.after, {**reads, REDUCED.tensor: target})};")
        self.end_box(depth)

    # --- counts ---------------------------------------------------------------------------------------------------

    def tally(self, einsum: str, tallies: Sequence[Tally], amount: str) -> None:
        if self.counters is None:
            return
        for tally in tallies:
            tests = self._counts(tally)
            here = self.none_of(tally.here) or "1"
            number = self.counters.numbers[einsum, tally.key]
            if tally.distinct is not None:
                sizes = [size for _, size in tally.distinct]
                places = "".join(f"[{self.index(at)}]" for at, _ in tally.distinct) or "[0]"
                self.seen.append(f"  static char seen_{number}{_sizes(sizes)};")
                self.add(f"ONCE({number}, seen_{number}{places}, {here});")
                continue
            when = f"if ({' && '.join(tests)}) " if tests else ""
            self.add(f"{when}COUNT({number}, {amount}, {here});")

    def touch(self, tallies: Sequence[Tally], touched: Iterable[tuple[str, str, Array]], really: bool = True) -> None:
        """Trace elements that are read or written in the memory that is traced, as often as they count."""
        if self.trace is None or not really:
            return
        for action, element, array in touched:
            if array.memory != self.trace.memory:
                continue
            for tally in tallies:
                if tally.key == (array.memory, array.tensor, action):
                    tests = self._counts(tally)
                    when = f"if ({' && '.join(tests)}) " if tests else ""
                    self.add(
                        f"{when}TRACE({'RW'.index(action[0].upper())}, {self.trace.number(array)}, &{element}, {array.name});"
                    )

    def _counts(self, tally: Tally) -> list[str]:
        """When it counts."""
        tests = [f"{name} == 0" for name in tally.once]
        return [*tests, f"({self.any_of(tally.unless)})"] if tally.unless else tests

    def ceil(self, number: Index, divisor: int) -> str:
        assert isinstance(number, Affine)
        return f"({self.index(plus(number, divisor - 1))}) / {divisor}"

    def number(self, value: float) -> str:
        if math.isinf(value):
            return "INFINITY" if value > 0 else "-INFINITY"
        return repr(float(value)) if value >= 0 else f"({float(value)!r})"


def helpers(text: str) -> str:
    """What a file needs above functions of this text."""
    used = [line for word, line in _HELPERS.items() if f"{word}(" in text]
    return "\n".join(["#include <math.h>", "#include <string.h>", "typedef double value;", *used]) + "\n"


def _nothing(reduction: str) -> str:
    return {"sum": "0", "prod": "1", "max": "-INFINITY", "min": "INFINITY"}[reduction]


def _sizes(shape: Sequence[int]) -> str:
    return "".join(f"[{size}]" for size in shape) or "[1]"


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
