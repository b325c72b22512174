"""What a design costs over all workloads, and which designs are best.

A workload that runs n times takes n times its energy and its latency. Energy and latency of a design are the sums of these over
the workloads, each times its weight; its energy-delay product is the weighted sum of the workloads' own. So the best mapping of
each workload makes the best of the design.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fusiest.base.errors import SpecError, did_you_mean, shown
from fusiest.base.objective import CLOSE, OBJECTIVES
from fusiest.spec import CONSTANTS, boolean, names_in, number, parse_expression
from fusiest.sweeps.file.designs import Design
from fusiest.sweeps.file.parameters import Figure, in_order, named
from fusiest.sweeps.file.sweepfile import FIGURES, SweptWorkload, Wanted, check_figures, is_condition

_SIZES = (1e-9, 1e-6, 1e-3, 1.0, 1e3)
"""Joules and seconds that a workload may take: what has a value for none of them has none at all."""


@dataclass(frozen=True)
class DesignFigures:
    """A design with all of its figures."""

    design: Design
    figures: Mapping[str, Figure]
    """Costs by objective, and the area."""

    def __getitem__(self, name: str) -> Figure:
        return self.figures[name]

    def __getattr__(self, name: str) -> Figure:
        """A figure by its name: `design.edp`, `design.area`."""
        if name == "figures" or name not in self.figures:
            raise AttributeError(name)
        return self.figures[name]

    def names(self) -> dict[str, object]:
        """What expressions may name."""
        return {**named(self.design.values), **self.figures}


def design_figures(
    design: Design, area: Figure, costs: Mapping[str, tuple[float, float]], workloads: Sequence[SweptWorkload]
) -> DesignFigures:
    """`costs`: energy and latency of each workload, by its label."""
    figures = {}
    for name, objective in OBJECTIVES.items():
        parts = {w.label: objective.score_of(*(c * w.n_instances for c in costs[w.label])) for w in workloads}
        figures[name] = Figure(sum(w.weight * parts[w.label] for w in workloads), parts)
    return DesignFigures(design, {**figures, "area": area})


def headings(workloads: Sequence[SweptWorkload]) -> dict[str, str]:
    """The heading of each cost. A product of several workloads, or of a weighted one, is none of what stands beside it."""
    note = "" if len(workloads) == 1 and workloads[0].weight == 1 else " (weighted sum)"
    return {name: o.short + (note if o.is_product else "") for name, o in OBJECTIVES.items()}


def check_wanted(want: Wanted, parameters: Iterable[str], labels: Sequence[str]) -> None:
    """Raise if it names what no design has, or if what is to be least is no number. `labels`: of the workloads."""
    heads = {name.split(".")[0] for name in parameters}
    for text in (*((want.minimize,) if want.minimize else ()), *want.subject_to):
        for name in names_in(text) - set(CONSTANTS) - heads - set(FIGURES):
            raise SpecError(f"best: there is no '{name}'{did_you_mean(name, [*FIGURES, *heads])}", text)
        for node in ast.walk(parse_expression(text)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                name, part = node.value.id, node.attr
                if name in FIGURES and name != "area" and part not in labels:
                    raise SpecError(f"best: {name}.{part}: no workload '{part}'{did_you_mean(part, labels)}", text)
    if want.minimize and is_condition(want.minimize):
        raise SpecError(f"minimize: '{shown(want.minimize)}' is no number", want.minimize)
    check_figures(want.pareto)


def check_values(want: Wanted, design: Design, area: Figure, workloads: Sequence[SweptWorkload]) -> None:
    """Raise if nothing that a search could find gives it a value: `edp / 0`."""
    failures = []
    for size in _SIZES:
        costs = {w.label: (1.37 * size * (i + 1), 0.71 * size * (i + 1)) for i, w in enumerate(workloads)}
        figures = design_figures(design, area, costs, workloads)
        try:
            for text in want.subject_to:
                boolean(text, figures.names(), "subject to")
            if want.minimize is not None:
                score(figures, want)
            return
        except SpecError as error:
            failures.append(error)
    raise failures[0]


def allowed(figures: DesignFigures, want: Wanted) -> bool:
    """Whether a design meets all conditions."""
    names = figures.names()
    return all(boolean(text, names, "subject to") for text in want.subject_to)


def score(figures: DesignFigures, want: Wanted) -> float:
    """What is to be least; of a front, the first figure."""
    if want.minimize is None:
        return float(figures[want.pareto[0]])
    return float(number(want.minimize, figures.names(), "minimize"))


def preference(figures: DesignFigures) -> tuple[object, ...]:
    """An order of designs that are equally good: the smaller area first, then the smaller value of each parameter in turn."""
    return (
        float(figures["area"]),
        tuple(in_order(value) for value in figures.design.values.values()),
        figures.design.number,
    )


def best_designs(designs: Iterable[DesignFigures], want: Wanted) -> list[DesignFigures]:
    """The best design, or all that no other dominates, from the first figure's least up."""
    fit = [figures for figures in designs if allowed(figures, want)]
    if want.minimize is None:
        return front_of(fit, want.pareto)
    scores = [score(figures, want) for figures in fit]
    best = [figures for figures, s in zip(fit, scores, strict=True) if math.isclose(s, min(scores), rel_tol=CLOSE)]
    return sorted(best, key=preference)[:1]


def front_of(designs: Sequence[DesignFigures], names: Sequence[str]) -> list[DesignFigures]:
    """Designs that no other dominates in these figures; of equal ones, the one that comes first in `preference`."""
    check_figures(names)
    costs = {figures.design.number: tuple(_rounded(figures[name]) for name in names) for figures in designs}
    front: list[DesignFigures] = []
    # In this order nothing that comes later dominates what came before.
    for figures in sorted(designs, key=lambda figures: (costs[figures.design.number], preference(figures))):
        own_costs = costs[figures.design.number]
        if not any(all(a <= b for a, b in zip(costs[k.design.number], own_costs, strict=True)) for k in front):
            front.append(figures)
    return front


def _rounded(figure: Figure) -> float:
    """A figure to eleven digits: sums that differ in their rounding alone are equal."""
    return float(f"{float(figure):.10e}")
