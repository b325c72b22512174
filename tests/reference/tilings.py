"""Every pmapping of one Einsum on one compute, literally, and what the model says of each.

Two trees are told apart only where the model tells them apart: loops inside one gap between holders (Spatial ones on one
dimension) are permuted where they are fused, and else as far as the order changes what the holder above the gap reserves. A
Toll stands below its gap's Temporal loops, where it changes no count and no reservation. What the model says of one tensor is
kept, by the loops around that tensor's holders.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from fusiest.base.errors import SpecError
from fusiest.base.frozen import FrozenDict
from fusiest.looptree import Compute, Node, Spatial, Storage, Temporal, Toll
from fusiest.model import EinsumNest, TreeNode, action_counts, build_nest, count_accesses, leak_power, reservations
from fusiest.spec import Path, Spec, bind_all
from tests.reference.choices import HolderAt, holder_orders, obeys, placements, spatial_choices
from tests.reference.copies import copied_from
from tests.reference.skeletons import Chain, LoopSkeleton, ReferenceLimits, chains, seen_by, tail

LoopAbove: TypeAlias = tuple[str, int, tuple[str, str] | None]
"""Rank variable, tile shape, and the fanout dimension (component, name) of a Spatial loop."""
Order: TypeAlias = tuple[tuple[str, int], ...]
"""Temporal loops of one gap, outermost first: rank variable and tile shape."""


@dataclass(frozen=True, slots=True)
class PlainCompatibility:
    """What neighbours must agree on: the fused loops, and where each shared tensor is backed below which of them."""

    loops: tuple[LoopAbove, ...]
    backings: tuple[tuple[str, str, tuple[LoopAbove, ...]], ...]
    """(tensor, memory, loops above its backing holder)"""


@dataclass(frozen=True, slots=True)
class Pmapping:
    """Costs, with `bits` per memory: persistent, then at each fused level, the last being all that is inside."""

    energy: float
    latency: float
    bits: tuple[tuple[float, ...], ...]
    nodes: tuple[Node, ...]

    @property
    def criteria(self) -> tuple[float, ...]:
        return (self.energy, self.latency, *(b for memory_bits in self.bits for b in memory_bits))


@dataclass(frozen=True, slots=True)
class TensorCost:
    """One tensor's share of the costs; `calls` per (component, action) of one instance."""

    energy: float
    calls: tuple[float, ...]
    operations: int
    steps: int


@dataclass(frozen=True, slots=True)
class ReservedBits:
    """Space of a holder, and how many Temporal loops below it the reservation has passed. Persistent: None."""

    bits: float
    passed: int | None


@dataclass
class Mapper:
    """One Einsum on one compute."""

    spec: Spec
    path: Path
    limits: ReferenceLimits
    costs: dict[tuple[object, ...], TensorCost | None] = field(default_factory=dict)
    reserved: dict[tuple[object, ...], ReservedBits] = field(default_factory=dict)
    numbers: dict[object, int] = field(default_factory=dict)
    delays: dict[tuple[object, ...], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        info = self.path.einsum
        self.shared = frozenset(t for t in info.accesses if t in self.spec.info.shared)
        self.roots = copied_from(self.spec)
        self.tensors = list(info.accesses)
        self.variables = [v for v, bound in info.bounds.items() if bound > 1]
        self.bound = bind_all(self.spec, info)
        self.actions = [(c.name, a) for c in self.path.components for a in c.actions]

    def skeletons(self) -> Iterator[LoopSkeleton]:
        choices = spatial_choices(self.path, self.limits.imperfect)
        for placement in placements(self.spec, self.path):
            for order in holder_orders(placement, self.shared):
                for spatial in choices:
                    yield from _spatial_orders(LoopSkeleton(self.path, placement, order, spatial, self.shared))

    def count_tilings(self) -> int:
        """How many tilings there are, or more than the limit."""
        total = 0
        for skeleton in self.skeletons():
            total += 1 + math.prod(sum(1 for _ in chains(skeleton, v, self.limits)) for v in self.variables)
            if total > self.limits.trees:
                break
        return total

    def pmappings(self, memories: Sequence[str]) -> Iterator[tuple[PlainCompatibility, Pmapping]]:
        for skeleton in self.skeletons():
            yield from _Tilings(self, skeleton, memories).pmappings()

    def number(self, key: object) -> int:
        return self.numbers.setdefault(key, len(self.numbers))

    def nest(self, nodes: Sequence[Node], only: str | None = None) -> EinsumNest:
        """The model's view of a branch; or of the Einsum as if it had but one tensor."""
        info = self.path.einsum
        if only is not None:
            info = dataclasses.replace(info, accesses=FrozenDict({only: info.accesses[only]}))
        return build_nest(tuple(TreeNode(i, node) for i, node in enumerate(nodes)), Path(info, self.path.components))

    def tensor_cost(self, tensor: str, nodes: Sequence[Node]) -> TensorCost | None:
        """None where the model finds the tensor's nest invalid."""
        try:
            counts = count_accesses(self.nest(nodes, tensor))
        except SpecError:
            return None
        total = action_counts(counts.total, self.bound)
        per_unit = action_counts(counts.per_unit, self.bound)
        energy = sum(n * self.bound[c].actions[a].energy for (c, _, a), n in total.items())
        calls = tuple(per_unit.get((c, tensor, a), 0) for c, a in self.actions)
        return TensorCost(energy, calls, counts.operations, counts.steps)

    def delay(self, calls: tuple[float, ...]) -> float:
        """Seconds of the slowest component."""
        if calls not in self.delays:
            by_component: dict[str, dict[str, float]] = {c.name: {} for c in self.path.components if c.actions}
            for (component, action), n in zip(self.actions, calls, strict=True):
                by_component[component][action] = n
            self.delays[calls] = max(self.bound[c].latency(counts) for c, counts in by_component.items())
        return self.delays[calls]


def _spatial_orders(skeleton: LoopSkeleton) -> Iterator[LoopSkeleton]:
    """Fused Spatial loops of one dimension in every order: neighbours may name their variables in another one."""
    groups = [
        list(group) for _, group in itertools.groupby(skeleton.spatial, lambda loop: (loop.level, loop.dimension))
    ]
    fused = dict(zip(skeleton.spatial, skeleton.fused_spatial, strict=True))
    orders = [list(itertools.permutations(group)) if fused[group[0]] else [tuple(group)] for group in groups]
    for chosen in itertools.product(*orders):
        yield dataclasses.replace(skeleton, spatial=tuple(loop for group in chosen for loop in group))


class _Tilings:
    """All Temporal loops for one skeleton."""

    def __init__(self, mapper: Mapper, skeleton: LoopSkeleton, memories: Sequence[str]) -> None:
        self.mapper, self.skeleton, self.memories = mapper, skeleton, memories
        self.path = skeleton.path
        self.fused_gaps = range(skeleton.innermost_backing + 1)
        self.tails = [tail(skeleton, gap) for gap in skeleton.gaps]
        used = {(d.component, d.name): 1 for c in self.path.components for d in c.dimensions}
        for loop in skeleton.spatial:
            used[loop.component, loop.dimension] *= loop.iterations
        self.watts = sum(leak_power(mapper.spec, self.path.compute.name, mapper.bound, used).values())
        self.around = [mapper.number((t, skeleton.spatial, self._components(t))) for t in mapper.tensors]

    def _components(self, tensor: str) -> tuple[int, ...]:
        held = [*self.skeleton.holders, *self.skeleton.placement.tolls]
        return tuple(sorted(h.level for h in held if h.tensor == tensor))

    def _refused(self) -> bool:
        """Whether a persistent tensor is held below a Spatial loop, which the model refuses whatever the tiles."""
        persistent_levels = [
            h.level for h in self.skeleton.holders if h.backing and h.tensor in self.path.einsum.persistent
        ]
        return any(loop.level <= level for loop in self.skeleton.spatial for level in persistent_levels)

    def pmappings(self) -> Iterator[tuple[PlainCompatibility, Pmapping]]:
        if self._refused():
            return
        choices = [
            [self._resolved(c) for c in chains(self.skeleton, v, self.mapper.limits)] for v in self.mapper.variables
        ]
        for tiling in itertools.product(*choices):
            if self._too_many_fused(tiling) or not self._tile_shapes_met(tiling) or self._fuses_too_much(tiling):
                continue
            cost = self._cost(tiling)
            if cost is None:
                continue
            options = [self._gap_options(tiling, gap) for gap in self.skeleton.gaps]
            for chosen in itertools.product(*options):
                finished = self._finished(tiling, chosen, *cost)
                if finished is not None:
                    yield finished

    def _resolved(self, chain: Chain) -> Chain:
        """Add what is looked up often."""
        skeleton = self.skeleton
        bound = self.path.einsum.bounds[chain.variable]
        extents, above = [], []
        for i, holder in enumerate(skeleton.holders):
            temporal = [tile for tile in chain.temporal[: i + 1] if tile]
            spatial = [tile for n, tile in chain.spatial.items() if skeleton.spatial[n].level <= holder.level]
            extents.append(min([bound, *temporal, *spatial]))
            above.append(len(temporal))
        imperfect = self.mapper.limits.imperfect
        views = tuple(self.mapper.number(seen_by(skeleton, chain, t, imperfect)) for t in self.mapper.tensors)
        return dataclasses.replace(chain, views=views, extents=tuple(extents), above=tuple(above))

    def _too_many_fused(self, tiling: tuple[Chain, ...]) -> bool:
        most = self.mapper.limits.fused_loops
        if most is None:
            return False
        temporal = sum(1 for chain in tiling for gap in self.fused_gaps if chain.temporal[gap])
        return temporal + sum(self.skeleton.fused_spatial) > most

    def _tile_shapes_met(self, tiling: tuple[Chain, ...]) -> bool:
        """`tile_shape`: extents, as written, at the memory's outermost holder."""
        outermost: dict[int, int] = {}
        for i, holder in enumerate(self.skeleton.holders):
            outermost.setdefault(holder.level, i)
        for level, i in outermost.items():
            comparisons = self.skeleton.placement.sets[level].tile_shape
            if comparisons:
                extents = dict(self.path.einsum.bounds) | {chain.variable: self._extent(chain, i) for chain in tiling}
                if not all(obeys(c, extents) for c in comparisons):
                    return False
        return True

    def _fuses_too_much(self, tiling: tuple[Chain, ...]) -> bool:
        """`no_fused_loops`: whether a loop that must not stands above a shared tensor's outermost holder."""
        for i, holder in enumerate(self.skeleton.holders):
            if holder.backing and holder.tensor in self.mapper.spec.info.shared:
                barred = self.skeleton.placement.sets[holder.level].no_fused_loops
                bounds = self.path.einsum.bounds
                if any(chain.variable in barred and chain.extents[i] < bounds[chain.variable] for chain in tiling):
                    return True
        return False

    def _extent(self, chain: Chain, holder: int) -> int:
        temporal = [tile for tile in chain.temporal[: holder + 1] if tile]
        spatial = [tile for n, tile in chain.spatial.items() if self.skeleton.spatial_gaps[n] <= holder]
        return min([self.path.einsum.bounds[chain.variable], *temporal, *spatial])

    def _cost(self, tiling: tuple[Chain, ...]) -> tuple[float, float] | None:
        """Energy and latency: they do not depend on the order of loops inside a gap."""
        mapper = self.mapper
        costs = []
        for i, tensor in enumerate(mapper.tensors):
            key = (self.around[i], *(chain.views[i] for chain in tiling))
            if key not in mapper.costs:
                mapper.costs[key] = mapper.tensor_cost(tensor, self._nodes(tiling, self._listed(tiling)))
            cost = mapper.costs[key]
            if cost is None:
                return None
            costs.append(cost)
        compute = self.path.compute
        action = compute.actions["compute"]
        calls = [sum(column) for column in zip(*(cost.calls for cost in costs), strict=True)]
        calls[mapper.actions.index((compute.name, "compute"))] += costs[0].steps * action.actions_scale
        latency = mapper.delay(tuple(calls)) * self.path.einsum.n_instances
        dynamic = sum(cost.energy for cost in costs) + costs[0].operations * action.actions_scale * action.energy
        return dynamic * self.path.einsum.n_instances + self.watts * latency, latency

    def _listed(self, tiling: tuple[Chain, ...]) -> list[Order]:
        """The Temporal loops of each gap in the order of the variables."""
        return [tuple((c.variable, c.temporal[gap]) for c in tiling if c.temporal[gap]) for gap in self.skeleton.gaps]

    def _nodes(self, tiling: tuple[Chain, ...], orders: Sequence[Order]) -> tuple[Node, ...]:
        """The branch as LoopTree nodes."""
        nodes: list[Node] = []
        components, spatial = self.path.components, self.skeleton.spatial
        tiles = {n: tile for chain in tiling for n, tile in chain.spatial.items()}
        for gap in self.skeleton.gaps:
            nodes += [Temporal(rank_variable=v, tile_shape=tile) for v, tile in orders[gap]]
            for item in self.tails[gap]:
                if isinstance(item, HolderAt):
                    nodes.append(Toll(tensors=(item.tensor,), component=components[item.level].name))
                else:
                    loop = spatial[item]
                    nodes.append(
                        Spatial(
                            rank_variable=loop.variable,
                            tile_shape=tiles[item],
                            component=loop.component,
                            name=loop.dimension,
                        )
                    )
            if gap < len(self.skeleton.holders):
                held = self.skeleton.holders[gap]
                persistent = held.backing and held.tensor in self.path.einsum.persistent
                name = components[held.level].name
                nodes.append(Storage(tensors=(held.tensor,), component=name, persistent=persistent))
        return (*nodes, Compute(einsum=self.path.einsum.name, component=self.path.compute.name))

    def _gap_options(self, tiling: tuple[Chain, ...], gap: int) -> list[tuple[Order, ReservedBits | None]]:
        """Orders of a gap's loops, each with what the holder above it reserves; equal ones once if they are not fused."""
        loops = self._listed(tiling)[gap]
        if gap == 0:
            return [(order, None) for order in itertools.permutations(loops)] if self.fused_gaps else [(loops, None)]
        options: dict[object, tuple[Order, ReservedBits | None]] = {}
        for order in itertools.permutations(loops):
            reserved = self._reserved(tiling, gap - 1, order)
            key: object = order if gap in self.fused_gaps else reserved
            options.setdefault(key, (order, reserved))
        return list(options.values())

    def _reserved(self, tiling: tuple[Chain, ...], holder: int, below: Order) -> ReservedBits:
        held = self.skeleton.holders[holder]
        key = (held, tuple(chain.extents[holder] for chain in tiling), below)
        if key not in self.mapper.reserved:
            self.mapper.reserved[key] = self._evaluated(tiling, holder, below)
        return self.mapper.reserved[key]

    def _evaluated(self, tiling: tuple[Chain, ...], holder: int, below: Order) -> ReservedBits:
        """Ask the model."""
        held = self.skeleton.holders[holder]
        orders = self._listed(tiling)
        orders[holder + 1] = below
        charged = reservations(self.mapper.nest(self._nodes(tiling, orders)))
        memory = self.path.components[held.level].name
        reservation = next(r for r in charged if (r.memory, r.tensor) == (memory, held.tensor))
        return ReservedBits(
            reservation.bits, None if reservation.level < 0 else reservation.level - self._level(tiling, holder)
        )

    def _level(self, tiling: tuple[Chain, ...], holder: int) -> int:
        """Loops above a holder in its tensor's nest."""
        spatial = sum(loop.level <= self.skeleton.holders[holder].level for loop in self.skeleton.spatial)
        return sum(chain.above[holder] for chain in tiling) + spatial

    def _finished(
        self,
        tiling: tuple[Chain, ...],
        chosen: tuple[tuple[Order, ReservedBits | None], ...],
        energy: float,
        latency: float,
    ) -> tuple[PlainCompatibility, Pmapping] | None:
        """None if a memory overflows."""
        loops = self._fused_loops(tiling, chosen)
        components = self.path.components
        held: dict[tuple[int, str, bool], float] = {}
        bits: dict[tuple[str, int], float] = {}
        for i, holder in enumerate(self.skeleton.holders):
            reserved = chosen[i + 1][1]
            assert reserved is not None
            one = holder.level, self.mapper.roots.get(holder.tensor, holder.tensor) if holder.backing else holder.tensor
            held[*one, holder.backing] = max(
                held.get((*one, holder.backing), 0), reserved.bits
            )  # copies share their space
            if not (holder.backing and holder.tensor in self.skeleton.shared):
                level = -1 if reserved.passed is None else min(self._level(tiling, i) + reserved.passed, len(loops))
                key = components[holder.level].name, level
                bits[key] = bits.get(key, 0) + reserved.bits
        if any(sum(b for (at, *_), b in held.items() if at == i) > c.size for i, c in enumerate(components)):
            return None
        compatibility = PlainCompatibility(tuple(loop for loop, _, _ in loops), self._backings(loops))
        nodes = self._nodes(tiling, [order for order, _ in chosen])
        rows = tuple(tuple(bits.get((m, level), 0) for level in range(-1, len(loops) + 1)) for m in self.memories)
        return compatibility, Pmapping(energy, latency, rows, nodes)

    def _fused_loops(
        self, tiling: tuple[Chain, ...], chosen: tuple[tuple[Order, ReservedBits | None], ...]
    ) -> list[tuple[LoopAbove, int, int]]:
        """As written, each with its gap and, if Spatial, the index of its component (else -1)."""
        tiles = {n: tile for chain in tiling for n, tile in chain.spatial.items()}
        loops: list[tuple[LoopAbove, int, int]] = []
        for gap in self.skeleton.gaps:
            if gap in self.fused_gaps:
                loops += [((v, tile, None), gap, -1) for v, tile in chosen[gap][0]]
            for item in self.tails[gap]:
                if not isinstance(item, HolderAt) and self.skeleton.fused_spatial[item]:
                    loop = self.skeleton.spatial[item]
                    loops.append(((loop.variable, tiles[item], (loop.component, loop.dimension)), gap, loop.level))
        return loops

    def _backings(self, loops: list[tuple[LoopAbove, int, int]]) -> tuple[tuple[str, str, tuple[LoopAbove, ...]], ...]:
        backings = []
        for i, holder in enumerate(self.skeleton.holders):
            if holder.backing and holder.tensor in self.skeleton.shared:
                above = tuple(loop for loop, gap, at in loops if (gap <= i if at < 0 else at <= holder.level))
                backings.append((holder.tensor, self.path.components[holder.level].name, above))
        return tuple(sorted(backings))
