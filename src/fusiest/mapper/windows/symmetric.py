"""Plans over rows and columns that differ only by names: one of them is enough.

The constraints count, too: rows that a fanout must step are not like columns that it may not.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusiest.base.frozen import FrozenDict
from fusiest.mapper.windows.window_plans import WindowPlan
from fusiest.pmapping import constraints_key
from fusiest.spec import EinsumInfo, Spec


class WindowForms:
    """Descriptions of plans without the names of variables."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.known: dict[tuple[str, ...], int] = {}
        self.numbers: dict[object, int] = {}
        """Of different constraints."""

    def plan_form(self, plan: WindowPlan) -> object:
        """Describe a plan: equal for plans that differ only by names, such as over rows or columns of square images."""
        number: dict[str, int] = {}
        form: list[object] = [plan.times]
        for name in plan.einsums:
            info = self.spec.info.einsums[name]
            order = _alike_order(info, plan.variables[name])
            numbers = tuple(number.setdefault(v, len(number)) for v in order)
            form.append((numbers, tuple(info.bounds[v] for v in order), plan.tiles[name]))
            for tensor, access in info.accesses.items():
                terms = (
                    (tuple(sorted((number[v], a) for v, a in affine.coefficients.items())), affine.constant)
                    for affine in access.ranks.values()
                )
                form.append((tensor, tuple(sorted(terms))))
            form.append(self._constraints(name, order))
        return tuple(form)

    def swapped(self, one: WindowPlan, other: WindowPlan) -> FrozenDict[str, str]:
        """The exchange of the result's variables that turns one plan of a chain into the other; empty if there is none."""
        if self.plan_form(one) != self.plan_form(other):
            return FrozenDict()
        info = self.spec.info.einsums[one.einsums[-1]]
        orders = (_alike_order(info, plan.variables[info.name]) for plan in (one, other))
        return FrozenDict(zip(*orders, strict=True))

    def _constraints(self, einsum: str, order: Sequence[str]) -> int:
        """Number the constraints of an Einsum whose variables are counted in this order."""
        key = einsum, *order
        if key not in self.known:
            said = constraints_key(self.spec, einsum, {v: f"\1{i}" for i, v in enumerate(order)})
            self.known[key] = self.numbers.setdefault(said, len(self.numbers))
        return self.known[key]


def _alike_order(info: EinsumInfo, variable: str) -> list[str]:
    """The variables of an Einsum: the given one, those that step a rank with it, others, alike ones together."""
    ranks = [affine.coefficients for access in info.accesses.values() for affine in access.ranks.values()]
    beside = {v for terms in ranks if variable in terms for v in terms}
    return sorted(info.bounds, key=lambda v: (v != variable, v not in beside, info.bounds[v], _uses(info, v)))


def _uses(info: EinsumInfo, variable: str) -> list[tuple[str, list[int], int]]:
    """How an Einsum's tensors are indexed by a variable."""
    return [
        (tensor, sorted(affine.coefficients.values()), affine.constant)
        for tensor, access in info.accesses.items()
        for affine in access.ranks.values()
        if variable in affine.coefficients
    ]
