"""The grammar of expressions: Python's, but for what is not listed here.

Nothing is compiled or run. Text is parsed into a tree, and a node, function or constant that is not of the language is an error
before anything is evaluated.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from functools import lru_cache

from fusiest.base.errors import SpecError, check_known, shown
from fusiest.base.units import complaint, without_units
from fusiest.spec.language.functions import FUNCTIONS
from fusiest.spec.language.operators import MAX_BITS

MAX_LENGTH, MAX_DEPTH = 2_000, 50
SYMBOLS: Mapping[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">",
    ast.GtE: ">=", ast.UAdd: "+", ast.USub: "-", ast.Invert: "~", ast.Not: "not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
_GRAMMAR = (
    ast.Constant, ast.Name, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.GeneratorExp,
    ast.ListComp, ast.List, ast.Tuple, ast.Subscript, ast.Set, *SYMBOLS, ast.And, ast.Or, ast.comprehension, ast.Load, ast.Store,
)  # fmt: skip
_REFUSED: Mapping[type, str] = {
    ast.Slice: "a slice", ast.Lambda: "a lambda", ast.JoinedStr: "an f-string", ast.NamedExpr: "':='",
    ast.Starred: "a '*'", ast.Dict: "a dict",
    ast.BitXor: "'^'", ast.LShift: "'<<'", ast.RShift: "'>>'", ast.MatMult: "'@'", ast.Is: "'is'", ast.IsNot: "'is'",
}  # fmt: skip
# Python warns about these on stderr, where only our own lines belong.
_GLUED = re.compile(r"\b[0-9][0-9a-fA-FxXoOjJ_.]*(and|else|for|if|in|is|not|or)")


def parse_expression(text: str) -> ast.expr:
    """Parse an expression and check that it uses nothing but the language of this module.

    >>> type(parse_expression("a if b else ~c")).__name__
    'IfExp'
    """
    try:
        return _parse(str(text))
    except SpecError as error:
        raise SpecError(error.message, at=text) from None


@lru_cache(maxsize=4_096)
def _parse(text: str) -> ast.expr:
    if len(text) > MAX_LENGTH:
        raise SpecError(f"an expression may have {MAX_LENGTH} characters, but this one has {len(text)}")
    if "\\" in text:
        raise SpecError(f"'{shown(text)}' is not an expression: a backslash has no meaning here")
    if _GLUED.search(text):
        raise SpecError(f"'{shown(text)}' is not an expression: a space is missing after a number")
    # An expression may be folded over lines; with a comment in it, joining the lines would drop what follows.
    line = without_units(text.strip() if "#" in text else " ".join(text.split()))
    try:
        tree = ast.parse(line, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        reason = complaint(text) or (error.msg if isinstance(error, SyntaxError) else "it cannot be parsed")
        raise SpecError(f"'{shown(text)}' is not an expression: {reason}") from None
    try:
        _check(tree)
        _check_spelling(tree, line)
    except SpecError as error:
        raise SpecError(f"in '{shown(text)}': {error.message}") from None
    return tree


@lru_cache(maxsize=4_096)
def names_in(text: str) -> frozenset[str]:
    """The names that an expression takes from outside.

    >>> sorted(names_in("~(input | output) if len(All) == 3 else sum(t for t in All)"))
    ['All', 'input', 'output']
    """
    nodes = list(ast.walk(parse_expression(text)))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    mentions = [node for node in nodes if isinstance(node, ast.Name) and id(node) not in called]
    return frozenset(node.id for node in mentions) - {node.id for node in mentions if isinstance(node.ctx, ast.Store)}


def _check(tree: ast.expr) -> None:
    """Refuse what is not in the language, before anything is evaluated. A sum of many terms is not deep."""
    todo: list[tuple[ast.AST, int]] = [(tree, 0)]
    while todo:
        node, depth = todo.pop()
        if depth > MAX_DEPTH:
            raise SpecError(f"nested more than {MAX_DEPTH} deep")
        if not isinstance(node, _GRAMMAR):
            raise SpecError(f"{_REFUSED.get(type(node), type(node).__name__)} may not be used in an expression")
        if isinstance(node, ast.Call):
            _check_call(node)
            todo += [(argument, depth + 1) for argument in (*node.args, *([node.func] if is_fanout(node) else []))]
            continue
        if isinstance(node, ast.Constant):
            _check_constant(node.value)
        if isinstance(node, ast.comprehension) and (node.is_async or not isinstance(node.target, ast.Name)):
            raise SpecError("a 'for' takes one plain name")
        for child in ast.iter_child_nodes(node):
            chained = isinstance(node, ast.BinOp) and child is node.left and isinstance(child, ast.BinOp)
            todo.append((child, depth if chained else depth + 1))


def _check_spelling(tree: ast.expr, line: str) -> None:
    """Refuse a letter that Python takes for another: `Aᵢ` would be read as `Ai`."""
    for node in ast.walk(tree) if not line.isascii() else ():
        if isinstance(node, ast.Name) and ast.get_source_segment(line, node) != node.id:
            raise SpecError(f"'{ast.get_source_segment(line, node)}' is not a name of ASCII letters, digits and '_'")


def is_fanout(node: ast.Call) -> bool:
    """Whether this is `Array.get_fanout()`, another way to write `Array.fanout`."""
    return isinstance(node.func, ast.Attribute) and node.func.attr == "get_fanout" and not node.args + node.keywords


def _check_call(node: ast.Call) -> None:
    if is_fanout(node):
        return
    if not isinstance(node.func, ast.Name):
        raise SpecError("only functions can be called")
    check_known(node.func.id, FUNCTIONS, f"unknown function '{node.func.id}'")
    if node.keywords:
        raise SpecError(f"{node.func.id} takes no named arguments")


def _check_constant(value: object) -> None:
    if isinstance(value, (bool, str)):
        return
    if not isinstance(value, (int, float)):
        raise SpecError(f"{value!r} may not be used in an expression")
    if value == math.inf or (isinstance(value, int) and value.bit_length() > MAX_BITS):
        raise SpecError("a number is too large")
