"""The best mapping without fusion: every intermediate tensor goes through the outermost memory.

What fusion gains is the difference to this. Einsums are then independent, so the search takes moments.
"""

from __future__ import annotations

import dataclasses

from fusiest.errors import FusiestError
from fusiest.mapper.mapper import run
from fusiest.mapper.options import Options
from fusiest.mapper.progress import Progress
from fusiest.mapper.result import Result
from fusiest.report.limits import outermost
from fusiest.spec import architecture as arch
from fusiest.spec.spec import Spec


def unfused_spec(spec: Spec) -> Spec:
    """The same spec, with everything kept in the outermost memory."""
    memories = outermost(spec)

    def change(node: arch.ArchitectureNode) -> arch.ArchitectureNode:
        if isinstance(node, arch.Fork):
            return dataclasses.replace(node, nodes=tuple(map(change, node.nodes)))
        if isinstance(node, arch.Memory) and node.name in memories:
            return dataclasses.replace(node, tensors=dataclasses.replace(node.tensors, keep="All", may_keep=None))
        return node

    architecture = spec.require_arch()
    return dataclasses.replace(
        spec, arch=dataclasses.replace(architecture, nodes=tuple(map(change, architecture.nodes)))
    )


def unfused_optimum(spec: Spec, options: Options, say: Progress | None = None) -> Result | str:
    """What the mapper finds without fusion, or why there is no such mapping."""
    alone = dataclasses.replace(options, max_fused_loops=0, orders="given")
    try:
        return run(unfused_spec(spec), alone, say)
    except FusiestError as error:
        return str(error)
