"""Variables that windows cut into tiles of any length, even where tiles divide: what a bound for windows has to count with.

A loop whose tiles divide the rows of one Einsum makes windows of the tensors before it. A first window of eight of eleven rows fills
eight lanes of an array, which no tile that divides eleven does.
"""

from __future__ import annotations

import functools

from fusiest.base.frozen import FrozenDict
from fusiest.pmapping.nest.memory_sizes import all_paths
from fusiest.pmapping.nest.spatial import never_spread
from fusiest.pmapping.placements.placement import graph_of
from fusiest.spec import Access, BoundDimension, EinsumInfo, Path, Spec


@functools.lru_cache(maxsize=4)
def has_even_tiles(spec: Spec) -> bool:
    """Whether tiles that divide are as good as any length that windows have, if memories have room for everything.

    Tiles then matter only where Spatial loops or constraints are about them.
    """
    uneven = uneven_variables(spec)
    return not any(path.runs and _is_length_seen(spec, path, uneven[path.einsum.name]) for path in all_paths(spec))


def _is_length_seen(spec: Spec, path: Path, uneven: frozenset[str]) -> bool:
    rows = {v for v in uneven if path.einsum.bounds[v] > 1}
    dimensions = [d for component in path.components for d in component.dimensions if d.most > 1]
    if any(rows - never_spread(path.einsum, d) - _barred(d) for d in dimensions):
        return True
    graph = graph_of(spec, path)
    sets = graph.all_sets() if graph is not None else ()
    return any(rows & comparison.variables for _, s in sets for comparison in s.tile_shape)


def _barred(dimension: BoundDimension) -> frozenset[str]:
    """Variables without a loop on a dimension, as `loop_bounds` say."""
    once = (c for c in dimension.loop_bounds if c.operator.removeprefix("product") in ("==", "<=") and c.value == 1)
    return frozenset[str]().union(*(comparison.variables for comparison in once))


@functools.lru_cache(maxsize=4)
def uneven_variables(spec: Spec) -> FrozenDict[str, frozenset[str]]:
    """Per Einsum, the variables of its result that windows may step: those of ranks that are read through halos, and of ranks that
    the same loop steps then."""
    groups = _StepGroups()
    for tensor, makers in spec.info.producers.items():
        for user in spec.info.users[tensor]:
            access = spec.info.einsums[user].accesses[tensor]
            for rank, affine in access.ranks.items():
                groups.join((tensor, rank), *((user, v, "variable") for v in affine.variables))
            for maker in makers:
                for rank in _shifted_ranks(spec.info.einsums[user], access, spec.info.einsums[maker]):
                    groups.mark((tensor, rank))
    return FrozenDict(
        {
            name: frozenset(v for v in info.accesses[info.output].variables if groups.is_marked((name, v, "variable")))
            for name, info in spec.info.einsums.items()
        }
    )


def _shifted_ranks(user: EinsumInfo, access: Access, maker: EinsumInfo) -> list[str]:
    """Ranks of a tensor that an Einsum does not use position by position as it is made."""
    made = maker.accesses[access.tensor].ranks
    return [
        rank
        for rank, a in access.ranks.items()
        if len(a.variables) > 1
        or set(a.coefficients.values()) - {1}
        or a.constant != made[rank].constant
        or [user.bounds[v] for v in a.variables] != [maker.bounds[v] for v in made[rank].variables]
    ]


class _StepGroups:
    """Ranks and variables that are stepped together."""

    def __init__(self) -> None:
        self.parents: dict[object, object] = {}
        self.marked: set[object] = set()

    def find(self, item: object) -> object:
        while (parent := self.parents.get(item, item)) != item:
            item = parent
        return item

    def join(self, first: object, *others: object) -> None:
        for other in others:
            self.parents[self.find(other)] = self.find(first)

    def mark(self, item: object) -> None:
        self.marked.add(item)

    def is_marked(self, item: object) -> bool:
        root = self.find(item)
        return any(self.find(marked) == root for marked in self.marked)
