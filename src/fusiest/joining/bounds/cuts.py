"""Cuts of a long workload, at which one tensor alone is live, and bounds from cut to cut.

Over many layers the gap between the relaxed bound and the truth would add up. At a cut the bound is exact, or nearly
so.
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
    """A cut: a set of finished Einsums that every order passes and at which one tensor alone is live."""

    finished: frozenset[str]
    tensor: str
    room: Room
    """Memories for which the bounds were found. The bounds hold with smaller memories, too."""
    relaxed: Mapping[TensorCompatibility, Least]
    """Least cost of all Einsums after the cut, by the relaxed compatibility of the tensor."""
    exact: Mapping[TensorCrossing, Sequence[Least]] = field(default_factory=dict)
    """Least cost of all Einsums after the cut, by how the tensor crosses and by how much of its memory is taken (in
    steps)."""

    def after(self, how: TensorCrossing, bucket: int) -> Least:
        """The least cost of all Einsums after the cut."""
        if how in self.exact:
            return self.exact[how][bucket]
        return self.relaxed.get(how.relaxed, IMPOSSIBLE)

    def by_tensors(self) -> dict[Relaxed, Least]:
        """The relaxed bounds, in the form in which `LowerBounds.end` needs them."""
        return {((self.tensor, how),): least for how, least in self.relaxed.items()}

    def promising(self, compatibility: OpenCompatibility, rows: PartialRows, incumbents: Incumbents) -> PartialRows:
        """Keep the rows that may lead to a better mapping, given the space that each has taken."""
        how = crossing(compatibility, self.tensor)
        taken = buckets(compatibility, rows, self.room)
        keep = np.zeros(len(rows), np.bool_)
        for bucket in np.unique(taken):
            which = np.flatnonzero(taken == bucket)
            least = self.after(how, int(bucket))
            keep[which] = incumbents.promising(rows.energy[which], rows.latency[which], least)
        return rows.take(np.flatnonzero(keep))


def buckets(compatibility: OpenCompatibility, rows: PartialRows, room: Room) -> Ints:
    """Per row, how much of the live tensor's memory is reserved above and between open loops, in steps."""
    memory = compatibility.backings[0].memory
    if not compatibility.zones or memory not in room.memories:
        return np.zeros(len(rows), np.int64)
    m = room.memories.index(memory)
    used = rows.reserved[:, m, :].sum(axis=1) / room.sizes[m]
    taken: Ints = np.minimum(used * BUCKETS, BUCKETS - 1).astype(np.int64)
    return taken


class SeamStretch(NamedTuple):
    """A segment: the Einsums between two cuts."""

    seam: Seam | None
    """The cut at its beginning; None for the first segment."""
    einsums: frozenset[str]
    bounds: LowerBounds
    """Relaxed bounds on the segment's Einsums and all after them."""


@dataclass(frozen=True)
class SeamBounds:
    """Bounds for long workloads: exact ones at cuts, relaxed ones inside a segment."""

    whole: LowerBounds
    stretches: Sequence[SeamStretch]
    _begun: dict[frozenset[str], LowerBounds] = field(default_factory=dict, repr=False)
    """The bounds that hold for a set of finished Einsums."""

    @cached_property
    def seams(self) -> dict[frozenset[str], Seam]:
        return {stretch.seam.finished: stretch.seam for stretch in self.stretches if stretch.seam is not None}

    def seam(self, finished: frozenset[str]) -> Seam | None:
        """The cut that is reached with these Einsums, if any."""
        return self.seams.get(finished)

    def least(self, finished: frozenset[str], live: Relaxed) -> Least:
        """The least cost of the remaining Einsums."""
        seam = self.seam(finished)
        if seam is not None:
            return seam.relaxed.get(live[0][1], IMPOSSIBLE)
        if finished not in self._begun:
            self._begun[finished] = self._bounds_at(finished)
        return self._begun[finished].least(finished, live)

    def _bounds_at(self, finished: frozenset[str]) -> LowerBounds:
        """The bounds of the segment that is begun; those of the whole workload, if several segments are."""
        begun = [
            stretch.bounds
            for stretch in self.stretches
            if not stretch.einsums <= finished and (stretch.seam is None or stretch.seam.finished < finished)
        ]
        return begun[0] if len(begun) == 1 else self.whole
