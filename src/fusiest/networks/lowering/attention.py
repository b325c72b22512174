"""Attention as one operator: the Einsums that it has when it is written out. Rotary embedding."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fusiest.networks.graph.graph import GraphNode
from fusiest.networks.lowering import views
from fusiest.networks.lowering.contractions import divided_by, product
from fusiest.networks.lowering.extents import Axis
from fusiest.networks.lowering.lower import Lowering, Recipe, lowers
from fusiest.networks.lowering.making import Unfit, axis_labels, labelled
from fusiest.networks.lowering.normalizations import softmax_of
from fusiest.networks.lowering.tensors import Apply, Expression, NetAccess, View, apply, tensor_view
from fusiest.networks.lowering.views import laid

_ROLES = {"b": "b", "h": "h", "g": "g", "m": "m", "p": "m", "e": "e", "f": "e"}
CAUSAL = "attention with a mask (causal, a window, lengths) is counted in full: the products that the mask drops, too"


@lowers("Attention")
def attention(lowering: Lowering, node: GraphNode) -> None:
    """`QK[b,h,g,m,p] = Q[b,h,g,m,e] * K[b,h,p,e]`, softmax over p, `AV[b,h,g,m,f] = S * V[b,h,p,f]`; g queries share a key."""
    q, k, v = (_heads(lowering, node, i) for i in range(3))
    past = lowering.shape(node.input(4))[2] if node.input(4) else 0
    k, v = (_with_cache(lowering, node, i, view) for i, view in ((1, k), (2, v)))
    batch, groups, keys, _ = k.shape
    queries, rows = q.shape[1] // groups, q.shape[2]
    q = laid(q, [batch, groups, queries, rows, q.shape[3]])
    sizes = {"b": batch, "h": groups, "g": queries, "m": rows, "p": keys, "e": q.shape[4], "f": v.shape[3]}

    def labels(text: str) -> list[str | None]:
        return [label if sizes[label] > 1 else None for label in text]

    scores = lowering.einsum(
        node, [(q, labels("bhgme")), (k, labels("bhpe"))], labels("bhgmp"), product("qk"), None, _ROLES
    )
    softmax = softmax_of(lowering, node, _masked(lowering, node, scores, q.shape[4], past), [4])
    divisor = None
    if isinstance(softmax, Apply) and lowering.options.softmax == "deferred":
        softmax, divisor = (argument for argument in softmax.arguments if isinstance(argument, View))
    elif isinstance(softmax, Apply):
        softmax = lowering.materialized(softmax)
    lowering.einsums[-1].suffix = lowering.einsums[-1].suffix or "softmax"
    assert isinstance(softmax, View)
    result = lowering.einsum(
        node, [(softmax, labels("bhgmp")), (v, labels("bhpf"))], labels("bhgmf"), product("av"), None, _ROLES
    )
    if divisor is not None:
        lowering.einsums[-1].suffix = "av_numerator"
        result = divided_by(lowering, node, result, divisor, "av")
    if len(lowering.shape(node.outputs[0])) == 3:
        result = views.transpose(result, [0, 3, 1, 2, 4])
    lowering.values[node.outputs[0]] = laid(result, lowering.shape(node.outputs[0]))


def _heads(lowering: Lowering, node: GraphNode, position: int) -> View:
    """Queries, keys or values as batch, heads, tokens, width."""
    view = lowering.view(node.inputs[position])
    if len(view.axes) == 4:
        return view
    heads = int(node.get("q_num_heads" if position == 0 else "kv_num_heads", 1))
    batch, tokens, width = view.shape
    return views.transpose(laid(view, [batch, tokens, heads, width // heads]), [0, 2, 1, 3])


def _with_cache(lowering: Lowering, node: GraphNode, position: int, view: View) -> View:
    """Keys or values behind those of earlier tokens: the cache is read from outside, and what is new is written there."""
    past = node.input(position + 3)
    present = node.outputs[position] if position < len(node.outputs) else ""
    if not past:
        if present:
            lowering.values[present] = view
        return view
    batch, heads, tokens, width = view.shape
    shape = (batch, heads, tokens + lowering.shape(past)[2], width)
    cache = lowering.cache(node, present or f"{node.outputs[0]}/{position}", shape, view)
    if present:
        lowering.values[present] = cache
    return cache


def _masked(lowering: Lowering, node: GraphNode, scores: View, width: int, past: int) -> View:
    """Scores scaled, and with what is added to them. A constant mask costs nothing; one that is data is an operand."""
    scale, cap, shape = node.get("scale"), float(node.get("softcap", 0.0)), scores.shape
    scaled = apply("Mul", scores, apply("Constant", value=float(scale) if scale else 1 / math.sqrt(width)))
    if cap:
        limit = apply("Constant", value=cap)
        scaled = apply("Mul", apply("Tanh", apply("Div", scaled, limit)), limit)
    band = [int(node.get(name, -1)) for name in ("left_window_size", "right_window_size")]
    if node.get("is_causal", 0):
        band[1] = 0
    lengths = node.input(6)
    if max(band) >= 0 and not lengths:
        table = tensor_view(shape[3:], "constant", f"<band {shape[3]} {shape[4]} {past} {band[0]} {band[1]}>")
        scaled = apply("Add", scaled, views.expand(table, shape))
    if max(band) >= 0 or lengths:
        lowering.note(CAUSAL)
    view = _with_mask(lowering, node, scaled, shape)
    return _up_to_lengths(lowering, node, view, lengths, band) if lengths else view


def _with_mask(lowering: Lowering, node: GraphNode, scaled: Apply, shape: Sequence[int]) -> View:
    name = node.input(3)
    if not name:
        return _computed(lowering, node, scaled)
    mask_shape = [1] * (4 - len(lowering.shape(name))) + list(lowering.shape(name))
    heads = [1, 1] if mask_shape[1] == 1 else list(shape[1:3])
    mask = laid(lowering.view(name), [mask_shape[0], *heads, *mask_shape[2:]])
    if mask_shape[3] < shape[4]:
        raise Unfit(f"a mask for {mask_shape[3]} of {shape[4]} keys")
    added = "Add" if lowering.graph.values[name].floating else "AddMask"
    if lowering.is_constant(name) and all(size == 1 for size in mask.shape[:3]):
        lowering.tables.add(name)
        return _computed(lowering, node, apply(added, scaled, views.expand(mask, shape)))
    view = _computed(lowering, node, scaled)
    labels = axis_labels(shape)
    recipe = Recipe("add", lambda a, _: apply(added, a[0], a[1]), suffix="masked")
    return lowering.einsum(node, [(view, labels), (views.expand(mask, shape), labels)], labels, recipe)


def _up_to_lengths(lowering: Lowering, node: GraphNode, scores: View, name: str, band: Sequence[int]) -> View:
    """Scores of the keys that each sample has; the last queries belong to the last of these keys."""
    labels = labelled("bhgmp", scores.shape)
    lengths = laid(lowering.view(name), [scores.shape[0]])

    def body(accesses: Sequence[NetAccess], variables: Mapping[str, Sequence[Axis]]) -> Expression:
        rows, keys = (list(variables.get(label, ())) for label in "mp")
        return apply("UpToLengths", *accesses, rows=rows, over=keys, band=tuple(band))

    return lowering.einsum(
        node, [(scores, labels), (lengths, labels[:1])], labels, Recipe("add", body, suffix="lengths"), None, _ROLES
    )


def _computed(lowering: Lowering, node: GraphNode, expression: Apply) -> View:
    view = lowering.materialized(Apply(expression.operator, expression.arguments, expression.attributes, node))
    lowering.einsums[-1].suffix = "scaled"
    return view


@lowers("RotaryEmbedding")
def rotary(lowering: Lowering, node: GraphNode) -> None:
    """`QR[b,h,m,e] = Q[b,h,m,e] * COS[m,e] * SIN[m,e]`. The other element of a pair is taken to be at hand."""
    view = lowering.view(node.inputs[0])
    shape = view.shape
    if len(shape) == 3:
        heads = int(node.get("num_heads", 1)) or 1
        view = views.transpose(laid(view, [*shape[:2], heads, shape[2] // heads]), [0, 2, 1, 3])
    turned = [_table(lowering, node, name, view.shape) for name in node.inputs[1:3]]
    labels = axis_labels(view.shape)

    def body(accesses: Sequence[NetAccess], variables: Mapping[str, Sequence[Axis]]) -> Expression:
        last = labels[-1]
        over = list(variables[last]) if last is not None else []
        return apply("RotaryEmbedding", *accesses, over=over, interleaved=bool(node.get("interleaved", 0)))

    operands = [(view, labels), *((table, labels) for table in turned)]
    roles = {f"a{len(labels) - 1}": "e", f"a{len(labels) - 2}": "m"}
    result = lowering.einsum(node, operands, labels, Recipe("rotate", body), None, roles)
    if len(shape) == 3:
        result = laid(views.transpose(result, [0, 2, 1, 3]), shape)
    lowering.define(node, result)


def _table(lowering: Lowering, node: GraphNode, name: str, shape: Sequence[int]) -> View:
    """Cosines or sines for each element. Where the operator has them for each pair, that is a table twice as wide."""
    if node.get("rotary_embedding_dim", 0) not in (0, shape[-1]):
        raise Unfit("it turns a part of the width")
    constant, positions = lowering.is_constant(name), node.input(3)
    if constant:
        lowering.tables.add(name)
    if node.get("per_element"):
        return views.expand(lowering.view(name), shape)
    if positions and not (constant and lowering.is_constant(positions)):
        return lowering.new_input([shape[0], 1, shape[2], shape[3]], f"{name} at {positions}", batched=True, node=node)
    if not constant:
        batch, tokens, half = lowering.shape(name)
        inner = bool(node.get("interleaved", 0))
        return views.expand(views.repeat(laid(lowering.view(name), [batch, 1, tokens, half]), 3, 2, inner), shape)
    batch = lowering.shape(name)[0] if not positions else lowering.shape(positions)[0]
    source = f"<pairs {int(node.get('interleaved', 0))} {name}>"
    if source not in lowering.values:
        lowering.values[source] = tensor_view([batch, 1, shape[2], shape[3]], "constant", source)
    table = lowering.values[source]
    assert isinstance(table, View)
    return views.expand(table, shape)
