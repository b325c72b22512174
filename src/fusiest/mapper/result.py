"""What the mapper returns: mappings with their costs, whether they are proven optimal, and how the search went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from fusiest.errors import FusiestError
from fusiest.looptree.nodes import LoopTree
from fusiest.mapper.options import Options
from fusiest.mapper.progress import Progress
from fusiest.model.evaluate import Evaluation
from fusiest.model.fusion import fused_sets
from fusiest.spec.dump import dump, dump_mapping
from fusiest.spec.spec import Spec

Stop: TypeAlias = Literal["time limit", "interrupt", "memory"]


@dataclass(frozen=True)
class Mapping:
    """One complete mapping and its cost as the model evaluates it."""

    looptree: LoopTree
    einsum_order: tuple[str, ...]
    evaluation: Evaluation

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
        from fusiest.report.notebook import warnings_html

        return warnings_html(self) + self.looptree._repr_html_()


@dataclass(frozen=True)
class FunnelStep:
    """One join: how many Einsums are then finished; pairs of compatible groups that may still lead to something better;
    those whose tiles match, that fit the memories and may do so themselves; what no other dominates, in how many forms."""

    finished: int
    compatible: int
    pairs: int
    kept: int
    forms: int


@dataclass(frozen=True)
class Improvement:
    """A baseline found a better mapping after so many evaluations."""

    evaluations: float
    energy: float
    latency: float


@dataclass
class Stats:
    wall_seconds: float = 0.0
    exploring_seconds: float = 0.0
    """Of these, for the tables of pmappings."""
    cpu_seconds: float = 0.0
    peak_rss_bytes: int = 0
    pmappings: dict[str, int] = field(default_factory=dict)
    explored: dict[str, int] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    """Per Einsum, forms of its pmappings: only those of one form compete with each other."""
    joined: list[int] = field(default_factory=list)
    funnel: list[FunnelStep] = field(default_factory=list)
    orders: str = "all"
    most_survivors: int = 0
    """Partial mappings that survived a join: the most, over all passes."""
    evaluations: float | None = None
    """Of a baseline: pmappings that it was charged for."""
    history: list[Improvement] = field(default_factory=list)
    """Of a baseline: each mapping that was better than all before it."""


@dataclass
class Result:
    """Mappings sorted by energy. If they are not proven optimal (time ran out, too many orders), `gap` bounds what was missed.

    For every mapping there is one of these of which 1 - `gap` times every cost asked for is not more.
    """

    spec: Spec
    objective: tuple[str, ...]
    mappings: list[Mapping]
    optimal: bool
    gap: float
    stats: Stats
    stopped: Stop | None = None
    """What ended the search before it was done."""
    options: Options = field(default_factory=Options)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search."""
        return self.stopped == "interrupt"

    @property
    def aim(self) -> str:
        """The objective by which one mapping is the best; of a front, the energy-delay product."""
        return self.objective[0] if len(self.objective) == 1 else "edp"

    def best(self, objective: str = "edp") -> Mapping:
        """The mapping that is best by `energy`, `latency` or `edp`; ties go to the smaller other cost."""
        if objective not in ("energy", "latency", "edp"):
            raise FusiestError(f"objective '{objective}' is none of energy, latency, edp")
        return min(self.mappings, key=lambda m: (getattr(m, objective), m.energy, m.latency))

    def report(
        self, path: str | Path | None = None, title: str = "", progress: Progress | None = None, unfused: bool = True
    ) -> str:
        """One self-contained HTML page on this result, written to `path` if one is given.

        The unfused optimum, which it is compared with, is searched for here; not if `unfused` is false.
        """
        from fusiest.files import write_atomically
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

    def _repr_html_(self) -> str:
        from fusiest.report.notebook import result_html

        return result_html(self)

    def to_json(self) -> dict[str, object]:
        """The documented JSON form. It holds the spec, so that a result can be read without the files it came from."""
        return {
            "format": "fusiest-result/1",
            "objective": list(self.objective),
            "optimal": self.optimal,
            "gap": self.gap,
            "mappings": [self._mapping_json(m) for m in self.mappings],
            "spec": dump(self.spec),
            "stats": {**self._stats_json(), **self._baseline_json()},
        }

    def _stats_json(self) -> dict[str, object]:
        return {
            "wall_seconds": self.stats.wall_seconds,
            "cpu_seconds": self.stats.cpu_seconds,
            "peak_rss_bytes": self.stats.peak_rss_bytes,
            "pmappings": self.stats.pmappings,
            "joined": self.stats.joined,
            "explored": self.stats.explored,
            "groups": self.stats.groups,
            "orders": self.stats.orders,
            "funnel": [
                {"finished": f.finished, "compatible": f.compatible, "pairs": f.pairs, "kept": f.kept, "forms": f.forms}
                for f in self.stats.funnel
            ],
        }

    def _baseline_json(self) -> dict[str, object]:
        if self.stats.evaluations is None:
            return {}
        return {
            "evaluations": self.stats.evaluations,
            "history": [
                {"evaluations": h.evaluations, "energy": h.energy, "latency": h.latency} for h in self.stats.history
            ],
        }

    def _mapping_json(self, mapping: Mapping) -> dict[str, object]:
        return {
            "energy": mapping.energy,
            "latency": mapping.latency,
            "edp": mapping.edp,
            "einsum_order": list(mapping.einsum_order),
            "mapping": dump_mapping(mapping.looptree),
            "peak_occupancy_bits": dict(mapping.evaluation.peak_occupancy_bits),
            "energy_by_component": mapping.evaluation.energy_by_component(),
            "warnings": list(mapping.evaluation.warnings),
            "fused_sets": [list(fused.einsums) for fused in fused_sets(self.spec, mapping.looptree)],
        }
