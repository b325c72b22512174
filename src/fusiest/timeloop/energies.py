"""Timeloop's energy and area tables: joules and square metres of each level, by the level's own name."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from fusiest.base.errors import SpecError
from fusiest.timeloop.sections import FileTable, name_in, number_of, table_of, tables_in

PICOJOULE, SQUARE_MICROMETRE = 1e-12, 1e-12
_LAST = re.compile(r"([^.\[\]]+)(\[[^\]]*\])?\Z")


@dataclass(slots=True)
class LevelEnergies:
    """Picojoules of each action, and square micrometres, as the tables say."""

    actions: dict[str, float] = field(default_factory=dict)
    area: float | None = None


def read_tables(ert: Any, art: Any) -> dict[str, LevelEnergies]:
    """By the last part of the name that the tables use, such as `DRAM` for `system.DRAM[1..1]`."""
    energies: dict[str, LevelEnergies] = {}
    for entry in _entries(ert, "ERT"):
        level_energies = energies.setdefault(_last_part(entry), LevelEnergies())
        for action in tables_in(entry.get("actions") or [], "actions", entry.source):
            name = str(name_in(action, "name", "an action"))
            energy = float(number_of(action.get("energy", 0), f"the energy of {name}", {}, action.source))
            if not 0 <= energy < float("inf"):
                raise SpecError(f"the energy of {name} must not be negative", action.source)
            # An action may be listed once for each of its arguments; Timeloop takes the dearest.
            level_energies.actions[name] = max(level_energies.actions.get(name, 0.0), energy)
    for entry in _entries(art, "ART"):
        area = float(number_of(entry.get("area", 0), "area", {}, entry.source))
        energies.setdefault(_last_part(entry), LevelEnergies()).area = area
    return energies


def _entries(section: Any, label: str) -> list[FileTable]:
    if section is None:
        return []
    table = table_of(section, label)
    return tables_in(table.get("tables") or [], f"{label}.tables", table.source)


def _last_part(entry: FileTable) -> str:
    name = name_in(entry, "name", "a table")
    match = _LAST.search(str(name))
    if not match:
        raise SpecError(f"'{name}' is not the name of a component", entry.source)
    return match[1]
