"""Nests without tile shapes (skeletons), and each variable's chains of tiles through the gaps of one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from fusiest.spec import Path
from tests.reference.choices import HolderAt, ReferencePlacement, SpatialLoop


@dataclass(frozen=True, slots=True)
class ReferenceLimits:
    fused_loops: int | None = None
    fused_loops_per_variable: int = 1
    trees: int = 1_000_000
    """Tilings to enumerate at most, counted before loops are put in order."""
    imperfect: bool = False
    """Also tiles that do not divide: of a loop over extent S, ⌈S/n⌉ for each n."""


@dataclass(frozen=True)
class LoopSkeleton:
    """Holders in order and the Spatial loops: a nest but for its Temporal loops.

    Gap i lies right above holder i, the last right above the compute. Spatial loops and Tolls stand at the lower end of
    the gap that follows the last holder of the memories above them.
    """

    path: Path
    placement: ReferencePlacement
    holders: tuple[HolderAt, ...]
    spatial: tuple[SpatialLoop, ...]
    shared: frozenset[str]

    @cached_property
    def gaps(self) -> range:
        return range(len(self.holders) + 1)

    def gap_below(self, level: int) -> int:
        """The gap that follows the last holder of the memories above a component."""
        return 1 + max((i for i, h in enumerate(self.holders) if h.level < level), default=-1)

    @cached_property
    def spatial_gaps(self) -> tuple[int, ...]:
        return tuple(self.gap_below(loop.level) for loop in self.spatial)

    @cached_property
    def toll_gaps(self) -> tuple[int, ...]:
        def gap(toll: HolderAt) -> int:
            inner = [i for i, h in enumerate(self.holders) if h.tensor == toll.tensor and h.level > toll.level]
            return min([self.gap_below(toll.level), *inner])

        return tuple(gap(toll) for toll in self.placement.tolls)

    @cached_property
    def innermost_backing(self) -> int:
        """The innermost backing holder of a shared tensor, or -1: Temporal loops in the gaps down to it are fused."""
        return max((i for i, h in enumerate(self.holders) if h.backing and h.tensor in self.shared), default=-1)

    @cached_property
    def fused_spatial(self) -> tuple[bool, ...]:
        """Spatial loops above the innermost shared backing holder, as written or as that tensor sees them."""
        deepest = max((h.level for h in self.holders if h.backing and h.tensor in self.shared), default=-1)
        return tuple(
            gap <= self.innermost_backing or loop.level <= deepest
            for loop, gap in zip(self.spatial, self.spatial_gaps, strict=True)
        )

    def temporal_gaps(self, variable: str) -> list[int]:
        """Gaps that may have a Temporal loop over a variable."""
        return [gap for gap in self.gaps if self._may_loop(variable, gap)]

    def _may_loop(self, variable: str, gap: int) -> bool:
        for i, holder in enumerate(self.holders):
            if i >= gap and holder.on_top:
                return False
            if variable in self.path.einsum.accesses[holder.tensor].fully_relevant:
                continue
            if i >= gap and holder.backing:
                return False
            positions = [j for j, h in enumerate(self.holders) if h.tensor == holder.tensor]
            sets = self.placement.sets[holder.level]
            if holder.tensor in sets.no_refetch_from_above and positions[0] < gap <= i:
                return False
            below = next((j for j in positions if j > i), len(self.holders))
            if holder.tensor in sets.no_resend_to_below and i < gap <= below:
                return False
        return True


@dataclass(frozen=True)
class Chain:
    """All loops over one variable in a skeleton: per gap the tile of its Temporal loop (0: none), per Spatial loop its tile."""

    variable: str
    temporal: tuple[int, ...]
    spatial: Mapping[int, int]
    """Number of the Spatial loop in the skeleton → tile shape."""
    views: tuple[int, ...] = ()
    """Per tensor, a number for what its holders see of this chain."""
    extents: tuple[int, ...] = ()
    """Per holder, the extent above what it reserves."""
    above: tuple[int, ...] = ()
    """Per holder, how many Temporal loops stand above."""


def chains(skeleton: LoopSkeleton, variable: str, limits: ReferenceLimits) -> Iterator[Chain]:
    """Every way to split a variable's bound into tiles, at most one Temporal loop per gap."""
    if limits.imperfect:
        yield from imperfect_chains(skeleton, variable, limits)
        return
    loop_numbers = [i for i, loop in enumerate(skeleton.spatial) if loop.variable == variable]
    bound = skeleton.path.einsum.bounds[variable]
    remaining = bound // math.prod(skeleton.spatial[i].iterations for i in loop_numbers)
    fused = sum(skeleton.fused_spatial[i] for i in loop_numbers)
    allowed = skeleton.temporal_gaps(variable)

    def split(gaps: list[int], remaining: int, fused: int) -> Iterator[dict[int, int]]:
        if fused > limits.fused_loops_per_variable:
            return
        if not gaps:
            if remaining == 1:
                yield {}
            return
        gap, inner_gaps = gaps[0], gaps[1:]
        for n in range(1, remaining + 1):
            if remaining % n == 0:
                is_fused = n > 1 and gap <= skeleton.innermost_backing
                for inner in split(inner_gaps, remaining // n, fused + is_fused):
                    yield {gap: n, **inner}

    for iterations in split(allowed, remaining, fused):
        yield _chain(skeleton, variable, loop_numbers, bound, iterations)


def imperfect_chains(skeleton: LoopSkeleton, variable: str, limits: ReferenceLimits) -> Iterator[Chain]:
    """Slot by slot as written: a Temporal loop of n iterations has tile ⌈S/n⌉, and so has a Spatial loop."""
    loop_numbers = [i for i, loop in enumerate(skeleton.spatial) if loop.variable == variable]
    allowed = skeleton.temporal_gaps(variable)

    def gap_tiles(gap: int, extent: int) -> Iterator[tuple[int, int, dict[int, int]]]:
        """Tile of the Temporal loop (0: none), then the extent below the gap's Spatial loops, and their tiles."""
        for tile in sorted({-(-extent // n) for n in range(1, extent + 1)}) if gap in allowed else [extent]:
            spatial, below = {}, tile
            for i in loop_numbers:
                if skeleton.spatial_gaps[i] == gap:
                    spatial[i] = -(-below // skeleton.spatial[i].iterations)
                    if -(-below // spatial[i]) != skeleton.spatial[i].iterations:
                        break
                    below = spatial[i]
            else:
                yield (tile if tile < extent else 0), below, spatial

    def walk(gap: int, extent: int, temporal: tuple[int, ...], spatial: dict[int, int], fused: int) -> Iterator[Chain]:
        if fused > limits.fused_loops_per_variable:
            return
        if gap == len(skeleton.gaps):
            if extent == 1:
                yield Chain(variable, temporal, spatial)
            return
        for tile, below, more in gap_tiles(gap, extent):
            is_fused = tile > 0 and gap <= skeleton.innermost_backing
            yield from walk(gap + 1, below, (*temporal, tile), {**spatial, **more}, fused + is_fused)

    start = sum(skeleton.fused_spatial[i] for i in loop_numbers)
    yield from walk(0, skeleton.path.einsum.bounds[variable], (), {}, start)


def _chain(
    skeleton: LoopSkeleton, variable: str, loop_numbers: list[int], extent: int, iterations: Mapping[int, int]
) -> Chain:
    temporal, spatial = [], {}
    for gap in skeleton.gaps:
        n = iterations.get(gap, 1)
        extent //= n
        temporal.append(extent if n > 1 else 0)
        for i in loop_numbers:
            if skeleton.spatial_gaps[i] == gap:
                extent //= skeleton.spatial[i].iterations
                spatial[i] = extent
    return Chain(variable, tuple(temporal), spatial)


def seen_by(skeleton: LoopSkeleton, chain: Chain, tensor: str, imperfect: bool) -> tuple[object, ...]:
    """A chain with the places of one tensor's holders (0). Of adjacent perfect loops only the tile below all matters."""
    seen: list[object] = []
    positions = {i for i, h in enumerate(skeleton.holders) if h.tensor == tensor}
    for gap in skeleton.gaps:
        tile = chain.temporal[gap]
        if tile:
            if not imperfect and seen and isinstance(seen[-1], int) and seen[-1] > 0:
                seen.pop()
            seen.append(tile)
        for node in tail(skeleton, gap):
            if isinstance(node, int):
                if node in chain.spatial:
                    seen.append((node, chain.spatial[node]))
            elif node.tensor == tensor:
                seen.append(0)
        if gap in positions:
            seen.append(0)
    return tuple(seen)


def tail(skeleton: LoopSkeleton, gap: int) -> list[int | HolderAt]:
    """Spatial loops (by number) and Tolls at the lower end of a gap, outer components first."""
    items: list[tuple[int, int, int | HolderAt]] = [
        (skeleton.spatial[i].level, 0, i) for i, node_gap in enumerate(skeleton.spatial_gaps) if node_gap == gap
    ]
    tolls = skeleton.placement.tolls
    items += [(tolls[i].level, 1, tolls[i]) for i, node_gap in enumerate(skeleton.toll_gaps) if node_gap == gap]
    return [node for _, _, node in sorted(items, key=lambda item: item[:2])]
