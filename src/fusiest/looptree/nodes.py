"""The LoopTree on one page: a mapping is a tree of loops and holders whose leaves are Einsums' computes.

LoopTree   = Node*                       each the parent of the next; only the last may be a Sequential
Node       = Temporal | Spatial | Storage | Toll | Compute | Sequential
Sequential = Nested+                     branches run one after the other
Nested     = Node*
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from fusiest.frozen import FrozenDict

RankVariable: TypeAlias = str | FrozenDict[str, str]
"""A name, or {Einsum: name} where fused Einsums name the shared rank differently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Temporal:
    """A loop: below it, the rank variable has extent `tile_shape`."""

    rank_variable: RankVariable
    tile_shape: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spatial:
    """A loop whose iterations run side by side on dimension `name` of the component's fanout."""

    rank_variable: RankVariable
    tile_shape: int
    component: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """From here down, these tensors' tiles are kept in this memory."""

    tensors: tuple[str, ...]
    component: str
    persistent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Toll:
    """These tensors pass through this component and are charged; nothing is kept."""

    tensors: tuple[str, ...]
    component: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    einsum: str
    component: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequential:
    nodes: tuple[Nested, ...]


Loop: TypeAlias = Temporal | Spatial
Holder: TypeAlias = Storage | Toll
Node: TypeAlias = Temporal | Spatial | Storage | Toll | Compute | Sequential


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopTree:
    nodes: tuple[Node, ...]

    def paths(self) -> Iterator[tuple[Node, ...]]:
        """Root-to-leaf paths in execution order, without the splits."""
        yield from _paths(self.nodes, ())

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
