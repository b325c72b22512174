"""What each memory holds while each Einsum runs: reservations, their lifetimes across fused Einsums, and the peak.

A reservation is charged at a level: the number of loops above it. Another Einsum sees it only if the two share more
loops than that, and loops are shared only as deep as a tensor that is exchanged between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fusiest.base.errors import SpecError
from fusiest.model.nest import EinsumNest, Holder, NestLoop
from fusiest.model.visits import footprint


@dataclass(frozen=True, slots=True)
class Reservation:
    """Space of one tensor in one memory, per instance. Persistent ones have level -1."""

    memory: str
    tensor: str
    bits: int | float
    level: int
    backing: bool
    shared: int = 0
    """Loops in which its users take turns because of it: those above it, and those that make windows of it."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    per_einsum: tuple[dict[tuple[str, str], int | float], ...]
    """While Einsum i runs: bits per (memory, tensor). Copies in one memory count under the first one's name."""

    def totals(self) -> list[dict[str, int | float]]:
        """While Einsum i runs: bits per memory."""
        totals = []
        for held in self.per_einsum:
            sums: dict[str, int | float] = {}
            for (memory, _), bits in held.items():
                sums[memory] = sums.get(memory, 0) + bits
            totals.append(sums)
        return totals


def reservations(nest: EinsumNest) -> list[Reservation]:
    """Where each holder of an Einsum is charged, and how much."""
    charges: list[Reservation] = []
    for tensor in nest.tensors.values():
        for index, holder in enumerate(tensor.holders):
            if holder.is_toll or (index > 0 and nest.einsum.is_copy_operation):
                continue
            charges.append(_reservation(nest, holder, index))
    return charges


def charged_under(nest: EinsumNest, holder: Holder, index: int) -> list[NestLoop]:
    """The loops above the point at which a holder's space is charged, outermost first; `index` is its place in its tensor's nest."""
    own_spatial = [loop for loop in nest.tensors[holder.tensor].loops_above(index) if loop.is_spatial]
    passed = _passed(nest, holder) if index > 0 else []
    above = [loop for loop in nest.loops if not loop.is_spatial and loop.position < holder.position]
    above += own_spatial + [loop for loop in passed if loop not in own_spatial]
    return sorted(above, key=lambda loop: loop.position)


def largest_tile(nest: EinsumNest, loops: Sequence[NestLoop]) -> dict[str, int]:
    """The extents of the largest tile below these loops."""
    extents = dict(nest.reach)
    for loop in loops:
        extents[loop.variable] = max(loop.tiles(extents[loop.variable]))
    return extents


def _reservation(nest: EinsumNest, holder: Holder, index: int) -> Reservation:
    tensor = nest.tensors[holder.tensor]
    above = charged_under(nest, holder, index)
    extents = largest_tile(nest, above)
    elements = footprint(tensor.access, extents)
    window = nest.kept_windows.get(holder.tensor) if index == 0 else None
    if window is not None:
        elements = elements // tensor.access.ranks[window.rank].length(extents) * window.length
    if index == 0 and holder.tensor in nest.einsum.shared_out:  # there is room for the parts of all producers
        parts = nest.einsum.shared_out[holder.tensor]
        length = tensor.access.ranks[parts.rank].length(extents)
        elements = elements // length * max(length, parts.size)
    bits = elements * holder.component.bits_per_value[holder.tensor]
    persistent = index == 0 and (holder.persistent or holder.tensor in nest.einsum.persistent)
    if persistent:
        if above:
            raise SpecError(
                f"Einsum {nest.einsum.name}: persistent tensor {holder.tensor} must be held above all loops, "
                f"but its holder in {holder.component.name} is below {len(above)}",
                holder.tensor,
            )
        bits *= nest.einsum.n_instances
    level = -1 if persistent else len(above)
    shared = level + (window.loops if window is not None else 0)
    return Reservation(holder.component.name, holder.tensor, bits, level, index == 0, shared)


def _passed(nest: EinsumNest, holder: Holder) -> list[NestLoop]:
    """Loops that a non-backing holder's reservation sinks through, from the holder downwards."""
    access = nest.tensors[holder.tensor].access
    order: list[NestLoop | Holder] = sorted([*nest.loops, *nest.holders], key=lambda item: item.position)
    passed: list[NestLoop] = []
    for item in order[order.index(holder) + 1 :]:
        if isinstance(item, Holder):
            break
        if item.is_spatial:
            if item.component != holder.component.name:
                break
        elif item.variable in access.partially_relevant:
            passed.append(item)
            break
        elif item.variable not in access.fully_relevant:
            break
        passed.append(item)
    return passed


@dataclass(frozen=True, slots=True)
class Sharing:
    """What the Einsums of a tree have in common: tensors' lifetimes, and how deep neighbours share loops."""

    nests: Sequence[EinsumNest]
    charged: Sequence[Sequence[Reservation]]
    root: Mapping[str, str]
    """Copies in one memory, each with the first of its group."""
    lives: Mapping[str, tuple[int, int]]
    """From the first to the last use; of copies, by the first of the group, of any of them."""
    first: Mapping[str, int]
    """Where each tensor itself is first used."""
    caps: Sequence[int]
    """Per cut between neighbours: how many loops an exchanged tensor lets them share."""

    def loops(self, i: int, j: int) -> int:
        """Leading loops that Einsums i < j share: common ones, as deep as a tensor is exchanged across every cut."""
        return min(_common(self.nests[i], self.nests[j]), *self.caps[i:j])


def sharing(nests: Sequence[EinsumNest], users: Mapping[str, Sequence[int]]) -> Sharing:
    """`users` gives each tensor's Einsums by position in execution order."""
    charged = _alike([reservations(nest) for nest in nests])
    root = _copy_groups(nests, charged)
    lives: dict[str, tuple[int, int]] = {}
    for tensor, positions in users.items():
        first, last = lives.get(root.get(tensor, tensor), (len(nests), -1))
        lives[root.get(tensor, tensor)] = min(first, *positions), max(last, *positions)
    begins = {tensor: min(positions) for tensor, positions in users.items()}
    return Sharing(nests, charged, root, lives, begins, _caps(nests, charged, root, lives))


def _alike(charged: list[list[Reservation]]) -> list[list[Reservation]]:
    """A tensor's backing holder is one for all of its users: it takes the room of the largest of their tiles."""
    largest: dict[tuple[str, str], int | float] = {}
    for charges in charged:
        for r in charges:
            if r.backing:
                key = r.memory, r.tensor
                largest[key] = max(largest.get(key, 0), r.bits)
    return [[replace(r, bits=largest[r.memory, r.tensor]) if r.backing else r for r in charges] for charges in charged]


def occupancy(common: Sharing) -> Occupancy:
    """What is held while each Einsum runs."""
    nests, charged, root, caps = common.nests, common.charged, common.root, common.caps
    held: list[dict[tuple[str, str], int | float]] = [{} for _ in nests]

    def add(i: int, r: Reservation) -> None:
        key = r.memory, root.get(r.tensor, r.tensor) if r.backing else r.tensor
        held[i][key] = max(held[i].get(key, 0), r.bits)

    for j, charges in enumerate(charged):
        for r in charges:
            add(j, r)
            if r.level < 0:
                span = range(len(nests))
            elif r.backing:
                _, last = common.lives[root.get(r.tensor, r.tensor)]
                span = range(common.first[r.tensor], last + 1)
            else:
                continue
            for i in span:
                add(i, r)
    for i in range(len(nests)):
        for direction in (1, -1):
            shared = len(nests[i].numbers)
            j = i + direction
            while 0 <= j < len(nests):
                shared = min(shared, caps[min(j, j - direction)], _common(nests[i], nests[j]))
                if shared == 0:
                    break
                for r in charged[j]:
                    if r.level < shared:
                        add(i, r)
                j += direction
    return Occupancy(tuple(held))


def _common(a: EinsumNest, b: EinsumNest) -> int:
    """Leading loops that both nests have in common."""
    count = 0
    for x, y in zip(a.numbers, b.numbers, strict=False):
        if x != y:
            break
        count += 1
    return count


def _caps(
    nests: Sequence[EinsumNest],
    charged: Sequence[Sequence[Reservation]],
    root: Mapping[str, str],
    lives: Mapping[str, tuple[int, int]],
) -> list[int]:
    """Per cut between neighbours: how many loops an exchanged tensor lets them share."""
    caps = [0] * max(len(nests) - 1, 0)
    for charges in charged:
        for r in charges:
            if not r.backing:
                continue
            first, last = lives[root.get(r.tensor, r.tensor)]
            if last > first:
                for cut in range(first, last):
                    caps[cut] = max(caps[cut], r.shared)
    return caps


class CopiesApart(SpecError):
    """A copy within one memory whose tensors are not held under the same loops."""


def _copy_groups(nests: Sequence[EinsumNest], charged: Sequence[Sequence[Reservation]]) -> dict[str, str]:
    """Tensors that are copies of each other in one memory, each mapped to the first of its group."""
    root: dict[str, str] = {}
    for nest, charges in zip(nests, charged, strict=True):
        if not nest.einsum.is_copy_operation:
            continue
        source, target = sorted((r for r in charges if r.backing), key=lambda r: r.tensor == nest.einsum.output)
        if source.memory != target.memory:
            continue
        if nest.tensors[source.tensor].gaps[0] != nest.tensors[target.tensor].gaps[0]:
            raise CopiesApart(
                f"Einsum {nest.einsum.name} copies {source.tensor} to {target.tensor} within {source.memory}: "
                "both must be held under the same loops",
                nest.tensors[target.tensor].holders[0].tensor,
            )
        root[target.tensor] = root.get(source.tensor, source.tensor)
    return root
