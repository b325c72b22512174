"""Specs whose fronts follow from each other: no judge is needed, so that these hold for workloads of any size.

FUSIEST_PROVE=1 tries hundreds of cases instead of some, and new ones each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, reject

from fusiest.base.errors import SpecError
from fusiest.base.frozen import FrozenDict
from fusiest.mapper.mapper import NoMapping, map
from fusiest.spec import architecture as arch
from fusiest.spec.language.affine import Affine
from fusiest.spec.spec import Spec
from tests.mapper.test_exhaustive_workload import covers, same_front
from tests.proving import TALLY, cases, floors
from tests.workload_strategies import WorkloadCase, workload_cases

Front = list[tuple[float, float]]


def front(spec: Spec, orders: str) -> Front:
    try:
        return [(m.energy, m.latency) for m in map(spec, orders=orders, jobs=1, windows="none").mappings]
    except NoMapping:
        return []


def with_components(spec: Spec, change: Callable[[Any], Any]) -> Spec:
    """The spec with every component, and what stands in Forks and Parallels, changed."""

    def changed(nodes: Sequence[arch.ArchitectureNode]) -> tuple[Any, ...]:
        return tuple(
            replace(node, nodes=changed(node.nodes)) if isinstance(node, (arch.Fork, arch.Parallel)) else change(node)
            for node in nodes
        )

    return replace(spec, arch=replace(spec.require_arch(), nodes=changed(spec.require_arch().nodes)))


def twice(value: arch.Value) -> arch.Value:
    return f"2 * ({value})" if isinstance(value, str) else 2 * value


def twice_the_energy(node: Any) -> Any:
    if not isinstance(node, arch.Component):
        return node
    return replace(node, energy_scale=twice(node.energy_scale), leak_power_scale=twice(node.leak_power_scale))


def twice_the_room(node: Any) -> Any:
    return replace(node, size=twice(node.size)) if isinstance(node, arch.Memory) else node


def mirrored(spec: Spec) -> Spec:
    """Every tensor of one producer at most counted from its other end, and not from 0."""
    assert spec.workload is not None
    once = {tensor for tensor, names in spec.info.users.items() if len(spec.info.producers.get(tensor, ())) <= 1}

    def index(affine: Affine) -> Affine:
        return Affine(FrozenDict({v: -a for v, a in affine.coefficients.items()}), 100 - affine.constant)

    def turned(access: Any) -> Any:
        ranks = FrozenDict({rank: index(affine) for rank, affine in access.projection.items()})
        return replace(access, projection=ranks) if access.name in once else access

    einsums = tuple(
        replace(einsum, tensor_accesses=tuple(turned(access) for access in einsum.tensor_accesses))
        for einsum in spec.workload.einsums
    )
    return replace(spec, workload=replace(spec.workload, einsums=einsums))


@floors(10)
@cases(10, proving=300)
@given(case=workload_cases())
def test_fronts_of_related_specs(case: WorkloadCase) -> None:
    """Twice the energy: the front with twice the energy. Indices mirrored and moved: the same. More room: none worse."""
    try:
        before = front(case.spec, case.orders)
    except SpecError as error:  # a copy between tensors of different bits
        if "not supported yet" not in str(error):
            raise
        reject()
    TALLY["compared"] += 1
    doubled = front(with_components(case.spec, twice_the_energy), case.orders)
    assert same_front(doubled, [(2 * energy, latency) for energy, latency in before])
    assert same_front(front(mirrored(case.spec), case.orders), before)
    roomier = front(with_components(case.spec, twice_the_room), case.orders)
    assert all(covers(roomier, point) for point in before)
