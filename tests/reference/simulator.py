"""The judge: a LoopTree executed iteration by iteration, with real numbers in simulated memories.

Plain and slow on purpose. It shares no formula with the model: `simulate` and `fusiest.evaluate` must agree exactly,
and what the simulated machine computes must be what the Einsums say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fusiest.looptree import LoopTree
from fusiest.spec import Spec
from tests.reference.backings import Backings, TensorArray
from tests.reference.machine import CopyMachine, EinsumMachine
from tests.reference.nest import SimulatedNest, element
from tests.reference.nest import nests as lay_out
from tests.reference.occupancy import peaks, reservations
from tests.reference.schedule import ScheduleStep, schedule

CountedAction: TypeAlias = tuple[str, str, str]
"""Component, tensor, action."""


@dataclass(frozen=True, slots=True)
class EinsumSimulation:
    """What one Einsum did: actions over all instances (`n_instances` times), and those of instance 0 of each component."""

    actions: Mapping[CountedAction, float]
    per_unit: Mapping[CountedAction, float]
    operations: int
    steps: int
    occupancy_bits: Mapping[tuple[str, str], float]
    reservation_levels: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class Simulation:
    einsums: Mapping[str, EinsumSimulation]
    peak_occupancy_bits: Mapping[str, float]
    wrong_tensors: tuple[str, ...]
    """Tensors whose values differ from those of the Einsums computed directly: empty if the LoopTree is right."""


def simulate(spec: Spec, tree: LoopTree) -> Simulation:
    """Execute a valid LoopTree. It is not checked against capacities, fanouts or constraints."""
    laid_out = lay_out(spec, tree)
    world = Backings(laid_out)
    expected = computed_directly(laid_out, world.start)
    machines = [(CopyMachine if n.info.is_copy_operation else EinsumMachine)(n, world) for n in laid_out]
    for event in schedule(laid_out):
        if isinstance(event, ScheduleStep):
            machines[event.einsum].step(event.time)
        else:
            machines[event.einsum].leave(event.loops)
    results = world.finish()
    occupied: dict[str, float] = {}
    for per_memory in peaks(laid_out):
        occupied = {m: max(bits, occupied.get(m, 0)) for m, bits in per_memory.items()}
    return Simulation(
        einsums={m.nest.info.name: _summary(m, laid_out) for m in machines},
        peak_occupancy_bits=occupied,
        wrong_tensors=tuple(
            t for t in expected if t in world.produced and not _equal(results[t], expected[t], laid_out, t)
        ),
    )


def _equal(result: TensorArray, expected: TensorArray, nests: Sequence[SimulatedNest], tensor: str) -> bool:
    """Whether all is right that is made; what nobody needs may be left out."""
    makers = (nest for nest in nests if nest.info.output == tensor)
    places = result.place(
        sorted({element(n.info.accesses[tensor], point.values) for n in makers for point in n.points})
    )
    return np.array_equal(result.values[places], expected.values[places])


def computed_directly(laid_out: Sequence[SimulatedNest], inputs: Mapping[str, TensorArray]) -> dict[str, TensorArray]:
    """The Einsums one after the other, whole, from their definitions alone."""
    tensors = {t: a.copy() for t, a in inputs.items()}
    for nest in laid_out:
        variables = list(nest.info.bounds)
        grid = np.indices([nest.info.bounds[v] for v in variables])
        product: np.ndarray = np.ones(grid.shape[1:], dtype=np.uint64)
        places = {}
        for tensor, access in nest.info.accesses.items():
            indices = [
                access.ranks[rank].constant
                - low
                + sum((a * grid[variables.index(v)] for v, a in access.ranks[rank].coefficients.items()), np.int64(0))
                for rank, (low, _) in zip(sorted(access.ranks), tensors[tensor].box, strict=bool(access.ranks))
            ] or [np.int64(0)]
            places[tensor] = tuple(np.broadcast_to(index, product.shape) for index in indices)
            if tensor != nest.info.output:
                product = product * tensors[tensor].values[places[tensor]]
        out = nest.info.output
        if nest.info.is_copy_operation:
            tensors[out].values[places[out]] = product
        else:
            np.add.at(tensors[out].values, places[out], product)
    return tensors


def _summary(machine: EinsumMachine | CopyMachine, nests: Sequence[SimulatedNest]) -> EinsumSimulation:
    info, compute = machine.nest.info, machine.nest.path.compute
    operations = sum(machine.operations.values())
    steps = machine.operations[(0,) * len(machine.nest.spatials)]
    scale = compute.actions["compute"].actions_scale
    actions: dict[CountedAction, float] = {(compute.name, "", "compute"): operations * scale * info.n_instances}
    per_unit: dict[CountedAction, float] = {(compute.name, "", "compute"): steps * scale}
    copied = machine.source if isinstance(machine, CopyMachine) else None
    for station, traffic in machine.traffic():
        for action, counts in (("read", traffic.reads), ("write", traffic.writes)):
            if action in station.component.actions:
                tensor, bound = copied or station.tensor, station.component.actions[action]
                per_value = bound.actions_scale / bound.values_per_action[tensor]
                key = (station.component.name, tensor, action)
                actions[key] = sum(counts.values()) * per_value * info.n_instances
                per_unit[key] = sum(n for instance, n in counts.items() if not any(instance)) * per_value
    reserved = reservations(machine.nest, nests)
    return EinsumSimulation(
        actions=actions,
        per_unit=per_unit,
        operations=operations,
        steps=steps,
        occupancy_bits={(r.memory, copied or r.tensor): r.largest for r in reserved},
        reservation_levels={(r.memory, copied or r.tensor): r.level for r in reserved},
    )
