"""A case, explored once per process: its tables, the baselines' genome, and the optimum."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fusiest.experiments.baselines import (
    UNKNOWN,
    VALID,
    BaselineOptions,
    Genome,
    evaluate,
    make_genome,
    make_work_for,
    our_evaluations,
    sample,
    search,
)
from fusiest.experiments.reproduce.pieces import Settings
from fusiest.experiments.reproduce.searching import searched
from fusiest.mapper import Options, cpu_seconds, explore_all
from fusiest.spec import Spec, load


@dataclass(frozen=True)
class Optimum:
    edp: float
    seconds: float
    cpu_seconds: float


class BaselineRun(NamedTuple):
    """What a baseline found, in multiples of fusiest's evaluations."""

    history: list[tuple[float, float]]
    """When it found a better mapping, and its energy-delay product."""
    spent: float
    stopped: float | None
    """When its own rules would have ended it."""
    tried: int
    seconds: float


class Prepared:
    """What baselines need to run, and what they are compared with."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        begin = cpu_seconds()
        self.tables = explore_all(spec, Options(), lambda *_: None, counted=True)
        self.cpu_seconds = cpu_seconds() - begin
        self.evaluations = our_evaluations(spec, self.tables)
        self.pmappings = sum(map(len, self.tables.values()))
        self.loaded = set[str]()

    @cached_property
    def genome(self) -> Genome:
        return make_genome(self.spec, self.tables)

    @cached_property
    def optimum(self) -> Optimum:
        result = searched(self.spec, Options(objective=("edp",)))
        return Optimum(result.best("edp").edp, result.stats.wall_seconds, result.stats.cpu_seconds)

    @property
    def nothing_free(self) -> Genome:
        """The genome with every group charged again at every mapping."""
        space = self.genome.space
        unknown = np.full((len(space.group), 2), UNKNOWN, space.group.dtype)[
            :, 0
        ]  # strided, as the compiled code expects
        return replace(self.genome, space=space._replace(group=unknown))

    @property
    def usable(self) -> int:
        """Rows that can be part of a mapping, as far as neighbours can tell."""
        return len(self.genome.space.energy)

    def load(self, mapper: str) -> None:
        """Compile a baseline, or load it, so that it is not counted as time of the first run."""
        if mapper not in self.loaded:
            self.loaded.add(mapper)
            search(self.genome, ("edp",), BaselineOptions(mapper, budget=self.evaluations), self.evaluations)

    def baseline_run(self, settings: Settings) -> BaselineRun:
        """A baseline without its stop rules, for so many `times` our evaluations or until it comes to the `target`."""
        budget = max(settings["times"] * self.evaluations, 1.0)
        options = BaselineOptions(
            settings["mapper"], settings["seed"], budget, stop_rules=False, target=settings["target"]
        )
        begin = time.perf_counter()
        genome = self.genome if settings.get("free", True) else self.nothing_free
        outcome = search(genome, ("edp",), options, self.evaluations)
        history = [(h.evaluations / self.evaluations, h.energy * h.latency) for h in outcome.history]
        stopped = outcome.stopped and outcome.stopped / self.evaluations
        spent = outcome.spent / self.evaluations
        return BaselineRun(history, spent, stopped, outcome.tried, time.perf_counter() - begin)

    def random_scores(self, count: int) -> list[float]:
        """Energy-delay products of random valid mappings."""
        space = self.genome.space
        work, genes = make_work_for(space, 0), np.zeros(len(space.forms), np.int64)
        scores: list[float] = []
        for _ in range(100 * count):
            if sample(space, work, genes) and evaluate(space, work, genes) == VALID:
                scores.append(float(work.cost[0] * work.cost[1]))
                if len(scores) == count:
                    break
        return scores


_prepared: dict[str, Prepared] = {}


def prepare(case: Settings, mappers: Iterable[str] = ()) -> Prepared:
    """The case of these settings; kept, so that processes forked later have it.

    `mappers`: these are loaded.
    """
    key = json.dumps([case["architecture"], case["workload"], case["defines"]])
    if key not in _prepared:
        _prepared.clear()
        _prepared[key] = Prepared(load(case["architecture"], case["workload"], defines=case["defines"]))
        _ = _prepared[key].genome
    for mapper in mappers:
        _prepared[key].load(mapper)
    return _prepared[key]
