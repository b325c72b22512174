"""The architecture in figures: how many of each component there are, and how fast all of them are together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

from fusiest.model import operations_per_point
from fusiest.spec import BoundComponent, Spec, bind_all, instances
from fusiest.spec import architecture as arch

Bound = Mapping[str, BoundComponent]
"""Component → the component, evaluated for one Einsum."""


class Machine:
    """A spec's architecture. What depends on the Einsum is taken where it is most."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.nodes = spec.require_arch().nodes
        self.bound: dict[str, Bound] = {str(name): bind_all(spec, info) for name, info in spec.info.einsums.items()}

    @cached_property
    def outermost(self) -> list[str]:
        """The first memory on the way to each compute; nearly always one."""
        return arch.outermost_memories(self.nodes, arch.computes(self.spec.require_arch()))

    @cached_property
    def instances(self) -> dict[str, int]:
        """Instances of each component, in the whole chip."""
        counts: dict[str, int] = {}
        for bound in self.bound.values():
            for placed in instances(self.nodes, bound):
                name = placed.component.name
                counts[name] = max(counts.get(name, 1), placed.number)
        return counts

    @cached_property
    def peaks(self) -> dict[str, float]:
        """Operations per second of each compute that some Einsum can run on, all instances together."""
        peaks: dict[str, float] = {}
        for einsum in self.bound:
            for compute, rate in self.rates(einsum).items():
                peaks[compute] = max(peaks.get(compute, 0.0), rate)
        return peaks

    def rates(self, einsum: str) -> dict[str, float]:
        """Operations per second of an Einsum on each compute that can run it, with all instances that it can use."""
        info, bound = self.spec.info.einsums[einsum], self.bound[einsum]
        rates = {}
        for name in arch.computes(self.spec.require_arch()):
            if bound[name].enabled and not info.is_copy_operation:
                path = arch.path_nodes(self.nodes, name) or []
                units = max(1, math.prod(d.most for n in path for d in bound[str(n.name)].dimensions))
                seconds = bound[name].latency({"compute": bound[name].actions["compute"].actions_scale})
                rates[name] = units * operations_per_point(info) / seconds if seconds else math.inf
        return rates

    @cached_property
    def bandwidths(self) -> dict[str, float]:
        """Bytes per second in and out of each memory, all instances together; inf where nothing limits it."""
        memories = [str(n.name) for n in arch.flatten(self.nodes) if isinstance(n, arch.Memory)]
        return {
            name: self.instances[name] * max(_bits_per_second(bound[name]) for bound in self.bound.values()) / 8
            for name in memories
        }


def _bits_per_second(memory: BoundComponent) -> float:
    """The most: reading, writing, or both at once where the memory can; of the tensor that moves fastest."""
    return max((_tensor_bits_per_second(memory, tensor) for tensor in memory.bits_per_value), default=math.inf)


def _tensor_bits_per_second(memory: BoundComponent, tensor: str) -> float:
    calls = {a.name: a.actions_scale / a.values_per_action[tensor] for a in memory.actions.values()}
    alone = {name: memory.latency({name: n}) for name, n in calls.items()}
    if not all(alone.values()):
        return math.inf
    together = memory.latency({name: n / alone[name] for name, n in calls.items()})
    values = [1 / seconds for seconds in alone.values()]
    return memory.bits_per_value[tensor] * max(*values, sum(values) / together)
