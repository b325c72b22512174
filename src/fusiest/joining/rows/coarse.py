"""Lossy pruning for a first pass that is quick and yields valid mappings: of many nearly equal rows, few are kept.

Rows keep their exact values, so every result is valid; only the choice of rows is lossy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fusiest.base.interrupt import Check
from fusiest.base.objective import CLOSE, Least
from fusiest.joining.rows.consolidation import PartialRows
from fusiest.joining.rows.incumbents import Incumbents
from fusiest.joining.rows.kernels import prune_within
from fusiest.pmapping import Floats, Ints

_LEAST_EPSILON = 0.02
_MEASURES = 3
"""Number of measures by which rows of a front are chosen, each with its share of the limit. A single objective uses one
share."""


@dataclass(frozen=True)
class Coarse:
    """Settings of lossy pruning, applied to states with more than `most` partial mappings."""

    epsilon: float = 0.2
    """Relative loss that all joins together may cause by ε-dominance."""
    most: int = 3_000
    """Most partial mappings of a state that are left without a limit by promise."""

    def finer(self) -> Coarse | None:
        """The settings for the next attempt if no mapping was found; None if they would be nearly exact."""
        return Coarse(self.epsilon / 2, self.most * 8) if self.epsilon >= 2 * _LEAST_EPSILON else None


def thinned(
    groups: Sequence[tuple[PartialRows, Least]], incumbents: Incumbents, coarse: Coarse, joins: int, check: Check
) -> list[PartialRows]:
    """Prune a state's rows coarsely. `groups`: the rows of each compatibility, and the bound on the Einsums after them.

    Epsilon is divided among all joins, because each join can lose as much as the others.
    """
    share, score = (1 + coarse.epsilon) ** (1 / joins), incumbents.objective.score

    pruned = []
    for rows, _ in groups:
        check()
        numbers = _not_nearly_dominated(rows, score(rows.energy, rows.latency), share)
        pruned.append(rows if len(numbers) == len(rows) else rows.take(numbers))
    if sum(len(rows) for rows in pruned) <= coarse.most:
        return pruned
    return _most_promising(
        [(rows, least) for rows, (_, least) in zip(pruned, groups, strict=True)], incumbents, coarse.most
    )


def _not_nearly_dominated(rows: PartialRows, score: Floats, slack: float) -> Ints:
    if len(rows) < 2:
        return np.arange(len(rows))
    groups = rows.groups()
    order = np.lexsort((score, groups))
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1, append=-1))
    keep = np.zeros(len(rows), np.bool_)
    prune_within(order, starts, np.ascontiguousarray(rows.criteria()), slack, keep)
    return np.flatnonzero(keep)


def _most_promising(
    groups: Sequence[tuple[PartialRows, Least]], incumbents: Incumbents, most: int
) -> list[PartialRows]:
    """Keep the rows with the least bound on the objective, and some that take little space."""
    energy = np.concatenate([rows.energy + least.energy for rows, least in groups])
    latency = np.concatenate([rows.latency + least.latency for rows, least in groups])
    usage = np.concatenate([rows.usage().sum(axis=1) for rows, _ in groups])
    measures = [np.concatenate([incumbents.least_score(rows.energy, rows.latency, least) for rows, least in groups])]
    deciding = usage
    if incumbents.objective.is_front:
        measures += [energy, latency]
    elif incumbents.objective.follows_ties:  # many may be as good as can be: the other cost decides
        step = float(measures[0].min()) * CLOSE
        if step > 0:  # what is free is as good as nothing else
            measures = [np.floor(measures[0] / step)]
        deciding = incumbents.objective.tie_break(energy, latency)
    chosen = np.zeros(len(usage), np.bool_)
    for measure in measures:
        chosen[np.lexsort((usage, deciding, measure))[: max(1, most // _MEASURES)]] = True
    chosen[np.argsort(usage)[: most // 8]] = True
    ends: Ints = np.cumsum([len(rows) for rows, _ in groups])
    return [
        rows.take(np.flatnonzero(chosen[end - len(rows) : end])) for (rows, _), end in zip(groups, ends, strict=True)
    ]
