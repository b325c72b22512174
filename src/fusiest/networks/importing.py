"""A graph all the way to a workload: recognize, lower, finish, name, write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fusiest.base.errors import SpecError
from fusiest.networks.graph.graph import NetworkGraph
from fusiest.networks.graph.recognition import recognized
from fusiest.networks.graph.section import between
from fusiest.networks.import_options import ImportOptions
from fusiest.networks.lowering import (  # noqa: F401  (enter their operators)
    attention,
    contractions,
    elementwise,
    moves,
    normalizations,
    pooling,
    recurrences,
    transposed,
)
from fusiest.networks.lowering.extents import Extent
from fusiest.networks.lowering.lower import Lowering, lower
from fusiest.networks.lowering.making import Unfit
from fusiest.networks.output.import_report import ImportReport, amount, report_on
from fusiest.networks.output.readable_names import named
from fusiest.networks.output.write_yaml import workload_yaml
from fusiest.networks.passes.lowered import Lowered
from fusiest.networks.passes.order import finish


@dataclass(frozen=True, slots=True)
class NetworkImport:
    """A network as a workload: the YAML, and what became of its nodes."""

    yaml: str
    report: ImportReport
    source: Any = field(default=None, repr=False, compare=False)
    """The ONNX file or model that it comes from, where its values are asked for."""
    options: ImportOptions | None = field(default=None, repr=False, compare=False)


def lowered_graph(graph: NetworkGraph, options: ImportOptions) -> Lowered:
    """The Einsums of a graph."""
    graph = recognized(between(graph, options.first, options.last))
    lowering = Lowering(graph, options)
    if options.batch is not None and options.batch > 1:
        lowering.batch = Extent(options.batch)
    try:
        lower(lowering)
        lowered = finish(lowering)
    except Unfit as error:
        raise SpecError(f"{graph.name}: {error}") from None
    if not lowered.einsums:
        raise SpecError(f"{graph.name}: nothing is computed: no node became an Einsum")
    return lowered


def import_graph(graph: NetworkGraph, options: ImportOptions) -> NetworkImport:
    """The workload of a graph."""
    lowered = lowered_graph(graph, options)
    names = named(lowered)
    report = report_on(lowered, names)
    return NetworkImport(workload_yaml(lowered, names, _about(report, options)), report)


def _about(report: ImportReport, options: ImportOptions) -> Sequence[str]:
    """The comment at the top of the file."""
    name = "".join(c if c.isascii() and c.isprintable() and c not in "{}#" else "?" for c in report.network)[:200]
    lines = [
        f"{name.rsplit('/', 1)[-1]}: {report.einsums:,} Einsums, {amount(report.macs)} multiply-accumulates, "
        f"{amount(report.parameters)} parameters.",
        f"Imported with softmax as {options.softmax}, element-wise operators: {options.elementwise}"
        + (f", batch {options.batch}" if options.batch else "")
        + ".",
    ]
    if report.cuts:
        lines.append(
            f"{len(report.cuts)} nodes are cut: their inputs go to the outermost memory, and their outputs come from there."
        )
    return lines
