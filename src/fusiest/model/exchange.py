"""Whether tensors are finished before they are used, and found where they were put.

A loop that a producer and a consumer share makes them take turns. What they exchange above that loop must then be
finished piece by piece: the loop steps one and the same rank of the tensor in both, and neither keeps it elsewhere
above the loop meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping

from fusiest.errors import SpecError
from fusiest.model.nest import EinsumNest, Loop
from fusiest.model.occupancy import Sharing


def check_exchange(common: Sharing, producer: Mapping[str, str]) -> None:
    """Raise if a tensor is backed in two places, or used before it is finished."""
    backing: dict[str, EinsumNest] = {}
    position = {nest.einsum.name: i for i, nest in enumerate(common.nests)}
    for j, nest in enumerate(common.nests):
        for tensor in nest.tensors:
            other = backing.setdefault(tensor, nest)
            _check_backing(other, nest, tensor)
            source = position.get(producer.get(tensor, ""), j)
            if source < j:
                shared = common.loops(source, j)
                for made, used in zip(common.nests[source].loops[:shared], nest.loops[:shared], strict=True):
                    _check_turns(common.nests[source], nest, tensor, made, used)


def _check_backing(a: EinsumNest, b: EinsumNest, tensor: str) -> None:
    """All users of a tensor exchange it at one and the same holder, under the same loops."""
    first, second = a.tensors[tensor], b.tensors[tensor]
    if first.holders[0].number != second.holders[0].number:
        raise SpecError(
            f"Einsums {a.einsum.name} and {b.einsum.name} share tensor {tensor} but hold it outermost in "
            "different places; hold it once, above the split between them",
            second.holders[0].tensor,
        )
    if [loop.number for loop in first.gaps[0]] != [loop.number for loop in second.gaps[0]]:
        raise SpecError(
            f"Einsums {a.einsum.name} and {b.einsum.name} share tensor {tensor} in {second.holders[0].component.name}, "
            "but under different Spatial loops; put those loops above the split between them",
            second.holders[0].tensor,
        )


def _check_turns(source: EinsumNest, user: EinsumNest, tensor: str, made: Loop, used: Loop) -> None:
    """A loop that producer and consumer share must not come between a tensor and its completion."""
    made_nest, used_nest = source.tensors[tensor], user.tensors[tensor]
    if made.iterations == 1 or any(loop.number == made.number for loop in made_nest.gaps[0]):
        return
    rank = _rank(source, tensor, made.variable)
    if rank is None or rank != _rank(user, tensor, used.variable):
        raise SpecError(
            f"Einsum {user.einsum.name} would use {tensor} before Einsum {source.einsum.name} has finished it: they share "
            f"the {used}, which does not step one rank of {tensor} in both; hold {tensor} below that loop, or split above it",
            used_nest.holders[0].tensor,
        )
    for nest, own, loop in ((source, made_nest, made), (user, used_nest, used)):
        for holder in own.holders[1:]:
            if holder.position < loop.position:
                raise SpecError(
                    f"Einsum {nest.einsum.name} holds {tensor} in {holder.component.name} above the {loop}, through which "
                    f"it is exchanged piece by piece; hold it below that loop",
                    holder.tensor,
                )


def _rank(nest: EinsumNest, tensor: str, variable: str) -> str | None:
    """The rank of a tensor that a variable steps alone."""
    for rank, affine in nest.einsum.accesses[tensor].ranks.items():
        if affine.variables == (variable,):
            return rank
    return None
