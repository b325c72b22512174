"""What a mapping costs: `evaluate` gives energy, latency, every action and what each memory holds, exactly.

`take_apart` and `build_nest` show the nests that it counts; `fused_sets` and `shared_loops` say what is fused;
`out_of_turn` and `keeps_behind` say which tensors are used before they are finished.
"""

from fusiest.model.accesses import AccessKey, count_accesses, is_reused
from fusiest.model.area import area_by_component, efficiency, leak_power_by_component
from fusiest.model.evaluate import Anatomy, action_counts, check_size, check_tree, evaluate, evaluate_einsum, take_apart
from fusiest.model.evaluation import EinsumEvaluation, Evaluation
from fusiest.model.exchange import check_backings, keeps_behind, out_of_turn
from fusiest.model.fusion import FusedSet, SharedLoops, backing_memories, fused_sets, shared_loops
from fusiest.model.leakage import leak_power
from fusiest.model.nest import (
    EinsumNest,
    Holder,
    NestLoop,
    TensorNest,
    TreeNode,
    build_nest,
    even_iterations,
    leaf_paths,
)
from fusiest.model.occupancy import (
    CopiesApart,
    Reservation,
    Sharing,
    charged_under,
    largest_tile,
    occupancy,
    reservations,
    sharing,
)
from fusiest.model.operations import CONVENTION, operations, operations_per_point
from fusiest.model.visits import elements, footprint
from fusiest.model.windows import keep_windows

__all__ = [
    "CONVENTION", "AccessKey", "Anatomy", "CopiesApart", "EinsumEvaluation", "EinsumNest", "Evaluation", "FusedSet",
    "Holder", "NestLoop", "Reservation", "SharedLoops", "Sharing", "TensorNest", "TreeNode", "action_counts",
    "area_by_component", "backing_memories", "build_nest", "charged_under", "check_backings", "check_size",
    "check_tree", "count_accesses", "efficiency", "elements", "evaluate", "evaluate_einsum", "even_iterations",
    "footprint", "fused_sets", "is_reused", "keep_windows", "keeps_behind", "largest_tile", "leaf_paths",
    "leak_power", "leak_power_by_component", "occupancy", "operations", "operations_per_point", "out_of_turn",
    "reservations", "shared_loops", "sharing", "take_apart",
]  # fmt: skip
