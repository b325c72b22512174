"""Constraints that tie several variables together: fanouts, products in `loop_bounds` and `tile_shape`, `min_usage`.

Each is a product of one integer per variable. Where less is never worse it is one more criterion with a limit; where
the exact value matters (leakage of gated dimensions, asked usage, lower limits) it is part of the key of a group.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fusiest.pmapping.chains.skeleton import Skeleton
from fusiest.pmapping.chains.tile_chains import Chains, tile_options, tile_shapes, written_above
from fusiest.pmapping.lattice.tile_problem import Problem
from fusiest.pmapping.nest.spatial import best_usages as usages_of_divisors
from fusiest.pmapping.nest.spatial import never_spread, satisfies, undominated, usage
from fusiest.pmapping.pareto import Ints
from fusiest.spec import BoundComparison, BoundDimension, Path

Usages = frozenset[tuple[float, ...]] | None


@dataclass(frozen=True)
class Limit:
    """A limit on a product over variables."""

    factors: Mapping[str, Ints]
    """Factor of each variable, per chain."""
    most: float
    """The most that the product may be."""
    is_key: bool
    """Whether its exact value matters."""
    name: Hashable
    """A name: limits of the same name have the same factors for the same chains."""
    comparison: BoundComparison | None = None
    allowed: frozenset[int] | None = None
    """Values that it may have. None: not restricted to a list."""
    _good: dict[tuple[str, ...], np.ndarray] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def _options(self) -> dict[str, list[int]]:
        """Per variable, the distinct factors of its chains."""
        return {v: np.flatnonzero(np.bincount(v_factors)).tolist() for v, v_factors in self.factors.items()}

    def can_be_met(self, values: Ints, remaining: Sequence[str]) -> np.ndarray:
        """Which products so far can become an allowed one with some chains of the remaining variables."""
        keep: np.ndarray = values <= self.most
        if self.allowed is None:
            return keep
        good = self._good.get(tuple(remaining))
        if good is None:
            good = self._good[tuple(remaining)] = self._can_become_allowed(self.allowed, remaining)
        keep &= good[np.minimum(values, len(good) - 1)]
        return keep

    @property
    def whole(self) -> np.ndarray:
        """Per product of all variables, whether it is in `allowed`; the last entry is for all larger products."""
        return np.ones(1, np.bool_) if self.allowed is None else self._can_become_allowed(self.allowed, ())

    def _can_become_allowed(self, allowed: frozenset[int], remaining: Sequence[str]) -> np.ndarray:
        """Per product so far, whether some chains of the remaining variables make an allowed product of it.

        The last entry is for all larger products.
        """
        factors = {1}
        for v in remaining:
            factors = {n for a in factors for b in self._options[v] if (n := a * b) <= self.most}
        good = np.zeros(max(allowed, default=0) + 2, np.bool_)
        good[[n // f for n in allowed for f in factors if n % f == 0]] = True
        return good

    def met(self, values: Ints) -> np.ndarray:
        keep = self.can_be_met(values, ())
        if self.comparison is not None:
            options, inverse = np.unique(values, return_inverse=True)
            obeys = [_compares(self.comparison, int(o)) for o in options]
            keep &= np.array(obeys, np.bool_)[inverse]
        return keep


def limits(
    skeleton: Skeleton, chains: Mapping[str, Chains], allowed: Mapping[int, frozenset[int] | None]
) -> list[Limit]:
    """All limits of a skeleton, its dimensions' usages first. `allowed`: the `allowed_instances` of each dimension."""
    used = [_used(chains, i) for i in range(len(skeleton.dimensions))]
    result = []
    for i, (factors, (_, d)) in enumerate(zip(used, skeleton.dimensions, strict=True)):
        result.append(Limit(factors, d.most, d.power_gateable or d.min_usage > 0, i, allowed=allowed[i]))
    for i, (factors, (_, d)) in enumerate(zip(used, skeleton.dimensions, strict=True)):
        result += [_compared(c, factors, (i, c)) for c in d.loop_bounds if c.operator.startswith("product")]
    for place, c in tile_shapes(skeleton):
        if c.operator.startswith("product"):
            written = {v: tuple(written_above(skeleton, v_chains.slots, place)) for v, v_chains in chains.items()}
            extents = {v: v_chains.extent(written[v]) for v, v_chains in chains.items()}
            result.append(_compared(c, extents, (tuple(written.items()), c)))
    return result


def allowed_instances(d: BoundDimension, usages: Usages, number: int) -> frozenset[int] | None:
    """Numbers of instances of a dimension that `min_usage` allows. None: any. `number`: of the dimension on the path."""
    if usages is None or d.min_usage == 0:
        return None
    good = {u[number] for u in usages}
    return frozenset(n for n in range(1, d.most + 1) if usage([d], (n,))[0] in good)


def _used(chains: Mapping[str, Chains], dimension: int) -> dict[str, Ints]:
    iterations = {}
    for v, v_chains in chains.items():
        slot = next((i for i, slot in enumerate(v_chains.slots) if slot.dimension == dimension), None)
        iterations[v] = v_chains.iterations(slot) if slot is not None else np.ones(len(v_chains), np.int64)
    return iterations


def _compared(comparison: BoundComparison, values: Mapping[str, Ints], name: Hashable) -> Limit:
    operator = comparison.operator.removeprefix("product")
    factors = {
        v: v_values if v in comparison.variables else np.ones(len(v_values), np.int64) for v, v_values in values.items()
    }
    most = comparison.value if operator in ("<=", "<", "==") else math.inf
    return Limit(factors, most, operator not in ("<=", "<"), name, comparison)


def asked_usages(problem: Problem, imperfect: bool) -> Usages:
    """Usages that `min_usage` leaves: among imperfect tiles if these are searched, else among perfect ones."""
    return best_usages(problem.path, True) if imperfect else usages_of_divisors(problem)


def best_usages(path: Path, imperfect: bool) -> Usages:
    """Usages that no other choice of Spatial loops dominates, if some `min_usage` is set; None if none is."""
    if not any(d.min_usage > 0 for c in path.components for d in c.dimensions):
        return None
    return undominated(_usages(path, imperfect))


def can_spread(path: Path, imperfect: bool) -> bool:
    """Whether any choice of Spatial loops meets all `loop_bounds`."""
    return bool(_usages(path, imperfect))


def _usages(path: Path, imperfect: bool) -> set[tuple[float, ...]]:
    """Usage of every dimension, for each choice of Spatial loops that meets all `loop_bounds`.

    A row per choice: instances used of each dimension, and the products that `loop_bounds` compare.
    """
    dimensions = [d for c in path.components for d in c.dimensions]
    compared = [(i, c) for i, d in enumerate(dimensions) for c in d.loop_bounds if c.operator.startswith("product")]
    most = np.array([*(d.most for d in dimensions), *(dimensions[i].most for i, _ in compared)], np.float64)
    products = np.ones((1, len(most)), np.int64)
    for v in path.einsum.bounds:
        choices = iteration_choices(path, v, imperfect)
        used = np.array(sorted(choices), np.int64).reshape(len(choices), len(dimensions))
        options = [
            used,
            *(used[:, [i]] if v in c.variables else np.ones((len(used), 1), np.int64) for i, c in compared),
        ]
        joint = (products[:, None] * np.concatenate(options, axis=1)).reshape(len(products) * len(used), len(most))
        products = np.unique(joint[(joint <= most).all(axis=1)], axis=0)
    good = np.ones(len(products), np.bool_)
    for (_, c), values in zip(compared, products[:, len(dimensions) :].T, strict=True):
        numbers, inverse = np.unique(values, return_inverse=True)
        good &= np.array([_compares(c, int(n)) for n in numbers], np.bool_)[inverse]
    return {usage(dimensions, row) for row in products[good, : len(dimensions)].tolist()}


def _compares(comparison: BoundComparison, value: int) -> bool:
    """Whether a product obeys a comparison."""
    name = next(iter(comparison.variables), None)
    return satisfies(comparison, {name: value} if name is not None else {})


def iteration_choices(path: Path, variable: str, imperfect: bool) -> set[tuple[int, ...]]:
    """Iterations that a variable's loops on all dimensions can have, with Temporal loops above any component."""
    extents: dict[tuple[int, ...], set[int]] = {(): {path.einsum.bounds[variable]}}
    for component in path.components:
        if component.dimensions:
            extents = {
                n: {tile for extent in reached for tile in tile_options(extent, imperfect)}
                for n, reached in extents.items()
            }
        for d in component.dimensions:
            banned = variable in never_spread(path.einsum, d)
            after: dict[tuple[int, ...], set[int]] = {}
            for n, reached in extents.items():
                for extent in reached:
                    for tile in [extent] if banned else tile_options(extent, imperfect):
                        iterations = -(-extent // tile)
                        if iterations <= d.most and _obeys(d, variable, iterations):
                            after.setdefault((*n, iterations), set()).add(tile)
            extents = after
    return set(extents)


def _obeys(d: BoundDimension, variable: str, iterations: int) -> bool:
    return all(
        satisfies(c, {variable: iterations})
        for c in d.loop_bounds
        if variable in c.variables and not c.operator.startswith("product")
    )
