"""Equal layers: an Einsum that is joined just as an earlier one was is joined in its place, under its names.

So the results for the earlier one are reused. Names are numbered in their order, and two joins are alike only if
everything about them is equal by numbers. Whatever is sorted by names therefore stays sorted when names are exchanged.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fusiest.joining.meeting.compatibility import OpenCompatibility, OpenHolding, OpenLoop
from fusiest.joining.meeting.fits import JoinRules
from fusiest.joining.meeting.joints import LiveTensors
from fusiest.joining.rows.shared_space import TensorCharges
from fusiest.spec import Affine, Stepping, WorkloadInfo


class Roles(NamedTuple):
    """All names that matter to a join, in order."""

    tensors: tuple[str, ...]
    ranks: tuple[tuple[str, str], ...]
    """Pairs of tensor and rank."""
    einsums: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    """Pairs of Einsum and variable."""


class Renaming:
    """A map of compatibilities to other names."""

    def __init__(self, old: Roles, new: Roles) -> None:
        self._tensors = dict(zip(old.tensors, new.tensors, strict=True))
        self._ranks = {a: b[1] for a, b in zip(old.ranks, new.ranks, strict=True)}
        self._variables = dict(zip(old.variables, new.variables, strict=True))
        self._einsums = {"": "", **dict(zip(old.einsums, new.einsums, strict=True))}
        self._known: dict[OpenCompatibility, OpenCompatibility] = {}

    def __call__(self, c: OpenCompatibility) -> OpenCompatibility:
        renamed = self._known.get(c)
        if renamed is None:
            renamed = self._known[c] = OpenCompatibility(
                tuple(tuple(self._loop(loop) for loop in zone) for zone in c.zones),
                tuple(replace(b, tensor=self._tensors[b.tensor]) for b in c.backings),
                tuple(self._holding(h) for h in c.holdings),
                tuple((self._tensors[t], zones) for t, zones in c.inside),
                tuple(frozenset(self._tensors[t] for t in group) for group in c.copies),
            )
        return renamed

    def _loop(self, loop: OpenLoop) -> OpenLoop:
        return OpenLoop(
            frozenset((self._tensors[t], self._step(t, step)) for t, step in loop.ranks),
            loop.bound,
            frozenset((self._tensors[t], step and self._step(t, step)) for t, step in loop.produced),
            frozenset(self._variables[name] for name in loop.names),
            loop.place,
        )

    def _step(self, tensor: str, step: Stepping) -> Stepping:
        return step._replace(rank=self._ranks[tensor, step.rank]) if step.rank else step  # APART has none

    def _holding(self, held: OpenHolding) -> OpenHolding:
        over = tuple((self._tensors[t], memory) for t, memory in held.holding.over)
        holding = replace(held.holding, tensor=self._tensors[held.holding.tensor], over=over)
        return OpenHolding(holding, self._einsums[held.user])


class StandIn(NamedTuple):
    """The Einsum in whose place, and under whose names, another one is joined."""

    einsum: str
    live: LiveTensors
    """Tensors that matter to the join, by the stand-in's names."""
    to: Renaming | None = None
    """Renaming from the other Einsum's names to the stand-in's; None if an Einsum stands for itself."""
    back: Renaming | None = None
    """Renaming back to the other Einsum's names."""

    def renamed(self, compatibility: OpenCompatibility) -> OpenCompatibility:
        """A partial mapping's compatibility, by the stand-in's names."""
        return compatibility if self.to is None else self.to(compatibility)

    def own(self, compatibility: OpenCompatibility) -> OpenCompatibility:
        """A joined mapping's compatibility, by the Einsum's own names again."""
        return compatibility if self.back is None else self.back(compatibility)


@dataclass
class StandIns:
    """The first join of each kind in a problem, which stands in for all later ones."""

    workload: WorkloadInfo
    charges: TensorCharges
    rules: JoinRules
    known: dict[tuple[frozenset[str], str], StandIn] = field(default_factory=dict)
    """The stand-in of each join, by finished Einsums and the Einsum that is joined to them."""
    _first: dict[Hashable, tuple[StandIn, Roles]] = field(default_factory=dict)
    """The first join of each kind, by its description without names."""
    _numbers: dict[Hashable, int] = field(default_factory=dict)
    """Numbers of the descriptions of tensors and Einsums."""
    _tensors: dict[str, int] = field(default_factory=dict)
    _einsums: dict[str, int] = field(default_factory=dict)

    def find(self, finished: frozenset[str], before: frozenset[str], itself: StandIn, kind: int) -> StandIn:
        """Find the stand-in for an Einsum (which could stand for `itself`) that is joined to the finished Einsums.

        `before`: tensors that were live; `kind`: equal for Einsums that have their rows in common.
        """
        if self.rules.uneven_copies:  # of some tensors that are not live any more something is known, too
            return itself
        infos, users = self.workload.einsums, self.workload.users
        tensors = sorted(before.union(infos[itself.einsum].accesses))
        einsums = sorted({itself.einsum, *(user for t in before for user in users[t] if user in finished)})
        number = {t: i for i, t in enumerate(tensors)}
        described = (
            kind,
            einsums.index(itself.einsum),
            tuple((self._tensor(t), t in before, t in itself.live.after) for t in tensors),
            tuple((self._einsum(e), *(number.get(t) for t in infos[e].accesses)) for e in einsums),
        )
        roles = self._roles(tensors, einsums)
        first, names = self._first.setdefault(described, (itself, roles))
        return itself if first is itself else first._replace(to=Renaming(roles, names), back=Renaming(names, roles))

    def _roles(self, tensors: list[str], einsums: list[str]) -> Roles:
        infos = self.workload.einsums
        ranks = ((t, rank) for t in tensors for rank in sorted(infos[self.workload.users[t][0]].accesses[t].ranks))
        return Roles(
            tuple(tensors),
            tuple(ranks),
            tuple(einsums),
            tuple((e, v) for e in einsums for v in sorted(infos[e].bounds)),
        )

    def _tensor(self, tensor: str) -> int:
        """Number a tensor: equal for tensors that take the same space."""
        if tensor not in self._tensors:
            users = (self.workload.einsums[user] for user in self.workload.users[tensor])
            touched = tuple(
                (user.n_instances, tuple(n for _, n in sorted(extents.items())))
                for user, extents in zip(users, self.charges.extents[tensor], strict=True)
            )
            widths = tuple(self.charges.widths(user, tensor) for user in self.workload.users[tensor])
            lasting = tuple(self.charges.lasting_bits.get((memory, tensor)) for memory in self.charges.memories)
            facts = touched, widths, lasting, tensor in self.rules.persistent
            self._tensors[tensor] = self._numbers.setdefault(facts, len(self._numbers))
        return self._tensors[tensor]

    def _einsum(self, einsum: str) -> int:
        """Equal for Einsums that index their tensors alike, and give their values as many bits."""
        if einsum not in self._einsums:
            info = self.workload.einsums[einsum]
            variables = {v: i for i, v in enumerate(sorted(info.bounds))}
            accesses = (
                (access.output, self.charges.widths(einsum, t), *_ranks(dict(access.ranks), variables))
                for t, access in info.accesses.items()
            )
            bounds = tuple((variables[v], bound) for v, bound in info.bounds.items())
            facts = bounds, tuple(accesses), info.is_copy_operation
            self._einsums[einsum] = self._numbers.setdefault(facts, len(self._numbers))
        return self._einsums[einsum]


def _ranks(ranks: dict[str, Affine], variables: dict[str, int]) -> Iterator[Hashable]:
    number = {rank: i for i, rank in enumerate(sorted(ranks))}
    for rank, affine in ranks.items():
        yield number[rank], affine.constant, tuple((variables[v], a) for v, a in affine.coefficients.items())
