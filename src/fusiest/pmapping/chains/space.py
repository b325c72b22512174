"""Space as the general search counts it: in each memory as a whole, and right below boundaries between fused loops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fusiest.pmapping.chains.terms import Terms
from fusiest.pmapping.pareto import Floats

Boundary = tuple[int, int]
"""A boundary between fused loops. (i, 0): right below those of gap i; (i, 1): below those of gap i + 1 that node i's
reservation passes."""


@dataclass(frozen=True, slots=True)
class Total:
    """All bits that a memory holds."""

    level: int


@dataclass(frozen=True, slots=True)
class Reserved:
    """Bits of a tracked memory right below a boundary. `apart`: of a shared tensor's further storage node."""

    level: int
    at: Boundary
    apart: bool = False


def running_sums(terms: Terms, memories: tuple[int, ...]) -> Floats:
    """Criteria × sums: per tracked memory, the bits reserved down to each boundary."""
    columns = []
    for memory in memories:
        running = np.zeros(len(terms.criteria))
        for name, i in sorted(reserved(terms), key=lambda item: item[0].at):
            if name.level == memory and not name.apart:
                running[i] = 1.0
                columns.append(running.copy())
    return np.column_stack(columns) if columns else np.zeros((len(terms.criteria), 0))


def reserved(terms: Terms) -> list[tuple[Reserved, int]]:
    """Criteria that are about reserved bits, with their numbers."""
    return [(name, i) for name, i in terms.criteria.items() if isinstance(name, Reserved)]
