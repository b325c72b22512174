"""Iteration spaces: the range of every rank variable of an Einsum, from sizes of ranks and constraints.

Only boxes can be counted. A space with corners cut off, or too large to count, is an error with its line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Set

from fusiest.base.errors import SpecError, check_known, shown
from fusiest.base.frozen import FrozenDict
from fusiest.spec.language.affine import MAX_CONSTANT, Affine, Constraint
from fusiest.spec.language.expressions import chained
from fusiest.spec.language.operators import kind_of
from fusiest.spec.language.ranges import Limits
from fusiest.spec.language.variables import Variables
from fusiest.spec.workload.einsums import Einsum, Workload
from fusiest.spec.workload.variable_bounds import Box, EmptySpace, bounding_box, bounds_budget


class Spaces:
    """The iteration spaces of a workload's Einsums; `values` are the variables that sizes may use."""

    def __init__(self, workload: Workload, values: Mapping[str, object]) -> None:
        self.sizes, self.values = Variables(workload.rank_sizes, values), values
        self.constraints = [(constraint, constraint.variables) for constraint in workload.iteration_space_shape]
        self.budget = bounds_budget(len(workload.einsums))
        self.by_variable: dict[str, list[int]] = {}
        self.used: set[int] = set()
        for index, (constraint, variables) in enumerate(self.constraints):
            if not variables:
                raise SpecError(f"'{shown(constraint.text)}' says nothing of any rank variable", constraint.text)
            for v in variables:
                self.by_variable.setdefault(v, []).append(index)

    def within(self, names: Set[str]) -> Iterator[Constraint]:
        """The constraints on these variables alone."""
        for index in sorted({i for v in names for i in self.by_variable.get(v, ())}):
            constraint, variables = self.constraints[index]
            if variables <= names:
                self.used.add(index)
                yield constraint

    def check_all_used(self) -> None:
        for index, (constraint, variables) in enumerate(self.constraints):
            if index not in self.used:
                names = ", ".join(sorted(variables))
                raise SpecError(
                    f"'{shown(constraint.text)}' bounds nothing: no Einsum has all of {names}", constraint.text
                )

    def box(self, einsum: Einsum) -> dict[str, tuple[int, int]]:
        """The least and the greatest value of each rank variable."""
        variables, known = list(einsum.variables), set(einsum.variables)
        for constraint in einsum.iteration_space_shape:
            for v in constraint.variables:
                check_known(v, known, f"Einsum {einsum.name} has no rank variable {v}", constraint.text)
        constraints = [*einsum.iteration_space_shape, *self.within(known)]
        inequalities = [row for constraint in constraints for row in constraint.inequalities()]
        inequalities += self.within_ranks(einsum)
        try:
            box = bounding_box(inequalities, variables, self.budget)
        except EmptySpace:
            raise SpecError(
                f"Einsum {einsum.name} has an empty iteration space: its bounds contradict each other", einsum.name
            ) from None
        except SpecError as error:
            raise SpecError(f"Einsum {einsum.name}: {error.message}", einsum.name) from None
        for v, (low, high) in box.items():
            if math.isinf(low) or math.isinf(high):
                raise SpecError(
                    f"rank variable {v} of Einsum {einsum.name} has no bound; give its rank a size in rank_sizes, "
                    f"or iteration_space_shape: {{{v}: 0 <= {v} < …}}",
                    einsum.name,
                )
        _check_box(einsum, constraints, box)
        points = math.prod(int(high - low) + 1 for low, high in box.values())
        if points > MAX_CONSTANT:
            raise SpecError(
                f"Einsum {einsum.name} has about 10^{round(math.log10(points))} points, more than can be counted (2^62); a "
                f"smaller one may run n_instances times",
                einsum.name,
            )
        return {v: (int(low), int(high)) for v, (low, high) in box.items()}

    def rank_sizes(self, ranks: Iterable[str]) -> dict[str, int]:
        """The sizes that the workload gives for some of these ranks."""
        return {rank: _whole(rank, self.sizes) for rank in ranks if rank in self.sizes}

    def within_ranks(self, einsum: Einsum) -> Iterator[Affine]:
        """Every index is at least 0 and less than the size of its rank, which the Einsum may give for itself."""
        of_einsum = Variables(einsum.rank_sizes, chained(self.sizes, self.values)) if einsum.rank_sizes else self.sizes
        for access in einsum.tensor_accesses:
            for rank, index in access.projection.items():
                sizes = of_einsum if rank in of_einsum else self.sizes
                if rank in sizes:
                    negated = FrozenDict({v: -a for v, a in index.coefficients.items()})
                    yield index
                    yield Affine(negated, _whole(rank, sizes) - 1 - index.constant)


def _whole(rank: str, sizes: Variables) -> int:
    """The size of a rank, which must be a whole number."""
    size, text = sizes[rank], sizes.texts[rank]
    place = text if isinstance(text, str) else next(name for name in sizes.texts if name == rank)
    if isinstance(size, bool) or not isinstance(size, (int, float)):
        description = f"'{shown(size)}', which names nothing" if isinstance(size, str) else kind_of(size)
        raise SpecError(f"the size of rank {rank} must be a number, but is {description}", place)
    wrong = Limits(whole=True).complaint(f"the size of rank {rank}", size)
    if wrong or size >= MAX_CONSTANT:
        raise SpecError(wrong or f"the size of rank {rank} is too large", place)
    return int(size)


def _check_box(einsum: Einsum, constraints: Iterable[Constraint], box: Box) -> None:
    """Refuse an iteration space with corners cut off, such as a triangle: the whole box would be counted.

    A bound on what indexes a tensor, such as `p + r < 28`, is as good as the size of the rank: points outside of it are
    padding, and counted.
    """
    indices = {frozenset(row.coefficients.items()) for a in einsum.tensor_accesses for row in a.projection.values()}
    for constraint in constraints:
        for row in constraint.inequalities():
            least = row.constant + sum(a * box[v][0 if a > 0 else 1] for v, a in row.coefficients.items())
            sides = [frozenset((v, sign * a) for v, a in row.coefficients.items()) for sign in (1, -1)]
            if least < 0 and not indices.intersection(sides):
                raise SpecError(
                    f"'{shown(constraint.text)}' cuts corners off the iteration space of Einsum {einsum.name}: only boxes "
                    f"can be counted, and the box around it has points that are none of it; without this constraint, all "
                    f"of the box is counted",
                    constraint.text,
                )
