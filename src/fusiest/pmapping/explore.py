"""All Pareto-optimal pmappings of one Einsum: every compute, placement and spatial choice, merged into one table."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np

from fusiest.interrupt import check, deferred
from fusiest.model.leakage import bind_all, leak_power
from fusiest.model.visits import footprint
from fusiest.pmapping.agreed import agreed_loops
from fusiest.pmapping.collector import collector_paused
from fusiest.pmapping.copy import copy_pmappings
from fusiest.pmapping.costs import Columns, busy_columns, finish, limited_memories
from fusiest.pmapping.fused import FusedPart, persistent_columns
from fusiest.pmapping.general import GeneralSearch
from fusiest.pmapping.layers import Holder, Layer
from fusiest.pmapping.nest import Nest, Rules
from fusiest.pmapping.pareto import pareto_rows
from fusiest.pmapping.placement import Placement, placements
from fusiest.pmapping.problem import Problem, make_problem
from fusiest.pmapping.search import Search
from fusiest.pmapping.sizes import bind_sized
from fusiest.pmapping.spatial import SpatialChoice, fanout_levels, reused, satisfies, spatial_choices
from fusiest.pmapping.table import Backing, Compatibility, FusedLimits, Origin, Rows, Table, group_sizes, merge_rows
from fusiest.pmapping.unfold import SearchOrigin
from fusiest.spec.binding import Path, computes
from fusiest.spec.spec import Spec

_FIRST_LOOK = 2_000
NOT_ON_PATH = -1


@deferred()
@collector_paused()
def pmappings(
    spec: Spec,
    einsum: str,
    *,
    max_fused_loops: int | None = None,
    max_fused_loops_per_variable: int = 1,
    rules: Rules | None = None,
    imperfect: bool = False,
    general: bool = False,
    usage: bool = False,
    counted: bool = False,
    finished: bool = True,
) -> Table:
    """Every pmapping of an Einsum that is Pareto-optimal in energy, latency and space, by how it meets other Einsums.

    `imperfect`: also tiles that do not divide. `general`: the general search also where the fast one applies. `usage`:
    space counts even where Einsums do not meet on chip. `counted`: the table says how many candidates each group had.
    `finished`: Einsums will use only tensors that are finished.
    """
    architecture = spec.require_arch()
    info = spec.info.einsums[einsum]
    limits = FusedLimits(max_fused_loops, max_fused_loops_per_variable)
    pieces: dict[Compatibility, list[Rows]] = {}
    origins: list[Origin] = []
    for compute in computes(architecture):
        path = bind_sized(spec, einsum, compute)
        if not path.compute.enabled and not info.is_copy_operation:
            continue
        for form, rows, origin in explore_path(
            spec, path, limits, rules or Rules(), imperfect, general, usage, finished
        ):
            check()
            rows.origin[:] = len(origins)
            origins.append(origin)
            pieces.setdefault(form, []).append(rows)
    forms = {form: merge_rows(parts) for form, parts in pieces.items()}
    explored = sum(len(rows) for parts in pieces.values() for rows in parts)
    candidates = {form: group_sizes(parts, forms[form]) for form, parts in pieces.items()} if counted else {}
    return Table(info.name, meeting_memories(spec, usage), forms, origins, explored, candidates)


def meeting_memories(spec: Spec, usage: bool) -> tuple[str, ...]:
    """Memories whose space Einsums share; none if they do not meet on chip and usage is not asked for."""
    return shared_memories(spec) if usage or can_fuse(spec) else ()


@functools.lru_cache(maxsize=4)
def shared_memories(spec: Spec) -> tuple[str, ...]:
    """Memories of limited size where tensors of several Einsums can meet: outside every fanout, or all."""
    found: list[str] = []
    first = next(iter(spec.info.einsums))
    deep = meet_below_fanouts(spec)
    for compute in computes(spec.require_arch()):
        for component in bind_sized(spec, first, compute).components:
            if component.dimensions and not deep:
                break
            if component.kind == "memory" and math.isfinite(component.size) and component.name not in found:
                found.append(component.name)
    return tuple(found)


def meet_below_fanouts(spec: Spec) -> bool:
    """Whether memories below a fanout may hold something above a fused loop: a tensor that is exchanged there, or, where
    memories need not stand in hierarchy order, any."""
    for einsum, info in spec.info.einsums.items():
        shared = [t for t in info.accesses if t in spec.info.shared]
        for compute in computes(spec.require_arch()) if shared else ():
            path = bind_sized(spec, einsum, compute)
            below = [i for i, c in enumerate(path.components) if any(o.dimensions for o in path.components[: i + 1])]
            if not any(path.components[i].kind == "memory" for i in below):
                continue
            for placement in placements(spec, path):
                if any(sets is not None and not sets.force_memory_hierarchy_order for sets in placement.sets):
                    return True
                if any(placement.holders(t, path)[0] in below for t in shared):
                    return True
    return False


@functools.lru_cache(maxsize=4)
def can_fuse(spec: Spec) -> bool:
    """Whether a tensor of several Einsums, or a persistent one, may be backed elsewhere than in an unlimited outermost
    memory: where not, Einsums do not meet on chip."""
    for einsum, info in spec.info.einsums.items():
        wanted = [t for t in info.accesses if t in spec.info.shared or t in info.persistent]
        for compute in computes(spec.require_arch()) if wanted else ():
            path = bind_sized(spec, einsum, compute)
            for placement in placements(spec, path):
                backing = [path.components[placement.holders(t, path)[0]] for t in wanted]
                if any(c is not path.components[0] or math.isfinite(c.size) for c in backing):
                    return True
    return False


def explore_path(
    spec: Spec,
    path: Path,
    limits: FusedLimits,
    rules: Rules,
    imperfect: bool = False,
    general: bool = False,
    usage: bool = False,
    finished: bool = True,
) -> Iterator[tuple[Compatibility, Rows, Origin]]:
    """Pieces of the table for one compute."""
    memories = list(meeting_memories(spec, usage))
    if path.einsum.is_copy_operation:
        yield from copy_pmappings(spec, path, memories, limits, imperfect)
        return
    apart = not usage and not can_fuse(spec)
    problem = make_problem(path, *constrained_variables(spec, path))
    shared = frozenset(t for t in path.einsum.accesses if t in spec.info.shared)
    agreed = agreed_loops(spec, path.einsum.name, finished)
    names = [c.name for c in path.components]
    index = tuple(names.index(m) if m in names else NOT_ON_PATH for m in memories)
    fallback: GeneralSearch | None = None
    choices = [] if imperfect or general else spatial_choices(problem)
    watts = leakage(spec, problem, choices)
    inner: dict[object, tuple[list[Layer], dict[Holder | None, int]]] = {}
    for placement in placements(spec, path):
        if not _top_fits(path, placement):
            continue
        if imperfect or general or not _is_plain(problem, placement):
            fallback = fallback or GeneralSearch(
                spec, problem, index, shared, frozenset(agreed), limits, rules, imperfect
            )
            yield from fallback.pieces(placement)
            continue
        if apart:
            continue
        for fixed, crossings in _by_inner_choice(problem, choices):
            search = make_search(problem, placement, fixed, crossings, watts, shared, rules)
            search.tracked = frozenset(index) & frozenset(search.columns.bits)
            search.run(inner)
            if search.final is not None:
                yield _unfused(search, index, memories)
            for seed in search.seeds:
                for piece in FusedPart(search, seed, index, limits, agreed).pieces():
                    yield piece.form, piece.rows, SearchOrigin(search, seed.layer, piece.above)
            search.forget()
    if apart and not (imperfect or general):
        yield from _explore_apart(spec, problem, choices, watts, shared, rules)


def _explore_apart(
    spec: Spec,
    problem: Problem,
    choices: list[SpatialChoice],
    watts: dict[SpatialChoice, float],
    shared: frozenset[str],
    rules: Rules,
) -> Iterator[tuple[Compatibility, Rows, Origin]]:
    """An Einsum that shares nothing on chip: only its energy and latency matter, so known pmappings bound the search.

    First a quick look at every placement for good pmappings, then an exact search for those that beat them.
    """
    known = np.empty((0, 2))
    for beam in (_FIRST_LOOK, None):
        for placement in placements(spec, problem.path):
            if not _top_fits(problem.path, placement) or not _is_plain(problem, placement):
                continue
            for fixed, crossings in _by_inner_choice(problem, choices):
                search = make_search(problem, placement, fixed, crossings, watts, shared, rules)
                search.tracked, search.known, search.beam = (
                    frozenset(),
                    tuple((float(e), float(t)) for e, t in known),
                    beam,
                )
                search.run()
                if search.final is not None:
                    form, rows, origin = _unfused(search, (), [])
                    known = np.concatenate([known, np.column_stack([rows.energy, rows.latency])])
                    known = known[pareto_rows(np.zeros(len(known), np.int64), known)]
                    yield form, rows, origin
                search.forget()


def _top_fits(path: Path, placement: Placement) -> bool:
    """Whether memories can hold whole what stands above all loops: the outermost memory's and persistent tensors."""
    info = path.einsum
    on_top: dict[int, list[str]] = {}
    for tensor in info.accesses:
        backing = placement.holders(tensor, path)[0]
        if backing == 0 or tensor in info.persistent:
            on_top.setdefault(backing, []).append(tensor)
    for index, tensors in on_top.items():
        sets, memory = placement.sets[index], path.components[index]
        if sets is not None and not all(satisfies(c, dict(info.bounds)) for c in sets.tile_shape):
            return False
        times = {t: info.n_instances if t in info.persistent else 1 for t in tensors}
        bits = (footprint(info.accesses[t], info.bounds) * memory.bits_per_value[t] * times[t] for t in tensors)
        if sum(bits) > memory.size:
            return False
    return True


def constrained_variables(spec: Spec, path: Path) -> tuple[frozenset[frozenset[str]], frozenset[str]]:
    """Sets of variables that a constraint names as a whole, and variables that one names singly."""
    wholes: set[frozenset[str]] = set()
    single: set[str] = set()
    comparisons = [c for component in path.components for d in component.dimensions for c in d.loop_bounds]
    for placement in placements(spec, path):
        comparisons += [c for sets in placement.sets if sets is not None for c in sets.tile_shape]
        wholes |= {sets.no_fused_loops for sets in placement.sets if sets is not None and sets.no_fused_loops}
    for comparison in comparisons:
        if comparison.operator.startswith("product") or (comparison.operator, comparison.value) in (
            ("==", 1),
            ("<=", 1),
        ):
            wholes.add(comparison.variables)
        else:
            single |= comparison.variables
    return frozenset(wholes), frozenset(single)


def _by_inner_choice(
    problem: Problem, choices: list[SpatialChoice]
) -> Iterator[tuple[SpatialChoice, tuple[SpatialChoice, ...]]]:
    """Spatial choices, grouped by what they do below the outermost fanout."""
    levels = fanout_levels(problem)
    groups: dict[object, list[SpatialChoice]] = {}
    for choice in choices:
        key = tuple(f for f, at in zip(choice.factors, choice.levels, strict=True) if at != levels[0]) if levels else ()
        groups.setdefault(key, []).append(choice)
    for group in groups.values():
        yield group[0], tuple(group)


def leakage(spec: Spec, problem: Problem, choices: list[SpatialChoice]) -> dict[SpatialChoice, float]:
    """Leakage power of the whole architecture per spatial choice."""
    bound = bind_all(spec, problem.info)
    compute = problem.path.compute.name
    found: dict[object, float] = {}
    watts = {}
    for choice in choices:
        used = {
            (d.component, d.name): n for d, n in zip(choice.dimensions, map(math.prod, choice.factors), strict=True)
        }
        key = tuple(used[d.component, d.name] for d in choice.dimensions if d.power_gateable)
        if key not in found:
            found[key] = sum(leak_power(spec, compute, bound, used).values())
        watts[choice] = found[key]
    return watts


def make_search(
    problem: Problem,
    placement: Placement,
    fixed: SpatialChoice,
    crossings: tuple[SpatialChoice, ...],
    watts: dict[SpatialChoice, float],
    shared: frozenset[str],
    rules: Rules,
) -> Search:
    levels = fanout_levels(problem)
    carried = tuple(
        t
        for t in range(len(problem.tensors))
        if levels and any(reused(problem, choice, t, levels[0]) > 1 for choice in crossings)
    )
    columns = Columns(busy_columns(problem), carried, limited_memories(problem))
    nest = Nest(problem, placement, shared, rules)
    return Search(nest, columns, fixed, crossings, tuple(watts[c] for c in crossings))


def _is_plain(problem: Problem, placement: Placement) -> bool:
    """Whether the fast search applies: memories in hierarchy order, nothing backed or never refetched below a fanout."""
    fanout = next(iter(fanout_levels(problem)), len(problem.path.components))
    for t in problem.tensors:
        chain = placement.holders(t.name, problem.path)
        for index in chain:
            sets = placement.sets[index]
            assert sets is not None
            if index >= fanout and (index == chain[0] or t.name in sets.no_refetch_from_above):
                return False
            if not sets.force_memory_hierarchy_order:
                return False
        if t.output and t.ranks and fanout < len(problem.path.components):
            return False
    return True


def _unfused(search: Search, memories: tuple[int, ...], names: list[str]) -> tuple[Compatibility, Rows, Origin]:
    """Rows of the form without fused loops: all shared tensors meet in the outermost memory."""
    assert search.final is not None
    layer = search.layers[search.final]
    p = search.problem
    at = {t.name: p.path.components[chain[0]].name for t, chain in zip(p.tensors, search.chains, strict=True)}
    backings = tuple(sorted((Backing(t, at[t], 0) for t in search.shared), key=lambda b: b.tensor))
    energy, latency = finish(p, search.columns, layer.criteria)
    bits = np.zeros((len(energy), len(names), 1))
    for i, memory in enumerate(memories):
        column = search.columns.bits_column(memory)
        if column is not None:
            bits[:, i, 0] = layer.criteria[:, column]
        if memory == 0:
            bits[:, i, 0] += search.top_bits
    empty = np.empty((len(energy), 0), np.int64)
    kept = persistent_columns(search, memories, len(energy))
    rows = Rows(empty, energy, latency, bits, np.zeros(len(energy), np.int64), np.arange(len(energy)), kept)
    return Compatibility((), backings), rows, SearchOrigin(search, search.final)
