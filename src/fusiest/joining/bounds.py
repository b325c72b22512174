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
        found = IMPOSSIBLE
        for least in self.table(finished).values():
            found |= least
        return found

    def table(self, finished: frozenset[str]) -> RelaxedLeast:
        """The same, by the live tensors' compatibility."""
        if finished in self._tables:
            return self._tables[finished]
        remaining = [e for e in self.order if e not in finished]
        steps = []
        while finished not in self._tables and remaining:
            steps.append((finished, remaining[0]))
            finished = finished | {remaining.pop(0)}
        found = self._tables.setdefault(finished, self.end)
        for before, einsum in reversed(steps):
            found = self._tables[before] = self._eliminate(before, einsum, found)
        return found

    def others(self, begin: frozenset[str] = frozenset()) -> Iterator[tuple[str, RelaxedLeast]]:
        """For each Einsum that comes after `begin`, by its own compatibility: what all others that do so need at least.

        The same elimination, forwards: what comes before an Einsum and what comes after it meet at the tensors that pass by.
        """
        finished = begin
        ahead: RelaxedLeast = dict.fromkeys(self.table(begin), NOTHING)
        for einsum in (e for e in self.order if e not in begin):
            after, before, kept = self._around(finished, einsum)
            behind, rest = _by_shared(ahead, before), _by_shared(self.table(after), kept)
            found: dict[Relaxed, Least] = {}
            further: list[_Alternatives] = []
            coming = {shared: _spread(costs, rest.others, behind.others) for shared, costs in rest.parts.items()}
            for relaxed, cost in self.options[einsum].items():
                lasting, passing = only(relaxed, kept), behind.parts.get(only(relaxed, before))
                found[relaxed] = IMPOSSIBLE
                if passing is not None:
                    further.append(_Alternatives(lasting, cost, passing))
                    if lasting in coming:
                        found[relaxed] = Least(*(passing.costs + coming[lasting][passing.which]).min(axis=0).tolist())
            yield einsum, found
            finished, ahead = after, _least(further, behind.others)

    def _around(self, finished: frozenset[str], einsum: str) -> tuple[frozenset[str], set[str], set[str]]:
        """What is finished with the Einsum, and which of its tensors were used before and will be used after it."""
        after = finished | {einsum}
        mine = {t for relaxed in self.options[einsum] for t, _ in relaxed}
        before = {t for t in mine if any(u in finished for u in self.users.get(t, ()))}
        return after, before, {t for t in mine if any(u not in after for u in self.users.get(t, ()))}

    def _eliminate(self, finished: frozenset[str], einsum: str, rest: RelaxedLeast) -> dict[Relaxed, Least]:
        """Join the first remaining Einsum's options to the table of the rest."""
        _, before, kept = self._around(finished, einsum)
        by_shared = _by_shared(rest, kept)
        options = ((only(own, before), cost, only(own, kept)) for own, cost in self.options[einsum].items())
        found = [
            _Alternatives(visible, cost, by_shared.parts[lasting])
            for visible, cost, lasting in options
            if lasting in by_shared.parts
        ]
        return _least(found, by_shared.others)


class _Costs(NamedTuple):
    """What others cost, by what they say of tensors of their own."""

    which: Ints
    costs: Floats


class _ByShared(NamedTuple):
    """A table by what it says of some tensors, then by what it says of others."""

    parts: Mapping[Relaxed, _Costs]
    others: Mapping[Relaxed, int]
    """By number."""


def _by_shared(table: RelaxedLeast, tensors: Container[str]) -> _ByShared:
    found: dict[Relaxed, tuple[list[int], list[Least]]] = {}
    numbers: dict[Relaxed, int] = {}
    for relaxed, least in table.items():
        others = tuple(item for item in relaxed if item[0] not in tensors)
        which, costs = found.setdefault(only(relaxed, tensors), ([], []))
        which.append(numbers.setdefault(others, len(numbers)))
        costs.append(least)
    parts = {shared: _Costs(np.array(which), np.array(costs)) for shared, (which, costs) in found.items()}
    return _ByShared(parts, numbers)


def _spread(costs: _Costs, own: Mapping[Relaxed, int], numbers: Mapping[Relaxed, int]) -> Floats:
    """The costs in the order of other numbers; infinite where there are none."""
    number = np.array([numbers.get(others, len(numbers)) for others in own])
    found = np.full((len(numbers) + 1, 3), np.inf)
    found[number[costs.which]] = costs.costs
    return found[:-1]


class _Alternatives(NamedTuple):
    """An option of an Einsum, with what it says of tensors that are still to be seen, and what it can be put together with."""

    visible: Relaxed
    cost: Least
    others: _Costs


def _least(found: Sequence[_Alternatives], others: Mapping[Relaxed, int]) -> dict[Relaxed, Least]:
    """The least of all alternatives, by what both sides say: never of the same tensor."""
    if not found:
        return {}
    numbers: dict[Relaxed, int] = {}
    heads = [numbers.setdefault(one.visible, len(numbers)) for one in found]
    counts = [len(one.others.which) for one in found]
    keys = np.repeat(heads, counts) * len(others) + np.concatenate([one.others.which for one in found])
    costs = np.repeat([one.cost for one in found], counts, axis=0)
    costs += np.concatenate([one.others.costs for one in found])
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    least = np.minimum.reduceat(costs[order], starts)
    visible, hidden = list(numbers), list(others)
    return {
        tuple(sorted((*visible[key // len(hidden)], *hidden[key % len(hidden)]), key=_tensor)): Least(*cost)
        for key, cost in zip(keys[order][starts].tolist(), least.tolist(), strict=True)
    }


def _tensor(item: tuple[str, TensorCompatibility]) -> str:
    return item[0]
