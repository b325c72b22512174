"""One step of the search over tile shapes: loops over some variables, and then a storage node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from fusiest.base.interrupt import check
from fusiest.pmapping.lattice import kernels
from fusiest.pmapping.lattice.bound_kernels import Bar, Lacks, promising
from fusiest.pmapping.lattice.kernels import ENDS, GROWS, MAY_GROW, STAYS, Growing, Placing
from fusiest.pmapping.lattice.layers import Layer, grow, union
from fusiest.pmapping.lattice.tile_problem import FOOTPRINT, Problem, Variable
from fusiest.pmapping.nest.rules import HeldTensor
from fusiest.pmapping.pareto import Floats, Ints

_FEW = 16
"""Tile shapes per row from which on rows are grown one by one, not shape by shape."""


class Ahead(NamedTuple):
    """What rows still lack, where there is a cutoff to beat."""

    variables: tuple[int, ...]
    """The variables that may grow, in the order in which they do."""
    lacks: Lacks

    def promising_before(self, layer: Layer) -> np.ndarray:
        """Which rows of a layer can still beat the cutoff if the node is placed next."""
        good: np.ndarray = promising(
            layer.shape, layer.criteria, Bar(self.lacks.before[0], self.lacks.goal), self.lacks.across
        )
        return good

    def promising_after(self, shape: Ints, criteria: Floats) -> np.ndarray:
        """Which rows can still beat the cutoff once the node is placed."""
        good: np.ndarray = promising(shape, criteria, Bar(self.lacks.after, self.lacks.goal), self.lacks.across)
        return good


class Put(NamedTuple):
    """A storage node to be placed."""

    holder: HeldTensor
    weights: Floats
    """Its cost per amount and criterion."""
    limits: Floats
    """Most that each criterion may be."""
    growing: frozenset[int]
    """Variables that may have a loop right below it."""
    whole: frozenset[int]
    """Variables that have no loop above it."""
    allowed: np.ndarray | None
    """Shapes at which it may stand; None: all."""
    lowers: bool
    """Whether its space sinks through loops right below it: it is not backing."""
    tolls: tuple[HeldTensor, ...]
    """Tolls that its tensor passes on the way in."""
    ahead: Ahead | None = None
    """None: all rows are grown, whatever they lack."""


@dataclass(frozen=True)
class Growth:
    """All ways to put a storage node above the rows of some layers."""

    problem: Problem
    layers: list[Layer]

    def placed(self, put: Put, state: int) -> Iterator[Layer]:
        tensor = self.problem.tensors[put.holder.tensor]
        sinking = put.growing & tensor.full if put.lowers else frozenset()
        if not sinking:
            yield from self._grown(put, state)
            return
        # rule 1 is off here: the space sinks below these loops all the same
        space, traffic = np.zeros_like(put.weights), put.weights.copy()
        space[FOOTPRINT], traffic[FOOTPRINT] = put.weights[FOOTPRINT], 0
        reserving = put._replace(
            weights=space, growing=put.growing - sinking, allowed=None, whole=frozenset(), tolls=(), ahead=None
        )
        reserved = union(list(self._grown(reserving, state)))
        reserved.kind = "reserve"
        self.layers.append(reserved)
        above = put._replace(weights=traffic, growing=sinking, lowers=False, ahead=None)
        yield from self._grown(above, len(self.layers) - 1)

    def _grown(self, put: Put, state: int) -> Iterator[Layer]:
        """Place the node above a gap, once for each loop that may stand right below it and lower its space (proof 5)."""
        lowering = put.growing & self.problem.tensors[put.holder.tensor].partial if put.lowers else frozenset()
        yield self._put(put, state, put.growing - lowering, None)
        for first in sorted(lowering):
            yield self._put(put, state, put.growing - {first}, first)

    def _put(self, put: Put, state: int, growing: frozenset[int], first: int | None) -> Layer:
        """Place the node after loops over some variables.

        `first`: a further variable, whose loop stands right below the node, so that its space is that of the tile below
        the loop.
        """
        p, layer, chosen = self.problem, self.layers[state], None
        if put.ahead is not None:
            chosen = np.flatnonzero(put.ahead.promising_before(layer))
            if len(chosen) * _FEW <= p.shapes:
                return self._put_few(put, put.ahead, state, chosen, growing, first)
        start, rows = grow(p, layer, growing, put.whole - {first}, chosen)
        space = np.repeat(np.arange(p.shapes), np.diff(start))
        shape = space
        if first is not None:
            before, shape = _stepped(p, first, space)
            space, rows = space[before], rows[before]
        if put.allowed is not None:
            good = np.flatnonzero(put.allowed[shape])
            shape, space, rows = shape[good], space[good], rows[good]
        check(layer.criteria[:1].nbytes * len(rows))
        amounts = p.amounts[put.holder.tensor]
        fits, criteria = kernels.place(shape, space, rows, layer.criteria, amounts, put.weights, put.limits)
        shape, rows = shape[fits], rows[fits]
        if put.ahead is not None:
            good = np.flatnonzero(put.ahead.promising_after(shape, criteria))
            shape, rows, criteria = shape[good], rows[good], criteria[good]
        source, note = np.full(len(rows), state), np.full(len(rows), -1 if first is None else first)
        return Layer("hold", put.holder, shape, criteria, source, rows, note, put.tolls)

    def _put_few(
        self, put: Put, ahead: Ahead, state: int, chosen: Ints, growing: frozenset[int], first: int | None
    ) -> Layer:
        """Place the node above few rows, as `_put` does, but only where the cutoff can still be beaten."""
        p, layer, whole = self.problem, self.layers[state], put.whole - {first}
        grows = {v: ENDS if v in whole else MAY_GROW for v in growing}
        kinds = [GROWS if v == first else grows.get(v, STAYS) for v in ahead.variables]
        allowed = np.ones(p.shapes, np.bool_) if put.allowed is None else put.allowed
        placing = Placing(p.amounts[put.holder.tensor], put.weights, put.limits, allowed)
        rows, shape, criteria = kernels.place_few(
            chosen, layer.shape, layer.criteria, make_growing(p, ahead.variables, kinds), placing, ahead.lacks
        )
        source, note = np.full(len(rows), state), np.full(len(rows), -1 if first is None else first)
        return Layer("hold", put.holder, shape, criteria, source, rows, note, put.tolls)


def make_growing(p: Problem, variables: Sequence[int], kinds: Sequence[int]) -> Growing:
    """Describe variables that grow as arrays."""
    tables = [_larger(p.variables[v]) for v in variables]
    counts = np.cumsum([0, *(len(multiples) for _, multiples in tables)])
    starts = [begins + before for (begins, _), before in zip(tables, counts, strict=False)]
    none = np.empty(0, np.int64)
    return Growing(
        np.array(kinds, np.int64),
        np.array([p.strides[v] for v in variables], np.int64),
        np.array([p.variables[v].radix for v in variables], np.int64),
        np.cumsum([0, *map(len, starts)])[:-1].astype(np.int64),
        np.concatenate([none, *starts]),
        np.concatenate([none, *(multiples for _, multiples in tables)]),
    )


def _stepped(p: Problem, v: int, shape: Ints) -> tuple[Ints, Ints]:
    """Every shape with each larger tile of a variable: the index of the old shape, and the new shape."""
    starts, larger = _larger(p.variables[v])
    digit = p.digits[v][shape]
    counts = starts[digit + 1] - starts[digit]
    before = np.repeat(np.arange(len(shape)), counts)
    within = np.arange(len(before)) - np.repeat(np.cumsum(counts) - counts, counts)
    grown = larger[starts[digit[before]] + within]
    return before, shape[before] + (grown - digit[before]) * p.strides[v]


@cache
def _larger(variable: Variable) -> tuple[Ints, Ints]:
    """Per divisor, the indices of its proper multiples: where they begin, and all of them."""
    larger = [[j for j, m in enumerate(variable.divisors) if m > d and m % d == 0] for d in variable.divisors]
    starts = np.cumsum([0, *map(len, larger)]).astype(np.int64)
    return starts, np.array([j for multiples in larger for j in multiples], np.int64)
