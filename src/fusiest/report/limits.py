"""What the architecture allows at best: peak compute, and the outermost memory's bandwidth. The roofline of a report.

These are reference points, not proven bounds: that a mapping is optimal follows from the search alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusiest.model.evaluate import Anatomy, Evaluation
from fusiest.model.leakage import bind_all
from fusiest.model.visits import footprint
from fusiest.report.traffic import bits_moved
from fusiest.spec import architecture as arch
from fusiest.spec.analysis import EinsumInfo
from fusiest.spec.binding import BoundComponent
from fusiest.spec.spec import Spec


@dataclass(frozen=True, slots=True)
class Limit:
    """Of one Einsum: its operations, seconds at peak compute, and seconds to move its workload inputs and outputs once."""

    compute: str
    """The compute that can be fastest; empty if there is nothing to compute."""
    operations: int
    compute_seconds: float
    memory_seconds: float
    bandwidth: float
    """Bits per second in and out of the outermost memory; inf if it is not limited."""

    @property
    def peak(self) -> float:
        """Operations per second."""
        return self.operations / self.compute_seconds if self.compute_seconds else math.inf


def outermost(spec: Spec) -> list[str]:
    """The first memory on the way to each compute; nearly always one."""
    nodes = spec.require_arch().nodes
    paths = [arch.path_nodes(nodes, compute) or [] for compute in arch.computes(spec.require_arch())]
    firsts = (next(str(n.name) for n in path if isinstance(n, arch.Memory)) for path in paths)
    return list(dict.fromkeys(firsts))


def limits(spec: Spec) -> dict[str, Limit]:
    """Per Einsum."""
    return {str(name): _limit(spec, info) for name, info in spec.info.einsums.items()}


def _limit(spec: Spec, info: EinsumInfo) -> Limit:
    bound = bind_all(spec, info)
    operations = 0 if info.is_copy_operation else math.prod(info.bounds.values()) * info.n_instances
    memory = bound[outermost(spec)[0]]
    seconds = _compute_seconds(spec, info, bound, operations)
    fastest = min(seconds, key=lambda compute: seconds[compute], default="")
    return Limit(fastest, operations, seconds.get(fastest, 0.0), _once(spec, info, memory), _bandwidth(memory))


def _compute_seconds(
    spec: Spec, info: EinsumInfo, bound: dict[str, BoundComponent], operations: int
) -> dict[str, float]:
    """On each compute that can run the Einsum, with all its instances busy."""
    seconds = {}
    for name in arch.computes(spec.require_arch()):
        if bound[name].enabled and not info.is_copy_operation:
            path = arch.path_nodes(spec.require_arch().nodes, name) or []
            dimensions = [d for n in path for d in bound[str(n.name)].dimensions]
            units = math.prod(d.most for d in dimensions)
            calls = operations / max(units, 1) * bound[name].actions["compute"].actions_scale
            seconds[name] = bound[name].latency({"compute": calls})
    return seconds


def _once(spec: Spec, info: EinsumInfo, memory: BoundComponent) -> float:
    """Seconds to read this Einsum's share of the workload's inputs and write its outputs, each once and no more."""
    calls = {"read": 0.0, "write": 0.0}
    for tensor, access in info.accesses.items():
        users = spec.info.users[tensor]
        if (access.output and len(users) == 1) or (tensor not in spec.info.producer and users[0] == info.name):
            action = memory.actions["write" if access.output else "read"]
            values = footprint(access, info.bounds) * info.n_instances
            calls[action.name] += values / action.values_per_action[tensor] * action.actions_scale
    return memory.latency(calls)


def _bandwidth(memory: BoundComponent) -> float:
    """The most bits per second: reading, writing, or both at once where the memory can."""
    tensor = next(iter(memory.bits_per_value))
    calls = {a.name: a.actions_scale / a.values_per_action[tensor] for a in memory.actions.values()}
    alone = {name: memory.latency({name: n}) for name, n in calls.items()}
    if not all(alone.values()):
        return math.inf
    together = memory.latency({name: n / alone[name] for name, n in calls.items()})
    values = [1 / seconds for seconds in alone.values()]
    return memory.bits_per_value[tensor] * max(*values, sum(values) / together)


def traffic_bits(parts: Anatomy, evaluation: Evaluation, memories: list[str]) -> dict[str, float]:
    """Per Einsum: bits in and out of these memories."""
    found: dict[str, float] = {}
    for name, einsum in evaluation.einsums.items():
        keys = [key for key in einsum.actions if key[0] in memories and key[2] in ("read", "write")]
        found[str(name)] = sum(bits_moved(parts, evaluation, name, key) for key in keys)
    return found


def intensity(operations: float, traffic: float) -> float | None:
    """Operations per byte; None if nothing is moved."""
    return operations / (traffic / 8) if traffic else None


@dataclass(frozen=True, slots=True)
class Rate:
    """What a mapping does in one Einsum: operations per byte of outermost-memory traffic, and per second."""

    intensity: float | None
    """None where it computes nothing or moves nothing."""
    speed: float | None
    """None where it computes nothing or takes no time."""


def rates(spec: Spec, parts: Anatomy, evaluation: Evaluation, limit: dict[str, Limit]) -> dict[str, Rate]:
    """Per Einsum in execution order."""
    traffic = traffic_bits(parts, evaluation, outermost(spec))
    found = {}
    for name, einsum in evaluation.einsums.items():
        operations = limit[name].operations
        speed = operations / einsum.latency if einsum.latency else None
        found[str(name)] = Rate(intensity(operations, traffic[name]) or None, speed or None)
    return found
