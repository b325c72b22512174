"""What is counted otherwise than by Timeloop, for one mapping: which numbers, by how much, and why.

Timeloop's own count of a number is what is counted here less the named differences, so that any other difference shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusiest.model import EinsumEvaluation, Evaluation, evaluate
from fusiest.spec import Spec
from fusiest.timeloop.levels import TimeloopLevel
from fusiest.timeloop.nest import TimeloopNest
from fusiest.timeloop.problem import DataSpace, TimeloopProblem
from fusiest.timeloop.statistics import TimeloopStatistics

SENT_UP = "sent up"
OVERLAP = "overlap"
WHOLE = "whole accesses"
WHY = {
    SENT_UP: "partial sums that are sent up are read first; Timeloop does not count those reads",
    OVERLAP: "a loop slides a window, but not in a way in which its overlap can be held here; Timeloop keeps it",
    WHOLE: "an access moves part of a block where values do not fill blocks; Timeloop rounds energy up to whole accesses",
}


@dataclass(frozen=True, slots=True)
class CountedHere:
    """One number of values here and there. `there` is Timeloop's by its own rules, or what its statistics say."""

    level: str
    space: str
    action: str
    here: float
    there: float
    why: str = ""
    """The named difference, if they differ."""

    @property
    def equal(self) -> bool:
        """Up to rounding."""
        return math.isclose(self.here, self.there, rel_tol=1e-9, abs_tol=1e-6)

    @property
    def unexplained(self) -> bool:
        """Different, and none knows why."""
        return not self.equal and not self.why


@dataclass(frozen=True, slots=True)
class Counted:
    """All numbers of one mapping, here and there. Timeloop's cycles and joules are those that its counts give by its rules."""

    evaluation: Evaluation
    counts: tuple[CountedHere, ...]
    cycles: float
    cycles_there: float
    energy_there: float
    statistics: TimeloopStatistics | None = None


@dataclass(frozen=True, slots=True)
class Mapped:
    """A mapping in both forms, and all that it means."""

    spec: Spec
    nest: TimeloopNest
    problem: TimeloopProblem
    levels: list[TimeloopLevel]
    cycle: float


def counted(mapped: Mapped, statistics: TimeloopStatistics | None) -> Counted:
    """Evaluate the mapping, and compare with Timeloop's statistics, or else with its rules."""
    evaluation = evaluate(mapped.spec)
    (einsum,) = evaluation.einsums.values()
    counts: list[CountedHere] = []
    for number, level in enumerate(mapped.levels):
        for space in mapped.problem.spaces:
            if (number, space.theirs) not in mapped.nest.holders:
                continue
            sent = _sent_up(mapped, number, space)
            lost = any((n, space.theirs) in mapped.nest.lost for n in (number, _below(mapped.nest, number, space)))
            for action in ("read", "write"):
                here = einsum.actions.get((level.name, space.name, action), 0.0) * level.block
                expected = there = here - (sent if action == "read" else 0.0)
                if statistics is not None:
                    table = statistics.reads if action == "read" else statistics.writes
                    there = table.get((level.theirs, space.theirs), 0.0)
                why = SENT_UP if math.isclose(there, expected) and sent else OVERLAP if lost and there < here else ""
                counts.append(CountedHere(level.name, space.theirs, action, here, there, why))
    cycles = _cycles_there(mapped, einsum, counts)
    energy = _energy_there(mapped, evaluation, counts, cycles)
    return Counted(evaluation, tuple(counts), einsum.latency / mapped.cycle, cycles, energy, statistics)


def _below(nest: TimeloopNest, number: int, space: DataSpace) -> int | None:
    """The next level in that keeps the data space."""
    return next((n for n, t in sorted(nest.holders) if t == space.theirs and n > number), None)


def _sent_up(mapped: Mapped, number: int, space: DataSpace) -> float:
    """Values of an output that leave the level for the one above: all of it, once for each pass of loops that sum it up."""
    if not space.is_output or number == 0:
        return 0.0
    nest, total = mapped.nest, float(space.size(mapped.problem.sizes))
    above = nest.loops[: nest.holders[number, space.theirs]]
    above += tuple(loop for loop in nest.loops[len(above) :] if loop.axis is not None and loop.level < number)
    for dimension, size in mapped.problem.sizes.items():
        tiles = [loop.tile for loop in above if loop.dimension == dimension]
        if dimension not in space.dimensions and tiles:
            total *= -(-size // min(tiles))
    return total


def _instances(mapped: Mapped, level: str) -> int:
    """How many of a level are in use."""
    number = next(n for n, one in enumerate(mapped.levels) if one.name == level)
    return math.prod(loop.iterations for loop in mapped.nest.loops if loop.axis is not None and loop.level < number)


def _paid(mapped: Mapped, name: str) -> int:
    """Instances whose accesses cost energy: all of a cluster, once one of them is in use, and Timeloop uses as many clusters as it can."""
    level = next(level for level in mapped.levels if level.name == name)
    many = _instances(mapped, name)
    clusters = math.prod(level.mesh) // level.cluster
    return many if level.cluster == 1 else max(1, min(many, clusters)) * level.cluster


def _cycles_there(mapped: Mapped, einsum: EinsumEvaluation, counts: list[CountedHere]) -> float:
    """The steps of the loops, or what the busiest port needs for its share of the counts."""
    needed = [float(einsum.steps)]
    for level in mapped.levels:
        mine = [count for count in counts if count.level == level.name]
        for actions in (("read",), ("write",), ("read", "write")):
            port = "shared" if len(actions) == 2 else actions[0]
            bandwidth = level.amount((f"{port}_bandwidth",))
            if bandwidth:
                values = sum(count.there for count in mine if count.action in actions)
                needed.append(values / _instances(mapped, level.name) / bandwidth)
    return math.ceil(max(needed) - 1e-6)


def _energy_there(mapped: Mapped, evaluation: Evaluation, counts: list[CountedHere], cycles: float) -> float:
    """Joules by Timeloop's counts: accesses of an instance are rounded up to whole ones, and leakage is for its cycles."""
    (einsum,) = evaluation.einsums.values()
    blocks = {level.name: level.block for level in mapped.levels}
    names = {space.theirs: space.name for space in mapped.problem.spaces}
    total = evaluation.dynamic_energy + evaluation.leak_energy * (cycles * mapped.cycle / evaluation.latency)
    for count in counts:
        key = (count.level, names[count.space], count.action)
        n = einsum.actions.get(key, 0.0)
        if n:
            many = _instances(mapped, count.level)
            accesses = math.ceil(count.there / many / blocks[count.level] - 1e-9) * _paid(mapped, count.level)
            total += (accesses - n) * einsum.energies[key] / n
    return total
