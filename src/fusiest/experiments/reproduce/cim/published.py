"""Published values of compute-in-memory chips: those that come with fusiest, and files of others."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources

from fusiest.base.errors import Source, SpecError, did_you_mean, shown
from fusiest.spec import MapNode, ScalarNode, YamlNode, known_fields, load_nodes, read_list, read_text, text_of_file

ChipCondition = int | float | bool | str
QUANTITIES = {
    "area": "m^2", "power": "W", "latency": "s", "throughput": "OPS", "throughput_per_area": "OPS/m^2", "ops_per_joule": "OPS/W",
    "energy_per_mac": "J/MAC", "energy_per_array": "J", "converts_per_mac": "converts/MAC",
}  # fmt: skip
"""What can be published of a chip, and its SI unit."""
_PREFIXES = {"f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "c": 1e-2, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9,
             "T": 1e12, "P": 1e15}  # fmt: skip


@dataclass(frozen=True)
class Published:
    """One value of a chip; `sets` if a constant of the chip's parts follows from it, otherwise it is predicted."""

    chip: str
    figure: str
    quantity: str
    component: str
    conditions: dict[str, ChipCondition]
    value: float
    unit: str
    sets: bool = False
    source: Source | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What the value is of."""
        conditions = tuple(sorted((name, str(value)) for name, value in self.conditions.items()))
        return self.chip, self.figure, self.quantity, self.component, conditions

    @property
    def factor(self) -> float:
        """From the value's unit to SI."""
        return unit_factor(self.unit, self.quantity, self.source)


def unit_factor(unit: str, quantity: str, source: Source | None = None) -> float:
    """What one of a unit is in SI.

    >>> unit_factor("TOPS/mm^2", "throughput_per_area"), unit_factor("nJ per full array", "energy_per_array")
    (1e+18, 1e-09)
    """
    expected = QUANTITIES[quantity]
    over, per, under = unit.removesuffix(" per full array").removesuffix(" per array").partition("/")
    above = re.fullmatch(r"([fpnuµmckMGTP]?)(m\^2|OPS|J|W|s|converts)", over)
    below = re.fullmatch(r"([fpnuµmck]?)(m\^2|W|MAC)", under) if per else None
    named = (above[2] if above else "") + (f"/{below[2]}" if below else per)
    if above is None or named not in (expected, expected.removesuffix("/MAC")):
        raise SpecError(f"unit '{shown(unit)}' is none of {quantity}, whose unit is {expected}", at=source)
    factor = _PREFIXES[above[1]] ** (2 if above[2] == "m^2" else 1)
    if below is not None:
        factor /= _PREFIXES[below[1]] ** (2 if below[2] == "m^2" else 1)
    return float(f"{factor:.12g}")


def bundled_values() -> list[Published]:
    """The values that come with fusiest."""
    text = (resources.files("fusiest.experiments.reproduce") / "data" / "cim.csv").read_text(encoding="utf-8")
    return [
        Published(
            chip=row["chip"],
            figure=row["figure"],
            quantity=row["quantity"],
            component=row["component"],
            conditions=dict(_condition(pair) for pair in row["conditions"].split("; ") if pair),
            value=float(row["value"]),
            unit=row["unit"],
            sets=row["role"] == "sets",
        )
        for row in csv.DictReader(text.splitlines())
    ]


def _condition(pair: str) -> tuple[str, ChipCondition]:
    name, _, text = pair.partition("=")
    if text in ("true", "false"):
        return name, text == "true"
    try:
        number = float(text)
    except ValueError:
        return name, text
    return name, int(number) if number == int(number) and "." not in text else number


def values_of_file(file: str) -> list[Published]:
    """The values of a file: `chip`, and `values`, each with quantity, component, conditions, value and unit."""
    nodes = load_nodes(file, text_of_file(file), {})
    fields = known_fields(nodes, file, ("chip", "paper", "technology_nm", "description", "values"))
    for name in ("chip", "values"):
        if name not in fields:
            raise SpecError(f"{file} needs '{name}:'", at=nodes.source)
    chip = read_text(fields["chip"], "chip")
    values: tuple[Published, ...] = read_list(
        fields["values"], "values", lambda node, what: _published(node, what, str(chip))
    )
    setting = {value.key for value in bundled_values() if value.sets}
    return [replace(value, sets=value.key in setting) for value in values]


def _published(node: YamlNode, what: str, chip: str) -> Published:
    fields = known_fields(node, what, ("figure", "quantity", "component", "conditions", "value", "unit"))
    for name in ("quantity", "value", "unit"):
        if name not in fields:
            raise SpecError(f"a published value needs '{name}:'", at=node.source)
    quantity = str(read_text(fields["quantity"], "quantity"))
    if quantity not in QUANTITIES:
        raise SpecError(
            f"quantity '{shown(quantity)}' is not known{did_you_mean(quantity, QUANTITIES)}",
            at=fields["quantity"].source,
        )
    value = _number(fields["value"])
    published = Published(
        chip=chip,
        figure=_text(fields, "figure"),
        quantity=quantity,
        component=_text(fields, "component"),
        conditions=_conditions(fields.get("conditions")),
        value=value,
        unit=_text(fields, "unit"),
        source=node.source,
    )
    _ = published.factor
    return published


def _text(fields: Mapping[str, YamlNode], name: str) -> str:
    return str(read_text(fields[name], name)) if name in fields else ""


def _number(node: YamlNode) -> float:
    value = node.value if isinstance(node, ScalarNode) else None
    try:
        number = float(value) if not isinstance(value, bool) else math.nan  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < math.inf:
        raise SpecError("a published value must be a positive number", at=node.source)
    return number


def _conditions(node: YamlNode | None) -> dict[str, ChipCondition]:
    if node is None:
        return {}
    if not isinstance(node, MapNode):
        raise SpecError("conditions must be a table, {voltage: 0.8, …}", at=node.source)
    conditions: dict[str, ChipCondition] = {}
    for key, value in node.items:
        if not isinstance(value, ScalarNode) or value.value is None:
            raise SpecError(f"condition {shown(key.value)} must be a number, true, false or text", at=key.source)
        conditions[str(key.value)] = value.value
    return conditions
