"""A slow, plain exhaustive mapper for one Einsum: every LoopTree branch of the mapspace, evaluated by the model.

No pruning rule, no dominance but in the final fronts: it says what `fusiest.pmapping` must find.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fusiest.base.errors import SpecError
from fusiest.spec import Spec, bind_all, paths_of
from tests.reference.skeletons import ReferenceLimits
from tests.reference.tilings import Mapper, PlainCompatibility, Pmapping


class TooManyTrees(Exception):
    """The mapspace is larger than the caller wants to enumerate."""


def exhaustive(
    spec: Spec, einsum: str, memories: Sequence[str] | None = None, limits: ReferenceLimits | None = None
) -> dict[PlainCompatibility, list[Pmapping]]:
    """The Pareto fronts of an Einsum's pmappings by compatibility.

    `memories`: those whose bits are criteria, and not only limits; by default all of finite size.
    """
    limits = limits or ReferenceLimits()
    if spec.info.einsums[einsum].is_copy_operation:
        raise SpecError(f"Einsum {einsum} is a copy: not supported by the exhaustive mapper", einsum)
    names = memories if memories is not None else _finite_memories(spec, einsum)
    fronts: dict[PlainCompatibility, list[Pmapping]] = {}
    for mapper in counted_mappers(spec, einsum, limits):
        for compatibility, pmapping in mapper.pmappings(names):
            _insert(fronts.setdefault(compatibility, []), pmapping)
    return fronts


def counted_mappers(spec: Spec, einsum: str, limits: ReferenceLimits) -> list[Mapper]:
    """One for each compute that can run the Einsum; TooManyTrees if they have more tilings than the limit."""
    paths = paths_of(spec, einsum)
    mappers = [Mapper(spec, path, limits) for path in paths if path.compute.enabled]
    if sum(mapper.count_tilings() for mapper in mappers) > limits.trees:
        raise TooManyTrees(einsum)
    return mappers


def _finite_memories(spec: Spec, einsum: str) -> list[str]:
    bound = bind_all(spec, spec.info.einsums[einsum])
    return [name for name, c in bound.items() if c.kind == "memory" and math.isfinite(c.size)]


def _insert(front: list[Pmapping], new: Pmapping) -> None:
    """Keep what no other pmapping is at least as good as."""
    criteria = new.criteria
    if any(dominates(old.criteria, criteria) for old in front):
        return
    front[:] = [old for old in front if not dominates(criteria, old.criteria)]
    front.append(new)


def dominates(a: Sequence[float], b: Sequence[float]) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))
