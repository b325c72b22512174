"""Adders, multipliers, multiply-accumulate units, comparators, counters, and trees of them.

Adder, Multiplier, IntMAC, Comparator and Counter are Aladdin's (Shao et al., ISCA 2014) at 40 nm. MAC, the one to use, has
published energies at two nodes: 45 nm (Horowitz, ISSCC 2014) and 7 nm (Jouppi et al., ISCA 2021).
"""

from __future__ import annotations

import math

from fusiest.components.classes import ActionCost, Attribute, Attributes, ComponentClass, CostFunction, Figures
from fusiest.components.parts import (
    SUPPLY,
    TECH_NODE,
    at_node,
    at_supply,
    beside,
    bits,
    in_sequence,
    number,
    optional,
    together,
)
from fusiest.components.scaling import area_scale, energy_scale, log_line, time_scale

ALADDIN = "Shao, Reagen, Wei, Brooks, Aladdin, ISCA 2014 (40 nm, 1 ns)"
ALADDIN_NODE = 40e-9
_NS = 1e-9


def aladdin(name: str, energy: float, area: float, leak_power: float, attributes: Attributes) -> Figures:
    """One of Aladdin's parts, given at 40 nm."""
    return at_node(Figures({name: ActionCost(energy, 1 / _NS, _NS)}, area, leak_power), attributes, ALADDIN_NODE)


def linear(name: str, energy: float, area: float, leak_power: float) -> CostFunction:
    """One of Aladdin's parts, given at 32 bits, whose costs go with its width."""

    def cost(attributes: Attributes) -> Figures:
        share = number(attributes, "width") / 32
        return aladdin(name, energy * share, area * share, leak_power * share, attributes)

    return cost


adder = linear("add", 0.21e-12, 278e-12, 2.40e-6)
comparator = linear("compare", 0.02947e-12, 71e-12, 25.1e-9)
counter = linear("count", 0.25074e-12, 495.5e-12, 321e-9)


def multiplier(attributes: Attributes) -> Figures:
    width = number(attributes, "width")
    first, second = optional(attributes, "width_a") or width, optional(attributes, "width_b") or width
    share = first * second / 32**2
    return aladdin("multiply", 12.68e-12 * share, 6350e-12 * share, 80e-6 * share, attributes)


def int_mac(attributes: Attributes) -> Figures:
    add = adder(beside(attributes, attributes["adder_width"]))
    multiply = multiplier(beside(attributes, attributes["multiplier_width"]))
    compute = in_sequence(multiply.actions["multiply"], add.actions["add"])
    return together([(1, add), (1, multiply)], {"compute": compute})


def shift_add(attributes: Attributes) -> Figures:
    """A shift is wiring; the sum is added and kept."""
    add = adder(attributes)
    register = register_bits(attributes)
    action = in_sequence(add.actions["add"], register.actions["write"])
    return together([(1, add), (1, register)], {"add": action})


def register_bits(attributes: Attributes) -> Figures:
    """Flip-flops of Aladdin: 9 fJ a bit read or written, 5.98 µm² a bit; a read takes no time."""
    width = number(attributes, "width")
    actions = {"read": ActionCost(9e-15 * width), "write": ActionCost(9e-15 * width, 1 / _NS, _NS)}
    return at_node(Figures(actions, 5.98e-12 * width), attributes, ALADDIN_NODE)


def adder_tree(attributes: Attributes) -> Figures:
    """n inputs of `width` bits: half as many adders at each level, one bit wider."""
    operands, width = number(attributes, "n_inputs"), number(attributes, "width")
    levels: list[tuple[float, Figures]] = []
    while operands > 1:
        pairs, operands = operands // 2, math.ceil(operands / 2)
        levels.append((pairs, adder(beside(attributes, int(width)))))
        width += 1
    if not levels:
        return Figures({"add": ActionCost(0.0)})
    adds = [(count, level.actions["add"]) for count, level in levels]
    action = ActionCost(
        math.fsum(count * add.energy for count, add in adds),
        min(add.throughput for _, add in adds),
        math.fsum(add.latency for _, add in adds),
    )
    return together(levels, {"add": action})


# Energies in pJ by node in nm; what the sources do not give is marked in `_ASSUMED`.
_ADD = {
    7: {"int4": 0.007 * 2**-1.05, "int8": 0.007, "int16": (0.007 * 0.03) ** 0.5, "int32": 0.03, "fp8": 0.043,
        "bf16": 0.11, "fp16": 0.16, "fp32": 0.38},
    45: {"int4": 0.03 * 2**-0.868, "int8": 0.03, "int16": 0.05, "int32": 0.1, "fp8": 0.4 * 0.043 / 0.16,
         "bf16": 0.4 * 0.11 / 0.16, "fp16": 0.4, "fp32": 0.9},
}  # fmt: skip
_MULTIPLY = {
    7: {"int4": 0.07 * 2**-2.2, "int8": 0.07, "int16": (0.07 * 1.48) ** 0.5, "int32": 1.48, "fp8": 0.10, "bf16": 0.21,
        "fp16": 0.34, "fp32": 1.31},
    45: {"int4": 0.2 * 2**-1.977, "int8": 0.2, "int16": (0.2 * 3.1) ** 0.5, "int32": 3.1, "fp8": 1.1 * 0.10 / 0.34,
         "bf16": 1.1 * 0.21 / 0.34, "fp16": 1.1, "fp32": 3.7},
}  # fmt: skip
# Square micrometres at 45 nm, synthesized (Dally, NIPS 2015 tutorial).
_ADD_AREA = {"int4": 18.0, "int8": 36.0, "int16": 67.0, "int32": 137.0, "fp8": 366.0, "bf16": 935.0, "fp16": 1360.0,
             "fp32": 4184.0}  # fmt: skip
_MULTIPLY_AREA = {"int4": 80.0, "int8": 282.0, "int16": 993.0, "int32": 3495.0, "fp8": 482.0, "bf16": 1013.0,
                  "fp16": 1640.0, "fp32": 7700.0}  # fmt: skip
_ASSUMED = {
    "int4": "from the trend of int8 to int32",
    "int16": "between int8 and int32",
    "fp8": "from the trend over mantissas of bf16, fp16 and fp32",
    "bf16": "at 45 nm, by its ratio to fp16 at 7 nm",
}
_ACCUMULATE = {"int4": "int32", "int8": "int32", "int16": "int32", "int32": "int32", "fp8": "fp16", "bf16": "fp32",
               "fp16": "fp32", "fp32": "fp32"}  # fmt: skip
_LEAK_DENSITY = 80e-6 / 6350e-12
"""Watts per square metre of Aladdin's multiplier at 40 nm, for want of a figure of MAC's own sources."""


def mac(attributes: Attributes) -> Figures:
    node, kind = number(attributes, "tech_node"), str(attributes["format"])
    accumulate = str(attributes.get("accumulate", _ACCUMULATE[kind]))
    energy = _at_two_nodes(_MULTIPLY, kind, node) + _at_two_nodes(_ADD, accumulate, node)
    area = (_MULTIPLY_AREA[kind] + _ADD_AREA[accumulate]) * 1e-12
    leak = area * area_scale(ALADDIN_NODE, 45e-9) * _LEAK_DENSITY * energy_scale(node, ALADDIN_NODE)
    time = time_scale(node, 45e-9) * _NS
    notes = ["assumed: 1 ns at 45 nm, in proportion to the node; leakage per area of Aladdin's multiplier"]
    for used in dict.fromkeys((kind, accumulate)):
        if used in _ASSUMED and not (used == "bf16" and node <= 7e-9):
            notes.append(f"assumed: {used} {_ASSUMED[used]}")
    figures = Figures(
        {"compute": ActionCost(energy, 1 / time, time)},
        area * area_scale(node, 45e-9),
        leak,
        tuple(notes),
        {"accumulate": accumulate},
    )
    return at_supply(figures, attributes)


def _at_two_nodes(table: dict[int, dict[str, float]], kind: str, node: float) -> float:
    """Joules: a power law between the two nodes, general scaling outside."""
    if node < 7e-9:
        return table[7][kind] * 1e-12 * energy_scale(node, 7e-9)
    if node > 45e-9:
        return table[45][kind] * 1e-12 * energy_scale(node, 45e-9)
    return log_line(node * 1e9, (7, 45), (table[7][kind], table[45][kind])) * 1e-12


_WIDTH = bits("width", "bits of an operand", 32)
_ALADDIN_ERROR = "equal to its source at 40 nm; elsewhere the error of node scaling, about 30%"
_FORMATS = tuple(_MULTIPLY_AREA)

CLASSES = (
    ComponentClass(
        "MAC",
        "Arithmetic",
        "multiply-accumulate unit of a number format; the recommended one",
        (
            Attribute("format", "of the factors", default="int8", choices=_FORMATS),
            Attribute("accumulate", "format of the sum; int32 for integers, fp32 for floats, fp16 for fp8",
                      choices=_FORMATS),
            TECH_NODE,
            SUPPLY,
        ),
        ("compute",),
        "Horowitz, ISSCC 2014 (45 nm); Jouppi et al., Ten Lessons From Three Generations, ISCA 2021 (7 nm); "
        "areas: Dally, NIPS 2015 tutorial (45 nm)",
        mac,
        formula="multiply(format) + add(accumulate); a power law of the node between 7 and 45 nm",
        error="equal to its sources at 7 and 45 nm; between them about 20%",
    ),
    ComponentClass(
        "Adder", "Arithmetic", "integer adder", (_WIDTH, TECH_NODE, SUPPLY), ("add",), ALADDIN, adder,
        "0.21 pJ, 278 µm², 2.4 µW at 32 bits; linear in width", _ALADDIN_ERROR, ("IntAdder", "AladdinAdder"),
    ),
    ComponentClass(
        "Multiplier", "Arithmetic", "integer multiplier",
        (_WIDTH, bits("width_a", "bits of the first factor"), bits("width_b", "bits of the second factor"), TECH_NODE,
         SUPPLY),
        ("multiply",), ALADDIN, multiplier, "12.68 pJ, 6350 µm², 80 µW at 32 × 32 bits; linear in each width",
        _ALADDIN_ERROR, ("IntMultiplier", "AladdinMultiplier"),
    ),
    ComponentClass(
        "IntMAC", "Arithmetic", "integer multiplier and adder",
        (bits("multiplier_width", "bits of a factor", 8), bits("adder_width", "bits of the sum", 16), TECH_NODE, SUPPLY),
        ("compute",), ALADDIN, int_mac, "Multiplier + Adder; latencies add up", _ALADDIN_ERROR, ("AladdinIntMAC",),
    ),
    ComponentClass(
        "Comparator", "Arithmetic", "integer comparator", (_WIDTH, TECH_NODE, SUPPLY), ("compare",), ALADDIN, comparator,
        "29.47 fJ, 71 µm², 25.1 nW at 32 bits; linear in width", _ALADDIN_ERROR, ("AladdinComparator",),
    ),
    ComponentClass(
        "Counter", "Arithmetic", "counter", (_WIDTH, TECH_NODE, SUPPLY), ("count",), ALADDIN, counter,
        "0.25074 pJ, 495.5 µm², 321 nW at 32 bits; linear in width", _ALADDIN_ERROR, ("AladdinCounter",),
    ),
    ComponentClass(
        "ShiftAdd", "Arithmetic", "adds a shifted value to a sum and keeps it",
        (bits("width", "bits of the sum", 16), TECH_NODE, SUPPLY), ("add",), ALADDIN, shift_add,
        "Adder(width) + Register(width)", _ALADDIN_ERROR,
    ),
    ComponentClass(
        "AdderTree", "Arithmetic", "adds many values at once",
        (Attribute("n_inputs", "values", low=1, high=2**20, required=True, whole=True, zero=True),
         bits("width", "bits of a value", 8), TECH_NODE, SUPPLY),
        ("add",), ALADDIN, adder_tree, "Σ over levels i of floor(n/2^i) adders of width + i − 1 bits", _ALADDIN_ERROR,
    ),
)  # fmt: skip
