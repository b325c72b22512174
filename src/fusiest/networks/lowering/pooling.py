"""Pooling and reductions: windows and whole axes of one tensor, summed up or compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from fusiest.networks.graph.graph import GraphNode
from fusiest.networks.lowering.contractions import Sliding, sliding
from fusiest.networks.lowering.lower import Lowering, Recipe, RecipeBody, lowers
from fusiest.networks.lowering.making import Subscript, Window, axis_labels, labelled
from fusiest.networks.lowering.tensors import Apply, Expression, NetAccess, View, apply
from fusiest.networks.lowering.views import laid

_REDUCTIONS = {
    "ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "max", "ReduceMin": "min", "ReduceProd": "prod", "ReduceL1": "sum",
    "ReduceL2": "sum", "ReduceSumSquare": "sum", "ReduceLogSum": "sum", "ReduceLogSumExp": "sum", "ArgMax": "argmax",
    "ArgMin": "argmin", "GlobalAveragePool": "mean", "GlobalMaxPool": "max", "GlobalLpPool": "sum",
}  # fmt: skip


@lowers("MaxPool", "AveragePool", "LpPool")
def pool(lowering: Lowering, node: GraphNode) -> None:
    """`O[b,c,p,q] = I[b,c, H: s*p + d*r - pad, …]`."""
    view = lowering.view(node.inputs[0])
    shape = lowering.shape(node.outputs[0])
    slide = sliding(node, node.get("kernel_shape"), shape[2:])
    if node.operator == "MaxPool" or not node.get("count_include_pad", 0):
        slide = _on_images(slide, view.shape[2:])
    n, c = labelled("nc", shape[:2])
    kind = {"MaxPool": "max", "AveragePool": "mean", "LpPool": "sum"}[node.operator]
    if kind == "mean":
        padding = node.get("count_include_pad", 0)
        kind = "mean" if padding and not node.get("ceil_mode", 0) else "mean_padded" if padding else "mean_inside"
    power = float(node.get("p", 2))
    recipe = Recipe("sum" if kind.startswith("mean") else kind, _powers(node, power), kind, after=_roots(node, power))
    subscripts: list[Subscript] = [n, c, *slide.subscripts()]
    roles = {"n": "b", "c": "c", **slide.roles()}
    result = lowering.einsum(node, [(view, subscripts)], [n, c, *slide.image], recipe, slide.sizes(), roles)
    lowering.define(node, result)


def _on_images(slide: Sliding, image: Sequence[int]) -> Sliding:
    """Along an axis of size 1, every window has its only element, and whatever it adds does not count."""
    is_single = [size == 1 for size in image]

    def replaced(numbers: Sequence[int], value: int) -> list[int]:
        return [value if single else number for single, number in zip(is_single, numbers, strict=True)]

    return Sliding(
        replaced(slide.kernel, 1),
        replaced(slide.strides, 1),
        replaced(slide.dilations, 1),
        replaced(slide.before, 0),
        replaced(slide.after, 0),
        slide.outputs,
    )


@lowers(*_REDUCTIONS)
def reduce(lowering: Lowering, node: GraphNode) -> None:
    """Over whole axes, all of them if none is named."""
    view = lowering.view(node.inputs[0])
    rank = len(view.axes)
    axes = [
        axis % rank for axis in node.get("axes", range(2, rank) if node.operator.startswith("Global") else range(rank))
    ]
    labels = axis_labels(view.shape)
    inner = [label for i, label in enumerate(labels) if i not in axes]
    kind = _REDUCTIONS[node.operator]
    power = {"ReduceL1": 1.0, "ReduceL2": 2.0}.get(node.operator, float(node.get("p", 2)))
    recipe = Recipe("sum" if kind == "mean" else kind, _powers(node, power), kind, after=_roots(node, power))
    if not any(labels[axis] for axis in axes) and kind in ("sum", "mean", "max", "min", "prod"):
        recipe = Recipe("unary", recipe.body, None, after=recipe.after)
    result = lowering.einsum(node, [(view, labels)], inner, recipe)
    lowering.define(node, laid(result, lowering.shape(node.outputs[0])))


def _powers(node: GraphNode, power: float) -> RecipeBody:
    def body(accesses: Sequence[NetAccess], _: object) -> Expression:
        access = accesses[0]
        if node.operator in ("ReduceL2", "ReduceSumSquare"):
            return apply("Mul", access, access)
        if node.operator in ("LpPool", "GlobalLpPool", "ReduceL1"):
            return apply("Pow", apply("Abs", access), apply("Constant", value=power))
        return apply("Exp", access) if node.operator == "ReduceLogSumExp" else access

    return body


def _roots(node: GraphNode, power: float) -> Callable[[Expression], Expression]:
    def after(result: Expression) -> Expression:
        if node.operator == "ReduceL2":
            return apply("Sqrt", result)
        if node.operator in ("LpPool", "GlobalLpPool"):
            return apply("Pow", result, apply("Constant", value=1 / power))
        return apply("Log", result) if node.operator in ("ReduceLogSum", "ReduceLogSumExp") else result

    return after


@lowers("LRN")
def local_response(lowering: Lowering, node: GraphNode) -> None:
    """`N[c] = X[C: c + r - half]` of squares, then the division by its power."""
    view = lowering.view(node.inputs[0])
    size, channels = int(node.get("size", 1)), view.shape[1]
    alpha, beta, bias = (
        float(node.get(name, default)) for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    labels = axis_labels(view.shape)
    window: list[Subscript] = list(labels)
    window[1] = Window((("a1", 1), ("r", 1)), -((size - 1) // 2))

    def scale(result: Expression) -> Expression:
        scaled = apply("Mul", result, apply("Constant", value=alpha / size))
        return apply("Pow", apply("Add", scaled, apply("Constant", value=bias)), apply("Constant", value=-beta))

    squares = Recipe("sum", lambda a, _: apply("Mul", a[0], a[0]), "sum", "norm", scale)
    roles = {"a0": "b", "a1": "c", "r": "r"}
    norm = lowering.einsum(node, [(view, window)], labels, squares, {"a1": channels, "r": size}, roles)
    product = Recipe("multiply", lambda a, _: apply("Mul", a[0], a[1]))
    lowering.define(node, lowering.einsum(node, [(view, labels), (norm, labels)], labels, product))


@lowers("DynamicQuantizeLinear")
def dynamic_quantization(lowering: Lowering, node: GraphNode) -> None:
    """The least and the greatest value, scale and zero point of them, then each element."""
    view = lowering.view(node.inputs[0])
    labels = axis_labels(view.shape)
    least, most = (
        lowering.einsum(
            node, [(view, labels)], [], Recipe(kind, lambda a, _: a[0], kind if prod(view.shape) > 1 else None, kind)
        )
        for kind in ("min", "max")
    )
    extremes: list[tuple[View, list[str | None]]] = [(least, []), (most, [])]
    scale = lowering.einsum(
        node, extremes, [], Recipe("subtract", lambda a, _: apply("QuantizationScale", *a), suffix="scale")
    )
    zero = lowering.einsum(
        node, [*extremes, (scale, [])], [], Recipe("round", lambda a, _: apply("QuantizationZero", *a), suffix="zero")
    )
    operands = [(view, labels), (scale, []), (zero, [])]
    recipe = Recipe("quantize", lambda a, _: Apply("QuantizeLinear", tuple(a), {"unsigned": True}))
    lowering.define(node, lowering.einsum(node, operands, labels, recipe), scale, zero)
