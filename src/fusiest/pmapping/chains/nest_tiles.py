"""All tiles of one nest of the general search: their costs and space, combined, as rows of a table."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fusiest.pmapping.chains.branch.bounds import CostBound, Goal
from fusiest.pmapping.chains.branch.inputs import BranchedCombiner
from fusiest.pmapping.chains.branch.symmetry import Swapping, images, swappings
from fusiest.pmapping.chains.combine import Partial
from fusiest.pmapping.chains.rows_to_nests import GeneralOrigin, fused_loops
from fusiest.pmapping.chains.singles import SingleChains
from fusiest.pmapping.chains.skeleton import Skeleton, Slot
from fusiest.pmapping.chains.space import Boundary, Reserved, Total, reserved, running_sums
from fusiest.pmapping.chains.terms import Charges, HolderBits, Terms, reservations
from fusiest.pmapping.chains.tied_variables import Limit, limits
from fusiest.pmapping.chains.tile_chains import Chains, make_chains, tile_shapes
from fusiest.pmapping.fused.seen_by_neighbours import fused_form, zone_chain
from fusiest.pmapping.fused.structures import Above, LoopSet
from fusiest.pmapping.lattice.move_costs import BUSY, ENERGY, Columns, finish
from fusiest.pmapping.nest.rules import HeldTensor
from fusiest.pmapping.nest.spatial import usage
from fusiest.pmapping.pareto import Floats, Ints, pareto_rows
from fusiest.pmapping.table import Compatibility, FusedLoop, Rows, TablePiece, group_numbers

if TYPE_CHECKING:
    from fusiest.pmapping.chains.chain_search import GeneralSearch


class GeneralNests:
    """All tiles of one skeleton whose reservations sink as given."""

    def __init__(
        self,
        search: GeneralSearch,
        skeleton: Skeleton,
        slots: Mapping[str, tuple[Slot, ...]],
        passed: Mapping[int, frozenset[str]],
    ) -> None:
        self.search, self.skeleton, self.slots, self.passed = search, skeleton, slots, passed
        self.last = skeleton.last_fused
        self.variables = tuple(slots)
        self.forced = {v: frozenset(p + 1 for p in range(self.last) if v in passed[p]) for v in self.variables}
        self.fused = [(v, slot) for v, v_slots in slots.items() for slot in v_slots if slot.gap <= self.last]
        """Slots for fused loops."""
        self.ended = True
        """Whether all tiles were looked at."""

    def pieces(self, batches: float = math.inf) -> Iterator[TablePiece]:
        combined = self._combined(self._goal(), batches)
        if combined is not None:
            yield from self._finished(*combined)

    def is_beaten(self) -> bool:
        """Whether no tiles of this nest can beat the cutoff."""
        goal = self._goal()
        if goal is None or not len(goal.cutoff.points):
            return False
        return self._combined(replace(goal, grows=False), trial=True) is None

    def _combined(
        self, goal: Goal | None, batches: float = math.inf, trial: bool = False
    ) -> tuple[Terms, dict[str, Chains], Partial] | None:
        """All tiles that fit and matter, with their terms and chains; None if there are none.

        `batches`: limit of a quick look. `trial`: the first tiles that beat the goal are enough.
        """
        terms, chains = self.terms, self.chains
        if any(not len(v_chains) for v_chains in chains.values()):
            return None
        combiner = self._combiner(terms, self.singles, self.limited, goal)
        if chains and goal is not None and (trial or goal.grows):
            swapping = next(images(terms, terms, self.swappings), None)
            state = combiner.branch(batches, trial, swapping)
            self.ended = combiner.ended
        else:
            state = combiner.run()
        return (terms, chains, state) if len(state) else None

    @cached_property
    def singles(self) -> dict[str, SingleChains]:
        return {v: self._chains(v) for v in self.variables}

    @cached_property
    def chains(self) -> dict[str, Chains]:
        return {v: single.chains for v, single in self.singles.items()}

    @cached_property
    def terms(self) -> Terms:
        """Costs and space of all tiles, as sums of products."""
        terms = Terms(self.variables)
        self._charge(terms)
        self._reserve(terms)
        return terms

    @cached_property
    def limited(self) -> list[Limit]:
        return limits(self.skeleton, self.chains, self.search.allowed)

    @cached_property
    def swappings(self) -> list[Swapping]:
        """Variables that have the same chains and limits, some pairs at once; none where loops may be fused."""
        if self.fused or not self.search.alone:
            return []
        alike = lambda a, b: self._alike(self.variables[a], self.variables[b])  # noqa: E731
        return swappings(len(self.variables), alike)

    def _alike(self, a: str, b: str) -> bool:
        tiles = self.chains[a].tiles, self.chains[b].tiles
        same = self.slots[a] == self.slots[b] and len(tiles[0]) > 1 and np.array_equal(*tiles)
        return same and all(np.array_equal(limit.factors[a], limit.factors[b]) for limit in self.limited)

    def is_image(self, other: GeneralNests) -> bool:
        """Whether this nest and another one have equal costs, but for variables that change places."""
        return any(images(self.terms, other.terms, self.swappings))

    def _charge(self, terms: Terms) -> None:
        Charges(self.skeleton, self.slots, self.search.busy, terms, self.search.footprints).add_all()

    def _chains(self, variable: str) -> SingleChains:
        skeleton, slots, forced = self.skeleton, self.slots[variable], self.forced[variable]
        kinds = tuple((slot.dimension, slot.gap <= self.last, slot.gap in forced) for slot in slots)
        spatial = [(i, slot.dimension) for i, slot in enumerate(slots) if slot.dimension is not None]
        temporal = [(i, slot.gap) for i, slot in enumerate(slots) if slot.dimension is None]
        swaps = tuple((i, j) for i, gap in temporal for j, d in spatial if skeleton.swaps(variable, gap, d))
        shapes = tuple(tile_shapes(skeleton))
        key = variable, kinds, swaps, len(skeleton.dimensions), shapes and (shapes, slots)
        if key not in self.search.chains:
            most = self.search.limits.per_variable
            chains = make_chains(skeleton, variable, slots, forced, most, self.search.imperfect, self.search.spreads)
            self.search.chains[key] = SingleChains(chains)
        return self.search.chains[key]

    # --- space --------------------------------------------------------------------------------------------------------

    def _reserve(self, terms: Terms) -> None:
        for place, holder, products in self._reservations():
            terms.add(products, dict.fromkeys(self._counted(place, holder), 1.0))

    def _reservations(self) -> list[HolderBits]:
        """Reservations of storage nodes that take space of their own."""
        return list(reservations(self.skeleton, self.slots, self._sinks, self.search.footprints))

    @cached_property
    def persistent(self) -> Floats:
        """Bits per tracked memory of persistent tensors that joining does not count."""
        bits: Floats = np.zeros(len(self.search.memories))
        for _, holder, _ in self._reservations():
            own = self.skeleton.is_persistent(holder) and not self.skeleton.is_exchanged(holder)
            if own and holder.memory in self.search.memories:
                bits[self.search.memories.index(holder.memory)] += self.search.nest.persistent_bits(holder)
        return bits

    def _sinks(self, place: int, variable: str, slot: int) -> bool:
        """Whether the reservation of the node at a place sinks through a loop, which stands right below it."""
        return self.slots[variable][slot].gap == place + 1 and variable in self.passed.get(place, ())

    def _counted(self, place: int, holder: HeldTensor) -> list[Hashable]:
        """Names of the sums that a node's bits count towards.

        One for each memory of limited size; one for each tracked memory and boundary; shared nodes apart.
        """
        account = self._account(place, holder) if holder.memory in self.search.memories else None
        limited = math.isfinite(self.search.path.components[holder.memory].size)
        return [Total(holder.memory)] * limited + [account] * (account is not None)

    def _account(self, place: int, holder: HeldTensor) -> Reserved | None:
        """The account of a reservation. None: the tensor is exchanged, so joining counts it, or it is persistent."""
        shared = self.search.nest.is_shared(holder.tensor)
        if self.skeleton.is_exchanged(holder) or self.skeleton.is_persistent(holder):
            return None
        if place >= self.last:
            return Reserved(holder.memory, (self.last, 0))
        if place >= 0 and self.passed[place]:
            return Reserved(holder.memory, (place, 1), shared)
        return Reserved(holder.memory, (place, 0), shared)

    # --- combining ----------------------------------------------------------------------------------------------------

    def _combiner(
        self, terms: Terms, singles: Mapping[str, SingleChains], limited: list[Limit], goal: Goal | None
    ) -> BranchedCombiner:
        chains = {v: single.chains for v, single in singles.items()}
        weights = terms.matrix()
        components = self.search.path.components
        totals = {name.level: i for name, i in terms.criteria.items() if isinstance(name, Total)}
        compared = [weights[:, i] for name, i in terms.criteria.items() if not isinstance(name, (Total, Reserved))]
        compared += [weights[:, i] for level, i in totals.items() if level not in self.search.memories]
        running = running_sums(terms, self.search.memories)
        compared += [weights @ column for column in running.T]
        caps = np.array([components[level].size for level in totals])
        capped = weights[:, list(totals.values())]

        def complete(state: Partial) -> tuple[Ints, Floats]:
            allowed = np.flatnonzero(self._allowed(chains, limited, state))
            state = state.take(allowed)
            values = state.products @ weights
            return allowed, np.column_stack([self._finished_costs(terms, values, state), values @ running])

        bound = self._bound(terms, goal) if goal is not None else None
        return BranchedCombiner(
            terms,
            singles,
            limited,
            np.column_stack(compared),
            capped,
            caps,
            self.search.count,
            complete,
            bound,
            self._meeting,
        )

    @property
    def _meeting(self) -> list[tuple[int, ...]]:
        """Variables that meet in a rank of a tensor, by number."""
        accesses = self.search.path.einsum.accesses.values()
        ranks = {tuple(rank.coefficients): None for access in accesses for rank in access.ranks.values()}
        return [tuple(self.variables.index(v) for v in rank) for rank in ranks if len(rank) > 1]

    def _goal(self) -> Goal | None:
        """The cutoff of this nest. None: nothing to beat."""
        nest = self.search.nest
        holders = [h for _, h in self.skeleton.everywhere if self.skeleton.is_exchanged(h)]
        return self.search.goal(f"{nest.names[t]}:{nest.path.components[m].name}" for m, t in holders)

    def _bound(self, terms: Terms, goal: Goal) -> CostBound:
        """Lower bounds on the costs of rows, with a cutoff to beat."""
        search = self.search
        columns = Columns(search.busy, 0, ())
        weights = np.zeros((len(terms.weights), columns.count))
        weights[:, ENERGY] = terms.matrix()[:, terms.criterion("energy")]
        for i in range(len(search.busy)):
            if ("busy", i) in terms.criteria:
                weights[:, BUSY + i] = terms.matrix()[:, terms.criteria["busy", i]]
        watts, problem = search.power(()), search.nest.problem
        return CostBound(goal, weights, terms.parts(), lambda criteria: finish(problem, columns, criteria, watts))

    def _allowed(self, chains: Mapping[str, Chains], limited: list[Limit], state: Partial) -> np.ndarray:
        """Rows that meet the constraints that only whole rows can be tested for."""
        keep = np.ones(len(state), np.bool_)
        for limit, values in zip(limited, state.limited.T, strict=True):
            keep &= limit.met(values)
        fused = self._fused(chains, state)
        if (most := self.search.limits.loops) is not None:
            exchanging = [slot.gap <= self._innermost for _, slot in self.fused]
            keep &= fused[:, exchanging].sum(axis=1) <= most
        for gap in range(1, self.last + 1):
            keep &= ~self._sunk(gap, fused)
        if self.search.usages is not None and len(self.search.usages) != 1:
            dimensions = [d for _, d in self.skeleton.dimensions]
            options, inverse = _distinct(state.limited[:, : len(dimensions)])
            good = [usage(dimensions, tuple(row)) in self.search.usages for row in options.tolist()]
            keep &= np.array(good, np.bool_)[inverse]
        return keep

    @property
    def _innermost(self) -> int:
        """The innermost node that is exchanged: loops above it are shared with other Einsums."""
        return self.last

    def _sunk(self, gap: int, fused: np.ndarray) -> np.ndarray:
        """Rows in which rule 1 moves the node above a gap to below that gap's Temporal loops.

        It does not move below a loop that might then meet another one over its variable or move above Spatial ones.
        """
        holder = self.skeleton.holders[gap - 1]
        if not self.skeleton.sinks_among_fused(gap - 1):
            return np.zeros(len(fused), np.bool_)
        full = self.search.nest.full[holder.tensor]
        looped, stays = np.zeros(len(fused), np.bool_), np.zeros(len(fused), np.bool_)
        for i, (v, slot) in enumerate(self.fused):
            if slot.gap == gap - 1 and slot.dimension is not None:
                stays |= fused[:, i]
            if slot == Slot(gap):
                outer = [fused[:, j] for j, (other, _) in enumerate(self.fused[:i]) if other == v]
                looped |= fused[:, i]
                stays |= fused[:, i] & (np.logical_or.reduce(outer) if outer and v in full else v not in full)
        return looped & ~stays

    def _fused(self, chains: Mapping[str, Chains], state: Partial) -> np.ndarray:
        """Rows × slots for fused loops: whether there is one."""
        columns = [chains[v].fused_loops[state.choice[:, i]] for i, v in enumerate(self.variables)]
        return np.concatenate([np.zeros((len(state), 0), np.bool_), *columns], axis=1)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _finished(self, terms: Terms, chains: Mapping[str, Chains], state: Partial) -> Iterator[TablePiece]:
        values = state.products @ terms.matrix()
        energy, latency = self._energy_latency(terms, values, state)
        fused = self._fused(chains, state)
        columns = [chains[v].fused_tiles[state.choice[:, i]] for i, v in enumerate(self.variables)]
        tiles = np.concatenate([np.zeros((len(state), 0), np.int64), *columns], axis=1)
        patterns, inverse = _distinct(fused.astype(np.int64))
        for number, pattern in enumerate(patterns.tolist()):
            alike = np.flatnonzero(inverse == number)
            chosen = [place for place, present in zip(self.fused, pattern, strict=True) if present]
            loops = fused_loops(self.skeleton, chosen)
            form, bits = self._form(terms, values[alike], loops)
            order = [self.fused.index((loop.variable, loops[loop])) for loop in form.loops]
            rows = Rows(
                tiles[alike][:, order], energy[alike], latency[alike], bits, np.zeros(len(alike), np.int64),
                np.arange(len(alike)), np.tile(self.persistent, (len(alike), 1)),
            )  # fmt: skip
            best = pareto_rows(group_numbers(rows.tiles), rows.criteria())
            rows = rows.take(best)
            rows.row[:] = np.arange(len(best))
            choice = state.choice[alike[best]]
            chain_tiles = {v: chains[v].tiles[choice[:, i]] for i, v in enumerate(self.variables)}
            origin = GeneralOrigin(self.skeleton, self.slots, self.passed, chain_tiles)
            yield TablePiece(form, rows, [origin], len(rows))

    def _finished_costs(self, terms: Terms, values: Floats, state: Partial) -> Floats:
        """Criteria of complete rows, besides space."""
        return np.column_stack(self._energy_latency(terms, values, state))

    def _energy_latency(self, terms: Terms, values: Floats, state: Partial) -> tuple[Floats, Floats]:
        columns = Columns(self.search.busy, 0, ())
        return finish(self.search.nest.problem, columns, self._criteria(terms, values, columns), self._watts(state))

    def _criteria(self, terms: Terms, values: Floats, columns: Columns) -> Floats:
        """Energy and busy times of each row."""
        criteria = np.zeros((len(values), columns.count))
        criteria[:, ENERGY] = values[:, terms.criterion("energy")]
        for i in range(len(self.search.busy)):
            if ("busy", i) in terms.criteria:
                criteria[:, BUSY + i] = values[:, terms.criteria["busy", i]]
        return criteria

    def _watts(self, state: Partial) -> Floats:
        """Leakage of each row."""
        gated = np.array([d.power_gateable for _, d in self.skeleton.dimensions], np.bool_)
        used = np.where(gated, state.limited[:, : len(gated)], 1)
        options, inverse = _distinct(used) if gated.any() else (used[:1], np.zeros(len(used), np.int64))
        watts: Floats = np.array([self.search.power(tuple(row)) for row in options.tolist()])
        return watts[inverse]

    def _form(self, terms: Terms, values: Floats, loops: Mapping[FusedLoop, Slot]) -> tuple[Compatibility, Floats]:
        nest, memories = self.search.nest, self.search.memories
        held, chain = self._held(loops)
        depth: dict[Boundary, int] = {(-1, 0): 0}
        for place, above in enumerate(held):
            depth[place, 0], depth[place, 1] = chain.index(above.loops), chain.index(above.space)
        bits = np.zeros((len(values), len(memories), len(chain)))
        for name, i in reserved(terms):
            if not name.apart or depth[name.at[0], 0] == len(chain) - 1:
                bits[:, memories.index(name.level), depth[name.at]] += values[:, i]
        between = [above for above in held if above.loops != chain[-1] and not self.skeleton.is_backing(above.holder)]
        others = [above for above in between if nest.is_shared(above.holder.tensor)]
        everywhere = [*(Above(holder, 0, 0) for holder in self.skeleton.top), *held]
        exchanged = [above for above in everywhere if self.skeleton.is_exchanged(above.holder)]
        return fused_form(nest, tuple(loops), chain, exchanged, others), bits

    def _held(self, loops: Mapping[FusedLoop, Slot]) -> tuple[list[Above], tuple[LoopSet, ...]]:
        """Storage nodes between fused loops, and the sets of loops that fusion levels lie between."""
        slots, held = loops.values(), []
        for place, holder in enumerate(self.skeleton.holders[: self.last + 1]):
            above = _loop_set(slot.gap <= place for slot in slots)
            passed = self.passed[place]
            sinks = _loop_set(slot == Slot(place + 1) and loop.variable in passed for loop, slot in loops.items())
            held.append(Above(holder, above, above | sinks))
        full = [_loop_set(loop.variable in variables for loop in loops) for variables in self.search.nest.full]
        # A gap's Spatial loops stand below its Temporal ones, dimension by dimension: that order is the same for all Einsums.
        order = [(slot.gap, -1 if slot.dimension is None else slot.dimension) for slot in slots]
        parted = [_loop_set(place <= last for place in order) for last in order]
        return held, zone_chain(held, full, parted)


def _loop_set(chosen: Iterable[bool]) -> LoopSet:
    return sum(1 << i for i, is_chosen in enumerate(chosen) if is_chosen)


def _distinct(rows: Ints) -> tuple[Ints, Ints]:
    """The distinct rows, of numbers ≥ 0, and for each row the number of its own."""
    _, first, inverse = np.unique(group_numbers(rows), return_index=True, return_inverse=True)
    return rows[first], inverse
