"""One Einsum's nest, laid out flat: every point of its iteration space with the index of each loop that leads to it.

Tiles are found by looking at the points that a holder serves and drawing a box around the elements that they touch. No
loop count is ever computed from a quotient or a product of others: that is what the model does, and what this checks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from fusiest.base.errors import SpecError
from fusiest.looptree import (
    Compute,
    LoopTree,
    Node,
    Sequential,
    Spatial,
    Storage,
    Temporal,
    Toll,
    tiling_in,
    variable_in,
)
from fusiest.spec import Access, BoundComponent, EinsumInfo, Path, Spec, bind

Address: TypeAlias = tuple[int, ...]
"""Where a node stands in the tree: two Einsums share a loop only if it has the same address for both."""

TileBox: TypeAlias = tuple[tuple[int, int], ...]
"""Per rank, in alphabetical order of the ranks: the first and the last coordinate."""

Instance: TypeAlias = tuple[int, ...]
"""An index per Spatial loop of the nest; 0 for those that do not tell instances of a component apart."""


@dataclass(frozen=True, slots=True)
class Point:
    """One operation: when it happens (an index per Temporal loop), where (one per Spatial loop), and on what."""

    time: tuple[int, ...]
    place: Instance
    values: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LoopOnPath:
    address: Address
    variable: str
    first: int
    """The end of the first tile."""
    tile: int
    step: int
    """How far the end moves."""
    spatial: bool
    component: str | None = None
    dimension: str | None = None
    times: int | None = None
    """How often Einsums go through the loop that step it in even tiles: so often are uneven tiles made."""

    @property
    def uneven(self) -> bool:
        return not self.first == self.tile == self.step

    def tiles(self, extent: int) -> list[tuple[int, int, int]]:
        """Index, first position and length of each tile, one after the other; the last is what remains."""
        tiles, index, begin, end = [], 0, 0, self.first
        while index < self.times if self.times is not None else self._goes_on(index, begin, end, extent):
            low, high = max(begin, 0), min(end, extent)
            if high > low:
                tiles.append((index, low, high - low))
            index, end = index + 1, end + self.step
            begin = end - self.tile
        return tiles

    def _goes_on(self, index: int, begin: int, end: int, extent: int) -> bool:
        """Whether there is anything to make that the tile before has not made."""
        return index == 0 or (begin < extent and end - self.step < extent)


@dataclass(frozen=True, slots=True)
class Station:
    """A holder of one tensor, or the compute as its user: where its values stop or pass on their way."""

    tensor: str
    component: BoundComponent
    persistent: bool
    position: int
    loops: int
    times: int
    places: frozenset[int]

    @property
    def toll(self) -> bool:
        return self.component.kind == "toll"

    def instance(self, place: Instance) -> Instance:
        """Which instance of the component serves this place."""
        return tuple(index if loop in self.places else 0 for loop, index in enumerate(place))


@dataclass(frozen=True, slots=True)
class SimulatedNest:
    info: EinsumInfo
    path: Path
    nodes: tuple[LoopOnPath | Station, ...]
    loops: tuple[LoopOnPath, ...]
    stations: Mapping[str, tuple[Station, ...]]
    points: tuple[Point, ...]

    @property
    def spatials(self) -> tuple[LoopOnPath, ...]:
        return tuple(loop for loop in self.loops if loop.spatial)

    def backing(self, tensor: str) -> Station:
        return self.stations[tensor][0]

    def may_reuse(self, loop: LoopOnPath, tensor: str) -> bool:
        """Whether one transfer serves all iterations of this Spatial loop."""
        component = self.path.component(str(loop.component))
        dimension = next(d for d in component.dimensions if d.name == loop.dimension) if component else None
        if dimension is None:
            raise SpecError(f"{loop.component} has no fanout dimension {loop.dimension}")
        return tensor in dimension.may_reuse and relevance(self.info.accesses[tensor], loop.variable) == "irrelevant"


def relevance(access: Access, variable: str) -> str:
    """`irrelevant`, `full` (alone in its rank) or `partial`.

    >>> from fusiest.base.frozen import FrozenDict
    >>> from fusiest.spec.language.affine import Affine
    >>> access = Access("I", False, FrozenDict({"H": Affine(FrozenDict({"p": 2, "r": 1}), 0)}))
    >>> relevance(access, "p"), relevance(access, "m")
    ('partial', 'irrelevant')
    """
    for rank in access.ranks.values():
        used = [v for v, coefficient in rank.coefficients.items() if coefficient]
        if variable in used:
            return "full" if len(used) == 1 else "partial"
    return "irrelevant"


def element(access: Access, values: Mapping[str, int]) -> tuple[int, ...]:
    """The coordinates that an access touches, ranks in alphabetical order. A tensor without ranks is one of size 1."""
    if not access.ranks:
        return (0,)
    return tuple(
        access.ranks[rank].constant + sum(a * values[v] for v, a in access.ranks[rank].coefficients.items())
        for rank in sorted(access.ranks)
    )


def box_around(elements: Iterable[tuple[int, ...]]) -> TileBox:
    """The smallest box that contains these elements; stride gaps count.

    >>> box_around([(0, 5), (4, 3)])
    ((0, 4), (3, 5))
    """
    return tuple((min(coordinates), max(coordinates)) for coordinates in zip(*elements, strict=True))


def size(box: TileBox) -> int:
    """How many elements a box holds.

    >>> size(((0, 4), (3, 5)))
    15
    """
    return math.prod(high - low + 1 for low, high in box)


def boxes(
    nest: SimulatedNest, tensor: str, key: Callable[[Point], tuple[Address, Instance]]
) -> dict[Address, dict[Instance, TileBox]]:
    """Group the points by time and instance, and box what each group touches."""
    access = nest.info.accesses[tensor]
    touched: dict[Address, dict[Instance, set[tuple[int, ...]]]] = {}
    for point in nest.points:
        time, instance = key(point)
        touched.setdefault(time, {}).setdefault(instance, set()).add(element(access, point.values))
    return {time: {i: box_around(elements) for i, elements in groups.items()} for time, groups in touched.items()}


def nests(spec: Spec, tree: LoopTree) -> list[SimulatedNest]:
    """Every Einsum's nest, in execution order."""
    placed = list(_leaves(tree.nodes, (), ()))
    times = _times(spec, placed)
    return [_nest(spec, path, times) for path in placed]


_Placed: TypeAlias = tuple[tuple[Address, Node], ...]


def _leaves(nodes: tuple[Node, ...], at: Address, above: _Placed) -> Iterator[_Placed]:
    for number, node in enumerate(nodes):
        if isinstance(node, Sequential):
            for branch, nested in enumerate(node.nodes):
                yield from _leaves(nested.nodes, (*at, number, branch), above)
            return
        above = (*above, ((*at, number), node))
    yield above


def _times(spec: Spec, leaves: list[_Placed]) -> dict[Address, int]:
    """How often Einsums go through each loop that step it in even tiles, loops from the outermost in."""
    times: dict[Address, int] = {}
    extents: list[dict[str, set[int]]] = []
    paths: list[list[LoopOnPath]] = []
    for placed in leaves:
        compute = placed[-1][1]
        if not isinstance(compute, Compute):
            raise SpecError("a branch of the LoopTree ends without a !Compute")
        info = spec.info.einsums[compute.einsum]
        paths.append(
            [_loop(address, node, info, {}) for address, node in placed if isinstance(node, (Temporal, Spatial))]
        )
        extents.append({v: {bound} for v, bound in info.bounds.items()})
    for depth in range(max(map(len, paths))):
        at_depth = [
            (path[depth], path_extents) for path, path_extents in zip(paths, extents, strict=True) if depth < len(path)
        ]
        for loop, path_extents in at_depth:
            if not loop.uneven:
                most = max(len(loop.tiles(extent)) for extent in path_extents[loop.variable])
                times[loop.address] = max(most, times.get(loop.address, 0))
        for loop, path_extents in at_depth:
            timed = replace(loop, times=times.get(loop.address)) if loop.uneven else loop
            path_extents[loop.variable] = {
                length for extent in path_extents[loop.variable] for _, _, length in timed.tiles(extent)
            }
    return times


def _nest(spec: Spec, placed: _Placed, times_of: Mapping[Address, int]) -> SimulatedNest:
    compute = placed[-1][1]
    if not isinstance(compute, Compute):
        raise SpecError("a branch of the LoopTree ends without a !Compute")
    info = spec.info.einsums[compute.einsum]
    path = bind(spec, compute.einsum, compute.component)
    loops = tuple(
        _loop(address, node, info, times_of) for address, node in placed if isinstance(node, (Temporal, Spatial))
    )
    spatials = [loop for loop in loops if loop.spatial]
    nodes: list[LoopOnPath | Station] = []
    stations: dict[str, list[Station]] = {tensor: [] for tensor in info.accesses}

    def station(tensor: str, name: str, persistent: bool) -> None:
        component = path.components[path.index(name)]
        above = [node for node in nodes if isinstance(node, LoopOnPath)]
        times = sum(not loop.spatial for loop in above)
        # A fanout replicates its own component and all below: whatever is written where, these are side by side.
        places = frozenset(
            i for i, loop in enumerate(spatials) if path.index(str(loop.component)) <= path.index(component.name)
        )
        persistent = not stations[tensor] and (persistent or tensor in info.persistent)
        stations[tensor].append(Station(tensor, component, persistent, len(nodes), len(above), times, places))
        nodes.append(stations[tensor][-1])

    remaining = iter(loops)
    for _, node in placed:
        if isinstance(node, (Temporal, Spatial)):
            nodes.append(next(remaining))
        elif isinstance(node, (Storage, Toll)):
            for tensor in node.tensors:
                if tensor in info.accesses:
                    station(tensor, node.component, isinstance(node, Storage) and node.persistent)
    end = len(nodes)
    for tensor in info.accesses:
        station(tensor, compute.component, False)
    return SimulatedNest(
        info, path, tuple(nodes[:end]), loops, {t: tuple(s) for t, s in stations.items()}, tuple(_points(loops, info))
    )


def _loop(address: Address, node: Temporal | Spatial, info: EinsumInfo, times: Mapping[Address, int]) -> LoopOnPath:
    variable, tiling = variable_in(node, info.name), tiling_in(node, info.name)
    if variable is None or tiling is None or variable not in info.bounds:
        raise SpecError(f"a loop over {node.rank_variable} stands above Einsum {info.name}, which has no such variable")
    if isinstance(node, Spatial):
        return LoopOnPath(address, variable, *tiling, True, node.component, node.name)
    return LoopOnPath(address, variable, *tiling, False, times=times.get(address) if tiling.windowed else None)


def _points(loops: tuple[LoopOnPath, ...], info: EinsumInfo) -> Iterator[Point]:
    """Run the loops; the last tile of each is what remains."""

    def run(depth: int, start: dict[str, int], extent: dict[str, int], at: list[int]) -> Iterator[Point]:
        if depth == len(loops):
            if any(size != 1 for size in extent.values()):
                raise SpecError(f"Einsum {info.name}: a variable does not end with a loop of tile shape 1")
            time = tuple(index for loop, index in zip(loops, at, strict=True) if not loop.spatial)
            place = tuple(index for loop, index in zip(loops, at, strict=True) if loop.spatial)
            yield Point(time, place, start)
            return
        v = loops[depth].variable
        for index, low, length in loops[depth].tiles(extent[v]):
            yield from run(depth + 1, {**start, v: start[v] + low}, {**extent, v: length}, [*at, index])

    yield from run(0, dict.fromkeys(info.bounds, 0), dict(info.bounds), [])
