"""Words for what an expression computes, as an Einsum's `operation` and its text say it."""

from __future__ import annotations

import re

from fusiest.networks.lowering.tensors import Apply, Expression, walk

_WORDS = {
    "Mul": "multiply", "Sub": "subtract", "Div": "divide", "Neg": "negate", "Pow": "power", "Swish": "silu", "Sum": "add",
}  # fmt: skip
AFFINE = frozenset(["Add", "Sub", "Mul", "Div", "Neg", "Cast", "Identity", "BatchNormalization", "QuantizeLinear",
                    "DequantizeLinear"])  # fmt: skip
"""Operators with constants that cost nothing where another operation is done anyway."""


def operator_word(operator: str) -> str:
    """ONNX's name of an operator as a word.

    >>> operator_word("HardSwish"), operator_word("Mul")
    ('hard_swish', 'multiply')
    """
    return _WORDS.get(operator, re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", operator).lower())


def word_of(expression: Expression) -> str:
    """What an expression computes: the well-known name of its operations together, or else the outermost one."""
    operators = [part.operator for part in walk(expression) if isinstance(part, Apply)]
    operations = set(operators) - {"Cast", "Identity"}
    if "Erf" in operations or {"Tanh", "Pow"} <= operations:
        return "gelu"
    if operations - AFFINE == {"Sigmoid"} and operators[0] == "Mul":
        return "silu"
    if operations - AFFINE == {"HardSigmoid"} and operators[0] == "Mul":
        return "hard_swish"
    telling = [operator for operator in operators if operator not in AFFINE]
    return operator_word(telling[0] if telling else operators[0] if operators else "Identity")
