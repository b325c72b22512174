"""What the classes share: common attributes, scaling a published part to a node and a supply, sums of parts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from fusiest.components.classes import MAX_NODE, MIN_NODE, ActionCost, Attribute, Attributes, AttributeValue, Figures
from fusiest.components.scaling import area_scale, energy_scale, supply_scales, time_scale

TECH_NODE = Attribute("tech_node", "technology node", "m", MIN_NODE, MAX_NODE, required=True, zero=True)
SUPPLY = Attribute("voltage", "supply; the node's nominal one if not given", "V", 0.0, 5.0)
VOLTAGE = Attribute("voltage", "of the supply", "V", high=1e3, required=True)
VOLTAGE_NOTE = "assumed: energy goes with the square of the supply, leakage with it, delay by the alpha-power law"


def bits(name: str, meaning: str, default: int | None = None, required: bool = False) -> Attribute:
    """An attribute that counts bits."""
    return Attribute(name, meaning, "bits", 0, 2**40, default=default, required=required, whole=True)


def number(attributes: Attributes, name: str) -> float:
    """An attribute that is a number."""
    value = attributes[name]
    assert isinstance(value, (int, float))
    return value


def optional(attributes: Attributes, name: str) -> float | None:
    """An attribute that is a number, if it is given."""
    return number(attributes, name) if name in attributes else None


def listed(attributes: Attributes, name: str) -> tuple[float, ...]:
    """An attribute that is a list."""
    value = attributes[name]
    assert isinstance(value, tuple)
    return value


def scaled(figures: Figures, energy: float, area: float, leak_power: float, time: float) -> Figures:
    """The figures, with energies, areas, leakages and times multiplied."""
    actions = {
        name: ActionCost(action.energy * energy, action.throughput / time, action.latency * time)
        for name, action in figures.actions.items()
    }
    return replace(figures, actions=actions, area=figures.area * area, leak_power=figures.leak_power * leak_power)


def beside(attributes: Attributes, width: AttributeValue) -> dict[str, AttributeValue]:
    """What a part of this width is made with: the node and the supply of these attributes."""
    return {**{name: attributes[name] for name in ("tech_node", "voltage") if name in attributes}, "width": width}


def at_node(figures: Figures, attributes: Attributes, reference: float) -> Figures:
    """A part published at a reference node, at the node and supply that are asked for."""
    node = number(attributes, "tech_node")
    energy = energy_scale(node, reference)
    at_any_supply = scaled(figures, energy, area_scale(node, reference), energy, time_scale(node, reference))
    return at_supply(at_any_supply, attributes)


def at_supply(figures: Figures, attributes: Attributes) -> Figures:
    """The figures at the attribute `voltage`, for a class without a law of its own."""
    voltage = optional(attributes, "voltage")
    if voltage is None:
        return figures
    energy, leakage, delay = supply_scales(voltage, number(attributes, "tech_node"))
    return replace(scaled(figures, energy, 1.0, leakage, delay), notes=(*figures.notes, VOLTAGE_NOTE))


def in_sequence(*actions: ActionCost) -> ActionCost:
    """One action after the other: energies and latencies add up, the slowest sets the rate."""
    return ActionCost(
        sum(a.energy for a in actions), min(a.throughput for a in actions), sum(a.latency for a in actions)
    )


def together(
    parts: Iterable[tuple[float, Figures]],
    actions: Mapping[str, ActionCost],
    resolved: Mapping[str, AttributeValue] | None = None,
) -> Figures:
    """A component of so many of each part, whose actions are given."""
    listed_parts = list(parts)
    notes = dict.fromkeys(note for _, part in listed_parts for note in part.notes)
    return Figures(
        actions=actions,
        area=math.fsum(count * part.area for count, part in listed_parts),
        leak_power=math.fsum(count * part.leak_power for count, part in listed_parts),
        notes=tuple(notes),
        resolved=resolved or {},
    )
