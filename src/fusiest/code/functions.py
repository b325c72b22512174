"""What functions of a formula mean: a few are primitive, in NumPy, C and TVM; all others are formulas of these."""

from __future__ import annotations

import functools
from typing import NamedTuple

from fusiest.base.errors import SpecError, did_you_mean, shown
from fusiest.spec import Call, Read, Term, parse_formula, replaced

FOLDED = ("add", "multiply", "max", "min")
"""Primitive functions of any number of arguments, from left to right."""


class Primitive(NamedTuple):
    """A function: its name in NumPy, and as text in C and in TVM's script, with places for its arguments."""

    numpy: str
    c: str
    tvm: str

    @property
    def arity(self) -> int:
        return next(i for i in range(3, -1, -1) if f"{{{i - 1}}}" in self.c or i == 0)


def _same_name(name: str, numpy: str) -> Primitive:
    return Primitive(numpy, f"{name}({{0}})", f"T.{name}({{0}})")


PRIMITIVES = {
    "add": Primitive("add", "{0} + {1}", "{0} + {1}"),
    "multiply": Primitive("multiply", "{0} * {1}", "{0} * {1}"),
    "max": Primitive("maximum", "most({0}, {1})", "T.max({0}, {1})"),
    "min": Primitive("minimum", "least({0}, {1})", "T.min({0}, {1})"),
    "negate": Primitive("negative", "-{0}", "-{0}"),
    "reciprocal": Primitive("reciprocal", "1 / {0}", "1 / {0}"),
    "power": Primitive("power", "pow({0}, {1})", "T.pow({0}, {1})"),
    "where": Primitive(
        "where", "({0} != 0 ? {1} : {2})", "T.Select({0} != 0, {1}, {2})"
    ),
    "less": Primitive("less", "({0} < {1})", 'T.Cast("float64", {0} < {1})'),
    "equal": Primitive("equal", "({0} == {1})", 'T.Cast("float64", {0} == {1})'),
    "abs": Primitive("abs", "fabs({0})", "T.fabs({0})"),
    "round": Primitive("rint", "rint({0})", "T.nearbyint({0})"),
    "erf": Primitive("erf", "erf({0})", "T.erf({0})"),
    "remainder": Primitive("fmod", "fmod({0}, {1})", 'T.call_pure_extern("float64", "fmod", {0}, {1})'),
    **{
        name: _same_name(name, numpy)
        for name, numpy in {
            "exp": "exp", "log": "log", "sqrt": "sqrt", "tanh": "tanh", "floor": "floor", "ceil": "ceil", "sin": "sin",
            "cos": "cos", "tan": "tan", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "sinh": "sinh", "cosh": "cosh",
            "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
        }.items()
    },
}  # fmt: skip

_DEFINED = {
    "subtract(a, b)": "a - b",
    "divide(a, b)": "a / b",
    "greater(a, b)": "less(b, a)",
    "less_or_equal(a, b)": "1 - less(b, a)",
    "greater_or_equal(a, b)": "1 - less(a, b)",
    "not_equal(a, b)": "1 - equal(a, b)",
    "not(a)": "equal(a, 0)",
    "and(a, b)": "not_equal(a, 0) * not_equal(b, 0)",
    "or(a, b)": "max(not_equal(a, 0), not_equal(b, 0))",
    "xor(a, b)": "not_equal(not_equal(a, 0), not_equal(b, 0))",
    "sign(x)": "less(0, x) - less(x, 0)",
    "square(x)": "x * x",
    "rsqrt(x)": "1 / sqrt(x)",
    "mod(a, b)": "a - b * floor(a / b)",
    "relu(x)": "max(x, 0)",
    "relu6(x)": "min(max(x, 0), 6)",
    "leaky_relu(x, slope)": "where(less(x, 0), slope * x, x)",
    "elu(x, alpha)": "where(less(x, 0), alpha * (exp(min(x, 0)) - 1), x)",
    "clip(x, low, high)": "min(max(x, low), high)",
    "sigmoid(x)": "1 / (1 + exp(-x))",
    "silu(x)": "x * sigmoid(x)",
    "swish(x)": "x * sigmoid(x)",
    "hard_sigmoid(x)": "clip(x / 6 + 0.5, 0, 1)",
    "hard_swish(x)": "x * hard_sigmoid(x)",
    "softplus(x)": "max(x, 0) + log(1 + exp(-abs(x)))",
    "softsign(x)": "x / (1 + abs(x))",
    "mish(x)": "x * tanh(softplus(x))",
    "gelu(x)": "0.5 * x * (1 + erf(x * 0.7071067811865476))",
    "gelu_tanh(x)": "0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))",
    **{f"{name}(x)": "x" for name in ("identity", "copy", "move", "concat", "pad", "unary")},
}
ROWS = ("softmax", "log_softmax", "rotate", "rotate_pairs")
"""Functions of whole rows, along the last variable of what they read: no function of single points."""
REDUCTIONS = ("sum", "max", "min", "prod", "mean")
"""Of one argument: over all variables that the output does not have."""


class Definition(NamedTuple):
    """A function as a formula of its parameters."""

    parameters: tuple[str, ...]
    body: Term


@functools.cache
def _definitions() -> dict[str, Definition]:
    found = {}
    for head, text in _DEFINED.items():
        name, _, rest = head.rstrip(")").partition("(")
        found[name] = Definition(tuple(rest.split(", ")), parse_formula(text))
    return found


def expanded(term: Term, rows: bool = False) -> Term:
    """A term of primitive functions alone (and of whole rows, if they are allowed); what is none is refused by name.

    >>> expanded(parse_formula("relu(A) + square(B)"))
    Call(function='add', arguments=(Call(function='max', arguments=(Read(tensor='A'), Constant(value=0.0))), \
Call(function='multiply', arguments=(Read(tensor='B'), Read(tensor='B')))))
    """
    return replaced(term, lambda part: _expanded(part, rows) if isinstance(part, Call) else part)


def _expanded(call: Call, rows: bool) -> Term:
    name, given = call.function, len(call.arguments)
    if name in FOLDED or (name in ROWS and rows):
        return call
    definition = _definitions().get(name)
    wanted = (
        len(definition.parameters) if definition is not None else PRIMITIVES[name].arity if name in PRIMITIVES else None
    )
    if wanted is None:
        if name in ROWS:
            raise SpecError(f"{name} is a function of whole rows, not of single points; write it as several Einsums")
        known = (*PRIMITIVES, *_definitions(), *ROWS, *REDUCTIONS)
        raise SpecError(f"it is not known what the function {shown(name)} computes{did_you_mean(name, known)}")
    if given != wanted:
        raise SpecError(f"{name} is a function of {wanted} argument{'s' if wanted > 1 else ''}, but has {given}")
    if definition is None:
        return call
    values = dict(zip(definition.parameters, call.arguments, strict=True))
    body = replaced(definition.body, lambda part: values[part.tensor] if isinstance(part, Read) else part)
    return expanded(body)
