"""The table of CACTI runs behind `sram`: read when it is first needed, one node at a time, and made rectangular."""

from __future__ import annotations

import math
from functools import lru_cache
from importlib import resources
from typing import NamedTuple, TypeAlias

from fusiest.components.scaling import clamped, line

NODES = (22, 32, 45, 65, 90)
"""Nanometres."""
FIGURES = 6
_UNITS = (1e-15, 1e-15, 1e-12, 1e-9, 1e-12, 1e-12)


class SramTable(NamedTuple):
    """Logarithms: of depths, of widths, and by width and depth of the six figures of an array."""

    depths: list[float]
    widths: list[float]
    values: list[list[tuple[float, ...]]]
    deepest: dict[float, float]
    """By log width, the log of the depth up to which there are runs."""


@lru_cache(maxsize=2)
def _text(name: str = "sram.csv") -> list[str]:
    file = resources.files("fusiest.components") / "data" / name
    return [row for row in file.read_text(encoding="utf-8").splitlines() if not row.startswith("#")][1:]


@lru_cache(maxsize=len(NODES))
def table(node: int) -> SramTable:
    """One of the table's nodes."""
    prefix = f"{node},"
    columns: dict[float, dict[float, tuple[float, ...]]] = {}
    for row in _text():
        if row.startswith(prefix):
            _, wide, deep, *figures = row.split(",")
            logs = tuple(math.log(float(v) * unit) for v, unit in zip(figures, _UNITS, strict=True))
            columns.setdefault(math.log(float(wide)), {})[math.log(float(deep))] = logs
    depths = sorted({depth for column in columns.values() for depth in column})
    widths = sorted(columns)
    known = [[columns[width].get(depth) for depth in depths] for width in widths]
    return SramTable(depths, widths, _filled(known, depths), {width: max(columns[width]) for width in widths})


def _filled(known: list[list[tuple[float, ...] | None]], depths: list[float]) -> list[list[tuple[float, ...]]]:
    """Cells without a run: between a width's runs and beyond them a power law, but never less than a memory of fewer
    words or bits, nor more than one of more that was run."""
    ceilings, none = _ceilings(known), (-math.inf,) * FIGURES
    filled: list[list[tuple[float, ...]]] = []
    for j, row in enumerate(known):
        at = [i for i, cell in enumerate(row) if cell is not None]
        curves = [[row[i][q] for i in at] for q in range(FIGURES)]  # type: ignore[index]
        cells: list[tuple[float, ...]] = []
        for i, cell in enumerate(row):
            guess = cell or tuple(line(depths[i], [depths[k] for k in at], curve) for curve in curves)
            fewer_words = cells[i - 1] if i else none
            fewer_bits = filled[j - 1][i] if j else none
            top = ceilings[j][i]
            cells.append(tuple(max(min(guess[q], top[q]), fewer_words[q], fewer_bits[q]) for q in range(FIGURES)))
        filled.append(cells)
    return filled


def _ceilings(known: list[list[tuple[float, ...] | None]]) -> list[list[tuple[float, ...]]]:
    """For each cell the least figures of runs with at least its bits and words."""
    none = (math.inf,) * FIGURES
    found = [[none] * (len(row) + 1) for row in known] + [[none] * (len(known[0]) + 1)]
    for j in reversed(range(len(known))):
        for i in reversed(range(len(known[j]))):
            above = (known[j][i] or none, found[j + 1][i], found[j][i + 1])
            found[j][i] = tuple(min(cell[q] for cell in above) for q in range(FIGURES))
    return found


_PORT_NODES = (22.0, 45.0, 90.0)
PortCurves: TypeAlias = dict[tuple[int, float, float], tuple[list[float], list[list[float]]]]
"""By ports, node and log2 width: log2 depths, and of each figure the logarithms of what it is multiplied with."""


@lru_cache(maxsize=1)
def _port_curves() -> PortCurves:
    found: PortCurves = {}
    for row in _text("sram_ports.csv"):
        ports, node, width, depth, *factors = (float(value) for value in row.split(","))
        depths, curves = found.setdefault((int(ports), node, math.log2(width)), ([], [[] for _ in range(FIGURES)]))
        depths.append(math.log2(depth))
        read, write, area, leak, throughput, access = factors
        for curve, factor in zip(curves, (read, write, area, leak, ports / throughput, access), strict=True):
            curve.append(math.log(factor))
    return found


def port_factors(node: int, depth: float, width: float, ports: int) -> tuple[float, ...]:
    """What the six figures of a bank of one port are to be multiplied with for more."""
    two, four = (_factors(p, node, math.log2(depth), math.log2(width)) for p in (2, 4))
    along = math.log2(ports)
    return tuple(math.exp(line(along, (0.0, 1.0, 2.0), (0.0, a, b))) for a, b in zip(two, four, strict=True))


def _factors(ports: int, node: int, depth: float, width: float) -> list[float]:
    """Logarithms, linear in node, log width and log depth; beyond the runs as at the last ones."""
    curves = _port_curves()
    widths = sorted({w for p, _, w in curves if p == ports})
    by_node = []
    for known in _PORT_NODES:
        columns = [curves[ports, known, w] for w in widths]
        along = [[clamped(depth, depths, figures[q]) for depths, figures in columns] for q in range(FIGURES)]
        by_node.append([clamped(width, widths, values) for values in along])
    return [clamped(float(node), _PORT_NODES, [values[q] for values in by_node]) for q in range(FIGURES)]
