"""Which memory holds which tensor: every choice that `keep`, `may_keep` and `back` leave to one Einsum."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fusiest.errors import SpecError
from fusiest.interrupt import check
from fusiest.spec import EinsumNames, Path, PlacementSets, Spec, architecture_names, bind, path_nodes, placement_sets
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


MOST_HELD = 1_000_000
"""Tensors of an Einsum, in all its placements."""
_FOUND: weakref.WeakKeyDictionary[Spec, dict[tuple[str, str], tuple[Placement, ...]]] = weakref.WeakKeyDictionary()


def placements(spec: Spec, path: Path) -> tuple[Placement, ...]:
    """All placements, each once. They are asked for by many, and found once."""
    found = _FOUND.setdefault(spec, {})
    key = path.einsum.name, path.compute.name
    if key not in found:
        found[key] = _placements(spec, path)
    return found[key]


def _placements(spec: Spec, path: Path) -> tuple[Placement, ...]:
    nodes = path_nodes(spec.require_arch().nodes, path.compute.name)
    assert nodes is not None
    choices = _PathChoices(nodes, path, arch.beside(spec.require_arch().nodes))
    found: dict[tuple[frozenset[str], ...], Placement] = {}
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
            found.setdefault(placement.held, placement)
    return tuple(found.values())


def allowed_placement(spec: Spec, einsum: str, compute: str, held: Mapping[str, frozenset[str]]) -> bool:
    """Whether memories may hold just these tensors for an Einsum; for a copy anything goes."""
    path = bind(spec, einsum, compute)
    memories = [(i, held.get(path.components[i].name, frozenset())) for i in path.memories]
    found = (all(placement.held[i] == own for i, own in memories) for placement in placements(spec, path))
    return path.einsum.is_copy_operation or any(found)


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
        others = self.beside.get(component.name, frozenset())
        memories = [(c.name, h) for h, c in zip(held, self.path.components, strict=False) if c.kind == "memory"]
        above = frozenset[str]().union(*(h for name, h in memories if name not in others))
        elsewhere = frozenset[str]().union(*(h for name, h in memories if name in others))
        own = placement_sets(node, names, above)
        if own.back & above or own.keep & elsewhere:
            return
        optional = sorted(own.may_keep - elsewhere)
        for count in range(len(optional) + 1):
            for extra in itertools.combinations(optional, count):
                chosen = own.keep | frozenset(extra)
                after = names.choose(component.name, chosen) if isinstance(node, arch.Memory) else names
                yield from self.placements(after, (*held, chosen), (*sets, own))


def _is_complete(placement: Placement, path: Path) -> bool:
    """Every tensor is held in a memory."""
    return all(placement.holders(tensor, path) for tensor in path.einsum.accesses)
