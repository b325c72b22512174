"""The LoopTree on one page: a mapping is a tree of loops and holders whose leaves are Einsums' computes.

LoopTree   = Node*                       each the parent of the next; only the last may be a Sequential
Node       = Temporal | Spatial | Storage | Toll | Compute | Sequential
Sequential = Nested+                     branches run one after the other
Nested     = Node*
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, NamedTuple, TypeAlias

from fusiest.base.frozen import FrozenDict

RankVariable: TypeAlias = str | FrozenDict[str, str]
"""A name, or {Einsum: name} where fused Einsums name the shared rank differently."""
TileSize: TypeAlias = int | FrozenDict[str, int]
"""A size, or {Einsum: size} where fused Einsums step the shared loop in tiles of different sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Temporal:
    """A loop: below it, the rank variable has extent `tile_shape`.

    An Einsum that makes windows of a tensor may have a longer first tile, or tiles that overlap (see `Tiling`).
    """

    rank_variable: Annotated[
        RankVariable, "The variable that is stepped; by Einsum where fused Einsums call it differently."
    ]
    tile_shape: Annotated[TileSize, "The variable's extent below the loop; by Einsum where it differs."]
    initial_tile_shape: Annotated[
        TileSize | None, "The extent in the first iteration, if it is another: the first window that is made."
    ] = None
    step: Annotated[
        TileSize | None, "How far the end of the tile moves, if not by `tile_shape`: less where windows are made again."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spatial:
    """A loop whose iterations run side by side on dimension `name` of the component's fanout."""

    rank_variable: Annotated[RankVariable, "As for `!Temporal`."]
    tile_shape: Annotated[int, "As for `!Temporal`."]
    component: Annotated[str, "The node whose fanout the iterations run on."]
    name: Annotated[str, "The dimension of that fanout."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """From here down, these tensors' tiles are kept in this memory."""

    tensors: Annotated[tuple[str, ...], "Tensors whose tiles are kept from here down."]
    component: Annotated[str, "The memory."]
    persistent: Annotated[bool, "Held for all of the run; only above all loops."] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Toll:
    """These tensors pass through this component and are charged; nothing is kept."""

    tensors: Annotated[tuple[str, ...], "Tensors that pass."]
    component: Annotated[str, "The Toll."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """A leaf: here an Einsum is computed."""

    einsum: Annotated[str, "The Einsum computed here."]
    component: Annotated[str, "The compute that it runs on."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    """One branch of a Sequential."""

    nodes: Annotated[tuple[Node, ...], "The nodes of one branch."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequential:
    """A split: branches that run one after the other."""

    nodes: Annotated[tuple[Nested, ...], "Branches that run one after the other."]


Loop: TypeAlias = Temporal | Spatial
HolderNode: TypeAlias = Storage | Toll
Node: TypeAlias = Temporal | Spatial | Storage | Toll | Compute | Sequential


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopTree:
    """A mapping of a whole workload, or of a part of it."""

    nodes: Annotated[tuple[Node, ...], "From the root down. Only the last may be a `!Sequential`."]

    def paths(self) -> Iterator[tuple[Node, ...]]:
        """Root-to-leaf paths in execution order, without the splits."""
        yield from _paths(self.nodes, ())

    def __str__(self) -> str:
        """Drawn as indented text.

        >>> print(LoopTree(nodes=(Temporal(rank_variable="m", tile_shape=2), Compute(einsum="A", component="MAC"))))
        for m (tile 2)
          A on MAC
        """
        from fusiest.looptree.text import text

        return text(self)

    def _repr_html_(self) -> str:
        from fusiest.looptree.svg import svg

        return svg(self)


def _paths(nodes: tuple[Node, ...], above: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
    for i, node in enumerate(nodes):
        if isinstance(node, Sequential):
            above += nodes[:i]
            for branch in node.nodes:
                yield from _paths(branch.nodes, above)
            return
    yield above + nodes


class Tiling(NamedTuple):
    """The tiles of a loop: the first is [0, first), and the i-th ends at first + i·step and is `tile` long.

    What lies outside of the extent is left out.
    """

    first: int
    tile: int
    step: int

    @property
    def windowed(self) -> bool:
        """Whether tiles are anything but equal pieces, one after the other."""
        return not self.first == self.tile == self.step

    def last(self, extent: int, iterations: int | None) -> int:
        """The last index. Windows are made as often as Einsums go through the loop in even tiles, if that is known.

        >>> Tiling(4, 2, 2).last(10, None), Tiling(4, 4, 2).last(10, None), Tiling(2, 3, 1).last(8, 8)
        (3, 3, 7)
        """
        if self.windowed and iterations is not None:
            return iterations - 1
        covered = -(-(extent - self.first) // self.step)
        return max(0, min(covered, -(-(extent + self.tile - self.first) // self.step) - 1))

    def range(self, index: int, extent: int) -> tuple[int, int]:
        """From where to where the tile goes, the end excluded; empty if the end is not larger.

        >>> [Tiling(3, 4, 2).range(i, 8) for i in range(4)]
        [(0, 3), (1, 5), (3, 7), (5, 8)]
        """
        end = self.first + index * self.step
        return (max(0, end - self.tile) if index else 0), min(extent, end)

    def lengths(self, extent: int, iterations: int | None) -> dict[int, int]:
        """How many tiles there are of each length.

        >>> Tiling(3, 4, 2).lengths(8, 4), Tiling(2, 2, 2).lengths(7, None)
        ({4: 2, 3: 2}, {2: 3, 1: 1})
        """
        if not self.windowed:
            whole, remainder = divmod(extent, self.tile)
            counts = {self.tile: whole} if whole else {}
            return {**counts, remainder: 1} if remainder else counts
        last = self.last(extent, iterations)
        begin = max(1, -(-(self.tile - self.first) // self.step))  # from here to `end`, tiles are whole
        end = min(last, (extent - self.first) // self.step)
        counts = {self.tile: end - begin + 1} if end >= begin else {}
        for index in (*range(min(begin, last + 1)), *range(max(begin, end + 1), last + 1)):
            low, high = self.range(index, extent)
            if high > low:
                counts[high - low] = counts.get(high - low, 0) + 1
        return counts


def tiling_in(loop: Loop, einsum: str) -> Tiling | None:
    """The tiles of a loop in an Einsum, or None if the loop names none for it.

    >>> tiling_in(Temporal(rank_variable="h", tile_shape=2, initial_tile_shape=FrozenDict({"A": 4})), "A")
    Tiling(first=4, tile=2, step=2)
    """
    tile = _size_in(loop.tile_shape, einsum)
    if tile is None:
        return None
    if isinstance(loop, Spatial):
        return Tiling(tile, tile, tile)
    return Tiling(_size_in(loop.initial_tile_shape, einsum) or tile, tile, _size_in(loop.step, einsum) or tile)


def _size_in(size: TileSize | None, einsum: str) -> int | None:
    return size if isinstance(size, int) or size is None else size.get(einsum)


def variable_in(loop: Loop, einsum: str) -> str | None:
    """The rank variable that a loop steps in an Einsum, or None if the loop names none for it."""
    if isinstance(loop.rank_variable, str):
        return loop.rank_variable
    return loop.rank_variable.get(einsum)
