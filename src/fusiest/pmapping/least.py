"""What an Einsum costs at least, whatever is done with it: known at once, before any pmapping is.

That is computing, the operands of every operation, and each tensor once through every memory that holds it. Spatial loops
share as much traffic, and spread as much work, as there are instances.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from fusiest.pmapping.costs import BUSY, finish
from fusiest.pmapping.explore import Asked, leakage, paths
from fusiest.pmapping.lattice import Lattice, LatticeSpace
from fusiest.pmapping.nest import Nest, Rules
from fusiest.pmapping.outlook import Prospect
from fusiest.pmapping.pareto import Floats
from fusiest.pmapping.placement import placements
from fusiest.pmapping.plain import beside, constrained_variables, free_pairs, is_plain, near_pairs
from fusiest.pmapping.problem import Problem, coarsened, make_problem
from fusiest.pmapping.spatial import Fanout, spread_over
from fusiest.spec import Path, Spec

MOST_LOOKED_AT = 20_000
"""Choices of loops on a dimension of a fanout; if there are more, anything counts as possible."""


def least_costs(spec: Spec, einsum: str, asked: Asked) -> tuple[float, float]:
    """Energy and latency that no pmapping of an Einsum is below, each for itself."""
    costs = []
    for path in paths(spec, einsum, asked.ample(spec)):
        energy, latency = _of_computing(path)
        moving = _of_moving(spec, path, asked.imperfect)
        costs.append((max(energy, moving[0]), max(latency, moving[1])))
    return min(energy for energy, _ in costs), min(latency for _, latency in costs)


def least_of_computing(spec: Spec, einsum: str) -> tuple[float, float]:
    """Energy and latency of an Einsum's operations alone, each on the compute that is best for it."""
    costs = [_of_computing(path) for path in paths(spec, einsum)]
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
    """What rows of the search over tile shapes come to at least, when it begins; nothing where it does not apply.

    That holds for imperfect tiles, too: what tiles of a tensor come to in all is linear in how many there are along each variable,
    so it is least where each variable has one tile or tiles of 1, which divide.
    """
    problem, together = make_problem(path, *constrained_variables(spec, path)), beside(spec, path)
    possible = placements(spec, path)
    free = frozenset(pair for placement in possible for pair in free_pairs(path, placement, together))
    if path.einsum.is_copy_operation or not all(is_plain(problem, placement, free) for placement in possible):
        return 0.0, 0.0
    shared = frozenset(t for t in path.einsum.accesses if t in spec.info.shared)
    fanouts = {i: _relaxed(problem, i, imperfect) for i, c in enumerate(path.components) if c.dimensions}
    # The least traffic is that of the whole, which is a shape of the coarse problem, too.
    nest = Nest(coarsened(problem), shared, {}, Rules(), near_pairs(path, free), together)
    search = Lattice(LatticeSpace(nest, possible, fanouts, None, frozenset(), leakage(spec, problem)))
    watts, energy, latency = search.watts(()), [], []
    for key, state in search.begin().items():
        layer, outlook = search.layers[state], search.outlook
        prospect = Prospect(key.outers, len(path.components) - 1, outlook.levels, 0.0)
        joules, seconds = outlook.bounds(layer.shape, layer.criteria, prospect)
        spread = layer.criteria / outlook.most_units(outlook.levels)
        seconds = np.maximum(seconds, finish(nest.problem, search.columns, _computing(search, spread), 0.0)[1])
        latency.append(float(seconds.min()))
        energy.append(float(joules.min()) + watts * latency[-1])
    return min(energy, default=0.0), min(latency, default=0.0)


def _computing(search: Lattice, criteria: Floats) -> Floats:
    """Only the time that the compute is busy."""
    compute, columns = len(search.problem.path.components) - 1, search.columns
    of_compute = [i for i, busy in enumerate(columns.busy, start=BUSY) if busy.component == compute]
    result = np.zeros_like(criteria)
    result[:, of_compute] = criteria[:, of_compute]
    return result


def _relaxed(problem: Problem, level: int, imperfect: bool) -> Fanout:
    """One choice that none is better than: on each dimension the most units, and all that can be shared. With imperfect tiles,
    any number of units may be in use, as far as there are iterations."""
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
        factors[0, n, 0] = units
        apart[0] *= alike
        shared[0] *= [n if t.name in d.may_reuse else 1 for t, n in zip(problem.tensors, alike, strict=True)]
    return Fanout(level, dimensions, factors, shared, apart, np.zeros(1, np.int64))
