"""Designs that cannot be what is asked for, whatever a search would find: what they take at least is already too much."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fusiest.base.objective import OBJECTIVES
from fusiest.spec import boolean, names_in, number, parse_expression
from fusiest.sweeps.file.designs import Design
from fusiest.sweeps.file.parameters import Figure
from fusiest.sweeps.file.sweepfile import FIGURES, SweptWorkload, Wanted
from fusiest.sweeps.reuse.design_bounds import LeastCosts
from fusiest.sweeps.views.best_designs import DesignFigures, allowed, preference, score

_SAME = 1 - 1e-11
"""Sums that are so close, relatively, are the same."""


def least_figures(
    design: Design, area: Figure, least: Mapping[str, LeastCosts], workloads: Sequence[SweptWorkload]
) -> DesignFigures:
    """A design's figures from what each workload takes at least."""
    figures = {}
    for name, objective in OBJECTIVES.items():
        parts = {w.label: least[w.label][name] * w.n_instances ** sum(objective.powers) for w in workloads}
        figures[name] = Figure(sum(w.weight * parts[w.label] for w in workloads), parts)
    return DesignFigures(design, {**figures, "area": area})


@dataclass
class Pruner:
    """What is asked for, and the designs that are known to be allowed."""

    want: Wanted
    designs: list[DesignFigures] = field(default_factory=list)
    best: float = float("inf")
    leader: tuple[object, ...] = ()
    """The `preference` of the best design, of those that are equally good."""

    @property
    def useful(self) -> bool:
        """Whether bounds say anything about what is asked for."""
        return bool(self.want.pareto) or self.want.minimize in OBJECTIVES or bool(self._upper())

    def add(self, figures: DesignFigures) -> None:
        """A design of which all is known."""
        if not allowed(figures, self.want):
            return
        if self.want.minimize is not None:
            self._lead(score(figures, self.want), preference(figures))
        else:
            self.designs.append(figures)

    def _lead(self, value: float, place: tuple[object, ...]) -> None:
        same = math.isclose(value, self.best, rel_tol=1 - _SAME)
        if (same and place < self.leader) or (not same and value < self.best):
            self.leader = place
        self.best = min(self.best, value)

    def least_score(self, least: DesignFigures) -> float:
        """What designs are ordered by."""
        names = [self.want.minimize] if self.want.minimize in OBJECTIVES else list(self.want.pareto) or ["edp"]
        return float(least[str(names[0])]) if names[0] in FIGURES else 0.0

    def reason(self, least: DesignFigures, ties: bool = False) -> str | None:
        """Why a design that takes at least this cannot be what is asked for; None if it can.

        `ties`: nor one that may be as good as what is known, but no better, and that comes later in `preference`.
        """
        for text in self.want.subject_to:
            if not names_in(text) & set(OBJECTIVES):
                if not boolean(text, least.names(), "subject to"):
                    return f"not {text}"
            elif text in self._upper() and not boolean(text, least.names(), "subject to"):
                return f"not {text}: it takes {_left_side(text, least):.4g} at least"
        if self.want.minimize in OBJECTIVES:
            value = float(least[str(self.want.minimize)])
            later = ties and value >= self.best * _SAME and self.leader < preference(least)
            if value * _SAME > self.best or later:
                return f"{self.want.minimize} is {value:.4g} at least, and {self.best:.4g} is known"
        if self.want.pareto:
            costs = [float(least[name]) for name in self.want.pareto]
            for other in self.designs:
                rival = [float(other[name]) for name in self.want.pareto]
                tie = ties and preference(other) < preference(least)
                if all(a * _SAME <= b for a, b in zip(rival, costs, strict=True)) if tie else _dominates(rival, costs):
                    return f"{other.design} is better in {', '.join(self.want.pareto)}"
        return None

    def _upper(self) -> list[str]:
        """Conditions that say that a figure must not be more than something."""
        return [text for text in self.want.subject_to if _is_upper(text)]


def _dominates(a: Sequence[float], b: Sequence[float]) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True)) and a != b


def _is_upper(text: str) -> bool:
    tree = parse_expression(text)
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1 or not isinstance(tree.ops[0], (ast.Lt, ast.LtE)):
        return False
    head = tree.left.value if isinstance(tree.left, ast.Attribute) else tree.left
    right = names_in(ast.unparse(tree.comparators[0])) & set(OBJECTIVES)
    return isinstance(head, ast.Name) and head.id in OBJECTIVES and not right


def _left_side(text: str, least: DesignFigures) -> float:
    tree = parse_expression(text)
    assert isinstance(tree, ast.Compare)
    return number(ast.unparse(tree.left), least.names(), "subject to")
