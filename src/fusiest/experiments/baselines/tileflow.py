"""TileFlow as its open-source version does it: the genetic algorithm chooses structures, a tree search their tiles."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fusiest.experiments.baselines.annealing import MOST_TRIES
from fusiest.experiments.baselines.genetic import choose_parents, vary
from fusiest.experiments.baselines.genome import Genome
from fusiest.experiments.baselines.kernels import INCOMPATIBLE, Work, evaluate
from fusiest.experiments.baselines.record import BEST, BUDGET, PHASE, SPENT, TARGET, SearchRecord
from fusiest.experiments.baselines.sampling import draw
from fusiest.experiments.baselines.tree_search import TileSearch, make_structure, make_tree, search_tiles
from fusiest.pmapping import Floats, Ints


def structure_search(
    genome: Genome, work: Work, record: SearchRecord, population: Ints, scores: Floats, scale: float
) -> Callable[[float], None]:
    """A function that goes on until so many evaluations are spent; `scale`: the least score there could be."""
    space, tree = genome.space, make_tree()
    search = TileSearch(space, work, record, scale or 1.0)

    def score(genes: Ints, parent: Ints) -> float:
        structure = make_structure(genome, genes)
        return float(search_tiles(search, structure, tree, genes, parent, record.amounts[BUDGET]))

    def first(genes: Ints) -> float:
        """A structure that has at least one valid mapping."""
        return score(genes, genes) if np.isfinite(draw(space, work, record, genes)) else np.inf

    def same_structure(genes: Ints, others: Ints) -> bool:
        return all(a is b for a, b in zip(genome.edges(genes), genome.edges(others), strict=True))

    def child(genes: Ints) -> float:
        for _ in range(MOST_TRIES):
            a, b = choose_parents(work, scores)
            if vary(space, work, population[a], population[b], genes) and evaluate(space, work, genes) != INCOMPATIBLE:
                if same_structure(genes, population[a]):  # known already
                    genes[:] = population[a]
                    record.amounts[SPENT] += 1.0
                    return float(scores[a])
                return score(genes, population[a])
        record.amounts[SPENT] += 1.0
        return np.inf

    def generation() -> None:
        children, marks = population.copy(), scores.copy()
        best = int(np.argmin(scores))
        children[0], marks[0] = population[best], scores[best]
        for i in range(1, len(population)):
            if record.amounts[SPENT] < record.amounts[BUDGET]:
                marks[i] = child(children[i])
        population[:], scores[:] = children, marks

    def advance(until: float) -> None:
        while record.amounts[SPENT] < until and record.amounts[BEST] > record.amounts[TARGET]:
            missing = int(record.counts[PHASE])
            if missing < len(population):
                scores[missing] = first(population[missing])
                record.counts[PHASE] += bool(np.isfinite(scores[missing]))
            else:
                generation()
                return

    return advance
