"""What a sweep says of its runs: what became of each, how many there are of each kind; and what may take a search's place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from fusiest.show import hours
from fusiest.sweeps.file.designs import Design
from fusiest.sweeps.file.sweepfile import SweptWorkload
from fusiest.sweeps.store.store import RunRow


@dataclass(frozen=True)
class Reuse:
    """What may take the place of a search. Each changes the time, never an answer."""

    known: bool = True
    covered: bool = True
    tables: bool = True
    """Designs that differ only by sizes of shared memories, or by throughputs of memories, are joined from the same tables."""
    bounds: bool = True
    """Designs that cannot be what the file asks for are not searched."""


@dataclass(frozen=True)
class Answer:
    """What became of one workload on one design."""

    design: Design
    workload: SweptWorkload
    row: RunRow
    how: str
    """`searched`, `known`, `covered`, `pruned` or `failed`."""


@dataclass
class Counts:
    """How far a sweep is, in runs."""

    total: int = 0
    searched: int = 0
    known: int = 0
    covered: int = 0
    pruned: int = 0
    failed: int = 0
    running: int = 0
    cpu_seconds: float = 0.0
    saved_seconds: float = 0.0
    seconds_left: float | None = None

    @property
    def finished(self) -> int:
        """Runs that have an answer."""
        return self.searched + self.known + self.covered + self.pruned + self.failed

    def __str__(self) -> str:
        parts = [f"{n:,} {name}" for name in ("searched", "known", "covered", "pruned", "failed", "running")
                 if (n := getattr(self, name))]  # fmt: skip
        cpu = f"{hours(self.cpu_seconds)} CPU" + (f", {hours(self.saved_seconds)} saved" if self.saved_seconds else "")
        left = f", {hours(self.seconds_left)} left" if self.seconds_left is not None and self.running else ""
        return f"{', '.join(parts) or 'nothing yet'}; {cpu}{left}"


def unproven_words(answers: Iterable[Answer]) -> str:
    """How many results may not be the best, why, and by how much; nothing if all are proven."""
    open_rows = [answer.row for answer in answers if answer.row.found and answer.row.gap]
    if not open_rows:
        return ""
    kinds = Counter("not proven" if row.status == "done" else row.status for row in open_rows)
    parts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
    most, what = max(row.gap or 0.0 for row in open_rows), "results" if len(open_rows) > 1 else "result"
    return f"{len(open_rows):,} {what} may not be the best ({parts}): what is best costs up to {most:.1%} less"
