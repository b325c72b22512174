"""One Einsum on one compute, as numbers: variables and their divisors, tensors, the shapes a tile can take.

Variables that every tensor sees alike and that no constraint names are merged into one: with perfect tiles, any chain
of divisors of the product can be realized prime by prime by loops over the members.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fusiest.pmapping.lattice import kernels
from fusiest.pmapping.lattice.bound_kernels import Predecessors
from fusiest.pmapping.nest.factors import primes
from fusiest.pmapping.pareto import Floats, Ints
from fusiest.spec import Access, EinsumInfo, Path

TRAFFIC, FIRST, FOOTPRINT = 0, 1, 2
"""Indices of a tensor's entries in `Problem.amounts`."""
MOST_COARSE_SHAPES = 20_000


@dataclass(frozen=True, eq=False)
class Variable:
    """One or several rank variables that act as one, and the extents that its tiles can have."""

    members: tuple[str, ...]
    bound: int
    divisors: Ints
    before: tuple[tuple[int, ...], ...]
    """Per divisor, the indices of those that are smaller by one prime factor."""

    @property
    def radix(self) -> int:
        return len(self.divisors)

    @cached_property
    def steps(self) -> tuple[Ints, Ints]:
        """`before` as arrays: where the entries of each divisor begin, and the entries."""
        starts = np.cumsum([0, *(len(smaller) for smaller in self.before)]).astype(np.int64)
        return starts, np.array([i for smaller in self.before for i in smaller], np.int64)


def variable_of(members: Sequence[str], factors: Sequence[int]) -> Variable:
    """Make a variable whose tiles are products of these factors: the primes of its bound, or products of some of them."""
    products = {1}
    for f in factors:
        products |= {d * f for d in products}
    values = sorted(products)
    index = {d: i for i, d in enumerate(values)}
    steps = sorted(set(factors))
    before = tuple(tuple(index[d // f] for f in steps if d % f == 0 and d // f in index) for d in values)
    return Variable(tuple(members), math.prod(factors), np.array(values, np.int64), before)


@dataclass(frozen=True)
class Tensor:
    """A tensor as seen by the merged variables."""

    name: str
    output: bool
    plain: frozenset[int]
    """Variables that are alone in a rank with coefficient ±1: the footprint is proportional to them."""
    ranks: tuple[tuple[tuple[int, int], ...], ...]
    """All other ranks: (variable, |coefficient|) pairs."""

    @cached_property
    def full(self) -> frozenset[int]:
        return self.plain | {rank[0][0] for rank in self.ranks if len(rank) == 1}

    @cached_property
    def partial(self) -> frozenset[int]:
        return frozenset(v for rank in self.ranks if len(rank) > 1 for v, _ in rank)

    @cached_property
    def relevant(self) -> frozenset[int]:
        return self.full | self.partial

    def footprint(self, extents: Sequence[Floats]) -> Floats:
        """Elements of a tile, for arrays of extents per variable."""
        result = np.ones(np.broadcast_shapes(*(np.shape(e) for e in extents)) if len(extents) else ())
        for v in self.plain:
            result = result * extents[v]
        for rank in self.ranks:
            result = result * (1 + sum(a * (extents[v] - 1) for v, a in rank))
        return result


@dataclass(frozen=True)
class Problem:
    """Everything about tiles of one Einsum that does not depend on where tensors are held."""

    info: EinsumInfo
    path: Path
    variables: tuple[Variable, ...]
    tensors: tuple[Tensor, ...]

    def __reduce__(self) -> tuple[object, ...]:
        return Problem, (self.info, self.path, self.variables, self.tensors)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        strides = []
        size = 1
        for variable in reversed(self.variables):
            strides.append(size)
            size *= variable.radix
        return tuple(reversed(strides))

    @cached_property
    def shapes(self) -> int:
        return math.prod(v.radix for v in self.variables)

    @cached_property
    def digits(self) -> Ints:
        """digits[v, shape]: which divisor of variable v each shape has."""
        numbers = np.arange(self.shapes)
        return np.array(
            [(numbers // s) % v.radix for s, v in zip(self.strides, self.variables, strict=True)], np.int64
        ).reshape(len(self.variables), self.shapes)

    @cached_property
    def extents(self) -> Floats:
        """extents[v, shape]."""
        columns = [v.divisors[d].astype(np.float64) for v, d in zip(self.variables, self.digits, strict=True)]
        return np.array(columns).reshape(len(self.variables), self.shapes)

    def extent(self, v: int, shape: int) -> int:
        """The extent of a variable in a shape."""
        return int(self.variables[v].divisors[(shape // self.strides[v]) % self.variables[v].radix])

    @cached_property
    def tiles(self) -> Floats:
        """Number of tiles of each shape in the whole iteration space."""
        result: Floats = np.ones(self.shapes)
        for v, extent in zip(self.variables, self.extents, strict=True):
            result = result * (v.bound / extent)
        return result

    @cached_property
    def amounts(self) -> Floats:
        """amounts[t, :, shape]: tensor t's traffic in all tiles together, the part of it that is the first pass over an
        output, and its footprint."""
        result = np.zeros((len(self.tensors), 3, self.shapes))
        for i, t in enumerate(self.tensors):
            result[i, FOOTPRINT] = t.footprint(list(self.extents))
            result[i, TRAFFIC] = result[i, FOOTPRINT] * self.tiles
            if t.output:
                stepped = [self.variables[v].bound / self.extents[v] for v in sorted(t.relevant)]
                result[i, FIRST] = math.prod(stepped, start=result[i, FOOTPRINT])
        return result

    @cached_property
    def most_traffic(self) -> Floats:
        """Most traffic of tensor t in any shape that is a multiple of this one, `most_traffic[t, shape]` (proof 6b)."""
        result = -self.amounts[:, TRAFFIC]
        for stride, variable in zip(self.strides, self.variables, strict=True):
            kernels.least_above(result, stride, *variable.steps)
        return -result

    @cached_property
    def predecessors(self) -> Predecessors:
        """The digits of each variable that are smaller by one prime."""
        starts, smaller = zip(*(v.steps for v in self.variables), strict=True) if self.variables else ((), ())
        before = np.cumsum([0, *map(len, smaller)])
        none = np.empty(0, np.int64)
        return Predecessors(
            np.array(self.strides, np.int64),
            np.array([v.radix for v in self.variables], np.int64),
            np.cumsum([0, *map(len, starts)])[:-1].astype(np.int64),
            np.concatenate([none, *(begin + count for begin, count in zip(starts, before, strict=False))]),
            np.concatenate([none, *smaller]),
        )

    @cached_property
    def complete(self) -> npt.NDArray[np.bool_]:
        """complete[v, shape]: whether variable v has its whole extent."""
        last = np.array([[v.radix - 1] for v in self.variables], np.int64).reshape(-1, 1)
        result: npt.NDArray[np.bool_] = self.digits == last
        return result


def coarsened(problem: Problem, most: int = MOST_COARSE_SHAPES) -> Problem:
    """Restrict a problem to fewer tile shapes, all of them shapes of the whole: large prime factors go together."""
    factors = [primes(v.bound) for v in problem.variables]
    variables = list(problem.variables)
    while math.prod(v.radix for v in variables) > most:
        v = max(range(len(variables)), key=lambda i: variables[i].radix)
        *small, a, b = sorted(factors[v])
        factors[v] = [*small, a * b]
        variables[v] = variable_of(variables[v].members, factors[v])
    return Problem(problem.info, problem.path, tuple(variables), problem.tensors)


def make_problem(path: Path, keep_apart: frozenset[frozenset[str]], single: frozenset[str]) -> Problem:
    """Make the problem, merging variables where possible (proof 6).

    `keep_apart`: sets of variables that a constraint names; `single`: never merged.
    """
    info = path.einsum
    groups: dict[object, list[str]] = {}
    for v in info.bounds:
        groups.setdefault(v if v in single else _signature(info, v, keep_apart), []).append(v)
    variables = tuple(variable_of(names, primes(math.prod(info.bounds[v] for v in names))) for names in groups.values())
    index = {member: i for i, variable in enumerate(variables) for member in variable.members}
    tensors = tuple(_tensor(access, index) for access in info.accesses.values())
    return Problem(info, path, variables, tensors)


def _signature(info: EinsumInfo, v: str, keep_apart: frozenset[frozenset[str]]) -> object:
    """Equal for variables that may be merged."""
    roles = []
    for tensor, access in info.accesses.items():
        ranks = [affine for affine in access.ranks.values() if v in affine.variables]
        if any(len(affine.variables) > 1 or abs(affine.coefficients[v]) != 1 for affine in ranks):
            return v
        roles.append((tensor, bool(ranks)))
    return tuple(roles), tuple(v in names for names in sorted(keep_apart, key=sorted))


def _tensor(access: Access, index: dict[str, int]) -> Tensor:
    plain: set[int] = set()
    ranks: list[tuple[tuple[int, int], ...]] = []
    for affine in access.ranks.values():
        terms = tuple((index[v], abs(a)) for v, a in affine.coefficients.items())
        if len(terms) == 1 and terms[0][1] == 1:
            plain.add(terms[0][0])
        elif terms:
            ranks.append(terms)
    return Tensor(access.tensor, access.output, frozenset(plain), tuple(ranks))
