"""The statistics that Timeloop writes (`….stats.txt`): counts of each level and data space, cycles, energy."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fusiest.base.errors import SpecError

_LEVEL = re.compile(r"=== (\S+) ===\s*\Z")
_SPACE = re.compile(r"    (\w+):\s*\Z")
_COUNT = re.compile(r"\s+Scalar (reads|fills|updates) \(per-instance\)\s+: ([\d.eE+]+)")
_INSTANCES = re.compile(r"\s+Utilized instances \(max\)\s+: ([\d.eE+]+)")
_TOTAL = re.compile(r"\s+Total\s+= ([\d.eE+-]+)")
_END = "Operational Intensity Stats"


@dataclass(slots=True)
class TimeloopStatistics:
    """Reads and writes (fills and updates) of all instances by level and data space; cycles; joules."""

    reads: dict[tuple[str, str], float] = field(default_factory=dict)
    writes: dict[tuple[str, str], float] = field(default_factory=dict)
    cycles: int = 0
    energy: float = 0.0


def read_statistics(file: str, text: str) -> TimeloopStatistics:
    """Read the text of a file."""
    statistics = TimeloopStatistics()
    body, _, summary = text.partition(_END)
    level, space, instances = "", "", 1.0
    for line in body.splitlines():
        if match := _LEVEL.match(line):
            level, space = match[1], ""
        elif match := _SPACE.match(line):
            space = match[1]
        elif match := _INSTANCES.match(line):
            instances = float(match[1])
        elif space and (match := _COUNT.match(line)):
            table = statistics.reads if match[1] == "reads" else statistics.writes
            table[level, space] = table.get((level, space), 0.0) + float(match[2]) * instances
    cycles, computes = (re.search(p, summary) for p in (r"\nCycles: (\d+)", r"\nComputes = (\d+)"))
    totals = [match for line in summary.splitlines() if (match := _TOTAL.match(line))]
    if cycles is None or computes is None or not totals or not statistics.reads:
        raise SpecError(f"{file}: these are not the statistics of Timeloop")
    statistics.cycles = int(cycles[1])
    # The total is in fJ per compute, with two digits.
    statistics.energy = float(totals[-1][1]) * int(computes[1]) * 1e-15
    return statistics
