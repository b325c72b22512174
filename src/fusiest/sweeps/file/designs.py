"""Designs, one after the other: the grid or a sample of it, and what `where` leaves."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from fusiest.base.errors import SpecError, did_you_mean, shown
from fusiest.spec import CONSTANTS, boolean, names_in
from fusiest.sweeps.file.parameters import DesignGrid, Figure, ParameterValue, named
from fusiest.sweeps.file.sweepfile import Sample, SweepFile

MOST_DESIGNS = 10_000_000
"""Most designs of a grid that is gone through."""
BEFORE = ("area",)
"""Figures that are known before a search."""


@dataclass(frozen=True)
class Design:
    """A value for every parameter, and its number in the grid."""

    number: int
    values: Mapping[str, ParameterValue]

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.values.items()) or "the architecture as it is"


@dataclass
class RuledOut:
    """How many designs each condition of `where` ruled out: the first that does not hold counts."""

    looked_at: int = 0
    by: dict[str, int] = field(default_factory=dict)

    def words(self) -> str:
        """In a line."""
        parts = [f"'{shown(text)}' rules out {count:,}" for text, count in self.by.items() if count]
        return f"of {self.looked_at:,} designs, {', '.join(parts) or 'none is ruled out'}"


class Designs:
    """The designs of a sweep. Going through them takes no memory, whatever their number."""

    def __init__(self, sweep: SweepFile, area: Callable[[Design], Figure] | None = None) -> None:
        """`area`: square metres of a design, if a condition asks for them."""
        self.sweep, self.area = sweep, area
        self.grid = DesignGrid(sweep.parameters)
        self.chosen: list[int] = []
        """The next ones, if Optuna chooses."""
        heads = {name.split(".")[0] for name in self.grid.names}
        for text in sweep.where:
            for name in names_in(text) - set(CONSTANTS) - heads - set(BEFORE):
                raise SpecError(
                    f"where: '{name}' is no parameter, and no figure known before a search"
                    f"{did_you_mean(name, [*heads, *BEFORE])}",
                    text,
                )
        self.cheap = [text for text in sweep.where if not names_in(text) & set(BEFORE)]
        self.dear = [text for text in sweep.where if names_in(text) & set(BEFORE)]
        if sweep.sample.kind == "grid" and len(self.grid) > MOST_DESIGNS:
            raise SpecError(
                f"{len(self.grid):,} designs; a grid may have {MOST_DESIGNS:,}: narrow it, or sample: {{random: 1000}}",
                sweep.parameters[0].name,
            )

    def __iter__(self) -> Iterator[Design]:
        return self.going(RuledOut())

    def going(self, out: RuledOut) -> Iterator[Design]:
        """The designs that `where` leaves; what it rules out is counted in `out`."""
        out.by = out.by or dict.fromkeys(self.sweep.where, 0)
        for number in self._numbers(self.sweep.sample):
            out.looked_at += 1
            design = Design(number, self.grid[number])
            if self._holds(design, out):
                yield design

    def design(self, number: int) -> Design:
        """One by its number."""
        return Design(number, self.grid[number])

    def nothing_left(self, out: RuledOut) -> SpecError:
        """What to say if nothing is left."""
        return SpecError(f"where: nothing is left: {out.words()}", self.sweep.where[0] if self.sweep.where else None)

    def _numbers(self, sample: Sample) -> Iterator[int]:
        total = len(self.grid)
        if sample.kind == "optuna":
            yield from self.chosen
            return
        if sample.kind != "random" or sample.count >= total:
            yield from range(total)
            return
        if total <= MOST_DESIGNS:
            yield from random.Random(sample.seed).sample(range(total), sample.count)
            return
        generator, seen = random.Random(sample.seed), set[int]()
        while len(seen) < sample.count:
            number = generator.randrange(total)
            if number not in seen:
                seen.add(number)
                yield number

    def _holds(self, design: Design, out: RuledOut) -> bool:
        names = named(design.values)
        for text in self.cheap:
            if not boolean(text, names, "where"):
                out.by[text] += 1
                return False
        if not self.dear:
            return True
        assert self.area is not None
        names["area"] = self.area(design)
        for text in self.dear:
            if not boolean(text, names, "where"):
                out.by[text] += 1
                return False
        return True
