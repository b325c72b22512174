"""The domain of an optimum: the mappings among which it is the best.

A proof means little to a reader who does not know it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fusiest.mapper.options import Options
from fusiest.mapper.stacks.stack_plans import MOST_TILES
from fusiest.mapper.windows.window_plans import MOST_EINSUMS, has_halos
from fusiest.spec import Memory, Spec, beside, flatten, paths_of

_MOST_NAMES = 4


class WindowsSeen(NamedTuple):
    """How far windows were searched: whether no mapping is better, and how many plans were not gone through."""

    optimal: bool = True
    plans_left: int = 0
    """Plans of that domain that were not searched."""


ALL_SEEN = WindowsSeen()


def domain(spec: Spec, options: Options, orders: str, seen: WindowsSeen = ALL_SEEN) -> list[str]:
    """The mappings among which the best ones were searched, in a few phrases. `orders`: of Einsums, as searched."""
    flow = spec.dataflow.depth_first if spec.dataflow is not None else None
    if flow is not None:
        stacks = "one stack of all Einsums" if flow.stacks == "one" else "stacks and single Einsums in the order given"
        return [
            f"{stacks}, depth-first",
            f"rows {flow.rows}, columns {flow.columns}",
            f"tiles that divide, up to {MOST_TILES} sizes of each rank",
            "of each Einsum the nests that are best for a whole tile",
        ]
    return [
        "tiles that divide or not" if options.imperfect else "tiles that divide",
        _hierarchy(spec),
        *_least_usage(spec),
        *_fused_loops(options),
        "tensors used when they are finished" if options.finished else "tensors used finished or not",
        *_windows(spec, options, seen),
        "all orders of Einsums" if orders == "all" else "Einsums in the order given",
    ]


def _hierarchy(spec: Spec) -> str:
    """Whether memories stand in the architecture's order."""
    nodes = spec.require_arch().nodes
    loose = [n for n in flatten(nodes) if isinstance(n, Memory) and not n.tensors.force_memory_hierarchy_order]
    free = dict.fromkeys([*(str(name) for name in beside(nodes)), *(str(node.name) for node in loose)])
    return f"holders in the order of memories{f', but for {_names(list(free))}' if free else ''}"


def _least_usage(spec: Spec) -> Iterator[str]:
    """Spatial dimensions that must be used at least so far."""
    dimensions: dict[str, None] = {}
    for name in spec.info.einsums:
        for path in paths_of(spec, name):
            for component in path.components:
                dimensions.update({f"{d.component} {d.name}": None for d in component.dimensions if d.min_usage > 0})
    if dimensions:
        yield f"`min_usage` of {_names(list(dimensions))}"


def _fused_loops(options: Options) -> Iterator[str]:
    most_per_variable = options.max_fused_loops_per_variable
    yield f"at most {'one fused loop' if most_per_variable == 1 else f'{most_per_variable} fused loops'} per rank variable"
    if options.max_fused_loops is not None:
        yield f"at most {options.max_fused_loops} per Einsum"


def _windows(spec: Spec, options: Options, seen: WindowsSeen) -> Iterator[str]:
    """The windows in the domain, where Einsums read through halos."""
    if not has_halos(spec):
        return
    if options.windows == "none":
        yield "no windows"
        return
    yield f"windows of such tiles, {'kept' if options.windows == 'retained' else 'kept or made again'}"
    if not seen.optimal:
        loops = "a loop" if options.max_fused_loops == 1 else "one or two loops"
        left = f", {seen.plans_left:,} plans of these not" if seen.plans_left else ""
        yield (
            f"windows in {loops} that up to {MOST_EINSUMS} Einsums in the order given share, as far as they were tried{left}; "
            "left out: other tensors above these loops outside the memory of exchange, these loops over a kernel"
        )


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
