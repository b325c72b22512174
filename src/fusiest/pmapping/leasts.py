"""Lower bounds on an Einsum's energy and latency, known at once, before it is explored.

They count computing, the operands of every operation, and each tensor once through every memory that holds it. Spatial
loops share as much traffic, and spread as much work, as there are instances.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping

import numpy as np

from fusiest.pmapping.explore import leakage, paths
from fusiest.pmapping.lattice.applies import all_plain, beside, constrained_variables, free_pairs, near_pairs
from fusiest.pmapping.lattice.move_costs import BUSY, finish
from fusiest.pmapping.lattice.remaining import Prospect
from fusiest.pmapping.lattice.tile_problem import Problem, coarsened, make_problem
from fusiest.pmapping.lattice.tile_search import Lattice, LatticeSpace
from fusiest.pmapping.nest.rules import Nest, Rules
from fusiest.pmapping.nest.spatial import Fanout, spread_over
from fusiest.pmapping.pareto import Floats
from fusiest.pmapping.placements.open_choices import Outers
from fusiest.pmapping.placements.placement import Placement, graph_of
from fusiest.pmapping.placements.placement_graph import PlacementNode
from fusiest.pmapping.question import Question
from fusiest.spec import Path, Spec

MOST_LOOKED_AT = 20_000
"""Most choices of loops on a dimension of a fanout that are listed; with more, anything counts as possible."""


def least_costs(spec: Spec, einsum: str, question: Question) -> tuple[float, float]:
    """The least energy and the least latency of any pmapping of an Einsum, each by itself."""
    known, ample = _known(spec), question.ample(spec)
    key = einsum, ample, question.imperfect
    if key not in known:
        costs = []
        for path in paths(spec, einsum, ample):
            energy, latency = _of_computing(path)
            moving = _of_moving(spec, path, question.imperfect)
            costs.append((max(energy, moving[0]), max(latency, moving[1])))
        known[key] = min(energy for energy, _ in costs), min(latency for _, latency in costs)
    return known[key]


@functools.lru_cache(maxsize=4)
def _known(_spec: Spec) -> dict[tuple[str, frozenset[str], bool], tuple[float, float]]:
    """Bounds found for a spec so far. Exploring begins with them, and the gap needs them when time is up."""
    return {}


def least_of_computing(spec: Spec, einsum: str) -> tuple[float, float]:
    """The least energy and latency of an Einsum's operations alone, each on the compute that is best for it."""
    costs = [_of_computing(path) for path in paths(spec, einsum)]
    return min(energy for energy, _ in costs), min(seconds for _, seconds in costs)


def least_of_reading(spec: Spec, einsum: str, tensor: str) -> tuple[float, float]:
    """Energy and latency of reading one value from the outermost memory; zero latency where it has several instances."""
    costs = []
    for path in paths(spec, einsum):
        outermost = path.memories[0]
        memory = path.components[outermost]
        read = memory.actions["read"]
        calls = read.actions_scale / read.values_per_action[tensor] * path.einsum.n_instances
        if any(c.dimensions for c in path.components[: outermost + 1]):
            calls = 0.0
        costs.append((calls * read.energy, calls / read.throughput if memory.total_latency is None else 0.0))
    return min(energy for energy, _ in costs), min(seconds for _, seconds in costs)


def _of_computing(path: Path) -> tuple[float, float]:
    """Energy and latency of an Einsum's operations, on as many computes as there are."""
    info, compute = path.einsum, path.compute
    if info.is_copy_operation:
        return 0.0, 0.0
    action = compute.actions["compute"]
    calls = float(np.prod([float(bound) for bound in info.bounds.values()])) * action.actions_scale * info.n_instances
    computes = math.prod(max(1, d.most) for component in path.components for d in component.dimensions)
    seconds = calls / action.throughput / computes if compute.total_latency is None else 0.0
    return calls * action.energy, seconds


def _of_moving(spec: Spec, path: Path, imperfect: bool) -> tuple[float, float]:
    """Lower bounds from the beginning of the search over tile shapes; zero where that search does not apply.

    They hold for imperfect tiles, too. The total traffic of a tensor is linear in the number of tiles along each
    variable, so it is least where each variable has one tile or tiles of 1, which divide.
    """
    problem, together = make_problem(path, *constrained_variables(spec, path)), beside(spec, path)
    graph = graph_of(spec, path)
    if path.einsum.is_copy_operation or graph is None:
        return 0.0, 0.0
    free = free_pairs(path, graph.all_sets(), together)
    if not all_plain(problem, graph, free):
        return 0.0, 0.0
    shared = frozenset(t for t in path.einsum.accesses if t in spec.info.shared)
    fanouts = {i: _relaxed(problem, i, imperfect) for i, c in enumerate(path.components) if c.dimensions}
    # The least traffic is that of the whole, which is a shape of the coarse problem, too.
    nest = Nest(coarsened(problem), shared, {}, Rules(), near_pairs(path, free), together)
    chains = _chains(graph, path)
    search = Lattice(LatticeSpace(nest, _one_by_one(chains), fanouts, None, frozenset(), leakage(spec, problem)))
    begun = {key.outers: search.layers[state].criteria for key, state in search.begin().items()}
    spread = np.min([*begun.values()], axis=0) / search.outlook.most_units(search.outlook.levels)
    computing = finish(nest.problem, search.columns, _computing(search, spread), 0.0)[1]
    energy, moving = finish(nest.problem, search.columns, _added_up(search, begun, chains), 0.0)
    latency = max(float(moving[0]), float(computing[0]))
    return float(energy[0]) + search.watts(()) * latency, latency


HolderChain = tuple[bool, ...]
"""Whether each component holds a tensor, or lets it through."""


def _chains(graph: PlacementNode, path: Path) -> dict[str, list[HolderChain]]:
    """For each tensor, every set of components that some placement holds it in."""

    def held(tensor: str) -> list[HolderChain]:
        no_chain: HolderChain = ()
        return sorted(graph.ends(no_chain, lambda chain, i, choice: (*chain, tensor in choice.held)))

    return {tensor: held(tensor) for tensor in path.einsum.accesses}


def _one_by_one(chains: Mapping[str, list[HolderChain]]) -> list[Placement]:
    """Combine each chain of each tensor with the first chains of the other tensors."""
    placements = []
    firsts = {tensor: ways[0] for tensor, ways in chains.items()}
    for tensor, ways in chains.items():
        for chosen in ({**firsts, tensor: chain} for chain in ways):
            held = [frozenset(t for t in chosen if chosen[t][i]) for i in range(len(ways[0]))]
            placements.append(Placement(tuple(held), (None,) * len(held)))
    return placements


def _added_up(search: Lattice, begun: Mapping[Outers, Floats], chains: Mapping[str, list[HolderChain]]) -> Floats:
    """The least of each criterion with the best chain of each tensor, each by itself.

    A criterion is a sum over tensors, and of computing. With the first chains of all others, the best chain of a tensor
    saves as much of it as with any.
    """
    outlook, compute, rows = search.outlook, len(search.problem.path.components) - 1, dict[int, Floats]()
    for outer, criteria in ((outer, criteria) for outers, criteria in begun.items() for outer in outers):
        prospect = Prospect(frozenset([outer]), compute, outlook.levels, 0.0)
        crossed = outlook.least_crossed(np.zeros(1, np.int64), criteria, prospect)
        rows[outer] = crossed + outlook.least(prospect)
    numbers, least = iter(range(len(search.space.placements))), rows[0].copy()
    for ways in chains.values():
        outer_sets = (search.steps.outside([number], compute) for number in itertools.islice(numbers, len(ways)))
        least += np.min([rows[number] for outers in outer_sets for number in outers], axis=0) - rows[0]
    return np.maximum(least, 0.0)


def _computing(search: Lattice, criteria: Floats) -> Floats:
    """Keep only the time that the compute is busy."""
    compute, columns = len(search.problem.path.components) - 1, search.columns
    of_compute = [i for i, busy in enumerate(columns.busy, start=BUSY) if busy.component == compute]
    result = np.zeros_like(criteria)
    result[:, of_compute] = criteria[:, of_compute]
    return result


def _relaxed(problem: Problem, level: int, imperfect: bool) -> Fanout:
    """Make one choice that no real one is better than: on each dimension the most units, and the most sharing.

    With imperfect tiles, any number of units may be in use, as far as there are iterations.
    """
    dimensions = problem.path.components[level].dimensions
    bounds = tuple(v.bound for v in problem.variables)
    factors = np.ones((1, len(dimensions), len(bounds)), np.int64)
    shared, apart = np.ones((2, 1, len(problem.tensors)))
    for n, d in enumerate(dimensions):
        irrelevant = [[v for v in range(len(bounds)) if v not in t.relevant] for t in problem.tensors]
        choices = [] if imperfect else list(itertools.islice(spread_over(problem, d, bounds), MOST_LOOKED_AT + 1))
        if not choices or len(choices) > MOST_LOOKED_AT:
            units = min(max(1, d.most), math.prod(bounds))
            alike = [min(units, math.prod(bounds[v] for v in variables)) for variables in irrelevant]
        else:
            spread = np.array(choices, np.int64)
            units = int(spread.prod(axis=1).max())
            alike = [int(spread[:, variables].prod(axis=1).max()) for variables in irrelevant]
        factors[0, n, :1] = units  # of no variable: one unit
        apart[0] *= alike
        shared[0] *= [n if t.name in d.may_reuse else 1 for t, n in zip(problem.tensors, alike, strict=True)]
    return Fanout(level, dimensions, factors, shared, apart, np.zeros(1, np.int64))
