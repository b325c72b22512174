"""What became of a Timeloop description: names, numbers that are counted otherwise, and what is not applied."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusiest.timeloop.differences import OVERLAP, REASONS, SENT_UP, Counted, CountedHere
from fusiest.timeloop.levels import TimeloopLevel
from fusiest.timeloop.problem_to_einsum import TimeloopProblem


@dataclass(frozen=True, slots=True)
class TimeloopReport:
    """For people and, as JSON, for programs."""

    problem: TimeloopProblem
    levels: list[TimeloopLevel]
    mapped: bool
    numbers: Counted | None
    remarks: tuple[str, ...]

    @property
    def unexplained(self) -> list[CountedHere]:
        """Counts that Timeloop's statistics contradict, and no named difference explains."""
        return [count for count in self.numbers.counts if count.unexplained] if self.numbers else []

    def summary(self) -> list[str]:
        """What was read, what is renamed, and which differences there are."""
        macs = math.prod(self.problem.sizes.values())
        lines = [f"{self.problem.name}: {macs:,} MACs; {', '.join(level.name for level in self.levels)}"]
        renamed = [f"{s.timeloop_name} is {s.name}" for s in self.problem.spaces if s.timeloop_name != s.name]
        renamed += [
            f"{level.timeloop_name} is {level.name}" for level in self.levels if level.timeloop_name != level.name
        ]
        lines += [f"renamed: {', '.join(renamed)}"] if renamed else []
        lines += self._comparison() if self.numbers else [] if self.mapped else ["no mapping is given"]
        return [*lines, *self.remarks]

    def _comparison(self) -> list[str]:
        assert self.numbers is not None
        numbers, lines = self.numbers, []
        equal = sum(count.equal for count in numbers.counts)
        source = "Timeloop's statistics" if numbers.statistics else "what Timeloop counts by its rules"
        lines.append(f"{equal} of {len(numbers.counts)} counts are equal to {source}")
        for difference in (SENT_UP, OVERLAP):
            differing = [c for c in numbers.counts if c.difference == difference and not c.equal]
            if differing:
                where = ", ".join(
                    f"{c.level} {c.space} {c.action}s {c.here:,.0f} ({c.timeloop:,.0f})" for c in differing
                )
                lines.append(f"{difference}: {REASONS[difference]}: {where}")
        for c in self.unexplained:
            lines.append(f"not explained: {c.level} {c.space} {c.action}s {c.here:,.0f} ({c.timeloop:,.0f})")
        cycles = numbers.statistics.cycles if numbers.statistics else numbers.timeloop_cycles
        lines.append(f"cycles {numbers.cycles:,.0f} ({cycles:,.0f}){self._slower(cycles)}")
        energy = numbers.statistics.energy if numbers.statistics else numbers.timeloop_energy
        lines.append(f"energy {numbers.evaluation.energy * 1e6:.6g} µJ ({energy * 1e6:.6g} µJ){self._dearer()}")
        return lines

    def _slower(self, timeloop_cycles: float) -> str:
        assert self.numbers is not None
        if math.isclose(self.numbers.cycles, timeloop_cycles, rel_tol=1e-9):
            return ""
        explained = math.isclose(self.numbers.timeloop_cycles, timeloop_cycles, rel_tol=1e-9)
        return ": the reads above take time, too" if explained else ": not explained"

    def _dearer(self) -> str:
        assert self.numbers is not None
        numbers = self.numbers
        if math.isclose(numbers.evaluation.energy, numbers.timeloop_energy, rel_tol=1e-6):
            return ""
        if numbers.statistics and not math.isclose(numbers.timeloop_energy, numbers.statistics.energy, rel_tol=1e-4):
            return f": not explained, by its rules it should be {numbers.timeloop_energy * 1e6:.6g} µJ"
        return ": by the counts above, and because Timeloop rounds up to whole accesses"

    def to_json(self) -> dict[str, object]:
        """The report for programs."""
        document: dict[str, object] = {
            "format": "fusiest-timeloop/1",
            "renamed": {s.timeloop_name: s.name for s in self.problem.spaces if s.timeloop_name != s.name},
            "remarks": list(self.remarks),
        }
        if self.numbers:
            numbers = self.numbers
            document |= {
                "cycles": numbers.cycles,
                "timeloop_cycles": numbers.statistics.cycles if numbers.statistics else numbers.timeloop_cycles,
                "energy": numbers.evaluation.energy,
                "timeloop_energy": numbers.statistics.energy if numbers.statistics else numbers.timeloop_energy,
                "counts": [
                    {"level": c.level, "data_space": c.space, "action": c.action, "here": c.here, "timeloop": c.timeloop,
                     "difference": "" if c.equal else c.difference or "not explained"}
                    for c in numbers.counts
                ],
            }  # fmt: skip
        return document
