"""Pmappings of one Einsum below windowed loops that it shares with other Einsums.

The general search, with the shared loops given. They stand in their order, each in some gap, above all other loops. A
variable that such a loop steps has tiles of several lengths below it (`WindowChains`). Exchanged tensors stand above
everything here, and the caller counts their space. Other storage nodes above a shared loop take space that the
interleaved Einsums see, unless it sinks past the loop.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fusiest.base.frozen import FrozenDict
from fusiest.looptree import Node, Tiling
from fusiest.pmapping.chains.chain_search import GeneralSearch
from fusiest.pmapping.chains.combine import Partial
from fusiest.pmapping.chains.nest_tiles import GeneralNests
from fusiest.pmapping.chains.rows_to_nests import GeneralOrigin, SlotLoop
from fusiest.pmapping.chains.singles import SingleChains
from fusiest.pmapping.chains.skeleton import Skeleton, Slot
from fusiest.pmapping.chains.space import Reserved
from fusiest.pmapping.chains.terms import Terms
from fusiest.pmapping.chains.tied_variables import Usages, best_usages
from fusiest.pmapping.chains.tile_chains import (
    COUNTED,
    Chains,
    allowed_chains,
    make_chains,
    spread_chains,
    tile_options,
)
from fusiest.pmapping.explore import leakage, paths
from fusiest.pmapping.lattice.applies import beside, constrained_variables, top_fits
from fusiest.pmapping.lattice.move_costs import Columns, finish
from fusiest.pmapping.lattice.tile_problem import make_problem
from fusiest.pmapping.nest.rules import HeldTensor, Nest, Rules
from fusiest.pmapping.pareto import Floats, Ints, pareto_rows
from fusiest.pmapping.placements.open_choices import Steps
from fusiest.pmapping.placements.placement import Placement, placements
from fusiest.pmapping.reuse.symbolic_throughput import OpenRates, open_calls
from fusiest.pmapping.table import FusedLimits
from fusiest.spec import Path, Spec

MOST_TILES = 16
"""Longest window that has all imperfect tiles; a longer one has those that make fewer iterations."""
_NEST = 1_000
"""Candidates that can be looked at in the time that it takes to begin with a nest."""


@dataclass(frozen=True)
class TurnLoop:
    """A loop that interleaved Einsums share, as one of them sees it."""

    variable: str
    """The variable that it steps there."""
    tiling: Tiling
    """How it steps the variable."""
    times: int
    """Number of iterations."""


@dataclass(frozen=True)
class TurnNest:
    """The nest of an interleaved Einsum."""

    above: tuple[tuple[Node, ...], ...]
    """Storage nodes above each of the shared loops."""
    inside: tuple[Node, ...]
    """All nodes below the shared loops."""


@dataclass(frozen=True)
class TurnRows:
    """Pareto-optimal pmappings of an Einsum below shared loops."""

    costs: Floats
    """Rows × energy, latency, bits reserved above each of the loops, and bits in all; without exchanged tensors."""
    calls: Floats
    """Rows × open parts of energy and latency: calls of memories whose throughputs are open, and watts."""
    origins: tuple[tuple[WindowOrigin, int], ...]
    """Origin of each row, and its number there."""
    explored: int
    """Number of candidates."""

    def settled(self, rates: OpenRates) -> TurnRows:
        """Set these throughputs, and prune the rows by the costs that follow."""
        if not len(self.costs):
            return self
        costs = np.column_stack([*rates.settled(self.costs[:, 0], self.costs[:, 1], self.calls), self.costs[:, 2:]])
        return TurnRows(costs, self.calls[:, :0], self.origins, self.explored).pruned()

    def pruned(self) -> TurnRows:
        """Keep the rows that no other dominates."""
        criteria = np.column_stack([self.costs, self.calls])
        best = pareto_rows(np.zeros(len(criteria), np.int64), criteria)
        return TurnRows(self.costs[best], self.calls[best], tuple(self.origins[i] for i in best), self.explored)

    def nest(self, row: int) -> TurnNest:
        """Write a row as nodes of a mapping."""
        origin, number = self.origins[row]
        return origin.nest(number)


@dataclass(frozen=True)
class TurnsAsked:
    """A question to the search for interleaved pmappings of an Einsum."""

    loops: tuple[TurnLoop, ...]
    """The shared loops."""
    memory: str
    """The memory in which tensors are exchanged."""
    levels: FrozenDict[str, int]
    """Exchanged tensors, each with the number of shared loops above it: its storage node stands right below them."""
    alone: frozenset[str]
    """Tensors that no other Einsum below these loops uses: they may be held above the loops."""
    imperfect: bool
    most: int
    """Most candidates; more raise `TooManyCandidates`."""
    rates: frozenset[str] = frozenset()
    """Memories whose throughputs are left open."""

    def backed_below(self, number: int) -> frozenset[str]:
        """Exchanged tensors that stand below a loop."""
        return frozenset(tensor for tensor, level in self.levels.items() if level > number)


class TooManyCandidates(Exception):
    """A search has more candidates than its limit."""


def turn_rows(spec: Spec, einsum: str, asked: TurnsAsked) -> TurnRows:
    """Find an Einsum's Pareto-optimal pmappings below shared loops, on any compute.

    Where throughputs are open, `TurnRows.settled` sets them.
    """
    pieces, origins = list[tuple[Floats, Floats]](), list[tuple[WindowOrigin, int]]()
    budget = [asked.most]
    for path in paths(spec, einsum):
        for origin, costs, calls in _path_rows(spec, path, asked, budget):
            pieces.append((costs, calls))
            origins += [(origin, i) for i in range(len(costs))]
    explored = asked.most - budget[0]
    if not pieces:
        return TurnRows(np.empty((0, 3 + len(asked.loops))), np.empty((0, 1)), (), explored)
    costs, calls = (np.concatenate(some) for some in zip(*pieces, strict=True))
    return TurnRows(costs, calls, tuple(origins), explored).pruned()


def _path_rows(spec: Spec, path: Path, asked: TurnsAsked, budget: list[int]) -> Iterator[TurnPiece]:
    names = [c.name for c in path.components]
    if asked.memory not in names:
        return
    problem = make_problem(path, *constrained_variables(spec, path))
    nest = Nest(problem, frozenset(), {}, Rules(sink=False, hoist=False), frozenset(), beside(spec, path))
    at = names.index(asked.memory)
    search = TurnSearch(nest, (at,), FusedLimits(), True, leakage(spec, problem), asked=asked, budget=budget)
    outermost = next(i for i, c in enumerate(path.components) if c.kind == "memory")
    fused = {loop.variable for k, loop in enumerate(asked.loops) if asked.backed_below(k)}
    for placement in placements(spec, path):
        backing = {t: placement.holders(t, path)[0] for t in path.einsum.accesses}
        sets = placement.sets[at]
        barred = sets is not None and bool(sets.no_fused_loops & fused)
        where = all(m == (at if t in asked.levels else outermost) for t, m in backing.items())
        if where and not barred and top_fits(path, placement):
            yield from search.rows(placement)


@dataclass
class TurnSearch(GeneralSearch):
    """The general search for one Einsum on one compute, below shared loops."""

    asked: TurnsAsked = dataclasses.field(kw_only=True)
    budget: list[int] = dataclasses.field(kw_only=True)

    def _rates(self) -> frozenset[str]:
        return self.asked.rates

    def _usages(self) -> Usages:
        """Usages as without windows: `min_usage` compares the Einsum's own bounds."""
        return best_usages(self.path, self.asked.imperfect)

    def count(self, candidates: int) -> None:
        self.budget[0] -= candidates
        if self.budget[0] < 0:
            raise TooManyCandidates

    def rows(self, placement: Placement) -> Iterator[TurnPiece]:
        """Rows for every order of storage nodes, and every place of the shared loops among them."""
        problem, path = self.nest.problem, self.path
        lifted = frozenset(HeldTensor(self.memories[0], self.nest.number[t]) for t in self.asked.levels)
        whole = Steps(problem, [placement], lifted).outer_stretch(0, len(path.components))
        for order in self.nest.orders(frozenset(), self.nest.order_options(whole), whole):
            skeleton = Skeleton(self.nest, placement, whole, tuple(reversed(order)), True)
            most = next((i for i, h in enumerate(skeleton.holders) if not self._may_be_above(h)), len(order))
            for gaps in itertools.combinations_with_replacement(range(most + 1), len(self.asked.loops)):
                if not all(self._may_loop(skeleton, number, gap) for number, gap in enumerate(gaps)):
                    continue
                slots = {v: self._slots(skeleton, v, gaps) for v in path.einsum.bounds}
                for passed in self._passed(skeleton, slots, gaps):
                    yield from WindowNests(self, skeleton, slots, passed, gaps).rows()

    def _may_loop(self, skeleton: Skeleton, number: int, gap: int) -> bool:
        """Whether a shared loop may stand in a gap."""
        below = frozenset(self.nest.number[t] for t in self.asked.backed_below(number))
        return skeleton.may_loop(self.asked.loops[number].variable, gap, below)

    def _may_be_above(self, holder: HeldTensor) -> bool:
        return holder.memory == self.memories[0] and self.nest.names[holder.tensor] in self.asked.alone

    def _slots(self, skeleton: Skeleton, variable: str, gaps: Sequence[int]) -> tuple[Slot, ...]:
        """The shared loop over a variable, if there is one, and slots for other loops, all below all shared loops."""
        common = [Slot(gap) for gap, loop in zip(gaps, self.asked.loops, strict=True) if loop.variable == variable]
        return (*common, *(s for gap in range(gaps[-1], len(skeleton.gaps)) for s in skeleton.gap_slots(variable, gap)))

    def _passed(
        self, skeleton: Skeleton, slots: Mapping[str, tuple[Slot, ...]], gaps: Sequence[int]
    ) -> Iterator[PassedSlots]:
        """Per storage node, the loops right below it that its reservation sinks through.

        These index its tensor fully, but for the last, which may do so partially. The order of shared loops is given,
        that of others free.
        """
        options: list[list[frozenset[tuple[str, int]]]] = []
        for place, holder in enumerate(skeleton.holders):
            full, partial = skeleton.nest.full[holder.tensor], skeleton.nest.partial[holder.tensor]
            through: set[tuple[str, int]] = set()
            ended = False
            for number, (gap, loop) in enumerate(zip(gaps, self.asked.loops, strict=True), 1):
                if gap == place + 1 and not ended:
                    if loop.variable in full or loop.variable in partial:
                        through.add((loop.variable, 0))
                    ended = loop.variable not in full or number in self.asked.levels.values()
            if ended or place + 1 < gaps[-1]:
                options.append([frozenset(through)])
                continue
            common = {loop.variable for loop in self.asked.loops}
            below = [
                (v, i)
                for v, v_slots in slots.items()
                for i, slot in enumerate(v_slots)
                if slot == Slot(place + 1) and not (v in common and i == 0)
            ]
            through |= {(v, i) for v, i in below if v in full}
            last = [frozenset({(v, i)}) for v, i in below if v in partial]
            options.append([frozenset(through) | loop for loop in last or [frozenset()]])
        for chosen in itertools.product(*options):
            yield dict(enumerate(chosen))


TurnPiece: TypeAlias = "tuple[WindowOrigin, Floats, Floats]"
"""Rows of one nest: their origin, final costs, and open parts."""
PassedSlots: TypeAlias = Mapping[int, frozenset[tuple[str, int]]]
"""Per storage node, the loops that its reservation sinks through: variable, and number of the slot."""


@dataclass(frozen=True)
class WindowChains(Chains):
    """Chains of tiles below a loop that makes windows, which is the first slot."""

    lengths: tuple[tuple[int, int], ...]
    """Lengths of the windows, each with the number of windows."""

    def take(self, which: Ints) -> WindowChains:
        return WindowChains(self.variable, self.bound, self.slots, self.tiles[which], self.fused, self.lengths)

    def iterations(self, slot: int) -> Ints:
        if slot == 0:
            return np.full(len(self), sum(times for _, times in self.lengths))
        return super().iterations(slot)

    def loop(self, slot: int) -> Ints:
        return self.tiles[:, 0] if slot == 0 else super().loop(slot)

    def _first_extents(self, query: str) -> tuple[Sequence[tuple[int, int]], int]:
        if not query:
            return super()._first_extents(query)
        return self.lengths if query[0] == COUNTED else ((max(length for length, _ in self.lengths), 1),), 1


def _tile_sizes(length: int, imperfect: bool) -> Sequence[int]:
    return range(1, length + 1) if imperfect and length <= MOST_TILES else tile_options(length, imperfect)


def _window_chains(skeleton: Skeleton, loop: TurnLoop, slots: tuple[Slot, ...], imperfect: bool) -> WindowChains:
    """All chains below a shared loop. Perfect tiles divide some window, and may leave a rest of others."""
    bound = skeleton.path.einsum.bounds[loop.variable]
    lengths = loop.tiling.lengths(bound, loop.times)
    if loop.tiling.windowed:
        bound = max(loop.tiling.range(i, bound)[1] for i in range(loop.tiling.last(bound, loop.times) + 1))
    longest = max(lengths)
    sizes = {t for length in lengths for t in _tile_sizes(length, imperfect)}

    def options(extent: int) -> tuple[int, ...]:
        return tuple(sorted({t for t in sizes if t <= extent} | set(_tile_sizes(extent, imperfect))))

    tiles = spread_chains(skeleton, loop.variable, slots[1:], longest, options)
    whole = np.column_stack([np.full(len(tiles), longest), tiles])
    chains = WindowChains(loop.variable, bound, slots, whole, 0, tuple(lengths.items()))
    return chains.take(np.flatnonzero(allowed_chains(skeleton, chains)))


class WindowNests(GeneralNests):
    """All tiles of one skeleton with given shared loops."""

    search: TurnSearch

    def __init__(
        self,
        search: TurnSearch,
        skeleton: Skeleton,
        slots: Mapping[str, tuple[Slot, ...]],
        passed: PassedSlots,
        gaps: Sequence[int],
    ) -> None:
        super().__init__(search, skeleton, slots, {})
        self.through, self.gaps_of_loops = passed, tuple(gaps)

    def rows(self) -> Iterator[TurnPiece]:
        """Rows that no other dominates: energy, latency, bits above each loop, and bits in all; and open parts."""
        self.search.count(_NEST)
        combined = self._combined(self._goal())
        if combined is None:
            return
        terms, chains, state = combined
        values = state.products @ terms.matrix()
        costs = self._finished_costs(terms, values, state)
        bits = np.zeros((len(values), len(self.gaps_of_loops) + 1))
        for level in range(bits.shape[1]):
            name = Reserved(self.search.memories[0], (level, 0))
            if name in terms.criteria:
                bits[:, level] = values[:, terms.criteria[name]]
        tiles = {v: chains[v].tiles[state.choice[:, i]] for i, v in enumerate(self.variables)}
        origin = WindowOrigin(self.skeleton, self.slots, {}, tiles, self.through, self.gaps_of_loops, self.search.asked)
        yield origin, np.column_stack([costs[:, :2], np.cumsum(bits, axis=1)]), costs[:, 2:]

    def _finished_costs(self, terms: Terms, values: Floats, state: Partial) -> Floats:
        """Energy and latency without the open parts, and the open parts."""
        problem, columns = self.search.nest.problem, Columns(self.search.busy, 0, (), self.search.asked.rates)
        criteria = self._criteria(terms, values, columns)
        calls = open_calls(problem, columns, criteria, self._watts(state))
        return np.column_stack([*finish(problem, columns, criteria, 0.0), calls])

    def _chains(self, variable: str) -> SingleChains:
        loop = next((common for common in self.search.asked.loops if common.variable == variable), None)
        slots = self.slots[variable]
        key = variable, slots, self.skeleton.holders, self.skeleton.placement.held
        if key not in self.search.chains:
            if loop is not None:
                chains: Chains = _window_chains(self.skeleton, loop, slots, self.search.asked.imperfect)
            else:
                imperfect, spreads = self.search.asked.imperfect, self.search.spreads
                chains = make_chains(self.skeleton, variable, slots, frozenset(), 0, imperfect, spreads)
            self.search.chains[key] = SingleChains(chains)
        return self.search.chains[key]

    def _sinks(self, place: int, variable: str, slot: int) -> bool:
        return (variable, slot) in self.through.get(place, ())

    def _counted(self, place: int, holder: HeldTensor) -> list[Hashable]:
        """Bits that a node reserves. Nodes on top are off chip, or exchanged, and the caller counts them."""
        return super()._counted(place, holder) if place >= 0 else []

    def _account(self, place: int, holder: HeldTensor) -> Reserved:
        above = sum(gap <= place for gap in self.gaps_of_loops) + len(self.through[place])
        return Reserved(holder.memory, (min(above, len(self.gaps_of_loops)), 0))


@dataclass(frozen=True)
class WindowOrigin(GeneralOrigin):
    """The origin of rows below shared loops."""

    through: PassedSlots
    gaps: tuple[int, ...]
    asked: TurnsAsked

    def nest(self, row: int) -> TurnNest:
        common = {loop.variable for loop in self.asked.loops}
        loops = [loop for loop in self._loops(row) if loop.number or loop.variable not in common]
        held = (map(self._held, range(*gaps)) for gaps in itertools.pairwise((0, *self.gaps)))
        above = tuple(tuple(itertools.chain.from_iterable(nodes)) for nodes in held)
        return TurnNest(above, self._inside(self.gaps[-1], loops))

    def _passes(self, place: int, loop: SlotLoop) -> bool:
        return (loop.variable, loop.number) in self.through.get(place, frozenset())
