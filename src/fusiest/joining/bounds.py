"""Lower bounds for what is still to come.

All users of a tensor must agree on its relaxed compatibility (its backing memory, and what is stepped above it), so the
least cost of the remaining Einsums, given that of the live tensors, bounds every completion from below. It is found by
eliminating the remaining Einsums one by one in listed order; capacity and tile shapes are relaxed.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fusiest import interrupt
from fusiest.joining.compatibility import Relaxed, TensorCompatibility, only
from fusiest.objective import IMPOSSIBLE, NOTHING, Least
from fusiest.pmapping import Floats, Ints

RelaxedLeast = Mapping[Relaxed, Least]
"""The least cost by the relaxed compatibility of the tensors that matter."""


@dataclass(frozen=True)
class LowerBounds:
    """Bounds on completions, per set of remaining Einsums and relaxed compatibility of live tensors."""

    options: Mapping[str, RelaxedLeast]
    """Of each Einsum that is still to come, by its shared tensors."""
    users: Mapping[str, Sequence[str]]
    order: Sequence[str]
    end: RelaxedLeast = field(default_factory=lambda: {(): NOTHING})
    """What comes after the last Einsum of `order`, by the tensors that are live then."""
    _tables: dict[frozenset[str], RelaxedLeast] = field(default_factory=dict, repr=False)
    """What has been worked out so far."""

    def seam(self, finished: frozenset[str]) -> None:
        """Nowhere does it know more than this."""

    def least(self, finished: frozenset[str], live: Relaxed) -> Least:
        """What the other Einsums need at least."""
        return self.table(finished).get(live, IMPOSSIBLE)

    def least_of_all(self, finished: frozenset[str]) -> Least:
        """The same, whatever the live tensors' compatibility."""
        lowest = IMPOSSIBLE
        for least in self.table(finished).values():
            lowest |= least
        return lowest

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

    def least_of_others(self, begin: frozenset[str] = frozenset()) -> Iterator[tuple[str, RelaxedLeast]]:
        """For each Einsum that comes after `begin`, by its own compatibility: what all others that do so need at least.

        The same elimination, forwards: what comes before an Einsum and what comes after it meet at the tensors that pass by.
        """
        finished = begin
        ahead: RelaxedLeast = dict.fromkeys(self.table(begin), NOTHING)
        for einsum in (e for e in self.order if e not in begin):
            after, before, later = self._around(finished, einsum)
            behind, following = _by_shared(ahead, before), _by_shared(self.table(after), later)
            leasts: dict[Relaxed, Least] = {}
            further: list[_Alternatives] = []
            coming = {
                shared: _spread(costs, following.numbers, behind.numbers) for shared, costs in following.costs.items()
            }
            for relaxed, cost in self.options[einsum].items():
                lasting, passing = only(relaxed, later), behind.costs.get(only(relaxed, before))
                leasts[relaxed] = IMPOSSIBLE
                if passing is not None:
                    further.append(_Alternatives(lasting, cost, passing))
                    if lasting in coming:
                        leasts[relaxed] = Least(
                            *(passing.costs + coming[lasting][passing.numbers]).min(axis=0).tolist()
                        )
            yield einsum, leasts
            finished, ahead = after, _least(further, behind.numbers)

    def _around(self, finished: frozenset[str], einsum: str) -> tuple[frozenset[str], set[str], set[str]]:
        """What is finished with the Einsum, and which of its tensors were used before and will be used after it."""
        after = finished | {einsum}
        tensors = {t for relaxed in self.options[einsum] for t, _ in relaxed}
        before = {t for t in tensors if any(u in finished for u in self.users.get(t, ()))}
        return after, before, {t for t in tensors if any(u not in after for u in self.users.get(t, ()))}

    def _eliminate(self, finished: frozenset[str], einsum: str, rest: RelaxedLeast) -> dict[Relaxed, Least]:
        """Join the first remaining Einsum's options to the table of the rest."""
        _, before, later = self._around(finished, einsum)
        by_shared = _by_shared(rest, later)
        options = (
            (only(relaxed, before), cost, only(relaxed, later)) for relaxed, cost in self.options[einsum].items()
        )
        alternatives = [
            _Alternatives(visible, cost, by_shared.costs[lasting])
            for visible, cost, lasting in options
            if lasting in by_shared.costs
        ]
        return _least(alternatives, by_shared.numbers)


class _Costs(NamedTuple):
    """What others cost, by the number of what they say of tensors of their own."""

    numbers: Ints
    costs: Floats


class _ByShared(NamedTuple):
    """A table by what it says of some tensors, then by what it says of others."""

    costs: Mapping[Relaxed, _Costs]
    numbers: Mapping[Relaxed, int]
    """Of what it says of the others."""


def _by_shared(table: RelaxedLeast, tensors: Container[str]) -> _ByShared:
    lists: dict[Relaxed, tuple[list[int], list[Least]]] = {}
    numbers: dict[Relaxed, int] = {}
    for relaxed, least in table.items():
        hidden = tuple(item for item in relaxed if item[0] not in tensors)
        listed, costs = lists.setdefault(only(relaxed, tensors), ([], []))
        listed.append(numbers.setdefault(hidden, len(numbers)))
        costs.append(least)
    by_shared = {shared: _Costs(np.array(listed), np.array(costs)) for shared, (listed, costs) in lists.items()}
    return _ByShared(by_shared, numbers)


def _spread(costs: _Costs, old: Mapping[Relaxed, int], new: Mapping[Relaxed, int]) -> Floats:
    """The costs in the order of other numbers; infinite where there are none."""
    place = np.array([new.get(hidden, len(new)) for hidden in old])
    spread = np.full((len(new) + 1, 3), np.inf)
    spread[place[costs.numbers]] = costs.costs
    return spread[:-1]


class _Alternatives(NamedTuple):
    """An option of an Einsum, with what it says of tensors that are still to be seen, and what it can be put together with."""

    visible: Relaxed
    cost: Least
    partners: _Costs


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
            sorted((*visible_keys[key // len(hidden_keys)], *hidden_keys[key % len(hidden_keys)]), key=_tensor)
        ): Least(*cost)
        for key, cost in zip(keys[order][starts].tolist(), least.tolist(), strict=True)
    }


def _tensor(item: tuple[str, TensorCompatibility]) -> str:
    return item[0]
