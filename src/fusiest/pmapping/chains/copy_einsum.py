"""Pmappings of a copy Einsum: a degenerate nest of the general search, of two backing nodes and nothing else.

Other storage nodes of a copy cost nothing and hold nothing, so none are written; below the two come loops to single
elements. Each element is read once and written once. Within one memory no element moves, and both tensors share their
space.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fusiest.base.errors import SpecError
from fusiest.model import elements, footprint
from fusiest.pmapping.chains.chain_search import GeneralSearch
from fusiest.pmapping.chains.combine import Partial
from fusiest.pmapping.chains.nest_tiles import GeneralNests
from fusiest.pmapping.chains.orders import skeletons
from fusiest.pmapping.chains.skeleton import Skeleton
from fusiest.pmapping.chains.terms import HolderBits, Terms
from fusiest.pmapping.chains.tied_variables import Usages
from fusiest.pmapping.chains.tile_chains import COUNTED, FIRST, PAST
from fusiest.pmapping.nest.constraints import of_copies
from fusiest.pmapping.nest.rules import HeldTensor, Nest
from fusiest.pmapping.pareto import Floats
from fusiest.pmapping.placements.placement import Placement
from fusiest.pmapping.table import TablePiece
from fusiest.spec import BoundDimension, Path


def copy_placements(path: Path, placements: tuple[Placement, ...]) -> tuple[Placement, ...]:
    """All ways to back the two tensors, each once, with the constraints that copies obey."""
    ways: dict[Placement, None] = {}
    for placement in placements:
        held = [frozenset[str]() for _ in path.components]
        for tensor in path.einsum.accesses:
            held[placement.holders(tensor, path)[0]] |= {tensor}
        sets = (
            of_copies(memory_sets) if memory_sets is not None and tensors else None
            for memory_sets, tensors in zip(placement.sets, held, strict=True)
        )
        ways[Placement(tuple(held), tuple(sets))] = None
    return tuple(ways)


class CopySearch(GeneralSearch):
    """A copy Einsum on one compute."""

    def pieces(self, placement: Placement) -> Iterator[TablePiece]:
        """Every way to exchange its two tensors, backed as given."""
        _check(self.nest, placement)
        orders = skeletons(self.nest, placement, self.imperfect, _CopySkeleton)
        for skeleton in sorted(orders, key=lambda skeleton: skeleton.holders):
            slots = {v: skeleton.slots(v) for v in self.path.einsum.bounds}
            yield from _CopyNests(self, skeleton, slots, dict.fromkeys(skeleton.gaps, frozenset())).pieces()

    def _usages(self) -> Usages:
        """No usages: no `min_usage` applies to a copy."""
        return None


def _check(nest: Nest, placement: Placement) -> None:
    path = nest.path
    backing = {tensor: placement.holders(tensor, path)[0] for tensor in path.einsum.accesses}
    for tensor, index in backing.items():
        if tensor in path.einsum.persistent and index > 0:
            raise SpecError(
                f"copy Einsum {path.einsum.name}: persistent tensor {tensor} may be backed in "
                f"{path.components[index].name}: not supported yet"
            )
        if path.components[0].dimensions and tensor in nest.shared:
            raise SpecError(
                f"shared tensor {tensor} of Einsum {path.einsum.name} may be backed in {path.components[index].name}, below a "
                "fanout, as is every memory: not supported yet"
            )


@dataclass(frozen=True)
class _CopySkeleton(Skeleton):
    """A copy's nest without its tiles. All loops above a storage node count as fused."""

    def is_exchanged(self, holder: HeldTensor) -> bool:
        """Whether Einsums exchange a tensor at this node.

        That includes a tensor of the copy alone that lies in the space of an exchanged one, if that may be too small
        for it.
        """
        if super().is_exchanged(holder):
            return True
        beside = any(
            super(_CopySkeleton, self).is_exchanged(h) and h.memory == holder.memory for _, h in self.everywhere
        )
        return beside and self._is_uneven(holder.memory) and not self.is_persistent(holder)

    def _is_uneven(self, memory: int) -> bool:
        """Whether loops may leave its two tensors tiles of different sizes in a memory."""
        info, bits = self.path.einsum, self.path.components[memory].bits_per_value
        ranks = (affine for access in info.accesses.values() for affine in access.ranks.values())
        plain = all(abs(a) == 1 for affine in ranks for a in affine.coefficients.values())
        return not plain or len({(footprint(a, info.bounds), bits[t]) for t, a in info.accesses.items()}) > 1

    @cached_property
    def last_fused(self) -> int:
        return len(self.holders) - 1

    @cached_property
    def dimensions(self) -> tuple[tuple[int, BoundDimension], ...]:
        """Fanout dimensions, but for those below both nodes, which do not matter."""
        innermost = max(h.memory for _, h in self.everywhere)
        return tuple((level, d) for level, d in super().dimensions if level <= innermost)

    def may_loop(self, variable: str, gap: int, but: Set[int] = frozenset()) -> bool:
        """Whether a Temporal loop may stand in a gap: not between two nodes of one memory, where nothing moves."""
        in_one = 0 < gap < len(self.holders) and self.holders[gap].memory == self.holders[gap - 1].memory
        return not in_one and super().may_loop(variable, gap, but)

    def may_spread(self, variable: str, dimension: int) -> bool:
        """Whether a Spatial loop may use a dimension. It is a loop of both nodes, so it replicates no tensor."""
        return super().may_spread(variable, dimension) and self.may_loop(variable, self.dimension_gaps[dimension])


class _CopyNests(GeneralNests):
    """All tiles of a copy whose tensors are backed as given."""

    @cached_property
    def backing(self) -> dict[bool, tuple[int, HeldTensor]]:
        """Place and node of the source and (True) of the output."""
        return {self.search.nest.problem.tensors[h.tensor].output: (i, h) for i, h in self.skeleton.everywhere}

    @property
    def in_one(self) -> bool:
        return len({h.memory for _, h in self.backing.values()}) == 1

    @property
    def _innermost(self) -> int:
        return max((place for place, h in self.backing.values() if self.skeleton.is_exchanged(h)), default=-1)

    def _charge(self, terms: Terms) -> None:
        """Elements that one instance of a memory reads or writes: with Spatial loops above it at index 0."""
        for output, (place, holder) in self.backing.items():
            queries = (
                "".join(PAST if slot.gap > place else COUNTED if slot.dimension is None else FIRST for slot in v_slots)
                for v_slots in self.slots.values()
            )
            moved = self.search.footprints.products(holder.tensor, tuple(q.rstrip(PAST) for q in queries), whole=True)
            terms.add(moved, {("moved", output): 1.0})

    def _energy_latency(self, terms: Terms, values: Floats, state: Partial) -> tuple[Floats, Floats]:
        info, path = self.search.path.einsum, self.search.path
        # A `total_latency` may say that a component is busy even if it does nothing.
        idle = max(c.latency({}) for c in path.components if c.kind != "container")
        energy, latency = 0.0, np.full(len(values), float(idle))
        names = self.search.nest.names
        source = names[self.backing[False][1].tensor]
        for output, action in () if self.in_one else ((False, "read"), (True, "write")):
            component = path.components[self.backing[output][1].memory]
            a = component.actions[action]
            per_element = a.actions_scale / a.values_per_action[source]
            access = info.accesses[names[self.backing[output][1].tensor]]
            energy += elements(access, info.bounds) * per_element * a.energy
            counts, inverse = np.unique(values[:, terms.criteria["moved", output]], return_inverse=True)
            seconds = np.array([component.latency({action: n * per_element}) for n in counts.tolist()])
            latency = np.maximum(latency, seconds[inverse.reshape(-1)])
        return (energy + self._watts(state) * latency) * info.n_instances, latency * info.n_instances

    def _reservations(self) -> list[HolderBits]:
        """Reservations of both storage nodes: in one memory both share the space of the larger.

        If one is exchanged, joining counts the space beyond that of the other, if the other is persistent.
        """
        held = super()._reservations()
        if self.in_one:
            exchanged = any(self.skeleton.is_exchanged(h) for _, h in self.backing.values())
            persistent = [r for r in held if not self.skeleton.is_exchanged(r.holder) and self._room(r.holder)[0]]
            held = persistent if exchanged else [max(held, key=lambda reservation: self._room(reservation.holder))]
        return held

    def _room(self, holder: HeldTensor) -> tuple[bool, float]:
        path, name = self.search.path, self.search.nest.names[holder.tensor]
        elements_held = footprint(path.einsum.accesses[name], path.einsum.bounds)
        return name in path.einsum.persistent, elements_held * path.components[holder.memory].bits_per_value[name]
