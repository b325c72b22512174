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

    operations: int
    compute_seconds: float
    memory_seconds: float
    bandwidth: float
    """Bits per second that the outermost memory reads; inf if it is not limited."""

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
    return Limit(operations, _compute_seconds(spec, info, bound, operations), _once(spec, info, memory), _read(memory))


def _compute_seconds(spec: Spec, info: EinsumInfo, bound: dict[str, BoundComponent], operations: int) -> float:
    """On the compute that is fastest with all its instances busy."""
    seconds = []
    for name in arch.computes(spec.require_arch()):
        if bound[name].enabled and not info.is_copy_operation:
            path = arch.path_nodes(spec.require_arch().nodes, name) or []
            units = math.prod(int(d.fanout / d.usage_scale) for n in path for d in bound[str(n.name)].dimensions)
            calls = operations / max(units, 1) * bound[name].actions["compute"].actions_scale
            seconds.append(bound[name].latency({"compute": calls}))
    return min(seconds, default=0.0)


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


def _read(memory: BoundComponent) -> float:
    """Bits per second, for values of the size that most tensors have."""
    action = memory.actions["read"]
    tensor = next(iter(memory.bits_per_value))
    calls = 1 / action.values_per_action[tensor] * action.actions_scale
    seconds = memory.latency({"read": calls, "write": 0})
    return memory.bits_per_value[tensor] / seconds if seconds else math.inf


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
