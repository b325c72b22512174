"""Formulas: what an Einsum computes at a point, as a tree of calls over tensors and numbers, such as `exp(QK - MX)`.

A tree is read from text and written as text. It is never evaluated as Python: `fusiest.code` says what functions mean.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from fusiest.base.errors import Located, SpecError, shown
from fusiest.spec.language.allowed_names import check_word

MAX_LENGTH = 20_000
MAX_DEPTH = 20


@dataclass(frozen=True, slots=True)
class Read:
    """The element of a tensor that the Einsum reads at this point."""

    tensor: str


@dataclass(frozen=True, slots=True)
class Constant:
    value: float


@dataclass(frozen=True, slots=True)
class Call:
    """A function of terms. Sums and products are calls of `add` and `multiply`, whose arguments may be calls of `negate` and
    `reciprocal`: `a - b / c` is `add(a, negate(multiply(b, reciprocal(c))))`.
    """

    function: str
    arguments: tuple[Term, ...]


Term: TypeAlias = Read | Constant | Call
REDUCED = Read("<result>")
"""In what comes after a reduction, the reduced value."""


class ParsedTerm(NamedTuple):
    """A term, and its outermost operation in a word; None where it has none."""

    term: Term
    operation: str | None


_FUNCTION = re.compile(r"\s*([A-Za-z_]\w*)?\s*\(", re.ASCII)
_NAME = re.compile(r"\s*([A-Za-z_][\w.]*)\s*", re.ASCII)
_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|inf\b)\s*", re.ASCII)
_POWER = re.compile(r"\*\*\s*(-?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)\s*")
_COMPARISON = re.compile(r"(<=|>=|==|!=|<|>)")
_MINUS, _COMMA, _CLOSE = re.compile(r"\s*-(?!\s*-)"), re.compile(r","), re.compile(r"\)\s*")
COMPARISONS = {
    "<": "less", "<=": "less_or_equal", ">": "greater", ">=": "greater_or_equal", "==": "equal", "!=": "not_equal",
}  # fmt: skip


class TermReader:
    """A text that is read from left to right. Tensors are names; subclasses may read them otherwise."""

    def __init__(self, text: str, whole: str | None = None) -> None:
        self.text, self.whole = text, text if whole is None else whole
        self.source = text.source if isinstance(text, Located) else None
        self.position = 0
        self.multiplies = False
        """Whether tensors are multiplied anywhere."""

    def all(self) -> ParsedTerm:
        """The whole text."""
        if len(self.text) > MAX_LENGTH:
            raise SpecError(f"a formula may have {MAX_LENGTH:,} characters, but this one has more", self.whole)
        found = self.comparison(0)
        if self.position < len(self.text):
            raise self.expected("an operator such as '*' or '+'")
        return found

    def comparison(self, depth: int) -> ParsedTerm:
        """A sum, or two sums and how they compare."""
        first = self.sum(depth)
        match = self.match(_COMPARISON)
        if match is None:
            return first
        word = COMPARISONS[match.group(1)]
        return ParsedTerm(Call(word, (first.term, self.sum(depth).term)), word)

    def sum(self, depth: int) -> ParsedTerm:
        """A sum of products, to the end of the text or, inside brackets, to the `)`."""
        if depth > MAX_DEPTH:
            raise SpecError(f"'{shown(self.whole)}': nested more than {MAX_DEPTH} deep", self.whole)
        first = self.product(depth)
        signs, terms = list[str](), [first.term]
        while sign := self.symbol("+-"):
            signs.append(sign)
            term = self.product(depth).term
            terms.append(Call("negate", (term,)) if sign == "-" else term)
        if not signs:
            return first
        return ParsedTerm(Call("add", tuple(terms)), "add" if "+" in signs else "subtract")

    def product(self, depth: int) -> ParsedTerm:
        """A product of factors. A comma between tensors, outside of any function, is another way to write it."""
        first = self.factor(depth)
        symbols, factors = list[str](), [first.term]
        while symbol := self.symbol("*/," if depth == 0 else "*/"):
            factor = self.factor(depth).term
            symbols.append(symbol)
            self.multiplies |= symbol != "/" and reads(factor) and any(map(reads, factors))
            factors.append(Call("reciprocal", (factor,)) if symbol == "/" else factor)
        if not symbols:
            return first
        return ParsedTerm(Call("multiply", tuple(factors)), "divide" if set(symbols) == {"/"} else "multiply")

    def factor(self, depth: int) -> ParsedTerm:
        """A tensor, a number, a function, or brackets; perhaps with a power."""
        if (tensor := self.tensor()) is not None:
            found = ParsedTerm(tensor, None)
        elif match := self.match(_FUNCTION):
            found = self.call(match.group(1), depth)
        elif self.match(_MINUS):
            found = ParsedTerm(Call("negate", (self.factor(depth).term,)), "negate")
        elif match := self.match(_NUMBER):
            found = ParsedTerm(Constant(float(match.group(1))), None)
        else:
            raise self.expected("a tensor such as 'A[m, k]'")
        if match := self.match(_POWER):
            found = ParsedTerm(Call("power", (found.term, Constant(float(match.group(1))))), "power")
        return found

    def call(self, function: str | None, depth: int) -> ParsedTerm:
        """A function's arguments, or what stands in brackets; the opening bracket has been read."""
        if function:
            check_word(Located(function, self.source), "function")
        inner = self.comparison(depth + 1)
        arguments = [inner.term]
        while function and self.match(_COMMA):
            arguments.append(self.comparison(depth + 1).term)
        if not self.match(_CLOSE):
            raise self.expected("')'")
        return ParsedTerm(Call(function, tuple(arguments)), function) if function else inner

    def tensor(self) -> Read | None:
        """A tensor's name that is no function's."""
        match = _NAME.match(self.text, self.position)
        if match is None or self.text.startswith("(", match.end()) or match.group(1) == "inf":
            return None
        self.position = match.end()
        return Read(match.group(1))

    def symbol(self, symbols: str) -> str:
        """The next character, if it is one of these."""
        found = self.text[self.position : self.position + 1]
        if found and found in symbols:
            self.position += 1
            return found
        return ""

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.position)
        self.position = match.end() if match else self.position
        return match

    def expected(self, what: str) -> SpecError:
        rest = self.text[self.position : self.position + 30].strip()
        return SpecError(f"'{shown(self.whole)}': expected {what} at '{shown(rest)}'", self.whole)


@functools.lru_cache(maxsize=4096)
def parse_formula(text: str) -> Term:
    """A formula over names of tensors.

    >>> parse_formula("max(A, 0) - 1")
    Call(function='add', arguments=(Call(function='max', arguments=(Read(tensor='A'), Constant(value=0.0))), \
Call(function='negate', arguments=(Constant(value=1.0),))))
    """
    return TermReader(text).all().term


def leaves(term: Term) -> Iterator[Read | Constant]:
    """Tensors and numbers, from left to right."""
    if isinstance(term, Call):
        for argument in term.arguments:
            yield from leaves(argument)
    else:
        yield term


def reads(term: Term) -> bool:
    """Whether any tensor is read."""
    return any(isinstance(leaf, Read) for leaf in leaves(term))


def replaced(term: Term, change: Callable[[Term], Term]) -> Term:
    """The term with every part changed, from the inside out."""
    if isinstance(term, Call):
        term = Call(term.function, tuple(replaced(argument, change) for argument in term.arguments))
    return change(term)


def renamed(formula: str, names: Mapping[str, str]) -> str:
    """A formula of tensors that are called otherwise.

    >>> renamed("exp(A - B) / 2", {"A": "A_copy"})
    'exp(A_copy - B) / 2'
    """
    tree = parse_formula(formula)
    return formula_text(
        replaced(tree, lambda part: Read(names.get(part.tensor, part.tensor)) if isinstance(part, Read) else part)
    )


# --- as text --------------------------------------------------------------------------------------------------------

_COMPARED, _SUM, _PRODUCT, _UNARY, _ATOM = range(5)


def formula_text(term: Term, tensor: Callable[[str], str] = str) -> str:
    """The text of a term, with as few brackets as can be; `tensor` writes the tensors.

    >>> [formula_text(parse_formula(text)) for text in ("(a+b)*c", "a-(b-c)", "1/(a*b)", "-(a+b)**2", "f(a<b, 1e-5)")]
    ['(a + b) * c', 'a - (b - c)', '1 / (a * b)', '-(a + b) ** 2', 'f(a < b, 1e-05)']
    """
    return _written(term, tensor)[0]


def _written(term: Term, tensor: Callable[[str], str]) -> tuple[str, int]:
    """The text, and how tightly it holds together."""

    def within(part: Term, least: int) -> str:
        text, binding = _written(part, tensor)
        return text if binding >= least else f"({text})"

    match term:
        case Read():
            return tensor(term.tensor), _ATOM
        case Constant():
            return number_text(term.value), _ATOM if term.value >= 0 else _UNARY
        case Call("add", (first, *others)) if others:
            text = within(first, _SUM)
            for other in others:
                minus = isinstance(other, Call) and other.function == "negate"
                part = other.arguments[0] if isinstance(other, Call) and minus else other
                text += f" {'-' if minus else '+'} {within(part, _PRODUCT)}"
            return text, _SUM
        case Call("multiply", (first, *others)) if others:
            text = within(first, _UNARY)
            for other in others:
                over = isinstance(other, Call) and other.function == "reciprocal"
                part = other.arguments[0] if isinstance(other, Call) and over else other
                text += f" {'/' if over else '*'} {within(part, _UNARY)}"
            return text, _PRODUCT
        case Call("negate", (inner,)):
            return (
                f"-{within(inner, _ATOM if isinstance(inner, Call) and inner.function != 'power' else _UNARY)}",
                _UNARY,
            )
        case Call("power", (base, Constant(exponent))):
            return f"{within(base, _ATOM)} ** {number_text(exponent)}", _UNARY
        case Call(function, (a, b)) if function in COMPARISONS.values():
            sign = next(sign for sign, word in COMPARISONS.items() if word == function)
            return f"{within(a, _SUM)} {sign} {within(b, _SUM)}", _COMPARED
        case Call(function, arguments):
            return f"{function}({', '.join(within(argument, _COMPARED) for argument in arguments)})", _ATOM
    raise AssertionError(term)


def number_text(value: float) -> str:
    """A number as a formula has it, without a point where it is whole.

    >>> number_text(2.0), number_text(1e-5), number_text(0.1), number_text(1e300)
    ('2', '1e-05', '0.1', '1e+300')
    """
    return str(int(value)) if value == int(min(max(value, -1e15), 1e15)) else repr(value)
