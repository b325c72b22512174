"""Runs that need no search, because another run's proof covers them. docs/sweep.md has the proofs.

Inside a family, a design that is at least as good in every figure allows every mapping that the other allows, and none costs
more on it. So if its optimal mappings are valid on the other design and cost the same there, they are optimal there, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fusiest.sweeps.reuse.canonical import RunForm
from fusiest.sweeps.reuse.design_bounds import LeastCosts, both_hold

CANDIDATES = 3
"""Most runs that are tried whose proofs may cover another."""


@dataclass
class Proofs:
    """Searched runs with proven results, by family."""

    forms: dict[str, list[RunForm]] = field(default_factory=dict)
    costs: dict[str, LeastCosts] = field(default_factory=dict)
    """What each of them costs at least, by hash."""
    reached: dict[str, list[RunForm]] = field(default_factory=dict)
    """Runs that each of them was seen to cover, by hash."""
    needs: dict[str, RunForm] = field(default_factory=dict)
    """What the mappings of each of them need, as far as that is known, by hash."""

    def add(self, form: RunForm, costs: LeastCosts) -> None:
        """A run whose result is proven."""
        if form.hash not in self.costs:
            self.costs[form.hash] = costs
            self.forms.setdefault(form.family, []).append(form)

    def need(self, form: RunForm, least: RunForm) -> None:
        """The sizes that a run's mappings need: with less, they are valid nowhere."""
        self.needs[form.hash] = least

    def least(self, form: RunForm, least: LeastCosts) -> LeastCosts:
        """What a run costs at least: no less than on designs that are nowhere worse."""
        for proven in self.forms.get(form.family, ()):
            if proven.nowhere_worse(form):
                least = both_hold(least, self.costs[proven.hash])
        return least

    def cover(self, source: str, form: RunForm) -> None:
        """A run was seen to be covered."""
        self.reached.setdefault(source, []).append(form)

    def between(self, form: RunForm) -> str | None:
        """A proof that covers a run on a better and on a worse design, and so this one: what its mappings cost lies between."""
        for proven in self.forms.get(form.family, ()):
            if proven.nowhere_worse(form) and any(
                form.nowhere_worse(covered) for covered in self.reached.get(proven.hash, ())
            ):
                return proven.hash
        return None

    def candidates(self, form: RunForm) -> list[RunForm]:
        """Runs on designs that are nowhere worse, the closest first.

        If a design lies between, in every figure, it is tried alone: were the proof of the better one to hold here, it would
        hold there, too, and the design between would not have been searched.
        """
        better = [
            proven
            for proven in self.forms.get(form.family, ())
            if proven.nowhere_worse(form) and proven.hash != form.hash
        ]
        closest = [
            proven
            for proven in better
            if not any(nearer is not proven and proven.nowhere_worse(nearer) for nearer in better)
        ]
        fitting = [
            proven for proven in closest if proven.hash not in self.needs or form.has_room(self.needs[proven.hash])
        ]
        return sorted(fitting, key=lambda proven: proven.figures)[:CANDIDATES]


def in_order(forms: Iterable[RunForm]) -> list[RunForm]:
    """Runs such that none comes before one that is nowhere worse: what may cover others is searched first.

    If a is nowhere worse than b in every figure and not equal to it, then its figures come later in the order of words.
    """
    return sorted(forms, key=lambda form: (form.family, tuple(-figure for figure in form.figures)))
