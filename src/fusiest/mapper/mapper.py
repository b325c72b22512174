"""The mapper: explore each Einsum, join them, and turn the survivors into LoopTrees checked by the model."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from fusiest.errors import FusiestError
from fusiest.joining.bounds import Incumbents
from fusiest.looptree.nodes import LoopTree
from fusiest.mapper.joiner import Joiner, State, Step
from fusiest.mapper.trace import trace
from fusiest.model.evaluate import evaluate
from fusiest.pmapping.explore import pmappings
from fusiest.pmapping.pareto import pareto_rows
from fusiest.spec.spec import Spec


class NoMapping(FusiestError):
    """No valid mapping exists: which Einsums and which memory rule it out."""

    exit_status = 3


@dataclass(frozen=True)
class Mapping:
    """One complete mapping and its cost as the model evaluates it."""

    energy: float
    latency: float
    einsum_order: tuple[str, ...]
    looptree: LoopTree


@dataclass
class Result:
    objective: tuple[str, ...]
    mappings: list[Mapping]
    optimal: bool = True
    gap: float = 0.0
    steps: list[Step] = field(default_factory=list)


def map_workload(spec: Spec, objective: tuple[str, ...] = ("energy", "latency"), orders: str = "all", max_fused_loops: int | None = None, beam: int = 4000, verbose: bool = False) -> Result:
    begin = time.perf_counter()

    def say(text: str) -> None:
        if verbose:
            print(f"{time.perf_counter() - begin:7.2f} {text}", flush=True)

    tables = {}
    for name in spec.info.einsums:
        tables[name] = pmappings(spec, name, max_fused_loops=max_fused_loops)
        say(f"explored {name}: {len(tables[name])} in {len(tables[name].forms)} forms")
    joiner = Joiner(spec, tables, orders == "all")
    say("bounds")
    incumbents = Incumbents(objective)
    found: list[tuple[float, float, dict[frozenset[str], State], int]] = []

    def report(step: Step) -> None:
        say(str(step))

    for width in (beam, None):
        states = joiner.run(incumbents, width, report, lambda: None)
        state = states.get(frozenset(joiner.order))
        if state is None or not len(state):
            continue
        rows = state.rows[0]
        keep = pareto_rows(np.zeros(len(rows), np.int64), np.column_stack([rows.energy, rows.latency]))
        for row in keep:
            found.append((float(rows.energy[row]), float(rows.latency[row]), states, int(row)))
            incumbents.add(float(rows.energy[row]), float(rows.latency[row]))
        say(f"incumbents {incumbents.points}")
    if not found:
        raise NoMapping("no valid mapping")
    energies = np.array([f[0] for f in found])
    latencies = np.array([f[1] for f in found])
    if len(objective) == 1:
        score = incumbents.score(energies, latencies)
        chosen = [int(np.argmin(score))]
    else:
        chosen = [int(i) for i in pareto_rows(np.zeros(len(found), np.int64), np.column_stack([energies, latencies]))]
    mappings = []
    for i in chosen:
        order, tree = trace(joiner, found[i][2], found[i][3])
        result = evaluate(spec, tree)
        if not (np.isclose(result.energy, energies[i], rtol=1e-9) and np.isclose(result.latency, latencies[i], rtol=1e-9)):
            raise FusiestError("internal error: mismatch")
        mappings.append(Mapping(result.energy, result.latency, order, tree))
    say("done")
    return Result(objective, sorted(mappings, key=lambda m: m.energy))
