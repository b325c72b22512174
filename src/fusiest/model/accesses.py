"""How often each component moves each tensor, for one Einsum: exact counts of values, in total and on one instance.

A holder is refilled on every iteration of every loop above it. Data crosses a gap once per visit of the child below,
except that a reused Spatial loop counts only its first instance; partial sums are not read the first time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from fusiest.model.nest import EinsumNest, NestLoop, TensorNest
from fusiest.model.visits import Visits, elements, total_footprint, visits

AccessKey: TypeAlias = tuple[str, str, str]
"""(component, tensor, action); the tensor of a compute is ''."""


@dataclass(frozen=True, slots=True)
class Accesses:
    """Values moved per (component, tensor, action): over all instances, and on the busiest one."""

    total: dict[AccessKey, int]
    per_unit: dict[AccessKey, int]
    operations: int
    steps: int


def count_accesses(nest: EinsumNest) -> Accesses:
    """Counted once for all nests that differ only by names."""
    shape = _shape(nest)
    names, known = tuple(nest.tensors), _COUNTED.get(shape)
    if known is None:
        if len(_COUNTED) >= _MOST_COUNTED:
            _COUNTED.clear()
        known = _COUNTED[shape] = _CountedNest(names, _count(nest))
    return known.accesses if known.tensors == names else known.renamed(names)


class _CountedNest(NamedTuple):
    tensors: tuple[str, ...]
    accesses: Accesses

    def renamed(self, names: tuple[str, ...]) -> Accesses:
        new = dict(zip(self.tensors, names, strict=True))
        total, per_unit = _renamed(self.accesses.total, new), _renamed(self.accesses.per_unit, new)
        return replace(self.accesses, total=total, per_unit=per_unit)


def _renamed(counts: Mapping[AccessKey, int], new: Mapping[str, str]) -> dict[AccessKey, int]:
    return {(component, new[tensor], action): n for (component, tensor, action), n in counts.items()}


_COUNTED: dict[object, _CountedNest] = {}
_MOST_COUNTED = 10_000


def _shape(nest: EinsumNest) -> object:
    """All that counts depend on, with numbers in place of names of tensors, variables and loops."""
    variables = {variable: i for i, variable in enumerate(nest.reach)}
    loops = {loop.number: i for i, loop in enumerate(nest.loops)}
    return (
        nest.einsum.is_copy_operation,
        nest.path.compute.skip_initial_output_write,
        tuple(nest.reach.values()),
        tuple((variables[x.variable], x.tiling, x.window_iterations, x.is_spatial) for x in nest.loops),
        tuple(_tensor_shape(nest, tensor, variables, loops) for tensor in nest.tensors.values()),
    )


def _tensor_shape(
    nest: EinsumNest, tensor: TensorNest, variables: Mapping[str, int], loops: Mapping[int, int]
) -> tuple[object, ...]:
    name, components = tensor.access.tensor, [holder.component for holder in tensor.holders]
    return (
        tensor.access.output,
        tuple(tuple((variables[v], a) for v, a in affine.coefficients.items()) for affine in tensor.access.ranks.values()),
        tuple((c.name, c.kind, c.skip_initial_output_write, c.direction.get(name)) for c in components),
        tuple(tuple((loops[x.number], is_reused(nest, tensor, x)) for x in gap) for gap in tensor.gaps),
    )  # fmt: skip


def _count(nest: EinsumNest) -> Accesses:
    if nest.einsum.is_copy_operation:
        return _copy(nest)
    total: dict[AccessKey, int] = {}
    per_unit: dict[AccessKey, int] = {}
    for tensor in nest.tensors.values():
        total.update(_tensor(nest, tensor, per_unit=False))
        per_unit.update(_tensor(nest, tensor, per_unit=True))
    spatial = frozenset(loop.number for loop in nest.loops if loop.is_spatial)
    temporal = frozenset(loop.number for loop in nest.loops if not loop.is_spatial)
    operations = _points(nest, temporal | spatial, frozenset())
    steps = _points(nest, temporal, spatial)
    return Accesses(total, per_unit, operations, steps)


def _all_visits(nest: EinsumNest, counted: frozenset[int], first_only: frozenset[int]) -> dict[str, Visits]:
    return {v: visits(nest.chains.get(v, ()), bound, counted, first_only) for v, bound in nest.reach.items()}


def _points(nest: EinsumNest, counted: frozenset[int], first_only: frozenset[int]) -> int:
    """Number of points of the iteration space that these loops reach."""
    return math.prod(v.count for v in _all_visits(nest, counted, first_only).values())


def _moved(nest: EinsumNest, tensor: TensorNest, parent: int, child: int, per_unit: bool, first_pass: bool) -> int:
    """Values that cross between holder `parent` and the tiles of holder `child` at or below it.

    Reused Spatial loops between the two count once. On one unit, Spatial loops above `parent` stay at their first instance.
    The first pass over an output is at index 0 of every Temporal loop that does not index it fully.
    """
    counted: set[int] = set()
    first_only: set[int] = set()
    for gap, loops in enumerate(tensor.gaps[: child + 1]):
        for loop in loops:
            if loop.is_spatial and gap <= parent:
                once = per_unit
            elif loop.is_spatial:
                once = is_reused(nest, tensor, loop)
            else:
                once = first_pass and loop.variable not in tensor.access.fully_relevant
            (first_only if once else counted).add(loop.number)
    by_variable = _all_visits(nest, frozenset(counted), frozenset(first_only))
    return total_footprint(tensor.access, by_variable)


def is_reused(nest: EinsumNest, tensor: TensorNest, loop: NestLoop) -> bool:
    """Whether one transfer serves all iterations of a loop: it is a multicast, or a reduction on the way."""
    if loop.component is None or loop.variable in tensor.access.variables:
        return False
    owner = nest.path.component(loop.component)
    assert owner is not None
    return tensor.access.tensor in next(d for d in owner.dimensions if d.name == loop.dimension).may_reuse


def _tensor(nest: EinsumNest, tensor: TensorNest, per_unit: bool) -> dict[AccessKey, int]:
    """Reads and writes of every holder of one tensor."""
    holders = tensor.holders
    name, output, above = tensor.access.tensor, tensor.access.output, holders[0].component
    counts: dict[AccessKey, int] = {}
    for j, holder in enumerate(holders):
        child = next((i for i in range(j + 1, len(holders)) if not holders[i].is_toll), len(holders))
        below = holders[child].component if child < len(holders) else nest.path.compute
        pulled = _moved(nest, tensor, j, child, per_unit, first_pass=False)
        above = holder.component if not holder.is_toll else above  # what a Toll passes on is what that memory sends
        skipped = 0
        if output and below.skip_initial_output_write and above.skip_initial_output_write:
            skipped = _moved(nest, tensor, j, child, per_unit, first_pass=True)
        if holder.is_toll:
            direction = holder.component.direction[name]
            down = pulled - skipped if direction != "up" else 0
            up = pulled if output and direction != "down" else 0
            counts[holder.component.name, name, "read"] = down + up
            continue
        reads, writes = pulled - skipped, pulled if output else 0
        if j > 0:
            filled = _moved(nest, tensor, j, j, per_unit, first_pass=False)
            reads += filled if output else 0
            writes += filled
            if output and holder.component.skip_initial_output_write:
                writes -= _moved(nest, tensor, j, j, per_unit, first_pass=True)
        counts[holder.component.name, name, "read"] = reads
        counts[holder.component.name, name, "write"] = writes
    return counts


def _copy(nest: EinsumNest) -> Accesses:
    """Each element is read once where the input is backed and written once where the output is; nothing within one memory."""
    source = next(t for t in nest.tensors.values() if not t.access.output)
    target = nest.tensors[nest.einsum.output]
    name = source.access.tensor
    total: dict[AccessKey, int] = {}
    per_unit: dict[AccessKey, int] = {}
    moves = source.holders[0].component.name != target.holders[0].component.name
    for tensor, action in ((source, "read"), (target, "write")):
        component = tensor.holders[0].component.name
        first_only = frozenset(loop.number for loop in tensor.gaps[0] if loop.is_spatial)
        counted = frozenset(loop.number for loop in nest.loops) - first_only
        extents = {v: n.extent for v, n in _all_visits(nest, counted, first_only).items()}
        for movement in ("read", "write"):
            total.setdefault((component, name, movement), 0)
            per_unit.setdefault((component, name, movement), 0)
        if moves:
            total[component, name, action] = elements(tensor.access, nest.reach)
            per_unit[component, name, action] = elements(tensor.access, extents)
    return Accesses(total, per_unit, 0, 0)
