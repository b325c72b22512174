"""Components whose `total_latency` is a rate per action, however that is spelled: the search sees them as throughputs.

Busy times of such components add up, so the search knows of them all that it knows of others: which of them can still
be the slowest, and a bound on their remaining time. For any other expression it knows only calls, until all are
counted.
"""

from __future__ import annotations

import ast
import math
from dataclasses import replace

from fusiest.base.frozen import FrozenDict
from fusiest.spec import BoundComponent, Path, parse_expression


def with_throughputs(path: Path) -> Path:
    """Replace every `total_latency` that is a rate per action by throughputs."""
    components = tuple(_with_throughputs(c) if c.total_latency is not None else c for c in path.components)
    return replace(path, components=components) if components != path.components else path


def _with_throughputs(component: BoundComponent) -> BoundComponent:
    """Replace a `total_latency` that is linear in the numbers of calls by throughputs: the seconds of each call add up."""
    assert component.total_latency is not None
    if not is_linear(parse_expression(component.total_latency)) or component.evaluate_latency({}) != 0:
        return component
    seconds = {name: component.evaluate_latency({name: 1.0}) for name in component.actions}
    actions = {}
    for name, each in seconds.items():
        if not isinstance(each, (int, float)) or not 0 <= each < math.inf:
            return component  # what is wrong is said where calls are counted
        actions[name] = replace(component.actions[name], throughput=1 / each if each else math.inf)
    return replace(component, total_latency=None, attributes=FrozenDict(), actions=FrozenDict(actions))


def is_linear(tree: ast.expr) -> bool:
    """Whether an expression is a sum of calls, each times or over a value that does not depend on calls.

    >>> is_linear(parse_expression("2 * sum(a.n_calls / a.throughput for a in actions) / 3"))
    True
    >>> [is_linear(parse_expression(text)) for text in ("sum(a.n_calls for a in actions) + 1", "max(a.n_calls for a in actions)")]
    [False, False]
    """
    match tree:
        case ast.Attribute(attr="n_calls"):
            return True
        case ast.Call(
            func=ast.Name(id="sum"),
            args=[ast.GeneratorExp(elt=each, generators=[ast.comprehension(iter=ast.Name(id="actions"), ifs=[])])],
        ):
            return is_linear(each)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return (is_linear(left) and _is_constant(right)) or (_is_constant(left) and is_linear(right))
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return is_linear(left) and _is_constant(right)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return is_linear(left) and is_linear(right)
    return False


def _is_constant(tree: ast.expr) -> bool:
    """Whether an expression does not depend on calls."""
    parts = list(ast.walk(tree))
    calls = any(isinstance(part, ast.Attribute) and part.attr == "n_calls" for part in parts)
    return not calls and not any(isinstance(part, ast.Name) and part.id == "actions" for part in parts)
