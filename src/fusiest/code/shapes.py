"""Shapes of tensors: from where to where each rank goes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from fusiest.base.errors import SpecError
from fusiest.spec import Affine, WorkloadInfo


@dataclass(frozen=True, slots=True)
class TensorShape:
    """The ranks of a tensor in order, and the coordinates that exist on each: from `low` on, `size` of them.

    A point of an Einsum that reads elsewhere adds nothing: what lies there is padding.
    """

    ranks: tuple[str, ...]
    low: tuple[int, ...]
    size: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.size)

    def bounds(self, rank: str) -> tuple[int, int]:
        """The first coordinate of a rank, and the end."""
        i = self.ranks.index(rank)
        return self.low[i], self.low[i] + self.size[i]


def span(affine: Affine, bounds: Mapping[str, int]) -> tuple[int, int]:
    """The least and the greatest position, over a box of these extents that begins at 0.

    >>> span(Affine.parse("2*p - r + 1"), {"p": 3, "r": 2})
    (0, 5)
    """
    ends = [a * (bounds[v] - 1) for v, a in affine.coefficients.items()]
    return affine.constant + sum(min(end, 0) for end in ends), affine.constant + sum(max(end, 0) for end in ends)


def shapes(
    info: WorkloadInfo, given: Mapping[str, Sequence[int]] | None = None, padded: bool = False
) -> dict[str, TensorShape]:
    """The shape of every tensor.

    What is made goes from the first element that is made to the last. An input has the size of its rank, if the workload gives
    one; or the shape that is `given`; or else all that is read. `padded`: given shapes may end before what is read, wherever that is.
    """
    found = {}
    for tensor, users in info.users.items():
        makers = info.producers.get(tensor, ())
        accesses = [(info.einsums[e].accesses[tensor], info.einsums[e].bounds) for e in makers or users]
        ranks = tuple(accesses[0][0].ranks)
        spans = [[span(access.ranks[rank], bounds) for access, bounds in accesses] for rank in ranks]
        lows = [min(low for low, _ in ends) for ends in spans]
        sizes = [max(high for _, high in ends) - low + 1 for low, ends in zip(lows, spans, strict=True)]
        for i, rank in enumerate(() if makers else ranks):
            if rank in info.rank_sizes:
                lows[i], sizes[i] = 0, info.rank_sizes[rank]
        if given is not None and tensor in given and not makers:
            windows = {rank for rank in ranks if padded or any(len(a.ranks[rank].variables) > 1 for a, _ in accesses)}
            lows, sizes = _given(TensorShape(ranks, tuple(lows), tuple(sizes)), tensor, given[tensor], windows)
        found[tensor] = TensorShape(ranks, tuple(lows), tuple(sizes))
    return found


def _given(
    read: TensorShape, tensor: str, shape: Sequence[int], windows: Collection[str]
) -> tuple[list[int], list[int]]:
    """An input of this shape: all that is read; or from 0 on, and the rest is padding, which only windows may read."""
    if len(shape) != len(read.ranks):
        ranks = ", ".join(read.ranks) or "(none)"
        raise SpecError(f"{tensor} has the ranks {ranks}, but the array has {len(shape)} axes")
    found = []
    for rank, low, size, n in zip(read.ranks, read.low, read.size, shape, strict=True):
        if n < 1 or (n != size and n < low + size and rank not in windows and low >= 0):
            raise SpecError(f"{tensor} has {size} of rank {rank}, but the array has {n}")
        found.append((low if n == size else 0, n))
    return [low for low, _ in found], [n for _, n in found]
