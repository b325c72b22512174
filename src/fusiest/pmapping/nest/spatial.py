"""Choices of Spatial loops: which variables run in parallel where, within the fanouts and their constraints."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fusiest.base.errors import SpecError
from fusiest.base.interrupt import check
from fusiest.pmapping.lattice.tile_problem import Problem
from fusiest.pmapping.pareto import Floats, Ints
from fusiest.pmapping.table import group_numbers
from fusiest.spec import BoundComparison, BoundDimension, EinsumInfo

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
MOST_CHOICES = 300_000
_CHUNK = 1 << 20


def satisfies(comparison: BoundComparison, values: dict[str, int]) -> bool:
    """Whether the values of the compared variables obey a `loop_bounds` or `tile_shape` entry."""
    compared = [values[v] for v in comparison.variables if v in values]
    if comparison.operator.startswith("product"):
        compared = [math.prod(compared)]
    compare = _OPERATORS[comparison.operator.removeprefix("product")]
    return all(compare(value, comparison.value) for value in compared)


def never_spread(info: EinsumInfo, dimension: BoundDimension) -> frozenset[str]:
    """Variables without a loop on a dimension (`reuse`): they index a tensor that must be the same all along it."""
    return frozenset[str]().union(*(info.accesses[tensor].variables for tensor in dimension.reuse))


@dataclass(frozen=True)
class Fanout:
    """All choices of Spatial loops at one component of the path, each distinct effect once, most parallelism first."""

    level: int
    """Index of the component on the path."""
    dimensions: tuple[BoundDimension, ...]
    factors: Ints
    """Choices × dimensions × variables."""
    shared: Floats
    """Choices × tensors: factors across which a tensor is multicast or reduced for free."""
    apart: Floats
    """Choices × tensors: factors over variables that do not index the tensor."""
    numbers: Ints
    """Number of each choice among all choices of the component."""

    def __len__(self) -> int:
        return len(self.factors)

    @cached_property
    def totals(self) -> Ints:
        """Choices × variables: factor of each variable."""
        result: Ints = self.factors.prod(axis=1)
        return result

    @cached_property
    def used(self) -> Ints:
        """Choices × dimensions: instances in use."""
        result: Ints = self.factors.prod(axis=2)
        return result

    @cached_property
    def units(self) -> Floats:
        result: Floats = self.used.prod(axis=1).astype(np.float64)
        return result

    @cached_property
    def most_units(self) -> float:
        """The most units of any choice."""
        return float(self.units.max(initial=1.0))

    @cached_property
    def most_shared(self) -> tuple[float, ...]:
        """Per tensor, the largest factor across which any choice shares it."""
        return tuple(self.shared.max(axis=0, initial=1.0).tolist())

    @cached_property
    def most_apart(self) -> tuple[float, ...]:
        """Per tensor, the largest factor over variables that do not index it."""
        return tuple(self.apart.max(axis=0, initial=1.0).tolist())

    @cached_property
    def spread(self) -> Ints:
        """Variables that some choice has a Spatial loop over."""
        return np.flatnonzero((self.totals > 1).any(axis=0))

    def take(self, which: Ints) -> Fanout:
        return Fanout(
            self.level, self.dimensions, self.factors[which], self.shared[which], self.apart[which], self.numbers[which]
        )


def fanouts(problem: Problem, best: frozenset[tuple[float, ...]] | None) -> dict[int, Fanout]:
    """The choices at every component of the path with a fanout, by its index.

    Choices that `min_usage` rules out in any combination are left out. `best`: the `best_usages`.
    """
    by_level = {i: _fanout(problem, i, c.dimensions) for i, c in enumerate(problem.path.components) if c.dimensions}
    if best is None:
        return by_level
    position = 0
    for level, fanout in by_level.items():
        end = position + len(fanout.dimensions)
        good = {usages[position:end] for usages in best}
        is_good = [usage(fanout.dimensions, used) in good for used in fanout.used.tolist()]
        remaining = fanout.take(np.flatnonzero(is_good))
        by_level[level] = replace(remaining, numbers=np.arange(len(remaining)))
        position = end
    return by_level


def usage(dimensions: Sequence[BoundDimension], used: Sequence[int]) -> tuple[float, ...]:
    """How far each dimension is used, up to what `min_usage` asks for: the values that it compares."""
    return tuple(float(min(n * d.usage_scale / d.fanout, d.min_usage)) for n, d in zip(used, dimensions, strict=True))


def best_usages(problem: Problem) -> frozenset[tuple[float, ...]] | None:
    """Usages of all dimensions of the path that no other choice of Spatial loops dominates.

    None: no dimension has a `min_usage`.

    A dimension without `min_usage` is best left unused, unless `loop_bounds` forbid that.
    """
    dimensions = [d for c in problem.path.components for d in c.dimensions]
    if not any(d.min_usage > 0 for d in dimensions):
        return None
    ones = (1,) * len(problem.variables)
    asking = [d for d in dimensions if d.min_usage > 0 or not _obeys(problem, d, ones)]
    usages = set()
    for count, factors in enumerate(_joint(problem, tuple(asking), tuple(v.bound for v in problem.variables))):
        check()
        _check_count(problem, tuple(asking), count)
        used = dict(zip((id(d) for d in asking), map(math.prod, factors), strict=True))
        usages.add(usage(dimensions, [used.get(id(d), 1) for d in dimensions]))
    return undominated(usages)


def can_spread(problem: Problem) -> bool:
    """Whether any choice of Spatial loops meets all `loop_bounds`."""
    dimensions = tuple(d for c in problem.path.components for d in c.dimensions)
    bounds = tuple(v.bound for v in problem.variables)
    return next(_joint(problem, dimensions, bounds), None) is not None


def undominated(usages: set[tuple[float, ...]]) -> frozenset[tuple[float, ...]]:
    """Usages that none exceeds in one dimension without falling behind in another."""
    best = tuple(map(max, zip(*usages, strict=True))) if usages else ()
    if best in usages:
        return frozenset([best])
    return frozenset(a for a in usages if not any(b != a and all(map(float.__ge__, b, a)) for b in usages))


def _joint(
    problem: Problem, dimensions: tuple[BoundDimension, ...], extents: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], ...]]:
    if not dimensions:
        yield ()
        return
    first, rest = dimensions[0], dimensions[1:]
    for factors in spread_over(problem, first, extents):
        remaining = tuple(n // f for n, f in zip(extents, factors, strict=True))
        for others in _joint(problem, rest, remaining):
            yield (factors, *others)


def _fanout(problem: Problem, level: int, dimensions: tuple[BoundDimension, ...]) -> Fanout:
    bounds = np.array([v.bound for v in problem.variables], np.int64)
    chosen = np.ones((1, 0, len(bounds)), np.int64)
    for i, d in enumerate(dimensions):
        single = list(itertools.islice(spread_over(problem, d, tuple(bounds.tolist())), MOST_CHOICES + 1))
        _check_count(problem, dimensions, len(single))
        singles = np.array(single, np.int64).reshape(len(single), 1, len(bounds))
        distinct = []
        step = max(1, _CHUNK // max(1, len(singles)))
        for begin in range(0, len(chosen), step):
            check()
            chunk = chosen[begin : begin + step]
            pairs = np.concatenate(
                [np.repeat(chunk, len(singles), axis=0), np.tile(singles, (len(chunk), 1, 1))], axis=1
            )
            distinct.append(
                _distinct(problem, dimensions[: i + 1], pairs[(bounds % pairs.prod(axis=1) == 0).all(axis=1)])
            )
        none = np.ones((0, i + 1, len(bounds)), np.int64)
        chosen = _distinct(problem, dimensions[: i + 1], np.concatenate([none, *distinct]))
        _check_count(problem, dimensions, len(chosen))
    chosen = chosen[np.argsort(-chosen.prod(axis=(1, 2)), kind="stable")]
    return Fanout(level, dimensions, chosen, *_effects(problem, dimensions, chosen), np.arange(len(chosen)))


def _check_count(problem: Problem, dimensions: tuple[BoundDimension, ...], count: int) -> None:
    if count > MOST_CHOICES:
        raise SpecError(
            f"there are more than {MOST_CHOICES:,} ways to spread loops of Einsum {problem.info.name} over the "
            f"{len(dimensions)} fanout dimensions of {dimensions[0].component}, too many to search; leave fewer with "
            "reuse, loop_bounds and min_usage",
            problem.info.name,
        )


def _effects(problem: Problem, dimensions: tuple[BoundDimension, ...], factors: Ints) -> tuple[Floats, Floats]:
    """Choices × tensors: factors that are reused, and all factors over variables that do not index the tensor."""
    shared, apart = (np.ones((len(factors), len(problem.tensors))) for _ in range(2))
    for i, t in enumerate(problem.tensors):
        irrelevant = [v for v in range(len(problem.variables)) if v not in t.relevant]
        for n, d in enumerate(dimensions):
            factor = factors[:, n, irrelevant].prod(axis=1)
            apart[:, i] *= factor
            if t.name in d.may_reuse:
                shared[:, i] *= factor
    return shared, apart


def _distinct(problem: Problem, dimensions: tuple[BoundDimension, ...], factors: Ints) -> Ints:
    """Keep one of the choices that cost the same: equal totals, equal reuse per tensor, equal use where that counts."""
    shared, _ = _effects(problem, dimensions, factors)
    used = factors.prod(axis=2)
    counts = [used[:, n] for n, d in enumerate(dimensions) if d.power_gateable or d.min_usage > 0]
    key = np.column_stack([factors.prod(axis=1), shared.astype(np.int64), *counts])
    _, first = np.unique(group_numbers(key), return_index=True)
    return factors[np.sort(first)]


def spread_over(problem: Problem, dimension: BoundDimension, extents: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Every choice of loops on one dimension, as a factor of each variable."""
    never = never_spread(problem.info, dimension)
    choices: list[tuple[int, tuple[int, ...]]] = [(1, ())]
    for variable, extent in zip(problem.variables, extents, strict=True):
        check()
        divisors = variable.divisors.tolist() if never.isdisjoint(variable.members) else [1]
        factors = [d for d in divisors if extent % d == 0]
        choices = [(n * d, (*chosen, d)) for n, chosen in choices for d in factors if n * d <= dimension.most]
    for _, chosen in choices:
        if _obeys(problem, dimension, chosen):
            yield chosen


def _obeys(problem: Problem, dimension: BoundDimension, factors: tuple[int, ...]) -> bool:
    """Whether factors obey `loop_bounds`.

    Merged variables are in a compared set all or none, and then only products or 1 are compared.
    """
    if not dimension.loop_bounds:
        return True
    values = {}
    for variable, factor in zip(problem.variables, factors, strict=True):
        values.update(dict.fromkeys(variable.members, 1))
        values[variable.members[0]] = factor
    return all(satisfies(comparison, values) for comparison in dimension.loop_bounds)
