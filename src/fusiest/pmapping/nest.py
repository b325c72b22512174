"""What may stand where in the nests of one placement: its holders, their orders, the loops between them.

Rule 1 (sink).   [A in M] for m … → for m … [A in M]     where m indexes A fully and A is not backed here:
                 the same traffic, and the reservation would sink below m anyway. So no such m grows right below A.
Rule 2 (hoist).  for n … [A in M] → [A in M] for n …     where n does not index A: less traffic, the same space.
                 So a variable that grows right above A indexes A; except one that is partially relevant to the next
                 holder up, whose reservation it may lower.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from fusiest.pmapping.layers import Holder
from fusiest.pmapping.placement import Placement
from fusiest.pmapping.problem import Problem
from fusiest.pmapping.spatial import satisfies


@dataclass(frozen=True)
class Rules:
    """Pruning rules, each lossless; the tests switch them off to show it."""

    sink: bool = True
    hoist: bool = True


@dataclass(frozen=True)
class Nest:
    """Holders are numbered (component, tensor), from the outside in; `placed`: tensors of a memory that are already placed."""

    problem: Problem
    placement: Placement
    shared: frozenset[str]
    rules: Rules

    @functools.cached_property
    def chains(self) -> list[list[int]]:
        """Per tensor, the memories that hold it."""
        return [self.placement.holders(t.name, self.problem.path) for t in self.problem.tensors]

    @functools.cached_property
    def persistent(self) -> list[bool]:
        return [t.name in self.problem.info.persistent for t in self.problem.tensors]

    @functools.cached_property
    def on_top(self) -> list[bool]:
        """Per tensor, whether its backing holder stands above all loops."""
        return [kept or chain[0] == 0 for kept, chain in zip(self.persistent, self.chains, strict=True)]

    @functools.cached_property
    def nested(self) -> list[list[int]]:
        """Per tensor, the memories that hold it below some loop."""
        return [chain[1:] if top else chain for top, chain in zip(self.on_top, self.chains, strict=True)]

    def order_options(self, index: int) -> frozenset[int]:
        """`tensor_order_options` that a memory's holders above all loops agree with: none stands too far out."""
        found = set()
        for i, rank in enumerate(self.ranks(index)):
            top = [rank[t] for t, chain in enumerate(self.chains) if t in rank and chain[0] == index and self.on_top[t]]
            nested = [rank[t] for t, chain in enumerate(self.nested) if t in rank and index in chain]
            if all(outer <= inner for outer in top for inner in nested):
                found.add(i)
        return frozenset(found)

    def options_left(self, index: int, options: frozenset[int], placed: frozenset[int], t: int) -> frozenset[int]:
        """Of these options, those with nothing to be placed further out than t that must stand below it."""
        above = [o for o, chain in enumerate(self.nested) if index in chain and o != t and o not in placed]
        ranks = self.ranks(index)
        return frozenset(
            i for i in options if t not in ranks[i] or all(ranks[i].get(o, -1) <= ranks[i][t] for o in above)
        )

    def ranks(self, index: int) -> list[dict[int, int]]:
        """Per option of a memory, the rank of each tensor that it lists. Without options, one that lists none."""
        sets = self.placement.sets[index]
        number = {tensor.name: t for t, tensor in enumerate(self.problem.tensors)}
        return [
            {number[name]: rank for rank, part in enumerate(option) for name in part if name in number}
            for option in (sets.tensor_order_options if sets is not None and sets.tensor_order_options else [()])
        ]

    def is_backing(self, index: int, t: int) -> bool:
        """Whether a holder inside the nest is its tensor's outermost. Those on top of all loops are not in the nest."""
        return not self.on_top[t] and self.chains[t][0] == index

    def persistent_bits(self, memory: int, shared: bool) -> float:
        """Bits that persistent tensors, which are (not) shared, take in a memory throughout."""
        p = self.problem
        return float(
            sum(
                p.footprints[t, -1] * p.path.components[memory].bits_per_value[p.tensors[t].name] * p.info.n_instances
                for t, chain in enumerate(self.chains)
                if self.persistent[t] and chain[0] == memory and (p.tensors[t].name in self.shared) == shared
            )
        )

    def growing(self, index: int, t: int, placed: frozenset[int], last: Holder | None) -> frozenset[int]:
        """Variables that may have a loop between the last holder and the next, tensor t in memory `index`."""
        tensors = self.problem.tensors
        growing = frozenset(v for v, variable in enumerate(self.problem.variables) if variable.radix > 1)
        if self.rules.sink and not self.is_backing(index, t) and not self.fixed_tile(index):
            growing -= tensors[t].full
        if self.rules.hoist and last is not None and not self.fixed_tile(last[0]) and not self.keeps_loops(last):
            growing &= tensors[last[1]].relevant | tensors[t].partial
        return self.constrained(growing, index, placed)

    def constrained(self, growing: frozenset[int], index: int, placed: frozenset[int]) -> frozenset[int]:
        """No loop that would recompute a tensor backed below, nor resend one that must not be."""
        tensors = self.problem.tensors
        for o, chain in enumerate(self.chains):
            inner = [k for k in self.nested[o] if k > index or (k == index and o in placed)]
            if inner and inner[0] == chain[0]:
                growing &= tensors[o].full
            outer = [k for k in chain if k not in inner]
            if outer:
                sets = self.placement.sets[outer[-1]]
                if sets is not None and tensors[o].name in sets.no_resend_to_below:
                    growing &= tensors[o].full
        return growing

    def fixed_tile(self, index: int) -> bool:
        sets = self.placement.sets[index]
        return sets is not None and bool(sets.tile_shape)

    def keeps_loops(self, holder: Holder) -> bool:
        """Whether loops must not move from above this holder to below it."""
        sets = self.placement.sets[holder[0]]
        return sets is not None and self.problem.tensors[holder[1]].name in sets.no_resend_to_below

    def allowed(self, index: int, t: int, outermost_of_memory: bool) -> np.ndarray:
        """Shapes at which the holder may stand."""
        p = self.problem
        allowed = np.ones(p.shapes, np.bool_)
        sets = self.placement.sets[index]
        assert sets is not None
        for v in self.whole(index, t):
            allowed &= self.problem.complete[v]
        if outermost_of_memory and sets.tile_shape:
            for shape in np.flatnonzero(allowed):
                extents = {
                    v.members[0]: int(v.divisors[d]) for v, d in zip(p.variables, p.digits[:, shape], strict=True)
                }
                allowed[shape] = all(satisfies(c, extents) for c in sets.tile_shape)
        return allowed

    def whole(self, index: int, t: int) -> frozenset[int]:
        """Variables without a loop above the holder."""
        tensor, sets = self.problem.tensors[t], self.placement.sets[index]
        assert sets is not None
        backing, whole = self.is_backing(index, t), set[int]()
        if backing or tensor.name in sets.no_refetch_from_above:
            whole |= set(range(len(self.problem.variables))) - tensor.full
        if backing and tensor.name in self.shared:
            whole |= {v for v, var in enumerate(self.problem.variables) if sets.no_fused_loops.issuperset(var.members)}
        return frozenset(whole)
