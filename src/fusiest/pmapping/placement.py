"""Which memory holds which tensor: every choice that `keep`, `may_keep` and `back` leave to one Einsum."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from dataclasses import dataclass

from fusiest.errors import SpecError
from fusiest.interrupt import check
from fusiest.spec import architecture as arch
from fusiest.spec.binding import Path, PlacementSets, architecture_names, path_nodes, placement_sets
from fusiest.spec.scope import EinsumNames
from fusiest.spec.spec import Spec


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
    found: dict[tuple[frozenset[str], ...], Placement] = {}
    for count, placement in enumerate(_choose(nodes, path, 0, architecture_names(spec, path.einsum), (), ())):
        check()
        if count * len(path.einsum.accesses) >= MOST_HELD:
            memories = sum(c.kind == "memory" for c in path.components)
            raise SpecError(
                f"there are more than {count:,} ways to hold the {len(path.einsum.accesses)} tensors of Einsum "
                f"{path.einsum.name} in the {memories} memories above {path.compute.name}, too many to search; "
                "leave fewer to choose with keep and may_keep",
                path.einsum.name,
            )
        if _is_complete(placement, path):
            found.setdefault(placement.held, placement)
    return tuple(found.values())


def _choose(
    nodes: list[arch.Container],
    path: Path,
    index: int,
    names: EinsumNames,
    held: tuple[frozenset[str], ...],
    sets: tuple[PlacementSets | None, ...],
) -> Iterator[Placement]:
    if index == len(nodes):
        yield Placement(held, sets)
        return
    node = nodes[index]
    if not isinstance(node, (arch.Memory, arch.TollStation)) or not path.components[index].enabled:
        yield from _choose(nodes, path, index + 1, names, (*held, frozenset()), (*sets, None))
        return
    memories = [h for h, c in zip(held, path.components, strict=False) if c.kind == "memory"]
    above = frozenset[str]().union(*memories)
    own = placement_sets(node, names, above)
    if own.back & above:
        return
    optional = sorted(own.may_keep)
    for count in range(len(optional) + 1):
        for extra in itertools.combinations(optional, count):
            chosen = own.keep | frozenset(extra)
            after = names.choose(str(node.name), chosen) if isinstance(node, arch.Memory) else names
            yield from _choose(nodes, path, index + 1, after, (*held, chosen), (*sets, own))


def _is_complete(placement: Placement, path: Path) -> bool:
    """Every tensor is held in a memory, and passes no Toll before its first memory."""
    for tensor in path.einsum.accesses:
        memories = placement.holders(tensor, path)
        if not memories or any(toll < memories[0] for toll in placement.tolls(tensor, path)):
            return False
    return True
