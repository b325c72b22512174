"""Where a long workload comes apart: seams, at which one tensor alone is live, and bounds from seam to seam.

Over many layers the gap between the relaxed bound and the truth would add up. At a seam the bound is exact, or nearly so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fusiest.base.objective import IMPOSSIBLE, Least
from fusiest.joining.bounds.relaxed import LowerBounds
from fusiest.joining.meeting.compatibility import (
    OpenCompatibility,
    Relaxed,
    TensorCompatibility,
    TensorCrossing,
    crossing,
)
from fusiest.joining.rows.consolidation import BUCKETS, PartialRows, Room
from fusiest.joining.rows.incumbents import Incumbents
from fusiest.pmapping import Ints


@dataclass(frozen=True)
class Seam:
    """A set of finished Einsums that every order passes and at which one tensor alone is live."""

    finished: frozenset[str]
    tensor: str
    room: Room
    """Memories as large as the bounds were found for. They hold with smaller ones, too: there is no less to come."""
    relaxed: Mapping[TensorCompatibility, Least]
    """What comes after needs at least this, by how the tensor crosses, relaxed."""
    exact: Mapping[TensorCrossing, Sequence[Least]] = field(default_factory=dict)
    """The same, if loops are open in these zones, and by how much of the memory is taken already."""

    def after(self, how: TensorCrossing, bucket: int) -> Least:
        """What comes after needs at least this."""
        if how in self.exact:
            return self.exact[how][bucket]
        return self.relaxed.get(how.relaxed, IMPOSSIBLE)

    def by_tensors(self) -> dict[Relaxed, Least]:
        """What comes after, as the bounds of what comes before want it."""
        return {((self.tensor, how),): least for how, least in self.relaxed.items()}

    def promising(self, compatibility: OpenCompatibility, rows: PartialRows, incumbents: Incumbents) -> PartialRows:
        """Rows that are still promising, given the space that each has taken."""
        how = crossing(compatibility, self.tensor)
        taken = buckets(compatibility, rows, self.room)
        keep = np.zeros(len(rows), np.bool_)
        for bucket in np.unique(taken):
            which = np.flatnonzero(taken == bucket)
            least = self.after(how, int(bucket))
            keep[which] = incumbents.promising(rows.energy[which], rows.latency[which], least)
        return rows.take(np.flatnonzero(keep))


def buckets(compatibility: OpenCompatibility, rows: PartialRows, room: Room) -> Ints:
    """Of the memory in which the one live tensor lies: how much is reserved above and between open loops, in steps."""
    memory = compatibility.backings[0].memory
    if not compatibility.zones or memory not in room.memories:
        return np.zeros(len(rows), np.int64)
    m = room.memories.index(memory)
    used = rows.reserved[:, m, :].sum(axis=1) / room.sizes[m]
    taken: Ints = np.minimum(used * BUCKETS, BUCKETS - 1).astype(np.int64)
    return taken


class SeamStretch(NamedTuple):
    """Einsums between two seams; the first stretch begins at none."""

    seam: Seam | None
    einsums: frozenset[str]
    bounds: LowerBounds
    """What its Einsums, and all after them, need at least."""


@dataclass(frozen=True)
class SeamBounds:
    """Bounds for long workloads: exact ones at seams, relaxed ones inside a stretch."""

    whole: LowerBounds
    stretches: Sequence[SeamStretch]
    _begun: dict[frozenset[str], LowerBounds] = field(default_factory=dict, repr=False)
    """By finished Einsums, the bounds that hold there."""

    @cached_property
    def seams(self) -> dict[frozenset[str], Seam]:
        return {stretch.seam.finished: stretch.seam for stretch in self.stretches if stretch.seam is not None}

    def seam(self, finished: frozenset[str]) -> Seam | None:
        """The seam that has been reached."""
        return self.seams.get(finished)

    def least(self, finished: frozenset[str], live: Relaxed) -> Least:
        """What the other Einsums need at least."""
        seam = self.seam(finished)
        if seam is not None:
            return seam.relaxed.get(live[0][1], IMPOSSIBLE)
        if finished not in self._begun:
            self._begun[finished] = self._bounds_at(finished)
        return self._begun[finished].least(finished, live)

    def _bounds_at(self, finished: frozenset[str]) -> LowerBounds:
        """The bounds of the stretch that is being worked on; of the whole, if there are several."""
        begun = [
            stretch.bounds
            for stretch in self.stretches
            if not stretch.einsums <= finished and (stretch.seam is None or stretch.seam.finished < finished)
        ]
        return begun[0] if len(begun) == 1 else self.whole
