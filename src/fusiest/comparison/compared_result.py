"""One mapping of a saved result or evaluation, with what is known about the search that found it."""

from __future__ import annotations

from dataclasses import dataclass

from fusiest.looptree import LoopTree
from fusiest.mapper import Result, load_best
from fusiest.model import Evaluation
from fusiest.spec import Spec, known_objective


@dataclass(frozen=True)
class Saved:
    """A result with the one mapping that is compared."""

    file: str
    result: Result
    mappings: int
    """How many the file has."""

    @property
    def spec(self) -> Spec:
        return self.result.spec

    @property
    def looptree(self) -> LoopTree:
        return self.result.mappings[0].looptree

    @property
    def evaluation(self) -> Evaluation:
        return self.result.mappings[0].evaluation

    def about(self) -> str:
        """What was asked for, and what is proven."""
        if not self.result.searched:
            return self.result.proof
        count = f", one of {self.mappings:,} mappings" if self.mappings > 1 else ""
        mapper = f", {self.result.provenance.mapper}" if self.result.provenance.mapper != "fusiest" else ""
        return f"{','.join(self.result.objective)}{count}{mapper}, {self.result.proof}"


def read_result(file: str, by: str | None = None) -> Saved:
    """The mapping of a result that is best by `by`: `energy`, `latency` or `edp`; or that of an evaluation.

    By default, what the search minimized, or `edp` for a front.
    """
    if by is not None:
        known_objective(by)
    chosen = load_best(file, by)
    return Saved(file, chosen.result, chosen.of)
