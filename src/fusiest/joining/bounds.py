"""Lower bounds for what is still to come.

All users of a tensor must agree on its relaxed compatibility (its backing memory, and what is stepped above it), so the
least cost of the remaining Einsums, given that of the live tensors, bounds every completion from below. It is found by
eliminating the remaining Einsums one by one in listed order; capacity and tile shapes are relaxed.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fusiest.joining.compatibility import Relaxed, only
from fusiest.objective import IMPOSSIBLE, NOTHING, Least

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
            after = finished | {einsum}
            mine = {t for relaxed in self.options[einsum] for t, _ in relaxed}
            kept = {t for t in mine if any(u not in after for u in self.users.get(t, ()))}
            before = {t for t in mine if any(u in finished for u in self.users.get(t, ()))}
            behind, rest = _by_shared(ahead, before), _by_shared(self.table(after), kept)
            found: dict[Relaxed, Least] = {}
            further: dict[Relaxed, Least] = {}
            for relaxed, cost in self.options[einsum].items():
                lasting, coming = only(relaxed, kept), rest.get(only(relaxed, kept), {})
                least = IMPOSSIBLE
                for passing, one in behind.get(only(relaxed, before), {}).items():
                    least |= one.plus(coming.get(passing, IMPOSSIBLE))
                    key = tuple(sorted({*lasting, *passing}, key=lambda item: item[0]))
                    further[key] = further.get(key, IMPOSSIBLE) | one.plus(cost)
                found[relaxed] = least
            yield einsum, found
            finished, ahead = after, further

    def _eliminate(self, finished: frozenset[str], einsum: str, rest: RelaxedLeast) -> dict[Relaxed, Least]:
        """Join the first remaining Einsum's options to the table of the rest."""
        after = finished | {einsum}
        mine = {t for relaxed in self.options[einsum] for t, _ in relaxed}
        kept = {t for t in mine if any(u not in after for u in self.users.get(t, ()))}
        before = {t for t in mine if any(u in finished for u in self.users.get(t, ()))}
        by_shared = _by_shared(rest, kept)
        found: dict[Relaxed, Least] = {}
        for relaxed, cost in self.options[einsum].items():
            visible = only(relaxed, before)
            for others, more in by_shared.get(only(relaxed, kept), {}).items():
                key = tuple(sorted({*visible, *others}, key=lambda item: item[0]))
                found[key] = found.get(key, IMPOSSIBLE) | cost.plus(more)
        return found


def _by_shared(table: RelaxedLeast, tensors: Container[str]) -> dict[Relaxed, dict[Relaxed, Least]]:
    """A table by what it says of these tensors, then by what it says of others."""
    found: dict[Relaxed, dict[Relaxed, Least]] = {}
    for relaxed, least in table.items():
        others = tuple(item for item in relaxed if item[0] not in tensors)
        found.setdefault(only(relaxed, tensors), {})[others] = least
    return found
