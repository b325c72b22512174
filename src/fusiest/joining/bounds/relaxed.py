"""Lower bounds on the cost of the remaining Einsums (proof 9).

All users of a tensor must agree on its relaxed compatibility: its backing memory, and the ranks stepped above it. So
the least cost of the remaining Einsums, given the relaxed compatibility of live tensors, bounds every completion from
below. It is found by eliminating the remaining Einsums one by one in listed order; capacity and tile shapes are
relaxed. Where many tensors are live at once, some of them need not agree.
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
"""The end of a workload: no tensor is live, and no cost remains."""
_MOST_ALTERNATIVES = 300_000
"""Most pairs of an Einsum's options and entries of the table of the rest. With more, the table forgets a tensor."""


@dataclass(frozen=True)
class LowerBounds:
    """Bounds on completions, per set of remaining Einsums and relaxed compatibility of live tensors."""

    options: Mapping[str, RelaxedLeast]
    """Least cost of each Einsum, by the relaxed compatibility of its shared tensors."""
    users: Mapping[str, Sequence[str]]
    """Einsums that use each tensor."""
    order: Sequence[str]
    """The bounded Einsums, in listed order."""
    end: RelaxedLeast = NOTHING_AFTER
    """Least cost after the last Einsum of `order`, by the tensors that are live then."""
    _tables: dict[frozenset[str], RelaxedLeast] = field(default_factory=dict, repr=False)
    """Tables by finished Einsums, made so far."""
    _forgotten: dict[frozenset[str], frozenset[str]] = field(default_factory=dict, repr=False)
    """Live tensors that the tables do not mention: their bound holds for every compatibility of these tensors."""

    def seam(self, finished: frozenset[str]) -> None:
        """No cut: these bounds are the same everywhere."""

    def least(self, finished: frozenset[str], live: Relaxed) -> Least:
        """The least cost of the remaining Einsums."""
        table, forgotten = self.table(finished), self._forgotten.get(finished)
        return table.get(_without(live, forgotten) if forgotten else live, IMPOSSIBLE)

    def least_of_all(self, finished: frozenset[str]) -> Least:
        """The least cost of the remaining Einsums, for any compatibility of live tensors."""
        return functools.reduce(operator.or_, self.table(finished).values(), IMPOSSIBLE)

    def table(self, finished: frozenset[str]) -> RelaxedLeast:
        """The least cost of the remaining Einsums, by the relaxed compatibility of live tensors."""
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
        """For each Einsum after `begin`, the least cost of all other Einsums after `begin`, by its own compatibility.

        The elimination also runs forwards: costs before and after an Einsum are combined at the tensors that pass by.
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
        """The set finished after an Einsum, and which tensors of the Einsum are used before it and after it."""
        after = finished | {einsum}
        tensors = {t for relaxed in self.options[einsum] for t, _ in relaxed}
        before = frozenset(t for t in tensors if any(u in finished for u in self.users.get(t, ())))
        return after, before, frozenset(t for t in tensors if any(u not in after for u in self.users.get(t, ())))

    def _eliminate(self, finished: frozenset[str], einsum: str, following: RelaxedLeast) -> dict[Relaxed, Least]:
        """Combine the options of the first remaining Einsum with the table of the rest."""
        after, before, later = self._around(finished, einsum)
        met = _meet(self.options[einsum], following, _Sides(later, before), self._forgotten.get(after, frozenset()))
        self._forgotten[finished] = met.forgotten - before
        return _least(met.alternatives, met.others.numbers)


class _Sides(NamedTuple):
    """Tensors of an Einsum, as one step of elimination sees them."""

    shared: frozenset[str]
    """Tensors on which the Einsum and the table must agree."""
    visible: frozenset[str]
    """Tensors that other Einsums still see."""


class _Met(NamedTuple):
    """An Einsum's options, combined with a table."""

    alternatives: list[_Alternatives]
    others: _ByShared
    forgotten: frozenset[str]
    """Tensors that the table no longer mentions."""


def _meet(options: RelaxedLeast, table: RelaxedLeast, sides: _Sides, forgotten: frozenset[str]) -> _Met:
    """Combine options with a table. While there are too many pairs, the table forgets one more tensor."""
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
    """The tensor with the most alternatives in a table, preferably one that the next Einsum does not use."""
    kinds: dict[str, set[TensorCompatibility]] = {}
    for relaxed in table:
        for tensor, how in relaxed:
            kinds.setdefault(tensor, set()).add(how)
    return max(kinds, key=lambda tensor: (tensor not in used, len(kinds[tensor]), tensor), default=None)


def _forget(table: RelaxedLeast, tensors: Collection[str]) -> RelaxedLeast:
    """The least cost over all that a table says about these tensors."""
    if not any(tensor in tensors for tensor, _ in next(iter(table), ())):
        return table
    leasts: dict[Relaxed, Least] = {}
    for relaxed, least in table.items():
        key = _without(relaxed, tensors)
        leasts[key] = leasts[key] | least if key in leasts else least
    return leasts


def _without(relaxed: Relaxed, tensors: Container[str]) -> Relaxed:
    """The relaxed compatibility without these tensors."""
    return tuple(item for item in relaxed if item[0] not in tensors)


class _OtherCosts(NamedTuple):
    """Costs of the other side, by the number of its own relaxed compatibility."""

    numbers: Ints
    costs: Floats


class _ByShared(NamedTuple):
    """A table, split into the tensors of both sides and those of one side alone."""

    costs: Mapping[Relaxed, _OtherCosts]
    """Costs by the relaxed compatibility of the tensors of both sides."""
    numbers: Mapping[Relaxed, int]
    """Numbers of the relaxed compatibilities of all other tensors."""


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
    """An option of an Einsum, and the entries of a table that it can be combined with."""

    visible: Relaxed
    """The relaxed compatibility of its tensors that other Einsums still see."""
    cost: Least
    partners: _OtherCosts


def _least(alternatives: Sequence[_Alternatives], hidden: Mapping[Relaxed, int]) -> dict[Relaxed, Least]:
    """The least cost over all alternatives, by the relaxed compatibility of both sides, which share no tensor."""
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
