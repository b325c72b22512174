"""Why there is no mapping: which Einsum, which memory or constraint, and by how much."""

from __future__ import annotations

import numpy as np

from fusiest.joining.bounds import Incumbents
from fusiest.joining.coarse import Coarse
from fusiest.mapper.joiner import Joiner
from fusiest.pmapping.diagnose import NoMapping


def why_not_joined(joiner: Joiner) -> NoMapping:
    """Each Einsum has pmappings, but they do not fit together: lift one memory's limit at a time to see which."""
    joiner.settled = np.zeros_like(joiner.settled)
    limits = joiner.sizes.copy()
    for m, memory in enumerate(joiner.memories):
        joiner.sizes = limits.copy()
        joiner.sizes[m] = np.inf
        states = joiner.run(Incumbents(("energy",)), Coarse(), lambda step: None, lambda: None)
        state = states.get(frozenset(joiner.order))
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
    joiner.sizes = limits
    states = joiner.run(Incumbents(("energy",)), Coarse(), lambda step: None, lambda: None)
    most = max(states, key=len)
    blocked = ", ".join(joiner.next_einsums(most))
    done = ", ".join(e for e in joiner.order if e in most)
    return NoMapping(f"no valid mapping: after Einsums {done}, no pmapping of {blocked} agrees with any of theirs")
