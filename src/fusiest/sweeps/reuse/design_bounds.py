"""What a workload takes at least on a design, in a millisecond: every point computed once, every outer tensor moved once.

Each bound holds for every mapping; docs/sweep.md says why. They are for ruling designs out before a search, not for judging mappings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from fusiest.base.frozen import FrozenDict
from fusiest.base.objective import OBJECTIVES, aim_of
from fusiest.spec import (
    Access,
    BoundComponent,
    BoundDimension,
    EinsumInfo,
    Spec,
    architecture_names,
    bind_all,
    placement_sets,
)
from fusiest.spec import architecture as arch

LeastCosts: TypeAlias = Mapping[str, float]
"""Costs that no mapping goes below, by objective."""
NO_BOUNDS: LeastCosts = FrozenDict(dict.fromkeys(OBJECTIVES, 0.0))


def above(energy: float, latency: float) -> LeastCosts:
    """Bounds that follow from a least energy and a least latency."""
    return {name: objective.score_of(energy, latency) for name, objective in OBJECTIVES.items()}


def both_hold(a: LeastCosts, b: LeastCosts) -> LeastCosts:
    """The tighter of two bounds, by objective."""
    return {name: max(a[name], b[name]) for name in OBJECTIVES}


def optimal_costs(energy: float, latency: float, objective: tuple[str, ...]) -> LeastCosts:
    """What all mappings cost at least, if this is the best by the objective; of a front, the best by EDP."""
    minimized = aim_of(objective)
    return {**NO_BOUNDS, minimized: OBJECTIVES[minimized].score_of(energy, latency) * (1 - 1e-12)}


def least_costs(spec: Spec) -> LeastCosts:
    """Lower bounds on all mappings of a spec. Computing and moving take time at once: the longer counts."""
    energy = compute = 0.0
    moved: dict[str, _LeastTraffic] = {}
    for info in spec.info.einsums.values():
        bound = bind_all(spec, info)
        least = _computing(spec, info, bound)
        energy += least["energy"]
        compute += least["latency"]
        _moving(spec, info, bound, moved)
    energy += sum(traffic.energy for traffic in moved.values())
    latency = max(compute, sum(traffic.seconds for traffic in moved.values()))
    # Rounding may go either way in sums of many terms.
    energy, latency = energy * (1 - 1e-12), latency * (1 - 1e-12)
    return above(energy, latency)


def _computing(spec: Spec, info: EinsumInfo, bound: Mapping[str, BoundComponent]) -> LeastCosts:
    """Every point is one action of some compute that can run the Einsum, on at most all instances at once."""
    if info.is_copy_operation:
        return NO_BOUNDS
    points = math.prod(info.bounds.values())
    costs = []
    nodes = spec.require_arch().nodes
    for name in arch.computes(spec.require_arch()):
        component = bound[name]
        if not component.enabled:
            continue
        path = arch.path_nodes(nodes, name) or []
        units = math.prod(max(1, d.most) for node in path for d in bound[str(node.name)].dimensions)
        action = component.actions["compute"]
        steps = -(-points // units) * action.actions_scale
        seconds = steps / action.throughput if component.total_latency is None else 0.0
        costs.append((points * action.actions_scale * action.energy * info.n_instances, seconds * info.n_instances))
    if not costs:
        return NO_BOUNDS
    return above(min(joules for joules, _ in costs), min(seconds for _, seconds in costs))


@dataclass
class _LeastTraffic:
    """Least traffic of one tensor at the outermost memory: values that are moved, and what one costs."""

    values: int = 0
    value_joules: float = math.inf
    value_seconds: float = math.inf

    @property
    def energy(self) -> float:
        return self.values * self.value_joules if math.isfinite(self.value_joules) else 0.0

    @property
    def seconds(self) -> float:
        return self.values * self.value_seconds if math.isfinite(self.value_seconds) else 0.0


def _moving(spec: Spec, info: EinsumInfo, bound: Mapping[str, BoundComponent], moved: dict[str, _LeastTraffic]) -> None:
    """What must be kept in the outermost memory is read there once if nobody makes it, and written there once if somebody does.

    Which Einsum moves it is open: the cheapest of those that use the tensor counts, for the most that one of them needs.
    """
    nodes = spec.require_arch().nodes
    outermost = arch.outermost_memories(nodes, arch.computes(spec.require_arch()))
    outer = next(n for n in arch.flatten(nodes) if isinstance(n, arch.Memory))
    memory = bound[str(outer.name)]
    if outermost != [str(outer.name)] or not memory.enabled or memory.total_latency is not None:
        return
    keep = placement_sets(outer, architecture_names(spec, info), frozenset()).keep
    for tensor, access in info.accesses.items():
        makers, users = spec.info.producers.get(tensor, ()), spec.info.users[tensor]
        action = memory.actions["write" if access.output else "read"]
        everywhere = all(not spec.info.einsums[user].is_copy_operation for user in users)
        once = len(makers) == (1 if access.output else 0) and tensor not in info.persistent and everywhere
        if not once or info.n_instances != 1:
            moved[tensor] = _LeastTraffic(0, 0.0, 0.0)
            continue
        actions = action.actions_scale / action.values_per_action[tensor]
        instances = math.prod(max(1, d.most) for d in _above(nodes, outer, bound))
        traffic = moved.setdefault(tensor, _LeastTraffic())
        traffic.values = max(traffic.values, _distinct(access, info.bounds)) if tensor in keep else traffic.values
        traffic.value_joules = min(traffic.value_joules, actions * action.energy)
        traffic.value_seconds = min(traffic.value_seconds, actions / action.throughput / instances)


def _above(
    nodes: tuple[arch.ArchitectureNode, ...], memory: arch.Memory, bound: Mapping[str, BoundComponent]
) -> list[BoundDimension]:
    """The fanout dimensions at and above a memory."""
    dimensions: list[BoundDimension] = []
    for node in arch.flatten(nodes):
        dimensions.extend(bound[str(node.name)].dimensions)
        if node is memory:
            break
    return dimensions


def _distinct(access: Access, bounds: Mapping[str, int]) -> int:
    """Elements that are touched, at least: in each rank, as many as the largest variable in it has values."""
    ranks = access.ranks.values()
    return math.prod(max((bounds[v] for v, a in affine.coefficients.items() if a), default=1) for affine in ranks)
