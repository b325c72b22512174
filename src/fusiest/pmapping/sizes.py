"""Sizes of memories as the search sees them: a memory that has a size for some Einsums has one for all."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

from fusiest.model.visits import footprint
from fusiest.spec.binding import Path, bind, computes
from fusiest.spec.spec import Spec


def bind_sized(spec: Spec, einsum: str, compute: str) -> Path:
    """The components that serve an Einsum. One that is unlimited for it, but not for another, is as large as all tensors.

    What such a memory holds has to be counted, as it may still be there when an Einsum runs for which it is limited.
    """
    path = bind(spec, einsum, compute)
    large = large_enough(spec)
    components = (replace(c, size=min(c.size, large[c.name])) if c.name in large else c for c in path.components)
    return replace(path, components=tuple(components)) if large else path


@functools.lru_cache(maxsize=4)
def large_enough(spec: Spec) -> dict[str, float]:
    """Memories that have a size for some Einsums and none for others, each with more bits than it could ever hold."""
    sizes: dict[str, list[float]] = {}
    needs: dict[str, dict[str, float]] = {}
    for einsum, info in spec.info.einsums.items():
        for compute in computes(spec.require_arch()):
            for c in bind(spec, einsum, compute).components:
                if c.kind == "memory":
                    sizes.setdefault(c.name, []).append(c.size)
                    bits = sum(footprint(a, info.bounds) * c.bits_per_value[t] for t, a in info.accesses.items())
                    needs.setdefault(c.name, {})[einsum] = bits * info.n_instances
    mixed = {m: own for m, own in sizes.items() if math.inf in own and min(own) < math.inf}
    return {m: max(sum(needs[m].values()), *(size for size in own if size < math.inf)) for m, own in mixed.items()}
