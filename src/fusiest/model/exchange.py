"""Whether tensors are found where they were put, and finished before they are used.

A loop that a producer and a consumer share makes them take turns. What they exchange above that loop must then be
finished piece by piece: the loop steps one and the same rank of the tensor in both, and neither keeps it elsewhere
above the loop meanwhile. If not, the costs are still well defined, but the values are wrong: that is a warning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fusiest.errors import Located, SpecError
from fusiest.model.nest import EinsumNest, Holder, Loop
from fusiest.model.occupancy import Sharing


def check_backings(nests: Sequence[EinsumNest]) -> None:
    """Raise if a tensor is backed in two places."""
    backing: dict[str, EinsumNest] = {}
    for nest in nests:
        for tensor in nest.tensors:
            _check_backing(backing.setdefault(tensor, nest), nest, tensor)


def unfinished(common: Sharing, producer: Mapping[str, str]) -> tuple[Located, ...]:
    """A warning, with its place in the file, per Einsum and tensor that it uses before the tensor is finished."""
    position = {nest.einsum.name: i for i, nest in enumerate(common.nests)}
    found = []
    for j, user in enumerate(common.nests):
        for tensor in user.tensors:
            i = position.get(producer.get(tensor, ""), j)
            if i < j:
                source, shared = common.nests[i], common.loops(i, j)
                turns = zip(source.loops[:shared], user.loops[:shared], strict=True)
                wrong = (_out_of_turn(source, user, tensor, made, used) for made, used in turns)
                found += [warning for warning in wrong if warning is not None][:1]
    return tuple(found)


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


def _out_of_turn(source: EinsumNest, user: EinsumNest, tensor: str, made: Loop, used: Loop) -> Located | None:
    """What is wrong if a loop that producer and consumer share comes between a tensor and its completion."""
    made_nest, used_nest = source.tensors[tensor], user.tensors[tensor]
    if made.iterations == 1 or any(loop.number == made.number for loop in made_nest.gaps[0]):
        return None
    begin = f"Einsum {user.einsum.name} uses {tensor} before Einsum {source.einsum.name} has finished it"
    rank = _rank(source, tensor, made.variable)
    if rank is None or rank != _rank(user, tensor, used.variable):
        return _at(
            used_nest.holders[0],
            f"{begin}: they share the {used}, which does not step one rank of {tensor} in both; hold {tensor} below that "
            "loop, or split above it",
        )
    for nest, own, loop in ((source, made_nest, made), (user, used_nest, used)):
        for holder in own.holders[1:]:
            if holder.position < loop.position:
                return _at(
                    holder,
                    f"{begin}: Einsum {nest.einsum.name} holds it in {holder.component.name} above the {loop}, through which "
                    "it is exchanged piece by piece; hold it below that loop, or split above it",
                )
    return None


def _at(holder: Holder, message: str) -> Located:
    return Located(message, holder.tensor.source if isinstance(holder.tensor, Located) else None)


def _rank(nest: EinsumNest, tensor: str, variable: str) -> str | None:
    """The rank of a tensor that a variable steps alone."""
    for rank, affine in nest.einsum.accesses[tensor].ranks.items():
        if affine.variables == (variable,):
            return rank
    return None
