"""Joining of partial mappings, and lower bounds on the Einsums that remain.

`join_problem` groups the tables of all Einsums by compatibility. A `JoinPass` sets bounds, incumbents, pruning and
orders of one pass; `levels` runs it; `picks` and `trace` lead from a complete row back to its LoopTree. `potential`,
`LowerBounds` and `seam_bounds` bound the cost of the remaining Einsums from below; `Incumbents` holds the costs that a
partial mapping has to beat.
"""

from fusiest.joining.bounds.reduced import reduced
from fusiest.joining.bounds.relaxed import LowerBounds
from fusiest.joining.bounds.segments import seam_bounds
from fusiest.joining.meeting.compatibility import EMPTY, EinsumView, OpenCompatibility, relaxed_einsum, relaxed_open
from fusiest.joining.meeting.joints import Joint
from fusiest.joining.meeting.shared_nodes import ledger
from fusiest.joining.passes import Bounds, JoinPass, Level, NoBounds, State, first_level, levels
from fusiest.joining.problem import Group, JoinProblem, Potential, join_problem, potential
from fusiest.joining.reuse.periodic_layers import as_used, first_layers
from fusiest.joining.rows.coarse import Coarse
from fusiest.joining.rows.consolidation import PartialRows, Switches
from fusiest.joining.rows.incumbents import Incumbents, KnownCosts
from fusiest.joining.rows.shared_space import make_charges, memory_sizes
from fusiest.joining.trace import History, PassedLevels, Pick, picks, trace
from fusiest.joining.tree import in_turn, merge_storage

__all__ = [
    "EMPTY", "Bounds", "Coarse", "EinsumView", "Group", "History", "Incumbents", "JoinPass", "JoinProblem", "Joint",
    "KnownCosts", "Level", "LowerBounds", "NoBounds", "OpenCompatibility", "PartialRows", "PassedLevels", "Pick",
    "Potential", "State", "Switches", "as_used", "first_layers", "first_level", "in_turn", "join_problem", "ledger",
    "levels", "make_charges", "memory_sizes", "merge_storage", "picks", "potential", "reduced", "relaxed_einsum",
    "relaxed_open", "seam_bounds", "trace",
]  # fmt: skip
