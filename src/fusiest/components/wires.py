"""Capacitors and wires: what it takes to charge them, and repeated wires as CACTI lays them out."""

from __future__ import annotations

import math
from typing import NamedTuple

from fusiest.components.classes import MAX_NODE, MIN_NODE, ActionCost, Attribute, Attributes, ComponentClass, Figures
from fusiest.components.parts import TECH_NODE, bits, number, optional
from fusiest.components.scaling import log_line

_NODES = (22.0, 32.0, 45.0, 65.0, 90.0)
_ENERGY = (0.187003e-9, 0.293202e-9, 0.375659e-9, 0.497548e-9, 0.624804e-9)
"""Joules per bit and metre, by node."""
_DELAY = (635.660e-9, 533.786e-9, 431.330e-9, 371.557e-9, 317.152e-9)
"""Seconds per metre."""
_LEAKAGE = (3.269632e-6, 0.542388e-6, 0.1793046e-6, 1.1751422e-6, 0.4062091e-6)
"""Watts per bit and metre."""

NO_NODE = Attribute("tech_node", "accepted, but without effect on it", "m", MIN_NODE, MAX_NODE, zero=True)
CAPACITANCE_DENSITY = 2e-3
"""Farads per square metre of a metal-oxide-metal capacitor; it changes little with the node."""


class WireConstants(NamedTuple):
    """Constants of a wire, per metre: joules and watts per bit, and seconds."""

    energy: float
    delay: float
    leakage: float


def repeated_wire_constants(node: float) -> WireConstants:
    """Constants of a wire whose repeaters cost 30% of the least delay.

    A power law between CACTI's nodes. Below 22 nm the wire's energy and leakage go with the root of the node and its delay
    stays; above 90 nm all three stay as they are, as do wires' capacitance and the repeaters' spacing over a gate.
    """
    nanometres = min(max(node * 1e9, _NODES[0]), _NODES[-1])
    smaller = math.sqrt(min(node * 1e9 / _NODES[0], 1.0))
    return WireConstants(
        log_line(nanometres, _NODES, _ENERGY) * smaller,
        log_line(nanometres, _NODES, _DELAY),
        log_line(nanometres, _NODES, _LEAKAGE) * smaller,
    )


def capacitor_area(capacitance: float, density: float = CAPACITANCE_DENSITY) -> float:
    return capacitance / density


def capacitor(attributes: Attributes) -> Figures:
    capacitance, voltage = number(attributes, "capacitance"), number(attributes, "voltage")
    swing = optional(attributes, "voltage_swing")
    energy = capacitance * voltage * (voltage if swing is None else swing)
    return Figures({"read": ActionCost(energy)}, capacitor_area(capacitance, number(attributes, "density")))


def wire(attributes: Attributes) -> Figures:
    capacitance = number(attributes, "length") * number(attributes, "capacitance_per_length")
    return Figures({"read": ActionCost(capacitance * number(attributes, "voltage") ** 2)})


def repeated_wire(attributes: Attributes) -> Figures:
    length, width = number(attributes, "length"), number(attributes, "width")
    node = number(attributes, "tech_node")
    energy, delay, leakage = repeated_wire_constants(node)
    outside = not _NODES[0] * (1 - 1e-9) <= node * 1e9 <= _NODES[-1] * (1 + 1e-9)
    notes = ("extrapolated: CACTI's wires are known from 22 to 90 nm",) if outside else ()
    action = ActionCost(energy * width * length, 1 / (delay * length), delay * length)
    return Figures({"read": action}, 0.0, leakage * width * length, notes)


CLASSES = (
    ComponentClass(
        "Capacitor", "Wires", "a capacitor that is charged from the supply",
        (
            Attribute("capacitance", "its capacitance", "F", zero=True, required=True),
            Attribute("voltage", "of the supply", "V", high=1e3, default=0.7),
            Attribute("voltage_swing", "what it is charged to; the supply if not given", "V", high=1e3, zero=True),
            Attribute("density", "capacitance per area", "F/m²", default=CAPACITANCE_DENSITY),
            NO_NODE,
        ),
        ("read",), "C·V·ΔV; density of metal-oxide-metal capacitors, about 2 fF/µm² at every node", capacitor,
        formula="capacitance · voltage · voltage_swing; area = capacitance / density",
        error="exact for an ideal capacitor",
    ),
    ComponentClass(
        "Wire", "Wires", "a wire without repeaters, charged from the supply",
        (
            Attribute("length", "its length", "m", zero=True, required=True),
            Attribute("voltage", "of the supply", "V", high=1e3, default=0.7),
            Attribute("capacitance_per_length", "capacitance per length", "F/m", default=2e-10),
            NO_NODE,
        ),
        ("read",), "C·V²; 0.2 fF/µm", wire,
        formula="length · capacitance_per_length · voltage²; no area: wires lie above logic",
        error="exact for an ideal wire",
    ),
    ComponentClass(
        "RepeatedWire", "Wires", "a bundle of wires with repeaters, semi-global metal",
        (
            Attribute("length", "its length", "m", 0, 1.0, required=True),
            bits("width", "wires side by side; bits of an action", 1),
            TECH_NODE,
        ),
        ("read",), "CACTI 7, repeated wires with 30% more than the least delay, ITRS-LSTP, 300 K", repeated_wire,
        formula="energy, delay and leakage per bit and length, a power law between 22, 32, 45, 65 and 90 nm",
        error="equal to its source at its nodes", moves_bits=True,
    ),
)  # fmt: skip
