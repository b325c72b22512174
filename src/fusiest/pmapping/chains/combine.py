"""Combination of the tile chains of all variables, one variable at a time, with Pareto pruning after each.

Every criterion is a sum of products of one factor ≥ 0 per variable. Once some variables are combined, terms that have
equal factors in all others can be added up: a row whose sums are all at least as large as another's (in the same group)
stays behind it whatever is chosen for the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fusiest.base.interrupt import check
from fusiest.pmapping.chains.branch.bounds import CostBound
from fusiest.pmapping.chains.singles import Signs, SingleChains
from fusiest.pmapping.chains.terms import TermFactor, Terms
from fusiest.pmapping.chains.tied_variables import Limit
from fusiest.pmapping.pareto import Floats, Ints, nearly_pareto, pareto_rows, similar
from fusiest.pmapping.table import group_numbers

_CHUNK = 1 << 18
"""Pairs that are looked at together."""
_SMALL = 1 << 16
_ROUNDING = 1e-12
_FEW = 1000
_BLOCK = 64
"""Chains that are looked at together."""


class Rest(NamedTuple):
    """Weights times the least factors of the remaining variables."""

    capped: Floats
    """Terms × sizes."""
    bounded: Floats
    """Terms × criteria."""


@dataclass
class Partial:
    """Combinations of some variables' chains."""

    choice: Ints
    """Rows × variables: number of the chosen chain, or -1 where none is chosen yet."""
    products: Floats
    """Rows × terms."""
    limited: Ints
    """Rows × limits."""

    def __len__(self) -> int:
        return len(self.choice)

    def take(self, which: Ints) -> Partial:
        return Partial(self.choice[which], self.products[which], self.limited[which])

    @staticmethod
    def whole(parts: Sequence[Partial]) -> Partial:
        """Concatenate these rows."""
        return Partial(
            np.concatenate([p.choice for p in parts]),
            np.concatenate([p.products for p in parts]),
            np.concatenate([p.limited for p in parts]),
        )

    def times(self, single: Partial, rows: Ints, chains: Ints) -> Partial:
        """Extend some rows, each by a chain of one more variable."""
        return Partial(
            np.maximum(self.choice[rows], single.choice[chains]),
            self.products[rows] * single.products[chains],
            self.limited[rows] * single.limited[chains],
        )


class Pieces:
    """Rows in pieces of similar ones, each with the least factors of its rows."""

    def __init__(self, state: Partial, pieces: list[Ints], bound: CostBound | None) -> None:
        self.state, self.pieces = state, pieces
        least = [bound.least(state.products[p]) if bound is not None else state.products[p].min(axis=0) for p in pieces]
        self.least = np.array(least).reshape(len(pieces), state.products.shape[1])
        self.limited = np.array([state.limited[p].min(axis=0) for p in pieces], np.int64).reshape(len(pieces), -1)

    def rows(self, which: Ints) -> Ints:
        """All rows of some pieces."""
        return np.concatenate([np.empty(0, np.int64), *(self.pieces[i] for i in which)])


@dataclass
class Combiner:
    """The combination of the chains of all variables of a nest."""

    terms: Terms
    singles: Mapping[str, SingleChains]
    limits: Sequence[Limit]
    compared: Floats
    """Terms × criteria to be minimized: weights."""
    capped: Floats
    """Terms × sizes with an upper limit, which grow with every factor: weights."""
    caps: Floats
    count: Callable[[int], None]
    """Called with the number of combinations that are about to be evaluated."""
    complete: Callable[[Partial], tuple[Ints, Floats]]
    """Finds which complete rows are allowed, and the criteria to compare them by, energy and latency first."""
    bound: CostBound | None
    """Bound on costs, if only energy and latency count or a pmapping is known. None: nothing to beat."""

    def __post_init__(self) -> None:
        self.numbers = self.terms.factor_numbers()
        self.order = list(self.terms.variables)
        self.chosen: dict[str, Ints] = {}
        """Chains that matter."""
        self.values: dict[str, Floats] = {}
        """Chains that matter × terms."""
        self.least: dict[str, Floats] = {}
        self.greatest: dict[str, Floats] = {}
        self.codes = {v: group_numbers(single.chains.fused_tiles) for v, single in self.singles.items()}
        self.scales: dict[tuple[str, ...], Rest] = {}
        self.ended = True
        """Whether all combinations were looked at."""

    def _choose(self, v: str, chosen: Ints) -> bool:
        """Keep some chains of a variable; returns whether there are any."""
        self.chosen[v] = chosen
        factors, which = self._factors(v)
        values = np.column_stack([self.singles[v].values(factor)[chosen] for factor in factors])
        self.values[v] = np.ascontiguousarray(values[:, which])
        self.least[v] = self.values[v].min(axis=0, initial=np.inf)
        self.greatest[v] = self.values[v].max(axis=0, initial=0.0)
        self.scales.clear()
        return len(chosen) > 0

    def _factors(self, v: str) -> tuple[list[TermFactor], Ints]:
        """The distinct factors of a variable, and the number of each term's factor."""
        i = self.terms.variables.index(v)
        factors: dict[int, TermFactor] = {}
        for key, number in zip(self.terms.weights, self.numbers[:, i].tolist(), strict=True):
            factors.setdefault(number, key[i])
        return [factors[number] for number in range(len(factors))], self.numbers[:, i]

    def _signs(self, v: str) -> Signs:
        """The signs with which each of a variable's factors counts."""
        i = self.terms.variables.index(v)
        weights = np.concatenate([self.compared, self.capped], axis=1)
        signed = ((False, (weights > 0).any(axis=1)), (True, (weights < 0).any(axis=1)))
        keys = list(self.terms.weights)
        signs = {(keys[t][i], minus) for minus, has in signed for t in np.flatnonzero(has)}
        return tuple(sorted(signs, key=repr))

    def _undominated(self, v: str) -> Ints:
        """Chains of a variable that matter, whatever the others are."""
        return self._limited(v, self.singles[v].undominated(self._signs(v), self.limits))

    def _limited(self, v: str, chains: Ints) -> Ints:
        """Keep the chains whose limits other variables can meet."""
        others = self._remaining([v])
        limited = (limit.can_be_met(limit.factors[v][chains], others) for limit in self.limits)
        return chains[np.logical_and.reduce([np.ones(len(chains), np.bool_), *limited])]

    def run(self) -> Partial:
        """Find all combinations that no other dominates."""
        if not all(self._choose(v, self._undominated(v)) for v in self.terms.variables):
            return self._start().take(np.empty(0, np.int64))
        few = math.prod(len(chosen) for chosen in self.chosen.values()) * len(self.numbers) <= _SMALL
        if few or not self._hopeful():
            return self._at_once() if few else self._start().take(np.empty(0, np.int64))
        singles = {v: self._single(v) for v in self.terms.variables}
        self.order = sorted(singles, key=lambda v: len(singles[v]))
        state: Partial | None = None
        for i, v in enumerate(self.order):
            state = singles[v] if state is None else self._joined(state, singles[v], self.order[: i + 1])
            if not len(state):
                break
        assert state is not None
        return state if len(state.choice) else state.take(np.empty(0, np.int64))

    def _hopeful(self) -> bool:
        """Whether any combination can beat the cutoff."""
        if self.bound is None:
            return True
        return len(self.bound.keeps(np.ones((1, len(self.numbers))), self._rest(self.terms.variables).bounded)) > 0

    def _start(self) -> Partial:
        limited = np.ones((1, len(self.limits)), np.int64)
        return Partial(np.full((1, len(self.terms.variables)), -1), np.ones((1, len(self.numbers))), limited)

    def _at_once(self) -> Partial:
        """Combine all variables at once and prune: for few combinations."""
        state = self._start()
        for i, v in enumerate(self.terms.variables):
            whole = self._whole(v)
            rows, chains = np.divmod(np.arange(len(state) * len(whole)), max(1, len(whole)))
            within = self._within(state.limited[rows] * whole.limited[chains], self.terms.variables[i + 1 :])
            state = state.times(whole, rows[within], chains[within])
        self.count(len(state))
        return self._pruned(state, self.terms.variables)

    def _whole(self, v: str) -> Partial:
        chosen = self.chosen[v]
        limited = [limit.factors[v][chosen] for limit in self.limits]
        columns = np.column_stack(limited) if limited else np.empty((len(chosen), 0), np.int64)
        choice = np.full((len(chosen), len(self.terms.variables)), -1)
        choice[:, self.terms.variables.index(v)] = chosen
        return Partial(choice, self.values[v], columns)

    def _single(self, v: str) -> Partial:
        self.count(len(self.singles[v].chains))
        return self._pruned(self._whole(v), [v])

    def _joined(self, state: Partial, single: Partial, joined: Sequence[str]) -> Partial:
        """Combine all rows with every chain of one more variable, the last in `joined`: similar ones together."""
        self.count(len(state) * len(single))
        pruned = [state.take(np.empty(0, np.int64))]
        before = self._rest(self._remaining(joined[:-1]))
        pieces = Pieces(state, self._pieces(state, before), self.bound)
        others = self._rest(self._remaining(joined[-1:]))
        for block in self._promising(self._pieces(single, others), single, others):
            for i, j in self._pairs(pieces, single, block, self._remaining(joined)):
                pruned.append(self._pruned(state.times(single, i, j), joined))
        if len(pruned) <= 2:
            return pruned[-1]
        return self._best(Partial.whole(pruned), joined)

    def _pieces(self, state: Partial, rest: Rest) -> list[Ints]:
        """Cut rows into pieces of similar ones that use dimensions alike."""
        features = np.column_stack([state.products @ rest.capped, state.products @ rest.bounded])
        logs = np.log(np.maximum(features, 1e-300))
        return [piece for rows in self._alike(state.limited) for piece in similar(logs, rows, _BLOCK)]

    def _alike(self, limited: Ints) -> list[Ints]:
        """Group rows that use dimensions alike, where that counts."""
        alike = group_numbers(np.column_stack([np.zeros(len(limited), np.int64), *self._keys(limited)]))
        order = np.argsort(alike, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(alike[order])) + 1) if len(order) else []

    def _promising(self, blocks: list[Ints], single: Partial, others: Rest) -> list[Ints]:
        """Sort blocks of chains, the most promising first, if there is a cutoff."""
        if self.bound is None or len(blocks) < 2:
            return blocks
        energy, latency = self.bound.costs(Pieces(single, blocks, self.bound).least, others.bounded)
        return [blocks[i] for i in np.argsort(self.bound.goal.score(energy, latency), kind="stable")]

    def _keys(self, limited: Ints) -> list[Ints]:
        return [column for column, limit in zip(limited.T, self.limits, strict=True) if limit.is_key]

    def _pairs(
        self, pieces: Pieces, single: Partial, block: Ints, remaining: Sequence[str]
    ) -> Iterator[tuple[Ints, Ints]]:
        """Pairs of a row and a chain of a block that fit and may matter.

        Pieces and then rows that fail with the least of the block are dropped first.
        """
        state, products = pieces.state, single.products[block]
        rest, caps = self._rest(remaining), self.caps * (1 + _ROUNDING)
        least = products.min(axis=0)
        block_rest = Rest(
            rest.capped * least[:, None],
            self.bound.again(rest.bounded, least, products.max(axis=0)) if self.bound is not None else rest.bounded,
        )
        limited = single.limited[block].min(axis=0)
        rows = pieces.rows(self._possible(pieces.least, pieces.limited * limited, block_rest, remaining))
        rows = rows[self._possible(state.products[rows], state.limited[rows] * limited, block_rest, remaining)]
        step = max(1, _CHUNK // len(block))
        for start in range(0, len(rows), step):
            chunk = rows[start : start + step]
            fits = np.ones((len(chunk), len(block)), np.bool_)
            if self.bound is not None:
                fits = self.bound.pairs(state.products[chunk], products, rest.bounded)
            for weights, cap in zip(rest.capped.T, caps.tolist(), strict=True):
                fits &= (state.products[chunk] * weights) @ products.T <= cap
            i, j = np.nonzero(fits)
            within = self._within(state.limited[chunk[i]] * single.limited[block[j]], remaining)
            yield chunk[i[within]], block[j[within]]

    def _possible(self, products: Floats, limited: Ints, rest: Rest, remaining: Sequence[str]) -> Ints:
        """Rows that can fit and matter."""
        slack = 1 + _ROUNDING if remaining else 1
        fits = (products @ rest.capped <= self.caps * slack).all(axis=1)
        rows = np.flatnonzero(fits & self._within(limited, remaining))
        return rows[self.bound.keeps(products[rows], rest.bounded)] if self.bound is not None else rows

    def _within(self, limited: Ints, remaining: Sequence[str]) -> np.ndarray:
        """Rows whose limits can still be met by some chains of the remaining variables."""
        fits = np.ones(len(limited), np.bool_)
        for column, limit in zip(limited.T, self.limits, strict=True):
            fits &= limit.can_be_met(column, remaining)
        return fits

    def _remaining(self, joined: Sequence[str]) -> tuple[str, ...]:
        return tuple(v for v in self.terms.variables if v not in joined)

    def _rest(self, remaining: Sequence[str]) -> Rest:
        """Weights times the least factors of the remaining variables."""
        key = tuple(v for v in self.terms.variables if v in remaining)
        if key not in self.scales:
            least, greatest = np.ones(len(self.numbers)), np.ones(len(self.numbers))
            for v in key:
                least, greatest = least * self.least[v], greatest * self.greatest[v]
            bounded = self.bound.rest(least, greatest) if self.bound is not None else least[:, None]
            self.scales[key] = Rest(self.capped * least[:, None], bounded)
        return self.scales[key]

    def _pruned(self, state: Partial, joined: Sequence[str]) -> Partial:
        check()
        remaining = self._remaining(joined)
        return self._best(
            state.take(self._possible(state.products, state.limited, self._rest(remaining), remaining)), joined
        )

    def _best(self, state: Partial, joined: Sequence[str]) -> Partial:
        """Rows that no other dominates."""
        remaining = self._remaining(joined)
        keys = [np.zeros(len(state), np.int64)]
        keys += [self.codes[v][state.choice[:, self.terms.variables.index(v)]] for v in joined]
        if not remaining:
            allowed, features = self.complete(state)
            best = pareto_rows(group_numbers(np.column_stack(keys)[allowed]), features)
            if self.bound is not None:
                self.bound.goal.learn(features[best, 0], features[best, 1])
            return state.take(allowed[best])
        if self.bound is not None and len(remaining) == 1 and len(state) > _FEW:
            return state  # to combine them with the last variable takes less time than to compare them
        keys += self._keys(state.limited)
        free = [column for column, limit in zip(state.limited.T, self.limits, strict=True) if not limit.is_key]
        features = np.column_stack([state.products @ self._features(remaining), *free])
        return state.take(nearly_pareto(group_numbers(np.column_stack(keys)), features))

    def _features(self, remaining: Sequence[str]) -> Floats:
        """Terms × sums to compare: per criterion, terms with the same factors in the remaining variables.

        Equal directions once.
        """
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
