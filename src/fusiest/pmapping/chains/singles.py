"""The chains of one variable, their factors, and pruning of chains: shared by all nests with loops in the same slots.

A chain is dominated, whatever the other variables do, if another one has no larger factor that adds to a criterion, and
no smaller factor that is subtracted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fusiest.pmapping.chains.branch.kernels import seldom_dominated
from fusiest.pmapping.chains.terms import TermFactor, factor_values
from fusiest.pmapping.chains.tied_variables import Limit
from fusiest.pmapping.chains.tile_chains import Chains
from fusiest.pmapping.pareto import Floats, Ints
from fusiest.pmapping.table import group_numbers

Signs = tuple[tuple[TermFactor, bool], ...]
"""Factors of a variable, and whether they are subtracted; some are both."""

_FEW = 0.5
"""Largest part of the chains that are compared with each other alone, and not with all of them."""


@dataclass
class SingleChains:
    """The chains of one variable."""

    chains: Chains
    factors: dict[TermFactor, Floats] = field(default_factory=dict)
    ranges: dict[TermFactor, tuple[float, float]] = field(default_factory=dict)
    best: dict[object, Ints] = field(default_factory=dict)

    def values(self, factor: TermFactor) -> Floats:
        """A factor of every chain."""
        if factor not in self.factors:
            self.factors[factor] = factor_values(self.chains, factor)
        return self.factors[factor]

    def range(self, factor: TermFactor) -> tuple[float, float]:
        """The least and the greatest value of a factor over all chains."""
        if factor not in self.ranges:
            values = self.values(factor)
            self.ranges[factor] = values.min(initial=np.inf), values.max(initial=0.0)
        return self.ranges[factor]

    def undominated(self, signs: Signs, limits: Sequence[Limit], some: Ints | None = None) -> Ints:
        """Numbers of the chains that no other dominates; with `some`, among these alone."""
        key = signs, tuple(limit.name for limit in limits)
        if some is not None and (key in self.best or len(some) < _FEW * len(self.chains)):
            return some if key in self.best else self._undominated(signs, limits, some)
        if key not in self.best:
            self.best[key] = self._undominated(signs, limits, np.arange(len(self.chains)))
        return self.best[key] if some is None else np.intersect1d(self.best[key], some, assume_unique=True)

    def known(self, signs: Signs, limits: Sequence[Limit]) -> Ints:
        """All chains without those that are already found dominated."""
        best = self.best.get((signs, tuple(limit.name for limit in limits)))
        return best if best is not None else np.arange(len(self.chains))

    def _undominated(self, signs: Signs, limits: Sequence[Limit], some: Ints) -> Ints:
        v = self.chains.variable
        keys = [group_numbers(self.chains.fused_tiles[some])] + [
            limit.factors[v][some] for limit in limits if limit.is_key
        ]
        columns = [-self.values(f)[some] if minus else self.values(f)[some] for f, minus in signs]
        columns += [limit.factors[v][some].astype(np.float64) for limit in limits if not limit.is_key]
        if not columns:
            columns = [np.zeros(len(some))]
        scaled = [column / max(1.0, float(np.abs(column).max(initial=0.0))) for column in columns]
        first: Floats = np.sum(scaled, axis=0)  # never larger for a chain that nothing is better than
        groups = group_numbers(np.column_stack(keys))
        order = np.lexsort((first, groups))
        best = order[seldom_dominated(groups[order], np.column_stack(columns)[order])]
        result: Ints = some[np.sort(best)]
        return result
