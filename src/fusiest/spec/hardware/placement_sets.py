"""Which tensors a memory or Toll must, may and must not hold, evaluated for one Einsum.

The sets depend on what outer memories were chosen to hold: `names` carries those choices. What passes a Toll comes from
further out: its sets are about tensors that a memory above it holds, and say nothing of others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from fusiest.base.errors import SpecError
from fusiest.spec.hardware import architecture as arch
from fusiest.spec.hardware.architecture import WrittenComparison
from fusiest.spec.language.expressions import name_set, number
from fusiest.spec.language.scope import EinsumNames, tensor_set


@dataclass(frozen=True, slots=True)
class BoundComparison:
    variables: frozenset[str]
    operator: str
    value: float


PlacementSets: TypeAlias = arch.Tensors[frozenset[str], BoundComparison]
"""What a memory or Toll must and may do with an Einsum's tensors, given what outer memories hold."""


def placement_sets(node: arch.Memory | arch.TollStation, names: EinsumNames, above: frozenset[str]) -> PlacementSets:
    """Evaluate a node's `tensors` section; `names` already holds the outer memories' chosen sets."""
    tensors = node.tensors
    names = names.choose("Above", above)

    def members(expression: str | None, what: str, default: Iterable[str] = ()) -> frozenset[str]:
        if expression is None:
            return frozenset(default)
        return tensor_set(expression, names, f"{what} of {node.name}").members

    back = members(tensors.back, "back")
    keep = members(tensors.keep, "keep") | back
    may_keep = members(tensors.may_keep, "may_keep", names.universe.tensors if tensors.keep is None else ()) - keep
    if isinstance(node, arch.TollStation):
        keep, may_keep = keep & above, may_keep & above
    options = tuple(
        tuple(members(part, "tensor_order_options") for part in option) for option in tensors.tensor_order_options
    )
    for option, written in zip(options, tensors.tensor_order_options, strict=True):
        listed = [t for part in option for t in part]
        if len(set(listed)) < len(listed):
            raise SpecError(
                f"the sets of an option of tensor_order_options of {node.name} must be disjoint", written[0]
            )
    return arch.Tensors(
        keep=keep,
        may_keep=may_keep,
        back=back,
        tile_shape=tuple(bind_comparison(c, names) for c in tensors.tile_shape),
        no_refetch_from_above=members(tensors.no_refetch_from_above, "no_refetch_from_above"),
        no_resend_to_below=members(tensors.no_resend_to_below, "no_resend_to_below"),
        no_fused_loops=_variables(tensors.no_fused_loops, names) if tensors.no_fused_loops else frozenset(),
        tensor_order_options=options,
        force_memory_hierarchy_order=tensors.force_memory_hierarchy_order,
    )


def bind_comparison(comparison: WrittenComparison, names: EinsumNames) -> BoundComparison:
    return BoundComparison(
        _variables(comparison.expression, names), comparison.operator, number(comparison.value, names, "value")
    )


def _variables(expression: str, names: EinsumNames) -> frozenset[str]:
    """A set of rank variables; `All` and `Nothing` mean all and none of the Einsum's."""
    evaluated = name_set(expression, names, "expression")
    if evaluated.kind == "variable":
        return evaluated.members
    if evaluated.members not in (frozenset(), names.universe.tensors.keys()):
        raise SpecError(f"'{expression}' is a set of tensors; add .rank_variables", expression)
    return names.universe.variables if evaluated.members else frozenset()
