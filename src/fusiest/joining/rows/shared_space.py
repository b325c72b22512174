"""Space in memories that Einsums share: memory sizes, and the bits of a join's tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from fusiest.base.errors import SpecError
from fusiest.joining.meeting.joints import PERSISTENT, Exchanged, Joint
from fusiest.joining.meeting.shared_nodes import HolderPlace, HolderUser, Ledger
from fusiest.joining.rows.consolidation import Charge
from fusiest.pmapping import Compatibility, Floats, Ints, Rows, sized_paths
from fusiest.spec import Spec, WorkloadInfo, paths_of


def memory_sizes(spec: Spec, memories: tuple[str, ...]) -> dict[str, Floats]:
    """The size of each memory while an Einsum runs, per Einsum."""
    sizes: dict[str, Floats] = {}
    for einsum in spec.info.einsums:
        components = {c.name: c for path in sized_paths(spec, einsum) for c in path.components}
        sizes[einsum] = np.array([components[m].size for m in memories], np.float64)
    return sizes


def make_charges(spec: Spec, memories: tuple[str, ...]) -> TensorCharges:
    """What tensors take in these memories."""
    bits = {einsum: _bits(spec, einsum, memories) for einsum in spec.info.einsums}
    extents = {t: tuple(_extents(spec, user, t) for user in users) for t, users in spec.info.users.items()}
    return TensorCharges(spec.info, memories, bits, extents, _lasting_bits(spec, bits))


def _bits(spec: Spec, einsum: str, memories: tuple[str, ...]) -> dict[tuple[str, str], float]:
    """Bits per value while an Einsum runs, by memory and tensor."""
    components = {c.name: c for path in paths_of(spec, einsum) for c in path.components}
    return {(m, t): n for m in memories if m in components for t, n in components[m].bits_per_value.items()}


def _lasting_bits(spec: Spec, bits: Mapping[str, Mapping[tuple[str, str], float]]) -> dict[tuple[str, str], float]:
    """Bits of persistent tensors that only one copy Einsum uses, in the outermost memory: the copy's other tensor, if it is
    there, lies in the same space."""
    lasting: dict[tuple[str, str], float] = {}
    outermost = paths_of(spec, next(iter(spec.info.einsums)))[0].components[0].name
    for info in (info for info in spec.info.einsums.values() if info.is_copy_operation):
        for alone in info.persistent - spec.info.shared:
            if (outermost, alone) in bits[info.name]:
                elements = math.prod(_extents(spec, info.name, alone).values()) * info.n_instances
                (other,) = info.accesses.keys() - {alone}
                if (outermost, other) in lasting:
                    raise _several_copies(other)
                lasting[outermost, other] = elements * bits[info.name][outermost, alone]
    return lasting


def _several_copies(tensor: str) -> SpecError:
    return SpecError(
        f"tensor {tensor} has several copies, one of them persistent and used by a copy Einsum alone, which may lie in one memory: "
        "not supported yet",
        tensor,
    )


def _extents(spec: Spec, einsum: str, tensor: str) -> dict[str, int]:
    """Elements that an Einsum touches per rank of a tensor; all elements of a rank that producers share out."""
    info = spec.info.einsums[einsum]
    touched = {rank: affine.length(info.bounds) for rank, affine in info.accesses[tensor].ranks.items()}
    for rank, size in [info.shared_out[tensor]] if tensor in info.shared_out else []:
        touched[rank] = max(touched[rank], size)
    return touched


@dataclass(frozen=True)
class TensorCharges:
    """Bits per value, and the charge for each tensor of a join."""

    workload: WorkloadInfo
    memories: tuple[str, ...]
    bits: Mapping[str, Mapping[tuple[str, str], float]]
    """Bits per value by Einsum, then by memory and tensor: a memory may give results more bits than operands."""
    extents: Mapping[str, tuple[Mapping[str, int], ...]]
    """Elements that each user of a tensor touches, per rank."""
    lasting_bits: Mapping[tuple[str, str], float]
    """By memory and tensor, bits that are taken throughout in which it can lie: those of a persistent copy or source of it."""
    _known: dict[tuple[str, str, tuple[str, ...], bool], float] = field(default_factory=dict, repr=False, compare=False)
    """Bits in ranks that are not stepped."""

    def alone(self, einsum: str, compatibility: Compatibility, rows: Rows) -> Floats:
        """Bits that an Einsum's pmappings need in each memory, whatever they are joined with (rows × memories).

        An exchanged tensor is in its memory while the Einsum runs, whichever Einsum is charged for it. It counts at the
        size that this Einsum touches, so Einsums that differ only by names have the same result, although other users
        may touch more. Copies, of which one is charged for all, persistent tensors, and tensors held further in are
        left out.
        """
        space: Floats = rows.persistent + rows.bits.sum(axis=2)
        column = {v: i for i, v in enumerate(compatibility.loops)}
        for b in compatibility.backings:
            users = [self.workload.einsums[user] for user in self.workload.users[b.tensor]]
            if b.memory not in self.memories or any(u.is_copy_operation or b.tensor in u.persistent for u in users):
                continue
            loops = [loop for zone in compatibility.zones[: b.zones] for loop in zone]
            user = HolderUser(einsum, tuple((loop.variable, column[loop]) for loop in loops))
            space[:, self.memories.index(b.memory)] += self._held_bits(user, b.memory, b.tensor, rows)
        return space

    def widths(self, einsum: str, tensor: str) -> tuple[float, ...]:
        """Bits per value of an Einsum's tensor in each memory; 0 in a memory that the Einsum does not have."""
        return tuple(self.bits[einsum].get((memory, tensor), 0.0) for memory in self.memories)

    def of(self, joint: Joint, accounts: Ledger, rows: Rows) -> Iterator[Charge]:
        """Charges of a join for shared tensors."""
        yield from self._exchanged(joint, accounts, rows)
        yield from self._further(joint, accounts, rows)

    def _exchanged(self, joint: Joint, accounts: Ledger, rows: Rows) -> Iterator[Charge]:
        """Charges for tensors that begin to be exchanged.

        Of copies in one memory the largest counts, less the bits charged already.
        """
        groups: dict[frozenset[str] | str, list[Exchanged]] = {}
        for e in joint.exchanged:
            if e.memory in self.memories:
                group = next((group for group in joint.copies if e.tensor in group), e.tensor)
                groups.setdefault(group, []).append(e)
        for members in groups.values():
            new = min((e for e in members if not e.charged), key=lambda e: e.zones)  # a persistent one stays longest
            lasting = [
                (self.lasting_bits[e.memory, e.tensor], e.tensor)
                for e in members
                if (e.memory, e.tensor) in self.lasting_bits
            ]
            if not lasting and len(members) == 1:
                yield Charge(accounts.of(new.memory), new.zones, self._exchanged_bits(new, rows))
                continue
            if lasting and len(members) > 1:
                raise _several_copies(lasting[0][1])
            before = np.full(len(rows), lasting[0][0] if lasting else 0.0)
            for e in members:
                before = np.maximum(before, self._exchanged_bits(e, rows)) if e.charged else before
            bits = np.max([before, *(self._exchanged_bits(e, rows) for e in members)], axis=0)
            yield Charge(accounts.of(new.memory), new.zones, bits - before)

    def _exchanged_bits(self, e: Exchanged, rows: Rows) -> Floats:
        """Bits of an exchanged tensor's tile in each row; where users touch different extents, the largest tile."""
        stepped = tuple(stepping.rank for stepping, _ in e.columns)
        size: Floats = np.full(len(rows), self._unstepped(e.memory, e.tensor, stepped, e.zones == PERSISTENT))
        for stepping, column in e.columns:
            size *= _length(rows.tiles[:, column], stepping.coefficient)
        return size

    def _unstepped(self, memory: str, tensor: str, stepped: tuple[str, ...], throughout: bool) -> float:
        """Bits of a tensor in its ranks that are not stepped, for the user that needs most."""
        key = memory, tensor, stepped, throughout
        if key not in self._known:
            self._known[key] = max(
                self.bits[user][memory, tensor]
                * (self.workload.einsums[user].n_instances if throughout else 1)
                * math.prod(n for rank, n in extents.items() if rank not in stepped)
                for user, extents in zip(self.workload.users[tensor], self.extents[tensor], strict=True)
            )
        return self._known[key]

    def _further(self, joint: Joint, accounts: Ledger, rows: Rows) -> Iterator[Charge]:
        """Charges for further storage nodes: the bits that the Einsum needs beyond the largest earlier user."""
        for h in joint.shared_holders:
            if h.place.memory in self.memories:
                before = self._largest(h.before, h.place, rows)
                extra_bits = np.maximum(self._largest((h.user,), h.place, rows) - before, 0.0)
                yield Charge(accounts.counting(h.place, h.depth), h.depth, extra_bits)
        for s in accounts.spread:
            yield Charge(accounts.opened(s), s.place.zones, -self._largest(s.unsunk, s.place, rows))

    def _largest(self, users: tuple[HolderUser, ...], place: HolderPlace, rows: Rows) -> Floats:
        """The most bits that one of these Einsums holds of a tensor."""
        most = np.zeros(len(rows))
        for user in users:
            most = np.maximum(most, self._held_bits(user, place.memory, place.tensor, rows))
        return most

    def _held_bits(self, user: HolderUser, memory: str, tensor: str, rows: Rows) -> Floats:
        """Bits of a tensor's tile in an Einsum, below loops over variables whose tiles are in these columns."""
        info, columns = self.workload.einsums[user.einsum], dict(user.stepped)
        size: Floats = np.full(len(rows), float(self.bits[user.einsum][memory, tensor]))
        for affine in info.accesses[tensor].ranks.values():
            extent: Ints | int = 1
            for v, a in affine.coefficients.items():
                extent = extent + abs(a) * ((rows.tiles[:, columns[v]] if v in columns else info.bounds[v]) - 1)
            size *= extent
        return size


def _length(tiles: Ints, coefficient: int) -> Ints:
    """Positions of a rank that tiles of its only variable cover."""
    return tiles if abs(coefficient) == 1 else 1 + abs(coefficient) * (tiles - 1)
