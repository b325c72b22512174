"""How costs change with the technology node and the supply voltage.

Nodes: Stillmaker and Baas, "Scaling equations for the accurate prediction of CMOS device performance from 180 nm to 7 nm",
Integration 58 (2017) 74-81. Energy is their polynomial in the supply, linear between nodes. Area is one curve: their
table of ratios is rounded to two digits, so that a ratio taken twice is not the ratio taken once (40 to 40 nm would be
1.156). Beyond 7 and 130 nm, area goes with the node and energy with its root.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

NOMINAL_SUPPLY = 0.8
"""The supply at which energies of nodes are compared."""

_NODES = (7.0, 10.0, 14.0, 16.0, 20.0, 32.0, 45.0, 65.0, 90.0, 130.0)
_ENERGY = (
    (0.1776, -0.09097, 0.02447), (0.2068, -0.09311, 0.02375), (0.2363, -0.09675, 0.02239), (0.2958, -0.1241, 0.03024),
    (0.373, -0.1582, 0.04104), (0.9559, -0.7823, 0.471), (1.103, -0.362, 0.2767), (3.755, -4.398, 1.975),
    (4.762, -4.781, 2.092), (7.171, -6.709, 2.904),
)  # fmt: skip
_AREA = (0.0589, 0.1010, 0.1712, 0.1893, 0.2114, 0.4573, 1.0, 1.508, 2.828, 6.325)
"""Relative to 45 nm."""

_SUPPLY_NODES = (7.0, 10.0, 14.0, 22.0, 32.0, 45.0, 65.0, 90.0, 130.0)
_SUPPLY = (0.7, 0.75, 0.8, 0.85, 0.9, 1.0, 1.1, 1.2, 1.3)
_THRESHOLD = (0.40, 0.39, 0.38, 0.42, 0.44, 0.46, 0.50, 0.50, 0.47)
VELOCITY_SATURATION = 1.3
"""The exponent of the alpha-power law."""


def line(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """Piecewise linear; the first and last pieces go on.

    >>> line(2.5, (1, 2, 3), (10, 20, 40))
    30.0
    """
    i = min(max(bisect_right(xs, x) - 1, 0), len(xs) - 2)
    t = (x - xs[i]) / (xs[i + 1] - xs[i])
    return ys[i] * (1 - t) + ys[i + 1] * t


def clamped(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """Piecewise linear; constant beyond both ends."""
    return line(min(max(x, xs[0]), xs[-1]), xs, ys)


def log_line(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """Piecewise a power law.

    >>> round(log_line(4, (1, 2, 8), (1, 2, 8)), 9)
    4.0
    """
    return math.exp(line(math.log(x), [math.log(v) for v in xs], [math.log(v) for v in ys]))


def energy_scale(node: float, reference: float) -> float:
    """How many times the energy of the reference node an action takes; leakage scales alike.

    >>> round(energy_scale(7e-9, 45e-9), 4)
    0.0943
    """
    return _energy(node) / _energy(reference)


def _energy(node: float) -> float:
    nanometres = node * 1e9
    inside = min(max(nanometres, _NODES[0]), _NODES[-1])
    a, b, c = (line(inside, _NODES, [row[i] for row in _ENERGY]) for i in range(3))
    return (a * NOMINAL_SUPPLY**2 + b * NOMINAL_SUPPLY + c) * math.sqrt(nanometres / inside)


def area_scale(node: float, reference: float) -> float:
    """How many times the area of the reference node.

    >>> area_scale(40e-9, 40e-9), round(area_scale(7e-9, 45e-9), 4)
    (1.0, 0.0589)
    """
    return _area(node) / _area(reference)


def _area(node: float) -> float:
    nanometres = node * 1e9
    inside = min(max(nanometres, _NODES[0]), _NODES[-1])
    return log_line(inside, _NODES, _AREA) * nanometres / inside


def time_scale(node: float, reference: float) -> float:
    """How many times the time of the reference node."""
    return node / reference


def nominal_supply(node: float) -> float:
    """The supply that a node is made for, in volts.

    >>> nominal_supply(45e-9)
    1.0
    """
    return clamped(node * 1e9, _SUPPLY_NODES, _SUPPLY)


def threshold(node: float) -> float:
    """The threshold voltage of a node's low-standby-power transistors."""
    return clamped(node * 1e9, _SUPPLY_NODES, _THRESHOLD)


class SupplyScales(NamedTuple):
    """Factors of a supply."""

    energy: float
    leakage: float
    delay: float


def supply_scales(voltage: float, node: float) -> SupplyScales:
    """At a supply, relative to the node's nominal one: V², V, and the alpha-power law.

    >>> supply_scales(1.0, 45e-9)
    SupplyScales(energy=1.0, leakage=1.0, delay=1.0)
    """
    nominal, at_threshold = nominal_supply(node), threshold(node)
    if voltage <= at_threshold:
        raise ValueError(f"the supply of {voltage:g} V is not above the threshold of {at_threshold:g} V")
    ratio = voltage / nominal
    speed = ((voltage - at_threshold) / (nominal - at_threshold)) ** VELOCITY_SATURATION / ratio
    return SupplyScales(ratio**2, ratio, 1 / speed)
