"""Designs that Optuna chooses, round by round, by what those before cost: a sample of a grid that is too large to go through.

Rounds are of one size, whatever the number of processes: with the same seed, the same command chooses the same designs, so one that
was stopped finds its earlier answers and goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fusiest.base.errors import FusiestError
from fusiest.sweeps.file.designs import Design
from fusiest.sweeps.file.sweepfile import Wanted
from fusiest.sweeps.runs.attempt import Hands
from fusiest.sweeps.runs.driver import Driver, run_all
from fusiest.sweeps.views.answers import Answer
from fusiest.sweeps.views.best_designs import allowed, design_figures, score

ROUND = 10
"""Designs that are chosen at a time."""


def run_guided(driver: Driver, hands: Hands, want: Wanted, watch: Callable[[], None]) -> Iterator[Answer]:
    """Run designs that are chosen round by round, as many as the sample has; one that is chosen again costs nothing."""
    guide = Guide(driver, want)
    for begin in range(0, driver.sweep.sample.count, ROUND):
        chosen = guide.chosen(min(ROUND, driver.sweep.sample.count - begin))
        driver.designs.chosen = list(dict.fromkeys(n for n, _ in chosen if n not in guide.values))
        answers: dict[int, list[Answer]] = {}
        for answer in run_all(driver, hands, watch, anything=False):
            answers.setdefault(answer.design.number, []).append(answer)
            yield answer
        guide.learn(answers)
        guide.tell(chosen)
    if not driver.counts.total:
        raise driver.designs.nothing_left(driver.out)


class Guide:
    """Optuna's study of a sweep: each free parameter is the number of one of its values."""

    def __init__(self, driver: Driver, want: Wanted) -> None:
        try:
            import optuna
        except ImportError:
            raise FusiestError("sample: {optuna: …} needs Optuna: pip install 'fusiest[optuna]'") from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.driver, self.want, self.states = driver, want, optuna.trial.TrialState
        sampler = optuna.samplers.TPESampler(seed=driver.sweep.sample.seed)
        self.study = optuna.create_study(directions=["minimize"] * max(1, len(want.pareto)), sampler=sampler)
        self.values: dict[int, list[float] | None] = {}
        """By design: what is to be least; None if it is not allowed, or has no mapping."""

    def chosen(self, count: int) -> list[tuple[int, Any]]:
        """The numbers of so many designs, each with Optuna's trial."""
        trials = []
        for _ in range(count):
            trial, number = self.study.ask(), 0
            for parameter in self.driver.designs.grid.free:
                most = len(parameter.values) - 1
                number = number * (most + 1) + (trial.suggest_int(parameter.name, 0, most) if most else 0)
            trials.append((number, trial))
        return trials

    def learn(self, answers: dict[int, list[Answer]]) -> None:
        """What designs cost, of which all answers are there."""
        for number, of_design in answers.items():
            self.values[number] = self._values(of_design[0].design, of_design)

    def tell(self, chosen: list[tuple[int, Any]]) -> None:
        """What became of the trials."""
        bad = self.states.FAIL if self.want.pareto else self.states.PRUNED
        for number, trial in chosen:
            values = self.values.get(number)
            if values is None:
                self.study.tell(trial, state=bad)
            else:
                self.study.tell(trial, values)

    def _values(self, design: Design, answers: list[Answer]) -> list[float] | None:
        costs = {a.workload.label: pair for a in answers if (pair := a.row.costs) is not None}
        workloads = self.driver.sweep.workloads
        if len(costs) < len(workloads):
            return None
        figures = design_figures(design, self.driver.chips.area(design), costs, workloads)
        if not allowed(figures, self.want):
            return None
        return [float(figures[name]) for name in self.want.pareto] or [score(figures, self.want)]
