"""Element-wise operators. Functions of one tensor wait as expressions, so that a chain is one; the others are Einsums."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fusiest.networks.graph.graph import GraphNode
from fusiest.networks.lowering import views
from fusiest.networks.lowering.extents import Axis
from fusiest.networks.lowering.lower import LOWER, Lowering, Recipe, distinct_views
from fusiest.networks.lowering.making import Unfit, axis_labels
from fusiest.networks.lowering.tensors import Apply, Expression, NetAccess, View, rebuilt, walk
from fusiest.networks.lowering.views import laid
from fusiest.networks.output.words import AFFINE, operator_word

_NAMES = (
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BatchNormalization BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast Ceil "
    "Celu Clip Cos Cosh DequantizeLinear Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN "
    "LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow QuantizeLinear Reciprocal Relu Round Selu Shrink "
    "Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor"
)
ELEMENTWISE_OPERATORS = frozenset(_NAMES.split())
MAX_WAITING = 40
"""Parts of an expression that waits to be computed: every node looks through all of it."""
_PER_AXIS = {"QuantizeLinear", "DequantizeLinear", "BatchNormalization"}
"""Constants of one axis: that which the attribute `axis` names."""


def elementwise(lowering: Lowering, node: GraphNode) -> None:
    """A function of one tensor stays an expression; of several, it is an Einsum."""
    if node.operator == "BatchNormalization" and _in_training(node):
        raise Unfit("it normalizes by what the batch itself is like (training)")
    shape = lowering.shape(node.outputs[0])
    present = [name for name in node.inputs if name]
    attributes = {**node.attributes, "present": tuple(i for i, name in enumerate(node.inputs) if name)}
    if node.operator == "QuantizeLinear":
        attributes["unsigned"] = not node.input(2) or lowering.graph.values[node.input(2)].unsigned
    for name in present:
        waiting = lowering.expression(name)
        if isinstance(waiting, Apply) and sum(1 for _ in walk(waiting)) > MAX_WAITING:
            lowering.view(name)
    applied = _applied(lowering, node, attributes)
    if not _stays(lowering, node, applied) and sum(not lowering.is_constant(name) for name in present) == 1:
        for name in present:  # a bias that lies on several axes by now has an Einsum, which is folded, before this
            lowering.view(name)
        applied = _applied(lowering, node, attributes)
    if _stays(lowering, node, applied):
        if lowering.options.elementwise == "keep" and node.operator not in AFFINE:
            applied = _after_affine(lowering, node, applied)
        lowering.define(node, applied)
        return
    operands = [_shaped(lowering.view(name), node, lowering.shape(name), shape) for name in present]
    labels = axis_labels(shape)

    def body(accesses: Sequence[NetAccess], _: Mapping[str, Sequence[Axis]]) -> Expression:
        return Apply(node.operator, tuple(accesses), attributes, node)

    recipe = Recipe(operator_word(node.operator), body)
    lowering.define(node, lowering.einsum(node, [(view, labels) for view in operands], labels, recipe))


LOWER.update(dict.fromkeys(ELEMENTWISE_OPERATORS, elementwise))


def _in_training(node: GraphNode) -> bool:
    """Whether statistics are made, not given. Before opset 14 there is no attribute for it, but the outputs are there."""
    return bool(node.get("training_mode", 0)) or any(node.outputs[1:])


def _applied(lowering: Lowering, node: GraphNode, attributes: Mapping[str, Any]) -> Apply:
    shape = lowering.shape(node.outputs[0])

    def argument(name: str) -> Expression:
        return mapped(lowering.expression(name), lambda view: _shaped(view, node, lowering.shape(name), shape))

    return Apply(node.operator, tuple(argument(name) for name in node.inputs if name), attributes, node)


def _shaped(view: View, node: GraphNode, operand_shape: Sequence[int], shape: Sequence[int]) -> View:
    """An operand as large as the result."""
    if node.operator in _PER_AXIS and len(operand_shape) == 1 and operand_shape[0] > 1 and len(shape) > 1:
        axis = int(node.get("axis", 1)) % len(shape)
        return views.expand(laid(view, [operand_shape[0] if i == axis else 1 for i in range(len(shape))]), shape)
    return views.expand(view, shape)


def mapped(expression: View | Apply, function: Callable[[View], View | None]) -> View | Apply:
    """The expression of other views; Unfit where one of them cannot be had."""
    table: dict[int, Expression] = {}
    leaves = [part for part in walk(expression) if isinstance(part, View)]
    for leaf in sorted(leaves, key=lambda view: view.constant):  # what fails must not have split a constant
        new_leaf = function(leaf)
        if new_leaf is None:
            raise Unfit("its shapes do not factor alike")
        table[id(leaf)] = new_leaf
    result = rebuilt(expression, table)
    assert isinstance(result, (View, Apply))
    return result


def _stays(lowering: Lowering, node: GraphNode, applied: Apply) -> bool:
    """Whether this is a function of one tensor and of small constants, not larger than the tensor."""
    leaves = distinct_views(applied)
    tensors = [leaf for leaf in leaves if not leaf.constant]
    if len(tensors) != 1:
        return False
    constants = [leaf for leaf in leaves if leaf.constant]
    if any(factor.axis is None for axis in tensors[0].axes for factor in axis):
        return not any(factor.axis is not None for leaf in constants for axis in leaf.axes for factor in axis)
    return all(_small(leaf) or _is_mask(lowering, node, leaf) for leaf in constants)


def _small(view: View) -> bool:
    """One value, or one for each index of one axis."""
    return sum(any(factor.axis is not None for factor in axis) for axis in view.axes) <= 1


def reaches_softmax(lowering: Lowering, node: GraphNode) -> bool:
    """Whether a node's result goes to softmaxes and nowhere else, element-wise operators and views in between."""
    passed = ELEMENTWISE_OPERATORS | {"Identity", "Reshape", "Dropout", "Squeeze", "Unsqueeze"}
    waiting, seen = [node], {node}
    while waiting:
        readers = lowering.readers(waiting.pop().outputs[0])
        if not readers or any(reader.operator not in passed and reader.operator != "Softmax" for reader in readers):
            return False
        for reader in readers:
            if reader.operator != "Softmax" and reader not in seen:
                seen.add(reader)
                waiting.append(reader)
    return True


def _is_mask(lowering: Lowering, node: GraphNode, view: View) -> bool:
    """A constant that is the same for all but the last two axes, on the way to a softmax."""
    if any(factor.axis is not None for axis in view.axes[:-2] for factor in axis):
        return False
    if not reaches_softmax(lowering, node):
        return False
    lowering.tables.add(view.tensor.source)
    return True


def _after_affine(lowering: Lowering, node: GraphNode, applied: Apply) -> Apply:
    """Biases and scales are no part of a function that is kept: they have an Einsum before it, which can be folded."""
    (tensor,) = [name for name in dict.fromkeys(node.inputs) if name and not lowering.is_constant(name)][:1]
    inner = lowering.expression(tensor)
    parts = [part for part in walk(inner) if isinstance(part, Apply)]
    if isinstance(inner, View) or any(part.operator not in AFFINE for part in parts):
        return applied
    nodes = [part.node for part in parts if part.node is not None and part.node.operator in ELEMENTWISE_OPERATORS]
    if any(
        len(lowering.readers(name)) > 1
        for applied_node in nodes
        for name in applied_node.inputs
        if name and not lowering.is_constant(name)
    ):
        return applied  # it could not be folded, and the function may need the tensor once more
    lowering.view(tensor)
    return _applied(lowering, node, applied.attributes)
