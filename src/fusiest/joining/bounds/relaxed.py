"""Lower bounds for what is still to come.

All users of a tensor must agree on its relaxed compatibility (its backing memory, and what is stepped above it), so the
least cost of the remaining Einsums, given that of the live tensors, bounds every completion from below. It is found by
eliminating the remaining Einsums one by one in listed order; capacity and tile shapes are relaxed. Where many tensors
are live at once, what some of them need to agree on is relaxed, too.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fusiest.base import interrupt
from fusiest.base.frozen import FrozenDict
from fusiest.base.objective import IMPOSSIBLE, NOTHING, Least
from fusiest.joining.meeting.compatibility import Relaxed, TensorCompatibility, only
from fusiest.pmapping import Floats, Ints

RelaxedLeast = Mapping[Relaxed, Least]
"""The least cost by the relaxed compatibility of the tensors that matter."""

NOTHING_AFTER: RelaxedLeast = FrozenDict([((), NOTHING)])
"""At the end of a workload no tensor is live, and nothing is needed any more."""
_MOST_ALTERNATIVES = 300_000
"""Of an Einsum's options and what is to come: with more of them, a tensor of what is to come is forgotten."""


@dataclass(frozen=True)
class LowerBounds:
    """Bounds on completions, per set of remaining Einsums and relaxed compatibility of live tensors."""

    options: Mapping[str, RelaxedLeast]
    """Of each Einsum that is still to come, by its shared tensors."""
    users: Mapping[str, Sequence[str]]
    order: Sequence[str]
    end: RelaxedLeast = NOTHING_AFTER
    """What comes after the last Einsum of `order`, by the tensors that are live then."""
    _tables: dict[frozenset[str], RelaxedLeast] = field(default_factory=dict, repr=False)
    """What has been worked out so far."""
    _forgotten: dict[frozenset[str], frozenset[str]] = field(default_factory=dict, repr=False)
    """Live tensors of which tables say nothing: whatever they are like, the others need so much at least."""

    def seam(self, finished: frozenset[str]) -> None:
        """Nowhere does it know more than this."""

    def least(self, finished: frozenset[str], live: Relaxed) -> Least:
        """What the other Einsums need at least."""
        table, forgotten = self.table(finished), self._forgotten.get(finished)
        return table.get(_without(live, forgotten) if forgotten else live, IMPOSSIBLE)

    def least_of_all(self, finished: frozenset[str]) -> Least:
        """The same, whatever the live tensors' compatibility."""
        return functools.reduce(operator.or_, self.table(finished).values(), IMPOSSIBLE)

    def table(self, finished: frozenset[str]) -> RelaxedLeast:
        """The same, by the live tensors' compatibility."""
        if finished in self._tables:
            return self._tables[finished]
        remaining = [e for e in self.order if e not in finished]
        steps = []
        while finished not in self._tables and remaining:
            steps.append((finished, remaining[0]))
            finished = finished | {remaining.pop(0)}
        table = self._tables.setdefault(finished, self.end)
        for before, einsum in reversed(steps):
            interrupt.check()
            table = self._tables[before] = self._eliminate(before, einsum, table)
        return table

    def least_of_others(self, begin: frozenset[str]) -> Iterator[tuple[str, RelaxedLeast]]:
        """For each Einsum that comes after `begin`, by its own compatibility: what all others that do so need at least.

        The same elimination, forwards: what comes before an Einsum and what comes after it meet at the tensors that pass by.
        """
        finished, unknown = begin, self._forgotten.get(begin, frozenset())
        ahead: RelaxedLeast = dict.fromkeys(self.table(begin), NOTHING)
        for einsum in (e for e in self.order if e not in begin):
            after, before, later = self._around(finished, einsum)
            following_table, forgotten = self.table(after), self._forgotten.get(after, frozenset())
            unknown |= forgotten - later
            met = _meet(self.options[einsum], _forget(ahead, unknown), _Sides(before, later), unknown)
            behind, unknown = met.others, met.forgotten
            following = _by_shared(_forget(following_table, unknown - later), later - forgotten)
            leasts: dict[Relaxed, Least] = {}
            coming = {
                shared: _spread(costs, following.numbers, behind.numbers) for shared, costs in following.costs.items()
            }
            for relaxed in self.options[einsum]:
                lasting, passing = only(relaxed, later - forgotten), behind.costs.get(only(relaxed, before - unknown))
                leasts[relaxed] = IMPOSSIBLE
                if passing is not None and lasting in coming:
                    leasts[relaxed] = Least(*(passing.costs + coming[lasting][passing.numbers]).min(axis=0).tolist())
            yield einsum, leasts
            finished, ahead, unknown = after, _least(met.alternatives, behind.numbers), unknown - later

    def _around(self, finished: frozenset[str], einsum: str) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        """What is finished with the Einsum, and which of its tensors were used before and will be used after it."""
        after = finished | {einsum}
        tensors = {t for relaxed in self.options[einsum] for t, _ in relaxed}
        before = frozenset(t for t in tensors if any(u in finished for u in self.users.get(t, ())))
        return after, before, frozenset(t for t in tensors if any(u not in after for u in self.users.get(t, ())))

    def _eliminate(self, finished: frozenset[str], einsum: str, following: RelaxedLeast) -> dict[Relaxed, Least]:
        """Join the first remaining Einsum's options to the table of the rest."""
        after, before, later = self._around(finished, einsum)
        met = _meet(self.options[einsum], following, _Sides(later, before), self._forgotten.get(after, frozenset()))
        self._forgotten[finished] = met.forgotten - before
        return _least(met.alternatives, met.others.numbers)


class _Sides(NamedTuple):
    """An Einsum's tensors on which it has to agree with a table, and those that are still to be seen by others."""

    shared: frozenset[str]
    visible: frozenset[str]


class _Met(NamedTuple):
    """An Einsum's options and a table, put together, and tensors of which the table says nothing."""

    alternatives: list[_Alternatives]
    others: _ByShared
    forgotten: frozenset[str]


def _meet(options: RelaxedLeast, table: RelaxedLeast, sides: _Sides, forgotten: frozenset[str]) -> _Met:
    """Put options together with a table, of which so much is forgotten that there are not too many ways."""
    while True:
        known = sides.shared - forgotten
        others = _by_shared(table, known)
        partners = ((relaxed, cost, others.costs.get(only(relaxed, known))) for relaxed, cost in options.items())
        alternatives = [
            _Alternatives(only(relaxed, sides.visible), cost, matching)
            for relaxed, cost, matching in partners
            if matching is not None
        ]
        is_too_many = sum(len(option.partners.numbers) for option in alternatives) > _MOST_ALTERNATIVES
        tensor = _most_varied(table, known) if is_too_many else None
        if tensor is None:
            return _Met(alternatives, others, forgotten)
        table, forgotten = _forget(table, {tensor}), forgotten | {tensor}


def _most_varied(table: RelaxedLeast, used: Container[str]) -> str | None:
    """Of tensors of which the table says most, one that the next Einsum does not use, if there is one."""
    kinds: dict[str, set[TensorCompatibility]] = {}
    for relaxed in table:
        for tensor, how in relaxed:
            kinds.setdefault(tensor, set()).add(how)
    return max(kinds, key=lambda tensor: (tensor not in used, len(kinds[tensor]), tensor), default=None)


def _forget(table: RelaxedLeast, tensors: Collection[str]) -> RelaxedLeast:
    """The least, whatever is said of some tensors."""
    if not any(tensor in tensors for tensor, _ in next(iter(table), ())):
        return table
    leasts: dict[Relaxed, Least] = {}
    for relaxed, least in table.items():
        key = _without(relaxed, tensors)
        leasts[key] = leasts[key] | least if key in leasts else least
    return leasts


def _without(relaxed: Relaxed, tensors: Container[str]) -> Relaxed:
    """What it says of all others."""
    return tuple(item for item in relaxed if item[0] not in tensors)


class _OtherCosts(NamedTuple):
    """What others cost, by the number of what they say of tensors of their own."""

    numbers: Ints
    costs: Floats


class _ByShared(NamedTuple):
    """A table by what it says of some tensors, then by what it says of others."""

    costs: Mapping[Relaxed, _OtherCosts]
    numbers: Mapping[Relaxed, int]
    """Of what it says of the others."""


def _by_shared(table: RelaxedLeast, tensors: Container[str]) -> _ByShared:
    lists: dict[Relaxed, tuple[list[int], list[Least]]] = {}
    numbers: dict[Relaxed, int] = {}
    for relaxed, least in table.items():
        hidden = _without(relaxed, tensors)
        listed, costs = lists.setdefault(only(relaxed, tensors), ([], []))
        listed.append(numbers.setdefault(hidden, len(numbers)))
        costs.append(least)
    by_shared = {shared: _OtherCosts(np.array(listed), np.array(costs)) for shared, (listed, costs) in lists.items()}
    return _ByShared(by_shared, numbers)


def _spread(costs: _OtherCosts, old: Mapping[Relaxed, int], new: Mapping[Relaxed, int]) -> Floats:
    """The costs in the order of other numbers; infinite where there are none."""
    place = np.array([new.get(hidden, len(new)) for hidden in old])
    spread = np.full((len(new) + 1, 3), np.inf)
    spread[place[costs.numbers]] = costs.costs
    return spread[:-1]


class _Alternatives(NamedTuple):
    """An option of an Einsum, with what it says of tensors that are still to be seen, and what it can be put together with."""

    visible: Relaxed
    cost: Least
    partners: _OtherCosts


def _least(alternatives: Sequence[_Alternatives], hidden: Mapping[Relaxed, int]) -> dict[Relaxed, Least]:
    """The least of all alternatives, by what both sides say: never of the same tensor."""
    if not alternatives:
        return {}
    visible: dict[Relaxed, int] = {}
    heads = [visible.setdefault(option.visible, len(visible)) for option in alternatives]
    counts = [len(option.partners.numbers) for option in alternatives]
    keys = np.repeat(heads, counts) * len(hidden) + np.concatenate([option.partners.numbers for option in alternatives])
    costs = np.repeat([option.cost for option in alternatives], counts, axis=0)
    costs += np.concatenate([option.partners.costs for option in alternatives])
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    least = np.minimum.reduceat(costs[order], starts)
    visible_keys, hidden_keys = list(visible), list(hidden)
    return {
        tuple(
            sorted(
                (*visible_keys[key // len(hidden_keys)], *hidden_keys[key % len(hidden_keys)]),
                key=operator.itemgetter(0),
            )
        ): Least(*cost)
        for key, cost in zip(keys[order][starts].tolist(), least.tolist(), strict=True)
    }
