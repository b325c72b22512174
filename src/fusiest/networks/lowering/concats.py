"""Concatenation: parts of a tensor are written where they belong.

Each operand has an Einsum that moves it into its range of the result. Where the operand is made by an Einsum, that
one writes there itself, and the move is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fusiest.networks.graph.graph import GraphNode, reached
from fusiest.networks.lowering.extents import Axis, Extent, Factor, align, spread
from fusiest.networks.lowering.lower import Fate, Lowering
from fusiest.networks.lowering.making import EinsumMaker, Unfit, axis_labels
from fusiest.networks.lowering.tensors import NetAccess, NetEinsum, NetTensor, Position, View
from fusiest.networks.passes.lowered import Lowered

Ranks = list[Axis]


def concatenated(lowering: Lowering, node: GraphNode, views: Sequence[View], axis: int) -> View:
    """A new tensor that has all operands along an axis, each moved there by an Einsum of its own.

    Operands that were put together before are taken as that: `[[a, b], c]` for `[a, b, c]`, as dense blocks have it.
    """
    whole = _joined(lowering, node, _regrouped(lowering, views, axis), axis)
    lowering.joined[axis, views[0].tensor] = tuple(views), whole
    return whole


def _regrouped(lowering: Lowering, views: Sequence[View], axis: int) -> Sequence[View]:
    """The operands; if an earlier node put the first of them together, its result for these."""
    parts, whole = lowering.joined.get((axis, views[0].tensor), ((), views[0]))
    if 0 < len(parts) < len(views) and all(a.same(b) for a, b in zip(parts, views, strict=False)):
        return [whole, *views[len(parts) :]]
    return views


def _joined(lowering: Lowering, node: GraphNode, views: Sequence[View], axis: int) -> View:
    sizes = [view.shape[axis] for view in views]
    rank = len(views[0].axes)
    ranks = [_common([view.axes[i] for view in views]) if i != axis else [] for i in range(rank)]
    equal = len(set(sizes)) == 1
    outer, inner = _along(views, axis, sum(sizes), equal)
    ranks[axis] = [outer, *inner]
    batched = any(view.tensor.batch is not None for view in views)
    batch = Axis(lowering.batch, "b") if batched and lowering.batch is not None else None
    tensor = NetTensor(
        [result_axis for axes in ranks for result_axis in axes], "result", node.outputs[0], batch, node=node
    )
    start = 0
    for i, view in enumerate(views):
        _move(lowering, node, view, tensor, ranks, axis, i if equal else start)
        start += sizes[i]
    return View(tensor, tuple(tuple(Factor(result_axis.extent, result_axis) for result_axis in axes) for axes in ranks))


def _common(columns: Sequence[Sequence[Factor]]) -> Ranks:
    """Ranks of the result along an axis that all operands have."""
    groups = align(columns)
    if groups is None:
        raise Unfit("its parts do not factor alike")
    return [Axis(next(f.extent for f in group if f is not None)) for group in groups]


def _along(views: Sequence[View], axis: int, total: int, equal: bool) -> tuple[Axis, Ranks]:
    """The ranks that the operands share out: for parts of one size their number and what is in one, else one that is whole."""
    if equal:
        inner = _common([view.axes[axis] for view in views])
        size = total // len(views)
        if len(inner) == 1:  # one rank, split in two, which is put together again where nobody needs it apart
            whole = Extent(total)
            whole.parts = Extent(len(views)), inner[0].extent
            halves = Axis(whole, "c").leaves()
            return halves[0], halves[1:]
        assert size == 1 or inner
        return Axis(Extent(len(views))), inner
    for view in views:
        leaves = spread(view.axes[axis])
        if len(leaves) > 1:
            raise Unfit(f"a part of {'x'.join(str(leaf.size) for leaf in leaves)}, which is no single rank")
        for leaf in leaves:
            leaf.extent.root().rigid = True
    whole = Extent(total)
    whole.rigid = True
    return Axis(whole), []


def _move(
    lowering: Lowering, node: GraphNode, view: View, tensor: NetTensor, ranks: Sequence[Ranks], axis: int, start: int
) -> None:
    labels = axis_labels(view.shape)
    maker = EinsumMaker([(view, labels)], {}, {})
    access = maker.access(0)
    index: dict[Axis, Position] = {}
    if tensor.batch is not None:
        maker.batch = maker.batch or Axis(tensor.batch.extent, "b")
        index[tensor.batch] = Position({maker.batch: 1})
    for i, result_axes in enumerate(ranks):
        label = labels[i]
        variables = maker.variables[label] if label is not None else []
        begin, inner_axes = start if i == axis else 0, result_axes
        if i == axis and (len(result_axes) > 1 or not variables):
            index[result_axes[0]] = Position({}, start)
            begin, inner_axes = 0, result_axes[1:]
        index.update((a, Position({v: 1}, begin)) for a, v in zip(inner_axes, variables, strict=True))
    einsum = NetEinsum(node, "concat", [access], NetAccess(tensor, index), maker.all_variables(), access, suffix="part")
    einsum.move = True
    lowering.einsums.append(einsum)


# --- in place -------------------------------------------------------------------------------------------------------


def write_in_place(lowered: Lowered) -> None:
    """Who makes an operand writes it where it belongs, unless that would make somebody wait for himself.

    `A[c] = X[c]`, `T[C: c + 64] = A[c]`  →  `T[C: c + 64] = X[c]`; other readers of A read T there.
    """
    outgoing, producers, readers = lowered.outgoing(), lowered.producers(), lowered.readers()
    gone: set[NetEinsum] = set()
    for move in [einsum for einsum in lowered.einsums if einsum.move]:
        source = move.reads[0].tensor
        other_uses = [use for use in readers[source] if use[0] is not move]
        if (
            source in outgoing
            or source not in producers
            or not move.reads[0].is_whole(move.variables)
            or not _fits(move, producers[source], producers)
        ):
            continue
        target = move.output.tensor
        if other_uses and _waits(readers, [reader for reader, _ in other_uses], set(producers[target]) - {move}):
            continue
        places = _places(move)
        for maker in producers[source]:
            maker.output = NetAccess(target, _moved(maker.output.index, places, move))
            maker.nodes.append(move.node)
        for _, access in other_uses:
            access.tensor, access.index = target, _moved(access.index, places, move)
        producers[target].remove(move)
        producers[target] += producers.pop(source)
        del readers[source]
        readers.setdefault(target, []).extend(other_uses)
        gone.add(move)
    lowered.einsums = [einsum for einsum in lowered.einsums if einsum not in gone]
    _tell(lowered)


def _fits(move: NetEinsum, makers: Sequence[NetEinsum], producers: Mapping[NetTensor, Sequence[NetEinsum]]) -> bool:
    """Whether the result is shared out along one rank still, if its part is made in parts itself."""
    if any(maker.copy for maker in makers):
        return False
    if len(makers) == 1:
        return True
    inner, read = _shared(makers), move.reads[0].index
    outer = _shared(producers[move.output.tensor])
    moved = {rank for rank, position in move.output.index.items() for r in inner if read[r].alone in position.terms}
    return moved == outer


def _shared(makers: Sequence[NetEinsum]) -> set[Axis]:
    """Ranks along which several Einsums make a tensor."""
    ranks = makers[0].output.index
    return {rank for rank in ranks if any(maker.output.index[rank].alone is None for maker in makers)}


def _waits(
    readers: Mapping[NetTensor, Sequence[tuple[NetEinsum, NetAccess]]],
    users: Sequence[NetEinsum],
    makers: set[NetEinsum],
) -> bool:
    """Whether one of these makers depends on one of these users."""
    after = reached(users, lambda einsum: [user for user, _ in readers.get(einsum.output.tensor, [])])
    return not after.isdisjoint(makers)


def _places(move: NetEinsum) -> dict[Axis, tuple[Axis, int]]:
    """For each rank of what is moved, its rank in the result and where it begins there."""
    written = {v: (rank, position.constant) for rank, position in move.output.index.items() for v in position.terms}
    return {rank: written[v] for rank, position in move.reads[0].index.items() for v in position.terms}


def _moved(
    index: Mapping[Axis, Position], places: Mapping[Axis, tuple[Axis, int]], move: NetEinsum
) -> dict[Axis, Position]:
    positions = {rank: Position({}, p.constant) for rank, p in move.output.index.items() if not p.terms}
    for rank, position in index.items():
        place, start = places[rank]
        positions[place] = Position(position.terms, position.constant + start)
    return {rank: positions[rank] for rank in move.output.index}


def _tell(lowered: Lowered) -> None:
    """Concatenations without a move are views."""
    moved = {einsum.node for einsum in lowered.einsums if einsum.move}
    for einsum in lowered.einsums:
        for node in einsum.nodes:
            if node.operator == "Concat" and node not in moved:
                lowered.lowering.fates[node] = Fate("view", "its parts are written in place")
                einsum.nodes = [other for other in einsum.nodes if other is not node]
