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
    """State of the proof with windows."""

    optimal: bool = True
    """Whether the result is optimal in its domain."""
    beyond: float = 0.0
    """How much better, relatively, mappings outside of the sharp domain could be."""
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
    words = f"windows of such tiles, {'kept' if options.windows == 'retained' else 'kept or made again'}"
    notes = [f"{seen.plans_left:,} plans were not"] if seen.plans_left else []
    if seen.beyond:
        loops = "a loop" if options.max_fused_loops == 1 else "one or two loops"
        words += (
            f", in {loops} that up to {MOST_EINSUMS} Einsums in the order given share and nothing else, ends off chip"
        )
        notes = [f"others at most {seen.beyond:.2%} better", *(f"{note} gone through" for note in notes)]
    elif not seen.optimal:
        words += ", as far as they were tried"
    yield words + (f" ({', '.join(notes)})" if notes else "")


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
