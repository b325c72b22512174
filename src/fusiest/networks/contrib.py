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


class _Parts:
    """The nodes that stand for a call."""

    def __init__(self, call: onnx.NodeProto, shape: ShapeLookup) -> None:
        from onnx import helper

        self.call, self.shape = call, shape
        self.attributes = {a.name: helper.get_attribute_value(a) for a in call.attribute}
        self.nodes: list[onnx.NodeProto] = []

    def input(self, position: int) -> str:
        return self.call.input[position] if position < len(self.call.input) else ""

    def output(self, position: int) -> str:
        return self.call.output[position] if position < len(self.call.output) else ""

    def get(self, name: str, default: Any = 0) -> Any:
        return self.attributes.get(name, default)

    def add(
        self, operator: str, inputs: Sequence[str], outputs: Sequence[str] | int = 1, **attributes: Any
    ) -> list[str]:
        """One more node; its outputs are named, or so many."""
        from onnx import helper

        own = f"{self.call.name or self.call.output[0]}/{operator}_{len(self.nodes)}"
        names = [f"{own}:{i}" for i in range(outputs)] if isinstance(outputs, int) else list(outputs)
        given = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(operator, inputs, names, own, **given))
        return names

    def constant(self, values: Sequence[int]) -> str:
        from onnx import helper

        tensor = helper.make_tensor("value", 7, [len(values)], values)
        return self.add("Constant", [], value=tensor)[0]

    def sum(self, *names: str, into: str = "") -> str:
        """Of all values that are there."""
        found, *more = [name for name in names if name]
        for name in more[:-1]:
            (found,) = self.add("Add", [found, name])
        if more:
            (found,) = self.add("Add", [found, more[-1]], [into] if into else 1)
        return found


def standard(node: onnx.NodeProto, shape: ShapeLookup) -> Iterator[onnx.NodeProto]:
    """The node itself, or those that it is made of."""
    expand = _EXPANSIONS.get(node.op_type) if node.domain in DOMAINS else None
    if expand is None or (node.domain != DOMAINS[0] and node.op_type not in _WITHOUT_DOMAIN):
        yield node
        return
    parts = _Parts(node, shape)
    if expand(parts):
        parts.nodes[-1].name = node.name or parts.nodes[-1].name
        yield from parts.nodes
    else:
        yield node


# --- products and functions -------------------------------------------------------------------------------------------


def _product(parts: _Parts) -> bool:
    """FusedMatMul: either operand may be turned."""
    if parts.get("transBatchA") or parts.get("transBatchB"):
        return False
    left = "...ji" if parts.get("transA") else "...ij"
    right = "...kj" if parts.get("transB") else "...jk"
    alpha = float(parts.get("alpha", 1.0))
    inputs, output = [parts.input(0), parts.input(1)], [parts.output(0)]
    scaled = alpha != 1.0
    (found,) = parts.add("Einsum", inputs, 1 if scaled else output, equation=f"{left},{right}->...ik")
    if scaled:
        (factor,) = parts.add("Constant", [], value_float=alpha)
        parts.add("Mul", [found, factor], output)
    return True


def _few_bits(parts: _Parts) -> bool:
    """MatMulNBits: a product with a weight of few bits, in blocks."""
    rows, columns = int(parts.get("K")), int(parts.get("N"))
    if rows < 1 or columns < 1 or parts.input(4):
        return False
    (weight,) = parts.add("ConstantOfShape", [parts.constant([rows, columns])])
    bias = parts.input(5)
    (found,) = parts.add("MatMul", [parts.input(0), weight], 1 if bias else [parts.output(0)])
    if bias:
        parts.add("Add", [found, bias], [parts.output(0)])
    return True


def _gelu(parts: _Parts) -> bool:
    kind = "tanh" if parts.call.op_type == "FastGelu" else "none"
    parts.add("Gelu", [parts.sum(parts.input(0), parts.input(1))], [parts.output(0)], approximate=kind)
    return True


def _quick_gelu(parts: _Parts) -> bool:
    parts.add("Swish", [parts.input(0)], [parts.output(0)], alpha=float(parts.get("alpha", 1.702)))
    return True


def _convolution(parts: _Parts) -> bool:
    """FusedConv: a convolution, a sum, an activation."""
    kind = parts.get("activation", b"").decode("utf-8", "replace")
    if kind not in ("Relu", "Sigmoid", "Tanh") or parts.get("activation_params", []):
        return False
    given = {key: value for key, value in parts.attributes.items() if not key.startswith("activation")}
    (found,) = parts.add("Conv", [name for name in parts.call.input[:3] if name], **given)
    parts.add(kind, [parts.sum(found, parts.input(3))], [parts.output(0)])
    return True


# --- normalizations ---------------------------------------------------------------------------------------------------


def _normalization(parts: _Parts) -> bool:
    """SimplifiedLayerNormalization."""
    epsilon = float(parts.get("epsilon", 1e-5))
    inputs = [parts.input(0), parts.input(1)]
    parts.add("RMSNormalization", inputs, [parts.output(0)], axis=int(parts.get("axis", -1)), epsilon=epsilon)
    return not any(parts.call.output[1:])


def _skip_normalization(parts: _Parts) -> bool:
    """A residual, perhaps a bias, and a norm; the sum may be wanted, too."""
    if any(parts.output(i) for i in (1, 2)):
        return False
    simple = "Simplified" in parts.call.op_type
    inputs = [parts.input(0), parts.input(1), parts.input(3 if simple else 4)]
    found = parts.sum(*inputs, into=parts.output(3))
    epsilon = float(parts.get("epsilon", 1e-5 if simple else 1e-12))
    scales = [parts.input(2)] if simple else [parts.input(2), *([parts.input(3)] if parts.input(3) else [])]
    kind = "RMSNormalization" if simple else "LayerNormalization"
    parts.add(kind, [found, *scales], [parts.output(0)], axis=-1, epsilon=epsilon)
    return True


def _embedding(parts: _Parts) -> bool:
    """EmbedLayerNormalization: rows of three tables, their sum, a norm. Its mask goes on as it is."""
    tokens = parts.shape(parts.input(0))
    if len(tokens) != 2 or parts.input(8):
        return False
    (words,) = parts.add("Gather", [parts.input(2), parts.input(0)])
    ends = [parts.constant([0]), parts.constant([tokens[1]]), parts.constant([0])]
    (places,) = parts.add("Slice", [parts.input(3), *ends])
    segments = parts.add("Gather", [parts.input(4), parts.input(1)])[0] if parts.input(1) else ""
    found = parts.sum(words, places, segments, into=parts.output(2))
    if parts.output(1) and parts.input(7):
        parts.add("Identity", [parts.input(7)], [parts.output(1)])
    epsilon = float(parts.get("epsilon", 1e-12))
    parts.add(
        "LayerNormalization", [found, parts.input(5), parts.input(6)], [parts.output(0)], axis=-1, epsilon=epsilon
    )
    return True


# --- attention --------------------------------------------------------------------------------------------------------


def _mask(parts: _Parts, name: str) -> list[str] | None:
    """Inputs 3 to 6 of Attention for a mask of keys, or for lengths; None if it is something else."""
    if not name:
        return []
    rank = len(parts.shape(name))
    if rank == 1:
        return ["", "", "", name]
    if rank != 2:
        return None
    (truth,) = parts.add("Cast", [name], to=9)
    return parts.add("Unsqueeze", [truth, parts.constant([1, 2])])


def _attention(parts: _Parts) -> bool:
    """Attention with one weight for queries, keys and values."""
    mask = _mask(parts, parts.input(3))
    if mask is None or parts.input(4) or parts.input(5) or parts.output(1) or parts.get("do_rotary"):
        return False
    (found,) = parts.add("MatMul", [parts.input(0), parts.input(1)])
    found = parts.sum(found, parts.input(2))
    sizes = [int(size) for size in parts.get("qkv_hidden_sizes", [])]
    split = [parts.constant(sizes)] if sizes else []
    three = parts.add("Split", [found, *split], 3, axis=-1, num_outputs=None if sizes else 3)
    return _attend(parts, three, mask, int(parts.get("num_heads")), int(parts.get("num_heads")), [parts.output(0)])


def _heads(parts: _Parts) -> bool:
    """MultiHeadAttention, with queries, keys and values apart."""
    mask = _mask(parts, parts.input(4))
    three = [parts.input(i) for i in range(3)]
    packed = not all(three) or any(len(parts.shape(name)) != 3 for name in three)
    if mask is None or packed or (mask and (parts.input(5) or parts.input(6))) or parts.output(3):
        return False
    if parts.input(3):
        sizes = [parts.shape(name)[2] for name in three]
        biases = parts.add("Split", [parts.input(3), parts.constant(sizes)], 3, axis=0)
        three = [parts.sum(name, bias) for name, bias in zip(three, biases, strict=True)]
    heads = int(parts.get("num_heads"))
    more = mask or [parts.input(5), parts.input(6), parts.input(7)]
    return _attend(parts, three, more, heads, heads, parts.call.output[:3])


def _groups(parts: _Parts) -> bool:
    """GroupQueryAttention: causal, perhaps with a cache, rotary embedding and a window."""
    heads, groups = int(parts.get("num_heads")), int(parts.get("kv_num_heads"))
    three = [parts.input(i) for i in range(3)]
    whole = parts.shape(three[0])
    if len(whole) != 3 or heads < 1 or groups < 1 or parts.output(3) or any(parts.input(i) for i in range(9, 12)):
        return False
    if not three[1]:
        size = whole[2] // (heads + 2 * groups)
        sizes = parts.constant([heads * size, groups * size, groups * size])
        three = parts.add("Split", [three[0], sizes], 3, axis=-1)
    if parts.get("do_rotary"):
        inner = int(parts.get("rotary_interleaved"))
        for i, count in ((0, heads), (1, groups)):
            inputs = [three[i], parts.input(7), parts.input(8), parts.input(5)]
            (three[i],) = parts.add("RotaryEmbedding", inputs, num_heads=count, interleaved=inner)
    window = int(parts.get("local_window_size", -1))
    options = {
        "is_causal": 1,
        "softcap": parts.get("softcap", None),
        "left_window_size": window - 1 if window > 0 else None,
    }
    return _attend(parts, three, ["", parts.input(3), parts.input(4)], heads, groups, parts.call.output[:3], **options)


def _attend(
    parts: _Parts,
    three: Sequence[str],
    more: Sequence[str],
    heads: int,
    groups: int,
    outputs: Sequence[str],
    **options: Any,
) -> bool:
    if heads < 1 or groups < 1:
        return False
    causal = options.pop("is_causal", int(parts.get("unidirectional")))
    scale = float(parts.get("scale", 0.0)) or None
    inputs = [*three, *more]
    parts.add(
        "Attention", inputs, outputs, q_num_heads=heads, kv_num_heads=groups, is_causal=causal, scale=scale, **options
    )
    return True


def _rotary(parts: _Parts) -> bool:
    """RotaryEmbedding, whose positions come before the tables."""
    inputs = [parts.input(i) for i in (0, 2, 3, 1)]
    given = {name: int(parts.get(name)) for name in ("interleaved", "num_heads", "rotary_embedding_dim")}
    parts.add("RotaryEmbedding", inputs, [parts.output(0)], **given)
    return True


_WITHOUT_DOMAIN = frozenset(["SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization"])
_EXPANSIONS: dict[str, Callable[[_Parts], bool]] = {
    "FusedMatMul": _product, "MatMulNBits": _few_bits, "BiasGelu": _gelu, "FastGelu": _gelu, "Gelu": _gelu,
    "QuickGelu": _quick_gelu, "FusedConv": _convolution, "SimplifiedLayerNormalization": _normalization,
    "SkipLayerNormalization": _skip_normalization, "SkipSimplifiedLayerNormalization": _skip_normalization,
    "EmbedLayerNormalization": _embedding, "Attention": _attention, "MultiHeadAttention": _heads,
    "GroupQueryAttention": _groups, "RotaryEmbedding": _rotary,
}  # fmt: skip
