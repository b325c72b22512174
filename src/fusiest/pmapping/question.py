"""What is asked of the search for an Einsum's pmappings, and how hard to search for the answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from fusiest.base.objective import Objective
from fusiest.pmapping.lattice.remaining import Cutoff
from fusiest.pmapping.nest.memory_sizes import ample_memories
from fusiest.pmapping.nest.no_fusion_needed import exchange_memories, roomy_memories
from fusiest.pmapping.nest.rules import Rules
from fusiest.pmapping.table import FusedLimits
from fusiest.spec import Spec, memory_names


@dataclass(frozen=True)
class Question:
    """The pmappings of an Einsum that a table is to have. Equal questions about a spec have equal answers."""

    limits: FusedLimits = field(default_factory=FusedLimits)
    imperfect: bool = False
    """Whether to search tiles that do not divide, too."""
    usage: bool = False
    """Whether space counts even where Einsums do not meet on chip."""
    finished: bool = True
    """Whether Einsums use only tensors that are finished (the exchange rule)."""
    counted: bool = False
    """Whether the table counts the candidates of each group."""
    apart: bool = False
    """Whether to search only pmappings that share nothing on chip: all shared tensors are in the outermost memory."""
    needed: bool = False
    """Whether to search only pmappings that some best mapping of the workload needs, not all ways to meet other
    Einsums."""
    unlimited: bool = False
    """Whether all memories count as if they had room: that gives a bound, not mappings."""
    objective: Objective | None = None
    """The objective of an Einsum that is alone in its workload. The search may keep only its best pmappings, if that is
    quicker."""
    rates: frozenset[str] = frozenset()
    """Components whose throughputs are left open (see `symbolic_throughput`). Raises `RowLimitReached` where only the
    general search applies."""

    def is_roomy(self, spec: Spec) -> bool:
        """Whether no fused loops are needed, as there is room for all exchanged tensors (proof 6c)."""
        return self.roomy(spec) is not None

    def ample(self, spec: Spec) -> frozenset[str]:
        """Memories that are never full, so that their space is no criterion."""
        if self.usage:
            return frozenset()
        if self.unlimited:
            return frozenset(memory_names(spec.require_arch()))
        return ample_memories(spec) | (self.roomy(spec) or frozenset())

    def roomy(self, spec: Spec) -> frozenset[str] | None:
        """Memories in which Einsums exchange whole tensors; None if fused loops are needed (proof 6c)."""
        if not self.needed or self.usage:
            return None
        if self.unlimited:
            memories = exchange_memories(spec)
            return None if memories is None else frozenset(memories)
        return roomy_memories(spec)


@dataclass(frozen=True)
class Effort:
    """How hard to search for the answer to a question. By default: exactly, whatever it takes."""

    beam: int | None = None
    """Number of rows that each state keeps in a quick look. Its results are valid but may miss the optimum. None:
    exact."""
    hasty: bool = False
    """Whether a quick look takes few placements, and only the most promising order of storage nodes."""
    row_limit: float = math.inf
    """Number of rows after which the search raises `RowLimitReached`; the caller may retry with a cutoff."""
    cutoff: Cutoff | None = None
    """Energy and latency of known pmappings: only pmappings that beat each of them in one of both are kept."""
    general: bool = False
    """Whether to use the general search even where the fast one applies."""
    rules: Rules = field(default_factory=Rules)


ALL = Question()
"""All pmappings, with tiles that divide."""
EXACT = Effort()
HASTY = Effort(beam=100, hasty=True)
"""The look that is done at once. It leaves out pmappings that take little space."""
FIRST_LOOKS = tuple(Effort(beam=beam) for beam in (300, 1_000, 3_000, 10_000))
"""Looks for a first mapping, each finer than the one before, until one finds it."""
COARSE = Effort(beam=2_000)
"""The look at Einsums that are too hard to explore exactly at first."""
