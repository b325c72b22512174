"""Which memory holds which tensor: every choice that `keep`, `may_keep` and `back` leave to one Einsum."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fusiest.errors import SpecError
from fusiest.interrupt import check
from fusiest.spec import (
    EinsumNames,
    NameSet,
    Path,
    PlacementSets,
    Spec,
    architecture_names,
    bind,
    path_nodes,
    placement_sets,
)
from fusiest.spec import architecture as arch


@dataclass(frozen=True, slots=True)
class Placement:
    """Per component of the path: the tensors it holds or lets through, and the constraints that then apply."""

    held: tuple[frozenset[str], ...]
    sets: tuple[PlacementSets | None, ...]

    def holders(self, tensor: str, path: Path) -> list[int]:
        """The memories that hold a tensor, outermost first."""
        return [i for i, c in enumerate(path.components) if c.kind == "memory" and tensor in self.held[i]]

    def tolls(self, tensor: str, path: Path) -> list[int]:
        return [i for i, c in enumerate(path.components) if c.kind == "toll" and tensor in self.held[i]]


F = TypeVar("F")
MOST_HELD = 1_000_000
"""Tensors of an Einsum, in all its placements."""


@dataclass(frozen=True)
class _Known:
    """Placements of a spec's Einsums that have been asked for, by Einsum and compute."""

    placements: dict[tuple[str, str], tuple[Placement, ...]] = field(default_factory=dict)
    first: dict[object, Path] = field(default_factory=dict)
    """Of Einsums that differ only by names, the first."""
    alike: dict[tuple[str, str], Path] = field(default_factory=dict)
    """Of each Einsum, which one that is."""
    facts: dict[object, Any] = field(default_factory=dict)
    """What follows from placements, as far as it was asked for."""


_KNOWN: weakref.WeakKeyDictionary[Spec, _Known] = weakref.WeakKeyDictionary()


def placements(spec: Spec, path: Path) -> tuple[Placement, ...]:
    """All placements, each once. They are asked for by many, and found once for Einsums that differ only by names."""
    known = _KNOWN.setdefault(spec, _Known())
    key = path.einsum.name, path.compute.name
    if key not in known.placements:
        first = first_alike(spec, path)
        if first.einsum.name == path.einsum.name:
            known.placements[key] = _placements(spec, path)
        else:
            new = dict(zip(_names(first), _names(path), strict=True))
            known.placements[key] = _renamed(placements(spec, first), new)
    return known.placements[key]


def first_alike(spec: Spec, path: Path) -> Path:
    """The path of the first Einsum that has the same placements, apart from names; its names are in the same order."""
    known = _KNOWN.setdefault(spec, _Known())
    key = path.einsum.name, path.compute.name
    if key not in known.alike:
        known.alike[key] = known.first.setdefault(_apart_from_names(spec, path), path)
    return known.alike[key]


def fact_of_placements(spec: Spec, first: Path, key: object, find: Callable[[], F]) -> F:
    """What follows from the placements of the first Einsum of its kind, found once. `key`: what else it depends on."""
    facts = _KNOWN.setdefault(spec, _Known()).facts
    whole = first.einsum.name, first.compute.name, key
    if whole not in facts:
        facts[whole] = find()
    fact: F = facts[whole]
    return fact


def _names(path: Path) -> list[str]:
    return [*path.einsum.accesses, *path.einsum.bounds]


def _apart_from_names(spec: Spec, path: Path) -> object:
    """Equal for Einsums that have the same placements in the same order, apart from names.

    Expressions see names that are written somewhere in the architecture: what these mean to both has to be the same. The order
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
    """All that expressions of an architecture may name; what Above holds is a choice."""
    written = repr((spec.require_arch(), spec.variables, spec.component_classes))
    return tuple(sorted(set(re.findall(r"\w+", written)) - {"Above"}))


def _renamed(originals: tuple[Placement, ...], new: Mapping[str, str]) -> tuple[Placement, ...]:
    """Placements of another Einsum, under other names. They have their sets in common: each is renamed once."""
    known: dict[int, Any] = {}

    def renamed(value: Any) -> Any:
        if id(value) not in known:
            known[id(value)] = _renamed_value(value, renamed, new)
        return known[id(value)]

    return tuple(
        Placement(tuple(map(renamed, placement.held)), tuple(map(renamed, placement.sets))) for placement in originals
    )


def _renamed_value(value: Any, renamed: Callable[[Any], Any], new: Mapping[str, str]) -> Any:
    if isinstance(value, frozenset):
        return frozenset(new[name] for name in value)
    if isinstance(value, tuple):
        return tuple(map(renamed, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return dataclasses.replace(value, **{name: renamed(entry) for name, entry in fields.items()})
    return value


def _placements(spec: Spec, path: Path) -> tuple[Placement, ...]:
    nodes = path_nodes(spec.require_arch().nodes, path.compute.name)
    assert nodes is not None
    choices = _PathChoices(nodes, path, arch.beside(spec.require_arch().nodes))
    complete: dict[tuple[frozenset[str], ...], Placement] = {}
    for count, placement in enumerate(choices.placements(architecture_names(spec, path.einsum))):
        check()
        if count * len(path.einsum.accesses) >= MOST_HELD:
            raise SpecError(
                f"there are more than {count:,} ways to hold the {len(path.einsum.accesses)} tensors of Einsum "
                f"{path.einsum.name} in the {len(path.memories)} memories above {path.compute.name}, too many to search; "
                "leave fewer to choose with keep and may_keep",
                path.einsum.name,
            )
        if _is_complete(placement, path):
            complete.setdefault(placement.held, placement)
    same: dict[Any, Any] = {}  # most sets are equal: of these, one is kept

    def single(entries: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(same.setdefault(entry, entry) for entry in entries)

    return tuple(Placement(single(placement.held), single(placement.sets)) for placement in complete.values())


def allowed_placement(spec: Spec, einsum: str, compute: str, held: Mapping[str, frozenset[str]]) -> bool:
    """Whether memories may hold just these tensors for an Einsum; for a copy anything goes."""
    path = bind(spec, einsum, compute)
    memories = [(i, held.get(path.components[i].name, frozenset())) for i in path.memories]
    matches = (all(placement.held[i] == tensors for i, tensors in memories) for placement in placements(spec, path))
    return path.einsum.is_copy_operation or any(matches)


@dataclass(frozen=True)
class _PathChoices:
    """The memories and Tolls of a path, and which memories stand beside which."""

    nodes: list[arch.Container]
    path: Path
    beside: Mapping[str, frozenset[str]]

    def placements(
        self, names: EinsumNames, held: tuple[frozenset[str], ...] = (), sets: tuple[PlacementSets | None, ...] = ()
    ) -> Iterator[Placement]:
        """Each node in turn takes its `keep` and any of its `may_keep`, given what those before it hold."""
        if len(held) == len(self.nodes):
            yield Placement(held, sets)
            return
        node, component = self.nodes[len(held)], self.path.components[len(held)]
        if not isinstance(node, (arch.Memory, arch.TollStation)) or not component.enabled:
            yield from self.placements(names, (*held, frozenset()), (*sets, None))
            return
        beside = self.beside.get(component.name, frozenset())
        memories = [(c.name, h) for h, c in zip(held, self.path.components, strict=False) if c.kind == "memory"]
        above = frozenset[str]().union(*(h for name, h in memories if name not in beside))
        elsewhere = frozenset[str]().union(*(h for name, h in memories if name in beside))
        node_sets = placement_sets(node, names, above)
        if node_sets.back & above or node_sets.keep & elsewhere:
            return
        optional = sorted(node_sets.may_keep - elsewhere)
        for count in range(len(optional) + 1):
            for extra in itertools.combinations(optional, count):
                chosen = node_sets.keep | frozenset(extra)
                after = names.choose(component.name, chosen) if isinstance(node, arch.Memory) else names
                yield from self.placements(after, (*held, chosen), (*sets, node_sets))


def _is_complete(placement: Placement, path: Path) -> bool:
    """Every tensor is held in a memory."""
    return all(placement.holders(tensor, path) for tensor in path.einsum.accesses)
