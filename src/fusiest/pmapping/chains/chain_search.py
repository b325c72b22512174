"""The general search: exact for imperfect tiles and any order of storage nodes, slower than the lattice.

For one placement it takes every order of the storage nodes, and in each every tile chain of each variable
(`tile_chains`). Costs are sums of products over variables (`terms`), so the variables are combined one at a time
(`combine`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from fusiest.base.errors import SpecError
from fusiest.base.objective import Objective
from fusiest.pmapping.chains.branch.bounds import Goal
from fusiest.pmapping.chains.nest_tiles import GeneralNests
from fusiest.pmapping.chains.orders import all_sunk, check_supported, lowerings, skeletons
from fusiest.pmapping.chains.singles import SingleChains
from fusiest.pmapping.chains.skeleton import Skeleton, Slot
from fusiest.pmapping.chains.terms import Footprints
from fusiest.pmapping.chains.tied_variables import Usages, allowed_instances, best_usages
from fusiest.pmapping.lattice.move_costs import Leakage, busy_columns
from fusiest.pmapping.lattice.remaining import Cutoff
from fusiest.pmapping.nest.factors import divisors
from fusiest.pmapping.nest.rules import Nest
from fusiest.pmapping.placements.placement import Placement
from fusiest.pmapping.table import Compatibility, FusedLimits, Rows, TablePiece

MOST_CANDIDATES = 2_000_000_000
_LOOK = 40
"""Batches of a quick look."""


@dataclass
class GeneralSearch:
    """One Einsum on one compute."""

    nest: Nest
    memories: tuple[int, ...]
    """Memories whose space is a criterion, by index on the path (or -1)."""
    limits: FusedLimits
    imperfect: bool
    leakage: Leakage
    known: Cutoff | None = None
    """Costs of known pmappings: only pmappings that beat each of them in one of both are kept."""
    alone: bool = False
    """Whether only energy and latency matter, given where shared tensors are held."""
    objective: Objective | None = None
    """The objective of an Einsum that is alone in its workload: only its best pmappings are kept."""
    evaluated: int = 0
    """Number of candidates so far."""
    chains: dict[object, SingleChains] = field(default_factory=dict)
    """Chains of each variable, by everything that they depend on."""
    goals: dict[object, Goal] = field(default_factory=dict)
    """Cutoffs, by where shared tensors are held."""
    looked: set[tuple[Placement, int]] = field(default_factory=set)
    """Nests of which the quick look left out nothing, for the first way in which space sinks."""

    def __post_init__(self) -> None:
        self.path = self.nest.path
        self.footprints = Footprints(self.nest)
        self.busy = busy_columns(self.nest.problem, self._rates())
        self.usages = self._usages()
        self.watts: dict[tuple[int, ...], float] = {}
        dimensions = [d for c in self.path.components for d in c.dimensions]
        self.allowed = {i: allowed_instances(d, self.usages, i) for i, d in enumerate(dimensions)}
        self.spreads = {i: factors_of(numbers) for i, numbers in self.allowed.items() if numbers is not None}

    def goal(self, holding: Iterable[str]) -> Goal | None:
        """The cutoff for pmappings that exchange shared tensors in these memories. None: nothing to beat."""
        if not self.alone:
            return Goal(self.known, False) if self.known is not None else None
        start = self.known if self.known is not None else Cutoff(np.empty((0, 2)))
        return self.goals.setdefault(tuple(sorted(holding)), Goal(start, True, self.objective))

    def learn(self, form: Compatibility, rows: Rows) -> None:
        """Tighten the cutoff by known pmappings, for others that meet other Einsums in the same way."""
        goal = self.goal(f"{b.tensor}:{b.memory}" for b in form.backings)
        if goal is not None and not form.loops:
            goal.learn(rows.energy, rows.latency)

    def pieces(self, placement: Placement) -> Iterator[TablePiece]:
        """Rows of every compatibility for one placement."""
        for number, (skeleton, slots, ways) in enumerate(self._nests(placement)):
            if (placement, number) in self.looked:
                ways = ways[1:]
            yield from self._pieces([GeneralNests(self, skeleton, slots, passed) for passed in ways], [])

    def _pieces(self, ways: list[GeneralNests], searched: list[GeneralNests]) -> Iterator[TablePiece]:
        """Rows of nests that differ only in the loops that their space sinks through.

        If the nest in which space sinks through all these loops cannot beat the cutoff, none of them can, and they are
        not searched one by one.
        """
        ways = [nests for nests in ways if not any(nests.is_image(other) for other in searched)]
        if len(ways) == 1:
            yield from ways[0].pieces()
        elif ways:
            passed = [nests.passed for nests in ways]
            sunk = GeneralNests(self, ways[0].skeleton, ways[0].slots, all_sunk(ways[0].skeleton, passed))
            if not sunk.is_beaten():
                place = next(place for place in passed[0] if any(p[place] != passed[0][place] for p in passed))
                for variables in {p[place]: None for p in passed}:
                    alike = [nests for nests in ways if nests.passed[place] == variables]
                    yield from self._pieces(alike, searched)
                return
        searched += ways

    def look(self, placement: Placement) -> Iterator[TablePiece]:
        """Some rows for one placement, quickly."""
        for number, (skeleton, slots, ways) in enumerate(self._nests(placement)):
            nests = GeneralNests(self, skeleton, slots, ways[0])
            yield from nests.pieces(_LOOK)
            if nests.ended:
                self.looked.add((placement, number))

    def _nests(
        self, placement: Placement
    ) -> Iterator[tuple[Skeleton, dict[str, tuple[Slot, ...]], list[dict[int, frozenset[str]]]]]:
        """Orders of storage nodes, slots for loops, and the ways in which space may sink, grouped by the fused part."""
        check_supported(self.nest, placement)
        for skeleton in skeletons(self.nest, placement, self.imperfect):
            slots = {v: skeleton.slots(v) for v in self.path.einsum.bounds}
            ways: dict[object, list[dict[int, frozenset[str]]]] = {}
            for passed in lowerings(skeleton, slots, self.limits.per_variable):
                ways.setdefault(tuple(passed[place] for place in range(skeleton.last_fused)), []).append(passed)
            for same in ways.values():
                yield skeleton, slots, same

    def _rates(self) -> frozenset[str]:
        """Components whose throughputs are left open."""
        return frozenset()

    def _usages(self) -> Usages:
        return best_usages(self.path, self.imperfect)

    def count(self, candidates: int) -> None:
        self.evaluated += candidates
        if self.evaluated > MOST_CANDIDATES:
            raise SpecError(
                f"the {'imperfect ' * self.imperfect}mapspace of Einsum {self.path.einsum.name} has more than "
                f"{MOST_CANDIDATES:.0e} candidates; use perfect tiles, or constrain it (tile_shape, loop_bounds, keep)"
            )

    def power(self, used: tuple[int, ...]) -> float:
        """Leakage in watts, where `used` counts instances of gated dimensions; of further ones, one is in use."""
        if used not in self.watts:
            dimensions = [d for c in self.path.components for d in c.dimensions]
            numbers = itertools.chain(used, itertools.repeat(1))
            self.watts[used] = self.leakage(
                {(d.component, d.name): n for d, n in zip(dimensions, numbers, strict=False)}
            )
        return self.watts[used]


def factors_of(numbers: Iterable[int]) -> frozenset[int]:
    """All numbers that divide one of these."""
    return frozenset(f for n in numbers for f in divisors(n))
