"""What a mapping fuses: Einsums that pass a tensor to each other without the outermost memory, and the loops they share.

[A, W0, W1, Z in DRAM]
for m …
  [B in Buf]              B goes from Einsum B to Einsum Z in Buf, a block of m at a time:
  ├─ … B on MAC           one fused set (B, Z), with shared loop m.
  └─ … Z on MAC
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fusiest.looptree import Compute, Loop, LoopTree, Node, Sequential, Spatial, Storage, Temporal, einsums
from fusiest.spec import Spec
from fusiest.spec import architecture as arch


@dataclass(frozen=True, slots=True)
class FusedSet:
    """Einsums in execution order, and the tensors that they pass on, each with the memory it stays in."""

    einsums: tuple[str, ...]
    tensors: dict[str, str]


@dataclass(frozen=True, slots=True)
class SharedLoops:
    """Loops under which several Einsums run in turns, and the loops above these."""

    above: tuple[Loop, ...]
    loops: tuple[Loop, ...]
    einsums: tuple[str, ...]


def backing_memories(tree: LoopTree) -> dict[str, str]:
    """Each tensor's outermost memory in the mapping, in the order in which they are first held."""
    backings: dict[str, str] = {}
    for path in tree.paths():
        for node in path:
            if isinstance(node, Storage):
                for tensor in node.tensors:
                    backings.setdefault(str(tensor), str(node.component))
    return backings


def fused_sets(spec: Spec, tree: LoopTree) -> tuple[FusedSet, ...]:
    """The workload's Einsums, partitioned: together if they are linked by tensors that never leave the chip.

    >>> from fusiest import load
    >>> spec = load("simple", "matmuls", "fused_matmuls_to_simple", N_EINSUMS=2)
    >>> fused_sets(spec, spec.mapping)
    (FusedSet(einsums=('Matmul0', 'Matmul1'), tensors={'T1': 'GlobalBuffer'}),)
    """
    order = einsums(tree.nodes)
    backing = backing_memories(tree)
    outer = _outermost_memories(spec, tree)
    group = {name: {name} for name in order}
    on_chip: dict[str, str] = {}
    for tensor, makers in spec.info.producers.items():
        users = spec.info.users[tensor]
        if len(users) < 2 or backing[tensor] in outer:
            continue
        on_chip[tensor] = makers[0]
        joined = set().union(*(group[name] for name in users))
        group.update(dict.fromkeys(joined, joined))
    return tuple(
        FusedSet(
            tuple(e for e in order if e in group[name]),
            {t: backing[t] for t, producer in on_chip.items() if producer in group[name]},
        )
        for name in order
        if name == next(e for e in order if e in group[name])
    )


def shared_loops(tree: LoopTree) -> Iterator[SharedLoops]:
    """Each split that has loops of its own, from the root down."""
    return _shared_loops(tree.nodes, ())


def _shared_loops(nodes: tuple[Node, ...], above: tuple[Loop, ...]) -> Iterator[SharedLoops]:
    loops = tuple(node for node in nodes if isinstance(node, Temporal | Spatial))
    if nodes and isinstance(nodes[-1], Sequential):
        if loops:
            yield SharedLoops(above, loops, einsums(nodes))
        for branch in nodes[-1].nodes:
            yield from _shared_loops(branch.nodes, above + loops)


def _outermost_memories(spec: Spec, tree: LoopTree) -> set[str]:
    """The first memory on the way to each compute in use."""
    leaves = (path[-1] for path in tree.paths())
    computes = {leaf.component for leaf in leaves if isinstance(leaf, Compute)}
    return set(arch.outermost_memories(spec.require_arch().nodes, computes))
