"""TileFlow: a genetic algorithm whose genes are each Einsum's placement, shared loops and inside.

S. Zheng et al., "TileFlow: A Framework for Modeling Fusion Dataflow via Tree-based Analysis", MICRO 2023.
"""

# mypy: disallow-untyped-defs=False
# Numba finds the types of compiled code.

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fusiest.experiments.baselines.annealing import MOST_TRIES
from fusiest.experiments.baselines.compiled_baselines import copy, kernel
from fusiest.experiments.baselines.kernels import below, change, repair, uniform
from fusiest.experiments.baselines.record import PHASE, SPENT, STUCK, goes_on, judge
from fusiest.experiments.baselines.sampling import draw
from fusiest.pmapping import Floats, Ints

POPULATION = 10
CROSSOVER, MUTATION = 0.7, 0.2
TOURNAMENT = 3


class Generation(NamedTuple):
    """Genes of some mappings, and their scores."""

    population: Ints
    scores: Floats


@kernel
def _winner(w, scores):
    """The best of a few at random."""
    best = below(w, len(scores))
    for _ in range(TOURNAMENT - 1):
        rival = below(w, len(scores))
        if scores[rival] < scores[best]:
            best = rival
    return best


@kernel
def _cross(s, w, mother, father, child):
    """The first Einsums from one parent, the others from the other, changed where they do not fit."""
    cut = 1 + below(w, max(len(mother) - 1, 1))
    for e in range(len(child)):
        child[e] = mother[e] if e < cut else father[e]
    return repair(s, w, w.order, child)


@kernel
def vary(s, w, mother, father, child):
    """A child by crossover and mutation. False if its genes do not agree."""
    copy(child, mother)
    if uniform(w) < CROSSOVER and not _cross(s, w, mother, father, child):
        return False
    return uniform(w) >= MUTATION or change(s, w, child)


@kernel
def choose_parents(w, scores):
    return _winner(w, scores), _winner(w, scores)


@kernel
def _equal(a, b):
    for i in range(len(a)):  # noqa: SIM110  (compiled)
        if a[i] != b[i]:
            return False
    return True


@kernel
def _offspring(s, w, r, population, scores, child):
    """A compatible child: its score, inf if it is invalid."""
    for _ in range(MOST_TRIES):
        a, b = choose_parents(w, scores)
        if vary(s, w, population[a], population[b], child):
            if _equal(child, population[a]):  # known already
                r.amounts[SPENT] += 1.0
                return scores[a]
            score = judge(s, w, r, child, population[a], False)
            if not np.isnan(score):
                r.counts[STUCK] = 0
                return score
    r.counts[STUCK] += 1
    r.amounts[SPENT] += 1.0
    return np.inf


@kernel
def evolve(s, w, r, generation, following, until):
    """Fill the population with valid mappings, then breed generation after generation; the best survives as it is.

    `following` is scratch space for the next one.
    """
    (population, scores), (children, marks) = generation, following
    while goes_on(r, until):
        if r.counts[PHASE] < len(population):
            scores[r.counts[PHASE]] = draw(s, w, r, population[r.counts[PHASE]])
            if not np.isinf(scores[r.counts[PHASE]]):
                r.counts[PHASE] += 1
            continue
        best = np.argmin(scores)
        copy(children[0], population[best])
        marks[0] = scores[best]
        for i in range(1, len(population)):
            marks[i] = _offspring(s, w, r, population, scores, children[i])
        for i in range(len(population)):
            copy(population[i], children[i])
            scores[i] = marks[i]
