"""What the model says of a mapping: its costs, every action, and what each memory holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fusiest.base.errors import FusiestError, did_you_mean
from fusiest.base.frames import DataTable
from fusiest.base.objective import products_of
from fusiest.model.accesses import AccessKey

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True)
class EinsumEvaluation:
    """One Einsum's share; energies, latencies and actions include `n_instances`."""

    energy: float
    latency: float
    latency_per_component: dict[str, float]
    actions: dict[AccessKey, float]
    energies: dict[AccessKey, float]
    occupancy_bits: dict[tuple[str, str], int | float]
    per_unit: dict[AccessKey, float]
    points: int
    """Points of the iteration space, once: each is a compute action. `operations.py` says how many operations that is."""
    steps: int
    used_fanout: dict[tuple[str, str], int]
    reservation_levels: dict[tuple[str, str], int]

    @property
    def bottleneck(self) -> str:
        """The component that the Einsum waits for: the busiest one; empty if it takes no time."""
        if not self.latency:
            return ""
        return max(self.latency_per_component, key=lambda component: self.latency_per_component[component])


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a mapping costs: joules, seconds, the most bits that each memory holds (per instance), and all of it by Einsum."""

    energy: float
    dynamic_energy: float
    leak_energy: float
    latency: float
    peak_occupancy_bits: dict[str, int | float]
    einsums: dict[str, EinsumEvaluation]
    warnings: tuple[str, ...] = ()
    """Tensors that are used before they are finished or after they were dropped: what such a mapping computes is wrong,
    whatever it costs.

    Each is `Located`, and knows its place in the mapping's file."""

    def __repr__(self) -> str:
        """In one line, joules and seconds."""
        return f"<Evaluation: {self.energy:.4g} J, {self.latency:.4g} s, {len(self.einsums)} Einsums>"

    def _repr_html_(self) -> str:
        from fusiest.report import evaluation_html

        return evaluation_html(self)

    @property
    def edp(self) -> float:
        """Energy-delay product in joule-seconds."""
        return self.energy * self.latency

    def energy_by_component(self) -> dict[str, float]:
        """Joules of each component of the architecture, actions and leakage, over all Einsums."""
        energies: dict[str, float] = {}
        for einsum in self.einsums.values():
            for (component, _, _), joules in einsum.energies.items():
                energies[component] = energies.get(component, 0.0) + joules
        return energies

    def table(self, by: str = "action") -> DataTable:
        """By `action`: a row for each Einsum, component, tensor and action, with its count (none for leakage) and energy.

        By `einsum`: a row for each, with its energy, latency, and the component that it waits for.
        """
        if by == "einsum":
            figures = ((e.energy, e.latency, e.bottleneck or None) for e in self.einsums.values())
            rows = [(name, *row) for name, row in zip(self.einsums, figures, strict=True)]
            return DataTable(("einsum", "energy", "latency", "bottleneck"), rows)
        if by != "action":
            raise FusiestError(f"a table by '{by}' is not known{did_you_mean(by, ('action', 'einsum', 'mapping'))}")
        return DataTable(
            ("einsum", "component", "tensor", "action", "count", "energy"),
            [
                (name, *key, e.actions.get(key), joules)
                for name, e in self.einsums.items()
                for key, joules in e.energies.items()
            ],
        )

    def to_frame(self, by: str = "action") -> pandas.DataFrame:
        """`table` as a pandas DataFrame: joules, seconds, and numbers of actions."""
        return self.table(by).to_frame()

    def to_json(self) -> dict[str, object]:
        """The documented JSON form."""
        return {
            "format": "fusiest-evaluation/1",
            "energy": self.energy,
            "dynamic_energy": self.dynamic_energy,
            "leak_energy": self.leak_energy,
            "latency": self.latency,
            **products_of(self),
            "peak_occupancy_bits": self.peak_occupancy_bits,
            "einsums": {
                name: {
                    "energy": e.energy,
                    "latency": e.latency,
                    "bottleneck": e.bottleneck or None,
                    "latency_per_component": e.latency_per_component,
                    "actions": {"/".join(key): n for key, n in e.actions.items()},
                    "energies": {"/".join(key): joules for key, joules in e.energies.items()},
                    "occupancy_bits": {"/".join(key): bits for key, bits in e.occupancy_bits.items()},
                }
                for name, e in self.einsums.items()
            },
            "warnings": list(self.warnings),
        }
