"""What tensors are to a workload: weights, caches or activations; and which part of an output's traffic is partial sums.

Charts colour by role. A spec says the roles by the names `weight` and `cache` that it gives tensors, and by what is
persistent; where it says nothing, they follow from what the results of all Einsums have in common.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fusiest.model import Anatomy, EinsumNest, Evaluation, footprint, operations_per_point
from fusiest.spec import EinsumInfo, NameSet, WorkloadInfo

Role: TypeAlias = Literal["weight", "cache", "activation"]
ROLES: dict[Role, str] = {"weight": "weights", "cache": "caches", "activation": "activations"}
"""In the order in which they are stacked, with what several of a kind are called."""

_CACHE = re.compile(r"cache|^past(_|$)", re.I)


def tensor_roles(info: WorkloadInfo) -> dict[str, Role]:
    """Per tensor. What an Einsum computes is an activation, and so is what goes into the workload, unless it stays the same.

    >>> from fusiest import load
    >>> roles = tensor_roles(load("gpt3_6.7B_kv_cache").info)
    >>> roles["WQ"], roles["K"], roles["K_new"], roles["I_in"]
    ('weight', 'cache', 'activation', 'activation')
    """
    common = frozenset.intersection(*(frozenset(e.accesses[e.output].ranks) for e in info.einsums.values()))
    return {str(t): "activation" if t in info.producers else _input_role(info, str(t), common) for t in info.users}


def _input_role(info: WorkloadInfo, tensor: str, common: frozenset[str]) -> Role:
    """Role of a tensor that no Einsum computes. `common`: ranks that all results have, those of the batch."""
    einsums = [info.einsums[name] for name in info.users[tensor]]
    batched = bool(common & frozenset(einsums[0].accesses[tensor].ranks))
    persistent = any(tensor in e.persistent for e in einsums)
    if _CACHE.search(tensor) or any(tensor in _named(e, "cache") for e in einsums) or (persistent and batched):
        return "cache"
    if persistent or any(tensor in _named(e, "weight") for e in einsums):
        return "weight"
    named = any(_named(e, "weight") or _named(e, "input") for e in einsums)
    factor = any(operations_per_point(e) == 2 for e in einsums)
    return "weight" if factor and common and not batched and not named else "activation"


def _named(einsum: EinsumInfo, name: str) -> frozenset[str]:
    """The tensors that a rename of this name stands for."""
    rename = einsum.names.local.get(name)
    return rename.members if isinstance(rename, NameSet) else frozenset()


@dataclass(frozen=True, slots=True)
class EnergyShare:
    """Joules of one action, or of the part of it that moves partial sums."""

    einsum: str
    component: str
    tensor: str
    """Empty for computing and leaking."""
    action: str
    partial: bool
    joules: float


def energy_shares(parts: Anatomy, evaluation: Evaluation) -> Iterator[EnergyShare]:
    """All energy. A finished value is written once, and read once where it goes further out: the rest of an output's
    traffic, in the Einsum that computes it, is partial sums."""
    for nest in parts.nests:
        name = str(nest.einsum.name)
        einsum = evaluation.einsums[name]
        for key, joules in einsum.energies.items():
            component, tensor, action = key
            partial = 0.0
            if tensor == nest.einsum.output and joules:
                partial = joules * _partial(nest, component, action, einsum.actions[key])
                yield EnergyShare(name, component, tensor, action, True, partial)
            yield EnergyShare(name, component, tensor, action, False, joules - partial)


def _partial(nest: EinsumNest, component: str, action: str, actions: float) -> float:
    """The share of an output's actions in a component that moves partial sums."""
    tensor = nest.tensors[nest.einsum.output]
    place = next(i for i, holder in enumerate(tensor.holders) if holder.component.name == component)
    holder = tensor.holders[place]
    bound = holder.component.actions[action]
    outwards = holder.component.direction[tensor.access.tensor] != "down" if holder.is_toll else place > 0
    if (action == "read" and not outwards) or not actions:
        return 1.0
    finished = footprint(tensor.access, nest.einsum.bounds) * nest.einsum.n_instances
    values = actions * bound.values_per_action[tensor.access.tensor] / bound.actions_scale
    return max(0.0, 1 - finished / values)
