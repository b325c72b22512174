"""All Pareto-optimal pmappings of one Einsum: every compute, placement and spatial choice, merged into one table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from fusiest.base.collector import collector_paused
from fusiest.base.interrupt import check, deferred
from fusiest.model import leak_power
from fusiest.pmapping.chains.chain_search import GeneralSearch
from fusiest.pmapping.chains.copy_einsum import CopySearch, copy_placements
from fusiest.pmapping.chains.tied_variables import Usages, asked_usages
from fusiest.pmapping.fused.results import searched
from fusiest.pmapping.lattice.applies import beside, constrained_variables, free_pairs, is_plain, near_pairs, top_fits
from fusiest.pmapping.lattice.move_costs import Leakage, finish
from fusiest.pmapping.lattice.remaining import Cutoff
from fusiest.pmapping.lattice.tile_problem import Problem, coarsened, make_problem
from fusiest.pmapping.lattice.tile_search import Lattice, LatticeSpace, RowLimitReached
from fusiest.pmapping.nest.alignment import agreed_loops, common_loops
from fusiest.pmapping.nest.factors import divisors
from fusiest.pmapping.nest.memory_sizes import sized_paths, with_room_for_copies
from fusiest.pmapping.nest.rules import HeldTensor, Nest, Rules
from fusiest.pmapping.nest.shared_memories import can_fuse, meeting_memories
from fusiest.pmapping.nest.spatial import best_usages, fanouts
from fusiest.pmapping.pareto import Floats
from fusiest.pmapping.placements.placement import Placement, graph_of, listed, placements
from fusiest.pmapping.question import ALL, EXACT, Effort, Question
from fusiest.pmapping.reuse.throughputs import with_throughputs
from fusiest.pmapping.table import Compatibility, Origin, Rows, Table, TablePiece, group_sizes, merge_rows
from fusiest.spec import Path, Spec, bind_all

NOT_ON_PATH = -1
_FIRST_LOOK = 2_000
_ROWS_OF_A_PLACEMENT = 3
"""Rows of a state per placement, in a quick look: it takes as many placements as there is room for."""
_HASTY_PLACEMENTS = 2
_SHAPES_OF_A_ROW, _USUAL_PLACEMENTS = 64, 64
"""Tile shapes per row of a state in a quick look; with more placements than usual, proportionally fewer."""
_WORTH_PARTS = 4
"""Rows of a search, per tile shape and placement, from which on it is searched by parts that share nothing."""


def explore(spec: Spec, einsum: str, question: Question = ALL, effort: Effort = EXACT) -> Table:
    """Find all Pareto-optimal pmappings of an Einsum."""
    return EinsumSearch(spec, einsum, question, effort.rules).table(effort)


class EinsumSearch:
    """The search for one Einsum's pmappings. It may run several times, with other cutoffs."""

    def __init__(self, spec: Spec, einsum: str, question: Question, rules: Rules = EXACT.rules) -> None:
        self.spec, self.einsum, self.question = spec, einsum, question
        self._whole: Table | None = None
        self.paths = [PathSearch(spec, path, question, rules) for path in paths(spec, einsum, question.ample(spec))]

    @property
    def has_lattices(self) -> bool:
        """Whether all pmappings are found by tile shapes: then a cutoff saves what it leaves out."""
        return all(path.has_lattice for path in self.paths)

    @property
    def nearest(self) -> Floats:
        """Per line of the cutoff, the least ratio to it of what the last run has left out: infinite if that is nothing."""
        result: Floats = np.min([path.nearest for path in self.paths], axis=0)
        return result

    def forget(self) -> None:
        """Drop what is large and quickly found again."""
        for path in self.paths:
            path.forget()

    def whole(self) -> Table:
        """All Pareto-optimal pmappings, explored once."""
        if self._whole is None:
            self._whole = self.table()
        return self._whole

    @deferred()
    @collector_paused()
    def table(self, effort: Effort = EXACT) -> Table:
        """All Pareto-optimal pmappings that beat the cutoff, if there is one; in a quick look, some."""
        spec, question = self.spec, self.question
        pieces: dict[Compatibility, list[Rows]] = {}
        pruned: set[Compatibility] = set()
        origins: list[Origin] = []
        explored = 0
        for piece in itertools.chain.from_iterable(path.pieces(effort) for path in self.paths):
            check()
            explored += piece.explored
            rows = piece.rows
            if effort.cutoff is not None:
                rows = rows.take(np.flatnonzero(effort.cutoff.keeps(rows.energy, rows.latency)))
            if not len(rows):
                continue
            rows = replace(rows, origin=rows.origin + len(origins))
            origins += piece.origins
            pieces.setdefault(piece.compatibility, []).append(rows)
            if piece.is_pruned:
                pruned.add(piece.compatibility)
        groups = {
            compatibility: parts[0] if len(parts) == 1 and compatibility in pruned else merge_rows(parts)
            for compatibility, parts in pieces.items()
        }
        candidates = {c: group_sizes(parts, groups[c]) for c, parts in pieces.items()} if question.counted else {}
        memories = meeting_memories(spec, question.usage, question.ample(spec))
        lines = self.has_lattices and effort.cutoff is not None and len(effort.cutoff.lines) > 0
        is_whole = bool(np.isinf(self.nearest).all()) if lines else effort.cutoff is None
        return Table(self.einsum, memories, groups, origins, explored, candidates, is_whole)


def paths(spec: Spec, einsum: str, ample: frozenset[str] = frozenset()) -> list[Path]:
    """List the computes that can run an Einsum, each with the components above it. `ample` memories are unlimited."""
    met = meeting_memories(spec, False, ample)
    running = (path for path in sized_paths(spec, einsum, ample) if path.runs)
    return [with_throughputs(with_room_for_copies(spec, path, met)) for path in running]


def weight(spec: Spec, einsum: str) -> int:
    """Estimate the effort of exploring an Einsum: placements times tile shapes."""
    shapes = math.prod(len(divisors(bound)) for bound in spec.info.einsums[einsum].bounds.values())
    graphs = (graph_of(spec, path) for path in paths(spec, einsum))
    return shapes * sum(graph.count for graph in graphs if graph is not None)


class PathSearch:
    """The search for an Einsum's pmappings on one compute."""

    def __init__(self, spec: Spec, path: Path, question: Question, rules: Rules = EXACT.rules) -> None:
        self.spec, self.path = spec, path
        if question.is_roomy(spec):
            question = replace(question, limits=replace(question.limits, loops=0))
        self.question, self.rules = question, rules
        names = [c.name for c in path.components]
        memories = meeting_memories(spec, question.usage, question.ample(spec))
        self.tracked = tuple(names.index(m) if m in names else NOT_ON_PATH for m in memories)
        self.problem = make_problem(path, *constrained_variables(spec, path))
        self.shared = frozenset(t for t in path.einsum.accesses if t in spec.info.shared)
        self.together, self.leaks = beside(spec, path), leakage(spec, self.problem)
        self._lattice: Lattice | None = None

    def pieces(self, effort: Effort = EXACT) -> Iterator[TablePiece]:
        """Find the pieces of the table."""
        if self.path.einsum.is_copy_operation:
            yield from self._copies()
            return
        if effort.cutoff is not None and len(effort.cutoff.lines) and self.has_lattice:
            lattice = self._over(effort.cutoff)
            lattice.run()
            yield from self._pieces_of(lattice)
            return
        possible = self._possible(effort)
        plain, nest = self._plain(possible, effort)
        self._check_rates(len(plain) == len(possible))
        if len(plain) < len(possible) and (effort.beam is None or not plain):
            yield from self._chains(effort, possible, plain, nest)
        if plain:
            for search in _runs(self._space(plain, nest, effort), effort, self._is_lone, self._is_roomy_only):
                yield from self._pieces_of(search)

    @property
    def nearest(self) -> Floats:
        """Per line of the cutoff, the least ratio to it of what the last run over tile shapes has left out."""
        assert self._lattice is not None
        return self._lattice.nearest

    def forget(self) -> None:
        """Drop rows and costs-to-go of the last run."""
        if self._lattice is not None:
            self._lattice = self._lattice.forgotten()

    # --- perfect tiles ------------------------------------------------------------------------------------------------

    @cached_property
    def has_lattice(self) -> bool:
        """Whether all pmappings are found by tile shapes."""
        possible, _ = self._everything
        plain, _ = self._plain(possible, EXACT)
        return not self.path.einsum.is_copy_operation and len(plain) == len(possible)

    @cached_property
    def _everything(self) -> tuple[list[Placement], Nest]:
        possible = self._possible(EXACT)
        return possible, self._plain(possible, EXACT)[1]

    def _over(self, cutoff: Cutoff) -> Lattice:
        """The lattice of all placements with another cutoff, to be run."""
        if self._lattice is None:
            self._lattice = Lattice(self._space(*self._everything, EXACT), cutoff)
        self._lattice = self._lattice.again(cutoff)
        return self._lattice

    def _pieces_of(self, search: Lattice) -> Iterator[TablePiece]:
        yield from searched(search, self.tracked, self.question.limits, self.question.counted)

    def _space(self, plain: list[Placement], nest: Nest, effort: Effort) -> LatticeSpace:
        """The mapspace of the search over tile shapes."""
        spec, question = self.spec, self.question
        usages = asked_usages(self.problem, question.imperfect)
        # Fused loops are split by all divisors; where there are none, a quick look does with fewer.
        if effort.beam is not None and (question.apart or not can_fuse(spec)):
            most = _SHAPES_OF_A_ROW * effort.beam * _USUAL_PLACEMENTS // max(len(plain), _USUAL_PLACEMENTS)
            coarse = coarsened(self.problem, most)
            nest = replace(nest, problem=coarse) if _can_use(coarse, usages) else nest
        if question.needed and not question.is_roomy(spec):
            nest = replace(nest, common=common_loops(spec, self.path.einsum.name))
        space = replace(lattice_space(nest, plain, usages, frozenset(self.tracked), self.leaks), rates=question.rates)
        roomy = question.roomy(spec)
        return space if roomy is None else replace(space, lifted=_lifted(roomy, nest))

    @property
    def _is_lone(self) -> bool:
        """Whether the Einsum shares nothing on chip."""
        return not self.question.usage and not can_fuse(self.spec)

    @property
    def _is_roomy_only(self) -> bool:
        """Whether there is room for all that the Einsum shares, and nothing is counted."""
        return not self.tracked and self.question.is_roomy(self.spec) and not self.question.counted

    # --- placements ---------------------------------------------------------------------------------------------------

    def _possible(self, effort: Effort) -> list[Placement]:
        looked_at = _looked_at(self.spec, self.path, self.question, effort)
        return [placement for placement in looked_at if top_fits(self.path, placement)]

    def _plain(self, possible: list[Placement], effort: Effort) -> tuple[list[Placement], Nest]:
        """The placements that are searched by tile shapes, and the rules for nests."""
        path, problem = self.path, self.problem
        chains = self._has_chains(effort)
        free = free_pairs(path, itertools.chain.from_iterable(enumerate(p.sets) for p in possible), self.together)
        plain = [placement for placement in possible if not chains and is_plain(problem, placement, free)]
        agreed = agreed_loops(self.spec, path.einsum.name, self.question.finished)
        return plain, Nest(problem, self.shared, agreed, self.rules, near_pairs(path, free), self.together)

    def _has_chains(self, effort: Effort) -> bool:
        """Whether everything is searched by chains of tiles."""
        imperfect = self.question.imperfect
        if effort.general or (imperfect and effort.beam is None):
            return True
        return imperfect and not _can_use(self.problem, asked_usages(self.problem, True))

    def _check_rates(self, all_plain: bool) -> None:
        """Raise `RowLimitReached` where throughputs cannot be left open."""
        rates, spec = self.question.rates, self.spec
        names = {c.name for c in self.path.components}
        if rates and (not all_plain or self.question.is_roomy(spec) or not can_fuse(spec) or rates - names):
            raise RowLimitReached

    # --- all other nests ----------------------------------------------------------------------------------------------

    def _copies(self) -> Iterator[TablePiece]:
        if self.question.rates:
            raise RowLimitReached
        nest = Nest(self.problem, self.shared, {}, self.rules, frozenset(), self.together)
        copies = CopySearch(nest, self.tracked, self.question.limits, self.question.imperfect, self.leaks)
        for placement in copy_placements(self.path, placements(self.spec, self.path)):
            yield from copies.pieces(placement)

    def _chains(
        self, effort: Effort, possible: list[Placement], plain: list[Placement], nest: Nest
    ) -> Iterator[TablePiece]:
        """Pieces that chains of tiles find."""
        question = self.question
        shares = self.tracked or question.usage or question.counted
        alone = not shares and (self._is_lone or question.is_roomy(self.spec))
        fallback = GeneralSearch(
            nest,
            self.tracked,
            question.limits,
            question.imperfect,
            self.leaks,
            effort.cutoff,
            alone,
            question.objective,
        )
        if self._has_chains(effort) and alone:
            free = free_pairs(
                self.path, itertools.chain.from_iterable(enumerate(p.sets) for p in possible), self.together
            )
            divided = [placement for placement in possible if is_plain(self.problem, placement, free)]
            for piece in _first_look(fallback, possible, divided):
                fallback.learn(piece.compatibility, piece.rows)
                yield piece
        is_look = question.imperfect and effort.beam is not None
        for placement in possible:
            if placement not in plain:
                yield from fallback.look(placement) if is_look else fallback.pieces(placement)


def _looked_at(spec: Spec, path: Path, question: Question, effort: Effort) -> Iterable[Placement]:
    """The placements to search: all of them; few in a quick look."""
    graph = graph_of(spec, path)
    if question.apart and graph is not None:
        graph = graph.where(path.memories[0], frozenset(t for t in path.einsum.accesses if t in spec.info.shared))
    if effort.beam is not None and graph is not None:
        return listed(graph.few(_HASTY_PLACEMENTS if effort.hasty else effort.beam // _ROWS_OF_A_PLACEMENT))
    return placements(spec, path) if not question.apart else listed(graph)


def _first_look(search: GeneralSearch, possible: list[Placement], plain: list[Placement]) -> Iterator[TablePiece]:
    """Find some pmappings as cutoffs for the exact search.

    They have perfect tiles, unless `min_usage` then asks for less than with imperfect ones; else a quick look finds
    them.
    """
    if plain and _can_use(search.nest.problem, search.usages):
        space = lattice_space(search.nest, plain, search.usages, frozenset(), search.leakage)
        for look in _explore_alone(space, search.known):
            yield from searched(look, (), replace(search.limits, loops=0), False)
    elif search.imperfect:
        for placement in possible:
            yield from search.look(placement)


def _runs(space: LatticeSpace, effort: Effort, alone: bool, roomy: bool) -> Iterator[Lattice]:
    """Run the searches over tile shapes. `alone`: the Einsum shares nothing on chip.

    `roomy`: there is room for all that it shares, so only energy and latency matter, given where shared tensors are
    held; and nothing is counted. If the search takes long, each way to hold them is then searched as if the Einsum were alone.
    """
    if alone and effort.beam is None:
        yield from _explore_alone(space)
        return
    parted = roomy and effort.beam is None and effort.cutoff is None
    many = _WORTH_PARTS * space.nest.problem.shapes * len(space.placements)
    row_limit = min(effort.row_limit, many) if parted else effort.row_limit
    search = Lattice(space, effort.cutoff, effort.beam, row_limit, effort.hasty)
    try:
        search.run()
    except RowLimitReached:
        if not parted:
            raise
    else:
        yield search
        return
    ways: dict[object, list[Placement]] = {}
    for placement in space.placements:
        way = tuple(placement.holders(t, space.nest.path)[0] for t in sorted(space.nest.shared))
        ways.setdefault(way, []).append(placement)
    for same_way in ways.values():
        yield from _explore_alone(replace(space, placements=same_way))


def _explore_alone(space: LatticeSpace, known: Cutoff | None = None) -> Iterator[Lattice]:
    """Search where only energy and latency matter: known pmappings then bound the search.

    A quick look finds good pmappings; an exact search keeps only those that beat them.
    """
    first = Lattice(space, known, _FIRST_LOOK)
    first.run()
    yield first
    cutoff = known or Cutoff(np.empty((0, 2)))
    for key, layer in first.finals:
        criteria = first.layers[layer].criteria
        cutoff = cutoff.with_points(*finish(first.problem, first.columns, criteria, first.watts(key.used)))
    exact = Lattice(space, cutoff)
    exact.run()
    yield exact


def lattice_space(
    nest: Nest, plain: list[Placement], usages: Usages, tracked: frozenset[int], leakage: Leakage
) -> LatticeSpace:
    """Make the mapspace of the search over tile shapes. `usages`: as `asked_usages` gives them."""
    return LatticeSpace(nest, plain, fanouts(nest.problem, usages), usages, tracked, leakage)


def _can_use(problem: Problem, usages: Usages) -> bool:
    """Whether perfect tiles of these sizes use fanouts as far as `min_usage` asks of all tiles."""
    return usages is None or not usages.isdisjoint(best_usages(problem) or ())


def _lifted(roomy: frozenset[str], nest: Nest) -> frozenset[HeldTensor]:
    """Storage nodes of exchanged tensors in memories with room: they stand above all loops."""
    p = nest.problem
    memories = [i for i, c in enumerate(p.path.components) if c.name in roomy]
    exchanged = (t for t, tensor in enumerate(p.tensors) if nest.is_shared(t) and tensor.name not in p.info.persistent)
    return frozenset(HeldTensor(m, t) for t in exchanged for m in memories)


def leakage(spec: Spec, problem: Problem) -> Leakage:
    """Leakage power of the whole architecture, as a function of the instances in use of gated dimensions."""
    bound = bind_all(spec, problem.info)
    compute = problem.path.compute.name
    return lambda used: sum(leak_power(spec, compute, bound, used).values())
