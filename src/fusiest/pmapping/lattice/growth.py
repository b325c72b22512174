"""One step of the search over tile shapes: loops over some variables, and then a storage node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from fusiest.base.interrupt import check
from fusiest.pmapping.lattice import kernels
from fusiest.pmapping.lattice.layers import Layer, grow, union
from fusiest.pmapping.lattice.tile_problem import FOOTPRINT, Problem, Variable
from fusiest.pmapping.nest.rules import HeldTensor
from fusiest.pmapping.pareto import Floats, Ints


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
            weights=space, growing=put.growing - sinking, allowed=None, whole=frozenset(), tolls=()
        )
        reserved = union(list(self._grown(reserving, state)))
        reserved.kind = "reserve"
        self.layers.append(reserved)
        above = put._replace(weights=traffic, growing=sinking, lowers=False)
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
        p, layer = self.problem, self.layers[state]
        start, rows = grow(p, layer, growing, put.whole - {first})
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
        source, note = np.full(len(fits), state), np.full(len(fits), -1 if first is None else first)
        return Layer("hold", put.holder, shape[fits], criteria, source, rows[fits], note, put.tolls)


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
