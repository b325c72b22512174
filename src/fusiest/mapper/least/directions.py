"""Where in the plane of energy and latency a mapping could still be better than the known ones (proofs 9b and 9c)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fusiest.base.objective import CLOSE, Objective, Weights
from fusiest.joining import KnownCosts

ENERGY_ALONE, LATENCY_ALONE = Weights(1.0, 0.0), Weights(0.0, 1.0)
_TWICE, _SAME = 1.25, 1.05
"""Directions that are tangents of a curve of equal products in points no further apart say the same."""


class Direction(NamedTuple):
    """A lower bound on a weighted sum of the energy and latency of all mappings."""

    weights: Weights
    least: float

    def total(self, energy: float, latency: float) -> float:
        """The weighted sum of these costs."""
        pairs = zip(self.weights, (energy, latency), strict=True)
        return sum(
            (weight * cost for weight, cost in pairs if weight), 0.0
        )  # a weight of 0 times an infinite cost is 0


class Line(NamedTuple):
    """Part of what could be better: it lies below a weighted sum."""

    direction: Direction
    most: float

    @property
    def slack(self) -> float:
        """How far above its bound the line lies, relatively."""
        return (self.most - self.direction.least) / self.most if self.most > 0 else 0.0


def better(objective: Objective, known: Sequence[KnownCosts], directions: Sequence[Direction]) -> list[Line]:
    """Lines such that every mapping better than the known ones lies below one of them; none if nothing can be better."""
    if objective.is_front:
        return _better_of_front(known, directions)
    scores = [objective.score_of(costs.energy, costs.latency) for costs in known]
    best = known[int(np.argmin(scores))]
    if objective.is_product:
        return _better_product(min(scores), directions)
    energy, latency = (next(d for d in directions if d.weights == alone) for alone in (ENERGY_ALONE, LATENCY_ALONE))
    if objective.names == ("energy",):
        return lines_below(energy, best.energy, best.latency > latency.least)
    return lines_below(latency, best.latency, best.energy > energy.least)


def lines_below(direction: Direction, cost: float, ties: bool = False) -> list[Line]:
    """The line below which less of one cost lies, or as much, if mappings that tie may differ; none if nothing does."""
    most = cost * (1 + 2 * CLOSE if ties else 1 - CLOSE)
    return [Line(direction, most)] if most > direction.least else []


def gap(objective: Objective, known: Sequence[KnownCosts], directions: Sequence[Direction]) -> float:
    """How much better, relatively, a mapping could be than the known ones."""
    corners = _corners(directions)
    if objective.is_front:
        costs = np.array([(costs.energy, costs.latency) for costs in known])
        lower = [(a[0], b[1]) for a, b in zip(corners, corners[1:], strict=False)] or corners
        worst = max(float(_ratio(costs, np.array(corner)).max(axis=1).min()) for corner in lower)
    else:
        best = min(objective.score_of(costs.energy, costs.latency) for costs in known)
        least = min(objective.score_of(*corner) for corner in corners)
        worst = 1.0 if best <= least else best / least if least > 0 else math.inf
    return 1 - 1 / max(1.0, worst)


def _ratio(costs: np.ndarray, least: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(costs <= least, 1.0, costs / least)


def _corners(directions: Sequence[Direction]) -> list[tuple[float, float]]:
    """The corners of all that lies above these bounds, from the least energy on.

    A product is least at one of them; so are energy and latency.
    """
    energy = max((d.least / d.weights.energy for d in directions if not d.weights.latency), default=0.0)
    latency = max((d.least / d.weights.latency for d in directions if not d.weights.energy), default=0.0)
    sloped = [d for d in directions if d.weights.energy and d.weights.latency]
    energies = {energy} | {(d.least - d.weights.latency * latency) / d.weights.energy for d in sloped}
    for i, a in enumerate(sloped):
        for b in sloped[:i]:
            determinant = a.weights.energy * b.weights.latency - b.weights.energy * a.weights.latency
            if determinant:
                energies.add((a.least * b.weights.latency - b.least * a.weights.latency) / determinant)
    corners: list[tuple[float, float]] = []
    for e in sorted(max(e, energy) for e in energies):
        lowest = max([latency, *((d.least - d.weights.energy * e) / d.weights.latency for d in sloped)])
        if not corners or (e > corners[-1][0] and lowest < corners[-1][1]):
            corners.append((e, lowest))
    return corners


# --- products -----------------------------------------------------------------------------------------------------------


def _better_product(product: float, directions: Sequence[Direction]) -> list[Line]:
    """Lines above all that lies below a curve of equal products, and above all bounds.

    The curve is convex: between two of its points, all below it lies below their chord, and so below every line that
    has both below it.
    """
    lines: dict[Weights, Line] = {}
    for _, line in _lines_of_product(product, directions):
        before = lines.get(line.direction.weights)
        if before is None or before.most < line.most:
            lines[line.direction.weights] = line
    return list(lines.values())


def _lines_of_product(product: float, directions: Sequence[Direction]) -> Iterator[tuple[tuple[float, float], Line]]:
    """The intervals of energy in which a mapping may have a smaller product, each with the line nearest to its bound."""
    product *= 1 - CLOSE
    for first, last in _energies(product, directions) if product > 0 else ():
        ends = (first, product / first if first > 0 else math.inf), (last, product / last)
        sloped = (d for d in directions if d.weights.energy and d.weights.latency)
        lines = [Line(d, max(d.total(*end) for end in ends)) for d in sloped]
        yield (first, last), min(lines, key=lambda line: line.slack)


def refining(product: float, directions: Sequence[Direction]) -> list[Weights]:
    """Directions in which bounds would leave less below a curve of equal products.

    They are its tangents where a line is twice as far above its bound as any must be: there the curve bends away from
    the line, or a better bound is to be expected.
    """
    sloped = [d.weights for d in directions if d.weights.latency and d.weights.energy]
    energies = [math.sqrt(product * latency / energy) for energy, latency in sloped]
    intervals = list(_lines_of_product(product, directions))
    needed = min((line.slack - _bent(*ends) for ends, line in intervals), default=0.0)
    found: list[Weights] = []
    for (first, last), line in intervals:
        if line.slack > _TWICE * needed and 0 < first < last < math.inf:
            for share in (0.25, 0.5, 0.75):  # quarters of the interval, in proportion
                energy = first ** (1 - share) * last**share
                if all(max(energy / e, e / energy) > _SAME for e in energies):
                    energies.append(energy)
                    found.append(Weights(1 / energy, energy / product))
    return found


def _bent(first: float, last: float) -> float:
    """How far the middle of a curve of equal products is below its chord between two energies, relatively."""
    return 1 - 2 / (math.sqrt(last / first) + math.sqrt(first / last)) if 0 < first < last < math.inf else 1.0


def _energies(product: float, directions: Iterable[Direction]) -> list[tuple[float, float]]:
    """Intervals of energy in which a mapping may have a smaller product."""
    intervals = [(0.0, math.inf)]
    for (by_energy, by_latency), least in directions:
        if not by_latency:
            good = [(least / by_energy, math.inf)]
        elif not by_energy:
            good = [(0.0, product * by_latency / least)] if least > 0 else [(0.0, math.inf)]
        else:  # by_energy * e² - least * e + by_latency * product > 0
            root = least * least - 4 * by_energy * by_latency * product
            if root <= 0:
                continue
            middle, half = least / (2 * by_energy), math.sqrt(root) / (2 * by_energy)
            good = [(0.0, middle - half), (middle + half, math.inf)]
        intervals = [(max(a, c), min(b, d)) for a, b in intervals for c, d in good if max(a, c) < min(b, d)]
    return intervals


# --- fronts -------------------------------------------------------------------------------------------------------------


def _better_of_front(known: Sequence[KnownCosts], directions: Sequence[Direction]) -> list[Line]:
    """Lines above the corners between neighbouring known mappings, and before the first and after the last of them."""
    front = sorted({(costs.energy, costs.latency) for costs in known})
    points = [p for i, p in enumerate(front) if all(p[1] < q[1] for q in front[:i])]
    corners = [(b[0], a[1]) for a, b in zip(points, points[1:], strict=False)]
    lines: dict[Weights, Line] = {}
    for energy, latency in [(points[0][0], math.inf), *corners, (math.inf, points[-1][1])]:
        options = [
            Line(d, d.total(energy, latency) * (1 - CLOSE))
            for d in directions
            if (energy < math.inf or not d.weights.energy) and (latency < math.inf or not d.weights.latency)
        ]
        line = min(options, key=lambda line: line.slack)
        if line.most <= line.direction.least:
            continue
        before = lines.get(line.direction.weights)
        if before is None or before.most < line.most:
            lines[line.direction.weights] = line
    return list(lines.values())
