"""Parts of analog arrays: cells that compute, the drivers of their rows, the multiplexers of their columns."""

from __future__ import annotations

import math

from fusiest.components.classes import ActionCost, Attribute, Attributes, ComponentClass, Figures
from fusiest.components.parts import TECH_NODE, VOLTAGE, number, optional

GATE_CAPACITANCE = 1e-9
"""Farads per metre of gate width, about 1 fF/µm at every node."""
SWITCH_AREA = 100.0
"""A minimum transistor with its share of contacts and isolation, in F²."""


def rram_cell(attributes: Attributes) -> Figures:
    series = number(attributes, "wire_resistance") + number(attributes, "access_resistance")
    on, off = number(attributes, "resistance_on") + series, number(attributes, "resistance_off") + series
    if off < on:
        raise ValueError("resistance_off is below resistance_on")
    share = number(attributes, "average_cell")
    conductance = share / on + (1 - share) / off
    pulses = number(attributes, "average_input") * (2 ** number(attributes, "pulse_bits") - 1)
    pulse, voltage = number(attributes, "read_pulse_width"), number(attributes, "read_voltage")
    seconds = pulse * (2 ** number(attributes, "pulse_bits") - 1)
    read = ActionCost(pulse * voltage**2 * conductance * pulses, 1 / seconds, seconds)
    write_pulse = number(attributes, "write_pulse_width")
    write = ActionCost(write_pulse * number(attributes, "write_voltage") ** 2 / on, 1 / write_pulse, write_pulse)
    area = number(attributes, "cell_area") * number(attributes, "tech_node") ** 2
    return Figures({"read": read, "write": write}, area)


def sram_cim_cell(attributes: Attributes) -> Figures:
    """A product switches the cell's share of the column; a write drives both bit lines of the cell's pitch."""
    node, voltage = number(attributes, "tech_node"), number(attributes, "voltage")
    capacitance = optional(attributes, "capacitance")
    if capacitance is None:
        capacitance = 2 * GATE_CAPACITANCE * 2 * node
    toggles = number(attributes, "average_input") * number(attributes, "average_cell")
    area = number(attributes, "cell_area") * node**2
    pitch = math.sqrt(area)
    write = 2 * 2e-10 * pitch * voltage**2
    read = ActionCost(toggles * capacitance * voltage**2)
    return Figures(
        {"read": read, "write": ActionCost(write)},
        area,
        resolved={"capacitance": capacitance},
        notes=() if "capacitance" in attributes else ("assumed: two gates of twice the node's length load the column",),
    )


def row_driver(attributes: Attributes) -> Figures:
    cells, voltage = number(attributes, "cells"), number(attributes, "voltage")
    load = cells * number(attributes, "capacitance_per_cell")
    energy = number(attributes, "activity") * (1 + number(attributes, "overhead")) * load * voltage**2
    # A chain of inverters, each three times the one before, up to a third of the load.
    width = load / 3 / GATE_CAPACITANCE
    area = 1.5 * 2 * SWITCH_AREA * number(attributes, "tech_node") * max(width, number(attributes, "tech_node"))
    return Figures({"read": ActionCost(energy)}, area)


def column_mux(attributes: Attributes) -> Figures:
    """A tree of transmission gates: a select turns one gate of each level on."""
    inputs, voltage = number(attributes, "n_inputs"), number(attributes, "voltage")
    node, width = number(attributes, "tech_node"), number(attributes, "switch_width")
    levels = math.ceil(math.log2(inputs)) if inputs > 1 else 0
    gate = 2 * GATE_CAPACITANCE * width * node
    energy = number(attributes, "activity") * levels * gate * voltage**2
    return Figures({"read": ActionCost(energy)}, 2 * max(inputs - 1, 0) * SWITCH_AREA * width * node**2)


_INPUT = Attribute("average_input", "mean of inputs, as a share of the largest", default=0.5, high=1.0, zero=True)
_CELL = Attribute("average_cell", "mean of what cells hold, as a share of the most", default=0.5, high=1.0, zero=True)
_ACTIVITY = Attribute("activity", "how often it switches in an action", default=1.0, high=1e3, zero=True)
_FIRST_PRINCIPLES = "sums of capacitances and conductances; 1 fF/µm of gate, 0.2 fF/µm of wire, 100 F² a transistor"
_ERROR = "a first estimate; calibrate against the cell's paper"

CLASSES = (
    ComponentClass(
        "RRAMCell", "Analog", "resistive cell that multiplies its conductance by a voltage, inputs as pulses",
        (
            Attribute("resistance_on", "lowest resistance", "Ω", required=True),
            Attribute("resistance_off", "highest resistance", "Ω", required=True),
            Attribute("read_voltage", "across cell, wire and access device", "V", high=100, required=True),
            Attribute("read_pulse_width", "of one pulse", "s", high=1, required=True),
            Attribute("pulse_bits", "bits of an input given as pulses", "bits", 0, 16, default=1, whole=True),
            _INPUT,
            _CELL,
            Attribute("wire_resistance", "of the wires to the cell", "Ω", default=0.0, zero=True),
            Attribute("access_resistance", "of the access device", "Ω", default=0.0, zero=True),
            Attribute("write_voltage", "to program it", "V", high=100, default=2.0),
            Attribute("write_pulse_width", "to program it", "s", high=1, default=1e-7),
            Attribute("cell_area", "in squares of the node", "F²", default=12.0),
            TECH_NODE,
        ),
        ("read", "write"), "Joule heat: t·V²·G", rram_cell,
        formula="read_pulse_width · read_voltage² · G · average_input · (2^pulse_bits − 1), G the mean of 1/(R_on + wires) "
        "and 1/(R_off + wires) weighted by average_cell",
        error=_ERROR,
    ),
    ComponentClass(
        "SRAMCimCell", "Analog", "SRAM cell with a gate that multiplies its bit by an input",
        (
            VOLTAGE,
            Attribute("capacitance", "that a product charges", "F"),
            _INPUT,
            _CELL,
            Attribute("cell_area", "in squares of the node", "F²", default=300.0),
            TECH_NODE,
        ),
        ("read", "write"), _FIRST_PRINCIPLES, sram_cim_cell,
        formula="average_input · average_cell · capacitance · voltage²", error=_ERROR,
    ),
    ComponentClass(
        "RowDriver", "Analog", "drives a row of cells",
        (
            Attribute("cells", "on the row", low=0, high=1e7, required=True, whole=True),
            Attribute("capacitance_per_cell", "gate and wire of one cell", "F", default=0.3e-15),
            VOLTAGE,
            _ACTIVITY,
            Attribute("overhead", "of the driver itself, as a share of its load", default=0.5, high=100, zero=True),
            TECH_NODE,
        ),
        ("read",), _FIRST_PRINCIPLES, row_driver,
        formula="activity · (1 + overhead) · cells · capacitance_per_cell · voltage²", error=_ERROR,
    ),
    ComponentClass(
        "ColumnMux", "Analog", "connects one of several columns to what they share",
        (
            Attribute("n_inputs", "columns that share", low=1, high=1e6, required=True, whole=True, zero=True),
            VOLTAGE,
            _ACTIVITY,
            Attribute("switch_width", "of a transistor, in nodes", default=4.0, high=1e4),
            TECH_NODE,
        ),
        ("read",), _FIRST_PRINCIPLES, column_mux,
        formula="activity · ⌈log2 n_inputs⌉ · 2 · 1 fF/µm · switch_width · node · voltage²", error=_ERROR,
    ),
)  # fmt: skip
