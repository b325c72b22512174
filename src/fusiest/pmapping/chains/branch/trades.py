"""Trades: lower bounds on terms that can be small only where something limited is large.

Values are read again and again for want of space or of units. Let a term be a product P = Π e of one factor e per
variable. Let a limited quantity be Π q ≤ Q, with one factor q per variable: the bits of a tensor in a memory, the units
used of a dimension, or the product of both. Then

    P = Π e = Π e q / Π q ≥ Π e q / Q,

and in a node of boxes

    P ≥ Π min(e q) / Q.

That is more than Π min(e) wherever chains that make e small make q large. In a memory that holds several tensors, Q is
the room that the least of all others leaves.

Let a part M of P be skipped, with weights w ≥ u. It costs

    w P - u M = (w - u) P + u (P - M),

so an increase of P counts with weight w - u.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fusiest.pmapping.chains.branch.bounds import CostBound
from fusiest.pmapping.chains.tied_variables import Limit
from fusiest.pmapping.pareto import Floats, Ints

_WORTH = 1e-3
"""Least value of a trade, as a share of the product of the least factors, for which it is kept."""
_MOST, _MOST_NUMBERS = 160, 1 << 24
"""Most trades of a nest; and most numbers in their factors for all chains."""
_TINY = 1e-300


class LimitedProduct(NamedTuple):
    """A limited quantity: a term of a size, limits, or the product of both."""

    size: int
    """Number of the size; -1 for limits alone."""
    term: int
    """Number of the term; -1 for limits alone."""
    limits: tuple[int, ...]
    """Numbers of the limits."""
    whole: float
    """The most that the term may be, if it is all of its size; 1 for limits alone."""
    most: float
    """The most that the product of the limits may be."""

    def values(self, products: Floats, limited: Ints) -> Floats:
        """The quantity's factor for each chain."""
        result: Floats = limited[:, list(self.limits)].prod(axis=1).astype(np.float64)
        return result * products[:, self.term] if self.size >= 0 else result


class Trades(NamedTuple):
    """Pairs of terms and limited quantities to be multiplied."""

    limited: Sequence[LimitedProduct]
    pairs: Sequence[tuple[int, int]]
    """Terms, each with the number of a quantity."""

    @property
    def columns(self) -> Ints:
        """Trades × (term, quantity)."""
        return np.array(self.pairs, np.int64).reshape(-1, 2)

    @property
    def quantities(self) -> Ints:
        """Quantities × (size, term); -1 for limits."""
        return np.array([(q.size, q.term) for q in self.limited], np.int64).reshape(-1, 2)

    @property
    def most(self) -> Floats:
        """The most that the limits of each quantity may be."""
        return np.array([q.most for q in self.limited], np.float64)

    def with_products(self, products: Floats, limited: Ints) -> Floats:
        """Products of chains, followed by columns of trades."""
        values = [q.values(products, limited) for q in self.limited]
        more = [products[:, term] * values[q] for term, q in self.pairs]
        return np.ascontiguousarray(np.column_stack([products, *more]))


NO_TRADES = Trades((), ())


def raised_weights(bound: CostBound) -> Floats:
    """Terms × criteria: the weight of an increase of a term, whatever part of it is skipped."""
    result = np.maximum(bound.weights, 0.0)
    for term, parts in bound.skipped.items():
        for part in parts:
            result[part] = np.maximum(result[part] + np.minimum(bound.weights[term], 0.0), 0.0)
    return result


def quantities(capped: Floats, caps: Floats, limits: Sequence[Limit]) -> list[LimitedProduct]:
    """All limited quantities; `capped`: terms × sizes."""
    result = [
        LimitedProduct(k, t, (), float(caps[k] / capped[t, k]), 1.0)
        for k in range(len(caps))
        for t in np.flatnonzero(capped[:, k] > 0).tolist()
    ]
    free = [i for i, limit in enumerate(limits) if np.isfinite(limit.most) and not limit.is_key]
    together = [(i,) for i in free] + [tuple(free)] * (len(free) > 1)
    units = [LimitedProduct(-1, -1, which, 1.0, math.prod(limits[i].most for i in which)) for which in together]
    both = [q._replace(limits=units[-1].limits, most=units[-1].most) for q in result if units]
    return [*result, *units, *both]


def make_trades(bound: CostBound, options: Sequence[LimitedProduct], chains: Sequence[tuple[Floats, Ints]]) -> Trades:
    """Choose the trades that are worth it. `chains`: products and limits, of each variable or compound."""
    weights = raised_weights(bound)
    alone = np.prod([products.min(axis=0) for products, _ in chains], axis=0)
    shares = np.zeros((len(options), len(weights)))
    for number, q in enumerate(options):
        least = np.full(len(weights), 1 / (q.whole * q.most))
        for products, limited in chains:
            least = least * (products * q.values(products, limited)[:, None]).min(axis=0)
        shares[number] = np.where(least > 0, least / np.maximum(alone, _TINY), 0.0)
        shares[number, q.term if q.size >= 0 else []] = 0.0
    shares[:, ~weights.any(axis=1)] = 0.0
    most = min(_MOST, _MOST_NUMBERS // max(1, sum(len(limited) for _, limited in chains)))
    best = np.argsort(-shares, axis=None, kind="stable")[:most]
    which, term = np.unravel_index(best[shares.ravel()[best] > _WORTH], shares.shape)
    return Trades(options, sorted(zip(term.tolist(), which.tolist(), strict=True)))
