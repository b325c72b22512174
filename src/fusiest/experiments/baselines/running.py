"""Running a baseline: the same tables as fusiest, a budget of evaluations, one mapping, checked again by the model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fusiest.base.errors import SpecError
from fusiest.base.interrupt import deferred, finishing, taken
from fusiest.experiments.baselines.annealing import anneal
from fusiest.experiments.baselines.baseline_options import BaselineOptions
from fusiest.experiments.baselines.genetic import POPULATION, Generation, evolve
from fusiest.experiments.baselines.genome import Genome, Space, make_genome
from fusiest.experiments.baselines.kernels import Work, make_work
from fusiest.experiments.baselines.record import (
    BEST,
    INVALID_ONES,
    MOST_STUCK,
    RECORDED,
    SPENT,
    STOPPED,
    STUCK,
    VALID_ONES,
    SearchRecord,
    make_record,
)
from fusiest.experiments.baselines.sampling import timeloop
from fusiest.experiments.baselines.tileflow import structure_search
from fusiest.joining import Pick, potential, trace
from fusiest.mapper import (
    Improvement,
    Options,
    Progress,
    Result,
    Stats,
    Step,
    Stop,
    checked_mapping,
    cpu_seconds,
    explore_all,
    made_now,
    peak_rss_bytes,
)
from fusiest.pmapping import Ints, NoMapping, Table, common_key
from fusiest.spec import Spec

Advance = Callable[[float], None]
"""Go on until so many evaluations are spent."""

_SLICES, _LARGEST_SLICE = 50, 20.0
"""How often a run comes back to say how far it is: so many times, but at least when it has spent so often fusiest's evaluations."""


@dataclass(frozen=True)
class BaselineOutcome:
    """What a run found: genes (None if nothing is valid), evaluations spent, and each improvement."""

    genes: Ints | None
    spent: float
    history: list[Improvement]
    stopped: float | None = None
    """When its own stop rules ended the search, or would have."""
    tried: int = 0
    """Mappings that were evaluated, valid or not."""
    interrupted: bool = False


@deferred()
def run_baseline(spec: Spec, options: Options, baseline: BaselineOptions, progress: Progress | None = None) -> Result:
    """Map with a baseline: explore, search, check."""
    if options.usage is not None:
        raise SpecError(f"usage of a memory is an objective of fusiest's own search, not of {baseline.mapper}")
    if spec.dataflow is not None and spec.dataflow.depth_first is not None:
        raise SpecError(f"a depth-first dataflow is for fusiest's own search, not for {baseline.mapper}")
    say = progress or (lambda step: None)
    begin, cpu = time.perf_counter(), cpu_seconds()
    tables = explore_all(spec, options, say, counted=True)
    exploring = time.perf_counter() - begin
    genome = make_genome(spec, tables, options.finished)
    ours = our_evaluations(spec, tables, options.finished)
    end = None if options.time_limit is None else begin + options.time_limit
    outcome = search(genome, options.objective, baseline, ours, say, end=end, interruptible=True)
    stats = Stats(
        pmappings={name: len(table) for name, table in tables.items()},
        explored={name: table.explored for name, table in tables.items()},
        orders="given", evaluations=outcome.spent, history=outcome.history, exploring_seconds=exploring,
    )  # fmt: skip
    if outcome.genes is None:
        raise NoMapping(f"{baseline.mapper} found no valid mapping in {outcome.spent:,.0f} evaluations")
    with finishing():
        result = to_result(spec, genome, options, outcome, stats, baseline.mapper)
    stats = replace(
        stats,
        wall_seconds=time.perf_counter() - begin,
        cpu_seconds=cpu_seconds() - cpu,
        peak_rss_bytes=peak_rss_bytes(),
    )
    return replace(result, stats=stats, stopped="interrupt" if taken() else result.stopped)


def our_evaluations(spec: Spec, tables: dict[str, Table], finished: bool = True) -> int:
    """Pmappings that fusiest evaluates for its tables; Einsums that differ only by names once."""
    return sum({common_key(spec, name, finished): table.explored for name, table in tables.items()}.values())


@deferred()
def search(
    genome: Genome,
    objective: tuple[str, ...],
    baseline: BaselineOptions,
    ours: int,
    say: Progress | None = None,
    end: float | None = None,
    interruptible: bool = False,
) -> BaselineOutcome:
    """Run a baseline until its budget is spent, its own rules stop it, or its target is reached.

    `end`: when time is up, as `time.perf_counter` counts. `interruptible`: Ctrl-C ends it with what it has.
    """
    space = genome.space
    if not all(np.diff(space.first)):
        return BaselineOutcome(None, 0.0, [])
    budget = float(ours if baseline.budget is None else baseline.budget)
    if all(np.diff(space.first) == 1):  # there is nothing to choose
        budget = 1.0
    record = make_record(len(space.forms), budget, objective, baseline.target)
    work = make_work_for(space, baseline.seed)
    step = _stepper(genome, work, record, baseline)
    history: list[Improvement] = []
    interrupted = False
    slice_size = min(budget / _SLICES, _LARGEST_SLICE * ours)
    while (spent := float(record.amounts[SPENT])) < budget:
        try:
            step(min(budget, spent + slice_size))
            interrupted = taken()
        except KeyboardInterrupt:
            interrupted = True
        history += [Improvement(*row) for row in record.history[: record.counts[RECORDED]].tolist()]
        record.counts[RECORDED] = 0
        if say is not None:
            best = f"best {record.amounts[BEST]:.6g}" if history else "nothing valid yet"
            say(Step(baseline.mapper, f"{record.amounts[SPENT]:,.0f} of {budget:,.0f} evaluations, {best}"))
        if (record.amounts[STOPPED] and baseline.stop_rules) or record.amounts[BEST] <= baseline.target:
            break
        if record.counts[STUCK] >= MOST_STUCK:
            break
        if interrupted or (end is not None and time.perf_counter() > end):
            break
    if interrupted and not (interruptible and history):
        raise KeyboardInterrupt
    genes = record.best.copy() if history else None
    tried = int(record.counts[VALID_ONES] + record.counts[INVALID_ONES])
    stopped = float(record.amounts[STOPPED]) or None
    return BaselineOutcome(genes, float(record.amounts[SPENT]), history, stopped, tried, interrupted)


def make_work_for(space: Space, seed: int) -> Work:
    """Scratch arrays that are large enough for a space."""
    return make_work(
        seed, len(space.forms), len(space.sizes), int(space.zones.max()), space.tiles.shape[1], int(space.tensors.max(initial=0)) + 1,
        int(np.diff(space.choice_start).max()),
    )  # fmt: skip


def _stepper(genome: Genome, work: Work, record: SearchRecord, baseline: BaselineOptions) -> Advance:
    space, count = genome.space, len(genome.space.forms)
    if baseline.mapper == "timeloop":
        genes = np.zeros(count, np.int64)
        return lambda until: timeloop(space, work, record, genes, until, baseline.stop_rules)
    if baseline.mapper == "set":
        genes, candidate = np.zeros((2, count), np.int64)
        return lambda until: anneal(space, work, record, genes, candidate, until)
    population, scores = np.zeros((POPULATION, count), np.int64), np.full(POPULATION, np.inf)
    if baseline.mapper == "tileflow":
        generation, following = Generation(population, scores), Generation(population.copy(), scores.copy())
        return lambda until: evolve(space, work, record, generation, following, until)
    return structure_search(genome, work, record, population, scores, least_score(genome, record.powers.tolist()))


def to_result(
    spec: Spec, genome: Genome, options: Options, outcome: BaselineOutcome, stats: Stats, mapper: str
) -> Result:
    """The best mapping as a tree, which the model must cost the same; the gap is to a lower bound of all mappings."""
    assert outcome.genes is not None
    best, joins = outcome.history[-1], _picks(genome, outcome.genes)
    tree, order = trace(genome.problem, joins), tuple(pick.einsum for pick in joins)
    mapping = checked_mapping(spec, order, tree, best.energy, best.latency, options.finished)
    objective = options.minimized
    bound, score = least_score(genome, objective.powers), objective.score_of(best.energy, best.latency)
    gap = max(0.0, 1 - bound / score) if score else 0.0
    stopped: Stop | None = "interrupt" if outcome.interrupted else None
    return Result(spec, options.objective, [mapping], False, gap, stats, stopped, options, made_now(spec, mapper))


def least_score(genome: Genome, powers: Sequence[int]) -> float:
    """No mapping can have less."""
    least = potential(genome.problem).bounds(genome.problem).least(frozenset(), ())
    return float(least.energy ** powers[0] * least.latency ** powers[1])


def _picks(genome: Genome, genes: Ints) -> list[Pick]:
    """Genes as the joins that lead to a mapping."""
    picks: list[Pick] = []
    finished: frozenset[str] = frozenset()
    for level, gene, edge in zip(genome.levels, genes.tolist(), genome.edges(genes), strict=True):
        row = int(genome.space.in_form[gene])
        picks.append(Pick(finished, level.open_forms[edge.before], level.einsum, edge.form, row, edge.way))
        finished |= {level.einsum}
    return picks
