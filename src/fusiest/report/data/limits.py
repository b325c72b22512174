"""What the architecture allows at best: peak compute, and the outermost memory's bandwidth. The roofline of a report.

These are reference points, not proven bounds: that a mapping is optimal follows from the search alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fusiest.model import Anatomy, Evaluation, footprint, operations
from fusiest.report.data.machine import Machine
from fusiest.report.data.traffic import bits_moved
from fusiest.spec import EinsumInfo


@dataclass(frozen=True, slots=True)
class SpeedLimit:
    """Speed of one Einsum: its operations, the compute that can be fastest, and how fast that is."""

    operations: int
    compute: str
    """Empty if there is nothing to compute."""
    peak: float
    """Operations per second; inf if nothing limits it."""
    memory_seconds: float
    """To move its workload inputs and outputs once, at the outermost memory's bandwidth."""

    @property
    def compute_seconds(self) -> float:
        """At the peak."""
        return self.operations / self.peak


@dataclass(frozen=True, slots=True)
class Share:
    """Operations that one compute does at best at one rate, and how long they take: their quotient."""

    compute: str
    operations: int
    peak: float
    seconds: float


def limits(machine: Machine) -> dict[str, SpeedLimit]:
    """Per Einsum."""
    return {str(name): _limit(machine, info) for name, info in machine.spec.info.einsums.items()}


def _limit(machine: Machine, info: EinsumInfo) -> SpeedLimit:
    rates = machine.rates(info.name)
    fastest = max(rates, key=lambda compute: rates[compute], default="")
    return SpeedLimit(operations(info), fastest, rates.get(fastest, math.inf), _once(machine, info))


def shares(speed_limits: Iterable[SpeedLimit]) -> list[Share]:
    """What each compute has to do. Steps that are one operation where others are two have a row of their own."""
    sums: dict[tuple[str, float], int] = {}
    for limit in speed_limits:
        if limit.operations:
            key = limit.compute, limit.peak
            sums[key] = sums.get(key, 0) + limit.operations
    return [Share(compute, count, peak, count / peak) for (compute, peak), count in sums.items()]


def _once(machine: Machine, info: EinsumInfo) -> float:
    """Seconds to read this Einsum's share of the workload's inputs and write its outputs, each once and no more."""
    workload, memory = machine.spec.info, machine.bound[info.name][machine.outermost[0]]
    calls = {"read": 0.0, "write": 0.0}
    for tensor, access in info.accesses.items():
        users = workload.users[tensor]
        makers = workload.producers.get(tensor, ())
        if (access.output and len(users) == len(makers)) or (not makers and users[0] == info.name):
            action = memory.actions["write" if access.output else "read"]
            values = footprint(access, info.bounds) * info.n_instances
            calls[action.name] += values / action.values_per_action[tensor] * action.actions_scale
    return memory.latency(calls)


def traffic_bits(parts: Anatomy, evaluation: Evaluation, memories: Iterable[str]) -> dict[str, float]:
    """Per Einsum: bits in and out of these memories."""
    chosen, bits = set(memories), {}
    for name, einsum in evaluation.einsums.items():
        keys = [key for key in einsum.actions if key[0] in chosen and key[2] in ("read", "write")]
        bits[str(name)] = sum(bits_moved(parts, evaluation, name, key) for key in keys)
    return bits


def intensity(count: float, traffic: float) -> float | None:
    """Operations per byte; None if nothing is computed or nothing is moved."""
    return count / (traffic / 8) if count and traffic else None


@dataclass(frozen=True, slots=True)
class Rate:
    """What a mapping does in one Einsum: operations per byte of each memory's traffic, and per second."""

    intensities: Mapping[str, float | None]
    """Intensity at the outermost memory, and at others whose bandwidth is limited; None where nothing is computed or moved."""
    outer: float | None
    """Intensity at the outermost memories together."""
    speed: float | None
    """None where it computes nothing or takes no time."""


def rates(machine: Machine, parts: Anatomy, evaluation: Evaluation, limit: Mapping[str, SpeedLimit]) -> dict[str, Rate]:
    """Per Einsum in execution order."""
    limited = [m for m, bandwidth in machine.bandwidths.items() if bandwidth < math.inf or m in machine.outermost]
    traffic = {m: traffic_bits(parts, evaluation, [m]) for m in limited}
    outer = traffic_bits(parts, evaluation, machine.outermost)
    by_einsum = {}
    for name, einsum in evaluation.einsums.items():
        count = limit[name].operations
        speed = count / einsum.latency if einsum.latency else None
        levels = {m: intensity(count, traffic[m][name]) for m in limited}
        by_einsum[str(name)] = Rate(levels, intensity(count, outer[name]), speed or None)
    return by_einsum
