"""The result of the mapper: mappings with their costs, whether they are proven optimal, and how the search went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from fusiest.base.errors import FusiestError
from fusiest.base.frames import DataTable
from fusiest.base.objective import OBJECTIVES, aim_of, cost_of
from fusiest.looptree import LoopTree
from fusiest.mapper.options import Options
from fusiest.mapper.progress import Progress
from fusiest.mapper.results.provenance import GIVEN, Provenance, made_now
from fusiest.model import Evaluation, area_by_component, leak_power_by_component
from fusiest.show import si
from fusiest.spec import Spec

if TYPE_CHECKING:
    import pandas

Stop: TypeAlias = Literal["time limit", "interrupt", "memory"]
LARGE_GAP = 0.2
"""Costs of results with larger gaps tell little about which of two designs is better."""
_CURES: dict[Stop, str] = {
    "time limit": "Give the search more time (--time-limit)",
    "memory": "Give the search more memory (--memory-limit)",
    "interrupt": "Let the search run to its end",
}


@dataclass(frozen=True)
class Mapping:
    """One complete mapping and its cost as the model evaluates it."""

    looptree: LoopTree
    einsum_order: tuple[str, ...]
    evaluation: Evaluation
    spec: Spec | None = field(default=None, repr=False, compare=False)
    """What it is a mapping of, once it is part of a result."""

    def code(self, language: str = "c") -> str:
        """The mapping as a program: a function in `c` or `tvm`, or `pseudocode`."""
        from fusiest.code import code_text

        if self.spec is None:
            raise FusiestError("this mapping is part of no result: fusiest.code.code_text takes its spec, too")
        return code_text(self.spec, self.looptree, language)

    def __repr__(self) -> str:
        return f"<Mapping: {_costs(self)}>"

    @property
    def energy(self) -> float:
        """Joules."""
        return self.evaluation.energy

    @property
    def latency(self) -> float:
        """Seconds."""
        return self.evaluation.latency

    @property
    def edp(self) -> float:
        """Joule-seconds."""
        return self.evaluation.edp

    def _repr_html_(self) -> str:
        from fusiest.report import warnings_html

        return warnings_html(self.evaluation) + self.looptree._repr_html_()


def _costs(mapping: Mapping) -> str:
    return ", ".join(si(cost_of(mapping, name), objective.unit) for name, objective in OBJECTIVES.items())


@dataclass(frozen=True)
class FunnelStep:
    """Counts of one join."""

    finished: int
    """Einsums joined so far."""
    compatible: int
    """Pairs of rows in compatible groups that may still lead to a better mapping."""
    pairs: int
    """Pairs with equal tiles that fit the memories and may lead to a better mapping."""
    kept: int
    """Rows left after pruning."""
    forms: int
    """Compatibilities of these rows."""


@dataclass(frozen=True)
class Improvement:
    """A better mapping that a baseline found."""

    evaluations: float
    """Evaluations until then."""
    energy: float
    latency: float


@dataclass(frozen=True)
class Stats:
    """Effort of a search: seconds, bytes, and numbers of pmappings and partial mappings."""

    wall_seconds: float = 0.0
    """Elapsed time."""
    exploring_seconds: float = 0.0
    """Part of the elapsed time that the tables of pmappings took."""
    cpu_seconds: float = 0.0
    peak_rss_bytes: int = 0
    pmappings: dict[str, int] = field(default_factory=dict)
    explored: dict[str, int] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    """Number of compatibilities of each Einsum's pmappings: only pmappings of one compete with each other."""
    joined: list[int] = field(default_factory=list)
    funnel: list[FunnelStep] = field(default_factory=list)
    orders: str = "all"
    plans_left: int = 0
    """Plans of windows that may be better but were not searched."""
    most_survivors: int = 0
    """Most partial mappings that survived a join, over all passes."""
    evaluations: float | None = None
    """Evaluations that a baseline was charged for; None for other mappers."""
    history: list[Improvement] = field(default_factory=list)
    """Improvements of a baseline, in order."""


@dataclass(frozen=True)
class Result:
    """Mappings sorted by energy. If they are not proven optimal (time ran out, too many orders), `gap` bounds the loss.

    For every possible mapping, some reported mapping costs at most 1 / (1 - `gap`) times as much in every objective.
    """

    spec: Spec
    objective: tuple[str, ...]
    mappings: list[Mapping]
    optimal: bool
    gap: float
    stats: Stats
    stopped: Stop | None = None
    """What ended the search early, if anything."""
    options: Options = field(default_factory=Options)
    provenance: Provenance = field(default_factory=Provenance)

    def __post_init__(self) -> None:
        if self.provenance == Provenance():
            object.__setattr__(self, "provenance", made_now(self.spec))
        mappings = [
            mapping if mapping.spec is self.spec else replace(mapping, spec=self.spec) for mapping in self.mappings
        ]
        object.__setattr__(self, "mappings", mappings)

    def __repr__(self) -> str:
        """One line with the proof and the costs of the best mapping.

        >>> from fusiest import load, map
        >>> map(load("simple", "matmuls", N_EINSUMS=2, M=64, KN=64), "energy")
        <Result: 1 mapping, proven optimal, least energy 4.459 µJ, 524.3 µs, 2.338 nJs>
        """
        count = f"{len(self.mappings):,} mapping{'s' if len(self.mappings) != 1 else ''}"
        best = f", least {self.aim} {_costs(self.best(self.aim))}" if self.mappings else ""
        return f"<Result: {count}, {self.proof}{best}>"

    @property
    def searched(self) -> bool:
        """Whether a mapper found the mappings; else one was given."""
        return self.provenance.mapper != GIVEN

    @property
    def proof(self) -> str:
        """The claim about better mappings, in words."""
        if not self.searched:
            return "given, not searched for"
        if self.optimal:
            unproven = self.options.minimized.decides_ties if self.stopped is not None else ""
            return f"proven optimal in {self.aim}, not in {unproven}" if unproven else "proven optimal"
        return f"not proven optimal: at most {self.gap:.2%} better is possible"

    @property
    def caution(self) -> str:
        """Warning of a large gap, with what may close it; empty if the gap is small."""
        if self.provenance.mapper != "fusiest" or self.gap <= LARGE_GAP:
            return ""
        cure = ""
        if self.stopped is not None:
            cure = f"{_CURES[self.stopped]}{self._fewer_choices if self.stopped != 'interrupt' else ''}."
        elif self.stats.orders.startswith("given ("):
            cure = "Give --orders given, which says what is best in that order."
        elif self.options.windows != "none":
            cure = "Give --windows none, which says what is best without halos."
        return f"Gap {self.gap:.0%}: another mapping may be that much better. {cure}".rstrip()

    @property
    def _fewer_choices(self) -> str:
        """Options that leave the search fewer choices and are not given yet."""
        most = self.options.max_fused_loops
        fewer = ["--windows none"] if self.options.windows != "none" else []
        fewer += ["--max-fused-loops 1"] if most is None or most > 1 else []
        return f", or leave it fewer choices ({', '.join(fewer)})" if fewer else ""

    @property
    def area(self) -> float | None:
        """Area of the architecture in square metres, all instances; None if no component has one."""
        return sum(area_by_component(self.spec).values()) or None

    @property
    def domain(self) -> list[str]:
        """The mappings among which the best ones were searched, in phrases: the domain of the optimum."""
        from fusiest.mapper.results.domain import WindowsSeen, domain

        seen = WindowsSeen(self.optimal, self.stats.plans_left)
        return domain(self.spec, self.options, self.stats.orders, seen) if self.searched else []

    @property
    def advice(self) -> list[str]:
        """Notes on what may be worth trying beyond the domain."""
        from fusiest.pmapping import search_notes

        return list(search_notes(self.spec, self.options.imperfect)) if self.searched else []

    @property
    def leak_power(self) -> float:
        """Leakage power of the architecture in watts, all instances, none of them gated off."""
        return sum(leak_power_by_component(self.spec).values())

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search."""
        return self.stopped == "interrupt"

    @property
    def aim(self) -> str:
        """The objective by which one mapping is the best; of a front, the energy-delay product."""
        return aim_of(self.objective)

    def best(self, objective: str = "edp") -> Mapping:
        """The mapping that is best by an objective, such as `energy`, `latency` or `edp`; ties go to the smaller other cost."""
        if str(objective) not in OBJECTIVES:
            raise FusiestError(f"objective '{objective}' is none of {', '.join(OBJECTIVES)}")
        return min(self.mappings, key=lambda m: (cost_of(m, objective), m.energy, m.latency))

    def report(
        self, path: str | Path | None = None, title: str = "", progress: Progress | None = None, unfused: bool = True
    ) -> str:
        """One self-contained HTML page on this result, written to `path` if one is given.

        The unfused optimum, which it is compared with, is searched for here; not if `unfused` is false.
        """
        from fusiest.base.files import write_atomically
        from fusiest.report import report_html, subject_of

        page = report_html(subject_of(self, title, progress=progress, unfused=unfused))
        if path is not None:
            write_atomically(path, page)
        return page

    def charts(
        self,
        folder: str | Path,
        mapping: Mapping | None = None,
        formats: Sequence[str] = ("svg", "png"),
        unfused: bool = True,
    ) -> list[Path]:
        """Every chart of the report as files, of the best mapping or the given one. Needs `fusiest[charts]`."""
        from fusiest.report import save_charts, subject_of

        return save_charts(subject_of(self, unfused=unfused), folder, mapping, formats)

    def table(self, by: str = "action") -> DataTable:
        """Rows by `action`, rows by `einsum` with all that is known of each layer, for each mapping; or one by `mapping`."""
        if by == "mapping":
            memories = list(dict.fromkeys(name for m in self.mappings for name in m.evaluation.peak_occupancy_bits))
            figures = ("dynamic_energy", "leak_energy")
            columns = ("mapping", *OBJECTIVES, *figures, *(f"{name}_peak_bits" for name in memories))
            evaluations = [m.evaluation for m in self.mappings]
            costs = [
                (*(cost_of(e, name) for name in OBJECTIVES), *(getattr(e, name) for name in figures))
                for e in evaluations
            ]
            sizes = [tuple(e.peak_occupancy_bits.get(name, 0) for name in memories) for e in evaluations]
            return DataTable(columns, [(i, *costs[i - 1], *sizes[i - 1]) for i in range(1, len(evaluations) + 1)])
        if by == "einsum":
            from fusiest.report import layer_tables

            tables = layer_tables(self.spec, [(m.looptree, m.evaluation) for m in self.mappings])
        else:
            tables = [m.evaluation.table(by) for m in self.mappings]
        rows = [(i, *row) for i, table in enumerate(tables, start=1) for row in table.rows]
        return DataTable(("mapping", *tables[0].columns), rows)

    def to_frame(self, by: str = "action") -> pandas.DataFrame:
        """`table` as a pandas DataFrame: joules, seconds, bits, and numbers of actions. Mappings are numbered from 1."""
        return self.table(by).to_frame()

    def _repr_html_(self) -> str:
        from fusiest.report import result_html

        return result_html(self)

    def to_json(self) -> dict[str, object]:
        """The documented JSON form. It holds the spec, so that a result can be read without the files it came from."""
        from fusiest.mapper.results.document import result_json

        return result_json(self)

    def save(self, path: str | Path) -> None:
        """Write the JSON form to a file, which `Result.load` reads."""
        from fusiest.base.files import write_atomically
        from fusiest.mapper.results.document import json_text

        write_atomically(path, json_text(self.to_json()))

    @staticmethod
    def load(path: str | Path) -> Result:
        """A result that `save` or `fusiest map --json` wrote. Each mapping in it is evaluated again, and must cost what it says."""
        from fusiest.mapper.results.saved import load_result

        return load_result(path)
