"""The input of joining: the tables of all Einsums, and the facts about workload and memories that joining needs.

A problem does not change from pass to pass.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fusiest.base import interrupt
from fusiest.base.objective import IMPOSSIBLE, NO_WEIGHTS, Least, Weights
from fusiest.joining.bounds.relaxed import LowerBounds, RelaxedLeast
from fusiest.joining.meeting.compatibility import EinsumView, OpenCompatibility, Relaxed, only, relaxed_einsum
from fusiest.joining.meeting.fits import Fit, JoinRules, fits, outline
from fusiest.joining.meeting.joints import Joint, LiveTensors, Meeting
from fusiest.joining.reuse.equal_joins import StandIn, StandIns
from fusiest.joining.rows.consolidation import ALL_PARTS, Room, Switches
from fusiest.joining.rows.shared_space import TensorCharges, make_charges, memory_sizes
from fusiest.model import footprint
from fusiest.pmapping import Compatibility, Floats, Ints, Origin, Rows, Table
from fusiest.spec import Spec, WorkloadInfo

_MOST_JOINTS = 100_000
"""Most results of `JoinProblem.joints` that are remembered at once."""


class Group(NamedTuple):
    """Pmappings of an Einsum with one compatibility."""

    compatibility: Compatibility
    rows: Rows


class AgreeingGroups(NamedTuple):
    """An Einsum's groups with equal relaxed compatibility of the tensors shared with a partial mapping."""

    numbers: Ints
    """Numbers of the groups, ascending."""
    ways: tuple[Relaxed, ...]
    """Distinct relaxed compatibilities of the tensors that stay live."""
    way: Ints
    """Per group, its index in `ways`."""


def _agreeing_groups(by_way: Mapping[Relaxed, Sequence[int]]) -> AgreeingGroups:
    numbers: Ints = np.array([n for group_numbers in by_way.values() for n in group_numbers], np.int64)
    way: Ints = np.repeat(np.arange(len(by_way)), [len(group_numbers) for group_numbers in by_way.values()])
    order = np.argsort(numbers)
    return AgreeingGroups(numbers[order], tuple(by_way), way[order])


@dataclass(frozen=True)
class JoinProblem:
    """The tables of all Einsums, and the facts that joining needs about them."""

    workload: WorkloadInfo
    groups: Mapping[str, Sequence[Group]]
    origins: Mapping[str, Sequence[Origin]]
    """Per Einsum, where the rows came from: enough to write their nests."""
    views: Mapping[str, EinsumView]
    room: Room
    smallest: Floats
    """The size of each memory for the Einsum for which it is smallest; `room` has that of the largest."""
    charges: TensorCharges
    rules: JoinRules
    compatibilities: Mapping[str, Sequence[Compatibility]]
    """Compatibilities of each Einsum's groups. Problems derived from this one keep them for all Einsums, even if they
    lack some."""
    kinds: Mapping[str, int]
    """A number per Einsum, equal for Einsums that differ only by names. They share their rows, here and in derived
    problems."""
    stand_ins: StandIns
    switches: Switches = ALL_PARTS
    _joints: dict[object, tuple[Joint, ...]] = field(default_factory=dict, repr=False, compare=False)
    """Results of `joints`: many partial mappings have the same compatibility."""
    _outlines: dict[object, int] = field(default_factory=dict, repr=False, compare=False)
    """Numbers of outlines: the parts of partial mappings that an Einsum sees."""
    _fits: dict[object, tuple[Fit, ...]] = field(default_factory=dict, repr=False, compare=False)
    """Results of `fits`, by outline and group."""
    _relaxed: dict[str, list[Relaxed]] = field(default_factory=dict, repr=False, compare=False)
    _distinct: dict[str, tuple[tuple[Relaxed, ...], Ints]] = field(default_factory=dict, repr=False, compare=False)
    _agreeing: dict[object, Mapping[Relaxed, AgreeingGroups]] = field(default_factory=dict, repr=False, compare=False)
    _live: dict[frozenset[str], frozenset[str]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def order(self) -> tuple[str, ...]:
        """All Einsums in the order of the workload."""
        return tuple(self.workload.einsums)

    @property
    def everything(self) -> frozenset[str]:
        return frozenset(self.workload.einsums)

    @property
    def memories(self) -> tuple[str, ...]:
        return self.room.memories

    def live(self, finished: frozenset[str]) -> frozenset[str]:
        """Tensors used by an Einsum of the set and by one outside it."""
        tensors = self._live.get(finished)
        if tensors is None:
            used = {t for e in finished for t in self.workload.einsums[e].accesses}
            tensors = self._live[finished] = self._unfinished(used, finished)
        return tensors

    def _unfinished(self, tensors: Iterable[str], finished: frozenset[str]) -> frozenset[str]:
        users = self.workload.users
        return frozenset(t for t in tensors if not finished.issuperset(users[t]))

    def live_around(self, finished: frozenset[str], einsum: str) -> LiveTensors:
        """Tensors that matter when an Einsum is joined to the finished ones."""
        before, after, tensors = self.live(finished), finished | {einsum}, self.views[einsum].tensors
        if after not in self._live:
            self._live[after] = self._unfinished(before | tensors, after)
        return LiveTensors(before & tensors, self._live[after])

    def ready(self, finished: frozenset[str]) -> Iterator[str]:
        """Einsums that can run next."""
        return (e for e, needs in self.workload.needs.items() if e not in finished and needs <= finished)

    def has_several_orders(self) -> bool:
        """Whether at some moment an Einsum other than the listed one can be next."""
        finished: frozenset[str] = frozenset()
        for einsum in self.order:
            if self.workload.next_in_turn(finished) != [einsum]:
                return True
            finished |= {einsum}
        return False

    def stand_in(self, finished: frozenset[str], einsum: str) -> StandIn:
        """Find the Einsum in whose place an Einsum is joined: an equal one joined in the same way before, or itself."""
        known = self.stand_ins.known
        if (finished, einsum) not in known:
            itself = StandIn(einsum, self.live_around(finished, einsum))
            known[finished, einsum] = self.stand_ins.find(finished, self.live(finished), itself, self.kinds[einsum])
        return known[finished, einsum]

    def outline(self, before: OpenCompatibility, einsum: str, live: LiveTensors) -> int:
        """Number the part of a partial mapping that an Einsum sees; equal parts have equal numbers."""
        key = einsum, live.shared, outline(before, self.views[einsum], live.shared)
        return self._outlines.setdefault(key, len(self._outlines))

    def joints(
        self, before: OpenCompatibility, einsum: str, number: int, live: LiveTensors, outline: int | None = None
    ) -> tuple[Joint, ...]:
        """All ways to join one group of an Einsum to partial mappings of this compatibility.

        `number`: the group. `outline`: the number of the outline, if the caller knows it.
        """
        key = before, einsum, number, live
        if key not in self._joints:
            if len(self._joints) >= _MOST_JOINTS:
                self._joints.clear()
            outline_number = outline if outline is not None else self.outline(before, einsum, live)
            ways = self.fits(before, outline_number, einsum, number, live)
            self._joints[key] = tuple(Meeting(fit, before, live.after).joint() for fit in ways)
        return self._joints[key]

    def fits(
        self, before: OpenCompatibility, outline: int, einsum: str, number: int, live: LiveTensors
    ) -> tuple[Fit, ...]:
        """All ways in which one group of an Einsum fits partial mappings with this outline."""
        key = outline, number
        ways = self._fits.get(key)
        if ways is None:
            compatibility = self.compatibilities[einsum][number]
            ways = self._fits[key] = fits(before, compatibility, self.views[einsum], live.shared, self.rules)
        return ways

    def relaxed(self, einsum: str) -> list[Relaxed]:
        """Relaxed compatibility of each of an Einsum's groups, over all tensors of the Einsum."""
        if einsum not in self._relaxed:
            view = self.views[einsum]
            self._relaxed[einsum] = [relaxed_einsum(c, view, view.tensors) for c, _ in self.groups[einsum]]
        return self._relaxed[einsum]

    def distinct_relaxed(self, einsum: str) -> tuple[tuple[Relaxed, ...], Ints]:
        """Distinct relaxed compatibilities of an Einsum's groups, and per group the index of its own."""
        if einsum not in self._distinct:
            numbers: dict[Relaxed, int] = {}
            number_of_group: Ints = np.array(
                [numbers.setdefault(relaxed, len(numbers)) for relaxed in self.relaxed(einsum)], np.int64
            )
            self._distinct[einsum] = tuple(numbers), number_of_group
        return self._distinct[einsum]

    def agreeing(self, einsum: str, live: LiveTensors) -> Mapping[Relaxed, AgreeingGroups]:
        """An Einsum's groups by the relaxed compatibility of the tensors shared with finished Einsums."""
        lasting = self.views[einsum].tensors & live.after
        key = einsum, live.shared, lasting
        if key not in self._agreeing:
            numbers: dict[Relaxed, dict[Relaxed, list[int]]] = {}
            for n, relaxed in enumerate(self.relaxed(einsum)):
                by_shared = numbers.setdefault(only(relaxed, live.shared), {})
                by_shared.setdefault(only(relaxed, lasting), []).append(n)
            self._agreeing[key] = {shared: _agreeing_groups(ways) for shared, ways in numbers.items()}
        return self._agreeing[key]

    def with_sizes(self, sizes: Floats) -> JoinProblem:
        """Make a problem with these memory sizes, in which all space stays a criterion to the end."""
        room = Room(self.memories, sizes, np.zeros_like(self.room.settled))
        return dataclasses.replace(self, room=room)

    def with_size(self, memory: str, bits: float) -> JoinProblem:
        """Make a problem with one memory of another size for all Einsums. Remembered joints stay valid."""
        sizes = np.where([name == memory for name in self.memories], bits, self.room.sizes)
        return dataclasses.replace(self, room=dataclasses.replace(self.room, sizes=sizes))

    def watching(self, memory: str) -> JoinProblem:
        """Make a problem in which a memory's usage is an objective: space beside all open loops stays a criterion."""
        settled = self.room.settled.copy()
        settled[self.memories.index(memory)] = False
        return dataclasses.replace(self, room=dataclasses.replace(self.room, settled=settled))


def join_problem(
    spec: Spec, tables: Mapping[str, Table], only_finished: bool = True, switches: Switches = ALL_PARTS
) -> JoinProblem:
    """Group the pmappings of all Einsums by compatibility, ready to be joined."""
    memories = next(iter(tables.values())).memories
    by_einsum = memory_sizes(spec, memories)
    sizes: Floats = np.max(list(by_einsum.values()), axis=0)
    groups = {}
    for name, table in tables.items():
        interrupt.check()
        groups[name] = _groups(table, sizes - by_einsum[name])
    persistent = frozenset(t for info in spec.info.einsums.values() for t in info.persistent)
    charges = make_charges(spec, memories)
    rules = JoinRules(persistent, only_finished, uneven_copies(charges))
    return JoinProblem(
        workload=spec.info,
        groups=groups,
        origins={name: table.origins for name, table in tables.items()},
        views={name: EinsumView(info) for name, info in spec.info.einsums.items()},
        room=Room(memories, sizes, _settled(groups, memories, persistent)),
        smallest=np.min(list(by_einsum.values()), axis=0),
        charges=charges,
        rules=rules,
        compatibilities={name: [c for c, _ in einsum_groups] for name, einsum_groups in groups.items()},
        kinds=_kinds(groups),
        stand_ins=StandIns(spec.info, charges, rules),
        switches=switches,
    )


def _kinds(groups: Mapping[str, Sequence[Group]]) -> dict[str, int]:
    """Number the Einsums; those that share their rows have the same number."""
    numbers: dict[object, int] = {}
    rows = {name: id(einsum_groups[0].rows.energy) if einsum_groups else name for name, einsum_groups in groups.items()}
    return {name: numbers.setdefault(number, len(numbers)) for name, number in rows.items()}


def _groups(table: Table, missing: Floats) -> list[Group]:
    """Groups of a table. `missing`: bits that each memory lacks for this Einsum, reserved while it runs."""
    if not missing.any():
        return list(itertools.starmap(Group, table.groups.items()))
    groups = []
    for compatibility, rows in table.groups.items():
        bits = rows.bits.copy()
        bits[:, :, -1] += missing
        groups.append(Group(compatibility, dataclasses.replace(rows, bits=bits)))
    return groups


def _settled(
    groups: Mapping[str, Sequence[Group]], memories: tuple[str, ...], persistent: frozenset[str]
) -> npt.NDArray[np.bool_]:
    """Memories that hold nothing persistent."""
    every_group = [group for einsum_groups in groups.values() for group in einsum_groups]
    settled = np.ones(len(memories), np.bool_)
    for held in {id(rows.persistent): rows.persistent for _, rows in every_group}.values():
        settled &= ~(held > 0).any(axis=0)
    backings = (b for c, _ in every_group for b in c.backings) if persistent else ()
    backed = {b.memory for b in backings if b.tensor in persistent}
    return settled & np.array([m not in backed for m in memories], np.bool_)


def uneven_copies(charges: TensorCharges) -> frozenset[str]:
    """Tensors that a copy Einsum makes from one of another size, or from which it makes one.

    If all users of both touch equally many elements of as many bits, each by variables with coefficient ±1, then so they do
    below any loops: a loop divides both by the same number.
    """
    workload = charges.workload
    uneven: set[str] = set()
    for copy in (info for info in workload.einsums.values() if info.is_copy_operation):
        accesses = [(workload.einsums[user], t) for t in copy.accesses for user in workload.users[t]]
        ranks = (affine for info, t in accesses for affine in info.accesses[t].ranks.values())
        plain = all(abs(a) == 1 for affine in ranks for a in affine.coefficients.values())
        sizes = {(footprint(info.accesses[t], info.bounds), charges.widths(info.name, t)) for info, t in accesses}
        if not plain or len(sizes) > 1:
            uneven |= copy.accesses.keys()
    return frozenset(uneven)


@dataclass(frozen=True)
class Potential:
    """Lower bounds on the cost of each Einsum of a problem, by itself."""

    weights: Weights
    """Weights of the sum in `Least.both`."""
    groups: Mapping[str, Sequence[Least]]
    """Least costs of each Einsum's groups."""
    options: Mapping[str, RelaxedLeast]
    """Least costs of each Einsum by relaxed compatibility."""
    _bounds: list[LowerBounds] = field(default_factory=list, repr=False, compare=False)

    def bounds(self, problem: JoinProblem) -> LowerBounds:
        """Relaxed bounds on completions of the whole. They are made once, so their tables are shared by all passes."""
        if not self._bounds:
            self._bounds.append(LowerBounds(self.options, problem.workload.users, list(problem.groups)))
        return self._bounds[0]


def potential(problem: JoinProblem, weights: Weights = NO_WEIGHTS) -> Potential:
    """Find the least costs of every group of every Einsum, also of the sum with these weights."""
    remembered: dict[int, Least] = {}
    leasts: dict[
        tuple[int, ...], tuple[list[Least], Floats]
    ] = {}  # Einsums that differ only by names have their rows in common
    groups: dict[str, list[Least]] = {}
    options: dict[str, RelaxedLeast] = {}

    def least(rows: Rows) -> Least:
        number = id(rows.energy)
        if number not in remembered:
            remembered[number] = _least(rows, weights)
        return remembered[number]

    for name, einsum_groups in problem.groups.items():
        interrupt.check()
        numbers = tuple(id(group.rows.energy) for group in einsum_groups)
        if numbers not in leasts:
            group_leasts = [least(group.rows) for group in einsum_groups]
            leasts[numbers] = group_leasts, np.array(group_leasts).reshape(-1, 3)
        groups[name], costs = leasts[numbers]
        options[name] = _options(problem, name, costs)
    return Potential(weights, groups, options)


def _options(problem: JoinProblem, einsum: str, costs: Floats) -> dict[Relaxed, Least]:
    """The least cost of an Einsum per relaxed compatibility. `costs`: those of its groups."""
    distinct, number_of_group = problem.distinct_relaxed(einsum)
    leasts = np.full((len(distinct), 3), np.inf)
    np.minimum.at(leasts, number_of_group, costs)
    return {relaxed: Least(*cost) for relaxed, cost in zip(distinct, leasts.tolist(), strict=True)}


def _least(rows: Rows, weights: Weights) -> Least:
    if not len(rows):
        return IMPOSSIBLE
    weighted = weights.energy * rows.energy + weights.latency * rows.latency
    return Least(float(rows.energy.min()), float(rows.latency.min()), float(weighted.min()))
