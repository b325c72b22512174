"""Why an Einsum has no pmapping: which compute, placement, fanout, memory or constraint rules all of them out."""

from __future__ import annotations

import dataclasses
import math

from fusiest.errors import FusiestError
from fusiest.pmapping import explore
from fusiest.pmapping.placement import placements
from fusiest.pmapping.problem import make_problem
from fusiest.pmapping.search import Rules
from fusiest.pmapping.spatial import spatial_choices
from fusiest.pmapping.table import FusedLimits
from fusiest.spec.binding import Path, bind, computes
from fusiest.spec.spec import Spec


class NoMapping(FusiestError):
    """No valid mapping exists: which Einsums and which memory or constraint rule it out."""

    exit_status = 3


def why_none(spec: Spec, einsum: str) -> NoMapping:
    """One line that names what to change."""
    start = f"Einsum {einsum} cannot be mapped: "
    paths = [bind(spec, einsum, compute) for compute in computes(spec.require_arch())]
    enabled = [path for path in paths if path.compute.enabled]
    if not enabled:
        names = ", ".join(path.compute.name for path in paths)
        return NoMapping(f"{start}no compute is enabled for it ({names})")
    reasons = [_reason(spec, path) for path in enabled]
    return NoMapping(start + "; ".join(f"on {p.compute.name}, {r}" for p, r in zip(enabled, reasons, strict=True)))


def _reason(spec: Spec, path: Path) -> str:
    if not placements(spec, path):
        tensors = ", ".join(path.einsum.accesses)
        return f"keep, may_keep and back leave no way to hold {tensors}: each needs a memory, and none above where it is backed"
    problem = make_problem(path, *explore.constrained_variables(spec, path))
    if not spatial_choices(problem):
        names = ", ".join(f"{d.component}.{d.name}" for c in path.components for d in c.dimensions if d.loop_bounds)
        return f"the loop_bounds of {names} cannot all be met"
    for index, component in enumerate(path.components):
        if component.kind == "memory" and math.isfinite(component.size):
            need = _least_need(spec, path, index)
            if need is not None:
                return (
                    f"{component.name} would have to hold at least {need:,.0f} bits, {need - component.size:,.0f} more than "
                    f"its size of {component.size:,.0f}"
                )
    unlimited = _with_sizes(path, {i for i, c in enumerate(path.components) if c.kind == "memory"})
    if _any(spec, unlimited):
        names = ", ".join(c.name for c in path.components if c.kind == "memory" and math.isfinite(c.size))
        return f"{names} are all too small: no tiling fits any one of them alone"
    names = ", ".join(_constrained(spec, path))
    return f"the constraints of {names or 'the memories'} (tile_shape, no_refetch_from_above, no_resend_to_below) cannot all be met"


def _with_sizes(path: Path, unlimited: set[int]) -> Path:
    components = tuple(
        dataclasses.replace(c, size=math.inf) if i in unlimited else c for i, c in enumerate(path.components)
    )
    return Path(path.einsum, components)


def _any(spec: Spec, path: Path) -> bool:
    return any(True for _ in explore.explore_path(spec, path, [], FusedLimits(), Rules()))


def _least_need(spec: Spec, path: Path, index: int) -> float | None:
    """The least that a memory must hold if it alone were unlimited; None if that does not help."""
    low, high = path.components[index].size, math.inf
    if not _any(spec, _with_sizes(path, {index})):
        return None
    size = max(low, 1.0)
    while math.isinf(high):
        size *= 2
        if _any(spec, _resized(path, index, size)):
            high = size
        else:
            low = size
    while high - low > 1 and high > low * (1 + 1e-6):
        middle = math.floor((low + high) / 2)
        if _any(spec, _resized(path, index, middle)):
            high = middle
        else:
            low = middle
    return high


def _resized(path: Path, index: int, size: float) -> Path:
    components = list(path.components)
    components[index] = dataclasses.replace(components[index], size=size)
    return Path(path.einsum, tuple(components))


def _constrained(spec: Spec, path: Path) -> list[str]:
    """Memories that constrain tiles or loops."""
    found: dict[str, None] = {}
    for placement in placements(spec, path):
        for component, sets in zip(path.components, placement.sets, strict=True):
            if sets is not None and (sets.tile_shape or sets.no_refetch_from_above or sets.no_resend_to_below):
                found[component.name] = None
    return list(found)
