"""Lower bounds for what is still to come, and the incumbents that a partial mapping has to beat.

A tensor's signature is its backing memory and the ranks stepped above it. All users of a tensor must agree on it, so
the least energy of the remaining Einsums, given the signatures of the live tensors, bounds every completion from below.
It is found by eliminating the remaining Einsums one by one in listed order; capacity and tile shapes are relaxed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fusiest.pmapping.pareto import Floats
from fusiest.spec.analysis import Stepping

Signature = tuple[str, frozenset[Stepping | None]]
Signatures = tuple[tuple[str, Signature], ...]
"""Per tensor, sorted by name."""


class Least(NamedTuple):
    """Least energy, least latency, and the least weighted sum of both, each for itself."""

    energy: float
    latency: float
    both: float

    def __or__(self, other: Least) -> Least:
        """The least of two alternatives."""
        return Least(min(self[0], other[0]), min(self[1], other[1]), min(self[2], other[2]))

    def plus(self, other: Least) -> Least:
        return Least(self[0] + other[0], self[1] + other[1], self[2] + other[2])


NOTHING = Least(0.0, 0.0, 0.0)
IMPOSSIBLE = Least(np.inf, np.inf, np.inf)


class LowerBounds:
    """Bounds on completions, per set of remaining Einsums and signatures of live tensors.

    `end`: what comes after the last Einsum of `order`, by the signatures of tensors that are live then.
    """

    def __init__(
        self,
        options: Mapping[str, Mapping[Signatures, Least]],
        users: Mapping[str, Sequence[str]],
        order: Sequence[str],
        end: Mapping[Signatures, Least] | None = None,
    ) -> None:
        self.options, self.users, self.order = options, users, list(order)
        self.end: dict[Signatures, Least] = dict(end) if end is not None else {(): NOTHING}
        self.tables: dict[frozenset[str], dict[Signatures, Least]] = {}

    def least(self, done: frozenset[str], live: Signatures) -> Least:
        """What the Einsums outside `done` need at least."""
        return self.table(done).get(live, IMPOSSIBLE)

    def least_of_all(self, done: frozenset[str]) -> Least:
        """The same, whatever the live tensors' signatures."""
        found = IMPOSSIBLE
        for least in self.table(done).values():
            found |= least
        return found

    def table(self, done: frozenset[str]) -> dict[Signatures, Least]:
        if done in self.tables:
            return self.tables[done]
        remaining = [e for e in self.order if e not in done]
        steps = []
        while done not in self.tables and remaining:
            steps.append((done, remaining[0]))
            done = done | {remaining.pop(0)}
        found = self.tables.setdefault(done, self.end)
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
        for signatures, own in self.options[einsum].items():
            shared = tuple(s for s in signatures if s[0] in kept)
            visible = tuple(s for s in signatures if s[0] in before)
            for others, more in by_shared.get(shared, []):
                key = tuple(sorted({*visible, *others}, key=lambda s: s[0]))
                found[key] = found.get(key, IMPOSSIBLE) | own.plus(more)
        return found


CLOSE = 1e-9
"""Costs that differ by less, relatively, are the same."""
BUCKETS = 8
"""In so many steps, how much of a memory is reserved above the loops that are open at a cut."""


Entry = tuple[str, tuple[frozenset[Stepping], ...]]
"""How a tensor crosses a cut: its memory, and the ranks stepped above it, zone by zone."""


@dataclass
class Cut:
    """A set of finished Einsums that every order passes and at which one tensor alone is live.

    `relaxed`: what comes after needs at least this, by the tensor's signature. `least[entry][bucket]`: the same, if loops
    are open in these zones and so much of the memory is taken already.
    """

    done: frozenset[str]
    tensor: str
    relaxed: dict[Signature, Least]
    least: dict[Entry, list[Least]] = field(default_factory=dict)

    def after(self, entry: Entry, bucket: int) -> Least:
        """What comes after needs at least this."""
        if entry in self.least:
            return self.least[entry][bucket]
        return self.relaxed.get(signature_of(entry), IMPOSSIBLE)

    def signatures(self) -> dict[Signatures, Least]:
        return {((self.tensor, signature),): least for signature, least in self.relaxed.items()}


def signature_of(entry: Entry) -> Signature:
    return entry[0], frozenset(rank for zone in entry[1] for rank in zone)


class WindowedBounds:
    """Bounds for long workloads: exact ones from cut to cut, relaxed ones inside a window.

    Over many layers the gap between the relaxed bound and the truth would add up.
    """

    def __init__(self, whole: LowerBounds, windows: Sequence[tuple[Cut | None, frozenset[str], LowerBounds]]) -> None:
        self.whole, self.windows = whole, windows
        self.cuts = {cut.done: cut for cut, _, _ in windows if cut is not None}
        self.places: dict[frozenset[str], LowerBounds] = {}

    def least(self, done: frozenset[str], live: Signatures) -> Least:
        cut = self.cuts.get(done)
        if cut is not None:
            return cut.relaxed.get(live[0][1], IMPOSSIBLE)
        if done not in self.places:
            self.places[done] = self._place(done)
        return self.places[done].least(done, live)

    def _place(self, done: frozenset[str]) -> LowerBounds:
        """The bounds of the window that is being worked on; of the whole, if there are several."""
        begun = [own for cut, einsums, own in self.windows if not einsums <= done and (cut is None or cut.done < done)]
        return begun[0] if len(begun) == 1 else self.whole


@dataclass
class Incumbents:
    """Complete mappings known so far, and the test whether a partial mapping can still beat them."""

    objective: tuple[str, ...]
    points: list[tuple[float, float, float]] = field(default_factory=list)
    """Energy, latency, and usage of the watched memory."""
    weights: tuple[float, float] = (0.0, 0.0)
    """Of energy and latency in the weighted sum."""
    watched: int | None = None
    """The memory whose usage is an objective, too."""

    def add(self, energy: float, latency: float, usage: float = 0.0) -> None:
        point = energy, latency, usage
        if not any(_covers(other, point) for other in self.points):
            self.points = [*(other for other in self.points if not _covers(point, other)), point]

    def score(self, energy: Floats, latency: Floats) -> Floats:
        """What a single objective minimizes; for a front, the product."""
        if self.objective == ("energy",):
            return energy
        if self.objective == ("latency",):
            return latency
        return energy * latency

    def possible(self, energy: float, latency: float, more: Least) -> bool:
        """The same for one pair of costs."""
        if not np.isfinite(more.energy):
            return False
        return not self.points or bool(self.promising(np.array([energy]), np.array([latency]), more)[0])

    def promising(self, energy: Floats, latency: Floats, more: Least, usage: Floats | None = None) -> np.ndarray:
        """Whether completions of these costs, which need at least so much more, could be better than every incumbent.

        If a memory is watched, all are as long as its usage is not given.
        """
        keep = np.ones(len(energy), np.bool_)
        if not self.points or (self.watched is not None and usage is None):
            return keep
        slack = 1 - CLOSE
        if len(self.objective) == 1:
            score = self.least_score(energy, latency, more)
            known = self.score(np.array([p[0] for p in self.points]), np.array([p[1] for p in self.points]))
            if usage is None:
                better = score < float(known.min()) * slack
                tied = self._breaks_tie(score, known, energy + more.energy, latency + more.latency)
                return np.asarray(better | tied)
            for s, (_, _, u) in zip(known, self.points, strict=True):
                keep &= (score < s * slack) | (usage < u * slack)
            return keep
        for e, t, u in self.points:
            better = (energy + more.energy < e * slack) | (latency + more.latency < t * slack)
            keep &= better if usage is None else better | (usage < u * slack)
        return keep

    def _breaks_tie(self, score: Floats, known: Floats, energy: Floats, latency: Floats) -> np.ndarray:
        """Whether completions could be as good as the best incumbents, and better than all of these in the other cost.

        Products do not tie, unless both costs do.
        """
        if self.objective not in (("energy",), ("latency",)):
            return np.zeros(len(score), np.bool_)
        which, other = (1, latency) if self.objective == ("energy",) else (0, energy)
        most = float(known.min()) * (1 + CLOSE)
        least = min(p[which] for p, s in zip(self.points, known, strict=True) if s <= most)
        return np.asarray((score <= most) & (other < least * (1 - CLOSE)))

    def least_score(self, energy: Floats, latency: Floats, more: Least) -> Floats:
        """The least score of any completion.

        The product is least where energy or latency is: at a corner of what their own bounds and that of their weighted
        sum leave.
        """
        a, b = self.weights
        total_energy, total_latency = energy + more.energy, latency + more.latency
        if self.objective != ("edp",) or not a or not b:
            return self.score(total_energy, total_latency)
        both = a * energy + b * latency + more.both
        slowest = np.maximum(total_latency, (both - a * total_energy) / b)
        costliest = np.maximum(total_energy, (both - b * total_latency) / a)
        return np.minimum(total_energy * slowest, costliest * total_latency)


def _covers(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))
