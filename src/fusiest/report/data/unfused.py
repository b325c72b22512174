"""The best mapping without fusion: every intermediate tensor goes through the outermost memory.

What fusion gains is the difference to this. Einsums are then independent, so the search takes moments.
"""

from __future__ import annotations

import dataclasses

from fusiest.base.errors import OutOfMemory
from fusiest.mapper import Options, Progress, Result, run
from fusiest.pmapping import NoMapping
from fusiest.spec import Spec, constrained, load


def unfused_optimum(spec: Spec, options: Options, say: Progress | None = None) -> Result | str:
    """What the mapper finds under the bundled dataflow `unfused`, or why there is no such mapping.

    An interrupted search has no result: what it found by then must not be taken for the optimum.
    """
    dataflow = load("unfused").dataflow
    assert dataflow is not None
    unfused = dataclasses.replace(spec, arch=constrained(spec.require_arch(), dataflow))
    try:
        result = run(unfused, dataclasses.replace(options, max_fused_loops=0, orders="given"), say)
    except (NoMapping, OutOfMemory) as error:
        return str(error)
    if result.interrupted:
        raise KeyboardInterrupt
    if result.stopped == "memory":
        return "out of memory"
    return result
