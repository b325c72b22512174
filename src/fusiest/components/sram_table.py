"""The table of CACTI runs behind `sram`: read when it is first needed, one node at a time, made rectangular and continued.

Between four neighbours of a grid on which no figure falls with words or bits, a bilinear surface does not fall either.
So whatever changes a table (more ports, its continuation beyond the runs) is done on the grid, where `_rising` mends it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import lru_cache
from importlib import resources
from typing import NamedTuple, TypeAlias

from fusiest.components.scaling import clamped, line

NODES = (22, 32, 45, 65, 90)
"""Nanometres."""
FIGURES = 6
BEYOND = 4.0
"""How many times beyond the runs a width or a number of words may be."""
Surface: TypeAlias = list[list[tuple[float, ...]]]
"""By width and depth, the logarithms of six figures."""
_UNITS = (1e-15, 1e-15, 1e-12, 1e-9, 1e-12, 1e-12)


class SramTable(NamedTuple):
    """Logarithms: of depths, of widths, and by width and depth of the six figures of an array."""

    depths: list[float]
    widths: list[float]
    values: Surface
    deepest: list[float]
    """By width, the log of the depth up to which there are runs; the last width is beyond them."""

    @property
    def widest(self) -> float:
        """The log of the width up to which there are runs."""
        return self.widths[-2]


@lru_cache(maxsize=2)
def _text(name: str = "sram.csv") -> list[str]:
    file = resources.files("fusiest.components") / "data" / name
    return [row for row in file.read_text(encoding="utf-8").splitlines() if not row.startswith("#")][1:]


@lru_cache(maxsize=32)
def table(node: int, ports: int) -> SramTable:
    """One of the table's nodes, for banks of so many ports; its last depth and width are `BEYOND` times those of the runs.

    `ports` has no default: to the cache, a call without it would be another one."""
    if ports > 1:
        single_port = table(node, 1)
        return single_port._replace(values=_rising(_with_ports(single_port, node, ports)))
    prefix = f"{node},"
    columns: dict[float, dict[float, tuple[float, ...]]] = {}
    for row in _text():
        if row.startswith(prefix):
            _, wide, deep, *figures = row.split(",")
            logs = tuple(math.log(float(v) * unit) for v, unit in zip(figures, _UNITS, strict=True))
            columns.setdefault(math.log(float(wide)), {})[math.log(float(deep))] = logs
    depths = sorted({depth for column in columns.values() for depth in column})
    widths = sorted(columns)
    filled = _filled([[columns[width].get(depth) for depth in depths] for width in widths], depths)
    deepest = [max(columns[width]) for width in widths]
    depths, widths = _beyond(depths), _beyond(widths)
    return SramTable(depths, widths, _continued(filled, depths, widths), [*deepest, deepest[-1]])


def _beyond(grid: list[float]) -> list[float]:
    return [*grid, grid[-1] + math.log(BEYOND)]


def _continued(values: Surface, depths: list[float], widths: list[float]) -> Surface:
    """One more depth and one more width, by the last power law, but never less than fewer words or bits."""
    deeper: Surface = []
    for row in values:
        last = _power_law(depths, row[-2], row[-1])
        deeper.append([*row, tuple(map(max, last, row[-1], deeper[-1][-1] if deeper else last))])
    wider: list[tuple[float, ...]] = []
    for pair in zip(deeper[-2], deeper[-1], strict=True):
        last = _power_law(widths, *pair)
        wider.append(tuple(map(max, last, pair[-1], wider[-1] if wider else last)))
    return [*deeper, wider]


def _power_law(grid: list[float], before: tuple[float, ...], last: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(line(grid[-1], grid[-3:-1], pair) for pair in zip(before, last, strict=True))


def _rising(values: Surface) -> Surface:
    """Each figure at least that of fewer words and of fewer bits."""
    risen: Surface = []
    for j, row in enumerate(values):
        cells: list[tuple[float, ...]] = []
        for i, cell in enumerate(row):
            cells.append(tuple(map(max, cell, cells[i - 1] if i else cell, risen[j - 1][i] if j else cell)))
        risen.append(cells)
    return risen


def _filled(runs: list[list[tuple[float, ...] | None]], depths: list[float]) -> Surface:
    """Cells without a run: between a width's runs and beyond them a power law, but never less than a memory of fewer
    words or bits, nor more than one of more that was run. The runs themselves rise, and are as they are."""
    ceilings, none = _ceilings(runs), (-math.inf,) * FIGURES
    filled: Surface = []
    for j, row in enumerate(runs):
        at = [depth for depth, cell in zip(depths, row, strict=True) if cell is not None]
        curves = list(zip(*(cell for cell in row if cell is not None), strict=True))
        fewer_bits = filled[-1] if filled else [none] * len(row)
        cells: list[tuple[float, ...]] = []
        fewer_words = none
        for i, cell in enumerate(row):
            if cell is None:
                guess = [line(depths[i], at, curve) for curve in curves]
                cell = tuple(map(max, map(min, guess, ceilings[j][i]), fewer_words, fewer_bits[i]))
            cells.append(cell)
            fewer_words = cell
        filled.append(cells)
    return filled


def _ceilings(runs: list[list[tuple[float, ...] | None]]) -> list[list[tuple[float, ...]]]:
    """For each cell the least figures of runs with at least its bits and words, which is its own run if there is one."""
    none = (math.inf,) * FIGURES
    ceilings = [[none] * (len(row) + 1) for row in runs] + [[none] * (len(runs[0]) + 1)]
    for j in reversed(range(len(runs))):
        for i in reversed(range(len(runs[j]))):
            ceilings[j][i] = runs[j][i] or tuple(map(min, ceilings[j + 1][i], ceilings[j][i + 1]))
    return ceilings


_PORT_NODES = (22.0, 45.0, 90.0)
PortCurves: TypeAlias = dict[tuple[int, float, float], tuple[list[float], list[list[float]]]]
"""By ports, node and log width: log depths, and of each figure the logarithms of what it is multiplied with."""


@lru_cache(maxsize=1)
def _port_curves() -> PortCurves:
    port_curves: PortCurves = {}
    for row in _text("sram_ports.csv"):
        ports, node, width, depth, *factors = (float(value) for value in row.split(","))
        depths, curves = port_curves.setdefault((int(ports), node, math.log(width)), ([], [[] for _ in range(FIGURES)]))
        depths.append(math.log(depth))
        read, write, area, leak, throughput, access = factors
        for curve, factor in zip(curves, (read, write, area, leak, ports / throughput, access), strict=True):
            curve.append(math.log(factor))
    return port_curves


def _with_ports(single_port: SramTable, node: int, ports: int) -> Surface:
    """The figures of a bank of one port, each times its factor."""
    two, four = (_port_factors(node, p) for p in (2, 4))
    along = math.log2(ports)

    def cell(figures: tuple[float, ...], at_two: list[float], at_four: list[float]) -> tuple[float, ...]:
        factors = zip(figures, at_two, at_four, strict=True)
        return tuple(figure + line(along, (0.0, 1.0, 2.0), (0.0, a, b)) for figure, a, b in factors)

    rows = zip(single_port.values, two, four, strict=True)
    return [[cell(*cells) for cells in zip(*row, strict=True)] for row in rows]


@lru_cache(maxsize=2 * len(NODES))
def _port_factors(node: int, ports: int) -> list[list[list[float]]]:
    """By the table's widths and depths the logarithms of six factors: linear in node, log width and log depth, and
    beyond the runs as at the last ones."""
    single_port, curves, i = table(node, 1), _port_curves(), bisect_right(_PORT_NODES[1:-1], node)
    widths = sorted({w for p, _, w in curves if p == ports})
    columns: list[list[list[float]]] = []
    for w in widths:
        at_nodes = [curves[ports, run_node, w] for run_node in _PORT_NODES[i : i + 2]]
        columns.append([])
        for depth in single_port.depths:
            low, high = ([clamped(depth, depths, figure) for figure in figures] for depths, figures in at_nodes)
            columns[-1].append([line(node, _PORT_NODES[i : i + 2], pair) for pair in zip(low, high, strict=True)])
    factors = []
    for width in single_port.widths:
        cells = zip(*columns, strict=True)
        factors.append([[clamped(width, widths, figure) for figure in zip(*cell, strict=True)] for cell in cells])
    return factors
