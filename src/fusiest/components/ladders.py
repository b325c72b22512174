"""Ladder converters: R-2R and C-2C digital-to-analog converters and the C-2C multiplier.

The circuits of Wang et al., JSSC 58(4) 2023 (doi:10.1109/JSSC.2022.3232601). A ladder's node voltages solve a tridiagonal
system; what flows from the supply into the branches that are switched on is the power of a resistive ladder, and the
energy of a charge-domain one. Both are averaged over the codes' probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from fusiest.components.classes import ActionCost, Attribute, Attributes, ComponentClass, Figures
from fusiest.components.parts import TECH_NODE, VOLTAGE, listed, number, scaled
from fusiest.components.scaling import log_line
from fusiest.components.wires import capacitor_area

_SOURCE = "circuit of Wang et al., JSSC 2023, doi:10.1109/JSSC.2022.3232601"
_NODES = (7.0, 22.0, 32.0, 65.0)
"""Nodes in nm for which the register of a code is known; a power law between them and beyond."""
_REGISTER_ENERGY = (8.352978e-16, 2.552135e-15, 4.770342e-15, 1.948005e-14)
_REGISTER_LEAKAGE = (1.237874e-10, 1.56332e-10, 2.410088e-10, 5.989355e-10)
_REGISTER_AREA = (1.745e-13, 1.2359e-12, 2.6148e-12, 1.0789e-11)
MAX_RESOLUTION = 12
"""Bits; the codes of more are too many to average over."""


def resampled(histogram: Sequence[float], codes: int) -> list[float]:
    """Probabilities of a converter's codes from a histogram with another number of bins.

    The least value and the middle (zero) keep their probability exactly, the others are between their neighbours.
    """
    middle, bins = len(histogram) // 2, list(histogram)
    ratio = len(bins) / codes
    exact = {0: bins[0] / min(ratio, 1), codes // 2: bins[middle] / min(ratio, 1)}
    bins[0] = bins[middle] = 0
    probabilities = [
        exact[i] if i in exact else _between(bins, i / codes * (len(bins) - 1), ratio) for i in range(codes)
    ]
    total = math.fsum(probabilities)
    if total <= 0:
        raise ValueError("its histogram is empty")
    return [probability / total for probability in probabilities]


def _between(bins: Sequence[float], place: float, ratio: float) -> float:
    first = math.floor(place)
    if ratio > 1:
        return math.fsum(bins[first : min(math.ceil(first + ratio), len(bins) - 1)])
    share = place - first
    return bins[first] * (1 - share) + bins[math.ceil(place)] * share


def ladder_load(code: int, resolution: int) -> float:
    """What the switched-on branches draw for a code, per unit of supply and of a branch's conductance (or capacitance).

    Node i of the ladder: 5 V_i − 2 V_(i−1) − 2 V_(i+1) = bit i, with 4 at the far end and 3 at the output.
    """
    on = [code >> i & 1 for i in range(resolution)]
    if resolution == 1:
        return float(on[0]) / 2
    diagonal = [4.0] + [5.0] * (resolution - 2) + [3.0]
    right = [float(bit) for bit in on]
    for i in range(1, resolution):
        factor = 2 / diagonal[i - 1]
        diagonal[i] -= factor * 2
        right[i] += factor * right[i - 1]
    voltage, load = 0.0, 0.0
    for i in reversed(range(resolution)):
        voltage = (right[i] + 2 * voltage) / diagonal[i]
        load += (1 - voltage) * on[i]
    return load


@lru_cache(maxsize=256)
def averages(histogram: tuple[float, ...], resolution: int) -> tuple[float, float]:
    """(mean load of the ladder, bits of the code that rise from one value to the next)."""
    probabilities = resampled(histogram, 2**resolution)
    load = math.fsum(p * ladder_load(code, resolution) for code, p in enumerate(probabilities) if p)
    ones = [math.fsum(p for code, p in enumerate(probabilities) if code >> i & 1) for i in range(resolution)]
    return load, math.fsum(p * (1 - p) for p in ones)


def _digital(attributes: Attributes, rising: float) -> float:
    """The code's register, all of it clocked for each bit that rises, and its drivers: 0.04 fJ a bit at 22 nm and 1 V."""
    node, resolution = number(attributes, "tech_node"), number(attributes, "resolution")
    register = log_line(node * 1e9, _NODES, _REGISTER_ENERGY) * resolution * rising
    return register + 0.08 * (number(attributes, "voltage") * node) ** 2 * resolution


def _time(attributes: Attributes) -> float:
    """Seconds of a conversion: at least a cycle, longer if the load settles to half a step more slowly."""
    constant = number(attributes, "load_resistance") * number(attributes, "load_capacitance")
    return max(number(attributes, "cycle_period"), (number(attributes, "resolution") - 0.5) * math.log(2) * constant)


def r2r_ladder(attributes: Attributes) -> Figures:
    node, resolution = number(attributes, "tech_node"), int(number(attributes, "resolution"))
    resistance, seconds = number(attributes, "unit_resistance"), _time(attributes)
    load, rising = averages(listed(attributes, "hist"), resolution)
    power = load * number(attributes, "voltage") ** 2 / (2 * resistance)
    area = 2.35e-15 * (node / 22e-9) ** 2 * 3 * resistance * resolution
    return Figures(
        {"convert": ActionCost(power * seconds + _digital(attributes, rising), 1 / seconds, seconds)},
        area + log_line(node * 1e9, _NODES, _REGISTER_AREA) * resolution,
        log_line(node * 1e9, _NODES, _REGISTER_LEAKAGE) * resolution,
    )


def dual_sided_r2r_ladder(attributes: Attributes) -> Figures:
    """One ladder for positive values, one for negative ones."""
    ladder = r2r_ladder(attributes)
    return scaled(ladder, 2.0, 2.0, 2.0, 1.0)


def c2c_ladder(attributes: Attributes) -> Figures:
    node, resolution = number(attributes, "tech_node"), int(number(attributes, "resolution"))
    capacitance, seconds = number(attributes, "unit_capacitance"), _time(attributes)
    load, rising = averages(listed(attributes, "hist"), resolution)
    charge = load * capacitance * number(attributes, "voltage") ** 2
    capacitors = capacitor_area(3 * capacitance * resolution) if attributes["capacitors_consume_area"] else 0.0
    return Figures(
        {"convert": ActionCost(charge + _digital(attributes, rising), 1 / seconds, seconds)},
        capacitors + log_line(node * 1e9, _NODES, _REGISTER_AREA) * resolution,
        # A register of its own for each stage.
        log_line(node * 1e9, _NODES, _REGISTER_LEAKAGE) * resolution**2,
    )


def c2c_multiplier(attributes: Attributes) -> Figures:
    """The analog factor charges the ladder: 1.67 of its 3 unit capacitances are seen on average."""
    histogram = listed(attributes, "a_hist")
    mean = math.fsum(i * p for i, p in enumerate(histogram)) / math.fsum(histogram) / (len(histogram) - 1)
    energy = 3 * number(attributes, "unit_capacitance") * number(attributes, "voltage") ** 2 * mean * 1.67
    resolution, node = number(attributes, "resolution"), number(attributes, "tech_node")
    switches = 2 * 100 * node**2 + log_line(node * 1e9, _NODES, _REGISTER_AREA) / 6
    area = (capacitor_area(3 * number(attributes, "unit_capacitance")) + switches) * resolution
    return Figures({"read": ActionCost(energy)}, area)


def c2c_multiplier_port_b(attributes: Attributes) -> Figures:
    """The digital factor connects capacitors to the analog one; area is counted at the analog port."""
    histogram, ones = listed(attributes, "a_hist"), listed(attributes, "b_bit_distribution")
    if not all(p <= 1 for p in ones):
        raise ValueError("probabilities of bits are at most 1")
    voltage = number(attributes, "voltage")
    squares = math.fsum(i**2 * p for i, p in enumerate(histogram)) / math.fsum(histogram)
    root = math.sqrt(squares) * voltage / (len(histogram) - 1)
    rising = math.fsum(p * (1 - p) for p in ones) / len(ones)
    energy = 3 * number(attributes, "unit_capacitance") * root * voltage * rising * number(attributes, "resolution")
    return Figures({"read": ActionCost(energy)})


_RESOLUTION = Attribute("resolution", "bits of a code", "bits", 0, MAX_RESOLUTION, required=True, whole=True)
_HISTOGRAM = Attribute(
    "hist", "how often values occur, from the least to the largest", default=(1.0,) * 15, is_list=True
)
_DAC = (
    _RESOLUTION,
    VOLTAGE,
    _HISTOGRAM,
    TECH_NODE,
    Attribute("cycle_period", "the shortest time that an output is held", "s", default=1e-9),
    Attribute("load_resistance", "at the output", "Ω", default=0.0, zero=True),
    Attribute("load_capacitance", "at the output", "F", default=0.0, zero=True),
)
_RESISTANCE = Attribute("unit_resistance", "R of the ladder", "Ω", required=True)
_CAPACITANCE = Attribute("unit_capacitance", "C of the ladder", "F", required=True)
_ERROR = "a solved circuit; switches are ideal"
_PORTS = (
    _RESOLUTION,
    VOLTAGE,
    _CAPACITANCE,
    Attribute("a_hist", "how often values of the analog factor occur, from 0 to the supply", default=(1.0,) * 15,
              is_list=True),
    Attribute("b_bit_distribution", "probability of a 1 in each bit of the digital factor", default=(0.5,),
              is_list=True),
    TECH_NODE,
)  # fmt: skip

CLASSES = (
    ComponentClass(
        "R2RLadderDAC", "Converters", "R-2R ladder digital-to-analog converter", (*_DAC, _RESISTANCE), ("convert",),
        _SOURCE, r2r_ladder, "mean over codes of V·I·time, I by the ladder's node voltages; plus the code's register",
        _ERROR, ("R2RDAC",),
    ),
    ComponentClass(
        "DualSidedR2RLadderDAC", "Converters", "two R-2R ladders, for positive and negative values",
        (*_DAC, _RESISTANCE), ("convert",), _SOURCE, dual_sided_r2r_ladder, "twice R2RLadderDAC", _ERROR,
        ("DualSidedR2RDAC",),
    ),
    ComponentClass(
        "C2CLadderDAC", "Converters", "C-2C ladder digital-to-analog converter",
        (*_DAC, _CAPACITANCE, Attribute("capacitors_consume_area", "or lie above other parts", default=True)),
        ("convert",), _SOURCE, c2c_ladder,
        "mean over codes of the charge that the ladder draws times V; plus the code's register", _ERROR, ("C2CDAC",),
    ),
    ComponentClass(
        "C2CMultiplier", "Analog", "C-2C ladder that multiplies an analog value by a digital one; analog port", _PORTS,
        ("read",), _SOURCE, c2c_multiplier, "3 C·V²·mean(a)·1.67", _ERROR,
    ),
    ComponentClass(
        "C2CMultiplierPortB", "Analog", "digital port of C2CMultiplier", _PORTS, ("read",), _SOURCE,
        c2c_multiplier_port_b, "3 C·V·rms(a)·mean p(1−p) of the bits·resolution", _ERROR,
    ),
)  # fmt: skip
