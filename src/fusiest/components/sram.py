"""SRAM: interpolation in a table of CACTI 7 runs (ITRS-LSTP cells and periphery, 300 K, one read/write port).

The table has one bank at 22, 32, 45, 65 and 90 nm. More words or more bits are never cheaper: where CACTI's optimizer
makes them so, the running maximum over fewer words and bits counts. Costs are continuous in size, width, node and banks.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import NamedTuple

from fusiest.base.errors import SpecError
from fusiest.components.classes import ActionCost, Attribute, Attributes, Figures
from fusiest.components.parts import SUPPLY, TECH_NODE, at_supply, bits, number, optional
from fusiest.components.scaling import clamped
from fusiest.components.sram_table import BEYOND, FIGURES, NODES, SramTable, table
from fusiest.components.wires import repeated_wire_constants

MIN_WIDTH, MIN_DEPTH = 32, 64
MOST_PORTS = 8
STEEP_FROM = 45
"""From here to the next node leakage grows about sevenfold: a straight line would start with a jump."""


class Array(NamedTuple):
    """Joules of a read and a write, square metres, watts, seconds from access to access and of one access."""

    read: float
    write: float
    area: float
    leak_power: float
    cycle: float
    access: float


def small_bank(node: int, depth: float, width: float, banks: float, ports: int) -> Array:
    """Banks of any size. Smaller than the table's least: energy with (0.7 w/w' + 0.3)(d/d')^0.78, area and leakage in
    proportion, times as they are."""
    wide, deep = max(width, MIN_WIDTH), max(depth, MIN_DEPTH * banks)
    array = banked(node, deep, wide, banks, ports)
    energy = (0.7 * width / wide + 0.3) * (depth / deep) ** 0.78
    share = width * depth / (wide * deep)
    return _times(array, energy, share, share, 1.0)


def _interpolated(runs: SramTable, depth: float, width: float) -> Array:
    """A bank not smaller than the table's least: logarithms, linear in log depth and log width."""
    x, y = math.log(depth), math.log(width)
    i = min(max(bisect_right(runs.depths, x) - 1, 0), len(runs.depths) - 2)
    j = min(max(bisect_right(runs.widths, y) - 1, 0), len(runs.widths) - 2)
    s = (x - runs.depths[i]) / (runs.depths[i + 1] - runs.depths[i])
    t = (y - runs.widths[j]) / (runs.widths[j + 1] - runs.widths[j])
    corners = (runs.values[j][i], runs.values[j][i + 1], runs.values[j + 1][i], runs.values[j + 1][i + 1])
    weights = ((1 - s) * (1 - t), s * (1 - t), (1 - s) * t, s * t)
    figures = (sum(w * corner[q] for w, corner in zip(weights, corners, strict=True)) for q in range(FIGURES))
    return Array(*map(math.exp, figures))


# Several banks, by their number, fitted to CACTI's runs of 2 to 32: routing in units of the wires' constants, and what the
# energy of the bank itself is multiplied with, as CACTI spends some on speed to make up for the way there.
_BANKS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
_AREA = (0.0, 10.7, 19.1, 24.8, 27.7, 30.7)
_READ = (0.0, 0.403, 0.691, 0.822, 1.033, 1.172)
_BANK_READ = (1.0, 1.097, 1.216, 1.536, 1.562, 1.95)
_WRITE = (0.0, 0.074, 0.648, 0.734, 0.976, 0.991)
_BANK_WRITE = (1.0, 1.261, 1.215, 1.521, 1.628, 2.14)
_ACCESS = (0.0, 0.614, 1.432, 1.717, 2.149, 2.282)
_LEAKAGE = (0.0, 1.06, 10.9, 23.0, 62.6, 126.0)


def banked(node: int, depth: float, width: float, banks: float, ports: int) -> Array:
    """Banks of depth/banks words each, and wires of each port over the side of them all."""
    bank = _interpolated(table(node, ports), depth / banks, width)
    if banks == 1:
        return bank
    energy, delay, leakage = repeated_wire_constants(node * 1e-9)

    def routing(constants: tuple[float, ...]) -> float:
        return clamped(math.log2(banks), [math.log2(b) for b in _BANKS], constants)

    side = math.sqrt(banks * bank.area)
    area = banks * bank.area + routing(_AREA) * width * ports * side * node * 1e-9
    whole_side = math.sqrt(area)
    return Array(
        bank.read * routing(_BANK_READ) + energy * width * whole_side * routing(_READ) * ports,
        bank.write * routing(_BANK_WRITE) + energy * width * whole_side * routing(_WRITE) * ports**1.25,
        area,
        banks * bank.leak_power + leakage * width * ports * side * routing(_LEAKAGE),
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


def at_any_node(node: float, depth: float, width: float, banks: float = 1, ports: int = 1) -> Array:
    """Linear between the table's nodes, but for the leakage from 45 to 65 nm, a power law.

    Below, s = node / 22 nm: energy and leakage √s, area and time s, and finFETs leak 21% less (full effect at 16 nm).
    Above: energy and area as the square of the node, time and leakage as the node.
    """
    nanometres = node * 1e9
    inside = min(max(nanometres, NODES[0]), NODES[-1])
    lower, upper = nearest_nodes(nanometres)
    array = small_bank(lower, depth, width, banks, ports)
    if upper != lower:
        share = (inside - lower) / (upper - lower)
        at_upper = small_bank(upper, depth, width, banks, ports)
        leak = array.leak_power
        array = Array(*((1 - share) * a + share * b for a, b in zip(array, at_upper, strict=True)))
        if lower == STEEP_FROM:
            share = math.log(inside / lower) / math.log(upper / lower)
            array = array._replace(leak_power=leak ** (1 - share) * at_upper.leak_power**share)
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


def sram(attributes: Attributes) -> Figures:
    """The cost function of SRAM."""
    node, banks, ports = (
        number(attributes, "tech_node"),
        number(attributes, "n_banks"),
        number(attributes, "n_rw_ports"),
    )
    size, width, notes = _shape(attributes)
    depth = size / width
    notes += _outside(node, depth / banks, width, banks, int(ports))
    array = at_any_node(node, depth, width, banks, int(ports))
    throughput = banks * ports / array.cycle
    figures = Figures(
        {
            "read": ActionCost(array.read, throughput, array.access),
            "write": ActionCost(array.write, throughput, array.access),
        },
        array.area,
        array.leak_power,
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


def _outside(node: float, depth: float, width: float, banks: float, ports: int) -> list[str]:
    """What is extrapolated; too far beyond the table is an error."""
    notes = []
    nanometres = node * 1e9
    if not NODES[0] * (1 - 1e-9) <= nanometres <= NODES[-1] * (1 + 1e-9):
        notes.append(f"extrapolated: CACTI's nodes are {NODES[0]} to {NODES[-1]} nm")
    nearest = nearest_nodes(nanometres)
    widest = math.exp(table(nearest[0], 1).widest)  # the same at all nodes
    deepest = min(_deepest(n, width) for n in nearest)
    if width > widest * (1 + 1e-9):
        notes.append(_beyond("bits wide", width, widest, widest))
    if depth > deepest * (1 + 1e-9):  # only now are the tables of all nodes read
        notes.append(_beyond("words deep", depth, deepest, max(_deepest(n, width) for n in NODES)))
    if width < MIN_WIDTH or depth < MIN_DEPTH:
        notes.append(f"extrapolated: CACTI's banks are at least {MIN_WIDTH} bits wide and {MIN_DEPTH} words deep")
    if banks > _BANKS[-1]:
        notes.append(f"extrapolated: CACTI's runs have at most {_BANKS[-1]:g} banks")
    if ports > 4:
        notes.append("extrapolated: CACTI's runs have at most 4 ports")
    return notes


def _beyond(unit: str, value: float, largest_run: float, most: float) -> str:
    if value > most * BEYOND * (1 + 1e-9):
        raise SpecError(f"an SRAM bank may be at most {most * BEYOND:.4g} {unit}, but is {value:.4g}")
    return f"extrapolated: CACTI's runs are at most {largest_run:.4g} {unit}"


def _deepest(node: int, width: float) -> float:
    """The most words for which a node has runs, at about this width."""
    runs = table(node, 1)
    return math.exp(clamped(math.log(width), runs.widths, runs.deepest))


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
SRAM_ERROR = (
    "equal to CACTI at the table's points; 630 other runs: one bank half within 0.7%, 90% within 9% (read) and 6% (write, area, "
    "leakage, access); 2 to 16 banks half within 5%, 90% within 16%"
)
