"""A row per Einsum: what it computes, what it costs, how close it is to the peak, what it moves and what it waits for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fusiest.base.frames import DataTable
from fusiest.looptree import LoopTree
from fusiest.model import Anatomy, Evaluation, fused_sets, operations_per_point, take_apart
from fusiest.report.data.background import Background
from fusiest.report.data.fused_sets import set_names
from fusiest.report.data.limits import traffic_bits
from fusiest.spec import Spec

FIRST = ("einsum", "energy", "latency", "bottleneck")
"""The columns that an evaluation has without its spec."""
WHOLE = ("operation", "sizes", "macs", "operations", "share_of_peak", "fused_set")
UNITS = {"energy": "J", "latency": "s", "traffic_bits": "B", "share_of_peak": "%", "macs": "", "operations": "op"}
"""Units of the page's columns, by how their names end."""


def layer_tables(spec: Spec, mappings: Iterable[tuple[LoopTree, Evaluation]]) -> list[DataTable]:
    """Tables of mappings of one spec: joules, seconds, bits in and out of each memory, and shares between 0 and 1.

    >>> from fusiest import evaluate, load
    >>> spec = load("simple", "matmuls", "fused_matmuls_to_simple", N_EINSUMS=2, M=64, KN=64)
    >>> layer_tables(spec, [(spec.mapping, evaluate(spec))])[0].columns[4:9]
    ('operation', 'sizes', 'macs', 'operations', 'share_of_peak')
    """
    background = Background(spec)
    return [_table(background, evaluation, take_apart(spec, tree), tree) for tree, evaluation in mappings]


def _table(background: Background, evaluation: Evaluation, parts: Anatomy, tree: LoopTree) -> DataTable:
    names, info, limits = background.names, background.spec.info.einsums, background.limits
    sets = fused_sets(background.spec, tree)
    letter = {e: name or None for name, s in zip(set_names(sets), sets, strict=True) for e in s.einsums}
    traffic = [traffic_bits(parts, evaluation, [memory]) for memory in names.memories]
    rows: list[tuple[object, ...]] = []
    for name, einsum in evaluation.einsums.items():
        count = limits[name].operations
        macs = count // 2 if operations_per_point(info[name]) == 2 else 0
        share = limits[name].compute_seconds / einsum.latency if count and einsum.latency else None
        sizes = ", ".join(f"{variable}={bound}" for variable, bound in info[name].bounds.items())
        joules = dict.fromkeys(names.components, 0.0)
        for (component, _, _), energy in einsum.energies.items():
            joules[component] += energy
        rows.append(
            (str(name), einsum.energy, einsum.latency, einsum.bottleneck or None, info[name].operation, sizes, macs, count, share,
             letter[name], *(bits[name] for bits in traffic), *joules.values())
        )  # fmt: skip
    memories = (f"{memory}_traffic_bits" for memory in names.memories)
    return DataTable((*FIRST, *WHOLE, *memories, *(f"{component}_energy" for component in names.components)), rows)


def layer_view(background: Background, evaluation: Evaluation, parts: Anatomy, tree: LoopTree) -> dict[str, Any]:
    """The table as the page shows it: titles with units, then rows; traffic in bytes and shares in percent."""
    table = _table(background, evaluation, parts, tree)
    ends = [next((end for end in UNITS if column.endswith(end)), None) for column in table.columns]
    factors = {"traffic_bits": 1 / 8, "share_of_peak": 100}
    words = {"einsum": "Einsum", "macs": "MACs"}
    titles = [words.get(c) or c.removesuffix("_bits").replace("_", " ") for c in table.columns]
    return {
        "columns": [[title, None if end is None else UNITS[end]] for title, end in zip(titles, ends, strict=True)],
        "rows": [
            [_scaled(value, factors.get(end or "", 1)) for value, end in zip(row, ends, strict=True)]
            for row in table.rows
        ],
    }


def _scaled(value: object, factor: float) -> object:
    return value * factor if isinstance(value, (int, float)) and factor != 1 else value
