"""The LoopTree on one page: a mapping is a tree of loops and holders whose leaves are Einsums' computes.

LoopTree   = Node*                       each the parent of the next; only the last may be a Sequential
Node       = Temporal | Spatial | Storage | Toll | Compute | Sequential
Sequential = Nested+                     branches run one after the other
Nested     = Node*
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from fusiest.frozen import FrozenDict

RankVariable: TypeAlias = str | FrozenDict[str, str]
"""A name, or {Einsum: name} where fused Einsums name the shared rank differently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Temporal:
    """A loop: below it, the rank variable has extent `tile_shape`."""

    rank_variable: Annotated[
        RankVariable, "The variable that is stepped; by Einsum where fused Einsums call it differently."
    ]
    tile_shape: Annotated[int, "The variable's extent below the loop."]


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


def variable_in(loop: Loop, einsum: str) -> str | None:
    """The rank variable that a loop steps in an Einsum, or None if the loop names none for it."""
    if isinstance(loop.rank_variable, str):
        return loop.rank_variable
    return loop.rank_variable.get(einsum)
