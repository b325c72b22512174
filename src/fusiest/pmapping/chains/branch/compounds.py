"""Compounds: variables that meet in a rank of a tensor, as p and r do in p + r, searched as one.

The chains of a compound are combinations of its variables' chains. A rank of several variables makes a sum of several
products of every footprint. Terms that have equal factors in all other variables, and weights in proportion, are one
term of a compound: its factor is the sum of their products. So a compound has few factors, and most combinations of its
variables' chains are dominated by another one, whatever other variables do. Skipped parts of a first pass, and the
terms that they are part of, stay terms of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fusiest.pmapping.chains.branch.bounds import CostBound
from fusiest.pmapping.chains.branch.kernels import seldom_dominated
from fusiest.pmapping.chains.branch.symmetry import Swapping
from fusiest.pmapping.pareto import Floats, Ints
from fusiest.pmapping.table import group_numbers

MOST_COMBINATIONS = 1 << 18
"""Most combinations of the chains of a compound's variables; with more, the variables stay apart."""
_ROUNDING = 1e-13

Compound = tuple[int, ...]
"""Variables of a compound, by number."""
SummedFactor = tuple[tuple[float, tuple[int, ...]], ...]
"""A sum of products of the factors of a compound's variables, by number, each times a number."""


class CompoundChains(NamedTuple):
    """Chains of a variable or a compound."""

    chosen: Ints
    """Chains × variables: the number of each variable's chain."""
    products: Floats
    """Chains × terms."""
    limited: Ints
    """Chains × limits."""
    keys: Ints
    """A number per chain; only chains with the same number are compared."""

    @property
    def range(self) -> tuple[Floats, Floats]:
        """The least and the greatest factor of each term."""
        return self.products.min(axis=0, initial=np.inf), self.products.max(axis=0, initial=0.0)


def groups_of(counts: Sequence[int], meeting: Sequence[Compound]) -> list[Compound]:
    """Variables to be compounded: those that meet, unless they have too many combinations; `counts`: of chains.

    >>> groups_of([100, 3, 1, 100], [(0, 1), (1, 2)]), groups_of([1 << 10, 1 << 10], [(0, 1)])
    ([(0, 1), (2,), (3,)], [(0,), (1,)])
    """
    groups: list[Compound] = [(v,) for v in range(len(counts))]
    for meet in meeting:
        free = {v for v in meet if counts[v] > 1}
        touched = [group for group in groups if free & {*group}]
        whole = tuple(sorted(v for group in touched for v in group))
        if len(touched) > 1 and math.prod(counts[v] for v in whole) <= MOST_COMBINATIONS:
            groups = [group for group in groups if group not in touched] + [whole]
    return sorted(groups)


def mirrored(groups: Sequence[Compound], swapping: Swapping | None) -> tuple[list[Compound], tuple[int, int] | None]:
    """Compounds, and the two of them that change places if variables do: these list their variables in the same order.

    >>> mirrored([(0, 2), (1, 3), (4,)], ((0, 1), (2, 3)))
    ([(0, 2), (1, 3), (4,)], (0, 1))
    >>> mirrored([(0, 2), (1,), (3,)], ((0, 1), (2, 3)))
    ([(0, 2), (1,), (3,)], None)
    """
    result = list(groups)
    if swapping:
        other = {v: w for a, b in swapping for v, w in ((a, b), (b, a))}
        place, one = next((i, group) for i, group in enumerate(groups) if swapping[0][0] in group)
        image = tuple(other.get(v, v) for v in one)
        for number, group in enumerate(groups):
            if group != one and {*group} == {*image}:
                result[number] = image
                return result, (min(place, number), max(place, number))
    return result, None


@dataclass(frozen=True)
class CompoundTerms:
    """Terms as products of one factor per compound."""

    groups: Sequence[Compound]
    numbers: Ints
    """Terms before they were added up × variables: the number of each variable's factor."""
    factors: Sequence[tuple[SummedFactor, ...]]
    """Terms × compounds."""
    bound: CostBound
    capped: Floats
    """Terms × sizes."""

    def chains(
        self,
        number: int,
        singles: Sequence[CompoundChains],
        within: Callable[[Ints], np.ndarray],
        keeps: Callable[[Floats, Ints], Ints],
    ) -> CompoundChains:
        """Combinations of the chains of a compound's variables that matter.

        They are `within` limits, pass `keeps` (which gets their factors and each term's factor number), and no other
        one dominates them.
        """
        group = self.groups[number]
        counts = [len(singles[v].keys) for v in group]
        chosen = np.stack(np.unravel_index(np.arange(math.prod(counts)), counts), axis=1)
        limited = np.prod([singles[v].limited[chosen[:, i]] for i, v in enumerate(group)], axis=0)
        fitting = np.flatnonzero(within(limited))
        factors, which = self._distinct(number)
        values = np.column_stack([self._values(factor, group, singles)[fitting] for factor in factors])
        kept = keeps(values, which)
        values, chosen, limited = values[kept], chosen[fitting[kept]], limited[fitting[kept]]
        keys = group_numbers(np.column_stack([singles[v].keys[chosen[:, i]] for i, v in enumerate(group)]))
        is_new = len(group) > 1 or any(len(factor) > 1 for factor in factors)
        best = self._undominated(which, values, keys, limited) if is_new else np.arange(len(keys))
        return CompoundChains(chosen[best], np.ascontiguousarray(values[best][:, which]), limited[best], keys[best])

    def image(self, number: int, of: CompoundChains, singles: Sequence[CompoundChains]) -> CompoundChains:
        """The chains of the compound that mirrors another one."""
        factors, which = self._distinct(number)
        group = self.groups[number]
        numbers = np.ravel_multi_index(tuple(of.chosen.T), [len(singles[v].keys) for v in group])
        values = [self._values(factor, group, singles)[numbers] for factor in factors]
        return of._replace(products=np.ascontiguousarray(np.column_stack(values)[:, which]))

    def _distinct(self, number: int) -> tuple[list[SummedFactor], Ints]:
        """The distinct factors of a compound, and the number of each term's factor."""
        numbers: dict[SummedFactor, int] = {}
        which = [numbers.setdefault(factors[number], len(numbers)) for factors in self.factors]
        return list(numbers), np.array(which, np.int64)

    def _values(self, factor: SummedFactor, group: Compound, singles: Sequence[CompoundChains]) -> Floats:
        """The value of a factor for all combinations of the variables' chains."""
        product = np.array([[times for times, _ in factor]])
        for i, v in enumerate(group):
            terms = [int((self.numbers[:, v] == numbers[i]).argmax()) for _, numbers in factor]
            columns = singles[v].products[:, terms]
            if i == len(group) - 1:
                product = product @ columns.T
            else:
                product = (product[:, None] * columns).reshape(-1, len(factor))
        return product.ravel()

    def _undominated(self, which: Ints, values: Floats, keys: Ints, limited: Ints) -> Ints:
        """Numbers of the chains of a compound that no other one with an equal key dominates.

        `values`: chains × distinct factors.
        """
        weights = np.concatenate([self.bound.weights, self.capped], axis=1)
        less, more = (values[:, np.unique(which[signed.any(axis=1)])] for signed in (weights > 0, weights < 0))
        criteria = np.column_stack([less, -more, limited])
        scale = np.maximum(1.0, np.abs(criteria).max(axis=0, initial=0.0))
        order = np.lexsort((criteria @ (1 / scale), keys))
        return np.sort(order[seldom_dominated(keys[order], np.ascontiguousarray(criteria[order]))])

    def range_of(self, number: int, singles: Sequence[CompoundChains]) -> tuple[Floats, Floats]:
        """Bounds on the least and the greatest factor that each term can have in a compound."""
        ranges = [singles[v].range for v in self.groups[number]]
        factors, which = self._distinct(number)

        def end(factor: SummedFactor, side: int) -> float:
            total = 0.0
            for times, product in factor:
                for (v, n), ends in zip(zip(self.groups[number], product, strict=True), ranges, strict=True):
                    times *= float(ends[side][(self.numbers[:, v] == n).argmax()])
                total += times
            return total

        least, greatest = (np.array([end(factor, side) for factor in factors])[which] for side in (0, 1))
        return least, greatest

    def others(self, number: int, ranges: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
        """Terms × sizes and terms × criteria: weights, times the least factors of all other compounds."""
        none = np.ones(len(self.factors))
        least, greatest = (
            np.prod([none, *(r[side] for i, r in enumerate(ranges) if i != number)], axis=0) for side in (0, 1)
        )
        return self.capped * least[:, None], self.bound.rest(least, greatest)


def compound_terms(groups: Sequence[Compound], numbers: Ints, bound: CostBound, capped: Floats) -> CompoundTerms:
    """Add terms up wherever possible. `numbers`: terms × variables, the number of each variable's factor."""
    factors: list[tuple[SummedFactor, ...]] = [
        tuple(((1.0, tuple(row[v] for v in group)),) for group in groups) for row in numbers.tolist()
    ]
    weights = np.concatenate([bound.weights, capped], axis=1)
    apart = {*bound.skipped, *(part for parts in bound.skipped.values() for part in parts)}
    kept = [t for t in range(len(factors)) if t in apart or weights[t].any()]
    for number in range(len(groups)):
        kept = _added_up(number, kept, factors, weights, apart)
    place = {term: i for i, term in enumerate(kept)}
    skipped = {place[term]: [place[part] for part in parts] for term, parts in bound.skipped.items()}
    less = replace(bound, weights=bound.weights[kept], skipped=skipped)
    return CompoundTerms(groups, numbers, [factors[t] for t in kept], less, capped[kept])


def _added_up(
    number: int, kept: Sequence[int], factors: list[tuple[SummedFactor, ...]], weights: Floats, apart: set[int]
) -> list[int]:
    """Add up terms that differ in this compound's factor alone and have weights in proportion; the first gets the sum."""
    firsts: dict[object, list[int]] = {}
    result = []
    for term in kept:
        mine = factors[term]
        alike = firsts.setdefault((mine[:number], mine[number + 1 :]), [])
        share = 0.0
        for first in () if term in apart else alike:
            share = _proportion(weights[term], weights[first])
            if share > 0:
                more = tuple((share * times, product) for times, product in mine[number])
                factors[first] = (*mine[:number], tuple(sorted(factors[first][number] + more)), *mine[number + 1 :])
                break
        if not share > 0:
            result.append(term)
            if term not in apart:
                alike.append(term)
    return result


def _proportion(one: Floats, other: Floats) -> float:
    """The ratio of one to the other; 0 if they are not in proportion."""
    most = int(np.abs(other).argmax())
    share = float(one[most] / other[most])
    return share if np.allclose(one, share * other, rtol=_ROUNDING, atol=0.0) else 0.0
