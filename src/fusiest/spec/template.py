"""Jinja2 templates, rendered so that every line of the result knows the line of the file it came from.

Jinja2 only parses: the tree is walked by `template_run`, which knows a few node types and counts its steps. Nothing
is compiled, no Python attribute is ever looked up, and no template can run code, read files or exhaust the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import jinja2
from jinja2 import nodes

from fusiest.errors import Source, SpecError
from fusiest.spec.template_functions import BUILTINS
from fusiest.spec.template_run import MAX_LINES, MAX_OUTPUT, Run

MAX_TOKENS = 100_000
MAX_DIGITS = 5_000

# Only the lexer and the parser of this environment are used.
_ENVIRONMENT = jinja2.Environment(keep_trailing_newline=True)
# Jinja2's lexer takes hundreds of bytes for each digit of a number and each backslash of a text.
_LONG_NUMBER = re.compile(rf"(?<![0-9a-fA-FxX_])[0-9a-fA-FxX_]{{{MAX_DIGITS + 1}}}")


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a template became; `lines[i]` is the original line, from 1, of line i, from 0."""

    text: str
    lines: Sequence[int]


def render(text: str, file: str, defines: Mapping[str, object]) -> Rendered:
    """Render a template; `file` is what errors call it.

    >>> render("{% for i in range(2) %}\\nn{{i}}: {{N}}\\n{% endfor %}", "f", {"N": 8})
    Rendered(text='\\nn0: 8\\n\\nn1: 8\\n', lines=[1, 2, 3, 2, 3])
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not _is_template(text):
        return Rendered(text, range(1, text.count("\n") + 2))
    run = Run(defines)
    try:
        output = run.render(_parse(text, file))
    except SpecError as error:
        raise SpecError(error.message, at=error.source or Source(file, run.line)) from None
    except (ArithmeticError, ValueError, TypeError, RecursionError, MemoryError) as error:
        reason = (
            "it is nested too deep" if isinstance(error, RecursionError) else f"a value has the wrong type ({error})"
        )
        raise SpecError(f"the template cannot be rendered: {reason}", at=Source(file, run.line)) from None
    return Rendered("".join(output.parts), output.lines)


def undeclared(text: str, file: str = "<template>") -> set[str]:
    """The names that a template takes from outside: those that a define can give.

    >>> sorted(undeclared("{% set M = M | default(1) %}{% for i in range(N) %}{{i}}{% endfor %}"))
    ['M', 'N']
    """
    if not _is_template(text):
        return set()
    try:
        return _free([_parse(text, file)], set(BUILTINS))
    except RecursionError:
        raise SpecError("the template is nested too deep", at=Source(file, 1)) from None


def _is_template(text: str) -> bool:
    return "{{" in text or "{%" in text or "{#" in text


def _parse(text: str, file: str) -> nodes.Template:
    if len(text) > MAX_OUTPUT or text.count("\n") > MAX_LINES:
        raise SpecError(f"a template may have {MAX_OUTPUT // 1_000_000} MB and {MAX_LINES:,} lines", at=Source(file, 1))
    long = _LONG_NUMBER.search(text)
    if long:
        line = text.count("\n", 0, long.start()) + 1
        raise SpecError(f"a number of more than {MAX_DIGITS:,} digits", at=Source(file, line))
    if text.count("\\") > MAX_TOKENS:
        raise SpecError(f"the template has more than {MAX_TOKENS:,} backslashes", at=Source(file, 1))
    try:
        for count, (line, _, _) in enumerate(_ENVIRONMENT.lexer.tokeniter(text, None)):
            if count > MAX_TOKENS:
                raise SpecError(f"the template has more than {MAX_TOKENS:,} words", at=Source(file, line))
        return _ENVIRONMENT.parse(text)
    except jinja2.TemplateSyntaxError as error:
        message = " ".join((error.message or "it cannot be parsed").split())
        raise SpecError(f"the template is not valid Jinja: {message}", at=Source(file, error.lineno)) from None
    except (RecursionError, MemoryError, ValueError, OverflowError):
        raise SpecError(
            "the template cannot be parsed: it is nested too deep or too large", at=Source(file, 1)
        ) from None


def _free(trees: Iterable[nodes.Node], bound: set[str]) -> set[str]:
    """Names that are read before anything in these trees, in this order, has bound them. Adds to `bound`."""
    found: set[str] = set()
    for tree in trees:
        if isinstance(tree, nodes.Name):
            if tree.ctx == "load" and tree.name not in bound:
                found.add(tree.name)
        elif isinstance(tree, nodes.For):
            inner = bound | _targets(tree.target) | {"loop"}
            found |= _free([tree.iter], set(bound)) | _free([tree.test] if tree.test else [], set(inner))
            found |= _free(tree.body, inner) | _free(tree.else_, set(bound))
        elif isinstance(tree, nodes.If):
            found |= _free([tree.test], bound)
            for branch in (tree.body, tree.elif_, tree.else_):
                found |= _free(branch, set(bound))
        elif isinstance(tree, nodes.Macro):
            bound.add(tree.name)
            found |= _free(tree.defaults, set(bound))
            found |= _free(tree.body, bound | {argument.name for argument in tree.args})
        elif isinstance(tree, nodes.With):
            found |= _free(tree.values, set(bound))
            found |= _free(tree.body, bound.union(*(_targets(target) for target in tree.targets)))
        elif isinstance(tree, (nodes.Assign, nodes.AssignBlock)):
            found |= _free([tree.node] if isinstance(tree, nodes.Assign) else tree.body, bound)
            bound |= _targets(tree.target)
        else:
            found |= _free(tree.iter_child_nodes(), bound)
    return found


def _targets(target: nodes.Node) -> set[str]:
    return {target.name} if isinstance(target, nodes.Name) else {name.name for name in target.find_all(nodes.Name)}
