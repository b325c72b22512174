"""Names that a person would give: Einsums and tensors by module path, ranks by what they count."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fusiest.networks.graph.graph import GraphNode
from fusiest.networks.lowering.extents import Axis, Extent
from fusiest.networks.lowering.tensors import NetEinsum, NetTensor
from fusiest.networks.output.words import operator_word
from fusiest.networks.passes.lowered import Lowered
from fusiest.spec import RESERVED

MAX_LENGTH = 60
_TAKEN = frozenset(["input", "weight", "output", "default"]) | RESERVED
_SECOND = {"c": "k", "k": "c", "m": "p", "d": "n", "e": "f", "h": "i", "p": "u", "q": "v", "g": "j", "b": "a"}
"""A second variable of the same kind: output channels, keys, …"""
_FEATURES = "dfnjk"
_ORDER = "bopqtrsZHWhegmcdx"
_ANONYMOUS = re.compile(
    r"(val|view|mul|add|onnx|t|expr|constant|identity|node|_to_copy|transpose)?[:_]*\d*\Z|onnx::", re.I
)
_MODULES = frozenset(["Conv", "ConvInteger", "QLinearConv", "ConvTranspose", "Gemm", "MatMul", "MatMulInteger", "QLinearMatMul", "MaxPool",
                      "AveragePool", "LayerNormalization", "RMSNormalization", "GroupNormalization", "InstanceNormalization",
                      "Softmax", "LSTM", "GRU", "RNN", "Attention", "Patches"])  # fmt: skip


def word(text: str) -> str:
    """Text as an identifier.

    >>> word("encoder.layer.0/Conv:1"), word("0.weight")
    ('encoder_layer_0_conv_1', 'n0_weight')
    """
    identifier = (
        re.sub(r"[^a-z0-9]+", "_", text.lower().encode("ascii", "replace").decode()).strip("_")[-MAX_LENGTH:].strip("_")
    )
    return f"n{identifier}" if not identifier or identifier[0].isdigit() else identifier


@dataclass(slots=True)
class NetNames:
    """What everything is called."""

    einsums: dict[NetEinsum, str] = field(default_factory=dict)
    tensors: dict[NetTensor, str] = field(default_factory=dict)
    ranks: dict[Axis, str] = field(default_factory=dict)
    variables: dict[tuple[NetEinsum, Axis], str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    """Sizes of ranks, by name."""


def named(lowered: Lowered) -> NetNames:
    """Names for all Einsums, tensors, ranks and variables."""
    names = NetNames()
    _name_einsums(lowered, names)
    _name_axes(lowered, names)
    return names


# --- Einsums and tensors --------------------------------------------------------------------------------------------


def base_name(einsum: NetEinsum) -> str:
    """The module of a node, or the node's own name."""
    node = einsum.node
    weights = [
        a.tensor.source
        for a in einsum.reads
        if a.tensor.kind == "constant" and a.tensor.source.endswith((".weight", "/weight"))
    ]
    if weights and einsum.macs:
        return word(weights[0].rsplit(weights[0][-7], 1)[0])
    return node_name(node)


def node_name(node: GraphNode) -> str:
    """The module of a node with what it does there, or its own name."""
    name = re.sub(r"^(node_|n_)", "", node.name)
    if node.path:
        return word(node.path if node.operator in _MODULES else f"{node.path}_{operator_word(node.operator)}")
    return word(name or operator_word(node.operator))


def _name_einsums(lowered: Lowered, names: NetNames) -> None:
    taken: set[str] = set()
    inputs = [a.tensor for e in lowered.einsums for a in e.reads if a.tensor.kind == "input"]
    for tensor in dict.fromkeys(inputs):
        names.tensors[tensor] = _free(word(tensor.source), taken)
    producers = lowered.producers()
    for einsum in lowered.einsums:
        base = base_name(einsum)
        if einsum.copy:
            base = names.tensors[einsum.reads[0].tensor]
        has_suffix = base.rsplit("_", 1)[-1] == einsum.suffix
        preferred = f"{base}_{einsum.suffix}" if einsum.suffix and not has_suffix else base
        tensor = einsum.output.tensor
        names.einsums[einsum] = _free(preferred, taken)
        if len(producers[tensor]) == 1:
            names.tensors[tensor] = names.einsums[einsum]
        elif tensor not in names.tensors:
            assert tensor.node is not None
            names.tensors[tensor] = _free(node_name(tensor.node), taken)
    for einsum in lowered.einsums:
        for access in einsum.reads:
            if access.tensor not in names.tensors:
                preferred = _constant_name(access.tensor, names.einsums[einsum])
                names.tensors[access.tensor] = _free(
                    preferred if preferred not in taken else f"{names.einsums[einsum]}_weight", taken
                )


def _constant_name(tensor: NetTensor, einsum: str) -> str:
    source = tensor.source.strip("<>").split(" ")[-1] if tensor.source.startswith("<pairs") else tensor.source
    if _ANONYMOUS.match(source) or tensor.origin is not None or not re.search("[A-Za-z]{2}", source):
        return f"{einsum}_weight"
    return word(source)


def _free(preferred: str, taken: set[str]) -> str:
    name, number = preferred if preferred not in _TAKEN else f"{preferred}_tensor", 2
    first = name
    while name in taken:
        name, number = f"{first}_{number}", number + 1
    taken.add(name)
    return name


# --- ranks and variables --------------------------------------------------------------------------------------------


def _name_axes(lowered: Lowered, names: NetNames) -> None:
    letters = _letters(lowered)
    taken: dict[str, int] = dict.fromkeys(names.tensors.values(), 0)
    for einsum in lowered.einsums:
        used: dict[str, Axis] = {}
        for variable in _in_order(einsum):
            name = _variable_name(einsum, variable, letters, used, taken, names)
            used[name] = variable
            taken[name] = variable.size
            names.variables[einsum, variable] = name
        for access in (einsum.output, *einsum.reads):
            ranks: set[str] = {names.ranks[r] for r in access.index if r in names.ranks}
            for rank, position in access.index.items():
                if rank not in names.ranks:
                    alone = position.alone
                    preferred = names.variables[einsum, alone] if alone is not None else letters[rank.extent.root()]
                    names.ranks[rank] = _rank_name(preferred.upper(), rank.size, ranks, names.sizes)
                    ranks.add(names.ranks[rank])


def _in_order(einsum: NetEinsum) -> Iterable[Axis]:
    """Variables of the output first."""
    written = [v for position in einsum.output.index.values() for v in position.terms]
    return dict.fromkeys([*written, *einsum.variables])


def _variable_name(
    einsum: NetEinsum,
    variable: Axis,
    letters: dict[Extent, str],
    used: dict[str, Axis],
    taken: dict[str, int],
    names: NetNames,
) -> str:
    """Name a variable like the rank that it counts, or by what it counts; each name has one size."""
    rank_names = [
        names.ranks[rank].lower()
        for access in einsum.reads
        for rank, position in access.index.items()
        if position.alone is variable
        and rank in names.ranks
        and access.tensor.kind != "constant"
        and rank.size == variable.size
    ]
    preferred = letters[variable.extent.root()].lower()
    second = _SECOND.get(preferred[0], preferred[0]) + preferred[1:]
    choices = itertools.chain(rank_names, (preferred, second), _numbered(preferred))
    return next(name for name in choices if name not in used and taken.get(name, variable.size) == variable.size)


def _rank_name(preferred: str, size: int, ranks: set[str], sizes: dict[str, int]) -> str:
    choices = itertools.chain((preferred,), _numbered(preferred))
    name = next(name for name in choices if name not in ranks and sizes.get(name, size) == size)
    sizes[name] = size
    return name


def _numbered(name: str) -> Iterator[str]:
    return (f"{name}_{i}" for i in itertools.count(2))


def _letters(lowered: Lowered) -> dict[Extent, str]:
    """A name for every extent: the letter of what it counts, with its size where several sizes have the letter."""
    votes: dict[Extent, Counter[str]] = {}
    for einsum in lowered.einsums:
        axes = {rank for access in (*einsum.reads, einsum.output) for rank in access.index}
        for axis in (*einsum.variables, *axes):
            counted = votes.setdefault(axis.extent.root(), Counter())
            if axis.role:
                counted[axis.role] += 1
    roles = {extent: _elected(counted) for extent, counted in votes.items()}
    sizes: dict[str, Counter[int]] = {}
    for extent, role in roles.items():
        sizes.setdefault(role, Counter())[extent.size] += sum(votes[extent].values()) or 1
    return {extent: _letter(role, extent.size, sizes[role]) for extent, role in roles.items()}


def _elected(votes: Counter[str]) -> str:
    if set(votes) - set("ZHW"):  # what is counted somewhere has a better name than that of an image's axis
        votes = Counter({role: count for role, count in votes.items() if role not in "ZHW"})
    if set(votes) & set("bopqrst"):  # places and windows say more than what a later reader makes of them
        votes = Counter({role: count for role, count in votes.items() if role in "bopqrst"})
    most = max(votes.values(), default=0)
    best = [role for role, count in votes.items() if count == most]
    return min(best, key=_ORDER.find) if best else "x"


def _letter(role: str, size: int, sizes: Counter[int]) -> str:
    if len(sizes) == 1:
        return role
    if role == "d" and len(sizes) <= len(_FEATURES):
        order = sorted(sizes, key=lambda candidate: (-sizes[candidate], candidate))
        return _FEATURES[order.index(size)]
    return f"{role}{size}"


def node_text(node: GraphNode) -> str:
    """A node on one line, for comments."""
    return re.sub(r"[^\x20-\x7e]|[{}#]", "?", f"{node.file_operator} {node.name}")[:120]
