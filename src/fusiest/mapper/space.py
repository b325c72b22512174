"""Space in memories: their sizes, and what tensors take that Einsums exchange."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fusiest.joining.forms import PERSISTENT, Exchanged, Joint
from fusiest.joining.held import Ledger, Place, Stepped, User
from fusiest.joining.rows import Charge, footprint_constants
from fusiest.pmapping.pareto import Floats
from fusiest.pmapping.sizes import bind_sized
from fusiest.pmapping.table import Rows
from fusiest.spec.binding import bind, computes
from fusiest.spec.spec import Spec


class Space:
    """Sizes of memories by Einsum, bits of values, and the charge for each tensor of a join."""

    def __init__(self, spec: Spec, memories: tuple[str, ...]) -> None:
        self.spec, self.memories = spec, memories
        self.sizes = self._sizes()
        self.bits = self._bits()
        self.extents = {t: tuple(self._extents(u, t) for u in users) for t, users in spec.info.users.items()}

    def _sizes(self) -> dict[str, Floats]:
        """Per Einsum, the size of each memory while it runs."""
        found: dict[str, Floats] = {}
        for einsum in self.spec.info.einsums:
            paths = (bind_sized(self.spec, einsum, compute) for compute in computes(self.spec.require_arch()))
            components = {c.name: c for path in paths for c in path.components}
            found[einsum] = np.array([components[m].size for m in self.memories], np.float64)
        return found

    def _bits(self) -> dict[tuple[str, str], float]:
        """Bits per value by (memory, tensor)."""
        found: dict[tuple[str, str], float] = {}
        for einsum in self.spec.info.einsums:
            for compute in computes(self.spec.require_arch()):
                for component in bind(self.spec, einsum, compute).components:
                    if component.name in self.memories:
                        found.update({(component.name, t): bits for t, bits in component.bits_per_value.items()})
        return found

    def _extents(self, einsum: str, tensor: str) -> dict[str, int]:
        """Per rank of a tensor, how many elements an Einsum touches; of a rank that producers share out, all."""
        info = self.spec.info.einsums[einsum]
        found = {
            rank: 1 + sum(abs(a) * (info.bounds[v] - 1) for v, a in affine.coefficients.items())
            for rank, affine in info.accesses[tensor].ranks.items()
        }
        for rank, size in [info.shared_out[tensor]] if tensor in info.shared_out else []:
            found[rank] = max(found[rank], size)
        return found

    def charges(self, joint: Joint, accounts: Ledger, rows: Rows) -> Iterator[Charge]:
        """What is to be charged for shared tensors."""
        yield from self._exchanged(joint, accounts, rows)
        yield from self._held(joint, accounts, rows)

    def _exchanged(self, joint: Joint, accounts: Ledger, rows: Rows) -> Iterator[Charge]:
        """Tensors that begin to be exchanged. Of copies in one memory the largest counts, less what is charged already."""
        groups: dict[frozenset[str], list[Exchanged]] = {}
        for e in joint.exchanged:
            if e.memory in self.memories:
                group = next((group for group in joint.copies if e.tensor in group), frozenset({e.tensor}))
                groups.setdefault(group, []).append(e)
        for members in groups.values():
            new = next(e for e in members if not e.charged)
            bits = np.max([self._bits_of(e, rows) for e in members], axis=0)
            before = [self._bits_of(e, rows) for e in members if e.charged]
            yield accounts.of(new.memory), new.zones, bits - np.max(before, axis=0) if before else bits

    def _bits_of(self, e: Exchanged, rows: Rows) -> Floats:
        """Of a tensor's tile that is exchanged, in each row."""
        fused = frozenset(stepping.rank for stepping, _ in e.columns)
        size = np.full(len(rows), float(footprint_constants(self.extents[e.tensor], fused)))
        if e.zones == PERSISTENT:
            size *= max(self.spec.info.einsums[u].n_instances for u in self.spec.info.users[e.tensor])
        for stepping, column in e.columns:
            size = size * (1 + abs(stepping.coefficient) * (rows.tiles[:, column] - 1))
        return size * self.bits[e.memory, e.tensor]

    def _held(self, joint: Joint, accounts: Ledger, rows: Rows) -> Iterator[Charge]:
        """Further holders: what the Einsum needs more than the largest of those before it."""
        for h in joint.held:
            if h.place.memory in self.memories:
                before = self._largest(h.before, h.place, rows)
                more = np.maximum(self._largest((h.user,), h.place, rows) - before, 0.0)
                yield accounts.counting(h.place, h.depth), h.depth, more
        for split in accounts.splits:
            yield accounts.opened(split), split.place.zones, -self._largest(split.unsunk, split.place, rows)

    def _largest(self, users: tuple[User, ...], place: Place, rows: Rows) -> Floats:
        """The most bits that one of these Einsums holds of a tensor."""
        most = np.zeros(len(rows))
        for einsum, stepped in users:
            most = np.maximum(most, self._footprint(einsum, place.tensor, stepped, rows))
        return most * self.bits[place.memory, place.tensor]

    def _footprint(self, einsum: str, tensor: str, stepped: Stepped, rows: Rows) -> Floats:
        """Elements of a tensor's tile in an Einsum, below loops over variables whose tiles are in these columns."""
        info, columns = self.spec.info.einsums[einsum], dict(stepped)
        size = np.ones(len(rows))
        for affine in info.accesses[tensor].ranks.values():
            extent = np.ones(len(rows))
            for v, a in affine.coefficients.items():
                extent = extent + abs(a) * ((rows.tiles[:, columns[v]] if v in columns else info.bounds[v]) - 1.0)
            size = size * extent
        return size
