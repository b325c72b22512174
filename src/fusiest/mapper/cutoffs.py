"""Cutoffs of an Einsum's pmappings, once mappings of the whole workload are known (proof 9).

The other Einsums cost at least E and L. A pmapping of energy e and latency l is of no use if a known mapping costs no
more than e + E and l + L; or, where a product P of both costs is known and asked for, if (e + E)(l + L) is no less than
P. Then some point on the curve of P is no more than e + E and l + L. A few such points leave out nearly as much as the
curve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fusiest.base.objective import Objective
from fusiest.joining import KnownCosts
from fusiest.mapper.tables import Explorer, question_of
from fusiest.pmapping import Cutoff, Floats, Table, least_costs

_POINTS = 16
"""Number of points on the curve of a product."""
_FAR = 1e-3
"""Ends of that curve, as a share of the best costs: it is followed no farther."""
_MARGIN = 1e-6
"""Relative margin within which a tie with a known mapping is kept: ties are decided later."""


def make_cutoffs(explorer: Explorer, exact: Mapping[str, Table], known: Sequence[KnownCosts]) -> dict[str, Cutoff]:
    """A cutoff for each distinct Einsum without an exact table."""
    least = least_of_each(explorer, exact)
    total_least = np.sum([least[first] for first in explorer.representative.values()], axis=0)
    points = _points(explorer.options.minimized, known, total_least) * (1 + _MARGIN)
    return {name: Cutoff(points - (total_least - least[name])) for name in explorer.missing(exact)}


def least_of_each(explorer: Explorer, exact: Mapping[str, Table]) -> dict[str, tuple[float, float]]:
    """Least energy and latency of each distinct Einsum: from its exact table, or from computing and moving data."""
    leasts, question = {}, question_of(explorer.options)
    for name in explorer.distinct:
        if name in exact:
            groups = exact[name].groups.values()
            energy = min(float(rows.energy.min()) for rows in groups)
            leasts[name] = energy, min(float(rows.latency.min()) for rows in groups)
        else:
            leasts[name] = least_costs(explorer.spec, name, question)
    return leasts


def _points(objective: Objective, known: Sequence[KnownCosts], least: Floats) -> Floats:
    """Points of energy and latency: a mapping that is below one of them in neither cost is no better than a known one."""
    costs: Floats = np.array([(mapping.energy, mapping.latency) for mapping in known])
    if objective.is_front:
        return costs
    best: Floats = costs[np.argmin(objective.score(costs[:, 0], costs[:, 1]))]
    if not objective.is_product:
        minimized = np.array([name in objective.names for name in ("energy", "latency")])
        points: Floats = np.where(minimized, best, -np.inf)[None]
        return points
    if not best.all():
        return best[None]
    score = objective.score_of(*best)
    slowest = objective.latency_at(score, max(least[0], best[0] * _FAR))
    latencies = np.geomspace(max(least[1], best[1] * _FAR), slowest, _POINTS)
    return np.column_stack([objective.energy_at(score, latencies), latencies])
