"""Where the time of a search goes: every step that it says, and how long that took."""

from __future__ import annotations

import time
from collections.abc import Callable

from fusiest.base.frames import DataTable
from fusiest.mapper.progress import Progress, Step

LAST = Step("checking", "the best mappings as LoopTrees, each evaluated by the model")


class Profile:
    """Hears every step and passes it on. A step is said when it is done: the time since the last one is its own.

    >>> moments = iter([0.0, 2.0, 2.5, 4.0])
    >>> profile = Profile(lambda step: None, lambda: next(moments))
    >>> profile(Step("exploring", "A has 3 pmappings", 1, 2))
    >>> profile(Step("joining", "3 partial mappings", 1, 2))
    >>> print(profile.to_csv(), end="")
    seconds,phase,done,of,what
    2.0000,exploring,1,2,A has 3 pmappings
    0.5000,joining,1,2,3 partial mappings
    1.5000,checking,0,0,"the best mappings as LoopTrees, each evaluated by the model"
    """

    def __init__(self, say: Progress, clock: Callable[[], float] = time.perf_counter) -> None:
        self.say, self.clock = say, clock
        self.steps: list[tuple[float, Step]] = []
        self.last = clock()

    def __call__(self, step: Step) -> None:
        """Note a step."""
        now = self.clock()
        self.steps.append((now - self.last, step))
        self.last = now
        self.say(step)

    def to_csv(self) -> str:
        """A row per step; what came after the last one is the last row."""
        steps = [*self.steps, (self.clock() - self.last, LAST)]
        rows = [(f"{seconds:.4f}", step.phase, step.done, step.total, step.detail) for seconds, step in steps]
        return DataTable(("seconds", "phase", "done", "of", "what"), rows).to_csv()
