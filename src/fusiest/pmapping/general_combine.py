"""Combining the tile chains of all variables, one variable at a time, with Pareto pruning after each.

Every criterion is a sum of products of one factor ≥ 0 per variable. Once some variables are combined, terms that have equal
factors in all others can be added up: a row whose sums are all at least as large as another's (in the same group) stays
behind it whatever is chosen for the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fusiest.interrupt import check
from fusiest.pmapping.general_chains import Chains
from fusiest.pmapping.general_limits import Limit
from fusiest.pmapping.general_terms import TermFactor, Terms
from fusiest.pmapping.pareto import Floats, Ints, pareto_rows
from fusiest.pmapping.table import group_numbers

_CHUNK = 1 << 22
"""Numbers in one block of partial products."""
_SMALL = 1 << 16


@dataclass
class Partial:
    """Combinations of some variables' chains."""

    choice: Ints
    """Rows × variables: which chain, or -1 where none is chosen yet."""
    products: Floats
    """Rows × terms."""
    limited: Ints
    """Rows × limits."""

    def __len__(self) -> int:
        return len(self.choice)

    def take(self, which: Ints) -> Partial:
        return Partial(self.choice[which], self.products[which], self.limited[which])


@dataclass
class Combiner:
    terms: Terms
    chains: Mapping[str, Chains]
    limits: Sequence[Limit]
    compared: Floats
    """Terms × criteria to be minimized, in which a worse row may be dropped."""
    capped: Floats
    """Terms × criteria with an upper limit, which grow with every factor."""
    caps: Floats
    count: Callable[[int], None]
    """Told how many combinations are about to be evaluated."""
    factors: Mapping[str, dict[TermFactor, Floats]]
    """Factors of each variable's chains, as far as they are known."""
    complete: Callable[[Partial], tuple[Ints, Floats]]
    """Of complete rows: those that are allowed, and what they are compared by."""

    def __post_init__(self) -> None:
        self.order = sorted(self.chains, key=lambda v: len(self.chains[v]))
        self.values = {v: self.terms.values(v, v_chains, self.factors[v]) for v, v_chains in self.chains.items()}
        self.least = {v: v_values.min(axis=0, initial=np.inf) for v, v_values in self.values.items()}
        self.numbers = self.terms.factor_numbers()
        self.codes = {v: group_numbers(v_chains.fused_tiles) for v, v_chains in self.chains.items()}

    def run(self) -> Partial:
        """All combinations that nothing dominates."""
        if math.prod(len(v_chains) for v_chains in self.chains.values()) * len(self.numbers) <= _SMALL:
            return self._at_once()
        singles = {v: self._single(v) for v in self.order}
        state: Partial | None = None
        for i, v in enumerate(self.order):
            state = singles[v] if state is None else self._joined(state, singles[v], self.order[: i + 1])
            if not len(state):
                break
        assert state is not None
        return state if len(state.choice) else state.take(np.empty(0, np.int64))

    def _at_once(self) -> Partial:
        """Few combinations: all of them, pruned once."""
        limited = np.ones((1, len(self.limits)), np.int64)
        state = Partial(np.full((1, len(self.terms.variables)), -1), np.ones((1, len(self.numbers))), limited)
        for i, v in enumerate(self.terms.variables):
            state = self._paired(state, self._whole(v), np.arange(len(state)), self.terms.variables[i + 1 :])
        self.count(len(state))
        return self._pruned(state, self.terms.variables)

    def _whole(self, v: str) -> Partial:
        limited = [limit.factors[v] for limit in self.limits]
        count = len(self.chains[v])
        columns = np.column_stack(limited) if limited else np.empty((count, 0), np.int64)
        choice = np.full((count, len(self.terms.variables)), -1)
        choice[:, self.terms.variables.index(v)] = np.arange(count)
        return Partial(choice, self.values[v], columns)

    def _single(self, v: str) -> Partial:
        whole = self._whole(v)
        self.count(len(whole))
        return self._pruned(whole, [v])

    def _joined(self, state: Partial, single: Partial, joined: Sequence[str]) -> Partial:
        self.count(len(state) * len(single))
        remaining = [v for v in self.terms.variables if v not in joined]
        step = max(1, _CHUNK // max(1, len(single) * state.products.shape[1]))
        pruned = []
        for start in range(0, len(state), step):
            rows = np.arange(start, min(start + step, len(state)))
            pruned.append(self._pruned(self._paired(state, single, rows, remaining), joined))
        if len(pruned) == 1:
            return pruned[0]
        whole = Partial(
            np.concatenate([p.choice for p in pruned]),
            np.concatenate([p.products for p in pruned]),
            np.concatenate([p.limited for p in pruned]),
        )
        return self._pruned(whole, joined)

    def _paired(self, state: Partial, single: Partial, rows: Ints, remaining: Sequence[str]) -> Partial:
        """Some rows with every chain of the next variable, as far as the limits allow."""
        i, j = np.repeat(rows, len(single)), np.tile(np.arange(len(single)), len(rows))
        limited = state.limited[i] * single.limited[j]
        fits = self._within(limited, remaining)
        i, j, limited = i[fits], j[fits], limited[fits]
        choice = np.maximum(state.choice[i], single.choice[j])
        return Partial(choice, state.products[i] * single.products[j], limited)

    def _within(self, limited: Ints, remaining: Sequence[str]) -> np.ndarray:
        """Rows whose limits can still be met by some chains of the remaining variables."""
        fits = np.ones(len(limited), np.bool_)
        for column, limit in zip(limited.T, self.limits, strict=True):
            fits &= limit.can_be_met(column, remaining)
        return fits

    def _pruned(self, state: Partial, joined: Sequence[str]) -> Partial:
        check()
        remaining = [v for v in self.terms.variables if v not in joined]
        least = np.ones(len(self.numbers))
        for v in remaining:
            least = least * self.least[v]
        fits = (state.products @ (self.capped * least[:, None]) <= self.caps).all(axis=1)
        state = state.take(np.flatnonzero(fits & self._within(state.limited, remaining)))
        keys = [np.zeros(len(state), np.int64)]
        keys += [self.codes[v][state.choice[:, self.terms.variables.index(v)]] for v in joined]
        if not remaining:
            allowed, features = self.complete(state)
            return state.take(allowed[pareto_rows(group_numbers(np.column_stack(keys)[allowed]), features)])
        keys += [column for column, limit in zip(state.limited.T, self.limits, strict=True) if limit.is_key]
        free = [column for column, limit in zip(state.limited.T, self.limits, strict=True) if not limit.is_key]
        features = np.column_stack([state.products @ self._features(remaining), *free])
        return state.take(pareto_rows(group_numbers(np.column_stack(keys)), features))

    def _features(self, remaining: Sequence[str]) -> Floats:
        """Terms × sums to compare: per criterion, terms with the same factors in the remaining variables. Equal directions once."""
        columns = [self.terms.variables.index(v) for v in remaining]
        classes = group_numbers(self.numbers[:, columns])
        member = classes[:, None] == np.unique(classes)
        weights = (member[:, :, None] * self.compared[:, None, :]).reshape(len(classes), -1)
        scale = np.abs(weights).max(axis=0, initial=0.0)
        weights = weights[:, scale > 0] / scale[scale > 0]
        directions: dict[bytes, int] = {}
        for i, direction in enumerate(np.round(weights.T, 14)):
            directions.setdefault(direction.tobytes(), i)
        return weights[:, list(directions.values())] if directions else np.zeros((len(self.numbers), 1))
