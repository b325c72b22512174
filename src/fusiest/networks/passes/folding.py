"""Folding: a function of one tensor is computed where the tensor is made."""

from __future__ import annotations

from fusiest.networks.lowering.extents import Axis
from fusiest.networks.lowering.tensors import Apply, NetEinsum, NetTensor, Position, rebuilt, walk
from fusiest.networks.passes.lowered import Lowered


def fold(lowered: Lowered, only: frozenset[str] | None) -> None:
    """A function of one tensor that has no other reader is computed where the tensor is made.

    `T[m] = A[m,k] * B[k]`, `Z[m] = relu(T[m] + bias[m])`  →  `Z[m] = relu(A[m,k] * B[k] + bias[m])`
    """
    producers = {tensor: makers[0] for tensor, makers in lowered.producers().items() if len(makers) == 1}
    readers, outgoing = lowered.readers(), lowered.outgoing()
    remaining: list[NetEinsum] = []
    for einsum in lowered.einsums:
        source = _folds_into(einsum, producers, only)
        if source is None or len(readers[source.output.tensor]) > 1 or source.output.tensor in outgoing:
            remaining.append(einsum)
        else:
            _fold(einsum, source)
            producers[einsum.output.tensor] = source
    lowered.einsums = remaining


def _folds_into(
    einsum: NetEinsum, producers: dict[NetTensor, NetEinsum], only: frozenset[str] | None
) -> NetEinsum | None:
    """The Einsum before, if this one is only a function of each of its elements."""
    if not einsum.elementwise:
        return None
    operators = {part.operator for part in walk(einsum.body) if isinstance(part, Apply)} - {"Constant", "Requantize"}
    if only is not None and not operators <= only:
        return None
    (read,) = (access for access in einsum.reads if not access.foldable)
    if read.guards or not read.is_whole(einsum.variables):
        return None
    return producers.get(read.tensor)


def _fold(einsum: NetEinsum, source: NetEinsum) -> None:
    (read,) = (access for access in einsum.reads if not access.foldable)
    written = {rank: position.alone for rank, position in source.output.index.items()}
    renamed = {variable: written[rank] for rank, position in read.index.items() for variable in position.terms}
    for access in einsum.accesses:
        if access is not read:
            access.index = {rank: _renamed(position, renamed) for rank, position in access.index.items()}
    source.folded += [access for access in einsum.operands if access is not read]
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


def keep_constants(lowered: Lowered) -> None:
    """Constants of Einsums that stay are read like other tensors, single values aside."""
    for einsum in lowered.einsums:
        for access in einsum.reads:
            access.foldable = False
