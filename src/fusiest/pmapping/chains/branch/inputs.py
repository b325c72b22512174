"""Input of branch and bound, where there is a cutoff: first single variables, then compounds.

The chains of each variable are kept if they can beat the cutoff with the least of all others; then those of compounds
of variables.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fusiest.pmapping.chains.branch.branch_and_bound import BoxForest, Branching, TreeChains, node_rules
from fusiest.pmapping.chains.branch.compounds import (
    Compound,
    CompoundChains,
    CompoundTerms,
    compound_terms,
    groups_of,
    mirrored,
)
from fusiest.pmapping.chains.branch.symmetry import Swapping
from fusiest.pmapping.chains.branch.trades import NO_TRADES, Trades, make_trades, quantities
from fusiest.pmapping.chains.combine import Combiner, Partial
from fusiest.pmapping.pareto import Floats, Ints
from fusiest.pmapping.table import group_numbers

_LITTLE = 256
"""Chains that need less than this part of a memory, the others being as small as can be, need little: how little makes
no difference."""
_ROUNDING = 1e-12
_UNTRADED = 512
"""Batches after which a search begins anew, with trades: they bound nodes more tightly, which takes longer for each."""


@dataclass
class BranchedCombiner(Combiner):
    """A combination of all variables at once, by branch and bound."""

    meeting: Sequence[Compound] = ()
    """Variables that meet in a rank, by number."""

    def branch(self, batches: float = math.inf, first: bool = False, swapping: Swapping | None = None) -> Partial:
        """Find all combinations that beat the cutoff and each other.

        After `batches` batches, or with `first` after the first one that is found, return those found so far.
        `swapping`: variables whose chains may change places.
        """
        assert self.bound is not None
        variables, none = self.terms.variables, self._start().take(np.empty(0, np.int64))
        for v in variables:
            factors, which = self._factors(v)
            self.least[v], self.greatest[v] = np.array([self.singles[v].range(factor) for factor in factors])[which].T
        few_first = sorted(variables, key=lambda v: len(self.singles[v].chains))
        if not self._hopeful() or not all(self._choose(v, self._narrowed(v)) for v in few_first):
            return none
        for a, b in swapping or ():
            either = np.union1d(self.chosen[variables[a]], self.chosen[variables[b]])
            for v in (variables[a], variables[b]):
                self._choose(v, either)
        singles = [self._whole(v) for v in variables]
        groups, mirrors = mirrored(groups_of([len(single) for single in singles], self.meeting), swapping)
        terms = compound_terms(groups, self.numbers, self.bound, self.capped)
        compounds = self._compounds(terms, singles, mirrors)
        if not len(compounds[-1].keys):
            return none
        rows: list[Partial] = [none]

        def found(chains: Sequence[Ints]) -> bool:
            state: Partial | None = None
            for group, compound, chosen in zip(groups, compounds, chains, strict=True):
                for v, numbers in zip(group, compound.chosen[chosen].T, strict=True):
                    every = np.arange(len(chosen))
                    state = singles[v].take(numbers) if state is None else state.times(singles[v], every, numbers)
            assert state is not None
            rows.append(self._pruned(state, variables))
            return not (first and len(rows[-1]))

        search = functools.partial(self._search, terms, compounds, mirrors, found)
        self.ended = search(NO_TRADES, min(batches, _UNTRADED))
        if not self.ended and batches > _UNTRADED and not (first and len(rows[-1])):
            limited = quantities(terms.capped, self.caps, self.limits)
            trades = make_trades(terms.bound, limited, [(chains.products, chains.limited) for chains in compounds])
            self.ended = search(trades, batches)
        return self._best(Partial.whole(rows), variables)

    def _search(
        self,
        terms: CompoundTerms,
        compounds: Sequence[CompoundChains],
        mirrors: tuple[int, int] | None,
        found: Callable[[Sequence[Ints]], bool],
        trades: Trades,
        batches: float,
    ) -> bool:
        """Run branch and bound over all compounds for at most `batches` batches; returns whether that was all."""
        ends = [chains.range for chains in compounds]
        trees = [self._tree(chains, terms.others(i, ends), trades) for i, chains in enumerate(compounds)]
        forest = BoxForest(trees, terms.bound, mirrors)
        rules = node_rules(terms.capped, self.caps, self.limits, terms.bound, trades)._replace(order=forest.order)
        roots = forest.root_nodes(lambda n, done: self._within(n, self._others(terms.groups[:done])))
        return Branching(forest, terms.bound, rules, found).run(roots, batches)

    def _narrowed(self, v: str) -> Ints:
        """Chains of a variable that can fit and beat the cutoff, and that matter. Cheaper tests come first."""
        single, signs = self.singles[v], self._signs(v)
        self.count(len(single.chains))
        chains = self._limited(v, single.known(signs, self.limits))
        factors, which = self._factors(v)
        whole = len(chains) == len(single.chains)
        values = np.stack([single.values(f) if whole else single.values(f)[chains] for f in factors])
        chains = chains[self._keeps(self._rest(self._remaining([v])), values.T, which)]
        return single.undominated(signs, self.limits, chains)

    def _keeps(self, rest: tuple[Floats, Floats], values: Floats, which: Ints) -> Ints:
        """Chains that can fit and beat the cutoff, given the least of others.

        `values`: chains × factors; `which`: factor of each term.
        """
        assert self.bound is not None
        weights = np.zeros((values.shape[1], len(self.caps) + self.bound.weights.shape[1]))
        np.add.at(weights, which, np.concatenate(rest, axis=1))
        sums = values @ weights
        fits = np.flatnonzero((sums[:, : len(self.caps)] <= self.caps * (1 + _ROUNDING)).all(axis=1))
        energy, latency = self.bound.finish(np.maximum(sums[fits, len(self.caps) :], 0.0))
        result: Ints = fits[self.bound.goal.keeps(energy, latency)]
        return result

    def _compounds(
        self, terms: CompoundTerms, singles: Sequence[Partial], mirrors: tuple[int, int] | None
    ) -> list[CompoundChains]:
        """Chains of all compounds that matter; for a compound that mirrors another, their images."""
        counted = [self._counted(v, single) for v, single in zip(self.terms.variables, singles, strict=True)]
        ranges = [terms.range_of(i, counted) for i in range(len(terms.groups))]
        result: list[CompoundChains] = []
        for i, group in enumerate(terms.groups):
            if mirrors is not None and i == mirrors[1]:
                result.append(terms.image(i, result[mirrors[0]], counted))
            else:
                within = functools.partial(self._within, remaining=self._others([group]))
                keeps = functools.partial(self._keeps, terms.others(i, ranges))
                result.append(terms.chains(i, counted, within, keeps))
            if not len(result[i].keys):
                break
            ranges[i] = result[i].range
        return result

    def _counted(self, v: str, single: Partial) -> CompoundChains:
        keys = [self.codes[v][single.choice.max(axis=1)], *self._keys(single.limited)]
        return CompoundChains(
            np.arange(len(single))[:, None], single.products, single.limited, group_numbers(np.column_stack(keys))
        )

    def _others(self, groups: Sequence[Compound]) -> tuple[str, ...]:
        """Variables of no such group."""
        return self._remaining([self.terms.variables[v] for group in groups for v in group])

    def _tree(self, chains: CompoundChains, others: tuple[Floats, Floats], trades: Trades) -> TreeChains:
        """Chains of a compound, those that use dimensions alike in a box each."""
        space = np.maximum(chains.products @ others[0], self.caps / _LITTLE)
        features = np.column_stack([space, chains.products @ others[1]])
        logs = np.log(np.maximum(features, 1e-300))
        products = trades.with_products(chains.products, chains.limited)
        return TreeChains(products, logs, chains.limited, self._alike(chains.limited))
