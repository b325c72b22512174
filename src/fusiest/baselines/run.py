"""Running a baseline: the same tables as fusiest, a budget of evaluations, one mapping, checked again by the model."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fusiest.baselines.annealing import anneal
from fusiest.baselines.genetic import POPULATION, evolve
from fusiest.baselines.kernels import Work, make_work
from fusiest.baselines.options import BaselineOptions
from fusiest.baselines.record import BEST, RECORDED, SPENT, STOPPED, Record, make_record
from fusiest.baselines.sampling import timeloop
from fusiest.baselines.space import Genome, make_genome
from fusiest.joining.bounds import Incumbents
from fusiest.mapper.joiner import Joiner, State
from fusiest.mapper.mapper import NoMapping, checked_mapping, cpu_seconds, peak_rss_bytes
from fusiest.mapper.options import Options
from fusiest.mapper.progress import Progress, Step
from fusiest.mapper.result import Improvement, Result, Stats
from fusiest.mapper.tables import explore_all
from fusiest.mapper.trace import Pick, picked_tree
from fusiest.pmapping.identical import common_key
from fusiest.pmapping.pareto import Ints
from fusiest.pmapping.table import Table
from fusiest.spec.spec import Spec

Advance = Callable[[float], None]
"""Go on until so many evaluations are spent."""

_SLICES = 50
"""How often a run comes back to say how far it is."""


@dataclass(frozen=True)
class Found:
    """What a run found: genes (None if nothing is valid), evaluations spent, and each improvement."""

    genes: Ints | None
    spent: float
    history: list[Improvement]
    stopped: float | None = None
    """When its own stop rules ended the search, or would have."""


def run_baseline(spec: Spec, options: Options, baseline: BaselineOptions, progress: Progress | None = None) -> Result:
    """Map with a baseline: explore, search, check."""
    say = progress or (lambda step: None)
    begin, cpu = time.perf_counter(), cpu_seconds()
    tables = explore_all(
        spec, options.max_fused_loops, options.imperfect, options.jobs, None,
        lambda name, table: say(Step("exploring", f"{name} has {len(table):,} pmappings in {len(table.forms)} forms")),
    )  # fmt: skip
    genome = make_genome(spec, Joiner(spec, tables, False))
    found = search(genome, options.objective, baseline, our_evaluations(spec, tables), say)
    stats = Stats(
        pmappings={name: len(table) for name, table in tables.items()},
        explored={name: table.explored for name, table in tables.items()},
        orders="given", evaluations=found.spent, history=found.history,
    )  # fmt: skip
    result = to_result(spec, genome, options.objective, found, stats, baseline.mapper)
    stats.wall_seconds, stats.cpu_seconds = time.perf_counter() - begin, cpu_seconds() - cpu
    stats.peak_rss_bytes = peak_rss_bytes()
    return result


def our_evaluations(spec: Spec, tables: dict[str, Table]) -> int:
    """Pmappings that fusiest evaluates for its tables; Einsums that differ only by names once."""
    return sum({common_key(spec, name): table.explored for name, table in tables.items()}.values())


def search(
    genome: Genome, objective: tuple[str, ...], baseline: BaselineOptions, ours: int, say: Progress | None = None
) -> Found:
    """Run a baseline on a genome until its budget is spent, or its own rules stop it."""
    space = genome.space
    if not all(np.diff(space.first)):
        return Found(None, 0.0, [])
    budget = float(ours if baseline.budget is None else baseline.budget)
    record = make_record(len(space.forms), budget, objective)
    work = make_work(
        baseline.seed, len(space.sizes), int(space.zones.max()), space.tiles.shape[1], int(space.tensors.max()) + 1,
        int(np.diff(space.choice_start).max()),
    )  # fmt: skip
    step = _stepper(genome, work, record, baseline)
    history: list[Improvement] = []
    while (spent := float(record.amounts[SPENT])) < budget:
        step(min(budget, spent + budget / _SLICES))
        history += [Improvement(*row) for row in record.history[: record.counts[RECORDED]].tolist()]
        record.counts[RECORDED] = 0
        if say is not None:
            best = f"best {record.amounts[BEST]:.6g}" if history else "nothing valid yet"
            say(Step(baseline.mapper, f"{record.amounts[SPENT]:,.0f} of {budget:,.0f} evaluations, {best}"))
        if record.amounts[STOPPED] and baseline.stop_rules:
            break
    genes = record.best.copy() if history else None
    return Found(genes, float(record.amounts[SPENT]), history, float(record.amounts[STOPPED]) or None)


def _stepper(genome: Genome, work: Work, record: Record, baseline: BaselineOptions) -> Advance:
    space, count = genome.space, len(genome.space.forms)
    if baseline.mapper == "timeloop":
        genes = np.zeros(count, np.int64)
        return lambda until: timeloop(space, work, record, genes, until, baseline.stop_rules)
    if baseline.mapper == "set":
        genes = np.zeros(count, np.int64)
        return lambda until: anneal(space, work, record, genes, until)
    population, scores = np.zeros((POPULATION, count), np.int64), np.full(POPULATION, np.inf)
    return lambda until: evolve(space, work, record, population, scores, until)


def to_result(
    spec: Spec, genome: Genome, objective: tuple[str, ...], found: Found, stats: Stats, mapper: str
) -> Result:
    """The best mapping as a tree, which the model must cost the same; the gap is to a lower bound of all mappings."""
    if found.genes is None:
        raise NoMapping(f"{mapper} found no valid mapping in {found.spent:,.0f} evaluations")
    best = found.history[-1]
    order, picks = _picks(genome, found.genes)
    mapping = checked_mapping(spec, order, picked_tree(genome.joiner, picks), best.energy, best.latency)
    least = genome.joiner.bounds.least(frozenset(), ())
    incumbents = Incumbents(objective)
    bound, score = (
        float(incumbents.score(np.array([energy]), np.array([latency]))[0])
        for energy, latency in (least, (best.energy, best.latency))
    )
    return Result(spec, objective, [mapping], False, max(0.0, 1 - bound / score) if score else 0.0, stats)


def _picks(genome: Genome, genes: Ints) -> tuple[tuple[str, ...], list[Pick]]:
    """Genes as the mapper's own pointers: open form before, Einsum, form and row."""
    space, node, picks = genome.space, 0, []
    done: frozenset[str] = frozenset()
    tiles: tuple[int, ...] = ()
    for e, (level, gene) in enumerate(zip(genome.levels, genes.tolist(), strict=True)):
        form, row = (int(numbers[gene - space.first[e]]) for numbers in genome.numbers[e])
        own = space.tiles[gene].tolist()
        edge = next(
            edge
            for edge in level.edges
            if (edge.before, edge.form) == (node, form) and all(tiles[a] == own[b] for a, b in edge.joint.matched)
        )
        picks.append((State(done, [level.open_forms[node]]), 0, level.einsum, form, row, edge.way))
        tiles = tuple(own[c] for c in edge.joint.tiles)
        node, done = edge.after, done | {level.einsum}
    return tuple(level.einsum for level in genome.levels), picks
