"""What all mappings of a report have in common: the spec, its names and their colours, the machine and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fusiest.report.charts.colours import Names
from fusiest.report.data.limits import Rate, SpeedLimit, limits
from fusiest.report.data.machine import Machine
from fusiest.spec import Spec


@dataclass(frozen=True)
class Background:
    """Facts of one spec; `unfused` is what the unfused optimum does in each Einsum, empty if there is none."""

    spec: Spec
    unfused: Mapping[str, Rate] = field(default_factory=dict)

    @cached_property
    def names(self) -> Names:
        return Names(self.spec)

    @cached_property
    def machine(self) -> Machine:
        return Machine(self.spec)

    @cached_property
    def limits(self) -> dict[str, SpeedLimit]:
        return limits(self.machine)
