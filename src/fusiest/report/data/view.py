"""One mapping as plain data: everything that a report shows of it, and changes when another one is chosen."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from fusiest.base.errors import SpecError
from fusiest.base.objective import products_of
from fusiest.code import code_text, pseudocode
from fusiest.looptree import LoopTree
from fusiest.model import Anatomy, Evaluation, take_apart
from fusiest.report.charts.chart import Chart, is_empty
from fusiest.report.charts.roofline import roofline
from fusiest.report.data import energy_and_time, fused_sets
from fusiest.report.data.background import Background
from fusiest.report.data.limits import rates
from fusiest.report.data.memory import memory_size, occupancy_charts
from fusiest.report.data.roles import energy_shares
from fusiest.report.data.treerows import tree_rows
from fusiest.report.layers import layer_view
from fusiest.spec import dump_mapping


def mapping_charts(background: Background, tree: LoopTree, evaluation: Evaluation) -> dict[str, Chart]:
    """Every chart of one mapping, by the name that it has in the page and as a file."""
    return _charts(background, tree, take_apart(background.spec, tree), evaluation)


def _charts(background: Background, tree: LoopTree, parts: Anatomy, evaluation: Evaluation) -> dict[str, Chart]:
    names = background.names
    shares = list(energy_shares(parts, evaluation))
    einsum_rates = rates(background.machine, parts, evaluation, background.limits)
    charts: dict[str, Chart] = {
        "roofline": roofline(background, einsum_rates),
        "fusion": fused_sets.graph(background, tree),
        "intensity": fused_sets.intensity_chart(background, einsum_rates),
        "energy-component": energy_and_time.energy_by_component(names, shares),
        "energy-tensor": energy_and_time.energy_by_tensor(names, shares),
        "energy-einsum": energy_and_time.energy_by_einsum(names, shares),
        "latency-einsum": energy_and_time.latency_by_einsum(names, evaluation),
        "utilization": energy_and_time.utilization(parts, evaluation, background.limits),
        "busy": energy_and_time.busy_shares(names, evaluation),
    }
    for name, chart in occupancy_charts(names, parts, evaluation).items():
        charts[f"memory-{name}"] = chart
    return {name: chart for name, chart in charts.items() if not is_empty(chart)}


def mapping_view(background: Background, tree: LoopTree, evaluation: Evaluation) -> dict[str, Any]:
    """The mapping's figures, tree, texts and charts."""
    names = background.names
    parts = take_apart(background.spec, tree)
    charts = _charts(background, tree, parts, evaluation)
    return {
        "energy": evaluation.energy,
        "latency": evaluation.latency,
        **products_of(evaluation),
        "dynamic": evaluation.dynamic_energy,
        "leak": evaluation.leak_energy,
        "order": [str(e) for e in evaluation.einsums],
        "warnings": list(evaluation.warnings),
        "peaks": [
            [
                m,
                evaluation.peak_occupancy_bits[m] / 8 if m in evaluation.peak_occupancy_bits else None,
                size / 8 if (size := memory_size(parts, m)) < math.inf else None,
            ]
            for m in names.memories
        ],
        "tree": tree_rows(background, tree, parts, evaluation),
        "pseudocode": pseudocode(background.spec, tree),
        "c": _in_c(background, tree),
        "yaml": dump_mapping(tree),
        "sets": fused_sets.set_table(background, tree, parts, evaluation),
        "layers": layer_view(background, evaluation, parts, tree),
        "charts": {name: dataclasses.asdict(chart) for name, chart in charts.items()},
    }


def _in_c(background: Background, tree: LoopTree) -> str:
    """The mapping as a function in C, or why there is none."""
    try:
        return code_text(background.spec, tree)
    except SpecError as error:
        return f"There is no C of this mapping: {error.message}."
