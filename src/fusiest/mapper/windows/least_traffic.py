"""Lower bounds on the traffic of inputs below the shared loops of a plan.

An input that is held above some of these loops is read once for each iteration of those further out, if there is room;
below all of them, once for each iteration of all. Where there is little room, this rules most plans out before any
table is made.
"""

from __future__ import annotations

import itertools
import math

from fusiest.mapper.windows.interleaving_plans import TurnPlan
from fusiest.model import elements, footprint
from fusiest.pmapping import least_bits_per_value, least_of_reading
from fusiest.spec import Access, Spec


def least_reading(spec: Spec, plan: TurnPlan, size: float) -> dict[str, tuple[float, float]]:
    """Per Einsum of a plan, the energy of repeated reads and the time of all reads from the outermost memory, at least.

    In a memory of this size. Only inputs that the chain does not exchange count.
    """
    costs = {}
    for name, held in zip(plan.einsums, plan.held_bits(spec), strict=True):
        info, reader = spec.info.einsums[name], _InputReads(spec, plan, name)
        joules = seconds = 0.0
        for tensor, access in info.accesses.items():
            if tensor not in plan.levels and not access.output:
                energy, time = least_of_reading(spec, name, tensor)
                reads = reader.least_reads(access, size - float(held))
                joules += max(0, reads - elements(access, info.bounds)) * energy
                seconds += reads * time
        costs[name] = joules, seconds
    return costs


class _InputReads:
    """Reads of one Einsum below the loops of a plan."""

    def __init__(self, spec: Spec, plan: TurnPlan, name: str) -> None:
        self.users, self.info = spec.info.users, spec.info.einsums[name]
        self.bits_per_value = least_bits_per_value(spec)
        bounds = self.info.bounds
        self.variables = [loop.variables[name] for loop in plan.loops]
        tilings = [(loop.tiling(name), loop.times) for loop in plan.loops]
        self.lengths = [t.lengths(bounds[v], times) for v, (t, times) in zip(self.variables, tilings, strict=True)]
        self.made = dict(bounds)
        for v, (tiling, times) in zip(self.variables, tilings, strict=True):
            self.made[v] = tiling.range(tiling.last(bounds[v], times), bounds[v])[1]
        self.stops = {plan.levels[t] for t in self.info.accesses if t in plan.levels}

    def least_reads(self, access: Access, room: float) -> int:
        """Least number of reads of one input, wherever it is held.

        It may be above a loop if there is room and no other Einsum uses it, or below all loops.
        """
        loops = len(self.variables)
        levels = range(loops) if len(self.users[access.tensor]) == 1 else ()
        width = self.bits_per_value[self.info.name, access.tensor]
        fitting = (level for level in levels if self._least_space(access, level) * width <= room)
        return min(self._reads(access, level) for level in (*fitting, loops))

    def _reads(self, access: Access, level: int) -> int:
        """Reads of an input held below this many of the loops: each iteration reads all that it needs."""
        reads = 0
        for chosen in itertools.product(*(lengths.items() for lengths in self.lengths[:level])):
            tile = dict(zip(self.variables, (length for length, _ in chosen), strict=False))
            reads += elements(access, {**self.made, **tile}) * math.prod(times for _, times in chosen)
        return reads

    def _least_space(self, access: Access, level: int) -> int:
        """Least space of a node below this many of the loops.

        It sinks past loops that index it fully, and one more that does so partially.
        """
        extents = {**self.made, **{v: max(self.lengths[k]) for k, v in enumerate(self.variables[:level])}}
        for k in range(level, len(self.variables)):
            v = self.variables[k]
            if v in access.variables:
                extents[v] = max(self.lengths[k])
            if v not in access.fully_relevant or k + 1 in self.stops:
                return footprint(access, extents)
        return 0  # it may sink further
