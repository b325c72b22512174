"""Jinja2 templates: a small part of the language, run in Jinja2's immutable sandbox and metered.

Only the listed syntax compiles: text, `set`, `for`, `if`, `assert`, arithmetic, comparisons, lists, tables, calls and filters.
No attribute of a Python object is ever looked up, only listed functions can be called, and whatever makes or walks a value
pays for it first. Every piece of text carries a mark that says where it was written, until the lines are numbered.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, cast

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.meta import find_undeclared_variables
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from fusiest.base.errors import Source, SpecError, did_you_mean
from fusiest.base.units import read_quantity
from fusiest.spec.language import functions, operators
from fusiest.spec.language.operators import MAX_BITS
from fusiest.spec.reading.budget import budget, spend

MAX_RANGE, BYTES_PER_STEP = 100_000, 64
MARK = "\x00"
"""What stands around the marks in rendered text, and in no value."""


class Function:
    """What a template may call; nothing else can be called."""

    def __init__(self, body: Callable[..., Any], context: bool = False) -> None:
        self.body, self.context = body, context


def plain(value: Any, name: str) -> Any:
    """A define as a value of templates: tables and lists are copied, a quantity is its number (`2 MiB`), anything else but
    scalars is refused."""
    if isinstance(value, Mapping):
        return {str(key): plain(item, name) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, name) for item in value]
    if isinstance(value, jinja2.Undefined):  # what a file that includes this one has not got: whoever needs it is told
        return value
    value = value.item() if operators.is_array(value) and not getattr(value, "ndim", 1) else value
    if not isinstance(value, _SCALARS):
        raise SpecError(f"the define {name} must be a number, text, list or table, but is a {type(value).__name__}")
    if isinstance(value, str):
        with_unit = read_quantity(value)
        if with_unit is not None and not with_unit.unit.per_bit:  # a rate is for the field where it is written
            return int(with_unit.value) if with_unit.value.is_integer() else with_unit.value
        return str(value).replace(MARK, "")
    return operators.limited(value)


def _kind(value: object) -> str:
    words = {str: "text", list: "a list", tuple: "a list", dict: "a table", range: "a range", LoopContext: "'loop'"}
    return (
        str(value)[:40] if isinstance(value, (bool, int, float, type(None))) else words.get(type(value), "a function")
    )


def _size(value: object) -> int:
    """Steps of making or walking a value, not counting what is inside a list."""
    return len(value) // (BYTES_PER_STEP if isinstance(value, str) else 1) if isinstance(value, _SIZED) else 0


def text(value: Any) -> str:
    """A value as it is printed; a list must be short and hold no lists."""
    need(value)
    if isinstance(value, (list, tuple)) and len(value) <= 1_000 and all(isinstance(item, _SCALARS) for item in value):
        spend(len(value) + sum(map(_size, value)))
    elif not isinstance(value, _SCALARS):
        raise SpecError(f"{_kind(value)} cannot be printed")
    return str(value)


def need(*values: Any) -> None:
    for value in values:
        if isinstance(value, jinja2.Undefined):
            value._fail_with_undefined_error()


def _binary(symbol: str, left: Any, right: Any) -> Any:
    """Arithmetic on numbers; text and lists can be joined and repeated."""
    need(left, right)
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return operators.binary(symbol, left, right)
    if symbol == "+" and type(left) is type(right) and isinstance(left, (str, list)):
        spend(_size(left) + _size(right))
        return left + right
    if symbol == "*" and isinstance(left, (str, list)) and isinstance(right, int):
        spend(_size(left) * max(right, 0) + max(right, 0) // BYTES_PER_STEP)
        return left * right
    raise SpecError(f"'{symbol}' cannot be applied to {_kind(left)} and {_kind(right)}")


def _compare(sides: Sequence[Any], relations: Sequence[str]) -> bool:
    """A chain of comparisons between scalars, or of one with what is in a list, table or text."""
    need(*sides)
    for left, relation, right in zip(sides, relations, sides[1:], strict=False):
        spend(1 + _size(left) + _size(right))
        if relation in ("in", "notin"):
            if not isinstance(left, str if isinstance(right, str) else _SCALARS) or not isinstance(right, _SIZED):
                raise SpecError(f"{_kind(left)} cannot be looked for in {_kind(right)}")
            holds = (left in right) == (relation == "in")
        elif not isinstance(left, _SCALARS) or not isinstance(right, _SCALARS):
            raise SpecError(f"{_kind(left)} and {_kind(right)} cannot be compared")
        elif relation not in ("eq", "ne") and isinstance(left, str) != isinstance(right, str):
            raise SpecError(f"{_kind(left)} and {_kind(right)} have no order")
        else:
            holds = _RELATIONS[relation](left, right)
        if not holds:
            return False
    return True


def _items(value: Any, cost: int = 1) -> Any:
    """What a loop runs over, with the steps of its body paid in advance."""
    need(value)
    if not isinstance(value, _SIZED):
        raise SpecError(f"{_kind(value)} is not a list")
    spend(len(value) * cost)
    return value if isinstance(value, (list, tuple, range)) else list(value)


def _range(*bounds: int) -> range:
    if not 1 <= len(bounds) <= 3 or not all(isinstance(bound, int) for bound in bounds) or bounds[2:] == (0,):
        raise SpecError("range wants one to three whole numbers")
    if max(abs(bound) for bound in bounds) >= 2**62 or len(range(*bounds)) > MAX_RANGE:
        raise SpecError(f"a range may have {MAX_RANGE:,} numbers at most")
    return range(*bounds)


def _fail(message: object) -> NoReturn:
    raise SpecError(text(message))


def _join(value: Any, separator: str = "") -> str:
    pieces = [text(item) for item in _items(value)]
    spend((sum(map(len, pieces)) + len(separator) * len(pieces)) // BYTES_PER_STEP)
    return separator.join(pieces)


def _replace(value: Any, old: str, new: str) -> str:
    whole = text(value)
    spend((len(whole) + whole.count(old) * len(new)) // BYTES_PER_STEP)
    return whole.replace(old, new)


def _numeric(name: str) -> Callable[..., Any]:
    """A function of expressions, which takes lists as well."""
    body = functions.FUNCTIONS[name]
    return lambda *args: body(*(tuple(_items(arg)) if isinstance(arg, (list, range)) else arg for arg in args))


def _default(value: Any, other: Any = "", boolean: bool = False) -> Any:
    return other if isinstance(value, jinja2.Undefined) or (boolean and not value) else value


_SCALARS, _SIZED = (str, bool, int, float, type(None)), (str, list, tuple, dict, range)
_RELATIONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "lteq": operator.le, "gt": operator.gt, "gteq": operator.ge,
}  # fmt: skip
_NUMERIC = {name: _numeric(name) for name in ("abs", "ceil", "floor", "float", "int", "max", "min", "round", "sum")}
FUNCTIONS: Mapping[str, Function] = {
    "range": Function(_range), "dict": Function(lambda **fields: fields), "fail": Function(_fail),
    **{name: Function(body) for name, body in _NUMERIC.items()},
}  # fmt: skip
_TABLE: Mapping[str, Callable[..., Any]] = {
    "items": lambda table: list(table.items()), "keys": list, "values": lambda table: list(table.values()),
    "get": lambda table, name, other=None: table.get(text(name), other),
}  # fmt: skip
_LOOP = frozenset(["index", "index0", "revindex", "revindex0", "first", "last", "length"])
_FILTERS: Mapping[str, Callable[..., Any]] = {
    **_NUMERIC, "default": _default, "d": _default, "join": _join, "replace": _replace, "string": text,
    "upper": lambda value: text(value).upper(), "lower": lambda value: text(value).lower(), "list": _items,
    "length": lambda value: len(_items(value)), "first": lambda value: _items(value)[0], "last": lambda value: _items(value)[-1],
}  # fmt: skip
NAMED: Mapping[type, Sequence[str]] = {
    nodes.Filter: (*_FILTERS, "~items", "~compare"),
    nodes.Test: ("defined", "undefined", "none", "number", "string", "mapping", "odd", "even", "divisibleby"),
}


class _Missing(jinja2.StrictUndefined):
    """A name without a value: whoever needs one is told how to give it."""

    @property
    def _undefined_message(self) -> str:
        if self._undefined_hint:
            return str(self._undefined_hint)
        if self._undefined_obj is jinja2.utils.missing:
            return f"{self._undefined_name} is not defined; give it with -D {self._undefined_name}=VALUE"
        return f"{_kind(self._undefined_obj)} has no '{self._undefined_name}'"


class _Environment(ImmutableSandboxedEnvironment):
    """Attributes, items, calls and operators: those of this module, and no others."""

    intercepted_binops = frozenset(["+", "-", "*", "/", "//", "%", "**"])
    intercepted_unops = frozenset(["+", "-"])

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        return _binary(operator, left, right)

    def call_unop(self, context: Context, operator: str, arg: Any) -> Any:
        return _binary(operator, 0, arg)

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, dict) and attribute in _TABLE:
            return Function(functools.partial(_TABLE[attribute], obj))
        if isinstance(obj, LoopContext) and attribute in _LOOP:
            return getattr(obj, attribute)
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        need(obj, argument)
        numbered = isinstance(obj, (list, tuple, str, range)) and isinstance(argument, int)
        if numbered or (isinstance(obj, dict) and isinstance(argument, _SCALARS)):
            with contextlib.suppress(LookupError):
                return obj[argument]
        return self.undefined(obj=obj, name=str(argument)[:80])

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(obj, jinja2.Undefined):
            known = {name for name, value in context.get_all().items() if isinstance(value, Function)}
            raise SpecError(
                f"there is no function '{obj._undefined_name}'{did_you_mean(obj._undefined_name or '', known)}"
            )
        if not isinstance(obj, Function):
            raise SpecError(f"{_kind(obj)} cannot be called")
        inner = {**kwargs.pop("_block_vars", {}), **kwargs.pop("_loop_vars", {})}
        return _paying(obj.body)(*((context.derived(inner),) if obj.context else ()), *args, **kwargs)


def _paying(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def apply(*args: Any, **kwargs: Any) -> Any:
        if function is not _default:
            need(*args, *kwargs.values())
        spend(1 + sum(map(_size, (*args, *kwargs.values()))))
        try:
            result = function(*args, **kwargs)
        except (TypeError, IndexError, AttributeError):
            raise SpecError("a function or filter cannot take these arguments") from None
        spend(_size(result))
        return operators.limited(result)

    return apply


class Assert(Extension):
    """`{% assert condition, "message" %}`."""

    tags = frozenset(["assert"])  # type: ignore[assignment]

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        condition = parser.parse_expression()
        message = parser.parse_expression() if parser.stream.skip_if("comma") else nodes.Const("an assertion fails")
        failure = nodes.Output([nodes.Call(nodes.Name("fail", "load"), [message], [], None, None)])
        return nodes.If(nodes.Not(condition), [failure], [], []).set_lineno(line, override=True)


@jinja2.pass_context
def _finalize(context: Context, value: object) -> str:
    return text(value)


ENVIRONMENT = _Environment(
    keep_trailing_newline=True, undefined=_Missing, finalize=_finalize, extensions=[Assert], optimized=False
)
ENVIRONMENT.globals = dict(FUNCTIONS)
ENVIRONMENT.filters = {name: _paying(function) for name, function in _FILTERS.items()}
ENVIRONMENT.filters |= {"~items": _items, "~compare": _compare}


MAX_STEPS, MAX_BYTES, MAX_LINES, MAX_TOKENS, MAX_DIGITS = 1_000_000, 16_000_000, 500_000, 50_000, 4_000


class Rendered(NamedTuple):
    """What a template became; `sources[i]` is where its line i, from 0, was written. `used` are the names it takes, `values`
    what those are that a define can give, in the order of the file, as far as that can be said."""

    text: str
    sources: Sequence[Source]
    used: frozenset[str] = frozenset()
    values: Mapping[str, object] = MappingProxyType({})


class _Compiled(NamedTuple):
    code: jinja2.Template
    used: frozenset[str]
    defaults: Mapping[str, object]
    """Names that are used with a default, and what it is: None if that is not written as a value."""


def render(
    text: str, file: str, defines: Mapping[str, object], functions: Mapping[str, object] | None = None
) -> Rendered:
    """Render a template; `file` is what errors call it, `functions` what it may call besides the usual.

    >>> rendered = render("{% for i in range(2) %}\\nn{{i}}: {{N}}\\n{% endfor %}", "f", {"N": 8})
    >>> rendered.text, [source.line for source in rendered.sources]
    ('\\nn0: 8\\n\\nn1: 8\\n', [1, 2, 3, 2, 3])
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not is_template(text):
        return Rendered(text, [Source(file, line) for line in range(1, text.count("\n") + 2)])
    values: dict[str, object] = {}
    with budget(MAX_STEPS, f"the template takes more than {MAX_STEPS:,} steps"):
        rendered = _unmarked(_mark(file, 1, "+") + marked(text, file, defines, functions or {}, values))
    return rendered._replace(used=undeclared(text, file), values=values)


def marked(
    text: str, file: str, defines: Mapping[str, object], functions: Mapping[str, object], values: dict[str, object]
) -> str:
    """What a template becomes, each piece behind a mark that says where it was written; `values` gets those of its defines."""
    if not is_template(text):
        return _mark(file, 1, "+") + text
    template, pieces = _compiled(text, file), []
    try:
        defined = {name: plain(value, name) for name, value in defines.items()}
        context = template.code.new_context({**FUNCTIONS, **functions, **defined})
        for piece in template.code.root_render_func(context):
            spend(1 + len(piece) // BYTES_PER_STEP)
            pieces.append(piece)
        named = {**template.defaults, **defined, **context.vars}
        for name in sorted((template.used & named.keys()) - FUNCTIONS.keys() - functions.keys(), key=text.find):
            if not isinstance(named[name], jinja2.Undefined):
                values.setdefault(name, named[name])
    except (SpecError, jinja2.TemplateError) as error:
        if isinstance(error, SpecError) and error.source is not None:
            raise
        raise SpecError(str(error), _place(template.code, file, error)) from None
    except (ArithmeticError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise SpecError(f"it cannot be rendered: {error}", _place(template.code, file, error)) from None
    return "".join(pieces)


def undeclared(text: str, file: str = "<template>") -> frozenset[str]:
    """The names that a template takes from outside: those that a define can give.

    >>> sorted(undeclared("{% set M = M | default(1) %}{% for i in range(N) %}{{i}}{% endfor %}"))
    ['M', 'N']
    """
    return _compiled(text, file).used if is_template(text) else frozenset()


def written_as_is(text: str) -> frozenset[str]:
    """Names from outside that a template does nothing with but write them: what they are changes nothing else.

    >>> sorted(written_as_is("{% set M = M | default(1) %}{{M}} {{N}} {{K}} {{2 * K}} {% if M %}{% endif %}"))
    ['N']
    """
    if not is_template(text):
        return frozenset()
    tree = _parsed(text, "<template>")
    written = [_written(node) for output in tree.find_all(nodes.Output) for node in output.nodes]
    for node in tree.find_all(nodes.Assign):
        source = _written(node.node)
        if source is not None and isinstance(node.target, nodes.Name) and node.target.name == source.name:
            written += [source, node.target]
    places = {id(node) for node in written}
    names = frozenset(node.name for node in written if node is not None)
    return names - {node.name for node in tree.find_all(nodes.Name) if id(node) not in places}


def _written(node: nodes.Node) -> nodes.Name | None:
    """The name whose value an expression is: `N`, or `N | default(1)`."""
    if isinstance(node, nodes.Filter) and node.name in ("default", "d") and len(node.args) == 1 and not node.kwargs:
        node = node.node if node.node is not None and isinstance(node.args[0], nodes.Const) else node
    return node if isinstance(node, nodes.Name) else None


def is_template(text: str) -> bool:
    """Whether there is anything in it for Jinja2."""
    return "{{" in text or "{%" in text or "{#" in text


# --- from text to code ----------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _compiled(text: str, file: str) -> _Compiled:
    try:
        tree = _Checked(file).visit(_parsed(text, file))
        used, defaults = find_undeclared_variables(tree), _defaults(tree)
        code = ENVIRONMENT.compile(tree, file, file)
    except jinja2.TemplateSyntaxError as error:
        message = " ".join((error.message or "it cannot be parsed").split())
        raise SpecError(f"the template is not valid Jinja: {message}", Source(file, error.lineno)) from None
    except (RecursionError, MemoryError, ValueError, OverflowError, SyntaxError):
        raise SpecError("the template cannot be parsed: it is nested too deep or too large", Source(file, 1)) from None
    return _Compiled(jinja2.Template.from_code(ENVIRONMENT, code, {}), frozenset(used), defaults)


def _defaults(tree: nodes.Template) -> dict[str, object]:
    return {
        call.node.name: call.args[0].value if call.args and isinstance(call.args[0], nodes.Const) else None
        for call in tree.find_all(nodes.Filter)
        if call.name in ("default", "d") and isinstance(call.node, nodes.Name)
    }


def _parsed(text: str, file: str) -> nodes.Template:
    if len(text) > MAX_BYTES or text.count("\n") > MAX_LINES or text.count("\\") > MAX_TOKENS:
        limits = f"{MAX_BYTES // 1_000_000} MB, {MAX_LINES:,} lines and {MAX_TOKENS:,} backslashes"
        raise SpecError(f"a template may have {limits}", Source(file, 1))
    # Jinja2's lexer takes hundreds of bytes for each digit of a number, as for each backslash.
    for pattern, description in ((rf"[0-9a-fA-FxX_]{{{MAX_DIGITS + 1}}}", f"{MAX_DIGITS:,} digits"), (MARK, "'\\x00'")):
        wrong = re.search(pattern, text)
        if wrong:
            raise SpecError(f"the template holds {description}", Source(file, text.count("\n", 0, wrong.start()) + 1))
    for count, (line, _, _) in enumerate(ENVIRONMENT.lexer.tokeniter(text, None)):
        if count > MAX_TOKENS:
            raise SpecError(f"the template has more than {MAX_TOKENS:,} words", Source(file, line))
    return ENVIRONMENT.parse(text)


class _Checked(NodeTransformer):
    """Refuses what is not listed, marks where text is written, and makes loops, comparisons and `~` pay."""

    def __init__(self, file: str) -> None:
        self.file = file

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        if isinstance(node, (nodes.Filter, nodes.Test)) and node.name not in (known := NAMED[type(node)]):
            raise self.error(
                node, f"there is no {type(node).__name__.lower()} '{node.name}'{did_you_mean(node.name, known)}"
            )
        unusual = any(getattr(node, name, None) for name in ("recursive", "dyn_args", "dyn_kwargs"))
        if type(node) not in _SYNTAX or unusual:
            name = _CALLED.get(type(node).__name__, type(node).__name__.lower())
            raise self.error(node, f"'{name}' is not supported in a template of a spec")
        return super().visit(node, *args, **kwargs)

    def error(self, node: nodes.Node, message: str) -> SpecError:
        return SpecError(message, Source(self.file, node.lineno or 1))

    def visit_Const(self, node: nodes.Const) -> nodes.Node:
        if isinstance(node.value, str) and MARK in node.value:
            raise self.error(node, "the template holds '\\x00'")
        if isinstance(node.value, int) and node.value.bit_length() > MAX_BITS:
            raise self.error(node, "a number is too large")
        return node

    def visit_Output(self, node: nodes.Output) -> nodes.Node:
        marks = [_mark(self.file, n.lineno, "+" if isinstance(n, nodes.TemplateData) else "=") for n in node.nodes]
        pairs = [(nodes.TemplateData(mark), self.visit(n)) for mark, n in zip(marks, node.nodes, strict=True)]
        node.nodes = [child for pair in pairs for child in pair]
        return node

    def visit_For(self, node: nodes.For) -> nodes.Node:
        cost = sum(1 + len(getattr(inner, "data", "")) // BYTES_PER_STEP for inner in node.find_all(nodes.Node))
        self.generic_visit(node)
        node.iter = _paid("~items", cast(nodes.Expr, node.iter), cost)
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        sides = nodes.List([node.expr, *(side.expr for side in node.ops)], lineno=node.lineno)
        return _paid("~compare", sides, tuple(side.op for side in node.ops))

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _paid("join", nodes.List(node.nodes, lineno=node.lineno))


def _paid(name: str, value: nodes.Expr, *arguments: object) -> nodes.Filter:
    """A call of one of our functions: a filter, whose name nobody can write if it begins with `~`."""
    return nodes.Filter(value, name, [nodes.Const(a) for a in arguments], [], None, None, lineno=value.lineno)


_SYNTAX = frozenset(
    [nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign, nodes.Const, nodes.Name, nodes.List,
     nodes.Tuple, nodes.Dict, nodes.Pair, nodes.CondExpr, nodes.Concat, nodes.Compare, nodes.Operand, nodes.And, nodes.Or,
     nodes.Not, nodes.Neg, nodes.Pos, nodes.Getattr, nodes.Getitem, nodes.Filter, nodes.Test, nodes.Call, nodes.Keyword,
     nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow]
)  # fmt: skip
_CALLED = {
    "FromImport": "import", "CallBlock": "call", "Scope": "autoescape", "For": "recursive", "AssignBlock": "set block",
}  # fmt: skip


# --- where text was written -----------------------------------------------------------------------------------------


def _mark(file: str, line: int, step: str) -> str:
    """`+` for text that moves on by a line with each newline, `=` for what an expression writes."""
    return f"{MARK}{file}\n{line}{step}{MARK}"


def _unmarked(text: str) -> Rendered:
    """Text without its marks, and where its lines come from: a line is numbered after the first visible thing on it."""
    cut = text.split(MARK)
    sources: list[Source] = []
    blank = True
    for mark, span in zip(cut[1::2], cut[2::2], strict=True):
        file, _, place = mark.rpartition("\n")
        line, step = int(place[:-1]), place[-1] == "+"
        for index, piece in enumerate(span.split("\n")):
            source = Source(file, line + index * step)
            if index or not sources:
                sources.append(source)
                blank = True
            if blank and piece and not piece.isspace():
                sources[-1] = source
                blank = False
        if len(sources) > MAX_LINES:
            raise SpecError(f"the template makes more than {MAX_LINES:,} lines", sources[-1])
    return Rendered("".join(cut[2::2]), sources)


def _place(code: jinja2.Template, file: str, error: BaseException) -> Source:
    """The line of the template that was running."""
    lines = [number for frame, number in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    return Source(file, code.get_corresponding_lineno(lines[-1]) if lines else 1)
