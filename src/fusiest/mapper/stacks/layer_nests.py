"""Nests of a layer of a stack in one tile: the best that the search finds for the layer alone.

Tiles of its feature maps are in a memory on chip.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from fusiest.base.errors import SpecError
from fusiest.base.objective import OBJECTIVES
from fusiest.looptree import LoopTree, Node, Storage
from fusiest.mapper.options import Options
from fusiest.mapper.results.result import Result
from fusiest.mapper.stacks.stack_plans import ImageVariables, features
from fusiest.model import footprint
from fusiest.pmapping import NoMapping, shared_memories
from fusiest.spec import Spec, explicit_einsum, memory_names, part_of, paths_of
from fusiest.spec import architecture as arch

Run = Callable[[Spec, Options], Result]
WeightPlace: TypeAlias = Literal["resident", "through", "past"]
"""Where weights are: on chip throughout; or fetched for each tile, through the memory of the feature maps or past it."""


class LayerNest(NamedTuple):
    """An Einsum's nest in a tile, below the storage nodes of its feature maps and of weights that stay."""

    nodes: tuple[Node, ...]
    resident: tuple[tuple[str, str], ...]
    """Weights that stay, each with its memory."""


@dataclasses.dataclass
class LayerNests:
    """Nests of the layers of a spec, each searched once."""

    spec: Spec
    options: Options
    run: Run
    images: ImageVariables

    def __post_init__(self) -> None:
        self.outermost = memory_names(self.spec.require_arch())[0]
        self.memories = [m for m in shared_memories(self.spec) if m != self.outermost]
        self._nests: dict[object, dict[str, LayerNest]] = {}

    @property
    def aims(self) -> Sequence[str]:
        """Objectives by which a layer's nest may be the best."""
        minimized = self.options.minimized
        return tuple(OBJECTIVES) if minimized.is_product or minimized.is_front else minimized.names

    def find(self, einsum: str, extents: Mapping[str, int], memory: str, weights: WeightPlace) -> dict[str, LayerNest]:
        """The best nest by each objective; none if the architecture does not allow it."""
        key = einsum, tuple(sorted(extents.items())), memory, weights
        if key not in self._nests:
            self._nests[key] = self._search(einsum, extents, memory, weights)
        return self._nests[key]

    def have_room(self, einsum: str, extents: Mapping[str, int], memory: str, tensors: Sequence[str]) -> bool:
        """Whether a memory can hold these tensors of a layer in one tile together."""
        info = self.spec.info.einsums[einsum]
        bounds = {**info.bounds, **extents}
        for path in paths_of(self.spec, einsum):
            for component in path.components:
                bits = (footprint(info.accesses[t], bounds) * component.bits_per_value[t] for t in tensors)
                if component.name == memory and sum(bits) > component.size:
                    return False
        return True

    def _search(
        self, einsum: str, extents: Mapping[str, int], memory: str, weights: WeightPlace
    ) -> dict[str, LayerNest]:
        info = self.spec.info.einsums[einsum]
        maps = features(self.spec, self.images, einsum)
        weight_tensors = [t for t in info.accesses if t not in maps]
        if weights != "resident":
            away = {} if weights == "through" else {memory: weight_tensors}
            return self._alone(einsum, extents, dict.fromkeys(maps, memory), away)
        for place in self.memories:
            nests = self._alone(einsum, extents, dict.fromkeys(maps, memory) | dict.fromkeys(weight_tensors, place), {})
            if nests:
                return nests
        return {}

    def _alone(
        self, einsum: str, extents: Mapping[str, int], places: Mapping[str, str], away: Mapping[str, Sequence[str]]
    ) -> dict[str, LayerNest]:
        """`places`: tensors that begin in a memory on chip. `away`: those that a memory must not hold."""
        part = part_of(self.spec, [einsum])
        (written,) = (e for e in self.spec.require_workload().einsums if e.name == einsum)
        bounds = {**self.spec.info.einsums[einsum].bounds, **extents}
        layer = explicit_einsum(self.spec, written, bounds, {})
        accesses = tuple(dataclasses.replace(access, persistent=False) for access in layer.tensor_accesses)
        layer = dataclasses.replace(layer, n_instances=1, tensor_accesses=accesses)
        workload = dataclasses.replace(part.require_workload(), einsums=(layer,))
        machine = _with_places(part.require_arch(), places, away)
        options = dataclasses.replace(
            self.options, objective=("energy", "latency"), windows="none", jobs=1, time_limit=None
        )
        try:
            result = self.run(dataclasses.replace(part, arch=machine, workload=workload), options)
        except (NoMapping, SpecError):  # nothing fits, or the architecture does not allow it
            return {}
        resident = tuple((t, m) for t, m in places.items() if t not in features(self.spec, self.images, einsum))
        return {
            aim: LayerNest(_below(result.best(aim).looptree, places, self.outermost), resident) for aim in self.aims
        }


def _with_places(
    architecture: arch.Architecture, places: Mapping[str, str], away: Mapping[str, Sequence[str]]
) -> arch.Architecture:
    """The architecture, in which these tensors begin in these memories, and some are kept away from others."""
    order = memory_names(architecture)

    def changed(node: arch.Container) -> arch.Container:
        if not isinstance(node, arch.Memory):
            return node
        name = str(node.name)
        out = [t for t, m in places.items() if order.index(name) < order.index(m)] + list(away.get(name, ()))
        backed = [t for t, m in places.items() if m == name]
        return dataclasses.replace(node, tensors=_sets(node.tensors, out, backed))

    return dataclasses.replace(architecture, nodes=arch.rewritten(architecture.nodes, changed))


def _sets(tensors: Any, out: Sequence[str], backed: Sequence[str]) -> Any:
    """Sets of a memory, without some tensors, and with some that begin here."""
    keep = tensors.keep
    may = tensors.may_keep if tensors.may_keep is not None else "All" if keep is None else "Nothing"
    back = tensors.back or "Nothing"
    if out:
        names = " | ".join(out)
        keep, may, back = f"({keep or 'Nothing'}) - ({names})", f"({may}) - ({names})", f"({back}) - ({names})"
    if backed:
        back = " | ".join([f"({back})", *backed])
    return dataclasses.replace(tensors, keep=keep, may_keep=may, back=back)


def _below(tree: LoopTree, places: Mapping[str, str], outermost: str) -> tuple[Node, ...]:
    """The nest without nodes where tensors begin on chip or are held off chip."""
    nodes: list[Node] = []
    for node in tree.nodes:
        if isinstance(node, Storage):
            if node.component == outermost:
                continue
            tensors = tuple(t for t in node.tensors if places.get(t) != node.component)
            if not tensors:
                continue
            node = dataclasses.replace(node, tensors=tensors)
        nodes.append(node)
    return tuple(nodes)
