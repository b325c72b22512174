"""All Pareto-optimal pmappings of one Einsum: every compute, placement and spatial choice, merged into one table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from fusiest.base.collector import collector_paused
from fusiest.base.interrupt import check, deferred
from fusiest.base.objective import Objective
from fusiest.model import leak_power
from fusiest.pmapping.chains.chain_search import GeneralSearch
from fusiest.pmapping.chains.copy_einsum import CopySearch, copy_placements
from fusiest.pmapping.chains.tied_variables import Usages, asked_usages
from fusiest.pmapping.fused.results import searched
from fusiest.pmapping.lattice.applies import beside, constrained_variables, free_pairs, is_plain, near_pairs, top_fits
from fusiest.pmapping.lattice.move_costs import Leakage, finish
from fusiest.pmapping.lattice.remaining import Cutoff
from fusiest.pmapping.lattice.tile_problem import Problem, coarsened, make_problem
from fusiest.pmapping.lattice.tile_search import Lattice, LatticeSpace, TooHard
from fusiest.pmapping.nest.alignment import agreed_loops, common_loops
from fusiest.pmapping.nest.factors import divisors
from fusiest.pmapping.nest.memory_sizes import ample_memories, sized_paths, with_room_for_copies
from fusiest.pmapping.nest.no_fusion_needed import exchange_memories, roomy_memories
from fusiest.pmapping.nest.rules import HeldTensor, Nest, Rules
from fusiest.pmapping.nest.shared_memories import can_fuse, meeting_memories
from fusiest.pmapping.nest.spatial import best_usages, fanouts
from fusiest.pmapping.placements.placement import Placement, graph_of, listed, placements
from fusiest.pmapping.reuse.throughputs import with_throughputs
from fusiest.pmapping.table import Compatibility, FusedLimits, Origin, Rows, Table, TablePiece, group_sizes, merge_rows
from fusiest.spec import Path, Spec, bind_all, memory_names

NOT_ON_PATH = -1
_FIRST_LOOK = 2_000
_ROWS_OF_A_PLACEMENT = 3
"""Rows of a state per placement, in a quick look: it takes as many placements as there is room for."""
_HASTY_PLACEMENTS = 2
_SHAPES_OF_A_ROW, _USUAL_PLACEMENTS = 64, 64
"""Tile shapes per row of a state in a quick look; with more placements than usual, proportionally fewer."""
_WORTH_PARTS = 4
"""Rows of a search, per tile shape and placement, from which on it is searched by parts that share nothing."""


@dataclass(frozen=True)
class Asked:
    """A question to the search for an Einsum's pmappings, and how hard to search."""

    limits: FusedLimits = field(default_factory=FusedLimits)
    imperfect: bool = False
    """Whether to search tiles that do not divide, too."""
    usage: bool = False
    """Whether space counts even where Einsums do not meet on chip."""
    finished: bool = True
    """Whether Einsums use only tensors that are finished (the exchange rule)."""
    counted: bool = False
    """Whether the table counts the candidates of each group."""
    general: bool = False
    """Whether to use the general search even where the fast one applies."""
    rules: Rules = field(default_factory=Rules)
    cutoff: Cutoff | None = None
    """Energy and latency of known pmappings: only pmappings that beat each of them in one of both are kept."""
    beam: int | None = None
    """Number of rows that each state keeps in a quick look. Its results are valid but may miss the optimum. None:
    exact."""
    hasty: bool = False
    """Whether a quick look takes few placements, and only the most promising order of storage nodes."""
    patience: float = math.inf
    """Number of rows after which the search raises `TooHard`; the caller may retry with a cutoff."""
    apart: bool = False
    """Whether to search only pmappings that share nothing on chip: all shared tensors are in the outermost memory."""
    needed: bool = False
    """Whether to search only pmappings that some best mapping of the workload needs, not all ways to meet other
    Einsums."""
    unlimited: bool = False
    """As if all memories had room: a bound, not mappings."""
    objective: Objective | None = None
    """The objective of an Einsum that is alone in its workload. The search may keep only its best pmappings, if that is
    quicker."""
    rates: frozenset[str] = frozenset()
    """Components whose throughputs are left open (see `symbolic_throughput`). Raises `TooHard` where only the general
    search applies."""

    def is_roomy(self, spec: Spec) -> bool:
        """Whether no fused loops are needed, as there is room for all exchanged tensors (proof 6c)."""
        return self.roomy(spec) is not None

    def ample(self, spec: Spec) -> frozenset[str]:
        """Memories that are never full, so that their space is no criterion."""
        if self.usage:
            return frozenset()
        if self.unlimited:
            return frozenset(memory_names(spec.require_arch()))
        return ample_memories(spec) | (self.roomy(spec) or frozenset())

    def roomy(self, spec: Spec) -> frozenset[str] | None:
        """Memories in which Einsums exchange whole tensors; None if fused loops are needed (proof 6c)."""
        if not self.needed or self.usage:
            return None
        if self.unlimited:
            memories = exchange_memories(spec)
            return None if memories is None else frozenset(memories)
        return roomy_memories(spec)


@deferred()
@collector_paused()
def explore(spec: Spec, einsum: str, asked: Asked) -> Table:
    """Find all Pareto-optimal pmappings of an Einsum."""
    pieces: dict[Compatibility, list[Rows]] = {}
    pruned: set[Compatibility] = set()
    origins: list[Origin] = []
    explored = 0
    for path in paths(spec, einsum, asked.ample(spec)):
        for piece in explore_path(spec, path, asked):
            check()
            explored += piece.explored
            rows = piece.rows
            if asked.cutoff is not None:
                rows = rows.take(np.flatnonzero(asked.cutoff.keeps(rows.energy, rows.latency)))
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
    candidates = {c: group_sizes(parts, groups[c]) for c, parts in pieces.items()} if asked.counted else {}
    memories = meeting_memories(spec, asked.usage, asked.ample(spec))
    return Table(einsum, memories, groups, origins, explored, candidates)


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


def explore_path(spec: Spec, path: Path, asked: Asked) -> Iterator[TablePiece]:
    """Find the pieces of the table for one compute."""
    names = [c.name for c in path.components]
    memories = meeting_memories(spec, asked.usage, asked.ample(spec))
    if asked.is_roomy(spec):
        asked = replace(asked, limits=replace(asked.limits, loops=0))
    tracked = tuple(names.index(m) if m in names else NOT_ON_PATH for m in memories)
    problem = make_problem(path, *constrained_variables(spec, path))
    shared = frozenset(t for t in path.einsum.accesses if t in spec.info.shared)
    together, leaks = beside(spec, path), leakage(spec, problem)
    if path.einsum.is_copy_operation:
        if asked.rates:
            raise TooHard
        nest = Nest(problem, shared, {}, asked.rules, frozenset(), together)
        copies = CopySearch(nest, tracked, asked.limits, asked.imperfect, leaks)
        for placement in copy_placements(path, placements(spec, path)):
            yield from copies.pieces(placement)
        return
    agreed = agreed_loops(spec, path.einsum.name, asked.finished)
    possible = [placement for placement in _looked_at(spec, path, asked) if top_fits(path, placement)]
    chains = (asked.imperfect and asked.beam is None) or asked.general
    chains = chains or (asked.imperfect and not _can_use(problem, asked_usages(problem, True)))
    free = free_pairs(path, itertools.chain.from_iterable(enumerate(p.sets) for p in possible), together)
    plain = [placement for placement in possible if not chains and is_plain(problem, placement, free)]
    nest = Nest(problem, shared, agreed, asked.rules, near_pairs(path, free), together)
    if asked.rates and (
        len(plain) < len(possible) or asked.is_roomy(spec) or not can_fuse(spec) or asked.rates - {*names}
    ):
        raise TooHard
    if len(plain) < len(possible) and (asked.beam is None or not plain):
        alone = not tracked and not asked.usage and (not can_fuse(spec) or asked.is_roomy(spec)) and not asked.counted
        fallback = GeneralSearch(
            nest, tracked, asked.limits, asked.imperfect, leaks, asked.cutoff, alone, asked.objective
        )
        if chains and alone:
            divided = [placement for placement in possible if is_plain(problem, placement, free)]
            for piece in _first_look(fallback, possible, divided):
                fallback.learn(piece.compatibility, piece.rows)
                yield piece
        is_look = asked.imperfect and asked.beam is not None
        for placement in possible:
            if placement not in plain:
                yield from fallback.look(placement) if is_look else fallback.pieces(placement)
    if plain:
        usages = asked_usages(problem, asked.imperfect)
        # Fused loops are split by all divisors; where there are none, a quick look does with fewer.
        if asked.beam is not None and (asked.apart or not can_fuse(spec)):
            most = _SHAPES_OF_A_ROW * asked.beam * _USUAL_PLACEMENTS // max(len(plain), _USUAL_PLACEMENTS)
            coarse = coarsened(problem, most)
            nest = replace(nest, problem=coarse) if _can_use(coarse, usages) else nest
        if asked.needed and not asked.is_roomy(spec):
            nest = replace(nest, common=common_loops(spec, path.einsum.name))
        space = replace(lattice_space(nest, plain, usages, frozenset(tracked), leaks), rates=asked.rates)
        if (roomy := asked.roomy(spec)) is not None:
            space = replace(space, lifted=_lifted(roomy, nest))
        for search in _runs(space, asked, not asked.usage and not can_fuse(spec), not tracked and asked.is_roomy(spec)):
            yield from searched(search, tracked, asked.limits, asked.counted)


def _looked_at(spec: Spec, path: Path, asked: Asked) -> Iterable[Placement]:
    """The placements to search: all of them; few in a quick look."""
    graph = graph_of(spec, path)
    if asked.apart and graph is not None:
        graph = graph.where(path.memories[0], frozenset(t for t in path.einsum.accesses if t in spec.info.shared))
    if asked.beam is not None and graph is not None:
        return listed(graph.few(_HASTY_PLACEMENTS if asked.hasty else asked.beam // _ROWS_OF_A_PLACEMENT))
    return placements(spec, path) if not asked.apart else listed(graph)


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


def _runs(space: LatticeSpace, asked: Asked, alone: bool, roomy: bool) -> Iterator[Lattice]:
    """Run the searches over tile shapes. `alone`: the Einsum shares nothing on chip.

    `roomy`: there is room for all that it shares, so only energy and latency matter, given where shared tensors are
    held. If the search takes long, each way to hold them is then searched as if the Einsum were alone.
    """
    if alone and asked.beam is None:
        yield from _explore_alone(space)
        return
    parted = roomy and asked.beam is None and asked.cutoff is None and not asked.counted
    many = _WORTH_PARTS * space.nest.problem.shapes * len(space.placements)
    patience = min(asked.patience, many) if parted else asked.patience
    search = Lattice(space, asked.cutoff, asked.beam, patience, asked.hasty)
    try:
        search.run()
    except TooHard:
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
