"""Energy and latency worked out once more, from the spec as it is written and what the simulator counts, for mappings that are found.

The simulator counts actions; what they cost, which component is the slowest and what leaks meanwhile is added up here.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, reject

from fusiest.base.errors import SpecError
from fusiest.looptree.nodes import Compute, Node, Spatial, Temporal
from fusiest.mapper.mapper import NoMapping, map
from fusiest.spec import architecture as arch
from fusiest.spec import architecture_names, bind, number
from fusiest.spec.spec import Spec
from tests.drawing.bits import RENAMED
from tests.drawing.targets import SMALL_SIZES
from tests.load_text import load_text
from tests.mapper_strategies import MapperCase, mapper_cases
from tests.proving import TALLY, cases, floors
from tests.reference.simulator import EinsumSimulation, simulate
from tests.workload_strategies import WorkloadCase, workload_cases

PlacedNode = tuple[Any, list[tuple[str, arch.Dimension]], bool]


class Bill:
    """What an Einsum costs on one compute."""

    def __init__(self, spec: Spec, path: tuple[Node, ...], counted: EinsumSimulation) -> None:
        leaf = path[-1]
        assert isinstance(leaf, Compute)
        self.spec, self.path, self.counted, self.leaf = spec, path, counted, leaf
        self.info = spec.info.einsums[leaf.einsum]
        self.names = architecture_names(spec, self.info)
        self.places: dict[str, PlacedNode] = {
            str(p[0].name): p for p in self._placed(spec.require_arch().nodes, [], False)
        }
        components = bind(spec, leaf.einsum, leaf.component).components
        self.on_path = {c.name: {str(a): 0.0 for a in c.actions} for c in components if c.actions}

    def _figure(self, owner: Any, name: str, default: float = 0) -> float:
        written = getattr(owner, name)
        return default if written is None else number(written, self.names, name)

    def _of_action(self, node: arch.Component, action: str, name: str, default: float) -> float:
        """Energy or throughput of an action: as written, per bit, as 1 / latency, or as the component's class says."""
        written, latency = getattr(node.action(action), name), node.action(action).latency
        if isinstance(written, str) and "bit" in written:
            moved = number(node.bits_per_action or 1, self.names, "bits")  # the same for all tensors
            amount = float(written.split()[0])
            return amount * moved if name == "energy" else amount / moved
        if written is not None:
            return number(written, self.names, name)
        if name == "throughput" and latency is not None:
            return 1 / number(latency, self.names, name)
        own = self._class(node)
        if own is None:
            return default
        cost = own["cost"]
        of_class = next(a for a in own["class"].actions if a.name == action)
        share = (
            number(node.bits_per_action, self.names, "bits") / 8 if own["class"].name == "Wide" else 1
        )  # of its width
        if name == "energy":
            return {"cost + 1": cost + 1, "twice": 2 * cost, "inner.read.energy": 3 * cost}[of_class.energy] * share
        return (default if of_class.throughput is None and of_class.latency is None else cost) / share

    def _class(self, node: arch.Component) -> dict[str, Any] | None:
        """The spec's own class of a component, and its attributes: the component's, else those for all, else the class's."""
        written = next((c for c in self.spec.component_classes if c.name == node.component_class), None)
        if written is None:
            return None
        given = {"leaks": 1, **self.spec.require_arch().attributes, **node.attributes}
        return {"class": written, **{name: number(value, self.names, name) for name, value in given.items()}}

    def _leak_power(self, node: arch.Component) -> float:
        own = self._class(node) if node.leak_power is None else None
        return own["leaks"] / 4 if own else self._figure(node, "leak_power")

    def _placed(
        self, nodes: tuple[Any, ...], above: list[tuple[str, arch.Dimension]], gated: bool
    ) -> Iterator[PlacedNode]:
        """Each component with the dimensions of fanouts at or above it, and whether a Fork switches it off."""
        for node in nodes:
            if isinstance(node, arch.Fork):
                runs_here = any(str(inner.name) == self.leaf.component for inner in arch.flatten(node.nodes))
                yield from self._placed(node.nodes, above, gated or (node.forked_power_gateable and not runs_here))
                gated |= node.non_forked_power_gateable and runs_here
            elif isinstance(node, arch.Parallel):
                yield from self._placed(node.nodes, above, gated)
            else:
                dimensions = [*above, *((str(node.name), d) for d in node.spatial)]
                yield node, dimensions, gated
                above = above if isinstance(node, arch.ComputeUnit) else dimensions

    def _per_tensor(self, written: Any, tensor: str) -> float | None:
        if isinstance(written, Mapping):
            members = [key for key in written if key != "Other" and tensor in self._members(str(key))]
            written = written[members[0]] if members else written.get("Other")
        return None if written is None else number(written, self.names, "figure")

    def _members(self, text: str) -> frozenset[str]:
        """A set of the Einsum's tensors, from the words of which sets are written."""
        users, makers = self.spec.info.users, self.spec.info.producers
        everything = frozenset(self.info.accesses)
        if "&" in text:
            return frozenset.intersection(*(self._members(part.strip()) for part in text.split("&")))
        if text.startswith("~"):
            return everything - self._members(text[1:])
        sets = {
            "All": everything,
            "Nothing": frozenset[str](),
            "Outputs": frozenset({self.info.output}),
            "Inputs": everything - {self.info.output},
            "Shared": frozenset(t for t in everything if len(users[t]) > 1),
            "Intermediates": frozenset(t for t in everything if 0 < len(makers.get(t, ())) < len(users[t])),
        }
        return (
            sets[text]
            if text in sets
            else self._members(self._renamed(text))
            if text == RENAMED
            else everything & {text}
        )

    def _renamed(self, name: str) -> str:
        """What a name stands for in the Einsum: by itself, by its entry in the section `renames`, or by default."""
        einsum = next(e for e in self.spec.require_workload().einsums if e.name == self.info.name)
        sections = {str(entry.name): entry.tensor_accesses for entry in self.spec.renames}
        entries = (*sections.get("default", ()), *sections.get(self.info.name, ()), *einsum.renames)
        return next(str(entry.source) for entry in reversed(entries) if entry.name == name)

    def _values_per_action(self, node: arch.Component, action: str, tensor: str) -> float:
        for owner in (node.action(action), node):
            values = self._per_tensor(owner.values_per_action, tensor)
            if values is not None:
                return values
        bits = self._per_tensor(node.bits_per_value, tensor) or self.info.bits_per_value[tensor]
        moved = (self._per_tensor(owner.bits_per_action, tensor) for owner in (node.action(action), node))
        per_value = node.component_class in (
            "Cell",
            "Inner",
        )  # whose actions are of a value, however many bits that has
        return next((n for n in moved if n is not None), bits if per_value else 1) / bits

    def counts(self) -> tuple[float, dict[str, dict[str, float]]]:
        """The energy of all actions, and the calls per component and action of one instance."""
        energy, calls = 0.0, {name: dict(actions) for name, actions in self.on_path.items()}
        bound = {c.name: c for c in bind(self.spec, self.leaf.einsum, self.leaf.component).components}
        for (component, tensor, action), n in self.counted.actions.items():
            node = self.places[component][0]
            of_action = node.action(action)
            scale = self._figure(node, "actions_scale") * self._figure(of_action, "actions_scale")
            if tensor:
                known = bound[component].actions[action]  # what the simulator has divided by
                values = known.values_per_action[tensor] / known.actions_scale
                each = scale / self._values_per_action(node, action, tensor)
                n, alone = n * values * each, self.counted.per_unit[component, tensor, action] * values * each
            else:
                n = self.counted.operations * scale * self.info.n_instances
                alone = self.counted.steps * scale
            scale = self._figure(node, "energy_scale") * self._figure(of_action, "energy_scale")
            energy += n * self._of_action(node, action, "energy", 0) * scale
            calls[component][action] += alone
        return energy, calls

    def seconds(self, component: str, calls: dict[str, float]) -> float:
        node = self.places[component][0]
        actions = []
        for name, n in calls.items():
            rate = self._of_action(node, name, "throughput", math.inf) * self._figure(node, "n_parallel_instances")
            for owner in (node, node.action(name)):
                rate *= self._figure(owner, "throughput_scale") / self._figure(owner, "latency_scale")
            actions.append(SimpleNamespace(name=name, n_calls=n, throughput=rate))
        if node.total_latency is None:
            return sum(a.n_calls / a.throughput for a in actions)
        parallel = self._figure(node, "n_parallel_instances")
        return float(eval(node.total_latency, {"actions": actions, "n_parallel_instances": parallel}))

    def watts(self) -> float:
        used: dict[tuple[str, str], int] = defaultdict(lambda: 1)
        extents = dict(self.info.bounds)
        for loop in self.path:
            if isinstance(loop, (Temporal, Spatial)):
                by_einsum = loop.rank_variable
                v = by_einsum if isinstance(by_einsum, str) else by_einsum[self.leaf.einsum]
                assert isinstance(loop.tile_shape, int)
                if isinstance(loop, Spatial):
                    used[loop.component, loop.name] *= -(-extents[v] // loop.tile_shape)
                extents[v] = loop.tile_shape
        path = {c.name for c in bind(self.spec, self.leaf.einsum, self.leaf.component).components}
        total = 0.0
        for node, dimensions, gated in self.places.values():
            if gated or not isinstance(node, arch.Component):
                continue
            watts = self._leak_power(node) * self._figure(node, "leak_power_scale")
            watts *= self._figure(node, "n_parallel_instances")
            for owner, d in dimensions:
                in_use = used[owner, str(d.name)] * self._figure(d, "usage_scale") if owner in path else 0.0
                watts *= in_use if d.power_gateable else self._figure(d, "fanout")
            total += watts
        return total

    def total(self) -> tuple[float, float]:
        """Energy and latency."""
        energy, calls = self.counts()
        latency = max(self.seconds(c, n) for c, n in calls.items()) * self.info.n_instances
        return energy + self.watts() * latency, latency


def check_bills(spec: Spec, imperfect: bool = False, orders: str = "all") -> None:
    try:
        mappings = map(spec, orders=orders, imperfect=imperfect, jobs=1, windows="none").mappings
    except NoMapping:
        reject()
    except SpecError as error:
        if "not supported" not in str(error):
            raise
        reject()
    for mapping in mappings:
        simulation = simulate(spec, mapping.looptree)
        for path in mapping.looptree.paths():
            leaf = path[-1]
            assert isinstance(leaf, Compute)
            found = mapping.evaluation.einsums[leaf.einsum]
            own = Bill(spec, path, simulation.einsums[leaf.einsum]).total()
            assert (found.energy, found.latency) == pytest.approx(own, rel=1e-9, abs=1e-12)
    TALLY["compared"] += 1


@floors(25)
@cases(25, proving=2000)
@given(case=mapper_cases(SMALL_SIZES))
def test_one_einsum_and_its_neighbours(case: MapperCase) -> None:
    check_bills(case.spec)


@floors(15)
@cases(15, proving=2000)
@given(case=workload_cases())
def test_workloads(case: WorkloadCase) -> None:
    check_bills(case.spec, orders=case.orders)


SCALED = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, n_parallel_instances: 2, latency_scale: 3, tensors: {keep: ~Intermediates, may_keep: All}, component_class: Dummy, bits_per_action: 5, leak_power: 1, leak_power_scale: 0.5, actions: [{name: read, energy: 10, throughput: 2, energy_scale: 2}, {name: write, energy: 5, throughput: 0.5, bits_per_action: 16}]}
  - !Container {name: Core, spatial: [{name: X, fanout: 3, power_gateable: true, usage_scale: 1.5}]}
  - !Fork {forked_power_gateable: true, non_forked_power_gateable: true, nodes: [!Memory {name: Side, size: inf, leak_power: 2, tensors: {keep: Nothing, may_keep: Above & Inputs}, component_class: Dummy, spatial: [{name: Y, fanout: 2}], actions: [{name: read, energy: 1, throughput: 1}]}, !Compute {name: Vector, enabled: len(All) == 2, component_class: Dummy, leak_power: 4, n_parallel_instances: 2, actions: [{name: compute, energy: 1, throughput: 1}]}]}
  - !Memory {name: Reg, size: 64, tensors: {keep: Nothing, may_keep: Above}, component_class: Dummy, leak_power: 8, bits_per_value: {T: 12}, values_per_action: {A: 2, Other: 3}, throughput_scale: 0.5, actions_scale: 2, actions: [{name: read, energy: 3, throughput: 1, latency_scale: 2}, {name: write, energy: 1, throughput: 4}]}
  - !Compute {name: Idle, enabled: false, component_class: Dummy, leak_power: 1, spatial: [{name: Z, fanout: 2}]}
  - !Compute {name: MAC, enabled: len(All) > 2, component_class: Dummy, leak_power: 16, total_latency: max(a.n_calls for a in actions) ** 2 / 4, actions: [{name: compute, energy: 2, throughput: 5, actions_scale: 0.5}]}
workload:
  n_instances: 2
  bits_per_value: {W: 4, Other: 8}
  rank_sizes: {M: 5, K: 2}
  einsums:
  - {einsum: "T[m] = A[m, k] * W[k]", n_instances: 3}
  - "Z[m] = T[m]"
"""  # noqa: E501


@pytest.mark.parametrize("imperfect", [False, True])
def test_all_scales_and_gates_at_once(imperfect: bool) -> None:
    before = TALLY["compared"]
    check_bills(load_text(SCALED), imperfect)
    assert TALLY["compared"] == before + 1
