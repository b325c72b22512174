"""Einsums that differ only by names are explored once: their common key, and a table under other names."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from fusiest.base.frozen import FrozenDict
from fusiest.looptree import Compute, Node, Spatial, Storage, Temporal, Toll
from fusiest.pmapping.nest.alignment import agreed_loops, common_loops
from fusiest.pmapping.nest.memory_sizes import copies_used
from fusiest.pmapping.placements.placement import fact_of_placements, first_alike, graph_of
from fusiest.pmapping.placements.placement_graph import PlacementNode
from fusiest.pmapping.table import Backing, Branch, FusedLoop, Holding, Origin, Table, make_compatibility
from fusiest.spec import BoundComponent, EinsumInfo, Path, Spec, paths_of


def common_key(spec: Spec, einsum: str, finished: bool = True, rates: frozenset[str] = frozenset()) -> object:
    """Describe an Einsum without names: equal for Einsums whose pmappings are the same up to names.

    The key has structure, sharing, bits and evaluated constraints. `rates`: components whose throughputs do not matter.
    """
    info = spec.info.einsums[einsum]
    number = _numbers(info)
    accesses = [
        (a.output, frozenset(tuple(affine.coefficients.items()) for affine in a.ranks.values()), len(a.ranks))
        for a in info.accesses.values()
    ]
    # Which tensors are shared is among them: they are those that have common loops.
    facts = (
        accesses,
        agreed_loops(spec, einsum, finished),
        common_loops(spec, einsum),
        copies_used(spec, einsum),
        info.bounds,
        info.bits_per_value,
        info.persistent,
        info.n_instances,
        info.is_copy_operation,
    )
    return _renamed(facts, number), constraints_key(spec, einsum, number, rates)


def constraints_key(spec: Spec, einsum: str, number: Mapping[str, str], rates: frozenset[str] = frozenset()) -> object:
    """Describe all constraints of an Einsum, on every compute, with other names for its tensors and variables."""
    paths, chosen, directions = [], [], []
    for path in paths_of(spec, einsum):
        paths.append([_without_rates(c) if c.name in rates else c for c in path.components])
        # Not among what is renamed: a tensor may be called `up`.
        directions += [frozenset((number.get(t, t), way) for t, way in c.direction.items()) for c in path.components]
        chosen.append(_numbered_placements(spec, first_alike(spec, path)) if path.runs else frozenset())
    return _renamed(paths, number), tuple(chosen), tuple(directions), _latency_names(spec, einsum, number)


def _without_rates(component: BoundComponent) -> BoundComponent:
    actions = {name: dataclasses.replace(action, throughput=0.0) for name, action in component.actions.items()}
    return dataclasses.replace(component, actions=FrozenDict(actions))


def _numbers(info: EinsumInfo) -> dict[str, str]:
    """Placeholders for the names of tensors and variables."""
    number = {name: f"\0{i}" for i, name in enumerate(info.accesses)}
    return {**number, **{name: f"\1{i}" for i, name in enumerate(info.bounds)}}


def _numbered_placements(spec: Spec, first: Path) -> object:
    """Describe the nodes of the graph level by level, in an order that does not follow the names of tensors."""

    def find() -> object:
        graph = graph_of(spec, first)
        return () if graph is None else _numbered_graph(graph, _numbers(first.einsum))

    return fact_of_placements(spec, first, "numbered", find)


def _numbered_graph(graph: PlacementNode, number: Mapping[str, str]) -> object:
    """Describe a graph: equal for graphs of the same placements. Nodes that leave the same choices are one."""
    position: dict[PlacementNode, int] = {}
    levels = []

    @functools.cache
    def renamed(value: object) -> object:
        return _ordered(_renamed(value, number))

    for nodes in reversed(graph.levels()):
        contents = {
            node: _ordered(frozenset((renamed(c.held), renamed(c.sets), position[c.after]) for c in node.choices))
            for node in nodes
        }
        levels.append(tuple(sorted(set(contents.values()), key=repr)))
        position.update({node: levels[-1].index(content) for node, content in contents.items()})
    return tuple(levels)


def _ordered(value: Any) -> Any:
    """Replace sets by sorted tuples."""
    if isinstance(value, frozenset):
        return tuple(sorted(map(_ordered, value), key=repr))
    return tuple(map(_ordered, value)) if isinstance(value, tuple) else value


def _latency_names(spec: Spec, einsum: str, number: Mapping[str, str]) -> object:
    """Meanings of the names in `total_latency` expressions. Where one is a set, not a number, Einsums are kept apart."""
    meanings = []
    for path in paths_of(spec, einsum):
        for component in path.components:
            names = component.latency_names
            if not all(isinstance(value, (int, float)) for value in names.values()):
                return einsum, *number
            meanings.append(tuple(names.items()))
    return tuple(meanings)


_NAMELESS = int, float, bool, type(None)


def _renamed(value: Any, number: Mapping[str, str]) -> Any:
    kind: Any = type(value)
    if kind in _NAMELESS:  # most are
        return value
    if isinstance(value, str):
        return number.get(value, str(value))
    if isinstance(value, (frozenset, set)):
        return frozenset(_renamed(item, number) for item in value)
    if isinstance(value, (tuple, list)):
        return tuple(_renamed(item, number) for item in value)
    if isinstance(value, Mapping):
        return frozenset((_renamed(k, number), _renamed(v, number)) for k, v in value.items())
    names = _fields(kind)
    return value if names is None else tuple(_renamed(getattr(value, name), number) for name in names)


@functools.cache
def _fields(kind: Any) -> tuple[str, ...] | None:
    """The fields of a dataclass that tell its values apart."""
    if not dataclasses.is_dataclass(kind):
        return None
    return tuple(f.name for f in dataclasses.fields(kind) if kind is not BoundComponent or f.name != "attributes")


H = TypeVar("H", bound=Storage | Toll)


class NewNames(NamedTuple):
    """New names for an Einsum whose table is another one's."""

    tensors: dict[str, str]
    """New names of tensors, by the old ones."""
    variables: dict[str, str]
    """New names of rank variables, by the old ones."""
    einsum: str
    """New name of the Einsum, which may equal that of a tensor or variable."""


def _new_names(spec: Spec, old: str, new: str) -> NewNames:
    before, after = (spec.info.einsums[name] for name in (old, new))
    tensors = dict(zip(before.accesses, after.accesses, strict=True))
    return NewNames(tensors, dict(zip(before.bounds, after.bounds, strict=True)), new)


@dataclass(frozen=True)
class RenamedOrigin:
    """Another Einsum's rows under this Einsum's names."""

    origin: Origin
    new: NewNames

    def branch(self, row: int, tiles: dict[FusedLoop, int]) -> Branch:
        variables = self.new.variables
        old = {name: original for original, name in variables.items()}
        branch = self.origin.branch(row, {_renamed_loop(loop, old): tile for loop, tile in tiles.items()})
        return Branch(
            tuple(self._storage(s) for s in branch.top),
            tuple(
                (self._storage(s), frozenset(_renamed_loop(loop, variables) for loop in cut))
                for s, cut in branch.between
            ),
            tuple(self._node(node) for node in branch.inside),
        )

    def _storage(self, holder: H) -> H:
        return dataclasses.replace(holder, tensors=tuple(self.new.tensors[t] for t in holder.tensors))

    def _node(self, node: Node) -> Node:
        if isinstance(node, (Storage, Toll)):
            return self._storage(node)
        if isinstance(node, (Temporal, Spatial)):
            assert isinstance(node.rank_variable, str)
            return dataclasses.replace(node, rank_variable=self.new.variables[node.rank_variable])
        assert isinstance(node, Compute)
        return dataclasses.replace(node, einsum=self.new.einsum)


def renamed_table(spec: Spec, table: Table, einsum: str) -> Table:
    """Rename the table of one Einsum for another with the same key."""
    new = _new_names(spec, table.einsum, einsum)
    forms, candidates = {}, {}

    @functools.cache  # forms have most of their parts in common
    def zone(loops: tuple[FusedLoop, ...]) -> tuple[FusedLoop, ...]:
        return tuple(_renamed_loop(loop, new.variables) for loop in loops)

    @functools.cache
    def backing(old: Backing) -> Backing:
        return Backing(new.tensors[old.tensor], old.memory, old.zones)

    @functools.cache
    def holding(old: Holding) -> Holding:
        return Holding(new.tensors[old.tensor], old.memory, old.zones, old.depth)

    for form, rows in table.groups.items():
        renamed = make_compatibility(map(zone, form.zones), map(backing, form.backings), map(holding, form.holdings))
        forms[renamed] = rows
        if form in table.candidates:
            candidates[renamed] = table.candidates[form]
    origins: list[Origin] = [RenamedOrigin(origin, new) for origin in table.origins]
    return Table(einsum, table.memories, forms, origins, table.explored, candidates, table.is_whole)


def _renamed_loop(loop: FusedLoop, new: Mapping[str, str]) -> FusedLoop:
    return loop._replace(variable=new[loop.variable])
