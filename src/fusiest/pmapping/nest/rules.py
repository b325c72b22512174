"""Order of storage nodes, and the loops that may stand between them: the rules that both solvers ask for.

The lattice asks about tile shapes, the fused part and the general search about loops.

Rule 1 (sink).   [A in M] for m … → for m … [A in M]     where m indexes A fully and A is not backed here:
                 the same traffic, and the reservation would sink below m anyway. So no such m has a loop right below A
                 (proof 3).
Rule 2 (hoist).  for n … [A in M] → [A in M] for n …     where n does not index A: less traffic, the same space (proof 4).
                 So a loop right above A is over a variable that indexes A; or over one that indexes the next node up, B,
                 if that stays: [B] for n … [A] has less of B reserved than [B] [A] for n …
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fusiest.looptree import Storage, Toll
from fusiest.pmapping.lattice.tile_problem import Problem
from fusiest.pmapping.nest.constraints import pins_nodes
from fusiest.pmapping.nest.spatial import satisfies
from fusiest.spec import BoundComparison, Path, PlacementSets

BEYOND, NOWHERE = -1, -2
"""Codes in place of a memory. BEYOND: a memory beyond the next fanout. NOWHERE: none, the tensor is backed further in."""


class HeldTensor(NamedTuple):
    """A storage node: a tensor (by its number) in a memory (by its index on the path)."""

    memory: int
    tensor: int


@dataclass(frozen=True)
class Rules:
    """Pruning rules, each lossless; the tests switch them off to show it."""

    sink: bool = True
    hoist: bool = True


@dataclass(frozen=True)
class HolderSource:
    """Where a storage node gets its tensor from."""

    memory: int
    """The memory that holds it further out; or a code (`BEYOND`, `NOWHERE`)."""
    tolls: tuple[int, ...]
    """Tolls on the way."""
    kept: bool
    """Whether that memory must not send it again (`no_resend_to_below`)."""
    skips: bool = True
    """Whether that memory and the Tolls need not send an output's first pass (`skip_initial_output_write` of the memory)."""

    @property
    def stations(self) -> tuple[int, ...]:
        return self.tolls if self.memory in (BEYOND, NOWHERE) else (*self.tolls, self.memory)


@dataclass(frozen=True, eq=False)
class Stretch:
    """A memory group: storage nodes of neighbouring memories of the path, and where their tensors come from."""

    memories: range
    holders: tuple[HeldTensor, ...]
    """Storage nodes between loops."""
    on_top: frozenset[HeldTensor]
    """Storage nodes above all loops: of the outermost memory, or of persistent tensors."""
    sets: Mapping[int, PlacementSets]
    """Constraints that apply, per memory."""
    sources: Mapping[HeldTensor, HolderSource]
    """Where each storage node gets its tensor from."""
    outside: Mapping[int, HolderSource]
    """Where each tensor comes from, seen from outside of these memories."""

    def is_backing(self, holder: HeldTensor) -> bool:
        """Whether a storage node is its tensor's outermost."""
        return self.sources[holder].memory == NOWHERE


OrderOptions = tuple[frozenset[int], ...]
"""Per memory of a group, the `tensor_order_options` that the nodes placed so far agree with."""


@dataclass(frozen=True)
class Nest:
    """Rules and constraints of nests of one Einsum on one compute. Tensors by number, rank variables by name."""

    problem: Problem
    shared: frozenset[str]
    """Tensors that several Einsums use."""
    agreed: Mapping[str, frozenset[str]]
    """Per tensor, variables of loops above which neighbours may have to hold it (`agreed_loops`)."""
    rules: Rules
    free: frozenset[tuple[int, int]]
    """Pairs of memories whose nodes the lattice places together, as they may stand in any order."""
    beside: frozenset[tuple[int, int]]
    """Pairs of memories that stand in one `!Parallel`: neither is below the other."""
    common: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Per shared tensor, the only variables whose loops may stand above its backing node (`common_loops`); all if not
    given."""

    @property
    def path(self) -> Path:
        return self.problem.path

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the tensors."""
        return tuple(tensor.name for tensor in self.problem.tensors)

    @cached_property
    def number(self) -> dict[str, int]:
        """Number of each tensor, by name."""
        return {name: t for t, name in enumerate(self.names)}

    @cached_property
    def full(self) -> tuple[frozenset[str], ...]:
        """Per tensor, the variables that index it fully."""
        return tuple(self.path.einsum.accesses[name].fully_relevant for name in self.names)

    @cached_property
    def partial(self) -> tuple[frozenset[str], ...]:
        return tuple(self.path.einsum.accesses[name].partially_relevant for name in self.names)

    @cached_property
    def relevant(self) -> tuple[frozenset[str], ...]:
        return tuple(self.path.einsum.accesses[name].variables for name in self.names)

    def storage(self, holder: HeldTensor, on_top: bool = False) -> Storage:
        """Write a storage node for the LoopTree."""
        name = self.names[holder.tensor]
        persistent = on_top and name in self.path.einsum.persistent
        return Storage(tensors=(name,), component=self.path.components[holder.memory].name, persistent=persistent)

    def toll(self, toll: HeldTensor) -> Toll:
        return Toll(tensors=(self.names[toll.tensor],), component=self.path.components[toll.memory].name)

    # --- holders ------------------------------------------------------------------------------------------------------

    def is_shared(self, tensor: int) -> bool:
        return self.names[tensor] in self.shared

    def must_stand_above(self, outer: HeldTensor, inner: HeldTensor, stretch: Stretch) -> bool:
        """Whether one node must stand above the other: memories stand in hierarchy order, unless that is free.

        Even then, nodes of one tensor stand in that order, and nodes in which Einsums exchange tensors stand above
        those of memories further in.
        """
        if outer.memory >= inner.memory or (outer.memory, inner.memory) in self.beside:
            return False
        if outer.tensor == inner.tensor or (stretch.is_backing(outer) and self.is_shared(outer.tensor)):
            return True
        return all(stretch.sets[holder.memory].force_memory_hierarchy_order for holder in (outer, inner))

    def may_follow(self, holder: HeldTensor, placed: Set[HeldTensor], stretch: Stretch) -> bool:
        """Whether this node may be the next one from the inside out."""
        unplaced = (h for h in stretch.holders if h not in placed and h != holder)
        return not any(self.must_stand_above(holder, inner, stretch) for inner in unplaced)

    def followers(
        self, placed: Set[HeldTensor], options: OrderOptions, stretch: Stretch
    ) -> Iterator[tuple[HeldTensor, OrderOptions]]:
        """The nodes that may be next, from the inside out, each with the order options that it leaves."""
        for holder in stretch.holders:
            if holder not in placed and self.may_follow(holder, placed, stretch):
                after = self.options_left(options, placed, holder, stretch)
                if after is not None:
                    yield holder, after

    def orders(
        self, placed: frozenset[HeldTensor], options: OrderOptions, stretch: Stretch
    ) -> Iterator[tuple[HeldTensor, ...]]:
        """All orders in which nodes may stand above those that are placed, innermost first."""
        if placed.issuperset(stretch.holders):
            yield ()
        for holder, after in self.followers(placed, options, stretch):
            for others in self.orders(placed | {holder}, after, stretch):
                yield (holder, *others)

    def order_options(self, stretch: Stretch) -> OrderOptions:
        """Per memory, the `tensor_order_options` that its nodes above all loops agree with: none stands too far out."""
        options = []
        for m in stretch.memories:
            ranks = self._ranks(m, stretch)
            agreeing = set()
            for i, rank in enumerate(ranks):
                top = [rank[h.tensor] for h in stretch.on_top if h.memory == m and h.tensor in rank]
                nested = [rank[h.tensor] for h in stretch.holders if h.memory == m and h.tensor in rank]
                if all(outer <= inner for outer in top for inner in nested):
                    agreeing.add(i)
            options.append(frozenset(agreeing))
        return tuple(options)

    def options_left(
        self, options: OrderOptions, placed: Set[HeldTensor], holder: HeldTensor, stretch: Stretch
    ) -> OrderOptions | None:
        """Order options that remain once a node is placed; None if its memory has none left.

        An option goes if it puts another node of the memory, still to be placed further out, below this one.
        """
        at = holder.memory - stretch.memories.start
        above = [h.tensor for h in stretch.holders if h.memory == holder.memory and h != holder and h not in placed]
        ranks = self._ranks(holder.memory, stretch)
        remaining = frozenset(
            i
            for i in options[at]
            if holder.tensor not in ranks[i] or all(ranks[i].get(o, -1) <= ranks[i][holder.tensor] for o in above)
        )
        return (*options[:at], remaining, *options[at + 1 :]) if remaining else None

    def _ranks(self, memory: int, stretch: Stretch) -> list[dict[int, int]]:
        """Per option of a memory, the rank of each tensor that it lists. Without options, one that lists none."""
        sets = stretch.sets.get(memory)
        return [
            {self.number[name]: rank for rank, names in enumerate(option) for name in names if name in self.number}
            for option in (sets.tensor_order_options if sets is not None and sets.tensor_order_options else [()])
        ]

    def persistent_bits(self, holder: HeldTensor) -> float:
        """Bits that a persistent tensor takes throughout."""
        p, name = self.problem, self.names[holder.tensor]
        whole = p.tensors[holder.tensor].footprint([np.array(float(v.bound)) for v in p.variables])
        return float(whole * p.path.components[holder.memory].bits_per_value[name] * p.info.n_instances)

    def tile_shape(
        self, holder: HeldTensor, outer: Iterable[HeldTensor], stretch: Stretch
    ) -> tuple[BoundComparison, ...]:
        """`tile_shape` entries that the tile at a node must meet, given the nodes further out.

        They hold for the tile at the outermost node of the memory, and at any node above all loops. (`applies.top_fits`
        tests the latter before any search.)
        """
        shapes = stretch.sets[holder.memory].tile_shape
        if not shapes or holder in stretch.on_top:
            return shapes
        return () if any(h.memory == holder.memory for h in (*outer, *stretch.on_top)) else shapes

    # --- loops --------------------------------------------------------------------------------------------------------

    def barred_above(self, holder: HeldTensor, stretch: Stretch) -> frozenset[str]:
        """Variables that must have no loop above a storage node.

        for k … [A in M]     where k does not index A fully: A would be fetched again, which M may not ask for
        (`no_refetch_from_above`); or, where A is backed, computed again or held in part.
        """
        barred = self.unfused(holder, stretch)
        if stretch.is_backing(holder) or self.fetches_once(holder, stretch):
            barred |= self.path.einsum.bounds.keys() - self.full[holder.tensor]
        return barred

    def fetches_once(self, holder: HeldTensor, stretch: Stretch) -> bool:
        """Whether the node must not be filled again with the same values (`no_refetch_from_above`)."""
        return self.names[holder.tensor] in stretch.sets[holder.memory].no_refetch_from_above

    def unfused(self, holder: HeldTensor, stretch: Stretch) -> frozenset[str]:
        """Variables without a loop above an exchanged tensor: `no_fused_loops`, and those of loops that are not common."""
        if not stretch.is_backing(holder) or not self.is_shared(holder.tensor):
            return frozenset()
        bounds = frozenset(self.path.einsum.bounds)
        uncommon = bounds - self.common.get(self.names[holder.tensor], bounds)
        return stretch.sets[holder.memory].no_fused_loops | uncommon

    def barred_below(self, holder: HeldTensor, stretch: Stretch) -> frozenset[str]:
        """Variables that must have no loop between a storage node and the next one in of its tensor.

        [A in M] for k … [A in N]     where k does not index A fully: M would send A again (`no_resend_to_below`).
        """
        if not self.keeps(holder, stretch):
            return frozenset()
        return frozenset(self.path.einsum.bounds.keys() - self.full[holder.tensor])

    def keeps(self, holder: HeldTensor, stretch: Stretch) -> bool:
        """Whether the node must not send the same values again (`no_resend_to_below`)."""
        return self.names[holder.tensor] in stretch.sets[holder.memory].no_resend_to_below

    def sinks(self, holder: HeldTensor, stretch: Stretch) -> bool:
        """Whether rule 1 may move this node below loops that index its tensor fully."""
        return self.rules.sink and not stretch.is_backing(holder) and not pins_nodes(stretch.sets[holder.memory])

    def hoists(self, holder: HeldTensor, stretch: Stretch) -> bool:
        """Whether rule 2 may move loops from right above this node to below it."""
        return self.rules.hoist and not pins_nodes(stretch.sets[holder.memory]) and not self.keeps(holder, stretch)

    def is_useful(self, variable: str, above: int | None, below: int | None, sinks: bool) -> bool:
        """Whether the rules leave a loop over a variable between a node of tensor `above` and one of tensor `below`.

        `sinks`: rule 1 may move the upper one. `below` is None if rule 2 may not move loops past the lower one, or
        there is none; `above` is None if there is none between loops, or it is backing and its reservation stays where
        it is.
        """
        if sinks and above is not None and variable in self.full[above]:
            return False
        if below is None or variable in self.relevant[below]:
            return True
        return above is not None and variable in self.relevant[above]

    # --- tile shapes --------------------------------------------------------------------------------------------------

    def growing(
        self,
        holder: HeldTensor,
        placed: Set[HeldTensor],
        last: HeldTensor | None,
        kept: Set[int],
        stretch: Stretch,
    ) -> frozenset[int]:
        """Variables that may have a loop between the last node (None: rule 2 does not apply there) and the next."""
        below = last.tensor if last is not None else None
        above = holder.tensor if not stretch.is_backing(holder) else None
        growing = self._useful(above, below, self.sinks(holder, stretch))
        return self._resent(growing, placed, kept, stretch)

    def finishing(
        self, last: HeldTensor | None, kept: Set[int], stretch: Stretch, placed: Set[HeldTensor]
    ) -> frozenset[int]:
        """Variables that may have a loop between the last node and those on top."""
        growing = self._useful(None, last.tensor if last is not None else None, False)
        return self._resent(growing, placed, kept, stretch)

    def _useful(self, above: int | None, below: int | None, sinks: bool) -> frozenset[int]:
        variables = enumerate(self.problem.variables)
        return frozenset(
            v
            for v, variable in variables
            if variable.radix > 1 and self.is_useful(variable.members[0], above, below, sinks)
        )

    def _resent(
        self, growing: frozenset[int], placed: Set[HeldTensor], kept: Set[int], stretch: Stretch
    ) -> frozenset[int]:
        """Drop variables that `no_resend_to_below` forbids below each tensor's innermost node not yet placed."""
        for t, tensor in enumerate(self.problem.tensors):
            outer = [h for h in (*stretch.holders, *stretch.on_top) if h.tensor == t and h not in placed]
            if outer:
                fixed = self.keeps(max(outer), stretch)
            else:
                fixed = stretch.outside[t].kept or t in kept
            if fixed:
                growing &= tensor.full
        return growing

    def whole(self, holder: HeldTensor, stretch: Stretch) -> frozenset[int]:
        """Variables without a loop above the node."""
        barred = self.barred_above(holder, stretch)
        return frozenset(v for v, variable in enumerate(self.problem.variables) if barred.issuperset(variable.members))

    def allowed(self, holder: HeldTensor, placed: Set[HeldTensor], stretch: Stretch) -> np.ndarray | None:
        """Shapes at which the node may stand; None: all."""
        p = self.problem
        whole = self.whole(holder, stretch)
        comparisons = self.tile_shape(holder, (h for h in stretch.holders if h not in placed and h != holder), stretch)
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


# --- space ------------------------------------------------------------------------------------------------------------


def sinkings(full: int, partial: int, staying: int, everything: int | None = None) -> list[int]:
    """The sets of loops right below a storage node that its reservation can sink through, depending on their order.

    Sets of loops are bit masks: those that index the tensor fully, those that do so partially.

    [A] for m … for p …     where m indexes A fully, p partially
    Loops over m, none or some with one that rule 1 does not move the node itself below (`staying`); then one over p, or
    the end: a loop that does not index A, or the next node, which stands below `everything`, if that is given.

    >>> sinkings(0b001, 0b110, 0b001), sinkings(0b001, 0b010, 0b001, everything=0b011), sinkings(0b001, 0, 0)
    ([0, 1, 2, 4, 3, 5], [2, 3], [0])
    """
    runs = [run for run in _subsets(full) if not run or run & staying]
    stopped = runs if everything is None else [run for run in runs if run == everything]
    singles = [1 << i for i in range(partial.bit_length()) if partial >> i & 1]
    return [*stopped, *(run | last for run in runs for last in singles)]


def _subsets(mask: int) -> list[int]:
    """All subsets of a bit mask.

    >>> _subsets(0b101)
    [0, 1, 4, 5]
    """
    subsets, subset = [0], mask & -mask
    while subset:
        subsets.append(subset)
        subset = (subset - mask) & mask
    return subsets
