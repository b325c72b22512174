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
        return [i for i, c in enumerate(path.components) if tensor in self.held[i] and c.kind == "memory"]

    def tolls(self, tensor: str, path: Path) -> list[int]:
        return [i for i, c in enumerate(path.components) if c.kind == "toll" and tensor in self.held[i]]


F = TypeVar("F")
_Held = tuple[frozenset[str], ...]
_Sets = tuple[PlacementSets | None, ...]
_Begun = tuple[EinsumNames, _Held, _Sets]
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
    tensors, memories = frozenset(path.einsum.accesses), path.memories
    complete: dict[tuple[frozenset[str], ...], Placement] = {}
    for held, sets in choices.placements(architecture_names(spec, path.einsum)):
        if frozenset[str]().union(*[held[i] for i in memories]) >= tensors:  # each is held in a memory
            complete.setdefault(held, Placement(held, sets))
    return tuple(complete.values())


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
    same: dict[Any, Any] = field(default_factory=dict)
    """Most sets are equal: of these, one is kept."""

    def placements(self, names: EinsumNames) -> Iterator[tuple[_Held, _Sets]]:
        """Each node in turn takes its `keep` and any of its `may_keep`, given what those before it hold."""
        begun: list[_Begun] = [(names, (), ())]
        most = MOST_HELD // len(self.path.einsum.accesses)
        for i, node in enumerate(self.nodes):
            if not isinstance(node, (arch.Memory, arch.TollStation)) or not self.path.components[i].enabled:
                begun = [(known, (*held, frozenset()), (*sets, None)) for known, held, sets in begun]
                continue
            further: list[_Begun] = []
            for prefix in begun:
                check()
                further += itertools.islice(self._with_node(i, *prefix), most + 1)
                if len(further) > most:
                    raise self._too_many(most)
            begun = further
        return ((held, sets) for _, held, sets in begun)

    def _with_node(self, i: int, names: EinsumNames, held: _Held, sets: _Sets) -> Iterator[_Begun]:
        """What those before it hold, and all that a node may hold then."""
        node, component = self.nodes[i], self.path.components[i]
        assert isinstance(node, (arch.Memory, arch.TollStation))
        beside = self.beside.get(component.name, frozenset())
        memories = [(c.name, h) for h, c in zip(held, self.path.components, strict=False) if c.kind == "memory"]
        above = frozenset[str]().union(*(h for name, h in memories if name not in beside))
        elsewhere = frozenset[str]().union(*(h for name, h in memories if name in beside))
        node_sets = self._single(placement_sets(node, names, above))
        if node_sets.back & above or node_sets.keep & elsewhere:
            return
        all_sets = (*sets, node_sets)
        is_seen = isinstance(node, arch.Memory) and i < self._last
        for extra in _subsets(node_sets.may_keep - elsewhere):
            chosen = self._single(node_sets.keep.union(extra))
            yield names.choose(component.name, chosen) if is_seen else names, (*held, chosen), all_sets

    def _too_many(self, most: int) -> SpecError:
        einsum = self.path.einsum
        return SpecError(
            f"there are more than {most:,} ways to hold the {len(einsum.accesses)} tensors of Einsum "
            f"{einsum.name} in the {len(self.path.memories)} memories above {self.path.compute.name}, too many to search; "
            "leave fewer to choose with keep and may_keep",
            einsum.name,
        )

    def _single(self, entry: F) -> F:
        single: F = self.same.setdefault(entry, entry)
        return single

    @functools.cached_property
    def _last(self) -> int:
        """The last node that chooses: nobody asks what it has chosen."""
        choosing = (i for i, node in enumerate(self.nodes) if isinstance(node, (arch.Memory, arch.TollStation)))
        return max(choosing, default=0)


def _subsets(names: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """The smallest first."""
    optional = sorted(names)
    return itertools.chain.from_iterable(itertools.combinations(optional, n) for n in range(len(optional) + 1))
