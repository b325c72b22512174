"""What is counted otherwise than by Timeloop, for one mapping: which numbers, by how much, and why.

Timeloop's own count of a number is what is counted here less the named differences, so that any other difference shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusiest.model import EinsumEvaluation, Evaluation, evaluate
from fusiest.spec import Spec
from fusiest.timeloop.levels import TimeloopLevel
from fusiest.timeloop.mapping_to_tree import TimeloopNest
from fusiest.timeloop.problem_to_einsum import DataSpace, TimeloopProblem
from fusiest.timeloop.statistics import TimeloopStatistics

SENT_UP = "sent up"
OVERLAP = "overlap"
WHOLE = "whole accesses"
REASONS = {
    SENT_UP: "partial sums that are sent up are read first; Timeloop does not count those reads",
    OVERLAP: "a loop slides a window, but not in a way in which its overlap can be held here; Timeloop keeps it",
    WHOLE: "an access moves part of a block where values do not fill blocks; Timeloop rounds energy up to whole accesses",
}


@dataclass(frozen=True, slots=True)
class CountedHere:
    """One number of values here and in Timeloop. `timeloop` is Timeloop's by its own rules, or what its statistics say."""

    level: str
    space: str
    action: str
    here: float
    timeloop: float
    difference: str = ""
    """The named difference, if they differ."""

    @property
    def equal(self) -> bool:
        """Up to rounding."""
        return math.isclose(self.here, self.timeloop, rel_tol=1e-9, abs_tol=1e-6)

    @property
    def unexplained(self) -> bool:
        """Different, and none knows why."""
        return not self.equal and not self.difference


@dataclass(frozen=True, slots=True)
class Counted:
    """All numbers of one mapping, here and in Timeloop. Its cycles and joules are those that its counts give by its rules."""

    evaluation: Evaluation
    counts: tuple[CountedHere, ...]
    cycles: float
    timeloop_cycles: float
    timeloop_energy: float
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
            if (number, space.timeloop_name) not in mapped.nest.holders:
                continue
            sent = _sent_up(mapped, number, space)
            loses_overlap = any(
                (n, space.timeloop_name) in mapped.nest.lost_overlaps
                for n in (number, _below(mapped.nest, number, space))
            )
            for action in ("read", "write"):
                here = einsum.actions.get((level.name, space.name, action), 0.0) * level.block
                expected = timeloop = here - (sent if action == "read" else 0.0)
                if statistics is not None:
                    table = statistics.reads if action == "read" else statistics.writes
                    timeloop = table.get((level.timeloop_name, space.timeloop_name), 0.0)
                difference = OVERLAP if loses_overlap and timeloop < here else ""
                if sent and math.isclose(timeloop, expected):
                    difference = SENT_UP
                counts.append(CountedHere(level.name, space.timeloop_name, action, here, timeloop, difference))
    cycles = _timeloop_cycles(mapped, einsum, counts)
    energy = _timeloop_energy(mapped, evaluation, counts, cycles)
    return Counted(evaluation, tuple(counts), einsum.latency / mapped.cycle, cycles, energy, statistics)


def _below(nest: TimeloopNest, number: int, space: DataSpace) -> int | None:
    """The next level in that keeps the data space."""
    return next((n for n, t in sorted(nest.holders) if t == space.timeloop_name and n > number), None)


def _sent_up(mapped: Mapped, number: int, space: DataSpace) -> float:
    """Values of an output that leave the level for the one above: all of it, once for each pass of loops that sum it up."""
    if not space.is_output or number == 0:
        return 0.0
    nest, total = mapped.nest, float(space.size(mapped.problem.sizes))
    above = nest.loops[: nest.holders[number, space.timeloop_name]]
    above += tuple(loop for loop in nest.loops[len(above) :] if loop.axis is not None and loop.level < number)
    for dimension, size in mapped.problem.sizes.items():
        tiles = [loop.tile for loop in above if loop.dimension == dimension]
        if dimension not in space.dimensions and tiles:
            total *= -(-size // min(tiles))
    return total


def _instances(mapped: Mapped, name: str) -> int:
    """How many of a level are in use."""
    number = next(n for n, level in enumerate(mapped.levels) if level.name == name)
    return math.prod(loop.iterations for loop in mapped.nest.loops if loop.axis is not None and loop.level < number)


def _paid(mapped: Mapped, name: str) -> int:
    """Instances whose accesses cost energy: all of a cluster, once one of them is in use, and Timeloop uses as many clusters as it can."""
    level = next(level for level in mapped.levels if level.name == name)
    instances = _instances(mapped, name)
    clusters = math.prod(level.mesh) // level.cluster
    return instances if level.cluster == 1 else max(1, min(instances, clusters)) * level.cluster


def _timeloop_cycles(mapped: Mapped, einsum: EinsumEvaluation, counts: list[CountedHere]) -> float:
    """The steps of the loops, or what the busiest port needs for its share of the counts."""
    bounds = [float(einsum.steps)]
    for level in mapped.levels:
        level_counts = [count for count in counts if count.level == level.name]
        for actions in (("read",), ("write",), ("read", "write")):
            port = "shared" if len(actions) == 2 else actions[0]
            bandwidth = level.amount((f"{port}_bandwidth",))
            if bandwidth:
                values = sum(count.timeloop for count in level_counts if count.action in actions)
                bounds.append(values / _instances(mapped, level.name) / bandwidth)
    return math.ceil(max(bounds) - 1e-6)


def _timeloop_energy(mapped: Mapped, evaluation: Evaluation, counts: list[CountedHere], cycles: float) -> float:
    """Joules by Timeloop's counts: accesses of an instance are rounded up to whole ones, and leakage is for its cycles."""
    (einsum,) = evaluation.einsums.values()
    blocks = {level.name: level.block for level in mapped.levels}
    names = {space.timeloop_name: space.name for space in mapped.problem.spaces}
    total = evaluation.dynamic_energy + evaluation.leak_energy * (cycles * mapped.cycle / evaluation.latency)
    for count in counts:
        key = (count.level, names[count.space], count.action)
        n = einsum.actions.get(key, 0.0)
        if n:
            instances = _instances(mapped, count.level)
            accesses = math.ceil(count.timeloop / instances / blocks[count.level] - 1e-9) * _paid(mapped, count.level)
            total += (accesses - n) * einsum.energies[key] / n
    return total
