"""One Einsum's loop nest, taken from a LoopTree: its loops, its holders, and each tensor's own view of them.

A tensor sees every Temporal loop where it is written, and each Spatial loop just above the first of its holders that
lies at or below the fanout: that is where the hardware splits the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fusiest.errors import SpecError, did_you_mean
from fusiest.looptree import Compute, LoopTree, Node, Sequential, Spatial, Storage, Temporal, Toll, variable_in
from fusiest.spec import Access, BoundComponent, EinsumInfo, Path


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node with its number in depth-first order, which tells equal nodes of different branches apart."""

    number: int
    node: Node


def leaf_paths(tree: LoopTree) -> list[tuple[TreeNode, ...]]:
    """Root-to-leaf paths in execution order, without splits."""
    count = iter(range(1 << 60))

    def walk(nodes: tuple[Node, ...], above: tuple[TreeNode, ...]) -> Iterator[tuple[TreeNode, ...]]:
        own: list[TreeNode] = []
        for node in nodes:
            if isinstance(node, Sequential):
                above = (*above, *own)
                for branch in node.nodes:
                    yield from walk(branch.nodes, above)
                return
            own.append(TreeNode(next(count), node))
        yield (*above, *own)

    return list(walk(tree.nodes, ()))


@dataclass(frozen=True, slots=True)
class NestLoop:
    """A loop of the nest. `position` orders loops and holders as written; `variable` knows its line in the mapping."""

    number: int
    position: int
    variable: str
    tile_shape: int
    iterations: int
    component: str | None = None
    dimension: str | None = None

    @property
    def is_spatial(self) -> bool:
        return self.component is not None

    def __str__(self) -> str:
        kind = (
            f"Spatial loop over {self.variable} on {self.component}.{self.dimension}"
            if self.is_spatial
            else f"loop over {self.variable}"
        )
        return f"{kind} (tile {self.tile_shape})"


@dataclass(frozen=True, slots=True)
class Holder:
    """One tensor kept in (or passing through) one component; `tensor` knows its line in the mapping."""

    number: int
    position: int
    tensor: str
    component: BoundComponent
    persistent: bool = False

    @property
    def is_toll(self) -> bool:
        return self.component.kind == "toll"


@dataclass(frozen=True, slots=True)
class TensorNest:
    """A tensor's view: its holders outermost first, and per holder (and Compute, last) the loops of the gap above it."""

    access: Access
    holders: tuple[Holder, ...]
    gaps: tuple[tuple[NestLoop, ...], ...]

    def loops_above(self, index: int) -> tuple[NestLoop, ...]:
        """All loops above holder `index` (or above Compute, if index is the number of holders)."""
        return tuple(loop for gap in self.gaps[: index + 1] for loop in gap)


@dataclass(frozen=True, slots=True)
class EinsumNest:
    einsum: EinsumInfo
    path: Path
    loops: tuple[NestLoop, ...]
    holders: tuple[Holder, ...]
    tensors: dict[str, TensorNest]
    numbers: tuple[int, ...]
    """Numbers of all loop nodes on the path, outermost first: equal prefixes are common loops."""

    def used_fanout(self) -> dict[tuple[str, str], int]:
        """Instances in use per fanout dimension."""
        used = {(d.component, d.name): 1 for c in self.path.components for d in c.dimensions}
        for loop in self.loops:
            if loop.component is not None and loop.dimension is not None:
                used[loop.component, loop.dimension] *= loop.iterations
        return used


def build_nest(nodes: tuple[TreeNode, ...], path: Path) -> EinsumNest:
    """The nest of one leaf. Errors name the node that makes no sense."""
    info = path.einsum
    loops: list[NestLoop] = []
    holders: list[Holder] = []
    extents = dict(info.bounds)
    for position, tree_node in enumerate(nodes):
        node = tree_node.node
        if isinstance(node, (Temporal, Spatial)):
            loops.append(_loop(tree_node.number, position, node, path, extents))
        elif isinstance(node, (Storage, Toll)):
            holders += _holders(tree_node.number, position, node, path)
    for variable, extent in extents.items():
        if extent != 1:
            raise SpecError(
                f"Einsum {info.name}: rank variable {variable} still has extent {extent} at the compute; "
                f"add a loop over {variable} with tile_shape 1",
                _where(nodes),
            )
    _check_holders(holders, path, nodes)
    tensors = {t: _tensor_nest(access, loops, holders, path) for t, access in info.accesses.items()}
    return EinsumNest(info, path, tuple(loops), tuple(holders), tensors, tuple(loop.number for loop in loops))


def _where(nodes: tuple[TreeNode, ...]) -> str | None:
    leaf = nodes[-1].node if nodes else None
    return leaf.einsum if isinstance(leaf, Compute) else None


def _loop(number: int, position: int, node: Temporal | Spatial, path: Path, extents: dict[str, int]) -> NestLoop:
    info = path.einsum
    variable = variable_in(node, info.name)
    at = node.rank_variable if isinstance(node.rank_variable, str) else next(iter(node.rank_variable), None)
    if variable is None:
        raise SpecError(f"the loop's rank_variable names none for Einsum {info.name} below it", at)
    if variable not in extents:
        raise SpecError(f"Einsum {info.name} has no rank variable {variable}{did_you_mean(variable, extents)}", at)
    extent = extents[variable]
    if node.tile_shape > extent:
        raise SpecError(
            f"tile_shape {node.tile_shape} of the loop over {variable} is larger than the extent {extent} above it "
            f"in Einsum {info.name}",
            at,
        )
    extents[variable] = node.tile_shape
    iterations = -(-extent // node.tile_shape)
    if isinstance(node, Temporal):
        return NestLoop(number, position, variable, node.tile_shape, iterations)
    component = path.component(node.component)
    if component is None:
        names = [c.name for c in path.components]
        raise SpecError(
            f"Spatial loop: {node.component} is not above {path.compute.name}{did_you_mean(node.component, names)}",
            node.component,
        )
    if node.name not in [d.name for d in component.dimensions]:
        known = [d.name for d in component.dimensions]
        raise SpecError(
            f"{node.component} has no fanout dimension {node.name}{did_you_mean(node.name, known)}", node.name
        )
    return NestLoop(number, position, variable, node.tile_shape, iterations, component.name, str(node.name))


def _holders(number: int, position: int, node: Storage | Toll, path: Path) -> list[Holder]:
    mine = [t for t in node.tensors if t in path.einsum.accesses]
    if not mine:
        return []
    component = path.component(node.component)
    kind = "toll" if isinstance(node, Toll) else "memory"
    if component is None or component.kind != kind:
        names = [c.name for c in path.components if c.kind == kind]
        what = "is not above" if component is None else f"is a {component.kind}, not a {kind}, above"
        raise SpecError(
            f"{node.component} {what} {path.compute.name}{did_you_mean(node.component, names)}", node.component
        )
    if not component.enabled:
        raise SpecError(f"{node.component} is not enabled for Einsum {path.einsum.name}", node.component)
    persistent = isinstance(node, Storage) and node.persistent
    return [Holder(number, position, t, component, persistent) for t in mine]


def _check_holders(holders: list[Holder], path: Path, nodes: tuple[TreeNode, ...]) -> None:
    einsum = path.einsum.name
    for tensor in path.einsum.accesses:
        own = [h for h in holders if h.tensor == tensor]
        if not own:
            raise SpecError(
                f"Einsum {einsum}: tensor {tensor} is held nowhere; add a !Storage above the compute", _where(nodes)
            )
        if own[0].is_toll:
            raise SpecError(
                f"Einsum {einsum}: tensor {tensor} passes {own[0].component.name} before any memory holds it",
                own[0].tensor,
            )
        for i, inner in enumerate(own):
            component = inner.component.name
            if component in [outer.component.name for outer in own[:i]]:
                raise SpecError(f"Einsum {einsum}: tensor {tensor} is held twice in {component}", inner.tensor)
            if i and path.index(component) < path.index(own[i - 1].component.name):
                names = " above ".join(h.component.name for h in own)
                raise SpecError(f"Einsum {einsum}: holders of tensor {tensor} are out of order: {names}", inner.tensor)
            if i and inner.persistent:
                raise SpecError(
                    f"Einsum {einsum}: only the outermost holder of {tensor} can be persistent", inner.tensor
                )


def _tensor_nest(access: Access, loops: list[NestLoop], holders: list[Holder], path: Path) -> TensorNest:
    own = [h for h in holders if h.tensor == access.tensor]
    levels = [path.index(h.component.name) for h in own]
    gap_of: list[int] = []
    for loop in loops:
        if loop.component is None:
            gap_of.append(sum(1 for h in own if h.position < loop.position))
        else:
            fanout = path.index(loop.component)
            gap_of.append(next((i for i, level in enumerate(levels) if level >= fanout), len(own)))
    _check_moves(access, loops, gap_of, path)
    gaps = tuple(tuple(loop for loop, g in zip(loops, gap_of, strict=True) if g == gap) for gap in range(len(own) + 1))
    nest = TensorNest(access, tuple(own), gaps)
    for loop in gaps[0]:
        replicates = loop.is_spatial and access.tensor in path.einsum.replicable
        if loop.variable not in access.fully_relevant and loop.iterations > 1 and not replicates:
            raise SpecError(
                f"Einsum {path.einsum.name}: the {loop} stands above the outermost holder of {access.tensor} but does "
                f"not index it fully, so {access.tensor} would be recomputed; hold {access.tensor} above that loop",
                loop.variable,
            )
    return nest


def _check_moves(access: Access, loops: list[NestLoop], gap_of: list[int], path: Path) -> None:
    """Moving Spatial loops must not swap two of them, nor one with a loop over the same variable that t sees."""
    for i, outer in enumerate(loops):
        for j in range(i + 1, len(loops)):
            inner = loops[j]
            if gap_of[i] <= gap_of[j] or not (outer.is_spatial or inner.is_spatial):
                continue
            same = outer.variable == inner.variable and outer.variable in access.variables
            if same or (outer.is_spatial and inner.is_spatial):
                raise SpecError(
                    f"Einsum {path.einsum.name}: for tensor {access.tensor}, the {outer} and the {inner} would change "
                    "places; write the Spatial loop next to the holders of its component",
                    inner.variable if inner.is_spatial else outer.variable,
                )
