"""Rows of the search over tile shapes: a layer per step, ordered by tile shape, with pointers back; how tiles grow."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np

from fusiest.base.interrupt import check
from fusiest.pmapping.lattice import kernels
from fusiest.pmapping.lattice.move_costs import ENERGY
from fusiest.pmapping.lattice.tile_problem import Problem
from fusiest.pmapping.nest.rules import HeldTensor
from fusiest.pmapping.pareto import Floats, Ints, pareto_rows


@dataclass
class Layer:
    """Rows after one step, ordered by shape, each with the row of an earlier layer that it extends."""

    kind: str
    """begin, reserve, hold, close, cross or finish."""
    item: HeldTensor | None
    """The storage node placed, or (component, -1) for a fanout."""
    shape: Ints
    criteria: Floats
    source: Ints
    """Number of the earlier layer that each row extends."""
    row: Ints
    """Row of that layer."""
    note: Ints
    """For a fanout, the Spatial choice. For a node or its space, the partially relevant variable right below it, or -1."""
    tolls: tuple[HeldTensor, ...] = ()
    """Tolls that tensors pass here on their way in."""
    grown: dict[object, tuple[Ints, Ints]] = field(default_factory=dict)
    """Rows per shape after loops over some variables, found so far."""
    promise: float = np.inf
    """Least bound on the product of energy and latency, used by a quick look."""

    @functools.cached_property
    def compared(self) -> Floats:
        """Criteria in which rows differ."""
        varies = (self.criteria != self.criteria[:1]).any(axis=0)
        varies[ENERGY] = True
        return np.ascontiguousarray(self.criteria[:, varies])

    def start(self, shapes: int) -> Ints:
        return np.searchsorted(self.shape, np.arange(shapes + 1)).astype(np.int64)

    def take(self, rows: Ints) -> Layer:
        return Layer(
            self.kind, self.item, self.shape[rows], self.criteria[rows], self.source[rows], self.row[rows],
            self.note[rows], self.tolls,
        )  # fmt: skip


def union(layers: list[Layer]) -> Layer:
    """Merge the rows of these layers, and prune them."""
    check(2 * sum(layer.criteria.nbytes + 4 * layer.shape.nbytes for layer in layers))
    shape, criteria, source, row, note = (
        np.concatenate([getattr(layer, name) for layer in layers])
        for name in ("shape", "criteria", "source", "row", "note")
    )
    whole = Layer(layers[0].kind, layers[0].item, shape, criteria, source, row, note, layers[0].tolls)
    return whole.take(pareto_rows(shape, criteria))


def grow(
    p: Problem, layer: Layer, growing: frozenset[int], whole: frozenset[int] = frozenset(), chosen: Ints | None = None
) -> tuple[Ints, Ints]:
    """Grow the tiles of these variables: rows of a layer per shape. Variables in `whole` must be complete afterwards.

    `chosen`: the rows to grow. None: all.
    """
    chain, grown = sorted(growing - whole), layer.grown
    if chosen is not None and len(chosen) < len(layer.shape):
        grown = {}
    keys = [(growing & whole, whole - growing, tuple(chain[:i])) for i in range(len(chain) + 1)]
    reached = max((i for i, key in enumerate(keys) if key in grown), default=0)
    if keys[reached] not in grown:
        rows = np.arange(len(layer.shape)) if chosen is None else chosen
        grown[keys[0]] = _completed(p, layer, growing & whole, whole - growing, rows)
    start, rows = grown[keys[reached]]
    for v, key in zip(chain[reached:], keys[reached + 1 :], strict=True):
        digit = kernels.Digit(p.strides[v], p.variables[v].radix, *p.variables[v].steps)
        start, rows = grown[key] = kernels.grow(p.shapes, digit, start, rows, layer.compared)
    return start, rows


def _completed(
    p: Problem, layer: Layer, growing: frozenset[int], already: frozenset[int], rows: Ints
) -> tuple[Ints, Ints]:
    """Rows of a layer per shape that are complete in some variables already, after loops that complete others."""
    complete = np.ones(len(rows), np.bool_)
    for v in already:
        complete &= p.complete[v][layer.shape[rows]]
    rows = rows[complete]
    shape = layer.shape[rows]
    for v in growing:
        shape = shape + (p.variables[v].radix - 1 - p.digits[v][shape]) * p.strides[v]
    if growing:
        best = pareto_rows(shape, layer.compared[rows])
        rows, shape = rows[best], shape[best]
    return np.searchsorted(shape, np.arange(p.shapes + 1)).astype(np.int64), rows
