"""Files of other tools, given by mistake: what they look like, and what to say."""

from __future__ import annotations

from collections.abc import Iterable

TIMELOOP_SECTIONS = frozenset(
    ["architecture", "problem", "mapspace", "architecture_constraints", "ERT", "ART", "dumped_by_timeloop_front_end"]
)
ZIGZAG_KEYS = frozenset(
    [
        "operational_array",
        "memories",
        "operator_type",
        "loop_dims",
        "loop_sizes",
        "spatial_mapping",
        "memory_operand_links",
    ]
)
"""Keys of ZigZag's accelerators, and of each entry of its workloads and mappings."""
TIMELOOP = "; did you mean 'arch' or 'workload'? Files of Timeloop are read by fusiest import --from timeloop"
ZIGZAG = (
    "; this looks like a file of ZigZag, which is not read: 'Coming from other tools' in the documentation shows the same "
    "as 'arch' and 'workload', and networks are read by fusiest import"
)


def foreign_hint(key: str, keys: Iterable[object]) -> str:
    """What to say if a file has this key, which is unknown, among others; nothing if it is of no tool that we know."""
    if key in TIMELOOP_SECTIONS:
        return TIMELOOP
    return ZIGZAG if ZIGZAG_KEYS.intersection(keys) else ""
