"""Tables that hold for all throughputs of some memories at once.

A row of such a table has four parts: its dynamic energy E, the time T of all other components, the calls of each action
of the open memories, and the watts W of leakage. Given throughputs, an open memory m is busy for

    b_m = Σ over its actions a of calls[a] / throughput[a],

and the row costs

    latency = max(T, max over m of b_m),   energy = E + W · latency.

Both rise with each part. A row can therefore be dropped if another row is no worse in each part and in space: it is
dominated for every choice of throughputs. `with_rates` sets the throughputs of a spec, and prunes the rows by the costs
that follow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fusiest.pmapping.lattice.move_costs import BUSY, Columns, finish
from fusiest.pmapping.lattice.tile_problem import Problem
from fusiest.pmapping.lattice.tile_search import Lattice
from fusiest.pmapping.pareto import Floats
from fusiest.pmapping.table import Rows, Table, merge_rows
from fusiest.spec import Memory, Spec, bind_all, flatten


def open_memories(spec: Spec) -> frozenset[str]:
    """Memories whose throughputs can be left open: outside all fanouts, with actions one after the other."""
    outside = set()
    for node in flatten(spec.require_arch().nodes):
        bound = [bind_all(spec, info)[str(node.name)] for info in spec.info.einsums.values()]
        if any(component.dimensions for component in bound):
            break
        if isinstance(node, Memory) and all(component.total_latency is None for component in bound):
            outside.add(str(node.name))
    return frozenset(outside)


def closed_costs(search: Lattice, criteria: Floats, watts: float) -> tuple[Floats, Floats]:
    """Energy and latency of complete rows; where calls are kept apart, without the costs of these and of leakage."""
    return finish(search.problem, search.columns, criteria, 0.0 if search.columns.rates else watts)


def open_costs(search: Lattice, criteria: Floats, watts: float) -> Floats:
    """Calls and watts of each row as `open_calls` gives them, or no columns if no calls are kept apart."""
    return open_calls(search.problem, search.columns, criteria, watts) if search.columns.rates else criteria[:, :0]


def open_calls(problem: Problem, columns: Columns, criteria: Floats, watts: float | Floats) -> Floats:
    """Per row, calls of each action of the components that are kept apart, in order, and watts."""
    components = problem.path.components
    places = {(components[b.component].name, b.action): i for i, b in enumerate(columns.busy, start=BUSY) if b.counts}
    rated_actions = sorted((name, str(action)) for name, action in places if name in columns.rates)
    calls = [criteria[:, places[key]] * problem.info.n_instances for key in rated_actions]
    return np.column_stack([*calls, np.broadcast_to(watts, len(criteria))])


def with_rates(spec: Spec, table: Table, names: frozenset[str]) -> Table:
    """Set the throughputs of a spec, and prune the table."""
    rates = OpenRates.of(spec, table.einsum, names)
    groups = {c: _settled(rows, rates) for c, rows in table.groups.items()}
    return replace(table, groups=groups, candidates={})


def _settled(rows: Rows, rates: OpenRates) -> Rows:
    energy, latency = rates.settled(rows.energy, rows.latency, rows.calls)
    return merge_rows([replace(rows, energy=energy, latency=latency, calls=np.empty((len(rows), 0)))])


class OpenRates(NamedTuple):
    """Throughputs of the actions whose calls are kept apart."""

    throughputs: Floats
    """Calls per second of each action, in order."""
    owners: tuple[str, ...]
    """The component of each action."""

    @classmethod
    def of(cls, spec: Spec, einsum: str, names: frozenset[str]) -> OpenRates:
        """The throughputs that a spec has for an Einsum."""
        bound = bind_all(spec, spec.info.einsums[einsum])
        actions = [(name, action) for name in sorted(names) for _, action in sorted(bound[name].actions.items())]
        throughputs = np.array([action.throughput for _, action in actions], np.float64)
        return cls(throughputs, tuple(name for name, _ in actions))

    def settled(self, energy: Floats, latency: Floats, calls: Floats) -> tuple[Floats, Floats]:
        """Final energy and latency, given the parts of rows."""
        seconds = calls[:, :-1] / self.throughputs
        for name in dict.fromkeys(self.owners):
            latency = np.maximum(latency, seconds[:, [owner == name for owner in self.owners]].sum(axis=1))
        return energy + calls[:, -1] * latency, latency
