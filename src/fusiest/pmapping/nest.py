"""What may stand where in a nest: holders, their orders, and the loops between them.

Rule 1 (sink).   [A in M] for m … → for m … [A in M]     where m indexes A fully and A is not backed here:
                 the same traffic, and the reservation would sink below m anyway. So no such m grows right below A.
Rule 2 (hoist).  for n … [A in M] → [A in M] for n …     where n does not index A: less traffic, the same space.
                 So a variable that grows right above A indexes A; except one that is partially relevant to the next
                 holder up, whose reservation it may lower.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fusiest.pmapping.problem import Problem
from fusiest.pmapping.spatial import satisfies
from fusiest.spec import PlacementSets

BEYOND, NOWHERE = -1, -2
"""In place of a memory: one beyond the next fanout; none, the tensor is backed further in."""


class HeldTensor(NamedTuple):
    """A holder: a tensor (by its number) in a memory (by its index on the path)."""

    memory: int
    tensor: int


@dataclass(frozen=True)
class Rules:
    """Pruning rules, each lossless; the tests switch them off to show it."""

    sink: bool = True
    hoist: bool = True


@dataclass(frozen=True)
class HolderSource:
    """Where a tensor comes from: the memory that holds it further out, the Tolls on the way."""

    memory: int
    tolls: tuple[int, ...]
    kept: bool
    """Whether that memory must not send it again (`no_resend_to_below`)."""

    @property
    def stations(self) -> tuple[int, ...]:
        return self.tolls if self.memory in (BEYOND, NOWHERE) else (*self.tolls, self.memory)


@dataclass(frozen=True, eq=False)
class Stretch:
    """The holders of some neighbouring memories of the path, and where tensors come from further out."""

    memories: range
    holders: tuple[HeldTensor, ...]
    """Between loops."""
    on_top: frozenset[HeldTensor]
    """Above all loops: in the outermost memory, or of persistent tensors."""
    sets: Mapping[int, PlacementSets]
    """Per memory, the constraints that apply."""
    sources: Mapping[HeldTensor, HolderSource]
    """Where each holder gets its tensor from."""
    outside: Mapping[int, HolderSource]
    """Per tensor, where it comes from seen from outside of these memories."""

    def is_backing(self, holder: HeldTensor) -> bool:
        """Whether a holder is its tensor's outermost."""
        return self.sources[holder].memory == NOWHERE


@dataclass(frozen=True)
class Nest:
    """What may stand where, for one Einsum on one compute."""

    problem: Problem
    shared: frozenset[str]
    rules: Rules
    free: frozenset[tuple[int, int]]
    """Pairs of memories whose holders may stand in any order."""
    beside: frozenset[tuple[int, int]]
    """Those of them that stand in one `!Parallel`: neither is below the other."""

    # --- holders ------------------------------------------------------------------------------------------------------

    def is_shared(self, tensor: int) -> bool:
        return self.problem.tensors[tensor].name in self.shared

    def must_stand_above(self, outer: HeldTensor, inner: HeldTensor, stretch: Stretch) -> bool:
        """Memories in hierarchy order, unless that is free: even then holders of one tensor, and what Einsums exchange."""
        if outer.memory >= inner.memory:
            return False
        if (outer.memory, inner.memory) not in self.free or outer.tensor == inner.tensor:
            return True
        if (outer.memory, inner.memory) in self.beside:
            return False
        return stretch.is_backing(outer) and self.is_shared(outer.tensor)

    def may_follow(self, holder: HeldTensor, placed: Set[HeldTensor], stretch: Stretch) -> bool:
        """Whether the next holder from the inside out may be this one."""
        left = (h for h in stretch.holders if h not in placed and h != holder)
        return not any(self.must_stand_above(holder, other, stretch) for other in left)

    def orders(
        self,
        holders: tuple[HeldTensor, ...],
        placed: frozenset[HeldTensor],
        options: tuple[frozenset[int], ...],
        stretch: Stretch,
    ) -> Iterator[tuple[HeldTensor, ...]]:
        """Orders in which holders may stand above those that are placed, innermost first."""
        left = [h for h in holders if h not in placed]
        if not left:
            yield ()
        for holder in left:
            after = self.options_left(options, placed, holder, stretch)
            if after is not None and self.may_follow(holder, placed, stretch):
                for others in self.orders(holders, placed | {holder}, after, stretch):
                    yield (holder, *others)

    def order_options(self, stretch: Stretch) -> tuple[frozenset[int], ...]:
        """Per memory, the `tensor_order_options` that its holders above all loops agree with: none stands too far out."""
        found = []
        for m in stretch.memories:
            ranks = self._ranks(m, stretch)
            own = set()
            for i, rank in enumerate(ranks):
                top = [rank[h.tensor] for h in stretch.on_top if h.memory == m and h.tensor in rank]
                nested = [rank[h.tensor] for h in stretch.holders if h.memory == m and h.tensor in rank]
                if all(outer <= inner for outer in top for inner in nested):
                    own.add(i)
            found.append(frozenset(own))
        return tuple(found)

    def options_left(
        self, options: tuple[frozenset[int], ...], placed: Set[HeldTensor], holder: HeldTensor, stretch: Stretch
    ) -> tuple[frozenset[int], ...] | None:
        """Of these options, those with nothing to be placed further out than a holder that must stand below it; None if
        that leaves its memory none."""
        at = holder.memory - stretch.memories.start
        above = [h.tensor for h in stretch.holders if h.memory == holder.memory and h != holder and h not in placed]
        ranks = self._ranks(holder.memory, stretch)
        left = frozenset(
            i
            for i in options[at]
            if holder.tensor not in ranks[i] or all(ranks[i].get(o, -1) <= ranks[i][holder.tensor] for o in above)
        )
        return (*options[:at], left, *options[at + 1 :]) if left else None

    def _ranks(self, memory: int, stretch: Stretch) -> list[dict[int, int]]:
        """Per option of a memory, the rank of each tensor that it lists. Without options, one that lists none."""
        sets = stretch.sets.get(memory)
        number = {tensor.name: t for t, tensor in enumerate(self.problem.tensors)}
        return [
            {number[name]: rank for rank, part in enumerate(option) for name in part if name in number}
            for option in (sets.tensor_order_options if sets is not None and sets.tensor_order_options else [()])
        ]

    def persistent_bits(self, holder: HeldTensor) -> float:
        """Bits that a persistent tensor takes throughout."""
        p = self.problem
        name = p.tensors[holder.tensor].name
        whole = p.tensors[holder.tensor].footprint([np.array(float(v.bound)) for v in p.variables])
        return float(whole * p.path.components[holder.memory].bits_per_value[name] * p.info.n_instances)

    # --- loops between holders ----------------------------------------------------------------------------------------

    @cached_property
    def _loops(self) -> frozenset[int]:
        return frozenset(v for v, variable in enumerate(self.problem.variables) if variable.radix > 1)

    def growing(
        self,
        holder: HeldTensor,
        placed: Set[HeldTensor],
        last: HeldTensor | None,
        kept: Set[int],
        stretch: Stretch,
    ) -> frozenset[int]:
        """Variables that may have a loop between the last holder (None: rule 2 does not apply there) and the next."""
        tensors = self.problem.tensors
        growing = self._loops
        if self.sinks(holder, stretch):
            growing -= tensors[holder.tensor].full
        if last is not None:
            growing &= tensors[last.tensor].relevant | tensors[holder.tensor].partial
        return self._resent(growing, placed, kept, stretch)

    def finishing(
        self, last: HeldTensor | None, kept: Set[int], stretch: Stretch, placed: Set[HeldTensor]
    ) -> frozenset[int]:
        """Variables that may have a loop between the last holder and those on top."""
        growing = self._loops
        if last is not None:
            growing &= self.problem.tensors[last.tensor].relevant
        return self._resent(growing, placed, kept, stretch)

    def _resent(
        self, growing: frozenset[int], placed: Set[HeldTensor], kept: Set[int], stretch: Stretch
    ) -> frozenset[int]:
        """`no_resend_to_below`: only loops that index a tensor fully stand between such a holder and the next one in."""
        for t, tensor in enumerate(self.problem.tensors):
            outer = [h for h in (*stretch.holders, *stretch.on_top) if h.tensor == t and h not in placed]
            if outer:
                fixed = self.keeps(max(outer), stretch)
            else:
                fixed = stretch.outside[t].kept or t in kept
            if fixed:
                growing &= tensor.full
        return growing

    def sinks(self, holder: HeldTensor, stretch: Stretch) -> bool:
        """Whether rule 1 may move this holder below loops that index its tensor fully."""
        return self.rules.sink and not stretch.is_backing(holder) and not stretch.sets[holder.memory].tile_shape

    def hoists(self, holder: HeldTensor, stretch: Stretch) -> bool:
        """Whether rule 2 may move loops from right above this holder to below it."""
        return self.rules.hoist and not stretch.sets[holder.memory].tile_shape and not self.keeps(holder, stretch)

    def keeps(self, holder: HeldTensor, stretch: Stretch) -> bool:
        """`no_resend_to_below`: whether the holder is not to be read again and again."""
        return self.problem.tensors[holder.tensor].name in stretch.sets[holder.memory].no_resend_to_below

    def whole(self, holder: HeldTensor, stretch: Stretch) -> frozenset[int]:
        """Variables without a loop above the holder."""
        tensor, sets = self.problem.tensors[holder.tensor], stretch.sets[holder.memory]
        backing, whole = stretch.is_backing(holder), set[int]()
        if backing or tensor.name in sets.no_refetch_from_above:
            whole |= set(range(len(self.problem.variables))) - tensor.full
        if backing and tensor.name in self.shared:
            whole |= {v for v, var in enumerate(self.problem.variables) if sets.no_fused_loops.issuperset(var.members)}
        return frozenset(whole)

    def allowed(self, holder: HeldTensor, placed: Set[HeldTensor], stretch: Stretch) -> np.ndarray | None:
        """Shapes at which the holder may stand; None: all."""
        p = self.problem
        whole = self.whole(holder, stretch)
        comparisons = stretch.sets[holder.memory].tile_shape if self._outermost(holder, placed, stretch) else ()
        if not whole and not comparisons:
            return None
        allowed = np.ones(p.shapes, np.bool_)
        for v in whole:
            allowed &= p.complete[v]
        if comparisons:
            for shape in np.flatnonzero(allowed):
                extents = {
                    v.members[0]: int(v.divisors[d]) for v, d in zip(p.variables, p.digits[:, shape], strict=True)
                }
                allowed[shape] = all(satisfies(c, extents) for c in comparisons)
        return allowed

    def _outermost(self, holder: HeldTensor, placed: Set[HeldTensor], stretch: Stretch) -> bool:
        """Whether no holder of the same memory stands further out."""
        left = (h for h in stretch.holders if h not in placed and h != holder)
        return all(h.memory != holder.memory for h in (*left, *stretch.on_top))
