"""Products that are summed up: convolutions, matrix products, Einsums, attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fusiest.networks.graph.graph import GraphNode
from fusiest.networks.lowering import views
from fusiest.networks.lowering.elementwise import reaches_softmax
from fusiest.networks.lowering.lower import Lowering, Recipe, lowers
from fusiest.networks.lowering.making import Operand, Subscript, Unfit, Window, labelled
from fusiest.networks.lowering.tensors import Apply, Expression, NetAccess, View, apply
from fusiest.networks.lowering.views import laid

SPACE = ("o", "p", "q")
KERNEL = ("t", "r", "s")
MAX_OPERANDS, MAX_LABELS = 256, 60
"""Most operands and indices of an Einsum of ONNX, whose indices are letters."""
_PASSED = ("Identity", "Reshape", "Cast", "Dropout")


def product(suffix: str = "") -> Recipe:
    """The product of all operands, summed up."""

    def body(accesses: Sequence[NetAccess], _: object) -> Expression:
        result: Expression = accesses[0]
        for access in accesses[1:]:
            result = apply("Mul", result, access)
        return result

    return Recipe("matmul", body, "sum", suffix)


# --- convolutions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sliding:
    """A window on the image axes: kernel, stride, dilation and padding of each."""

    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    before: Sequence[int]
    after: Sequence[int]
    outputs: Sequence[int]

    def subscripts(self) -> list[Subscript]:
        """Subscripts of the image axes: p alone where the window is one element, in step."""
        subscripts: list[Subscript] = []
        axes = zip(self.kernel, self.strides, self.dilations, self.before, self.after, strict=True)
        for i, (kernel, stride, dilation, before, after) in enumerate(axes):
            terms = ((f"p{i}", stride),) + (((f"r{i}", dilation),) if kernel > 1 else ())
            subscripts.append(f"p{i}" if (kernel, stride, before, after) == (1, 1, 0, 0) else Window(terms, -before))
        return subscripts

    def sizes(self) -> dict[str, int]:
        sizes = {f"p{i}": size for i, size in enumerate(self.outputs)}
        return sizes | {f"r{i}": size for i, size in enumerate(self.kernel)}

    def roles(self) -> dict[str, str]:
        n = len(self.kernel)
        names = {f"p{i}": role for i, role in enumerate(SPACE[-n:])}
        return names | {f"r{i}": role for i, role in enumerate(KERNEL[-n:])}

    @property
    def image(self) -> list[str | None]:
        return [f"p{i}" if size > 1 else None for i, size in enumerate(self.outputs)]

    @property
    def window(self) -> list[str | None]:
        return [f"r{i}" if size > 1 else None for i, size in enumerate(self.kernel)]


def sliding(node: GraphNode, kernel: Sequence[int], outputs: Sequence[int]) -> Sliding:
    """The window that a node's attributes describe; `pads` are resolved by the reader."""
    n = len(kernel)
    pads = node.get("pads", [0] * 2 * n)
    strides, dilations = node.get("strides", [1] * n), node.get("dilations", [1] * n)
    return Sliding(kernel, strides, dilations, pads[:n], pads[n:], outputs)


@dataclass(frozen=True, slots=True)
class Quantization:
    """The inputs of a product by what they are; empty names where there is none."""

    first: str
    second: str
    zero_points: tuple[str, str] = ("", "")
    scales: tuple[str, ...] = ()
    """Scales of the first, the second and the result, and the zero point of the result."""
    bias: str = ""


def quantization(node: GraphNode) -> Quantization:
    """How the operators order their inputs."""
    at = node.input
    match node.operator:
        case "QLinearConv" | "QLinearMatMul":
            return Quantization(at(0), at(3), (at(2), at(5)), (at(1), at(4), at(6), at(7)), at(8))
        case "ConvInteger" | "MatMulInteger":
            return Quantization(at(0), at(1), (at(2), at(3)))
    return Quantization(at(0), at(1), bias=at(2))


def contracted(
    lowering: Lowering,
    node: GraphNode,
    operands: Sequence[Operand],
    output: Sequence[str | None],
    channels: Sequence[str | None] = (),
    sizes: Mapping[str, int] | None = None,
    roles: Mapping[str, str] | None = None,
) -> View:
    """The Einsum of a product of two, less their zero points, which cost nothing."""
    all_operands = list(operands)
    zero_points: list[int | None] = []
    for name in quantization(node).zero_points:
        zero_points.append(len(all_operands) if name else None)
        if name:
            view = lowering.view(name)
            all_operands.append((view, channels if lowering.graph.values[name].size > 1 else [None] * len(view.axes)))

    body_accesses: list[NetAccess] = []

    def body(accesses: Sequence[NetAccess], _: object) -> Expression:
        body_accesses.extend(accesses)
        pairs = zip(accesses, zero_points, strict=False)
        left, right = (
            apply("Sub", operand, accesses[zero]) if zero is not None else operand for operand, zero in pairs
        )
        return apply("Mul", left, right)

    result = lowering.einsum(node, all_operands, output, Recipe("matmul", body, "sum"), sizes, roles)
    einsum = lowering.einsums[-1]
    einsum.folded += [access for access in einsum.reads if access in body_accesses[2:]]
    einsum.reads = [access for access in einsum.reads if access in body_accesses[:2]]
    return result


def finished(lowering: Lowering, node: GraphNode, result: View, channel_axis: int = -1) -> View | Apply:
    """The result with its bias, scaled as quantization says: to be folded."""
    operands = quantization(node)
    value: View | Apply = result
    if operands.bias:
        value = Apply("Add", (value, _along(lowering, operands.bias, result, channel_axis)), {}, node)
    if operands.scales:
        names = [name for name in operands.scales if name]
        scales = [_along(lowering, name, result, channel_axis) for name in names]
        unsigned = not operands.scales[3] or lowering.graph.values[operands.scales[3]].unsigned
        value = Apply("Requantize", (value, *scales), {"unsigned": unsigned}, node)
    return value


def _along(lowering: Lowering, name: str, result: View, axis: int) -> View:
    """A constant for each channel, or one for all."""
    view = lowering.view(name)
    if lowering.graph.values[name].size == 1:
        return views.expand(laid(view, [1] * len(result.axes)), result.shape)
    axis %= len(result.axes)
    return views.expand(laid(view, [size if i == axis else 1 for i, size in enumerate(result.shape)]), result.shape)


@lowers("Conv", "ConvInteger", "QLinearConv")
def convolution(lowering: Lowering, node: GraphNode) -> None:
    """`O[b,g,k,p,q] = I[b,g,c, H: s*p + d*r - pad, …] * W[g,k,c,r,s]`; groups split the channels."""
    operands = quantization(node)
    x, w = lowering.view(operands.first), lowering.view(operands.second)
    shape = lowering.shape(node.outputs[0])
    groups = int(node.get("group", 1))
    inputs, outputs = x.shape[1] // groups, w.shape[0] // groups
    slide = sliding(node, w.shape[2:], shape[2:])
    x = laid(x, [x.shape[0], groups, inputs, *x.shape[2:]])
    w = laid(w, [groups, outputs, inputs, *w.shape[2:]])
    n, g, c, k = labelled("ngck", (x.shape[0], groups, inputs, outputs))
    result = contracted(
        lowering,
        node,
        [(x, [n, g, c, *slide.subscripts()]), (w, [g, k, c, *slide.window])],
        [n, g, k, *slide.image],
        [k] if groups == 1 else [g],
        slide.sizes(),
        {"n": "b", "g": "g" if inputs > 1 or outputs > 1 else "c", "c": "c", "k": "c", **slide.roles()},
    )
    lowering.define(node, finished(lowering, node, laid(result, shape), 1))


# --- matrix products ------------------------------------------------------------------------------------------------


@lowers("MatMul", "MatMulInteger", "QLinearMatMul")
def matrix_product(lowering: Lowering, node: GraphNode) -> None:
    """`O[…,m,n] = A[…,m,k] * B[…,k,n]`; what is broadcast has fewer ranks."""
    operands = quantization(node)
    first, second = lowering.expression(operands.first), lowering.view(operands.second)
    if node.get("transB"):
        second = views.transpose(second, [*range(len(second.axes) - 2), -1, -2])
    divisor: View | None = None
    if isinstance(first, Apply) and first.attributes.get("deferred"):
        first, divisor = (argument for argument in first.arguments if isinstance(argument, View))
    else:
        first = lowering.view(operands.first)
    suffix = _part_of_attention(lowering, node)
    if divisor is None:
        result = matmul_of(lowering, node, first, second, lowering.shape(node.outputs[0]), suffix)
        lowering.define(node, finished(lowering, node, result))
    else:
        result = matmul_of(lowering, node, first, second, lowering.shape(node.outputs[0]), f"{suffix}_numerator")
        lowering.define(node, divided_by(lowering, node, result, divisor, suffix))


def divided_by(lowering: Lowering, node: GraphNode, result: View, divisor: View, suffix: str) -> View:
    """The division that a softmax left to the product after it; all columns of the divisor are alike."""
    per_row = views.cut_out(divisor, len(divisor.axes) - 1, 0, 1)
    assert per_row is not None
    quotient = lowering.materialized(Apply("Div", (result, views.expand(per_row, result.shape)), {}, node))
    lowering.einsums[-1].suffix = suffix
    return quotient


def _part_of_attention(lowering: Lowering, node: GraphNode) -> str:
    """`qk` on the way to a softmax, `av` after one."""
    if lowering.is_constant(node.inputs[0]) or lowering.is_constant(node.inputs[1]):
        return ""
    if reaches_softmax(lowering, node):
        return "qk"
    name = node.inputs[0]
    while (maker := lowering.producer(name)) is not None and maker.operator in _PASSED:
        name = maker.inputs[0]
    return "av" if maker is not None and maker.operator == "Softmax" else ""


def matmul_of(
    lowering: Lowering, node: GraphNode, first: View, second: View, shape: Sequence[int], suffix: str = ""
) -> View:
    """The product of two views; `shape` is the result's."""
    rows, columns = len(first.axes) > 1, len(second.axes) > 1
    outer = len(shape) - rows - columns
    batch = [f"b{i}" for i in range(outer)]
    operands: list[Operand] = []
    for view, own_labels in ((first, ["m", "k"] if rows else ["k"]), (second, ["k", "n"] if columns else ["k"])):
        labels = batch[outer - (len(view.axes) - len(own_labels)) :] + own_labels
        operands.append((view, labelled(labels, view.shape)))
    output_labels = [*batch, *(["m"] if rows else []), *(["n"] if columns else [])]
    output = labelled(output_labels, shape)
    roles = (
        {"m": "m", "n": "d", "k": "d"} if second.constant else {"n": "m", "m": "d"} if first.constant else {"m": "m"}
    )
    result = contracted(lowering, node, operands, output, ["n" if shape and shape[-1] > 1 else None], None, roles)
    lowering.einsums[-1].suffix = suffix
    return result


@lowers("Gemm")
def general_product(lowering: Lowering, node: GraphNode) -> None:
    """`alpha * A B + beta * C`, with either of A and B transposed."""
    a, b = lowering.view(node.inputs[0]), lowering.view(node.inputs[1])
    a = views.transpose(a, [1, 0]) if node.get("transA", 0) else a
    b = views.transpose(b, [1, 0]) if node.get("transB", 0) else b
    shape = lowering.shape(node.outputs[0])
    value: View | Apply = matmul_of(lowering, node, a, b, shape)
    value = _scaled(value, float(node.get("alpha", 1.0)), node)
    name = node.input(2)
    if not name:
        lowering.define(node, value)
        return
    beta = float(node.get("beta", 1.0))
    bias_shape = [1] * (2 - len(lowering.shape(name))) + list(lowering.shape(name))
    bias = views.expand(laid(lowering.view(name), bias_shape), shape)
    added = Apply("Add", (value, _scaled(bias, beta, node)), {}, node)
    small = sum(size > 1 for size in bias_shape) <= 1 and lowering.is_constant(name)
    lowering.define(node, added if small else lowering.materialized(added))


def _scaled(value: View | Apply, factor: float, node: GraphNode) -> View | Apply:
    return value if factor == 1 else Apply("Mul", (value, apply("Constant", value=factor)), {}, node)


@lowers("Einsum")
def einsum(lowering: Lowering, node: GraphNode) -> None:
    """Lower Einsum as its equation says. If it only reorders one operand, the result is a view."""
    operands = [lowering.view(name) for name in node.inputs]
    terms, output = equation(str(node.get("equation", "")), [len(view.axes) for view in operands])
    if any(len(set(term)) < len(term) for term in terms):
        raise Unfit("a diagonal")
    sizes = {
        label: size
        for view, term in zip(operands, terms, strict=True)
        for label, size in zip(term, view.shape, strict=True)
        if size > 1
    }
    summed = set(sizes) - set(output)
    if len(operands) == 1 and not summed:
        order = [terms[0].index(label) for label in output]
        order += [i for i in range(len(terms[0])) if i not in order]  # of size 1
        reordered = views.transpose(operands[0], order)
        lowering.define(node, laid(reordered, lowering.shape(node.outputs[0])))
        return
    subscripts = [labelled(term, view.shape) for view, term in zip(operands, terms, strict=True)]
    recipe = product()
    if not summed or len(operands) == 1:
        recipe = replace(recipe, operation="multiply" if not summed else "sum")
    written = [label if label in sizes else None for label in output]
    lowering.define(node, lowering.einsum(node, list(zip(operands, subscripts, strict=True)), written, recipe))


def equation(text: str, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """The labels of the operands and of the output; those of `...` are numbers.

    >>> equation("...ij,...jk->...ik", [3, 3])
    ([['0', 'i', 'j'], ['0', 'j', 'k']], ['0', 'i', 'k'])
    >>> equation("ij,jk", [2, 2])[1]
    ['i', 'k']
    """
    left, arrow, right = text.replace(" ", "").partition("->")
    inputs = left.split(",")
    if len(inputs) != len(ranks):
        raise Unfit("its equation has another number of operands")
    if len(inputs) > MAX_OPERANDS:
        raise Unfit(f"more than {MAX_OPERANDS} operands")
    if len(set(left)) > MAX_LABELS:
        raise Unfit(f"more than {MAX_LABELS} indices")
    most = max(
        (rank - len(term.replace("...", "")) for term, rank in zip(inputs, ranks, strict=True) if "..." in term),
        default=0,
    )

    def labels(term: str, rank: int | None) -> list[str]:
        letters = len(term.replace("...", ""))
        count = most if rank is None else rank - letters
        before, dots, after = term.partition("...")
        middle = [str(i) for i in range(most - count, most)] if dots else []
        term_labels = [*before, *middle, *after]
        if rank is not None and len(term_labels) != rank:
            raise Unfit("its equation has another number of axes than its operands")
        return term_labels

    terms = [labels(term, rank) for term, rank in zip(inputs, ranks, strict=True)]
    if arrow:
        return terms, labels(right, None)
    used = Counter(label for term in terms for label in term)
    once = sorted(label for label, count in used.items() if count == 1 and not label.isdigit())
    return terms, [str(i) for i in range(most)] + once
