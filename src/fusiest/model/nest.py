"""One Einsum's loop nest, taken from a LoopTree: its loops, its holders, and each tensor's own view of them.

A tensor sees every Temporal loop where it is written, and each Spatial loop just above the first of its holders that
lies at or below the fanout: that is where the hardware splits the data.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fusiest.base.errors import SpecError, check_known, did_you_mean
from fusiest.base.frozen import FrozenDict
from fusiest.looptree import (
    Compute,
    Loop,
    LoopTree,
    Node,
    Sequential,
    Spatial,
    Storage,
    Temporal,
    Tiling,
    Toll,
    tiling_in,
    variable_in,
)
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
        items: list[TreeNode] = []
        for node in nodes:
            if isinstance(node, Sequential):
                above = (*above, *items)
                for branch in node.nodes:
                    yield from walk(branch.nodes, above)
                return
            items.append(TreeNode(next(count), node))
        yield (*above, *items)

    return list(walk(tree.nodes, ()))


@dataclass(frozen=True, slots=True)
class NestLoop:
    """A loop of the nest. `position` orders loops and holders as written; `variable` knows its line in the mapping."""

    number: int
    position: int
    variable: str
    tiling: Tiling
    iterations: int
    """The most that the loop has, in this Einsum."""
    component: str | None = None
    dimension: str | None = None
    window_iterations: int | None = None
    """Iterations of a loop that makes windows in this Einsum, as Einsums that step it in even tiles count them."""
    makes_windows: bool = False
    """Or has tiles of other sizes, in some Einsum below: this one or another."""

    @property
    def is_spatial(self) -> bool:
        return self.component is not None

    def __str__(self) -> str:
        kind = (
            f"Spatial loop over {self.variable} on {self.component}.{self.dimension}"
            if self.is_spatial
            else f"loop over {self.variable}"
        )
        return f"{kind} (tile {self.tiling.tile})"

    def tiles(self, extent: int) -> dict[int, int]:
        """How many tiles of each length the loop cuts an extent into."""
        return self.tiling.lengths(extent, self.window_iterations)

    def ranges(self, extent: int) -> Iterator[tuple[int, int]]:
        """From where to where each of its tiles goes, in order; empty ones too."""
        for index in range(self.tiling.last(extent, self.window_iterations) + 1):
            yield self.tiling.range(index, extent)


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
class KeptWindow:
    """What a backing holder keeps of a tensor that is made in windows below it: so many positions of one rank."""

    rank: str
    length: int
    loops: int
    """In which the tensor's users take turns below the holder, outermost first; the first of them moves the window."""


@dataclass(frozen=True)
class EinsumNest:
    einsum: EinsumInfo
    path: Path
    loops: tuple[NestLoop, ...]
    holders: tuple[Holder, ...]
    tensors: dict[str, TensorNest]
    numbers: tuple[int, ...]
    """Numbers of all loop nodes on the path, outermost first: equal prefixes are common loops."""
    reach: Mapping[str, int]
    """How far each variable goes: to its bound, unless windows leave out what nobody needs at the end."""
    kept_windows: Mapping[str, KeptWindow] = field(default_factory=dict)
    """Tensors of which the backing holder keeps one window, moving; what that is, all users of a tensor decide."""

    @functools.cached_property
    def chains(self) -> dict[str, list[NestLoop]]:
        """The loops over each variable, outermost first."""
        chains: dict[str, list[NestLoop]] = {}
        for loop in self.loops:
            chains.setdefault(loop.variable, []).append(loop)
        return chains

    def used_fanout(self) -> dict[tuple[str, str], int]:
        """Instances in use per fanout dimension."""
        fanout = {(d.component, d.name): 1 for c in self.path.components for d in c.dimensions}
        for loop in self.loops:
            if loop.component is not None and loop.dimension is not None:
                fanout[loop.component, loop.dimension] *= loop.iterations
        return fanout


def even_iterations(paths: Sequence[tuple[TreeNode, ...]], bounds: Mapping[str, Mapping[str, int]]) -> dict[int, int]:
    """How often each loop of a tree iterates in the Einsums that step it in even tiles, by number; the most, if they differ.

    A loop has the same depth in all nests that it is in, so they are followed side by side, from the outermost loop in.
    """
    iterations: dict[int, int] = {}
    running: list[tuple[str, list[TreeNode], dict[str, int]]] = []
    for path in paths:
        leaf = path[-1].node
        assert isinstance(leaf, Compute)
        loops = [item for item in path if isinstance(item.node, (Temporal, Spatial))]
        running.append((leaf.einsum, loops, dict(bounds[leaf.einsum])))
    for depth in range(max(len(loops) for _, loops, _ in running)):
        steps = [
            (*_stepped(loops[depth], name, extents), extents) for name, loops, extents in running if depth < len(loops)
        ]
        for number, variable, tiling, extents in steps:
            if tiling is not None and not tiling.windowed:
                iterations[number] = max(-(-extents[variable] // tiling.tile), iterations.get(number, 0))
        for number, variable, tiling, extents in steps:
            if tiling is not None:
                extents[variable] = max(tiling.lengths(extents[variable], iterations.get(number)))
    return iterations


def _stepped(item: TreeNode, einsum: str, extents: Mapping[str, int]) -> tuple[int, str, Tiling | None]:
    """A loop's number, and what it steps in an Einsum how; no tiles if that makes no sense."""
    assert isinstance(item.node, (Temporal, Spatial))
    variable = variable_in(item.node, einsum)
    return item.number, variable or "", tiling_in(item.node, einsum) if variable in extents else None


def build_nest(nodes: tuple[TreeNode, ...], path: Path, even: Mapping[int, int] | None = None) -> EinsumNest:
    """The nest of one leaf; `even` is what `even_iterations` gives. Errors name the node that makes no sense."""
    info = path.einsum
    loops: list[NestLoop] = []
    holders: list[Holder] = []
    extents = dict(info.bounds)
    for position, tree_node in enumerate(nodes):
        node = tree_node.node
        if isinstance(node, (Temporal, Spatial)):
            loops.append(_loop(tree_node, position, path, extents, (even or {}).get(tree_node.number)))
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
    numbers = tuple(loop.number for loop in loops)
    return EinsumNest(info, path, tuple(loops), tuple(holders), tensors, numbers, _reach(info, loops))


def _reach(info: EinsumInfo, loops: list[NestLoop]) -> dict[str, int]:
    reach = dict(info.bounds)
    for variable, bound in info.bounds.items():
        outermost = next((loop for loop in loops if loop.variable == variable), None)
        if outermost is not None and outermost.window_iterations is not None:
            reach[variable] = max(end for start, end in outermost.ranges(bound) if end > start)
    return reach


def _where(nodes: tuple[TreeNode, ...]) -> str | None:
    leaf = nodes[-1].node if nodes else None
    return leaf.einsum if isinstance(leaf, Compute) else None


def _loop(item: TreeNode, position: int, path: Path, extents: dict[str, int], even: int | None) -> NestLoop:
    node = item.node
    assert isinstance(node, (Temporal, Spatial))
    info = path.einsum
    variable = variable_in(node, info.name)
    place = node.rank_variable if isinstance(node.rank_variable, str) else next(iter(node.rank_variable), None)
    if variable is None:
        raise SpecError(f"the loop's rank_variable names none for Einsum {info.name} below it", place)
    check_known(variable, extents, f"Einsum {info.name} has no rank variable {variable}", place)
    tiling = _tiling(node, variable, path, extents, place)
    window_iterations = even if tiling.windowed else None
    iterations = sum(tiling.lengths(extents[variable], window_iterations).values())
    extents[variable] = max(tiling.lengths(extents[variable], window_iterations))
    if isinstance(node, Temporal):
        tables = (node.tile_shape, node.initial_tile_shape, node.step)
        windows = tiling.windowed or any(isinstance(size, FrozenDict) for size in tables)
        return NestLoop(item.number, position, variable, tiling, iterations, None, None, window_iterations, windows)
    component = path.component(node.component)
    if component is None:
        names = [c.name for c in path.components]
        raise SpecError(
            f"Spatial loop: {node.component} is not above {path.compute.name}{did_you_mean(node.component, names)}",
            node.component,
        )
    dimensions = [d.name for d in component.dimensions]
    check_known(node.name, dimensions, f"{node.component} has no fanout dimension {node.name}", node.name)
    return NestLoop(item.number, position, variable, tiling, iterations, component.name, str(node.name))


def _tiling(node: Loop, variable: str, path: Path, extents: Mapping[str, int], place: str | None) -> Tiling:
    """The loop's tiles in this Einsum, if they make sense there."""
    info = path.einsum
    tiling = tiling_in(node, info.name)
    if tiling is None:
        raise SpecError(f"the loop's tile_shape names none for Einsum {info.name} below it", place)
    extent = extents[variable]
    for name, size in (("tile_shape", tiling.tile), ("initial_tile_shape", tiling.first)):
        if size > extent and tiling.step == tiling.tile:  # windows may reach beyond the ends
            raise SpecError(
                f"{name} {size} of the loop over {variable} is larger than the extent {extent} above it in Einsum {info.name}",
                place,
            )
    if tiling.windowed:
        output = info.accesses[info.output]
        if info.is_copy_operation:
            raise SpecError(f"Einsum {info.name} is a copy, which makes no windows; give its loop even tiles", place)
        if output.stepping(variable) is None:
            raise SpecError(
                f"the loop over {variable} makes windows in Einsum {info.name}, but {variable} does not index its output "
                f"{info.output} alone",
                place,
            )
    return tiling


def _holders(number: int, position: int, node: Storage | Toll, path: Path) -> list[Holder]:
    tensors = [t for t in node.tensors if t in path.einsum.accesses]
    if not tensors:
        return []
    component = path.component(node.component)
    kind = "toll" if isinstance(node, Toll) else "memory"
    if component is None or component.kind != kind:
        names = [c.name for c in path.components if c.kind == kind]
        relation = "is not above" if component is None else f"is a {component.kind}, not a {kind}, above"
        raise SpecError(
            f"{node.component} {relation} {path.compute.name}{did_you_mean(node.component, names)}", node.component
        )
    if not component.enabled:
        raise SpecError(f"{node.component} is not enabled for Einsum {path.einsum.name}", node.component)
    persistent = isinstance(node, Storage) and node.persistent
    return [Holder(number, position, t, component, persistent) for t in tensors]


def _check_holders(holders: list[Holder], path: Path, nodes: tuple[TreeNode, ...]) -> None:
    einsum = path.einsum.name
    for tensor in path.einsum.accesses:
        tensor_holders = [h for h in holders if h.tensor == tensor]
        if not tensor_holders:
            raise SpecError(
                f"Einsum {einsum}: tensor {tensor} is held nowhere; add a !Storage above the compute", _where(nodes)
            )
        if tensor_holders[0].is_toll:
            raise SpecError(
                f"Einsum {einsum}: tensor {tensor} passes {tensor_holders[0].component.name} before any memory holds it",
                tensor_holders[0].tensor,
            )
        for i, inner in enumerate(tensor_holders):
            component = inner.component.name
            if component in [outer.component.name for outer in tensor_holders[:i]]:
                raise SpecError(f"Einsum {einsum}: tensor {tensor} is held twice in {component}", inner.tensor)
            if i and path.index(component) < path.index(tensor_holders[i - 1].component.name):
                names = " above ".join(h.component.name for h in tensor_holders)
                raise SpecError(f"Einsum {einsum}: holders of tensor {tensor} are out of order: {names}", inner.tensor)
            if i and inner.persistent:
                raise SpecError(
                    f"Einsum {einsum}: only the outermost holder of {tensor} can be persistent", inner.tensor
                )


def _tensor_nest(access: Access, loops: list[NestLoop], holders: list[Holder], path: Path) -> TensorNest:
    tensor_holders = [h for h in holders if h.tensor == access.tensor]
    levels = [path.index(h.component.name) for h in tensor_holders]
    gap_of: list[int] = []
    for loop in loops:
        if loop.component is None:
            gap_of.append(sum(1 for h in tensor_holders if h.position < loop.position))
        else:
            fanout = path.index(loop.component)
            gap_of.append(next((i for i, level in enumerate(levels) if level >= fanout), len(tensor_holders)))
    _check_moves(access, loops, gap_of, path)
    gaps = tuple(
        tuple(loop for loop, g in zip(loops, gap_of, strict=True) if g == gap) for gap in range(len(tensor_holders) + 1)
    )
    nest = TensorNest(access, tuple(tensor_holders), gaps)
    for loop in loops:
        if access.output and loop not in gaps[0] and loop.tiling.step != loop.tiling.tile:
            effect = "makes again what" if loop.tiling.step < loop.tiling.tile else "leaves out a part of what"
            raise SpecError(
                f"Einsum {path.einsum.name}: the {loop} {effect} is held of {access.tensor} above it, as its step is "
                f"{loop.tiling.step}; hold {access.tensor} below that loop",
                loop.variable,
            )
    for loop in gaps[0]:
        replicates = loop.is_spatial and access.tensor in path.einsum.replicable
        replicates |= loop.makes_windows and not access.output and loop.variable in access.variables
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
            is_same_variable = outer.variable == inner.variable and outer.variable in access.variables
            if is_same_variable or (outer.is_spatial and inner.is_spatial):
                raise SpecError(
                    f"Einsum {path.einsum.name}: for tensor {access.tensor}, the {outer} and the {inner} would change "
                    "places; write the Spatial loop next to the holders of its component",
                    inner.variable if inner.is_spatial else outer.variable,
                )
