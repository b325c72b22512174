"""The pmappings of an Einsum for users who want to look at them: Einsums that differ only by names are explored once."""

from __future__ import annotations

import weakref

from fusiest.base.errors import SpecError, did_you_mean
from fusiest.pmapping.explore import explore
from fusiest.pmapping.question import Question
from fusiest.pmapping.reuse.identical import common_key, renamed_table
from fusiest.pmapping.table import FusedLimits, Table
from fusiest.spec import Spec

_TABLES: weakref.WeakKeyDictionary[Spec, weakref.WeakValueDictionary[object, Table]] = weakref.WeakKeyDictionary()
"""Tables that someone still holds, by spec."""


def pmappings(
    spec: Spec,
    einsum: str,
    *,
    max_fused_loops: int | None = None,
    max_fused_loops_per_variable: int = 1,
    imperfect: bool = False,
) -> Table:
    """Every pmapping of an Einsum that is Pareto-optimal in energy, latency and space, by how it meets other Einsums.

    `imperfect`: also tiles that do not divide.

    >>> from fusiest import load
    >>> table = pmappings(load("simple", "matmuls", N_EINSUMS=2, M=64, KN=64), "Matmul0")
    >>> len(table.groups) > 1
    True
    """
    if einsum not in spec.info.einsums:
        raise SpecError(f"the workload has no Einsum '{einsum}'{did_you_mean(einsum, spec.info.einsums)}")
    tables = _TABLES.setdefault(spec, weakref.WeakValueDictionary())
    key = common_key(spec, einsum), max_fused_loops, max_fused_loops_per_variable, imperfect
    table = tables.get(key)
    if table is None:
        limits = FusedLimits(max_fused_loops, max_fused_loops_per_variable)
        table = tables[key] = explore(spec, einsum, Question(limits, imperfect))
    return table if table.einsum == einsum else renamed_table(spec, table, einsum)
