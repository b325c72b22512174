"""A walk over the syntax tree of a template: statements write text, expressions give values.

Scopes are Jinja2's: a loop, a macro and a `with` open one, an `if` does not. What is not listed in the two tables at
the end is refused. Every visit of a node is a step, and steps are limited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2 import nodes

from fusiest.errors import SpecError, did_you_mean
from fusiest.spec import template_functions as functions
from fusiest.spec import template_values as values
from fusiest.spec.operators import limited
from fusiest.spec.template_values import Budget, Loop, Macro, Namespace, Undefined

MAX_OUTPUT = 16_000_000
MAX_LINES = 1_000_000
MAX_CALLS = 40


@dataclass(slots=True)
class Scope:
    """The names of one block, and the block around it."""

    names: dict[str, object]
    outer: Scope | None = None

    def find(self, name: str) -> object:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return functions.BUILTINS.get(name) or Undefined(f"{name} is not defined; give it with -D {name}=VALUE")


@dataclass(slots=True)
class Output:
    """Text written so far. A line of it is numbered after the first visible thing on it."""

    parts: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=lambda: [1])
    blank: bool = True

    def write(self, text: str, line: int, step: int) -> None:
        """Append text that begins in `line` of the file and moves on by `step` lines with each newline."""
        self.parts.append(text)
        for index, piece in enumerate(text.split("\n")):
            if index:
                self.lines.append(line + index * step)
                self.blank = True
            if self.blank and piece and not piece.isspace():
                self.lines[-1] = line + index * step
                self.blank = False
        if len(self.lines) > MAX_LINES:
            raise SpecError(f"the template makes more than {MAX_LINES:,} lines")


class Run:
    """One rendering: its budget, how much it has written, and the line it has come to."""

    def __init__(self, defines: Mapping[str, object]) -> None:
        self.budget = Budget()
        self.defines = defines
        self.line = 1
        self.written = 0
        self.calls = 0

    def render(self, template: nodes.Template) -> Output:
        scope, output = Scope({name: values.plain(value, name) for name, value in self.defines.items()}), Output()
        self.run(template.body, scope, output)
        return output

    def run(self, body: Sequence[nodes.Node], scope: Scope, output: Output) -> None:
        for node in body:
            self.line = node.lineno or self.line
            self.budget.step()
            statement = _STATEMENTS.get(type(node))
            if statement is None:
                name = _REFUSED.get(type(node), type(node).__name__.lower())
                raise SpecError(f"'{name}' is not supported in a template of a spec")
            statement(self, node, scope, output)

    def write(self, text: str, line: int, step: int, output: Output) -> None:
        self.written += len(text)
        if self.written > MAX_OUTPUT:
            raise SpecError(f"the template makes more than {MAX_OUTPUT // 1_000_000} MB of text")
        output.write(text, line, step)

    # Statements

    def output(self, node: nodes.Output, scope: Scope, output: Output) -> None:
        for child in node.nodes:
            if isinstance(child, nodes.TemplateData):
                self.budget.step()
                self.write(child.data, child.lineno, 1, output)
            else:
                line = child.lineno
                self.write(values.text_of(self.need(child, scope), self.budget), line, 0, output)

    def branch(self, node: nodes.If, scope: Scope, output: Output) -> None:
        if self.truth(node.test, scope):
            return self.run(node.body, scope, output)
        for other in node.elif_:
            if self.truth(other.test, scope):
                return self.run(other.body, scope, output)
        return self.run(node.else_, scope, output)

    def loop(self, node: nodes.For, scope: Scope, output: Output) -> None:
        if node.recursive:
            raise SpecError("a 'recursive' loop is not supported in a template of a spec")
        items = values.iterable(self.need(node.iter, scope), self.budget)
        if node.test is not None:
            items = [item for item in items if self.truth(node.test, self.bound(node.target, item, scope))]
        for index, item in enumerate(items):
            self.budget.step()
            inner = self.bound(node.target, item, scope)
            inner.names["loop"] = Loop(items, index)
            self.run(node.body, inner, output)
        if not items:
            self.run(node.else_, Scope({}, scope), output)

    def bound(self, target: nodes.Node, item: object, scope: Scope) -> Scope:
        self.budget.step()
        inner = Scope({}, scope)
        self.assign(target, item, inner)
        return inner

    def assignment(self, node: nodes.Assign, scope: Scope, output: Output) -> None:
        self.assign(node.target, self.value(node.node, scope), scope)

    def assign(self, target: nodes.Node, value: object, scope: Scope) -> None:
        if isinstance(target, nodes.Name):
            scope.names[target.name] = value
        elif isinstance(target, nodes.NSRef):
            owner = scope.find(target.name)
            if not isinstance(owner, Namespace):
                raise SpecError(f"'{target.name}.{target.attr}' can only be set if {target.name} is a namespace()")
            owner.fields[target.attr] = value
        elif isinstance(target, nodes.Tuple):
            parts = value if isinstance(value, (list, tuple)) else None
            if parts is None or len(parts) != len(target.items):
                raise SpecError(f"{len(target.items)} names cannot take {values.kind_of(value)}")
            for name, part in zip(target.items, parts, strict=True):
                self.assign(name, part, scope)
        else:
            raise SpecError("only names can be set")

    def assign_block(self, node: nodes.AssignBlock, scope: Scope, output: Output) -> None:
        text = self.capture(node.body, Scope({}, scope))
        self.assign(node.target, self.filtered(node.filter, text, scope) if node.filter else text, scope)

    def filter_block(self, node: nodes.FilterBlock, scope: Scope, output: Output) -> None:
        line = node.lineno
        text = self.filtered(node.filter, self.capture(node.body, Scope({}, scope)), scope)
        self.write(values.text_of(text, self.budget), line, 0, output)

    def with_block(self, node: nodes.With, scope: Scope, output: Output) -> None:
        inner = Scope({}, scope)
        for target, expression in zip(node.targets, node.values, strict=True):
            self.assign(target, self.value(expression, scope), inner)
        self.run(node.body, inner, output)

    def macro(self, node: nodes.Macro, scope: Scope, output: Output) -> None:
        scope.names[node.name] = Macro(node, scope)

    def capture(self, body: Sequence[nodes.Node], scope: Scope) -> str:
        """What a body writes, as a value; it is printed later, on the line that prints it."""
        captured = Output()
        self.run(body, scope, captured)
        return "".join(captured.parts)

    # Expressions

    def value(self, node: nodes.Node, scope: Scope) -> object:
        self.line = node.lineno
        self.budget.step()
        expression = _EXPRESSIONS.get(type(node))
        if expression is None:
            raise SpecError(f"'{type(node).__name__.lower()}' is not supported in a template of a spec")
        return expression(self, node, scope)

    def need(self, node: nodes.Node, scope: Scope) -> object:
        """A value that must be defined."""
        value = self.value(node, scope)
        if isinstance(value, Undefined):
            self.line = node.lineno
            raise SpecError(value.message)
        return value

    def truth(self, node: nodes.Node, scope: Scope) -> bool:
        value = self.need(node, scope)
        return bool(value)

    def constant(self, node: nodes.Const, scope: Scope) -> object:
        return limited(node.value)

    def name(self, node: nodes.Name, scope: Scope) -> object:
        return scope.find(node.name)

    def sequence(self, node: nodes.List | nodes.Tuple, scope: Scope) -> object:
        items = [self.need(item, scope) for item in node.items]
        self.budget.make(8 * len(items))
        return items if isinstance(node, nodes.List) else tuple(items)

    def table(self, node: nodes.Dict, scope: Scope) -> object:
        self.budget.make(64 * len(node.items))
        return {values.key(self.need(pair.key, scope)): self.need(pair.value, scope) for pair in node.items}

    def conditional(self, node: nodes.CondExpr, scope: Scope) -> object:
        if self.truth(node.test, scope):
            return self.value(node.expr1, scope)
        if node.expr2 is None:
            return Undefined("an 'if' without 'else' has no value here")
        return self.value(node.expr2, scope)

    def binary(self, node: nodes.BinExpr, scope: Scope) -> object:
        left = self.need(node.left, scope)
        return values.binary(node.operator, left, self.need(node.right, scope), self.budget)

    def logical(self, node: nodes.And | nodes.Or, scope: Scope) -> object:
        left = self.need(node.left, scope)
        if bool(left) == isinstance(node, nodes.Or):
            return left
        return self.need(node.right, scope)

    def negation(self, node: nodes.Not, scope: Scope) -> object:
        return not self.truth(node.node, scope)

    def sign(self, node: nodes.Neg | nodes.Pos, scope: Scope) -> object:
        value = values.number(self.need(node.node, scope))
        return -value if isinstance(node, nodes.Neg) else value

    def concat(self, node: nodes.Concat, scope: Scope) -> object:
        pieces = [values.text_of(self.need(child, scope), self.budget) for child in node.nodes]
        self.budget.make(sum(map(len, pieces)))
        return "".join(pieces)

    def compare(self, node: nodes.Compare, scope: Scope) -> object:
        left = self.need(node.expr, scope)
        for operand in node.ops:
            right = self.need(operand.expr, scope)
            if not values.compare(operand.op, left, right, self.budget):
                return False
            left = right
        return True

    def attribute(self, node: nodes.Getattr, scope: Scope) -> object:
        return functions.attribute(self.need(node.node, scope), node.attr)

    def item(self, node: nodes.Getitem, scope: Scope) -> object:
        owner = self.need(node.node, scope)
        if not isinstance(node.arg, nodes.Slice):
            return values.item(owner, self.need(node.arg, scope))
        bounds = (node.arg.start, node.arg.stop, node.arg.step)
        return values.cut(owner, [bound and self.need(bound, scope) for bound in bounds], self.budget)

    def arguments(self, node: Any, scope: Scope) -> tuple[list[object], dict[str, object]]:
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise SpecError("'*' and '**' arguments are not supported in a template of a spec")
        named = {pair.key: self.value(pair.value, scope) for pair in node.kwargs}
        return [self.value(argument, scope) for argument in node.args], named

    def filter(self, node: nodes.Filter, scope: Scope) -> object:
        value = Undefined("a filter needs a value") if node.node is None else self.value(node.node, scope)
        return self.apply_filter(node, value, scope)

    def filtered(self, node: nodes.Filter, text: object, scope: Scope) -> object:
        """The filters of a block: the innermost one has the text of the block for its value."""
        inner = self.filtered(node.node, text, scope) if isinstance(node.node, nodes.Filter) else text
        return self.apply_filter(node, inner, scope)

    def apply_filter(self, node: nodes.Filter, value: object, scope: Scope) -> object:
        arguments, named = self.arguments(node, scope)
        return functions.apply_filter(node.name, [value, *arguments], named, self.budget)

    def test(self, node: nodes.Test, scope: Scope) -> object:
        value = self.value(node.node, scope)
        arguments, named = self.arguments(node, scope)
        return functions.apply_test(node.name, [value, *arguments], named, self.budget)

    def call(self, node: nodes.Call, scope: Scope) -> object:
        function = self.value(node.node, scope)
        if isinstance(function, Undefined) and isinstance(node.node, nodes.Name):
            raise SpecError(
                f"there is no function '{node.node.name}'{did_you_mean(node.node.name, functions.BUILTINS)}"
            )
        arguments, named = self.arguments(node, scope)
        if isinstance(function, Macro):
            return self.call_macro(function, arguments, named)
        return functions.call(function, arguments, named, self.budget)

    def call_macro(self, macro: Macro, arguments: list[object], named: dict[str, object]) -> str:
        names, defaults = [argument.name for argument in macro.node.args], macro.node.defaults
        unknown = sorted(set(named) - set(names[len(arguments) :]))
        if len(arguments) > len(names) or unknown:
            wrong = f"no argument '{unknown[0]}' left" if unknown else f"{len(names)} arguments"
            raise SpecError(f"macro {macro.node.name} takes {wrong}")
        self.calls += 1
        if self.calls > MAX_CALLS:
            raise SpecError(f"macros call each other more than {MAX_CALLS} deep")
        inner = Scope({**dict(zip(names, arguments, strict=False)), **named}, macro.scope)
        for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            if name not in inner.names:
                inner.names[name] = self.value(default, inner)
        for name in names:
            inner.names.setdefault(name, Undefined(f"macro {macro.node.name} needs a value for {name}"))
        text = self.capture(macro.node.body, inner)
        self.calls -= 1
        return text


_STATEMENTS: Mapping[type, Callable[[Run, Any, Scope, Output], None]] = {
    nodes.Output: Run.output, nodes.If: Run.branch, nodes.For: Run.loop, nodes.Assign: Run.assignment,
    nodes.AssignBlock: Run.assign_block, nodes.FilterBlock: Run.filter_block, nodes.With: Run.with_block,
    nodes.Macro: Run.macro,
}  # fmt: skip
_EXPRESSIONS: Mapping[type, Callable[[Run, Any, Scope], object]] = {
    nodes.Const: Run.constant, nodes.Name: Run.name, nodes.List: Run.sequence, nodes.Tuple: Run.sequence,
    nodes.Dict: Run.table, nodes.CondExpr: Run.conditional, nodes.Concat: Run.concat, nodes.Compare: Run.compare,
    nodes.And: Run.logical, nodes.Or: Run.logical, nodes.Not: Run.negation, nodes.Neg: Run.sign, nodes.Pos: Run.sign,
    nodes.Getattr: Run.attribute, nodes.Getitem: Run.item, nodes.Filter: Run.filter, nodes.Test: Run.test,
    nodes.Call: Run.call, nodes.Add: Run.binary, nodes.Sub: Run.binary, nodes.Mul: Run.binary, nodes.Div: Run.binary,
    nodes.FloorDiv: Run.binary, nodes.Mod: Run.binary, nodes.Pow: Run.binary,
}  # fmt: skip
_REFUSED: Mapping[type, str] = {
    nodes.FromImport: "import", nodes.CallBlock: "call", nodes.ScopedEvalContextModifier: "autoescape",
    nodes.Scope: "autoescape",
}  # fmt: skip
