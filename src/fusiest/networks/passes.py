"""What happens to the Einsums once all nodes are lowered: unused ones go, small ones are folded, products are split into the
parts that are read, tensors that are read twice or are wanted outside get copies.

Each pass leaves a list of Einsums that compute the same values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fusiest.networks.extents import Axis, Extent
from fusiest.networks.lowering import CutValue, Lowering
from fusiest.networks.tensors import (
    RESULT,
    Apply,
    Expression,
    NetAccess,
    NetEinsum,
    NetTensor,
    Position,
    View,
    rebuilt,
    walk,
)
from fusiest.networks.words import AFFINE


@dataclass(slots=True)
class Lowered:
    """The Einsums of a network, with the views of its outputs."""

    lowering: Lowering
    einsums: list[NetEinsum]
    outputs: dict[str, View]
    cuts: list[CutValue] = field(default_factory=list)

    def wanted(self) -> set[NetTensor]:
        """Tensors that must end up in the outermost memory."""
        sent = {view.tensor for cut in self.cuts for view in cut.sent}
        return sent | {view.tensor for view in self.outputs.values()}

    def readers(self) -> dict[NetTensor, list[tuple[NetEinsum, NetAccess]]]:
        """Who uses a tensor, folded constants included."""
        found: dict[NetTensor, list[tuple[NetEinsum, NetAccess]]] = {}
        for einsum in self.einsums:
            for access in (*einsum.reads, *einsum.folded):
                found.setdefault(access.tensor, []).append((einsum, access))
        return found

    def producers(self) -> dict[NetTensor, NetEinsum]:
        return {einsum.output.tensor: einsum for einsum in self.einsums}


def finish(lowering: Lowering) -> Lowered:
    """All passes, in order."""
    outputs = {name: lowering.view(name) for name in lowering.graph.outputs}
    lowered = Lowered(lowering, lowering.einsums, outputs, lowering.cuts)
    for einsum in lowered.einsums:
        einsum.settle()
    drop_unused(lowered)
    only = AFFINE if lowering.options.elementwise == "keep" else None
    fold(lowered, only)
    split_products(lowered)
    fold(lowered, only)  # functions of a part
    for einsum in lowered.einsums:
        _keep_constants(einsum)
    read_once(lowered)
    add_copies(lowered)
    return lowered


def drop_unused(lowered: Lowered) -> None:
    """Einsums that nothing depends on go, and cuts whose result nobody reads."""
    cut_from = {cut.tensor: cut for cut in lowered.cuts}
    made = lowered.producers()
    needed: set[NetTensor] = set()
    waiting = [view.tensor for view in lowered.outputs.values()]
    while waiting:
        tensor = waiting.pop()
        if tensor in needed:
            continue
        needed.add(tensor)
        if tensor in made:
            waiting += [access.tensor for access in (*made[tensor].reads, *made[tensor].folded)]
        if tensor in cut_from:
            waiting += [view.tensor for view in cut_from[tensor].sent]
    lowered.einsums = [einsum for einsum in lowered.einsums if einsum.output.tensor in needed]
    lowered.cuts = [cut for cut in lowered.cuts if cut.tensor in needed]


# --- folding --------------------------------------------------------------------------------------------------------


def fold(lowered: Lowered, only: frozenset[str] | None) -> None:
    """A function of one tensor that has no other reader is computed where the tensor is made.

    `T[m] = A[m,k] * B[k]`, `Z[m] = relu(T[m] + bias[m])`  →  `Z[m] = relu(A[m,k] * B[k] + bias[m])`
    """
    made, readers, wanted = lowered.producers(), lowered.readers(), lowered.wanted()
    kept: list[NetEinsum] = []
    for einsum in lowered.einsums:
        source = _folds_into(einsum, made, only)
        if source is None or len(readers[source.output.tensor]) > 1 or source.output.tensor in wanted:
            kept.append(einsum)
        else:
            _fold(einsum, source)
            made[einsum.output.tensor] = source
    lowered.einsums = kept


def _folds_into(einsum: NetEinsum, made: dict[NetTensor, NetEinsum], only: frozenset[str] | None) -> NetEinsum | None:
    """The Einsum before, if this one is only a function of each of its elements."""
    if not einsum.elementwise:
        return None
    operators = {part.operator for part in walk(einsum.body) if isinstance(part, Apply)} - {"Constant", "Requantize"}
    if only is not None and not operators <= only:
        return None
    (read,) = (access for access in einsum.reads if not access.foldable)
    alone = [position.alone for position in read.index.values()]
    if None in alone or set(alone) != set(einsum.variables) or read.guards or read.padded is not None:
        return None
    if any(
        variable is not None and variable.size != rank.size for variable, rank in zip(alone, read.index, strict=True)
    ):
        return None
    return made.get(read.tensor)


def _fold(einsum: NetEinsum, source: NetEinsum) -> None:
    (read,) = (access for access in einsum.reads if not access.foldable)
    written = {rank: position.alone for rank, position in source.output.index.items()}
    renamed = {variable: written[rank] for rank, position in read.index.items() for variable in position.terms}
    for access in (*einsum.reads, *einsum.folded, einsum.output):
        if access is not read:
            access.index = {rank: _renamed(position, renamed) for rank, position in access.index.items()}
    source.folded += [access for access in (*einsum.reads, *einsum.folded) if access is not read]
    source.output = einsum.output
    source.after = rebuilt(einsum.body, {id(read): source.after})
    source.nodes += [node for node in (einsum.node, *einsum.nodes) if node is not source.node]


def _renamed(position: Position, names: dict[Axis, Axis | None]) -> Position:
    terms: dict[Axis, int] = {}
    for variable, coefficient in position.terms.items():
        new = names.get(variable, variable)
        assert new is not None
        terms[new] = coefficient
    return Position(terms, position.constant)


def _keep_constants(einsum: NetEinsum) -> None:
    """Constants of an Einsum that stays are read like other tensors, single values aside."""
    for access in einsum.reads:
        access.foldable = False


# --- parts ----------------------------------------------------------------------------------------------------------


def split_products(lowered: Lowered) -> None:
    """A product with a weight whose result is only read in parts is one Einsum a part.

    `QKV[m, s, e] = X[m, d] * W[s, d, e]`, read at `S: 0` and `S: 1`  →  `Q[m, e] = X[m, d] * W0[d, e]`, `K[m, e] = …`
    """
    wanted = lowered.wanted()
    readers = lowered.readers()
    found: list[NetEinsum] = []
    waiting = lowered.einsums[::-1]
    while waiting:
        einsum = waiting.pop()
        tensor = einsum.output.tensor
        rank = None
        if einsum.macs and tensor not in wanted:
            rank = next((r for r in einsum.output.index if _parts(einsum, r, readers.get(tensor, []))), None)
        if rank is None:
            found.append(einsum)
            continue
        uses = readers.pop(tensor)
        made = [_part(einsum, rank, *part, uses) for part in _parts(einsum, rank, uses)]
        for one in made:
            readers[one.output.tensor] = [use for use in uses if use[1].tensor is one.output.tensor]
        waiting += reversed(made)
    lowered.einsums = found


def _parts(einsum: NetEinsum, rank: Axis, uses: Sequence[tuple[NetEinsum, NetAccess]]) -> list[tuple[int, int]]:
    """Where the parts of a rank that are read begin, and how long they are; none unless they are disjoint and several."""
    variable = einsum.output.index[rank].alone
    if variable is None or any(variable in a.variables for a in einsum.reads if a.tensor.kind != "constant"):
        return []
    if any(len(p.terms) > 1 for a in einsum.reads for p in a.index.values() if variable in p.terms):
        return []
    found: set[tuple[int, int]] = set()
    for _, access in uses:
        position = access.index[rank]
        if len(position.terms) > 1 or any(coefficient != 1 for coefficient in position.terms.values()):
            return []
        found.add((position.constant, next((v.size for v in position.terms), 1)))
    parts = sorted(found)
    if not parts or parts[0][0] < 0 or max(start + count for start, count in parts) > rank.size:
        return []
    disjoint = all(first[0] + first[1] <= second[0] for first, second in zip(parts, parts[1:], strict=False))
    return parts if disjoint and (len(parts) > 1 or parts[0] != (0, rank.size)) else []


def _part(
    einsum: NetEinsum, rank: Axis, start: int, count: int, uses: Sequence[tuple[NetEinsum, NetAccess]]
) -> NetEinsum:
    """The Einsum for one part; who reads the part reads it from the new tensor."""
    old = einsum.output.index[rank].alone
    assert old is not None
    new = Axis(Extent(count), old.role) if count > 1 else None
    shifted = Position({new: 1} if new is not None else {}, start)

    def moved(position: Position) -> Position:
        return shifted if old in position.terms else position

    output = {r: p for r, p in einsum.output.index.items() if r is not rank}
    own = None
    if new is not None:
        own = Axis(new.extent, rank.role)
        order = [own if r is rank else r for r in einsum.output.index]
        output[own] = Position({new: 1})
        output = {r: output[r] for r in order}
    whole = einsum.output.tensor
    tensor = NetTensor([r for r in output if r is not whole.batch], "result", whole.source, whole.batch)
    reads = [_part_of_constant(a, old, shifted) if old in a.variables else _copied(a) for a in einsum.reads]
    folded = [NetAccess(a.tensor, {r: moved(p) for r, p in a.index.items()}) for a in einsum.folded]
    table: dict[int, Expression] = {
        id(a): b for a, b in zip((*einsum.reads, *einsum.folded), (*reads, *folded), strict=True)
    }
    variables = [v for v in (new if v is old else v for v in einsum.variables) if v is not None]
    for _, access in uses:
        position = access.index.get(rank)
        if position is not None and position.constant == start and access.tensor is whole:
            index = {own if r is rank else r: p for r, p in access.index.items() if r is not rank or own is not None}
            access.index = {r: Position(p.terms) if r is own else p for r, p in index.items() if r is not None}
            access.tensor = tensor
    return NetEinsum(
        einsum.node, einsum.operation, reads, NetAccess(tensor, output), variables, rebuilt(einsum.body, table),
        einsum.reduction, rebuilt(einsum.after, {**table, id(RESULT): RESULT}), folded, einsum.suffix or "part", list(einsum.nodes),
    )  # fmt: skip


def _copied(access: NetAccess) -> NetAccess:
    return NetAccess(access.tensor, dict(access.index), access.guards, access.padded)


def _part_of_constant(access: NetAccess, old: Axis, shifted: Position) -> NetAccess:
    """A weight cut to the part that an Einsum needs."""
    rank = next(r for r, p in access.index.items() if old in p.terms)
    whole = access.tensor
    count = next((v.size for v in shifted.terms), 1)
    offset = shifted.constant + access.index[rank].constant
    new = Axis(Extent(count), rank.role)
    index = {new if r is rank else r: p for r, p in access.index.items()}
    index[new] = Position(shifted.terms)
    if count == 1:
        del index[new]
    origin, slices = (whole, {}) if whole.origin is None else (whole.origin, dict(whole.slices))
    slices[rank] = (offset, count)
    axes = [new if r is rank else r for r in whole.ranks()]
    tensor = NetTensor([a for a in axes if a in index], "constant", whole.source, None, origin, slices)
    return NetAccess(tensor, index, access.guards, access.padded)


# --- reads and copies -----------------------------------------------------------------------------------------------


def read_once(lowered: Lowered) -> None:
    """An Einsum that reads a tensor at two places reads a copy of it at the second."""
    found: list[NetEinsum] = []
    for einsum in lowered.einsums:
        seen: dict[NetTensor, list[NetAccess]] = {}
        for access in list(einsum.reads):
            others = seen.setdefault(access.tensor, [])
            same = next((other for other in others if _alike(access, other)), None)
            if same is not None:
                einsum.reads.remove(access)
                einsum.body = rebuilt(einsum.body, {id(access): same})
                einsum.after = rebuilt(einsum.after, {id(access): same, id(RESULT): RESULT})
                continue
            if others:
                copy, ranks = _copy(access.tensor, einsum)
                found.append(copy)
                access.tensor = copy.output.tensor
                access.index = {ranks[rank]: position for rank, position in access.index.items()}
            else:
                others.append(access)
        found.append(einsum)
    lowered.einsums = found


def _alike(one: NetAccess, other: NetAccess) -> bool:
    return [(p.terms, p.constant) for p in one.index.values()] == [(p.terms, p.constant) for p in other.index.values()]


def _copy(tensor: NetTensor, near: NetEinsum) -> tuple[NetEinsum, dict[Axis, Axis]]:
    """An Einsum that copies a whole tensor, and the new ranks by the old."""
    variables = {rank: Axis(rank.extent, rank.role) for rank in tensor.ranks()}
    ranks = {rank: Axis(rank.extent, rank.role) for rank in variables}
    batch = next((ranks[leaf] for leaf in tensor.batch.leaves()), None) if tensor.batch is not None else None
    new = NetTensor([r for r in ranks.values() if r is not batch], "result", tensor.source, batch)
    read = NetAccess(tensor, {rank: Position({variables[rank]: 1}) for rank in variables})
    write = NetAccess(new, {ranks[rank]: Position({variables[rank]: 1}) for rank in variables})
    made = NetEinsum(near.node, "copy", [read], write, list(variables.values()), read, suffix="copy", copy=True)
    return made, ranks


def add_copies(lowered: Lowered) -> None:
    """Inputs with several readers are copied first, so that they can be fetched once for all of them; results that are
    wanted outside and have readers here are copied out."""
    readers, wanted = lowered.readers(), lowered.wanted()
    found: list[NetEinsum] = []
    for einsum in lowered.einsums:
        for access in list(einsum.reads):
            uses = readers.get(access.tensor, [])
            if access.tensor.kind == "input" and len(_users(uses)) > 1:
                found.append(_copied_in(access.tensor, uses, einsum))
        found.append(einsum)
        tensor = einsum.output.tensor
        if tensor in wanted and _users(readers.get(tensor, [])):
            found.append(_copied_out(tensor, einsum))
    lowered.einsums = found


def _users(uses: Iterable[tuple[NetEinsum, NetAccess]]) -> list[NetEinsum]:
    return list(dict.fromkeys(einsum for einsum, access in uses if access in einsum.reads))


def _copied_in(tensor: NetTensor, uses: Iterable[tuple[NetEinsum, NetAccess]], near: NetEinsum) -> NetEinsum:
    copy, ranks = _copy(tensor, near)
    copy.suffix = "in"
    for _, access in list(uses):
        access.tensor = copy.output.tensor
        access.index = {ranks[rank]: position for rank, position in access.index.items()}
    return copy


def _copied_out(tensor: NetTensor, near: NetEinsum) -> NetEinsum:
    copy, _ = _copy(tensor, near)
    copy.suffix = "out"
    return copy
