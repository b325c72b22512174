"""Tensors that several Einsums make: each writes its own range of one rank, and together they write all of it.

`C: c` and `C: c + 64`, or `S: 0` and `S: 1`. Such a tensor is finished when all of them have run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fusiest.base.errors import SpecError
from fusiest.spec.language.affine import Affine


class SharedOut(NamedTuple):
    """The rank that the producers of a tensor share out, and its size."""

    rank: str
    size: int


class Written(NamedTuple):
    """What one Einsum writes of a tensor: per rank, from where on and how much."""

    einsum: str
    ranges: dict[str, tuple[int, int]]


def written(einsum: str, tensor: str, ranks: Mapping[str, Affine], bounds: Mapping[str, int]) -> Written:
    """The ranges of an access whose variables count from 0: `c + 64` upwards, `63 - c` downwards."""
    ranges = {}
    for rank, affine in ranks.items():
        steps = [(a, bounds[v]) for v, a in affine.coefficients.items() if bounds[v] > 1]
        if any(abs(a) != 1 for a, _ in steps):
            raise SpecError(
                f"tensor {tensor} is made by several Einsums, and {einsum} writes {rank}: {affine}; it must write a range "
                "without gaps",
                tensor,
            )
        start = affine.constant + sum(a * (bound - 1) for a, bound in steps if a < 0)
        ranges[rank] = start, 1 + sum(bound - 1 for _, bound in steps)
    return Written(einsum, ranges)


def shared_out(tensor: str, makers: Sequence[Written], sizes: Mapping[str, int]) -> SharedOut:
    """How the producers of a tensor share it out; an error where they leave a gap or overlap.

    >>> two = [Written("A", {"M": (0, 8), "C": (0, 64)}), Written("B", {"M": (0, 8), "C": (64, 32)})]
    >>> shared_out("T", two, {})
    SharedOut(rank='C', size=96)
    """
    apart = [rank for rank in makers[0].ranges if len({producer.ranges[rank] for producer in makers}) > 1]
    if len(apart) != 1:
        differ = f"differ in ranks {', '.join(apart)}" if apart else "are the same"
        raise SpecError(
            f"tensor {tensor} is written by both {makers[0].einsum} and {makers[1].einsum}, whose ranges {differ}; each "
            f"producer must write its own range of one rank, as in '{tensor}[C: c]' and '{tensor}[C: c + 64]'",
            tensor,
        )
    rank, end, before = apart[0], 0, ""
    for maker in sorted(makers, key=lambda producer: producer.ranges[rank]):
        start, count = maker.ranges[rank]
        if start != end:
            how_often = "twice" if start < end else "by nobody"
            between = f", between Einsums {before} and {maker.einsum}" if before else ""
            raise SpecError(
                f"tensor {tensor}: indices {min(start, end)} to {max(start, end) - 1} of rank {rank} are written {how_often}{between}",
                tensor,
            )
        end, before = start + count, maker.einsum
    if sizes.get(rank, end) != end:
        raise SpecError(
            f"tensor {tensor}: its producers write {end} of the {sizes[rank]} indices of rank {rank}", tensor
        )
    return SharedOut(rank, end)
