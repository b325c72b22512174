"""Tables for all throughputs of some memories at once: what these take is open, and their calls are kept apart.

A row of such a table has the dynamic energy, the time of all other components, the calls of each action of these memories, and
the watts of leakage. Given throughputs, its latency is the largest of the time and the busy times, calls over throughput; its
energy has leakage times latency added. Both grow with each of these numbers. So a row that another one is no worse than in
any of them, and in space, is of no use with any throughputs, and `with_rates` leaves out what is of none with those of a spec.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from fusiest.pmapping.costs import BUSY, finish
from fusiest.pmapping.lattice import Lattice
from fusiest.pmapping.pareto import Floats
from fusiest.pmapping.table import Rows, Table, merge_rows
from fusiest.spec import Memory, Spec, bind_all, flatten


def can_be_open(spec: Spec, names: Iterable[str]) -> frozenset[str]:
    """Of these components, memories outside all fanouts that are as slow as their actions are, one after the other."""
    outside = set()
    for node in flatten(spec.require_arch().nodes):
        bound = [bind_all(spec, info)[str(node.name)] for info in spec.info.einsums.values()]
        if any(component.dimensions for component in bound):
            break
        if isinstance(node, Memory) and all(component.total_latency is None for component in bound):
            outside.add(str(node.name))
    return frozenset(names) & outside


def closed_costs(search: Lattice, criteria: Floats, watts: float) -> tuple[Floats, Floats]:
    """Energy and latency of complete rows; where calls are kept apart, without what these and leakage add."""
    return finish(search.problem, search.columns, criteria, 0.0 if search.columns.rates else watts)


def open_costs(search: Lattice, criteria: Floats, watts: float) -> Floats:
    """Per row, calls of each action of the components that are kept apart, in order, and watts; no columns if there are none."""
    columns, components = search.columns, search.problem.path.components
    if not columns.rates:
        return np.empty((len(criteria), 0))
    places = {(components[b.component].name, b.action): i for i, b in enumerate(columns.busy, start=BUSY) if b.counts}
    rated_actions = sorted((name, str(action)) for name, action in places if name in columns.rates)
    calls = [criteria[:, places[key]] * search.problem.info.n_instances for key in rated_actions]
    return np.column_stack([*calls, np.full(len(criteria), watts)])


def with_rates(spec: Spec, table: Table, names: frozenset[str]) -> Table:
    """The table with the throughputs of a spec."""
    bound = bind_all(spec, spec.info.einsums[table.einsum])
    throughputs = [action.throughput for name in sorted(names) for _, action in sorted(bound[name].actions.items())]
    owners = [name for name in sorted(names) for _ in bound[name].actions]
    groups = {c: _settled(rows, np.array(throughputs), owners) for c, rows in table.groups.items()}
    return replace(table, groups=groups, candidates={})


def _settled(rows: Rows, throughputs: Floats, owners: list[str]) -> Rows:
    seconds = rows.calls[:, :-1] / throughputs
    latency = rows.latency
    for name in dict.fromkeys(owners):
        latency = np.maximum(latency, seconds[:, [owner == name for owner in owners]].sum(axis=1))
    energy = rows.energy + rows.calls[:, -1] * latency
    return merge_rows([replace(rows, energy=energy, latency=latency, calls=np.empty((len(rows), 0)))])
