"""Which colour each tensor and component has throughout a report, and which tensors are too small for one of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from fusiest.model import footprint
from fusiest.report.data.roles import ROLES, Role, tensor_roles
from fusiest.spec import Spec
from fusiest.spec import architecture as arch

MOST_OF_A_ROLE = 4
"""Tensors of one role that a chart shows one by one."""
LEAST_SHARE = 0.03
"""What a tensor takes of a chart to be shown by itself."""


@dataclass(frozen=True, slots=True)
class TensorGroup:
    """A tensor, or several small ones of one role, as one series of a chart."""

    name: str
    color: str
    members: frozenset[str]


@dataclass(frozen=True)
class Names:
    """The names in a spec, in the order in which charts show them."""

    spec: Spec

    @cached_property
    def roles(self) -> dict[str, Role]:
        return tensor_roles(self.spec.info)

    @cached_property
    def tensors(self) -> dict[str, int]:
        """By role, and in each role the largest first: theirs are the plainest colours."""
        order = list(ROLES)
        sizes = {t: self._bits(t) for t in self.roles}
        ordered = sorted(self.roles, key=lambda t: (order.index(self.roles[t]), -sizes[t]))
        return {t: i for i, t in enumerate(ordered)}

    def _bits(self, tensor: str) -> float:
        einsum = self.spec.info.einsums[self.spec.info.users[tensor][0]]
        return footprint(einsum.accesses[tensor], einsum.bounds) * einsum.bits_per_value[tensor]

    @cached_property
    def components(self) -> dict[str, int]:
        """Memories, Tolls and computes, outermost first."""
        nodes = arch.flatten(self.spec.require_arch().nodes)
        return {str(n.name): i for i, n in enumerate(n for n in nodes if isinstance(n, arch.Component))}

    @cached_property
    def memories(self) -> list[str]:
        return arch.memory_names(self.spec.require_arch())

    def tensor_color(self, tensor: str) -> str:
        """The hue is its role, the shade its own."""
        role = self.roles[tensor]
        first = next(i for t, i in self.tensors.items() if self.roles[t] == role)
        return f"{role}:{self.tensors[tensor] - first}"

    @cached_property
    def computes(self) -> list[str]:
        return arch.computes(self.spec.require_arch())

    def component_color(self, component: str) -> str:
        """One colour for every chart: a grey of a compute, a step of the scale of every other component."""
        if component in self.computes:
            return f"computes:{self.computes.index(component)}"
        others = [name for name in self.components if name not in self.computes]
        return f"component:{others.index(component)}"

    def groups(self, amounts: Mapping[str, float]) -> list[TensorGroup]:
        """Series for what these tensors take: of each role the largest one by one, then the others together."""
        least = LEAST_SHARE * math.fsum(amounts.values())
        groups = []
        for role in ROLES:
            tensors = sorted((t for t in amounts if self.roles[t] == role), key=lambda t: -amounts[t])
            large = [t for t in tensors[:MOST_OF_A_ROLE] if amounts[t] >= least]
            if len(tensors) == len(large) + 1:
                large = tensors
            for tensor in sorted(large, key=lambda t: self.tensors[t]):
                groups.append(TensorGroup(tensor, self.tensor_color(tensor), frozenset({tensor})))
            small = tensors[len(large) :]
            if small:
                name = f"other {ROLES[role]} ({len(small)})" if large else f"{ROLES[role]} ({len(small)})"
                groups.append(TensorGroup(name, f"rest-{role}", frozenset(small)))
        return groups
