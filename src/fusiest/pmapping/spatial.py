"""Which variables run in parallel where: every choice of Spatial loops that the fanouts and their constraints leave."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fusiest.errors import SpecError
from fusiest.interrupt import check
from fusiest.pmapping.problem import Problem
from fusiest.spec.binding import BoundComparison, BoundDimension

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


def satisfies(comparison: BoundComparison, values: dict[str, int]) -> bool:
    """Whether the values of the compared variables obey a `loop_bounds` or `tile_shape` entry."""
    own = [values[v] for v in comparison.variables if v in values]
    if comparison.operator.startswith("product"):
        own = [math.prod(own)]
    compare = _OPERATORS[comparison.operator.removeprefix("product")]
    return all(compare(value, comparison.value) for value in own)


@dataclass(frozen=True, slots=True)
class SpatialChoice:
    """Factors per fanout dimension and variable, and the products that costs depend on."""

    dimensions: tuple[BoundDimension, ...]
    levels: tuple[int, ...]
    """Per dimension, the index of its component on the path."""
    factors: tuple[tuple[int, ...], ...]

    def total(self, level: int) -> tuple[int, ...]:
        """Per variable, the product of the factors at one component."""
        rows = [f for f, at in zip(self.factors, self.levels, strict=True) if at == level]
        return tuple(math.prod(column) for column in zip(*rows, strict=True))

    def used(self) -> dict[tuple[str, str], int]:
        return {(d.component, d.name): math.prod(f) for d, f in zip(self.dimensions, self.factors, strict=True)}


MOST_SPATIAL_CHOICES = 300_000


def fanout_levels(problem: Problem) -> list[int]:
    """Components of the path that carry a fanout, outermost first."""
    return [i for i, c in enumerate(problem.path.components) if c.dimensions]


def spatial_choices(problem: Problem) -> list[SpatialChoice]:
    """All choices that `min_usage` does not rule out: none is better used in every dimension, up to the asked usage."""
    components = problem.path.components
    dimensions = tuple(d for c in components for d in c.dimensions)
    levels = tuple(i for i, c in enumerate(components) for _ in c.dimensions)
    bounds = tuple(v.bound for v in problem.variables)
    by_usage: dict[tuple[float, ...], list[SpatialChoice]] = {}
    for count, factors in enumerate(_joint(problem, dimensions, bounds)):
        check()
        if count >= MOST_SPATIAL_CHOICES:
            raise SpecError(
                f"there are more than {MOST_SPATIAL_CHOICES:,} ways to spread loops of Einsum {problem.info.name} over the "
                f"{len(dimensions)} fanout dimensions above {problem.path.compute.name}, too many to search; leave fewer with "
                "reuse and loop_bounds",
                problem.info.name,
            )
        usage = tuple(
            min(math.prod(f) * d.usage_scale / d.fanout, d.min_usage) for d, f in zip(dimensions, factors, strict=True)
        )
        by_usage.setdefault(usage, []).append(SpatialChoice(dimensions, levels, factors))
    best = _undominated(set(by_usage))
    found = {_equivalence(problem, choice): choice for usage in best for choice in reversed(by_usage[usage])}
    return list(reversed(found.values()))


def _equivalence(problem: Problem, choice: SpatialChoice) -> object:
    """Choices that cost the same: equal totals per component, equal reuse per tensor, equal gating."""
    totals = tuple(choice.total(level) for level in fanout_levels(problem))
    reuse = tuple(
        tuple(reused(problem, choice, t, level) for level in fanout_levels(problem))
        for t in range(len(problem.tensors))
    )
    gated = tuple(math.prod(f) for d, f in zip(choice.dimensions, choice.factors, strict=True) if d.power_gateable)
    return totals, reuse, gated


def reused(problem: Problem, choice: SpatialChoice, tensor: int, level: int) -> int:
    """Product of the factors at a component across which a tensor is multicast or reduced for free."""
    t = problem.tensors[tensor]
    result = 1
    for d, at, factors in zip(choice.dimensions, choice.levels, choice.factors, strict=True):
        if at == level and t.name in d.may_reuse:
            result *= math.prod(f for v, f in enumerate(factors) if v not in t.relevant)
    return result


def _undominated(usages: set[tuple[float, ...]]) -> set[tuple[float, ...]]:
    best = tuple(map(max, zip(*usages, strict=True)))
    if best in usages:
        return {best}

    def dominated(a: tuple[float, ...]) -> bool:
        return any(b != a and all(y >= x for x, y in zip(a, b, strict=True)) for b in usages)

    return {usage for usage in usages if not dominated(usage)}


def _joint(
    problem: Problem, dimensions: tuple[BoundDimension, ...], left: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], ...]]:
    if not dimensions:
        yield ()
        return
    first, rest = dimensions[0], dimensions[1:]
    for factors in _dimension(problem, first, left):
        remaining = tuple(n // f for n, f in zip(left, factors, strict=True))
        for others in _joint(problem, rest, remaining):
            yield (factors, *others)


def _dimension(problem: Problem, dimension: BoundDimension, left: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    allowed = [
        not any(t.name in dimension.reuse and v in t.relevant for t in problem.tensors)
        for v in range(len(problem.variables))
    ]
    most = dimension.most

    def extend(v: int, product: int, chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if v == len(problem.variables):
            if _obeys(problem, dimension, chosen):
                yield chosen
            return
        for d in problem.variables[v].divisors.tolist() if allowed[v] else [1]:
            if product * d > most:
                break
            if left[v] % d == 0:
                yield from extend(v + 1, product * d, (*chosen, d))

    yield from extend(0, 1, ())


def _obeys(problem: Problem, dimension: BoundDimension, factors: tuple[int, ...]) -> bool:
    """`loop_bounds`. Merged variables are in a compared set all or none, and then only products or 1 are compared."""
    if not dimension.loop_bounds:
        return True
    values = {}
    for variable, factor in zip(problem.variables, factors, strict=True):
        values.update(dict.fromkeys(variable.members, 1))
        values[variable.members[0]] = factor
    return all(satisfies(comparison, values) for comparison in dimension.loop_bounds)
