"""A LoopTree that may still change, before it is frozen."""

from __future__ import annotations

from dataclasses import dataclass

from fusiest.base.frozen import FrozenDict
from fusiest.looptree.nodes import Compute, Nested, Node, RankVariable, Sequential, Spatial, Storage, Temporal, Toll


@dataclass
class DraftLoop:
    variables: dict[str, str]
    """Einsum → rank variable."""
    tile: int
    dimension: tuple[str, str] | None = None
    by_name: bool = False

    def freeze(self) -> Node:
        names = set(self.variables.values())
        variable: RankVariable = FrozenDict(self.variables) if self.by_name or len(names) > 1 else next(iter(names))
        if self.dimension is None:
            return Temporal(rank_variable=variable, tile_shape=self.tile)
        return Spatial(
            rank_variable=variable, tile_shape=self.tile, component=self.dimension[0], name=self.dimension[1]
        )


@dataclass
class DraftHolder:
    tensors: list[str]
    component: str
    toll: bool = False
    persistent: bool = False

    def freeze(self) -> Node:
        if self.toll:
            return Toll(tensors=tuple(self.tensors), component=self.component)
        return Storage(tensors=tuple(self.tensors), component=self.component, persistent=self.persistent)


@dataclass
class DraftSplit:
    branches: list[list[DraftNode]]


@dataclass
class DraftCompute:
    einsum: str


DraftNode = DraftLoop | DraftHolder | DraftSplit | DraftCompute


def freeze(nodes: list[DraftNode]) -> tuple[Node, ...]:
    frozen: list[Node] = []
    for node in nodes:
        if isinstance(node, DraftSplit):
            frozen.append(Sequential(nodes=tuple(Nested(nodes=freeze(branch)) for branch in node.branches)))
        elif isinstance(node, DraftCompute):
            frozen.append(Compute(einsum=node.einsum, component="MAC"))
        else:
            frozen.append(node.freeze())
    return tuple(frozen)


def draft_paths(nodes: list[DraftNode], above: list[DraftNode]) -> list[list[DraftNode]]:
    for i, node in enumerate(nodes):
        if isinstance(node, DraftSplit):
            return [path for branch in node.branches for path in draft_paths(branch, [*above, *nodes[:i]])]
    return [[*above, *nodes]]
