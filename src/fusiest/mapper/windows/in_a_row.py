"""Chains with windows and parts without, in a row: all ways to cut a workload into them.

In long workloads, the cost of a part without windows is estimated from known mappings, Einsum by Einsum, plus the
traffic of tensors that cross its ends. Only promising ways are evaluated: their parts are cut from known mappings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from fusiest.mapper.part_mappings import NO_PART, PartMapping, best_parts, in_a_row
from fusiest.mapper.windows.outside import PlainParts
from fusiest.pmapping import pareto_rows

PartSpan: TypeAlias = tuple[int, int]
"""A range of Einsums: the first, and the one after the last."""


class PartsRow(NamedTuple):
    """Parts that follow each other, with estimated costs."""

    energy: float
    latency: float
    pieces: tuple[PartSpan | PartMapping, ...]
    """Mappings of chains with windows; parts without as ranges of Einsums."""

    def then(self, other: PartsRow) -> PartsRow:
        """One row after the other."""
        return PartsRow(self.energy + other.energy, self.latency + other.latency, self.pieces + other.pieces)


EMPTY_ROW = PartsRow(0.0, 0.0, ())
IsBeaten: TypeAlias = Callable[[float, float], bool]
"""A test whether a mapping of this energy and latency is no better than the known ones."""


class PartsInARow:
    """Mappings of chains with windows, and of parts before, between and after them."""

    def __init__(self, count: int, plain: PlainParts) -> None:
        """`count`: of Einsums."""
        self.count, self.plain = count, plain
        self.windowed: dict[PartSpan, list[PartMapping]] = {}
        self._to: dict[int, list[PartsRow]] = {}
        self._from: dict[int, list[PartsRow]] = {}

    def add(self, span: PartSpan, parts: Sequence[PartMapping]) -> list[PartMapping]:
        """Note mappings of a chain; returns the new ones that no other dominates."""
        old = self.windowed.get(span, [])
        self.windowed[span] = best_parts([*old, *parts])
        new = [part for part in self.windowed[span] if part not in old]
        if new:
            self._to, self._from = {}, {}
        return new

    # --- as searched --------------------------------------------------------------------------------------------------

    def between_plain(self, span: PartSpan, parts: Sequence[PartMapping]) -> list[PartMapping]:
        """Whole mappings with these mappings of a chain, and without other windows."""
        before, after = self.plain.between(0, span[0]), self.plain.between(span[1], self.count)
        return [in_a_row(in_a_row(a, b), c) for a in before for b in parts for c in after]

    def wholes(self) -> list[PartMapping]:
        """The best ways to put all Einsums in a row, each part without windows at its best."""
        starts = {0, *(end for _, end in self.windowed)}
        ends = {self.count, *(start for start, _ in self.windowed)}
        best: dict[int, list[PartMapping]] = {0: [NO_PART]}
        for end in range(1, self.count + 1) if len(self.windowed) > (not self.plain.known) else ():
            options = [(start, parts) for (start, to), parts in self.windowed.items() if to == end and start in best]
            if end in ends:
                plain = [s for s in sorted(starts) if s < end and s in best and (s, end) != (0, self.count)]
                options += [(s, self.plain.between(s, end)) for s in plain]
            joined = [in_a_row(before, after) for start, parts in options for before in best[start] for after in parts]
            if joined:
                best[end] = best_parts(joined)
        return best.get(self.count, [])

    # --- as estimated -------------------------------------------------------------------------------------------------

    def to(self, end: int) -> list[PartsRow]:
        """The best rows of all Einsums before one."""
        if end not in self._to:
            rows = [] if end else [EMPTY_ROW]
            for start in {0, *(to for _, to in self.windowed if to <= end)} - {end}:
                rows += [row.then(part) for row in self.to(start) for part in self._estimated(start, end)]
            for (start, to), parts in self.windowed.items():
                if to == end:
                    rows += [row.then(_as_row(part)) for row in self.to(start) for part in parts]
            self._to[end] = _best_rows(rows)
        return self._to[end]

    def since(self, start: int) -> list[PartsRow]:
        """The best rows of all Einsums from one on."""
        if start not in self._from:
            rows = [] if start < self.count else [EMPTY_ROW]
            for end in {self.count, *(first for first, _ in self.windowed if first >= start)} - {start}:
                rows += [part.then(row) for part in self._estimated(start, end) for row in self.since(end)]
            for (first, to), parts in self.windowed.items():
                if first == start:
                    rows += [_as_row(part).then(row) for row in self.since(to) for part in parts]
            self._from[start] = _best_rows(rows)
        return self._from[start]

    def around(self, span: PartSpan, parts: Sequence[PartMapping]) -> list[PartsRow]:
        """The best rows with one of these parts."""
        to, since = self.to(span[0]), self.since(span[1])
        return _best_rows([a.then(_as_row(b)).then(c) for a in to for b in parts for c in since])

    def made(self, rows: Iterable[PartsRow], is_beaten: IsBeaten) -> Iterator[PartMapping]:
        """Evaluate the rows that are not beaten, as mappings of parts."""
        for row in rows:
            if is_beaten(row.energy, row.latency):
                continue
            wholes = [NO_PART]
            for piece in row.pieces:
                parts = [piece] if isinstance(piece, PartMapping) else self.plain.between(*piece)
                wholes = best_parts([in_a_row(whole, part) for whole in wholes for part in parts])
            yield from wholes

    def _estimated(self, start: int, end: int) -> list[PartsRow]:
        return [PartsRow(energy, latency, ((start, end),)) for energy, latency in self.plain.estimates(start, end)]


def _as_row(part: PartMapping) -> PartsRow:
    return PartsRow(part.energy, part.latency, (part,))


def _best_rows(rows: list[PartsRow]) -> list[PartsRow]:
    if not rows:
        return []
    costs = np.array([(row.energy, row.latency) for row in rows])
    return [rows[i] for i in pareto_rows(np.zeros(len(rows), np.int64), costs)]
