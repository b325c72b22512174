"""Placements of one Einsum: which memory holds which tensor, as `keep`, `may_keep` and `back` allow."""

from __future__ import annotations

import dataclasses
import functools
import re
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fusiest.base.interrupt import check
from fusiest.pmapping.placements.placement_graph import HeldChoice, HeldSets, PlacementNode, placement_graph
from fusiest.spec import NameSet, Path, PlacementSets, Spec


@dataclass(frozen=True, slots=True)
class Placement:
    """One choice of which memory holds which tensor."""

    held: tuple[frozenset[str], ...]
    """Per component of the path, the tensors that it holds or lets through."""
    sets: tuple[PlacementSets | None, ...]
    """Per component of the path, the constraints that then apply."""

    def holders(self, tensor: str, path: Path) -> list[int]:
        """The memories that hold a tensor, outermost first."""
        return [i for i, c in enumerate(path.components) if tensor in self.held[i] and c.kind == "memory"]

    def tolls(self, tensor: str, path: Path) -> list[int]:
        return [i for i, c in enumerate(path.components) if c.kind == "toll" and tensor in self.held[i]]


F = TypeVar("F")
_Sets = tuple[PlacementSets | None, ...]


@dataclass(frozen=True)
class _Known:
    """Placements of a spec's Einsums found so far, by Einsum and compute."""

    graphs: dict[tuple[str, str], PlacementNode | None] = field(default_factory=dict)
    placements: dict[tuple[str, str], tuple[Placement, ...]] = field(default_factory=dict)
    first: dict[object, Path] = field(default_factory=dict)
    """The first Einsum of each kind. Einsums that differ only by names are of one kind."""
    alike: dict[tuple[str, str], Path] = field(default_factory=dict)
    """For each Einsum, the first of its kind."""
    facts: dict[object, Any] = field(default_factory=dict)
    """Facts derived from placements, found so far."""


_KNOWN: weakref.WeakKeyDictionary[Spec, _Known] = weakref.WeakKeyDictionary()


def placements(spec: Spec, path: Path) -> tuple[Placement, ...]:
    """All placements, each once. They are found once for all Einsums that differ only by names."""
    known = _KNOWN.setdefault(spec, _Known())
    key = path.einsum.name, path.compute.name
    if key not in known.placements:
        known.placements[key] = tuple(listed(graph_of(spec, path)))
    return known.placements[key]


def graph_of(spec: Spec, path: Path) -> PlacementNode | None:
    """All placements as a graph, made once for Einsums that differ only by names."""
    known = _KNOWN.setdefault(spec, _Known())
    key = path.einsum.name, path.compute.name
    if key not in known.graphs:
        first = first_alike(spec, path)
        if first.einsum.name == path.einsum.name:
            known.graphs[key] = placement_graph(spec, path)
        else:
            new = dict(zip(_names(first), _names(path), strict=True))
            original = graph_of(spec, first)
            known.graphs[key] = original and _renamed_graph(original, new)
    return known.graphs[key]


def listed(graph: PlacementNode | None) -> Iterator[Placement]:
    """The placements of a graph."""
    begun: list[tuple[HeldSets, _Sets, PlacementNode]] = [((), (), graph)] if graph is not None else []
    while begun:
        held, sets, node = begun.pop()
        check()
        if not node.choices:
            yield Placement(held, sets)
        begun += [((*held, c.held), (*sets, c.sets), c.after) for c in reversed(node.choices)]


def first_alike(spec: Spec, path: Path) -> Path:
    """The path of the first Einsum that has the same placements, apart from names; its names are in the same order."""
    known = _KNOWN.setdefault(spec, _Known())
    key = path.einsum.name, path.compute.name
    if key not in known.alike:
        known.alike[key] = known.first.setdefault(_apart_from_names(spec, path), path)
    return known.alike[key]


def fact_of_placements(spec: Spec, first: Path, key: object, find: Callable[[], F]) -> F:
    """Find a fact that follows from the placements of the first Einsum of its kind, once.

    `key`: its name and other inputs.
    """
    facts = _KNOWN.setdefault(spec, _Known()).facts
    whole = first.einsum.name, first.compute.name, key
    if whole not in facts:
        facts[whole] = find()
    fact: F = facts[whole]
    return fact


def _names(path: Path) -> list[str]:
    return [*path.einsum.accesses, *path.einsum.bounds]


def _apart_from_names(spec: Spec, path: Path) -> object:
    """Describe an Einsum without names: equal for Einsums that have the same placements in the same order.

    Expressions see names that are written somewhere in the architecture: these must mean the same for both. The order
    of placements follows that of names.
    """
    names, universe = path.einsum.names, path.einsum.names.universe
    number: dict[str, str | int] = {name: i for i, name in enumerate(_names(path))}

    def meant(value: object) -> object:
        if isinstance(value, NameSet):
            return value.kind, frozenset(number.get(member, member) for member in value.members)
        return repr(value)

    words = [word for word in _words(spec) if word in names]
    tensors = [(number[t], frozenset(number[v] for v in variables)) for t, variables in universe.tensors.items()]
    bits = [(number[t], n) for t, n in universe.bits_per_value.items()]
    return (
        path.compute.name,
        tuple((c.name, c.kind, c.enabled) for c in path.components),
        tuple((word, meant(names[word])) for word in words),
        (frozenset(tensors), frozenset(number[v] for v in universe.variables), frozenset(bits)),
        tuple(number[name] for name in sorted(number)),
    )


@functools.lru_cache(maxsize=16)
def _words(spec: Spec) -> tuple[str, ...]:
    """All names that expressions of an architecture may use, but for Above, whose contents are a choice."""
    written = repr((spec.require_arch(), spec.variables, spec.component_classes))
    return tuple(sorted(set(re.findall(r"\w+", written)) - {"Above"}))


def _renamed_graph(original: PlacementNode, new: Mapping[str, str]) -> PlacementNode:
    """Rename a graph for another Einsum. Nodes share their sets: each is renamed once."""
    known: dict[int, Any] = {}

    def renamed(value: Any) -> Any:
        if id(value) not in known:
            known[id(value)] = _renamed_value(value, renamed, new)
        return known[id(value)]

    @functools.cache
    def renamed_node(node: PlacementNode) -> PlacementNode:
        choices = [HeldChoice(renamed(held), renamed(sets), renamed_node(after)) for held, sets, after in node.choices]
        return PlacementNode(tuple(choices), node.count)

    return renamed_node(original)


def _renamed_value(value: Any, renamed: Callable[[Any], Any], new: Mapping[str, str]) -> Any:
    if isinstance(value, frozenset):
        return frozenset(new[name] for name in value)
    if isinstance(value, tuple):
        return tuple(map(renamed, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return dataclasses.replace(value, **{name: renamed(entry) for name, entry in fields.items()})
    return value
