"""Loops and storage nodes on which Einsums must agree.

A storage node above a common loop serves all Einsums inside that loop. So an Einsum must be able to hold a tensor above
a loop that indexes it, if another Einsum has to hold it there. A loop above an exchanged tensor is common to all its
users. So an Einsum needs no such loop that another user cannot have.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from fusiest.pmapping.placements.placement import fact_of_placements, first_alike, graph_of
from fusiest.pmapping.placements.placement_graph import HeldChoice
from fusiest.spec import Affine, Path, Spec, paths_of


def agreed_loops(spec: Spec, einsum: str, finished: bool = True) -> dict[str, frozenset[str]]:
    """Per tensor, the variables of loops above which another Einsum may have to hold the tensor.

    Another user may have to hold the tensor above a loop that both have in common, although this Einsum could hold it
    below. The loop can be over any variable of this Einsum with as many elements. With `finished`, producer and
    consumer do not count: they exchange a tensor where no other storage node holds it above their common loops.
    """
    info = spec.info.einsums[einsum]
    agreed: dict[str, frozenset[str]] = {}
    for tensor, access in info.accesses.items():
        bounds: set[int] = set()
        for user in spec.info.users[tensor]:
            produced = access.output or tensor == spec.info.einsums[user].output
            if user != einsum and not (finished and produced):
                bounds |= _held_above(spec, user, tensor)
        loops = frozenset(v for v, bound in info.bounds.items() if bound in bounds)
        if loops:
            agreed[tensor] = loops
    return agreed


def common_loops(spec: Spec, einsum: str) -> dict[str, frozenset[str]]:
    """Per shared tensor, the variables of this Einsum whose loops may stand above the tensor's backing storage node.

    Such a loop is common to all users of the tensor. It steps one rank of the tensor in each of them, alone. So no
    mapping has it, if another user has no variable, or several, in the rank that it steps here.
    """
    common = {}
    for tensor, access in spec.info.einsums[einsum].accesses.items():
        if tensor not in spec.info.shared:
            continue
        users = [spec.info.einsums[other] for other in spec.info.users[tensor] if other != einsum]
        stepped = {
            rank
            for rank in access.ranks
            if all(_steps(user.accesses[tensor].ranks[rank], user.bounds) for user in users)
        }
        unlike = {v for rank, index in access.ranks.items() if rank not in stepped for v in index.variables}
        common[tensor] = frozenset(spec.info.einsums[einsum].bounds) - unlike
    return common


def _steps(index: Affine, bounds: Mapping[str, int]) -> bool:
    """Whether a loop can step a rank with this index alone."""
    return sum(bounds[v] > 1 for v in index.variables) == 1


def _held_above(spec: Spec, einsum: str, tensor: str) -> set[int]:
    """Bounds of the loops that an Einsum may have to hold a tensor above: those that do not index it, or all."""
    info = spec.info.einsums[einsum]
    if info.is_copy_operation:
        return set()
    below = frozenset[str]() if _is_above_others(spec, einsum, tensor) else info.accesses[tensor].fully_relevant
    return {bound for v, bound in info.bounds.items() if bound > 1 and v not in below}


def _is_above_others(spec: Spec, einsum: str, tensor: str) -> bool:
    """Whether a further storage node of the tensor may have to stand above another one between fused loops.

    The other one is of a memory further in, or of its own memory if constraints fix their places.
    """
    for path in paths_of(spec, einsum):
        first = first_alike(spec, path)
        old = dict(zip(path.einsum.accesses, first.einsum.accesses, strict=True))
        shared = frozenset(old[t] for t in path.einsum.accesses if t in spec.info.shared)
        stands = functools.partial(_stands_above, spec, first, old[tensor], shared)
        if path.compute.enabled and fact_of_placements(spec, first, ("above", old[tensor], shared), stands):
            return True
    return False


def _stands_above(spec: Spec, path: Path, tensor: str, shared: frozenset[str]) -> bool:
    """Whether some placement holds the tensor once more, further out than it holds another shared tensor outermost."""
    stands_above = False

    def step(value: tuple[frozenset[str], bool], i: int, choice: HeldChoice) -> tuple[frozenset[str], bool]:
        """What is held so far, and whether the tensor is once more."""
        nonlocal stands_above
        held, held_again = value
        if path.components[i].kind != "memory":
            return value
        again = tensor in held and tensor in choice.held
        fixed = choice.sets is not None and bool(choice.sets.tensor_order_options or choice.sets.tile_shape)
        stands_above = stands_above or ((held_again or (again and fixed)) and not held.issuperset(choice.held & shared))
        return held | (choice.held & (shared | {tensor})), held_again or again

    graph = graph_of(spec, path)
    if graph is not None:
        graph.ends((frozenset[str](), False), step)
    return stands_above
