"""Why an Einsum has no pmapping: which compute, placement, fanout, memory or constraint rules all of them out."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

from fusiest.errors import FusiestError
from fusiest.pmapping import explore
from fusiest.pmapping.general_limits import can_spread
from fusiest.pmapping.nest import Rules
from fusiest.pmapping.placement import placements
from fusiest.pmapping.problem import make_problem
from fusiest.pmapping.spatial import spatial_choices
from fusiest.pmapping.table import FusedLimits
from fusiest.spec.binding import Path, bind, computes
from fusiest.spec.spec import Spec


class NoMapping(FusiestError):
    """No valid mapping exists: which Einsums and which memory or constraint rule it out."""

    exit_status = 3


def why_none(spec: Spec, einsum: str, imperfect: bool = False) -> NoMapping:
    """One line that names what to change."""
    start = f"Einsum {einsum} cannot be mapped: "
    paths = [bind(spec, einsum, compute) for compute in computes(spec.require_arch())]
    enabled = [path for path in paths if path.compute.enabled]
    if not enabled:
        names = ", ".join(path.compute.name for path in paths)
        return NoMapping(f"{start}no compute is enabled for it ({names})")
    reasons = [_Diagnosis(spec, path, imperfect).reason() for path in enabled]
    return NoMapping(start + "; ".join(f"on {p.compute.name}, {r}" for p, r in zip(enabled, reasons, strict=True)))


@dataclass(frozen=True)
class _Diagnosis:
    """Of one Einsum on one compute."""

    spec: Spec
    path: Path
    imperfect: bool

    def reason(self) -> str:
        path = self.path
        if not placements(self.spec, path):
            tensors = ", ".join(path.einsum.accesses)
            return (
                f"keep, may_keep and back leave no way to hold {tensors}: each needs a memory, and none above where it is "
                "backed"
            )
        if not self._can_spread():
            names = ", ".join(f"{d.component}.{d.name}" for c in path.components for d in c.dimensions if d.loop_bounds)
            return f"the loop_bounds of {names} cannot all be met"
        for index, component in enumerate(path.components):
            if component.kind == "memory" and math.isfinite(component.size):
                need = self._least_need(index)
                if need is not None:
                    return (
                        f"{component.name} would have to hold at least {need:,.0f} bits, {need - component.size:,.0f} more "
                        f"than its size of {component.size:,.0f}"
                    )
        memories = [i for i, c in enumerate(path.components) if c.kind == "memory"]
        if self._any(dict.fromkeys(memories, math.inf)):
            names = ", ".join(c.name for c in path.components if c.kind == "memory" and math.isfinite(c.size))
            return f"{names} are all too small: no tiling fits any one of them alone"
        names = ", ".join(self._constrained()) or "the memories"
        return f"the constraints of {names} (tile_shape, no_refetch_from_above, no_resend_to_below) cannot all be met"

    def _can_spread(self) -> bool:
        """Whether some Spatial loops meet the fanouts' constraints."""
        if self.imperfect:
            return can_spread(self.path, imperfect=True)
        return bool(spatial_choices(make_problem(self.path, *explore.constrained_variables(self.spec, self.path))))

    def _any(self, sizes: Mapping[int, float]) -> bool:
        """Whether there is any pmapping if these memories had these sizes."""
        components = list(self.path.components)
        for index, size in sizes.items():
            components[index] = dataclasses.replace(components[index], size=size)
        path = Path(self.path.einsum, tuple(components))
        found = explore.explore_path(self.spec, path, [], FusedLimits(), Rules(), self.imperfect)
        return any(len(rows) for _, rows, _ in found)

    def _least_need(self, index: int) -> float | None:
        """The least that a memory must hold if it alone were unlimited; None if that does not help."""
        low, high = self.path.components[index].size, math.inf
        if not self._any({index: math.inf}):
            return None
        size = max(low, 1.0)
        while math.isinf(high):
            size *= 2
            if self._any({index: size}):
                high = size
            else:
                low = size
        while high - low > 1 and high > low * (1 + 1e-6):
            middle = math.floor((low + high) / 2)
            if self._any({index: middle}):
                high = middle
            else:
                low = middle
        return high

    def _constrained(self) -> list[str]:
        """Memories that constrain tiles or loops."""
        found: dict[str, None] = {}
        for placement in placements(self.spec, self.path):
            for component, sets in zip(self.path.components, placement.sets, strict=True):
                if sets is not None and (sets.tile_shape or sets.no_refetch_from_above or sets.no_resend_to_below):
                    found[component.name] = None
        return list(found)
