"""What each holder of a mapping moves and costs: actions of the evaluation, taken back to the nodes they belong to."""

from __future__ import annotations

from dataclasses import dataclass

from fusiest.model import Anatomy, EinsumNest, Evaluation, Holder, reservations


@dataclass(frozen=True, slots=True)
class HolderCost:
    """One tensor in one component: space per instance while it is there, data in and out of it, and joules."""

    held_bits: float
    moved_bits: float
    energy: float


def holder_costs(parts: Anatomy, evaluation: Evaluation) -> dict[tuple[int, str], HolderCost]:
    """Per node of the tree and tensor. A holder above several Einsums adds up what they do; its space is the largest."""
    costs: dict[tuple[int, str], HolderCost] = {}
    for nest in parts.nests:
        space = {(r.memory, r.tensor): r.bits for r in reservations(nest)}
        for holder in nest.holders:
            before = costs.get((holder.number, holder.tensor), HolderCost(0, 0, 0))
            moved, energy = _moved(parts, evaluation, nest, holder)
            held = space.get((holder.component.name, holder.tensor), 0)
            costs[holder.number, str(holder.tensor)] = HolderCost(
                max(before.held_bits, held), before.moved_bits + moved, before.energy + energy
            )
    return costs


def _moved(parts: Anatomy, evaluation: Evaluation, nest: EinsumNest, holder: Holder) -> tuple[float, float]:
    """Bits that an Einsum moves in and out of a holder, and the joules that this takes."""
    einsum = evaluation.einsums[nest.einsum.name]
    name, actions = str(holder.tensor), ["read", "write"]
    if nest.einsum.is_copy_operation:
        # A copy's data goes by the input's name: read where that is backed, written where the output is.
        name = next(str(t) for t in nest.einsum.accesses if t != nest.einsum.output)
        actions = ["write" if holder.tensor == nest.einsum.output else "read"]
        if nest.tensors[holder.tensor].holders[0] != holder:
            return 0, 0
    moved = energy = 0.0
    for action in actions:
        key = holder.component.name, name, action
        if key in einsum.actions:
            moved += bits_moved(parts, evaluation, nest.einsum.name, key)
            energy += einsum.energies[key]
    return moved, energy


def bits_moved(parts: Anatomy, evaluation: Evaluation, einsum: str, key: tuple[str, str, str]) -> float:
    """The data behind a number of read or write actions."""
    component, tensor, action = key
    bound = parts.bound[einsum][component]
    scale = bound.actions[action].actions_scale
    values = evaluation.einsums[einsum].actions[key] * bound.values_per_action(action, tensor)
    return values * bound.bits_per_value[tensor] / scale if scale else 0.0
