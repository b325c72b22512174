"""SRAM: interpolation in a table of CACTI 7 runs (ITRS-LSTP cells and periphery, 300 K, one read/write port).

The table has one bank at 22, 32, 45, 65 and 90 nm. More words or more bits are never cheaper: where CACTI's optimizer
makes them so, the running maximum over fewer words and bits counts. Costs are continuous in size, width, node and banks.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import NamedTuple

from fusiest.components.classes import ActionCost, Attribute, Attributes, Figures
from fusiest.components.parts import SUPPLY, TECH_NODE, at_supply, bits, number, optional
from fusiest.components.scaling import clamped, line
from fusiest.components.sram_table import NODES, Table, table
from fusiest.components.wires import repeated_wire_constants
from fusiest.errors import SpecError

MIN_WIDTH, MIN_DEPTH = 32, 64
STEEP_FROM = 45
"""From here to the next node leakage grows about sevenfold: a straight line would start with a jump."""
MOST_OUTSIDE = 4.0
"""How many times beyond the table a width or a number of words may be."""


class Array(NamedTuple):
    """Joules of a read and a write, square metres, watts, seconds from access to access and of one access."""

    read: float
    write: float
    area: float
    leak_power: float
    cycle: float
    access: float


def one_bank(node: int, depth: float, width: float) -> Array:
    """A bank at one of the table's nodes. Smaller than the table's least: energy with (0.7 w/w' + 0.3)(d/d')^0.78, area
    and leakage in proportion, times as they are."""
    wide, deep = max(width, MIN_WIDTH), max(depth, MIN_DEPTH)
    values = _interpolated(table(node), deep, wide)
    if wide == width and deep == depth:
        return Array(*values)
    energy = (0.7 * width / wide + 0.3) * (depth / deep) ** 0.78
    share = width * depth / (wide * deep)
    read, write, area, leak, cycle, access = values
    return Array(read * energy, write * energy, area * share, leak * share, cycle, access)


def _interpolated(known: Table, depth: float, width: float) -> list[float]:
    """Logarithms, linear in log depth and log width; beyond the last ones, as between them."""
    x, y = math.log(depth), math.log(width)
    i = min(max(bisect_right(known.depths, x) - 1, 0), len(known.depths) - 2)
    j = min(max(bisect_right(known.widths, y) - 1, 0), len(known.widths) - 2)
    s = (x - known.depths[i]) / (known.depths[i + 1] - known.depths[i])
    t = (y - known.widths[j]) / (known.widths[j + 1] - known.widths[j])
    corners = (known.values[j][i], known.values[j][i + 1], known.values[j + 1][i], known.values[j + 1][i + 1])
    weights = ((1 - s) * (1 - t), s * (1 - t), (1 - s) * t, s * t)
    return [
        math.exp(sum(weight * corner[q] for weight, corner in zip(weights, corners, strict=True))) for q in range(6)
    ]


# Routing between banks: by their number, in units of the wires' constants. Fitted to CACTI's runs of 2 to 32 banks.
_BANKS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
_AREA = (0.0, 10.0, 19.0, 25.0, 27.5, 30.0)
_READ = (0.0, 0.45, 0.775, 1.0, 1.175, 1.2)
_WRITE = (0.0, 0.275, 0.8, 0.925, 1.175, 1.3)
_ACCESS = (0.0, 0.8, 1.4, 1.7, 2.15, 2.2)
_LEAKAGE = (0.0, 0.0, 11.0, 21.0, 61.0, 92.0)


def banked(node: int, depth: float, width: float, banks: float) -> Array:
    """Banks of depth/banks words each, and wires over the side of them all."""
    bank = one_bank(node, depth / banks, width)
    if banks == 1:
        return bank
    energy, delay, leakage = repeated_wire_constants(node * 1e-9)

    def routing(constants: tuple[float, ...]) -> float:
        return clamped(math.log2(banks), [math.log2(b) for b in _BANKS], constants)

    side = math.sqrt(banks * bank.area)
    area = banks * bank.area + routing(_AREA) * width * side * node * 1e-9
    whole_side = math.sqrt(area)
    return Array(
        bank.read + energy * width * whole_side * routing(_READ),
        bank.write + energy * width * whole_side * routing(_WRITE),
        area,
        banks * bank.leak_power + leakage * width * side * routing(_LEAKAGE),
        bank.cycle,
        bank.access + delay * whole_side * routing(_ACCESS),
    )


def nearest_nodes(nanometres: float) -> tuple[int, int]:
    """The table's nodes on either side, twice the same where it is one of them or beyond them."""
    for node in NODES:
        if math.isclose(nanometres, node, rel_tol=1e-9):
            return node, node
    i = bisect_right(NODES, nanometres)
    return NODES[max(i - 1, 0)], NODES[min(i, len(NODES) - 1)]


def at_any_node(node: float, depth: float, width: float, banks: float) -> Array:
    """Linear between the table's nodes, but for the leakage from 45 to 65 nm, a power law.

    Below, s = node / 22 nm: energy and leakage √s, area and time s, and finFETs leak 21% less (full effect at 16 nm).
    Above: energy and area as the square of the node, time and leakage as the node.
    """
    nanometres = node * 1e9
    inside = min(max(nanometres, NODES[0]), NODES[-1])
    lower, upper = nearest_nodes(nanometres)
    array = banked(lower, depth, width, banks)
    if upper != lower:
        share = (inside - lower) / (upper - lower)
        other = banked(upper, depth, width, banks)
        leak = array.leak_power
        array = Array(*((1 - share) * a + share * b for a, b in zip(array, other, strict=True)))
        if lower == STEEP_FROM:
            share = math.log(inside / lower) / math.log(upper / lower)
            array = array._replace(leak_power=leak ** (1 - share) * other.leak_power**share)
    if nanometres < NODES[0]:
        s = nanometres / NODES[0]
        fins = clamped(nanometres, (16.0, 22.0), (0.79, 1.0))
        return _times(array, math.sqrt(s), s, math.sqrt(s) * fins, s)
    s = nanometres / inside
    return _times(array, s**2, s**2, s, s)


def _times(array: Array, energy: float, area: float, leak: float, time: float) -> Array:
    return Array(
        array.read * energy, array.write * energy, array.area * area, array.leak_power * leak, array.cycle * time,
        array.access * time,
    )  # fmt: skip


# What more ports cost, relative to one: by node, log2 size, log2 width, for 2 and for 4 ports.
# Columns: read, write, area, leakage, throughput, access.
_PORT_NODES, _PORT_SIZES, _PORT_WIDTHS = (22.0, 45.0), (15.0, 19.0, 23.0), (6.0, 8.0)
_PORTS = {
    2: (
        (((1.276, 1.283, 2.105, 1.107, 1.795, 1.108), (1.382, 1.294, 2.339, 1.174, 1.831, 1.093)),
         ((1.686, 1.796, 2.130, 1.039, 1.571, 1.175), (1.363, 1.435, 1.533, 1.008, 1.298, 1.271)),
         ((2.001, 2.254, 2.096, 1.029, 1.423, 1.299), (2.178, 2.259, 2.208, 1.044, 1.436, 1.325))),
        (((1.230, 1.253, 2.101, 1.134, 1.814, 1.090), (1.326, 1.314, 2.307, 1.189, 1.856, 1.079)),
         ((1.473, 1.541, 2.104, 1.110, 1.670, 1.149), (1.333, 1.320, 2.098, 1.118, 1.658, 1.187)),
         ((2.093, 2.014, 1.905, 1.107, 1.428, 1.198), (2.029, 2.020, 1.934, 1.112, 1.351, 1.294))),
    ),
    4: (
        (((1.804, 1.824, 5.350, 1.227, 2.943, 1.319), (2.055, 1.918, 6.420, 1.483, 2.993, 1.300)),
         ((3.126, 3.034, 4.532, 1.055, 1.882, 1.586), (2.040, 2.140, 3.961, 1.114, 1.746, 1.818)),
         ((4.925, 5.414, 4.849, 1.069, 1.551, 1.989), (5.037, 5.176, 5.100, 1.097, 1.488, 2.203))),
        (((1.677, 1.739, 5.108, 1.401, 3.089, 1.262), (2.013, 1.879, 6.418, 1.636, 3.285, 1.220)),
         ((2.284, 1.920, 4.454, 1.313, 2.104, 1.497), (1.994, 1.953, 5.419, 1.374, 2.413, 1.588)),
         ((4.891, 5.229, 4.860, 1.340, 1.855, 1.714), (5.041, 5.085, 5.096, 1.359, 1.770, 1.892))),
    ),
}  # fmt: skip
MOST_PORTS = 8


def port_factors(node: float, size: float, width: float, ports: int) -> tuple[float, ...]:
    """What the figures of one port are to be multiplied with: read, write, area, leakage, throughput, access."""
    if ports == 1:
        return (1.0,) * 6
    place = (node * 1e9, math.log2(size), math.log2(width))
    two, four = (tuple(_in_ports(_PORTS[p], place, q) for q in range(6)) for p in (2, 4))
    return tuple(
        math.exp(line(math.log2(ports), (0.0, 1.0, 2.0), (0.0, math.log(a), math.log(b))))
        for a, b in zip(two, four, strict=True)
    )


def _in_ports(cube: tuple[tuple[tuple[tuple[float, ...], ...], ...], ...], place: tuple[float, ...], q: int) -> float:
    by_node = []
    for plane in cube:
        by_size = [clamped(place[2], _PORT_WIDTHS, [cell[q] for cell in row]) for row in plane]
        by_node.append(clamped(place[1], _PORT_SIZES, by_size))
    return clamped(place[0], _PORT_NODES, by_node)


def sram(attributes: Attributes) -> Figures:
    """The cost function of SRAM."""
    node, banks, ports = (
        number(attributes, "tech_node"),
        number(attributes, "n_banks"),
        number(attributes, "n_rw_ports"),
    )
    size, width, notes = _shape(attributes)
    depth = size / width
    notes += _outside(node, depth / banks, width, int(ports))
    array = at_any_node(node, depth, width, banks)
    read, write, area, leak, rate, access = port_factors(node, size, width, int(ports))
    throughput = banks * rate / array.cycle
    figures = Figures(
        {
            "read": ActionCost(array.read * read, throughput, array.access * access),
            "write": ActionCost(array.write * write, throughput, array.access * access),
        },
        array.area * area,
        array.leak_power * leak,
        tuple(notes),
        {"size": size, "width": width, "depth": depth},
    )
    return at_supply(figures, attributes)


def _shape(attributes: Attributes) -> tuple[float, float, list[str]]:
    """(size, width, what was assumed), from whichever of size, width and depth are given."""
    size, width, depth = (optional(attributes, name) for name in ("size", "width", "depth"))
    if size is None and (width is None or depth is None):
        raise SpecError("SRAM needs the attribute 'size' (bits), or 'width' and 'depth'")
    if size is None:
        assert width is not None
        assert depth is not None
        return width * depth, width, []
    if math.isinf(size):
        raise SpecError("the size of an SRAM must be finite")
    if width is not None:
        if depth is not None and not math.isclose(size, width * depth, rel_tol=1e-6):
            raise SpecError(f"size {size:g} of an SRAM is not its width {width:g} times its depth {depth:g}")
        return size, width, []
    if depth is not None:
        return size, size / depth, []
    action = optional(attributes, "bits_per_action")
    if action is not None and action > 1 and number(attributes, "n_banks") == 1:
        return size, action, [f"assumed: width {action:g}, the bits of an action"]
    width = max(16, math.ceil(math.sqrt(size)))
    return size, width, [f"assumed: width {width:g}, the root of the size"]


def _outside(node: float, depth: float, width: float, ports: int) -> list[str]:
    """What is extrapolated; too far beyond the table is an error."""
    notes = []
    nanometres = node * 1e9
    if not NODES[0] * (1 - 1e-9) <= nanometres <= NODES[-1] * (1 + 1e-9):
        notes.append(f"extrapolated: CACTI's nodes are {NODES[0]} to {NODES[-1]} nm")
    widest = math.exp(table(NODES[0]).widths[-1])
    for what, value, known, most in (
        ("bits wide", width, widest, widest),
        (
            "words deep",
            depth,
            min(_deepest(n, width) for n in nearest_nodes(nanometres)),
            max(_deepest(n, width) for n in NODES),
        ),
    ):
        if value > most * MOST_OUTSIDE * (1 + 1e-9):
            raise SpecError(f"an SRAM bank may be at most {most * MOST_OUTSIDE:.4g} {what}, but is {value:.4g}")
        if value > known * (1 + 1e-9):
            notes.append(f"extrapolated: CACTI's runs are at most {known:.4g} {what}")
    if width < MIN_WIDTH or depth < MIN_DEPTH:
        notes.append(f"extrapolated: CACTI's banks are at least {MIN_WIDTH} bits wide and {MIN_DEPTH} words deep")
    if ports > 4:
        notes.append("extrapolated: CACTI's runs have at most 4 ports")
    return notes


def _deepest(node: int, width: float) -> float:
    """The most words for which a node has runs, at about this width."""
    known = table(node)
    return math.exp(clamped(math.log(width), known.widths, [known.deepest[w] for w in known.widths]))


SRAM_ATTRIBUTES = (
    Attribute("size", "all bits that it holds; for a memory, its size", "bits", 0),
    bits("width", "bits of a word, which an action moves; the bits of an action, or the root of the size"),
    Attribute("depth", "words; size / width", "words", 0),
    Attribute("n_banks", "banks that are accessed independently", low=1, high=64, default=1, whole=True, zero=True),
    Attribute("n_rw_ports", "ports for reads and writes", low=1, high=MOST_PORTS, default=1, whole=True, zero=True),
    Attribute("bits_per_action", "of the memory's reads, for the width of a single bank", "bits", 0),
    TECH_NODE,
    SUPPLY,
)
SRAM_SOURCE = "CACTI 7 (ITRS-LSTP, 300 K)"
SRAM_ERROR = "against CACTI runs off the table: to be measured"
