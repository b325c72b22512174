"""Why there is no mapping: which Einsum, which memory or constraint, and by how much."""

from __future__ import annotations

import numpy as np

from fusiest.joining.bounds import Incumbents
from fusiest.joining.coarse import Coarse
from fusiest.mapper.joiner import Joiner, State
from fusiest.pmapping.diagnose import NoMapping


def why_not_joined(joiner: Joiner) -> NoMapping:
    """Each Einsum has pmappings, but they do not fit together: lift one memory's limit at a time to see which."""
    joiner.settled = np.zeros_like(joiner.settled)
    limits = joiner.sizes.copy()
    for m, memory in enumerate(joiner.memories):
        joiner.sizes = limits.copy()
        joiner.sizes[m] = np.inf
        state = _joined(joiner).get(frozenset(joiner.order))
        if state is not None and len(state):
            need = min(float(rows.usage()[:, m].min()) for rows in state.rows if len(rows))
            less = joiner.smallest[m]
            note = f"; while Einsums run for which it is as small as {less:,.0f}, the rest counts as held"
            note = note if less < limits[m] else ""
            return NoMapping(
                f"no valid mapping: the Einsums' tensors do not fit into {memory} together; with the tilings that fit "
                f"elsewhere it would have to hold {need:,.0f} bits, {need - limits[m]:,.0f} more than its size of "
                f"{limits[m]:,.0f}{note}"
            )
    joiner.sizes = np.full_like(limits, np.inf)
    if frozenset(joiner.order) in _joined(joiner):
        names = ", ".join(joiner.memories)
        return NoMapping(f"no valid mapping: {names} are all too small for what the Einsums hold in them together")
    joiner.sizes = limits
    most = max(_joined(joiner), key=len)
    blocked = ", ".join(joiner.next_einsums(most))
    done = ", ".join(e for e in joiner.order if e in most)
    return NoMapping(f"no valid mapping: after Einsums {done}, no pmapping of {blocked} agrees with any of theirs")


def _joined(joiner: Joiner) -> dict[frozenset[str], State]:
    return joiner.run(Incumbents(("energy",)), Coarse(), lambda step: None, lambda: None)
