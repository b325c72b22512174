"""Lower bounds for what is still to come, and the incumbents that a partial mapping has to beat.

A tensor's signature is its backing memory and the ranks stepped above it. All users of a tensor must agree on it, so
the least energy of the remaining Einsums, given the signatures of the live tensors, bounds every completion from below.
It is found by eliminating the remaining Einsums one by one in listed order; capacity and tile shapes are relaxed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fusiest.pmapping.pareto import Floats

Signature = tuple[str, frozenset[str | None]]
Signatures = tuple[tuple[str, Signature], ...]
"""Per tensor, sorted by name."""
Least = tuple[float, float]
"""Least energy and least latency, each for itself."""


class LowerBounds:
    """Bounds on completions, per set of remaining Einsums and signatures of live tensors."""

    def __init__(
        self,
        options: Mapping[str, Mapping[Signatures, Least]],
        users: Mapping[str, Sequence[str]],
        order: Sequence[str],
    ) -> None:
        self.options, self.users, self.order = options, users, list(order)
        self.tables: dict[frozenset[str], dict[Signatures, Least]] = {}

    def least(self, done: frozenset[str], live: Signatures) -> Least:
        """Energy and latency that the Einsums outside `done` need at least."""
        remaining = frozenset(e for e in self.order if e not in done)
        key = tuple(s for s in live if not remaining.isdisjoint(self.users.get(s[0], ())))
        return self._table(done).get(key, (np.inf, np.inf))

    def least_of_all(self, done: frozenset[str]) -> Least:
        """The same, whatever the live tensors' signatures."""
        table = self._table(done).values()
        return min(e for e, _ in table), min(latency for _, latency in table)

    def _table(self, done: frozenset[str]) -> dict[Signatures, Least]:
        remaining = [e for e in self.order if e not in done]
        steps = []
        while done not in self.tables and remaining:
            steps.append((done, remaining[0]))
            done = done | {remaining.pop(0)}
        found = self.tables.setdefault(done, {(): (0.0, 0.0)})
        for before, einsum in reversed(steps):
            found = self.tables[before] = self._eliminate(before, einsum, found)
        return found

    def _eliminate(self, done: frozenset[str], einsum: str, rest: dict[Signatures, Least]) -> dict[Signatures, Least]:
        """Join the first remaining Einsum's options to the table of the rest."""
        after = done | {einsum}
        mine = {t for signatures in self.options[einsum] for t, _ in signatures}
        kept = {t for t in mine if any(u not in after for u in self.users.get(t, ()))}
        before = {t for t in mine if any(u in done for u in self.users.get(t, ()))}
        by_shared: dict[Signatures, list[tuple[Signatures, Least]]] = {}
        for signatures, least in rest.items():
            shared = tuple(s for s in signatures if s[0] in kept)
            by_shared.setdefault(shared, []).append((tuple(s for s in signatures if s[0] not in kept), least))
        found: dict[Signatures, Least] = {}
        for signatures, (energy, latency) in self.options[einsum].items():
            shared = tuple(s for s in signatures if s[0] in kept)
            visible = tuple(s for s in signatures if s[0] in before)
            for others, (more_energy, more_latency) in by_shared.get(shared, []):
                crossing = tuple(s for s in signatures if s[0] in kept and s[0] in before and s not in visible)
                key = tuple(sorted({*visible, *others, *crossing}, key=lambda s: s[0]))
                old = found.get(key, (np.inf, np.inf))
                found[key] = min(old[0], energy + more_energy), min(old[1], latency + more_latency)
        return found


class WindowedBounds:
    """Bounds summed over windows of Einsums: for windows not begun, what they need at least with capacity respected.

    Over many layers the gap between the bound above and the truth adds up; a window's own optimum closes most of it.
    """

    def __init__(self, whole: LowerBounds, windows: Sequence[tuple[frozenset[str], LowerBounds, Least]]) -> None:
        self.whole, self.windows = whole, windows
        self.cache: dict[tuple[frozenset[str], Signatures], Least] = {}

    def least(self, done: frozenset[str], live: Signatures) -> Least:
        key = done, live
        if key not in self.cache:
            self.cache[key] = self._least(done, live)
        return self.cache[key]

    def _least(self, done: frozenset[str], live: Signatures) -> Least:
        energy, latency = self.whole.least(done, live)
        parts = []
        for einsums, own, least in self.windows:
            if einsums.isdisjoint(done):
                parts.append(least)
            elif not einsums <= done:
                parts.append(own.least(done, live))
        return max(energy, sum(e for e, _ in parts)), max(latency, sum(seconds for _, seconds in parts))


@dataclass
class Incumbents:
    """Complete mappings known so far, and the test whether a partial mapping can still beat them."""

    objective: tuple[str, ...]
    points: list[tuple[float, float]] = field(default_factory=list)

    def add(self, energy: float, latency: float) -> None:
        if not any(e <= energy and other <= latency for e, other in self.points):
            kept = [(e, other) for e, other in self.points if not (energy <= e and latency <= other)]
            self.points = [*kept, (energy, latency)]

    def score(self, energy: Floats, latency: Floats) -> Floats:
        """What a single objective minimizes; for a front, the product."""
        if self.objective == ("energy",):
            return energy
        if self.objective == ("latency",):
            return latency
        return energy * latency

    def possible(self, energy: float, latency: float) -> bool:
        """The same for one pair of bounds."""
        return bool(np.isfinite(energy)) and bool(self.promising(np.array([energy]), np.array([latency]))[0])

    def promising(self, energy: Floats, latency: Floats) -> np.ndarray:
        """Whether completions of at least this energy and latency could be better than every incumbent."""
        keep = np.ones(len(energy), np.bool_)
        if not self.points:
            return keep
        slack = 1 - 1e-9
        if len(self.objective) == 1:
            best = float(min(self.score(np.array([e]), np.array([t]))[0] for e, t in self.points))
            keep &= self.score(energy, latency) < best * slack
            return keep
        for e, t in self.points:
            keep &= (energy < e * slack) | (latency < t * slack)
        return keep
