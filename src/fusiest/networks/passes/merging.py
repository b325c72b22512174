"""Ranks that were split, and that nobody needs apart, put together again.

A split is undone for all tensors and Einsums at once that share it, if every access has both parts side by side.
"""

from __future__ import annotations

from collections.abc import Iterator

from fusiest.networks.lowering.extents import Axis, Extent
from fusiest.networks.lowering.tensors import Guard, NetAccess, NetEinsum, NetTensor, Position
from fusiest.networks.passes.lowered import Lowered

Pair = tuple[Axis, Axis]
"""Two ranks of a tensor or two variables of an Einsum, outer and inner, that were one."""


def merge_ranks(lowered: Lowered) -> None:
    """Undo splits until none can be undone.

    `T[m, h, e] = X[m, d] * W[d, h, e]`, `Y[m, d] = T[m, h, e] * V[h, e, d]`  →  `T[m, h] = …` of one larger rank
    """
    while _Merge(lowered).merge():
        pass


class _Merge:
    """One round: all splits whose parts are not split themselves."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.root: dict[object, object] = {}
        """Pairs that can only be merged together: a forest."""
        self.bad: set[object] = set()
        self.ranks: dict[NetTensor, list[Pair]] = {}
        self.variables: dict[NetEinsum, list[Pair]] = {}
        outgoing = lowered.outgoing()
        for einsum in lowered.einsums:
            for access in einsum.accesses:
                if access.tensor not in self.ranks:
                    self.ranks[access.tensor] = [] if access.tensor in outgoing else list(_siblings(access.tensor))

    def merge(self) -> bool:
        """Find what can be merged, and do it; whether anything was."""
        if not any(self.ranks.values()):
            return False
        for einsum in self.lowered.einsums:
            self._look(einsum)
        good = [
            (tensor, pair) for tensor, pairs in self.ranks.items() for pair in pairs if self._find(pair) not in self.bad
        ]
        if not good:
            return False
        new: dict[Pair, Axis] = {}
        for tensor, pair in good:
            self._merge_tensor(tensor, pair, new)
        for einsum in self.lowered.einsums:
            self._merge_einsum(einsum, new)
        return True

    # --- looking --------------------------------------------------------------------------------------------------

    def _find(self, key: object) -> object:
        while self.root.get(key, key) != key:
            key = self.root[key]
        return key

    def _link(self, first: object, second: object) -> None:
        a, b = self._find(first), self._find(second)
        if a != b:
            self.root[a] = b
            if a in self.bad:
                self.bad.add(b)

    def _look(self, einsum: NetEinsum) -> None:
        """Which pairs of variables an Einsum has, and whether they are always together."""
        together: dict[Axis, Pair] = {}
        for access in einsum.accesses:
            for pair in self.ranks.get(access.tensor, []):
                at_pair = _variables_at(access, pair)
                if at_pair is None:
                    self.bad.add(self._find(pair))
                elif isinstance(at_pair, tuple):
                    self._link(pair, (einsum, at_pair))
                    for variable in at_pair:
                        if together.setdefault(variable, at_pair) != at_pair:
                            self.bad |= {self._find((einsum, at_pair)), self._find((einsum, together[variable]))}
        self.variables[einsum] = list(dict.fromkeys(together.values()))
        for variables in self.variables[einsum]:
            if not all(self._is_together(access, variables) for access in einsum.accesses):
                self.bad.add(self._find((einsum, variables)))

    def _is_together(self, access: NetAccess, variables: Pair) -> bool:
        outer, inner = variables
        positions = [
            position for position in access.index.values() if outer in position.terms or inner in position.terms
        ]
        for pair in self.ranks.get(access.tensor, []):
            if _variables_at(access, pair) == variables:
                positions = [
                    position for position in positions if position not in (access.index[pair[0]], access.index[pair[1]])
                ]
        guards = [g.position for g in access.guards if outer in g.position.terms or inner in g.position.terms]
        return all(p.terms.get(outer) == inner.size * p.terms.get(inner, 0) for p in (*positions, *guards))

    # --- merging --------------------------------------------------------------------------------------------------

    def _merge_tensor(self, tensor: NetTensor, pair: Pair, new: dict[Pair, Axis]) -> None:
        new[pair] = Axis(Extent(pair[0].size * pair[1].size), pair[1].role)
        leaves = [leaf for axis in tensor.axes for leaf in axis.leaves()]
        tensor.axes = [new[pair] if leaf is pair[0] else leaf for leaf in leaves if leaf is not pair[1]]

    def _merge_einsum(self, einsum: NetEinsum, new: dict[Pair, Axis]) -> None:
        merged: dict[Pair, Axis] = {}
        for variables in self.variables[einsum]:
            if self._find((einsum, variables)) not in self.bad:
                merged[variables] = Axis(Extent(variables[0].size * variables[1].size), variables[1].role)
        for access in einsum.accesses:
            for pair in [pair for pair in self.ranks.get(access.tensor, []) if pair in new]:
                access.index = _merged_index(access.index, pair, new[pair], merged)
            access.index = {rank: _merged(position, merged) for rank, position in access.index.items()}
            access.guards = tuple(Guard(_merged(guard.position, merged), guard.size) for guard in access.guards)
        for (outer, inner), variable in merged.items():
            einsum.variables = [variable if v is outer else v for v in einsum.variables if v is not inner]


def _siblings(tensor: NetTensor) -> Iterator[Pair]:
    """Neighbouring ranks that are the two parts of one."""
    for axis in tensor.axes:
        for outer, inner in axis.split_axes():
            if outer.extent.root().parts is None and inner.extent.root().parts is None:
                yield outer, inner


def _variables_at(access: NetAccess, pair: Pair) -> Pair | bool | None:
    """The two variables at a pair of ranks; True if they are constants, None if they are something else."""
    outer, inner = (access.index[rank] for rank in pair)
    if not outer.terms and not inner.terms:
        return True
    if outer.alone is not None and inner.alone is not None:
        return outer.alone, inner.alone
    # A part of a tensor that several Einsums make: one index of the outer rank, all of the inner.
    if not outer.terms and inner.alone is not None and inner.alone.size == pair[1].size:
        return True
    return None


def _merged_index(
    index: dict[Axis, Position], pair: Pair, rank: Axis, merged: dict[Pair, Axis]
) -> dict[Axis, Position]:
    outer, inner = index[pair[0]], index[pair[1]]
    variables = outer.alone, inner.alone
    if variables[0] is not None and variables[1] is not None:
        position = Position({merged[variables[0], variables[1]]: 1})
    else:
        position = Position(inner.terms, outer.constant * pair[1].size + inner.constant)
    return {rank if r is pair[0] else r: position if r is pair[0] else p for r, p in index.items() if r is not pair[1]}


def _merged(position: Position, merged: dict[Pair, Axis]) -> Position:
    terms = dict(position.terms)
    for (outer, inner), variable in merged.items():
        if outer in terms and inner in terms:
            terms[variable] = terms.pop(inner)
            del terms[outer]
    return Position(terms, position.constant)
