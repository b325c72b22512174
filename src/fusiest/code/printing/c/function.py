"""Statements as a function in C99, with no dependency but the C library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from fusiest.code.lowering.indices import Index, plus
from fusiest.code.lowering.statements import Array, Loop, Program, Side, Tally
from fusiest.code.printing.c.counting import Counters
from fusiest.code.printing.c.tracing import Trace
from fusiest.code.printing.nest_text import NestText, check_sizes
from fusiest.code.printing.reserved import placed
from fusiest.code.printing.texts import joined, words_in
from fusiest.spec import Affine

_HELPERS = {
    "min": "static inline int min(int a, int b) { return a < b ? a : b; }",
    "max": "static inline int max(int a, int b) { return a > b ? a : b; }",
    "most": "static inline value most(value a, value b) { return a > b ? a : b; }",
    "least": "static inline value least(value a, value b) { return a < b ? a : b; }",
}


class CText(NestText):
    """A program as lines of C. Without counters, nothing is counted; without a trace, nothing is traced."""

    def __init__(self, program: Program, counters: Counters | None = None, trace: Trace | None = None) -> None:
        super().__init__(program)
        self.counters, self.trace = counters, trace
        self.seen: list[str] = []
        """Arrays of what a copy has moved."""

    def function(self, name: str) -> str:
        """The function, with its arrays."""
        body = self.body()
        read = {word for line in body for word in words_in(line.partition(" = ")[2] or line)}
        unused = [f"  (void){array.name};" for array in self.program.arrays if array.name not in read]
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

    # --- how C writes it --------------------------------------------------------------------------------------------

    def open(self, text: str) -> None:
        self.add(f"{text} {{")
        self.depth += 1

    def close(self) -> None:
        self.depth -= 1
        self.add("}")

    def when(self, test: str) -> str:
        return f"if ({test})"

    def each(self, side: Side) -> None:
        more = f"{side.name} += {side.step}" if side.step > 1 else f"{side.name}++"
        self.open(f"for (int {side.name} = {self.index(side.low)}; {side.name} < {self.index(side.end)}; {more})")

    def loop(self, loop: Loop) -> None:
        words = [f"side by side on {placed(loop.place)}"] if loop.place else []
        words += [loop.words] if loop.words else []
        comment = f" // {'; '.join(words)}" if words else ""
        self.add(f"for (int {loop.index} = 0; {loop.index} < {self.index(loop.count)}; {loop.index}++) {{{comment}")
        self.depth += 1

    def let(self, name: str, value: Index) -> None:
        self.add(f"const int {name} = {self.index(value)};", name)

    def assign(self, target: str, value: str) -> None:
        self.add(f"{target} = {value};")

    def pick(self, test: str, one: str, other: str) -> str:
        return f"({test} ? {one} : {other})"

    def clear(self, array: Array) -> None:
        self.add(f"memset({array.name}, 0, sizeof {array.name});")

    def hold(self, array: Array) -> None:
        if self.counters is not None:
            self.add(f"HOLD({self.counters.rooms[id(array)]});")
        super().hold(array)

    def release(self, array: Array) -> None:
        if self.counters is not None:
            self.add(f"RELEASE({self.counters.rooms[id(array)]});")

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


def _sizes(shape: Sequence[int]) -> str:
    return "".join(f"[{size}]" for size in shape) or "[1]"
