"""What happens to the Einsums once all nodes are lowered: unused ones go, small ones are folded, products are split into the
parts that are read, tensors that are read twice or are wanted outside get copies.

Each pass leaves a list of Einsums that compute the same values.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from fusiest.networks.graph.graph import reached
from fusiest.networks.graph.products import split_products
from fusiest.networks.lowering.concats import write_in_place
from fusiest.networks.lowering.extents import Axis
from fusiest.networks.lowering.lower import Lowering
from fusiest.networks.lowering.tensors import RESULT, NetAccess, NetEinsum, NetTensor, Position, rebuilt
from fusiest.networks.output.words import AFFINE
from fusiest.networks.passes.folding import fold, keep_constants
from fusiest.networks.passes.lowered import Lowered
from fusiest.networks.passes.merging import merge_ranks


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
    keep_constants(lowered)
    write_in_place(lowered)
    put_in_order(lowered)
    merge_ranks(lowered)
    read_once(lowered)
    add_copies(lowered)
    return lowered


def put_in_order(lowered: Lowered) -> None:
    """Every Einsum after all that make what it reads; otherwise as they were."""
    producers = lowered.producers()
    waiting = {einsum: sum(len(producers.get(a.tensor, ())) for a in einsum.operands) for einsum in lowered.einsums}
    readers = lowered.readers()
    place = {einsum: i for i, einsum in enumerate(lowered.einsums)}
    ready = [place[einsum] for einsum in lowered.einsums if waiting[einsum] == 0]
    heapq.heapify(ready)
    ordered: list[NetEinsum] = []
    while ready:
        einsum = lowered.einsums[heapq.heappop(ready)]
        ordered.append(einsum)
        for reader, _ in readers.get(einsum.output.tensor, []):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, place[reader])
    assert len(ordered) == len(lowered.einsums), "Einsums depend on each other in a cycle"
    lowered.einsums = ordered


def drop_unused(lowered: Lowered) -> None:
    """Einsums that nothing depends on go, and cuts whose result nobody reads."""
    cut_from = {cut.tensor: cut for cut in lowered.cuts}
    producers = lowered.producers()

    def sources(tensor: NetTensor) -> list[NetTensor]:
        sent = cut_from[tensor].sent if tensor in cut_from else ()
        operands = [access.tensor for maker in producers.get(tensor, ()) for access in maker.operands]
        return [*operands, *(view.tensor for view in sent)]

    needed = reached((view.tensor for view in lowered.outputs.values()), sources)
    lowered.einsums = [einsum for einsum in lowered.einsums if einsum.output.tensor in needed]
    lowered.cuts = [cut for cut in lowered.cuts if cut.tensor in needed]


# --- reads and copies -----------------------------------------------------------------------------------------------


def read_once(lowered: Lowered) -> None:
    """An Einsum that reads a tensor at two places reads a copy of it at the second."""
    einsums: list[NetEinsum] = []
    for einsum in lowered.einsums:
        distinct: dict[NetTensor, list[NetAccess]] = {}
        for access in list(einsum.reads):
            earlier = distinct.setdefault(access.tensor, [])
            twin = next((earlier_access for earlier_access in earlier if _alike(access, earlier_access)), None)
            if twin is not None:
                einsum.reads.remove(access)
                einsum.body = rebuilt(einsum.body, {id(access): twin})
                einsum.after = rebuilt(einsum.after, {id(access): twin, id(RESULT): RESULT})
                continue
            if earlier:
                copy, ranks = _copy(access.tensor, einsum, "copy")
                einsums.append(copy)
                access.tensor = copy.output.tensor
                access.index = {ranks[rank]: position for rank, position in access.index.items()}
            else:
                earlier.append(access)
        einsums.append(einsum)
    lowered.einsums = einsums


def _alike(first: NetAccess, second: NetAccess) -> bool:
    places = [[(p.terms, p.constant) for p in access.index.values()] for access in (first, second)]
    return places[0] == places[1]


def _copy(tensor: NetTensor, near: NetEinsum, suffix: str) -> tuple[NetEinsum, dict[Axis, Axis]]:
    """An Einsum that copies a whole tensor, and the new ranks by the old."""
    variables = {rank: Axis(rank.extent, rank.role) for rank in tensor.ranks()}
    ranks = {rank: Axis(rank.extent, rank.role) for rank in variables}
    batch = next((ranks[leaf] for leaf in tensor.batch.leaves()), None) if tensor.batch is not None else None
    new = NetTensor([r for r in ranks.values() if r is not batch], "result", tensor.source, batch)
    read = NetAccess(tensor, {rank: Position({variables[rank]: 1}) for rank in variables})
    write = NetAccess(new, {ranks[rank]: Position({variables[rank]: 1}) for rank in variables})
    einsum = NetEinsum(near.node, "copy", [read], write, list(variables.values()), read, suffix=suffix, copy=True)
    return einsum, ranks


def add_copies(lowered: Lowered) -> None:
    """Inputs with several readers are copied first, so that they can be fetched once for all of them; results that are
    wanted outside and have readers here are copied out."""
    readers, outgoing, producers = lowered.readers(), lowered.outgoing(), lowered.producers()
    einsums: list[NetEinsum] = []
    for einsum in lowered.einsums:
        for access in list(einsum.reads):
            uses = readers.get(access.tensor, [])
            if access.tensor.kind == "input" and len(_users(uses)) > 1:
                einsums.append(_copied_in(access.tensor, uses, einsum))
        einsums.append(einsum)
        tensor = einsum.output.tensor
        if tensor in outgoing and _users(readers.get(tensor, [])) and einsum is producers[tensor][-1]:
            einsums.append(_copy(tensor, einsum, "out")[0])
    lowered.einsums = einsums


def _users(uses: Iterable[tuple[NetEinsum, NetAccess]]) -> list[NetEinsum]:
    return list(dict.fromkeys(einsum for einsum, access in uses if access in einsum.reads))


def _copied_in(tensor: NetTensor, uses: Iterable[tuple[NetEinsum, NetAccess]], near: NetEinsum) -> NetEinsum:
    copy, ranks = _copy(tensor, near, "in")
    for _, access in list(uses):
        access.tensor = copy.output.tensor
        access.index = {ranks[rank]: position for rank, position in access.index.items()}
    return copy
