"""Whether tensors are found where they were put, and finished before they are used.

Einsums that share a loop take turns. What is held below that loop is dropped after each turn, so all its users must
step through it alike. What is held above it must be finished piece by piece: the loop steps one rank of the tensor in
both, the consumer never gets ahead of the producer, and neither keeps the tensor elsewhere above the loop meanwhile.
If not, the costs are still well defined, but the values are wrong: that is a warning.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from fusiest.base.errors import Located, SpecError
from fusiest.model.nest import EinsumNest, Holder, NestLoop
from fusiest.model.occupancy import Sharing
from fusiest.model.windows import missing, needed
from fusiest.spec import EinsumInfo, Stepping


def check_backings(nests: Sequence[EinsumNest]) -> None:
    """Raise if a tensor is backed in two places."""
    backing: dict[str, EinsumNest] = {}
    for nest in nests:
        for tensor in nest.tensors:
            _check_backing(backing.setdefault(tensor, nest), nest, tensor)


def keeps_behind(user: EinsumInfo, tensor: str, variable: str, stepping: Stepping) -> bool:
    """Whether an Einsum that steps `variable` in a loop never needs more of a tensor than its producer has finished by
    then, if the same loop steps the tensor's rank as `stepping` says.

    The element at index b·q + rest, with `rest` from the Einsum's other variables, was made at n, a·n + c = b·q + rest.
    It must be that n ≤ q: then the producer's turn is not later than the consumer's, in each of several such loops or
    in an outer one, whatever the tiles. n − q is linear in q, so it is enough to look at the first q and the last.

    >>> from fusiest import load
    >>> info = load("matmuls", N_EINSUMS=1).info.einsums["Matmul0"]
    >>> [keeps_behind(info, "T0", "m", Stepping("M", 1, constant)) for constant in (-1, 0, 1)]
    [False, True, True]
    """
    affine = user.accesses[tensor].ranks[stepping.rank]
    if variable not in affine.coefficients:
        return False
    sign = 1 if stepping.coefficient > 0 else -1
    others = (sign * a * (user.bounds[v] - 1) for v, a in affine.coefficients.items() if v != variable)
    rest = sign * (affine.constant - stepping.constant) + sum(most for most in others if most > 0)
    ahead = sign * (affine.coefficients[variable] - stepping.coefficient)
    return max(rest, ahead * (user.bounds[variable] - 1) + rest) <= 0


def out_of_turn(common: Sharing, producers: Mapping[str, Sequence[str]]) -> tuple[Located, ...]:
    """A warning, with its place in the file, per Einsum and tensor that it uses unfinished, or after it was dropped."""
    position = {nest.einsum.name: i for i, nest in enumerate(common.nests)}
    first: dict[str, int] = {}
    warnings: list[Located] = []
    for j, user in enumerate(common.nests):
        for tensor in user.tensors:
            makers = producers.get(tensor, ())
            sources = [position[name] for name in makers] or [first.setdefault(tensor, j)]
            earlier = [i for i in sorted(sources) if i < j]
            faults = (_faults(common.nests[i], user, tensor, common.loops(i, j), bool(makers)) for i in earlier)
            warnings += list(itertools.chain.from_iterable(faults))[:1]
        if not any(user.einsum.output in nest.tensors for nest in common.nests if nest is not user):
            warnings += _incomplete(user)
    return tuple(warnings)


def _incomplete(maker: EinsumNest) -> Iterator[Located]:
    """A part of a result is never made."""
    output = maker.tensors[maker.einsum.output]
    for variable, end in maker.reach.items():
        if end < maker.einsum.bounds[variable] and variable in output.access.variables:
            yield _located(
                output.holders[0],
                f"Einsum {maker.einsum.name} does not make all of {maker.einsum.output}: its loop over {variable} ends at {end} "
                f"of {maker.einsum.bounds[variable]}; make longer windows",
            )


def _faults(source: EinsumNest, user: EinsumNest, tensor: str, shared: int, produced: bool) -> Iterator[Located]:
    """What is wrong, loop by loop. `source`: a producer, or of an input the first Einsum that uses it."""
    above = source.tensors[tensor].gaps[0]
    windowed = list(_windows(source, user, tensor, shared if produced else 0))
    yield from _not_there(source, user, tensor, windowed, produced)
    for source_loop, user_loop in zip(above, user.tensors[tensor].gaps[0], strict=True):
        if max(source_loop.iterations, user_loop.iterations) > 1 and (source_loop, user_loop) not in windowed:
            yield from _dropped(source, user, tensor, source_loop, user_loop)
    for source_loop, user_loop in zip(source.loops[:shared], user.loops[:shared], strict=True):
        if produced and source_loop not in above and source_loop.iterations > 1:
            if (source_loop, user_loop) in windowed:
                yield from _apart(source, user, tensor, source_loop, user_loop, "uses")
            elif user.tensors[tensor].access.output:
                yield from _apart(source, user, tensor, source_loop, user_loop, "makes a part of")
            else:
                yield from _unfinished(source, user, tensor, source_loop, user_loop)


def _windows(source: EinsumNest, user: EinsumNest, tensor: str, shared: int) -> Iterator[tuple[NestLoop, NestLoop]]:
    """Shared loops over a rank of which one of them makes windows, if each of the two steps it by one variable."""
    above = {loop.number for loop in source.tensors[tensor].gaps[0]}
    for source_loop, user_loop in zip(source.loops, user.loops, strict=False):
        if source_loop.number != user_loop.number:
            return
        stepping = source.tensors[tensor].access.stepping(source_loop.variable)
        if stepping is None or user_loop.variable not in user.tensors[tensor].access.ranks[stepping.rank].variables:
            continue
        chain = [
            (a, b)
            for i, (a, b) in enumerate(zip(source.loops, user.loops, strict=False))
            if a.number == b.number and (i < shared or a.number in above) and source_loop.variable == a.variable
        ]
        even = all(a.tiling == b.tiling and not a.tiling.windowed for a, b in chain)
        if (source_loop, user_loop) in chain and not even and all(b.variable == user_loop.variable for _, b in chain):
            yield source_loop, user_loop


def _not_there(
    source: EinsumNest, user: EinsumNest, tensor: str, windowed: Sequence[tuple[NestLoop, NestLoop]], produced: bool
) -> Iterator[Located]:
    """The user needs something that is not in the windows which its source makes."""
    whole = {v: (0, end) for v, end in user.reach.items()}
    for variable, end in source.reach.items() if produced else ():
        stepping, bound = source.tensors[tensor].access.stepping(variable), source.einsum.bounds[variable]
        if end < bound and stepping is not None and needed(user, tensor, stepping, whole, bound)[1] > end:
            yield _located(
                user.tensors[tensor].holders[0],
                f"Einsum {user.einsum.name} needs more of {tensor} than Einsum {source.einsum.name} makes for it: its loop "
                f"over {variable} ends at {end} of {bound}; make longer windows",
            )
    for variable in dict.fromkeys(loop.variable for loop, _ in windowed):
        pairs = [pair for pair in windowed if pair[0].variable == variable]
        stepping = source.tensors[tensor].access.stepping(variable)
        assert stepping is not None
        if missing(source, user, tensor, stepping, pairs):
            yield _located(
                user.tensors[tensor].holders[0],
                f"Einsum {user.einsum.name} needs more of {tensor} than Einsum {source.einsum.name} makes for it: in some "
                f"iteration of the {pairs[-1][1]} that they share, {stepping.rank} is not in the window that is held then; "
                "make longer windows, or split above that loop",
            )


def _dropped(
    source: EinsumNest, user: EinsumNest, tensor: str, source_loop: NestLoop, user_loop: NestLoop
) -> Iterator[Located]:
    """The tensor is held below a shared loop: in each iteration both must mean the same elements of it."""
    accesses = source.tensors[tensor].access, user.tensors[tensor].access
    stepping = accesses[0].stepping(source_loop.variable)
    if stepping is None or stepping != accesses[1].stepping(user_loop.variable):
        indices = [
            ", ".join(f"{rank}: {affine}" for rank, affine in access.ranks.items() if v in affine.variables)
            or "nothing"
            for access, v in zip(accesses, (source_loop.variable, user_loop.variable), strict=True)
        ]
        yield _located(
            user.tensors[tensor].holders[0],
            f"Einsum {user.einsum.name} uses {tensor} where it is not held: in the {user_loop} it steps {indices[1]}, Einsum "
            f"{source.einsum.name} steps {indices[0]}, and after each iteration {tensor} is dropped; hold it above that loop",
        )


def _unfinished(
    source: EinsumNest, user: EinsumNest, tensor: str, source_loop: NestLoop, user_loop: NestLoop
) -> Iterator[Located]:
    """The tensor is held above a shared loop: in its turn the consumer must need only what is finished."""
    source_nest, user_nest = source.tensors[tensor], user.tensors[tensor]
    begin = f"Einsum {user.einsum.name} uses {tensor} before Einsum {source.einsum.name} has finished it"
    stepping = source_nest.access.stepping(source_loop.variable)
    if stepping is None or user_loop.variable not in user_nest.access.ranks[stepping.rank].variables:
        yield _located(
            user_nest.holders[0],
            f"{begin}: they share the {user_loop}, which does not step one rank of {tensor} in both; hold {tensor} below that "
            "loop, or split above it",
        )
    elif not keeps_behind(user.einsum, tensor, user_loop.variable, stepping):
        needed, ready = user_nest.access.ranks[stepping.rank], source_nest.access.ranks[stepping.rank]
        yield _located(
            user_nest.holders[0],
            f"{begin}: in the {user_loop} that they share, it needs {stepping.rank}: {needed} when {stepping.rank}: {ready} "
            "has been made; split above that loop",
        )
    yield from _apart(source, user, tensor, source_loop, user_loop, "uses")


def _apart(
    source: EinsumNest, user: EinsumNest, tensor: str, source_loop: NestLoop, user_loop: NestLoop, verb: str
) -> Iterator[Located]:
    """One of the two holds the tensor elsewhere above a loop in which they take turns."""
    for nest, loop in ((source, source_loop), (user, user_loop)):
        for holder in nest.tensors[tensor].holders[1:]:
            if holder.position < loop.position:
                yield _located(
                    holder,
                    f"Einsum {user.einsum.name} {verb} {tensor} before Einsum {source.einsum.name} has finished it: Einsum "
                    f"{nest.einsum.name} holds it in {holder.component.name} above the {loop}, through which "
                    "it is exchanged piece by piece; hold it below that loop, or split above it",
                )


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


def _located(holder: Holder, message: str) -> Located:
    return Located(message, holder.tensor.source if isinstance(holder.tensor, Located) else None)
