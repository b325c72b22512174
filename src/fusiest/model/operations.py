"""How much an Einsum computes, counted as the field counts it: a multiply-accumulate is two operations.

Whoever speaks of operations, of op/s (TOPS) or of operations per byte or per joule (TOPS/W) takes the number from here.
"""

from __future__ import annotations

import math

from fusiest.spec import EinsumInfo

CONVENTION = "A multiply-accumulate counts as two operations, any other step as one."
"""What to say wherever operations are shown."""


def operations_per_point(info: EinsumInfo) -> int:
    """Operations of one point of the iteration space, which is one compute action.

    Two where several inputs are combined and the results added up, none of a copy, else one.

    >>> from fusiest import load
    >>> einsums = load("gpt3_6.7B").info.einsums
    >>> [operations_per_point(einsums[name]) for name in ("I", "Q", "QK_softmax")]
    [0, 2, 1]
    """
    if info.is_copy_operation:
        return 0
    inputs = sum(not access.output for access in info.accesses.values())
    output_variables = info.accesses[info.output].variables
    return 2 if inputs > 1 and any(variable not in output_variables for variable in info.bounds) else 1


def operations(info: EinsumInfo) -> int:
    """Operations of the whole Einsum, as often as it runs.

    >>> from fusiest import load
    >>> operations(load("matmuls", N_EINSUMS=1, M=2, KN=3).info.einsums["Matmul0"])
    36
    """
    return operations_per_point(info) * math.prod(info.bounds.values()) * info.n_instances
