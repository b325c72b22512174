"""Memory over time: what each memory holds while each Einsum runs, tensor by tensor, against its size.

Fused Einsums take turns many times; each is shown once, in execution order, as it finds the memories on every turn.
"""

from __future__ import annotations

import math

from fusiest.model import Anatomy, Evaluation
from fusiest.report.charts.chart import Bars, Series
from fusiest.report.charts.colours import Names
from fusiest.show import bits

SIGHT = 8
"""A memory's size is drawn up to this many times what is held."""


def occupancy_charts(names: Names, parts: Anatomy, evaluation: Evaluation) -> dict[str, Bars]:
    """Per memory in use, bytes per instance. The highest stack is the evaluation's peak."""
    einsums = [str(nest.einsum.name) for nest in parts.nests]
    charts = {}
    for memory in names.memories:
        if memory not in evaluation.peak_occupancy_bits:
            continue
        contents = [{t: size for (m, t), size in held.items() if m == memory} for held in parts.held.per_einsum]
        most = {str(t): max(other.get(t, 0) for other in contents) for content in contents for t in content}
        series = [
            Series(name=group.name, color=group.color,
                   values=[sum(content.get(tensor, 0) for tensor in group.members) / 8 for content in contents])
            for group in names.groups({t: size for t, size in most.items() if size})
        ]  # fmt: skip
        size, limit = memory_size(parts, memory), _limit(parts, memory, evaluation.peak_occupancy_bits[memory])
        charts[memory] = Bars(
            title=memory,
            axis="held per instance" if _instances(parts, memory) > 1 else "held",
            unit="B",
            categories=einsums,
            series=series,
            limit=limit,
            limit_name=f"size {bits(size)}{'' if limit else ', far above'}" if size < math.inf else "",
            widths=[evaluation.einsums[e].latency for e in einsums],
            vertical=True,
        )
    return charts


def memory_size(parts: Anatomy, memory: str) -> float:
    """Bits, for the Einsum for which they are most."""
    return max(bound[memory].size for bound in parts.bound.values())


def _limit(parts: Anatomy, memory: str, peak: float) -> list[float | None]:
    """Bytes while each Einsum runs; none if what is held would not be seen next to them."""
    if memory_size(parts, memory) > SIGHT * peak:
        return []
    sizes = [parts.bound[nest.einsum.name][memory].size for nest in parts.nests]
    return [size / 8 if size < math.inf else None for size in sizes]


def _instances(parts: Anatomy, memory: str) -> int:
    """How many of this memory there are."""
    for nest in parts.nests:
        components = [c.name for c in nest.path.components]
        if memory in components:
            above = nest.path.components[: components.index(memory) + 1]
            return math.prod(d.fanout for c in above for d in c.dimensions)
    return 1
