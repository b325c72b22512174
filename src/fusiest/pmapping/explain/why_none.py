"""Why an Einsum has no pmapping: which compute, placement, fanout, memory or constraint rules all of them out."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from fusiest.base.errors import FusiestError
from fusiest.model import footprint
from fusiest.pmapping.chains.tied_variables import can_spread
from fusiest.pmapping.explore import PathSearch
from fusiest.pmapping.lattice.applies import constrained_variables
from fusiest.pmapping.lattice.tile_problem import make_problem
from fusiest.pmapping.nest.constraints import is_about, named
from fusiest.pmapping.nest.memory_sizes import sized_paths
from fusiest.pmapping.nest.spatial import can_spread as can_spread_evenly
from fusiest.pmapping.placements.placement import graph_of
from fusiest.pmapping.question import Question
from fusiest.pmapping.table import FusedLimits
from fusiest.spec import Path, Spec

_SECONDS = 5.0
"""Seconds for the search of how large one memory would have to be."""


class NoMapping(FusiestError):
    """No valid mapping exists: which Einsums and which memory or constraint rule it out."""

    exit_status = 3


def why_none(spec: Spec, einsum: str, question: Question) -> NoMapping:
    """One line that names what to change."""
    start = f"Einsum {einsum} cannot be mapped: "
    paths = sized_paths(spec, einsum)
    enabled = [path for path in paths if path.runs]
    if not enabled:
        names = ", ".join(path.compute.name for path in paths)
        return NoMapping(f"{start}no compute is enabled for it ({names})")
    reasons = [_Diagnosis(spec, path, question).reason() for path in enabled]
    return NoMapping(start + "; ".join(f"on {p.compute.name}, {r}" for p, r in zip(enabled, reasons, strict=True)))


@dataclass(frozen=True)
class _Diagnosis:
    """The reason why one Einsum has no pmapping on one compute."""

    spec: Spec
    path: Path
    question: Question

    def reason(self) -> str:
        path = self.path
        if graph_of(self.spec, path) is None:
            tensors = ", ".join(path.einsum.accesses)
            return (
                f"keep, may_keep and back leave no way to hold {tensors}: each needs a memory, and none above where it is "
                "backed"
            )
        if not path.einsum.is_copy_operation and not self._can_spread():
            names = ", ".join(f"{d.component}.{d.name}" for c in path.components for d in c.dimensions if d.loop_bounds)
            return f"the loop_bounds of {names} cannot all be met"
        note = f"; or it needs more fused loops than {self._allowed()}" if self._any({}, FusedLimits()) else ""
        memories = [i for i in path.memories if math.isfinite(path.components[i].size)]
        for index in memories:
            need, component = self._least_need(index), path.components[index]
            if need is not None:
                return f"{component.name} would have to hold {need} than its size of {component.size:,.0f}{note}"
        if self._any(dict.fromkeys(memories, self._everything())):
            names = ", ".join(path.components[i].name for i in memories)
            return f"{names} are all too small: no tiling fits any one of them alone{note}"
        if note:
            return f"it needs more fused loops than {self._allowed()}"
        tiles, fanouts = ", ".join(self._constrained()), ", ".join(self._demanding())
        demands = [f"{fanouts} (min_usage, loop_bounds)"] if fanouts else []
        if tiles or not fanouts:
            demands.append(f"{tiles or 'the memories'} ({', '.join(named('tiles', 'loops'))})")
        return f"the constraints of {' and of '.join(demands)} cannot all be met"

    def _can_spread(self) -> bool:
        """Whether some Spatial loops meet the fanouts' constraints."""
        if self.question.imperfect:
            return can_spread(self.path, imperfect=True)
        return can_spread_evenly(make_problem(self.path, *constrained_variables(self.spec, self.path)))

    def _any(self, sizes: Mapping[int, float], limits: FusedLimits | None = None) -> bool:
        """Whether there is any pmapping if these memories had these sizes."""
        components = list(self.path.components)
        for index, size in sizes.items():
            components[index] = dataclasses.replace(components[index], size=size)
        path = Path(self.path.einsum, tuple(components))
        question = dataclasses.replace(self.question, limits=limits or self.question.limits)
        return any(len(piece.rows) for piece in PathSearch(self.spec, path, question).pieces())

    def _everything(self) -> float:
        """More bits than a memory could need: those of all tensors, and its size."""
        info, memories = self.path.einsum, [self.path.components[i] for i in self.path.memories]
        bits = [
            sum(footprint(access, info.bounds) * c.bits_per_value[t] for t, access in info.accesses.items())
            for c in memories
        ]
        finite = [c.size for c in memories if math.isfinite(c.size)]
        return 2 * sum([*bits, *finite]) + 1

    def _allowed(self) -> str:
        limits = self.question.limits
        return f"{limits.loops}" if limits.loops is not None else f"{limits.per_variable} per variable"

    def _least_need(self, index: int) -> str | None:
        """The least size that a memory needs if it alone is enlarged, and the difference; None if that does not help.

        By bisection, for some seconds of processor time, so that other work on the machine does not change the message:
        then it is a bound.
        """
        size = low = self.path.components[index].size
        high = self._everything()
        if not self._any({index: high}):
            return None
        end = time.process_time() + _SECONDS
        while high - low > 1 and time.process_time() < end:
            start = max(low, 1.0)
            middle = math.floor(math.sqrt(start * high) if high > 4 * start else (low + high) / 2)
            if not low < middle < high:  # no number of 64 bits lies between
                break
            if self._any({index: middle}):
                high = middle
            else:
                low = middle
        if high - low <= 1:
            return f"at least {high:,.0f} bits, {high - size:,.0f} more"
        if high <= low * (1 + 1e-6):
            return f"about {high:,.0f} bits, {high - size:,.0f} more"
        return f"more than {low:,.0f} bits, more"

    def _demanding(self) -> list[str]:
        """Fanouts whose Spatial loops are constrained."""
        dimensions = (d for c in self.path.components for d in c.dimensions)
        return [f"{d.component}.{d.name}" for d in dimensions if d.loop_bounds or d.min_usage > 0]

    def _constrained(self) -> list[str]:
        """Memories that constrain tiles or loops."""
        graph = graph_of(self.spec, self.path)
        constrained = {
            i for i, sets in (graph.all_sets() if graph is not None else ()) if is_about(sets, "tiles", "loops")
        }
        return [self.path.components[i].name for i in sorted(constrained)]
