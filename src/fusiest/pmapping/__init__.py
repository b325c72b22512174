"""Phase 1: the Pareto-optimal pmappings of one Einsum.

`explore` makes an Einsum's `Table`, as a `Question` asks and an `Effort` allows; `pmappings` does so for users, and
remembers it. `common_key` and `renamed_table` let Einsums that differ only by names share one table; `why_none` says why
a table is empty.
`search_notes` and `spatial_notes` tell users what a search leaves out, and what makes it slow.
"""

from fusiest.pmapping.compile_ahead import compile_ahead
from fusiest.pmapping.explain.allowed import is_allowed
from fusiest.pmapping.explain.notes import search_notes, spatial_notes
from fusiest.pmapping.explain.why_none import NoMapping, why_none
from fusiest.pmapping.explore import explore, paths, weight
from fusiest.pmapping.interleaved import TooManyCandidates, TurnLoop, TurnNest, TurnRows, TurnsAsked, turn_rows
from fusiest.pmapping.lattice.remaining import Cutoff
from fusiest.pmapping.lattice.tile_search import RowLimitReached
from fusiest.pmapping.leasts import least_costs, least_of_computing, least_of_reading
from fusiest.pmapping.nest.memory_sizes import large_enough, least_bits_per_value, sized_paths, sizes_by_einsum
from fusiest.pmapping.nest.no_fusion_needed import exchange_memories, roomy_memories
from fusiest.pmapping.nest.shared_memories import meet_below_fanouts, meeting_memories, shared_memories
from fusiest.pmapping.nest.uneven import has_even_tiles
from fusiest.pmapping.pareto import Floats, Ints, pareto_rows
from fusiest.pmapping.question import COARSE, EXACT, FIRST_LOOKS, HASTY, Effort, Question
from fusiest.pmapping.reuse.cache import pmappings
from fusiest.pmapping.reuse.identical import common_key, constraints_key, renamed_table
from fusiest.pmapping.reuse.symbolic_throughput import OpenRates, open_memories, with_rates
from fusiest.pmapping.table import (
    Backing,
    Branch,
    Compatibility,
    FusedLimits,
    FusedLoop,
    Holding,
    Origin,
    Rows,
    Table,
    group_numbers,
    merge_rows,
)

__all__ = [
    "COARSE", "EXACT", "FIRST_LOOKS", "HASTY", "Backing", "Branch", "Compatibility", "Cutoff", "Effort", "Floats",
    "FusedLimits", "FusedLoop", "Holding", "Ints", "NoMapping", "OpenRates", "Origin", "Question",
    "RowLimitReached", "Rows", "Table", "TooManyCandidates", "TurnLoop", "TurnNest", "TurnRows", "TurnsAsked",
    "common_key", "compile_ahead", "constraints_key", "exchange_memories", "explore", "group_numbers",
    "has_even_tiles", "is_allowed", "large_enough", "least_bits_per_value", "least_costs", "least_of_computing",
    "least_of_reading", "meet_below_fanouts", "meeting_memories", "merge_rows", "open_memories", "pareto_rows",
    "paths", "pmappings", "renamed_table", "roomy_memories", "search_notes", "shared_memories", "sized_paths",
    "sizes_by_einsum", "spatial_notes", "turn_rows", "weight", "why_none", "with_rates",
]  # fmt: skip
