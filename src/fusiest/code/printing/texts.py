"""What the printers have in common: lines with indents, numbers and terms as text, boxes as loops."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fusiest.code.functions import PRIMITIVES
from fusiest.code.lowering.indices import Index, Test, minus, value_of
from fusiest.code.lowering.statements import Side, Tile
from fusiest.spec import Affine, Call, Constant, Read, Term

_WORD = re.compile(r"[A-Za-z_]\w*")
PAD = "  "


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of a program. One that defines a name is left out if nothing below uses it."""

    depth: int
    text: str
    defines: str = ""


def words_in(text: str) -> list[str]:
    """All that may be a name."""
    return _WORD.findall(text)


def joined(lines: Sequence[TextLine], pad: str = PAD) -> list[str]:
    """The lines as text, without definitions that nobody needs."""
    kept: list[str] = []
    used: set[str] = set()
    for line in reversed(lines):
        if line.defines and line.defines not in used:
            continue
        used.discard(line.defines)
        used.update(words_in(line.text.partition("=")[2] if line.defines else line.text))
        kept.append(f"{pad * line.depth}{line.text}" if line.text else "")
    return kept[::-1]


class ProgramText:
    """How numbers and terms are written; what differs between languages is said by subclasses."""

    functions: Mapping[str, str] = {"min": "min({0}, {1})", "max": "max({0}, {1})", "ceil": "ceil({0} / {1})"}
    choose = "({0} == 0 ? {1} : {2})"
    modulo = "({0}) % {1}"
    both, either = " && ", " || "

    def index(self, index: Index) -> str:
        """A whole number."""
        if isinstance(index, Affine):
            return str(index)
        if index.function == "ceil":
            return self.ceil(index.arguments[0], value_of(index.arguments[1]) or 1)
        pattern = self.choose if index.function == "choose" else self.functions[index.function]
        return pattern.format(*map(self.index, index.arguments))

    def ceil(self, number: Index, divisor: int) -> str:
        return self.functions["ceil"].format(self.bracketed(number), divisor)

    def bracketed(self, index: Index) -> str:
        """A number that something else follows."""
        text = self.index(index)
        return f"({text})" if isinstance(index, Affine) and " " in text else text

    def holds(self, tests: Iterable[Test]) -> str:
        """That all of these hold."""
        return self.both.join(f"{self.index(test.low)} < {self.index(test.high)}" for test in tests)

    def none_of(self, names: Sequence[str]) -> str:
        """That these indices are all 0."""
        return self.both.join(f"{name} == 0" for name in names)

    def any_of(self, names: Sequence[str]) -> str:
        """That one of these indices is not 0."""
        return self.either.join(f"{name} > 0" for name in names)

    def term(self, term: Term, values: Mapping[str, str], within: int = 0) -> str:
        """A term, with texts for the tensors. `within`: 0 stands alone, 1 in a sum, 2 in a product, 3 behind a sign."""
        if isinstance(term, Read):
            return values[term.tensor]
        if isinstance(term, Constant):
            return self.number(term.value)
        first, *others = term.arguments
        if term.function == "add" and others:
            text = self.term(first, values, 1)
            for other in others:
                text += self._joined(other, "negate", " - ", " + ", values, 2)
            return f"({text})" if within > 1 else text
        if term.function == "multiply" and others:
            text = self.term(first, values, 2)
            for other in others:
                text += self._joined(other, "reciprocal", " / ", " * ", values, 3)
            return f"({text})" if within > 2 else text
        if term.function in ("max", "min", "add", "multiply"):
            text = self.term(first, values)
            for other in others:
                text = self.call(term.function, [text, self.term(other, values)])
            return text
        level = 3 if term.function in ("negate", "reciprocal") else 0
        text = self.call(term.function, [self.term(argument, values, level) for argument in term.arguments])
        return f"({text})" if level and within > (0 if term.function == "negate" else 1) else text

    def _joined(self, part: Term, inverse: str, sign: str, other: str, values: Mapping[str, str], within: int) -> str:
        if isinstance(part, Call) and part.function == inverse:
            return sign + self.term(part.arguments[0], values, 3)
        return other + self.term(part, values, within)

    def amount(self, box: Sequence[Side]) -> str:
        """How much of a box counts as moved."""
        factors = []
        for low, end in (side.count for side in box):
            if isinstance(low, Affine) and isinstance(end, Affine):
                length = self.bracketed(minus(end, low))
            else:
                length = f"({self.index(end)} - {self.bracketed(low)})"
            factors += [length] if length != "1" else []
        return " * ".join(factors) or "1"

    def places(self, tile: Tile, at: Sequence[Affine]) -> list[str]:
        """The indices of an element in its array: lanes, then coordinates within the tile."""
        found = list(tile.lanes)
        for rank, (coordinate, first) in enumerate(zip(at, tile.base, strict=True)):
            place, size = self.index(minus(coordinate, first)), tile.array.shape[rank]
            round_and_round = rank == tile.array.ring and size > 1
            found.append(self.modulo.format(place, size) if round_and_round else place if size > 1 else "0")
        return found

    def call(self, function: str, arguments: Sequence[str]) -> str:
        return PRIMITIVES[function].c.format(*arguments)

    def number(self, value: float) -> str:
        return repr(value)
