"""Softmax and normalizations as cascades of Einsums: each reduction, and each pass over the tensor, is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from fusiest.networks.graph.graph import GraphNode
from fusiest.networks.lowering import views
from fusiest.networks.lowering.extents import Axis
from fusiest.networks.lowering.lower import Lowering, Recipe, lowers
from fusiest.networks.lowering.making import Unfit, axis_labels, labelled
from fusiest.networks.lowering.tensors import Apply, Expression, NetAccess, View, apply
from fusiest.networks.lowering.views import laid

Labels = Sequence[str | None]


def _without(labels: Labels, axes: Sequence[int]) -> list[str | None]:
    return [None if i in axes else label for i, label in enumerate(labels)]


# --- softmax --------------------------------------------------------------------------------------------------------


@lowers("Softmax", "LogSoftmax")
def softmax(lowering: Lowering, node: GraphNode) -> None:
    """Lower Softmax as the option says: as a cascade, one with the division after the next product, or one Einsum."""
    view = lowering.view(node.inputs[0])
    axes = [axis % len(view.axes) for axis in node.get("axes", [-1])]
    divided = softmax_of(lowering, node, view, axes)
    if isinstance(divided, Apply) and not (lowering.options.softmax == "deferred" and defers(lowering, node, axes)):
        divided = lowering.materialized(divided)
    lowering.define(node, divided)


def softmax_of(lowering: Lowering, node: GraphNode, view: View, axes: Sequence[int]) -> View | Apply:
    """The cascade over some axes of a view, up to the division, which waits; or one Einsum."""
    labels = axis_labels(view.shape)
    if lowering.options.softmax == "online":
        return _online(lowering, node, view, labels, axes)
    inner = _without(labels, axes)
    most = lowering.einsum(node, [(view, labels)], inner, _reduce("max", "max"))
    shifted = Recipe("exp", lambda a, _: apply("Exp", apply("Sub", a[0], a[1])), suffix="exp")
    raised = lowering.einsum(node, [(view, labels), (most, inner)], labels, shifted)
    total = lowering.einsum(node, [(raised, labels)], inner, _reduce("sum", "sum"))
    if node.operator == "LogSoftmax":
        logarithm = Recipe("log_softmax", lambda a, _: apply("Sub", apply("Sub", a[0], a[1]), apply("Log", a[2])))
        return lowering.einsum(node, [(view, labels), (most, inner), (total, inner)], labels, logarithm)
    return Apply("Div", (raised, views.expand(total, view.shape)), {"deferred": True}, node)


def defers(lowering: Lowering, node: GraphNode, axes: Sequence[int]) -> bool:
    """Whether the one reader of a softmax is a product that sums over what the softmax normalizes."""
    name, rank = node.outputs[0], len(lowering.shape(node.outputs[0]))
    while True:
        readers = lowering.readers(name)
        if len(readers) != 1 or name in lowering.graph.outputs:
            return False
        if readers[0].operator not in ("Identity", "Reshape", "Cast"):
            break
        name = readers[0].outputs[0]
    reader = readers[0]
    return reader.operator == "MatMul" and reader.inputs[0] == name and [axis % rank for axis in axes] == [rank - 1]


def _online(lowering: Lowering, node: GraphNode, view: View, labels: Labels, axes: Sequence[int]) -> View:
    def body(accesses: Sequence[NetAccess], variables: Mapping[str, Sequence[Axis]]) -> Expression:
        over = [v for axis in axes if (label := labels[axis]) is not None for v in variables[label]]
        return apply("LogSoftmax" if node.operator == "LogSoftmax" else "Softmax", accesses[0], over=over)

    return lowering.einsum(node, [(view, labels)], labels, Recipe("softmax", body))


def _reduce(operation: str, suffix: str) -> Recipe:
    return Recipe(operation, lambda a, _: a[0], reduction=operation, suffix=suffix)


# --- normalizations -------------------------------------------------------------------------------------------------


def _inverse_deviation(epsilon: float, operation: str) -> Recipe:
    """1 / sqrt(mean of squares + epsilon)."""
    return Recipe(
        operation,
        lambda a, _: apply("Mul", a[0], a[0]),
        "mean",
        operation,
        lambda mean: apply("Reciprocal", apply("Sqrt", apply("Add", mean, apply("Constant", value=epsilon)))),
    )


class Normalized(NamedTuple):
    """The result, and the means and inverse deviations that it used."""

    result: View
    mean: View | None
    deviation: View


def normalized(
    lowering: Lowering, node: GraphNode, view: View, axes: Sequence[int], gamma: View | None, centred: bool
) -> Normalized:
    """The cascade over some axes of a view."""
    labels = axis_labels(view.shape)
    inner = _without(labels, axes)
    mean, epsilon = None, float(node.get("epsilon", 1e-5))
    if centred:
        mean = lowering.einsum(node, [(view, labels)], inner, _reduce("mean", "mean"))
        centre = Recipe("subtract", lambda a, _: apply("Sub", a[0], a[1]), suffix="centered")
        view = lowering.einsum(node, [(view, labels), (mean, inner)], labels, centre)
    deviation = lowering.einsum(
        node, [(view, labels)], inner, _inverse_deviation(epsilon, "variance" if centred else "square")
    )
    operands: list[tuple[View, Labels]] = [(view, labels), (deviation, inner)]
    if gamma is not None:
        operands.append((gamma, labelled(labels, gamma.shape)))

    def body(accesses: Sequence[NetAccess], _: object) -> Expression:
        scaled = apply("Mul", accesses[0], accesses[1])
        return apply("Mul", scaled, accesses[2]) if gamma is not None else scaled

    return Normalized(lowering.einsum(node, operands, labels, Recipe("multiply", body)), mean, deviation)


def _shifted(node: GraphNode, view: View, beta: View | None) -> View | Apply:
    return view if beta is None else Apply("Add", (view, views.expand(beta, view.shape)), {}, node)


def _parameters(
    lowering: Lowering, node: GraphNode, applied: Callable[[Sequence[int]], Sequence[int]]
) -> tuple[View | None, View | None]:
    """Scale and shift of a normalization in the shapes in which they are applied, which follow from those that they have."""
    scale, shift = (
        laid(lowering.view(name), applied(lowering.shape(name))) if name else None for name in map(node.input, (1, 2))
    )
    return scale, shift


@lowers("LayerNormalization", "RMSNormalization")
def layer_normalization(lowering: Lowering, node: GraphNode) -> None:
    """Over the last axes, from `axis` on."""
    view = lowering.view(node.inputs[0])
    rank = len(view.axes)
    axes = range(int(node.get("axis", -1)) % rank, rank)
    whole = [1] * axes.start + list(view.shape[axes.start :])

    def applied(shape: Sequence[int]) -> Sequence[int]:
        return [1] * (rank - len(shape)) + list(shape) if prod(shape) != prod(whole) else whole

    gamma, beta = _parameters(lowering, node, applied)
    centred = node.operator == "LayerNormalization"
    result, mean, deviation = normalized(lowering, node, view, axes, gamma, centred)
    lowering.define(node, _shifted(node, result, beta), *([mean, deviation] if mean is not None else []))


@lowers("InstanceNormalization")
def instance_normalization(lowering: Lowering, node: GraphNode) -> None:
    """Over the axes of the image."""
    view = lowering.view(node.inputs[0])
    shape = [1, view.shape[1]] + [1] * (len(view.axes) - 2)
    gamma, beta = _parameters(lowering, node, lambda _: shape)
    result = normalized(lowering, node, view, range(2, len(view.axes)), gamma, centred=True).result
    lowering.define(node, _shifted(node, result, beta))


@lowers("GroupNormalization")
def group_normalization(lowering: Lowering, node: GraphNode) -> None:
    """Over the image and the channels of a group: the channel rank is split."""
    view = lowering.view(node.inputs[0])
    groups, channels = int(node.get("num_groups", 1)), view.shape[1]
    if channels % groups:
        raise Unfit(f"{channels} channels are no {groups} groups")
    split = laid(view, [view.shape[0], groups, channels // groups, *view.shape[2:]])
    image = [1] * (len(view.axes) - 2)

    def applied(shape: Sequence[int]) -> Sequence[int]:
        return [1, groups, channels // groups if shape[0] == channels else 1, *image]

    gamma, beta = _parameters(lowering, node, applied)
    result = normalized(lowering, node, split, range(2, len(split.axes)), gamma, centred=True).result
    beta = laid(views.expand(beta, split.shape), view.shape) if beta is not None else None
    lowering.define(node, _shifted(node, laid(result, view.shape), beta))
