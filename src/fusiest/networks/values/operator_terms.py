"""ONNX's operators, element by element, as terms of a formula."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fusiest.base.errors import SpecError
from fusiest.networks.graph.graph import ONNX_FLOATING
from fusiest.networks.lowering.tensors import Apply, Expression
from fusiest.spec import Call, Constant, Term

_SAME = {
    "Add": "add", "Sum": "add", "Mul": "multiply", "Max": "max", "Min": "min", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Abs": "abs",
    "Neg": "negate", "Reciprocal": "reciprocal", "Pow": "power", "Tanh": "tanh", "Erf": "erf", "Floor": "floor", "Ceil": "ceil",
    "Round": "round", "Sign": "sign", "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan",
    "Sinh": "sinh", "Cosh": "cosh", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh", "Relu": "relu", "Sigmoid": "sigmoid",
    "HardSwish": "hard_swish", "Softplus": "softplus", "Softsign": "softsign", "Mish": "mish", "Not": "not", "And": "and", "Or": "or",
    "Xor": "xor", "Equal": "equal", "Greater": "greater", "GreaterOrEqual": "greater_or_equal", "Less": "less",
    "LessOrEqual": "less_or_equal", "Where": "where", "PRelu": "leaky_relu", "Identity": "identity", "Softmax": "softmax",
    "LogSoftmax": "log_softmax",
}  # fmt: skip
_SELU = 1.67326319217681884765625, 1.05070102214813232421875


def term_of(expression: Expression, known: Mapping[int, Term]) -> Term:
    """An expression as a term; `known` are its leaves, by identity. An error names what no formula says."""
    found: dict[int, Term] = dict(known)
    waiting = [expression]
    while waiting:
        part = waiting[-1]
        if id(part) in found:
            waiting.pop()
            continue
        if not isinstance(part, Apply):
            raise SpecError(f"it reads a {type(part).__name__} that no Einsum has")
        missing = [argument for argument in part.arguments if id(argument) not in found]
        if missing:
            waiting += missing
            continue
        found[id(part)] = _applied(part, [found[id(argument)] for argument in part.arguments])
    return found[id(expression)]


def _applied(apply: Apply, arguments: list[Term]) -> Term:
    if apply.operator in _SAME:
        return _call(_SAME[apply.operator], *arguments)
    function = _MORE.get(apply.operator)
    if function is None:
        raise SpecError(f"no formula says {apply.operator}")
    return function(apply.attributes, arguments)


def _call(function: str, *arguments: Term | float) -> Term:
    return Call(function, tuple(Constant(a) if isinstance(a, int | float) else a for a in arguments))


def _minus(a: Term | float, b: Term | float) -> Term:
    return _call("add", a, _call("negate", b))


def _over(a: Term | float, b: Term | float) -> Term:
    return _call("multiply", a, _call("reciprocal", b))


def _placed(attributes: Mapping[str, Any], arguments: Sequence[Term]) -> dict[int, Term]:
    """Arguments by their place, where some may be left out."""
    present = attributes.get("present", range(len(arguments)))
    return dict(zip(present, arguments, strict=True))


def _clip(given: Mapping[str, Any], arguments: list[Term]) -> Term:
    placed = _placed(given, arguments)
    low: Term | float | None = placed.get(1, given.get("min"))
    high: Term | float | None = placed.get(2, given.get("max"))
    result = placed[0]
    result = _call("max", result, low) if low is not None else result
    return _call("min", result, high) if high is not None else result


def _cast(given: Mapping[str, Any], arguments: list[Term]) -> Term:
    (x,) = arguments
    if given.get("to") in ONNX_FLOATING:
        return x
    if given.get("to") == 9:
        return _call("not_equal", x, 0)
    return _call("multiply", _call("sign", x), _call("floor", _call("abs", x)))


def _normalized(given: Mapping[str, Any], arguments: list[Term]) -> Term:
    x, scale, bias, mean, variance = arguments
    deviation = _call("sqrt", _call("add", variance, float(given.get("epsilon", 1e-5))))
    return _call("add", _call("multiply", _over(_minus(x, mean), deviation), scale), bias)


def _rounded(x: Term, zero: Term | float, unsigned: bool) -> Term:
    """A quantized value."""
    low, high = (0, 255) if unsigned else (-128, 127)
    return _call("clip", _call("add", _call("round", x), zero), low, high)


def _quantized(given: Mapping[str, Any], arguments: list[Term]) -> Term:
    placed = _placed(given, arguments)
    return _rounded(_over(placed[0], placed[1]), placed.get(2, 0), bool(given.get("unsigned", False)))


def _dequantized(given: Mapping[str, Any], arguments: list[Term]) -> Term:
    placed = _placed(given, arguments)
    return _call("multiply", _minus(placed[0], placed.get(2, 0)), placed[1])


def _requantized(given: Mapping[str, Any], arguments: list[Term]) -> Term:
    x, a, b, y, *zero = arguments
    return _rounded(_over(_call("multiply", x, a, b), y), zero[0] if zero else 0, bool(given["unsigned"]))


def _number(given: Mapping[str, Any], name: str, default: float) -> float:
    value = given.get(name)
    return default if value is None else float(value)


_MORE: dict[str, Callable[[Mapping[str, Any], list[Term]], Term]] = {
    "Constant": lambda g, a: Constant(float(g["value"])),
    "Sub": lambda g, a: _minus(a[0], a[1]),
    "Div": lambda g, a: _over(a[0], a[1]),
    "Mean": lambda g, a: _over(_call("add", *a), len(a)),
    "Mod": lambda g, a: _call("remainder" if g.get("fmod") else "mod", a[0], a[1]),
    "Clip": _clip,
    "Cast": _cast,
    "BatchNormalization": _normalized,
    "QuantizeLinear": _quantized,
    "DequantizeLinear": _dequantized,
    "Requantize": _requantized,
    "QuantizationScale": lambda g, a: _over(_minus(_call("max", a[1], 0), _call("min", a[0], 0)), 255),
    "QuantizationZero": lambda g, a: _call("clip", _call("round", _over(_call("negate", _call("min", a[0], 0)), a[2])), 0, 255),
    "AddMask": lambda g, a: _call("where", a[1], a[0], float("-inf")),
    "LeakyRelu": lambda g, a: _call("leaky_relu", a[0], _number(g, "alpha", 0.01)),
    "Elu": lambda g, a: _call("elu", a[0], _number(g, "alpha", 1)),
    "Selu": lambda g, a: _call(
        "multiply", _number(g, "gamma", _SELU[1]), _call("elu", a[0], _number(g, "alpha", _SELU[0]))
    ),
    "Celu": lambda g, a: _call(
        "multiply", _number(g, "alpha", 1), _call("elu", _over(a[0], _number(g, "alpha", 1)), 1)
    ),
    "ThresholdedRelu": lambda g, a: _call("where", _call("greater", a[0], _number(g, "alpha", 1)), a[0], 0),
    "HardSigmoid": lambda g, a: _call(
        "clip", _call("add", _call("multiply", _number(g, "alpha", 0.2), a[0]), _number(g, "beta", 0.5)), 0, 1
    ),
    "Shrink": lambda g, a: _call(
        "where", _call("less", a[0], -_number(g, "lambd", 0.5)), _call("add", a[0], _number(g, "bias", 0)),
        _call("where", _call("greater", a[0], _number(g, "lambd", 0.5)), _minus(a[0], _number(g, "bias", 0)), 0)),
    "Gelu": lambda g, a: _call("gelu_tanh" if g.get("approximate") == "tanh" else "gelu", a[0]),
    "Swish": lambda g, a: _call("multiply", a[0], _call("sigmoid", _call("multiply", _number(g, "alpha", 1), a[0]))),
    "RotaryEmbedding": lambda g, a: _call("rotate_pairs" if g.get("interleaved") else "rotate", *a),
}  # fmt: skip
