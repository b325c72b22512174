"""Operators of ONNX Runtime, which its optimized models have, as the operators of ONNX that they are made of.

What is not here, or is used in another way, stays as it is: a cut, if the file says its shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx

DOMAINS = ("com.microsoft", "", "ai.onnx")
ShapeLookup = Callable[[str], Sequence[int]]
"""The shape of a value that was made before; empty if there is none."""


class _ContribCall:
    """A call of such an operator, and the nodes that stand for it."""

    def __init__(self, node: onnx.NodeProto, shape: ShapeLookup) -> None:
        from onnx import helper

        self.node, self.shape = node, shape
        self.attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self.nodes: list[onnx.NodeProto] = []

    def input(self, position: int) -> str:
        return self.node.input[position] if position < len(self.node.input) else ""

    def output(self, position: int) -> str:
        return self.node.output[position] if position < len(self.node.output) else ""

    def get(self, name: str, default: Any = 0) -> Any:
        return self.attributes.get(name, default)

    def add(
        self, operator: str, inputs: Sequence[str], outputs: Sequence[str] | int = 1, **attributes: Any
    ) -> list[str]:
        """One more node; its outputs are named, or so many."""
        from onnx import helper

        name = f"{self.node.name or self.node.output[0]}/{operator}_{len(self.nodes)}"
        names = [f"{name}:{i}" for i in range(outputs)] if isinstance(outputs, int) else list(outputs)
        present = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(operator, inputs, names, name, **present))
        return names

    def constant(self, values: Sequence[int]) -> str:
        from onnx import helper

        tensor = helper.make_tensor("value", 7, [len(values)], values)
        return self.add("Constant", [], value=tensor)[0]

    def sum(self, *names: str, into: str = "") -> str:
        """Add a sum of all values that are there."""
        total, *addends = [name for name in names if name]
        for name in addends[:-1]:
            (total,) = self.add("Add", [total, name])
        if addends:
            (total,) = self.add("Add", [total, addends[-1]], [into] if into else 1)
        return total


def standard(node: onnx.NodeProto, shape: ShapeLookup) -> Iterator[onnx.NodeProto]:
    """The node itself, or those that it is made of."""
    expand = _EXPANSIONS.get(node.op_type) if node.domain in DOMAINS else None
    if expand is None or (node.domain != DOMAINS[0] and node.op_type not in _WITHOUT_DOMAIN):
        yield node
        return
    call = _ContribCall(node, shape)
    if expand(call):
        call.nodes[-1].name = node.name or call.nodes[-1].name
        yield from call.nodes
    else:
        yield node


# --- products and functions -------------------------------------------------------------------------------------------


def _product(call: _ContribCall) -> bool:
    """FusedMatMul: either operand may be turned."""
    if call.get("transBatchA") or call.get("transBatchB"):
        return False
    left = "...ji" if call.get("transA") else "...ij"
    right = "...kj" if call.get("transB") else "...jk"
    alpha = float(call.get("alpha", 1.0))
    inputs, output = [call.input(0), call.input(1)], [call.output(0)]
    scaled = alpha != 1.0
    (product,) = call.add("Einsum", inputs, 1 if scaled else output, equation=f"{left},{right}->...ik")
    if scaled:
        (factor,) = call.add("Constant", [], value_float=alpha)
        call.add("Mul", [product, factor], output)
    return True


def _few_bits(call: _ContribCall) -> bool:
    """MatMulNBits: a product with a weight of few bits, in blocks."""
    rows, columns = int(call.get("K")), int(call.get("N"))
    if rows < 1 or columns < 1 or call.input(4):
        return False
    (weight,) = call.add("ConstantOfShape", [call.constant([rows, columns])])
    bias = call.input(5)
    (product,) = call.add("MatMul", [call.input(0), weight], 1 if bias else [call.output(0)])
    if bias:
        call.add("Add", [product, bias], [call.output(0)])
    return True


def _gelu(call: _ContribCall) -> bool:
    kind = "tanh" if call.node.op_type == "FastGelu" else "none"
    call.add("Gelu", [call.sum(call.input(0), call.input(1))], [call.output(0)], approximate=kind)
    return True


def _quick_gelu(call: _ContribCall) -> bool:
    call.add("Swish", [call.input(0)], [call.output(0)], alpha=float(call.get("alpha", 1.702)))
    return True


def _convolution(call: _ContribCall) -> bool:
    """FusedConv: a convolution, a sum, an activation."""
    kind = call.get("activation", b"").decode("utf-8", "replace")
    if kind not in ("Relu", "Sigmoid", "Tanh") or call.get("activation_params", []):
        return False
    attributes = {key: value for key, value in call.attributes.items() if not key.startswith("activation")}
    (convolved,) = call.add("Conv", [name for name in call.node.input[:3] if name], **attributes)
    call.add(kind, [call.sum(convolved, call.input(3))], [call.output(0)])
    return True


# --- normalizations ---------------------------------------------------------------------------------------------------


def _normalization(call: _ContribCall) -> bool:
    """SimplifiedLayerNormalization."""
    epsilon = float(call.get("epsilon", 1e-5))
    inputs = [call.input(0), call.input(1)]
    call.add("RMSNormalization", inputs, [call.output(0)], axis=int(call.get("axis", -1)), epsilon=epsilon)
    return not any(call.node.output[1:])


def _skip_normalization(call: _ContribCall) -> bool:
    """A residual, perhaps a bias, and a norm; the sum may be wanted, too."""
    if any(call.output(i) for i in (1, 2)):
        return False
    simple = "Simplified" in call.node.op_type
    inputs = [call.input(0), call.input(1), call.input(3 if simple else 4)]
    total = call.sum(*inputs, into=call.output(3))
    epsilon = float(call.get("epsilon", 1e-5 if simple else 1e-12))
    scales = [call.input(2)] if simple else [call.input(2), *([call.input(3)] if call.input(3) else [])]
    kind = "RMSNormalization" if simple else "LayerNormalization"
    call.add(kind, [total, *scales], [call.output(0)], axis=-1, epsilon=epsilon)
    return True


def _embedding(call: _ContribCall) -> bool:
    """EmbedLayerNormalization: rows of three tables, their sum, a norm. Its mask goes on as it is."""
    tokens = call.shape(call.input(0))
    if len(tokens) != 2 or call.input(8):
        return False
    (words,) = call.add("Gather", [call.input(2), call.input(0)])
    ends = [call.constant([0]), call.constant([tokens[1]]), call.constant([0])]
    (places,) = call.add("Slice", [call.input(3), *ends])
    segments = call.add("Gather", [call.input(4), call.input(1)])[0] if call.input(1) else ""
    total = call.sum(words, places, segments, into=call.output(2))
    if call.output(1) and call.input(7):
        call.add("Identity", [call.input(7)], [call.output(1)])
    epsilon = float(call.get("epsilon", 1e-12))
    call.add("LayerNormalization", [total, call.input(5), call.input(6)], [call.output(0)], axis=-1, epsilon=epsilon)
    return True


# --- attention --------------------------------------------------------------------------------------------------------


def _mask(call: _ContribCall, name: str) -> list[str] | None:
    """Inputs 3 to 6 of Attention for a mask of keys, or for lengths; None if it is something else."""
    if not name:
        return []
    rank = len(call.shape(name))
    if rank == 1:
        return ["", "", "", name]
    if rank != 2:
        return None
    (truth,) = call.add("Cast", [name], to=9)
    return call.add("Unsqueeze", [truth, call.constant([1, 2])])


def _attention(call: _ContribCall) -> bool:
    """Attention with one weight for queries, keys and values."""
    mask = _mask(call, call.input(3))
    if mask is None or call.input(4) or call.input(5) or call.output(1) or call.get("do_rotary"):
        return False
    (projected,) = call.add("MatMul", [call.input(0), call.input(1)])
    projected = call.sum(projected, call.input(2))
    sizes = [int(size) for size in call.get("qkv_hidden_sizes", [])]
    split = [call.constant(sizes)] if sizes else []
    qkv = call.add("Split", [projected, *split], 3, axis=-1, num_outputs=None if sizes else 3)
    return _attend(call, qkv, mask, int(call.get("num_heads")), int(call.get("num_heads")), [call.output(0)])


def _heads(call: _ContribCall) -> bool:
    """MultiHeadAttention, with queries, keys and values apart."""
    mask = _mask(call, call.input(4))
    qkv = [call.input(i) for i in range(3)]
    packed = not all(qkv) or any(len(call.shape(name)) != 3 for name in qkv)
    if mask is None or packed or (mask and (call.input(5) or call.input(6))) or call.output(3):
        return False
    if call.input(3):
        sizes = [call.shape(name)[2] for name in qkv]
        biases = call.add("Split", [call.input(3), call.constant(sizes)], 3, axis=0)
        qkv = [call.sum(name, bias) for name, bias in zip(qkv, biases, strict=True)]
    heads = int(call.get("num_heads"))
    extra_inputs = mask or [call.input(5), call.input(6), call.input(7)]
    return _attend(call, qkv, extra_inputs, heads, heads, call.node.output[:3])


def _groups(call: _ContribCall) -> bool:
    """GroupQueryAttention: causal, perhaps with a cache, rotary embedding and a window."""
    heads, groups = int(call.get("num_heads")), int(call.get("kv_num_heads"))
    qkv = [call.input(i) for i in range(3)]
    whole = call.shape(qkv[0])
    if len(whole) != 3 or heads < 1 or groups < 1 or call.output(3) or any(call.input(i) for i in range(9, 12)):
        return False
    if not qkv[1]:
        size = whole[2] // (heads + 2 * groups)
        sizes = call.constant([heads * size, groups * size, groups * size])
        qkv = call.add("Split", [qkv[0], sizes], 3, axis=-1)
    if call.get("do_rotary"):
        inner = int(call.get("rotary_interleaved"))
        for i, count in ((0, heads), (1, groups)):
            inputs = [qkv[i], call.input(7), call.input(8), call.input(5)]
            (qkv[i],) = call.add("RotaryEmbedding", inputs, num_heads=count, interleaved=inner)
    window = int(call.get("local_window_size", -1))
    options = {
        "is_causal": 1,
        "softcap": call.get("softcap", None),
        "left_window_size": window - 1 if window > 0 else None,
    }
    return _attend(call, qkv, ["", call.input(3), call.input(4)], heads, groups, call.node.output[:3], **options)


def _attend(
    call: _ContribCall,
    qkv: Sequence[str],
    extra_inputs: Sequence[str],
    heads: int,
    groups: int,
    outputs: Sequence[str],
    **options: Any,
) -> bool:
    if heads < 1 or groups < 1:
        return False
    causal = options.pop("is_causal", int(call.get("unidirectional")))
    scale = float(call.get("scale", 0.0)) or None
    inputs = [*qkv, *extra_inputs]
    call.add(
        "Attention", inputs, outputs, q_num_heads=heads, kv_num_heads=groups, is_causal=causal, scale=scale, **options
    )
    return True


def _rotary(call: _ContribCall) -> bool:
    """RotaryEmbedding, whose positions come before the tables."""
    inputs = [call.input(i) for i in (0, 2, 3, 1)]
    attributes = {name: int(call.get(name)) for name in ("interleaved", "num_heads", "rotary_embedding_dim")}
    call.add("RotaryEmbedding", inputs, [call.output(0)], **attributes)
    return True


_WITHOUT_DOMAIN = frozenset(["SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization"])
_EXPANSIONS: dict[str, Callable[[_ContribCall], bool]] = {
    "FusedMatMul": _product, "MatMulNBits": _few_bits, "BiasGelu": _gelu, "FastGelu": _gelu, "Gelu": _gelu,
    "QuickGelu": _quick_gelu, "FusedConv": _convolution, "SimplifiedLayerNormalization": _normalization,
    "SkipLayerNormalization": _skip_normalization, "SkipSimplifiedLayerNormalization": _skip_normalization,
    "EmbedLayerNormalization": _embedding, "Attention": _attention, "MultiHeadAttention": _heads,
    "GroupQueryAttention": _groups, "RotaryEmbedding": _rotary,
}  # fmt: skip
