"""Products with a weight whose result is only read in parts, as queries, keys and values: one Einsum a part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fusiest.networks.lowering.extents import Axis, Extent
from fusiest.networks.lowering.tensors import RESULT, Expression, NetAccess, NetEinsum, NetTensor, Position, rebuilt
from fusiest.networks.passes.lowered import Lowered


def split_products(lowered: Lowered) -> None:
    """A product with a weight whose result is only read in parts is one Einsum a part.

    `QKV[m, s, e] = X[m, d] * W[s, d, e]`, read at `S: 0` and `S: 1`  →  `Q[m, e] = X[m, d] * W0[d, e]`, `K[m, e] = …`
    """
    unsplit = lowered.outgoing() | {tensor for tensor, makers in lowered.producers().items() if len(makers) > 1}
    readers = lowered.readers()
    einsums: list[NetEinsum] = []
    waiting = lowered.einsums[::-1]
    while waiting:
        einsum = waiting.pop()
        tensor = einsum.output.tensor
        rank = None
        if einsum.macs and tensor not in unsplit:
            rank = next((r for r in einsum.output.index if _parts(einsum, r, readers.get(tensor, []))), None)
        if rank is None:
            einsums.append(einsum)
            continue
        uses = readers.pop(tensor)
        part_einsums = [_part(einsum, rank, *part, uses) for part in _parts(einsum, rank, uses)]
        for part_einsum in part_einsums:
            readers[part_einsum.output.tensor] = [use for use in uses if use[1].tensor is part_einsum.output.tensor]
        waiting += reversed(part_einsums)
    lowered.einsums = einsums


def _parts(einsum: NetEinsum, rank: Axis, uses: Sequence[tuple[NetEinsum, NetAccess]]) -> list[tuple[int, int]]:
    """Where the parts of a rank that are read begin, and how long they are; none unless they are disjoint and several."""
    variable = einsum.output.index[rank].alone
    if variable is None or any(variable in a.variables for a in einsum.reads if a.tensor.kind != "constant"):
        return []
    if any(len(p.terms) > 1 for a in einsum.reads for p in a.index.values() if variable in p.terms):
        return []
    ranges: set[tuple[int, int]] = set()
    for _, access in uses:
        position = access.index[rank]
        if len(position.terms) > 1 or any(coefficient != 1 for coefficient in position.terms.values()):
            return []
        ranges.add((position.constant, next((v.size for v in position.terms), 1)))
    parts = sorted(ranges)
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
    part_rank = None
    if new is not None:
        part_rank = Axis(new.extent, rank.role)
        order = [part_rank if r is rank else r for r in einsum.output.index]
        output[part_rank] = Position({new: 1})
        output = {r: output[r] for r in order}
    whole = einsum.output.tensor
    tensor = NetTensor([r for r in output if r is not whole.batch], "result", whole.source, whole.batch)
    reads = [
        _part_of_constant(a, old, shifted) if old in a.variables else replace(a, index=dict(a.index), foldable=False)
        for a in einsum.reads
    ]
    folded = [NetAccess(a.tensor, {r: moved(p) for r, p in a.index.items()}) for a in einsum.folded]
    table: dict[int, Expression] = {id(a): b for a, b in zip(einsum.operands, (*reads, *folded), strict=True)}
    variables = [v for v in (new if v is old else v for v in einsum.variables) if v is not None]
    for _, access in uses:
        position = access.index.get(rank)
        if position is not None and position.constant == start and access.tensor is whole:
            index = {
                part_rank if r is rank else r: p
                for r, p in access.index.items()
                if r is not rank or part_rank is not None
            }
            access.index = {r: Position(p.terms) if r is part_rank else p for r, p in index.items() if r is not None}
            access.tensor = tensor
    return NetEinsum(
        einsum.node, einsum.operation, reads, NetAccess(tensor, output), variables, rebuilt(einsum.body, table),
        einsum.reduction, rebuilt(einsum.after, {**table, id(RESULT): RESULT}), folded, einsum.suffix or "part", list(einsum.nodes),
    )  # fmt: skip


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
    slices[rank] = (offset, count, 1)
    axes = [new if r is rank else r for r in whole.ranks()]
    tensor = NetTensor([a for a in axes if a in index], "constant", whole.source, None, origin, slices)
    return NetAccess(tensor, index, access.guards, access.padded)
