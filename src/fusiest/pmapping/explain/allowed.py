"""Whether a finished LoopTree obeys the architecture's constraints, which both solvers see to while they search.

It checks mappings that are made in other ways: with windows, or from parts. Below windowed loops, loops that do not
index a backed tensor fully may stand above it; the model checks that the tensor is right all the same.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fusiest.looptree import Compute, LoopTree, Node, Spatial, Storage, Temporal, tiling_in, variable_in
from fusiest.pmapping.chains.tied_variables import Usages, asked_usages
from fusiest.pmapping.lattice.applies import beside, constrained_variables
from fusiest.pmapping.lattice.tile_problem import make_problem
from fusiest.pmapping.nest.rules import HeldTensor, Nest, Rules, Stretch
from fusiest.pmapping.nest.spatial import never_spread, satisfies, usage
from fusiest.pmapping.placements.open_choices import Steps
from fusiest.pmapping.placements.placement import Placement, placements
from fusiest.spec import BoundDimension, Path, Spec, bind


class WrittenLoop(NamedTuple):
    """A loop with more than one iteration."""

    place: int
    """Its place among all nodes above an Einsum's compute."""
    variable: str
    node: Temporal | Spatial
    iterations: int
    """Most iterations; for one that makes windows, two stand for all."""
    tile: int
    """The variable's extent below it; for windows the longest."""


def is_allowed(spec: Spec, tree: LoopTree, imperfect: bool | None) -> bool:
    """Whether a mapping obeys all constraints.

    `imperfect`: tiles need not divide, so that `min_usage` can ask for more; None: `min_usage` is not tested.
    """
    return all(_is_allowed(spec, nodes, imperfect) for nodes in tree.paths())


def _is_allowed(spec: Spec, nodes: tuple[Node, ...], imperfect: bool | None) -> bool:
    leaf = nodes[-1]
    assert isinstance(leaf, Compute)
    path = bind(spec, leaf.einsum, leaf.component)
    if path.einsum.is_copy_operation:
        return True
    branch = _WrittenBranch(path, nodes)
    if not branch.spreads_as_asked():
        return False
    nest = _nest_of(spec, leaf.einsum, leaf.component)
    if imperfect is not None:
        usages = _usages_of(spec, leaf.einsum, leaf.component, imperfect)
        if usages is not None and branch.usage not in usages:
            return False
    alike = (placement for placement in placements(spec, path) if branch.is_placed(placement))
    stretches = (Steps(nest.problem, [placement]).outer_stretch(0, len(path.components)) for placement in alike)
    return any(branch.obeys(nest, stretch) for stretch in stretches)


@functools.lru_cache(64)
def _nest_of(spec: Spec, einsum: str, compute: str) -> Nest:
    path = bind(spec, einsum, compute)
    problem = make_problem(path, *constrained_variables(spec, path))
    shared = frozenset(t for t in path.einsum.accesses if t in spec.info.shared)
    return Nest(problem, shared, {}, Rules(), frozenset(), beside(spec, path))


@functools.lru_cache(64)
def _usages_of(spec: Spec, einsum: str, compute: str, imperfect: bool) -> Usages:
    return asked_usages(_nest_of(spec, einsum, compute).problem, imperfect)


@dataclass(frozen=True)
class _WrittenBranch:
    """All nodes above an Einsum's compute."""

    path: Path
    nodes: tuple[Node, ...]

    # --- loops --------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def loops(self) -> tuple[WrittenLoop, ...]:
        """Loops with more than one iteration, from the root down."""
        extents, loops = dict(self.path.einsum.bounds), []
        for place, node in enumerate(self.nodes):
            if not isinstance(node, Temporal | Spatial):
                continue
            variable, tiling = variable_in(node, self.einsum), tiling_in(node, self.einsum)
            if variable is None or tiling is None or variable not in extents:
                continue
            extent, tile = extents[variable], min(extents[variable], max(tiling.first, tiling.tile))
            iterations = 2 if tiling.windowed else -(-extent // tiling.tile)
            if iterations > 1:
                loops.append(WrittenLoop(place, variable, node, iterations, tile))
            extents[variable] = tile
        return tuple(loops)

    @property
    def einsum(self) -> str:
        return self.path.einsum.name

    def extents(self, place: int) -> dict[str, int]:
        """Extents of all variables, below the loops that are written above a place."""
        return {**self.path.einsum.bounds, **{loop.variable: loop.tile for loop in self.loops if loop.place < place}}

    def _steps(self, places: range, variables: frozenset[str], temporal: bool) -> bool:
        """Whether a loop over one of these variables stands there; `temporal`: no Spatial one."""
        return any(
            loop.place in places and loop.variable in variables and not (temporal and isinstance(loop.node, Spatial))
            for loop in self.loops
        )

    # --- fanouts ------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _dimensions(self) -> list[BoundDimension]:
        return [d for component in self.path.components for d in component.dimensions]

    def _on(self, dimension: BoundDimension) -> dict[str, int]:
        """How far each variable is spread over a dimension."""
        spread = dict.fromkeys(self.path.einsum.bounds, 1)
        for loop in self.loops:
            node = loop.node
            if isinstance(node, Spatial) and (node.component, node.name) == (dimension.component, dimension.name):
                spread[loop.variable] *= loop.iterations
        return spread

    def spreads_as_asked(self) -> bool:
        """Whether `loop_bounds` and `reuse` are obeyed."""
        for dimension in self._dimensions:
            spread = self._on(dimension)
            if any(spread[v] > 1 for v in never_spread(self.path.einsum, dimension)):
                return False
            if not all(satisfies(comparison, spread) for comparison in dimension.loop_bounds):
                return False
        return True

    @property
    def usage(self) -> tuple[float, ...]:
        """Usages that `min_usage` compares."""
        return usage(self._dimensions, [math.prod(self._on(d).values()) for d in self._dimensions])

    # --- holders ------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _held(self) -> Mapping[str, frozenset[str]]:
        held: dict[str, frozenset[str]] = {}
        for _, component, tensor in self._holders():
            held[component] = held.get(component, frozenset()) | {tensor}
        return held

    def _holders(self) -> Iterator[tuple[int, str, str]]:
        """Storage nodes: place, memory and tensor."""
        for place, node in enumerate(self.nodes):
            if isinstance(node, Storage):
                for tensor in node.tensors:
                    if tensor in self.path.einsum.accesses:
                        yield place, str(node.component), str(tensor)

    def is_placed(self, placement: Placement) -> bool:
        """Whether memories hold exactly the tensors of the placement."""
        memories = ((self.path.components[i].name, placement.held[i]) for i in self.path.memories)
        return all(self._held.get(name, frozenset()) == tensors for name, tensors in memories)

    def obeys(self, nest: Nest, stretch: Stretch) -> bool:
        """Whether storage nodes, and loops between them, obey their constraints."""
        names = [component.name for component in self.path.components]
        holders = [
            (place, HeldTensor(names.index(component), nest.number[tensor]))
            for place, component, tensor in self._holders()
        ]
        return self._are_in_order(holders, nest, stretch) and all(
            self._loops_are_allowed(place, holder, holders, nest, stretch) for place, holder in holders
        )

    def _are_in_order(self, holders: Sequence[tuple[int, HeldTensor]], nest: Nest, stretch: Stretch) -> bool:
        """Whether memories stand in their order, where loops stand between, and `tensor_order_options` are obeyed."""
        everything = frozenset(self.path.einsum.bounds)
        between = [(place, holder) for place, holder in holders if holder not in stretch.on_top]
        for i, (above, upper) in enumerate(between):
            for below, lower in between[i + 1 :]:
                is_split = self._steps(range(above, below), everything, temporal=False)
                if is_split and nest.must_stand_above(lower, upper, stretch):
                    return False
        options = nest.order_options(stretch)
        for place, holder in between:  # nodes without a loop between them stand in any order
            beside = {other for at, other in between if not self._steps(range(at, place), everything, temporal=False)}
            remaining = nest.options_left(options, beside, holder, stretch)
            if remaining is None:
                return False
            options = remaining
        return True

    def _loops_are_allowed(
        self,
        place: int,
        holder: HeldTensor,
        holders: Sequence[tuple[int, HeldTensor]],
        nest: Nest,
        stretch: Stretch,
    ) -> bool:
        """Whether `no_fused_loops`, `no_refetch_from_above`, `no_resend_to_below` and `tile_shape` are obeyed."""
        own = [at for at, other in holders if other.tensor == holder.tensor]
        unindexed = frozenset(self.path.einsum.bounds) - nest.full[holder.tensor]
        below = next((at for at in own if at > place), len(self.nodes))
        if self._steps(range(place), nest.unfused(holder, stretch), temporal=False):
            return False
        if nest.fetches_once(holder, stretch) and self._steps(range(own[0], place), unindexed, temporal=True):
            return False
        if self._steps(range(place, below), nest.barred_below(holder, stretch), temporal=True):
            return False
        outer = [other for at, other in holders if at < place and other != holder]
        shapes = nest.tile_shape(holder, outer, stretch)
        extents = self.extents(place) if shapes else {}
        return all(satisfies(comparison, extents) for comparison in shapes)
