"""`fusiest import`: a network as a workload, or Timeloop's files as a spec, and what became of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from fusiest.base.errors import SpecError
from fusiest.cli.arguments import STDOUT, JsonOption, check_outputs, choice, flag, option
from fusiest.cli.completion import networks
from fusiest.cli.output import Deliveries, echo, write_output

if TYPE_CHECKING:
    from fusiest.networks import NetworkImport
    from fusiest.timeloop import TimeloopImport

ImportOutputs: TypeAlias = tuple[str | None, str | None, str | None]
"""Where the spec, the report and its JSON go."""


def import_command(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="NET",
            help="network: an .onnx or a .pt2 file; with --from timeloop, all files of a Timeloop description",
            autocompletion=networks,
        ),
    ],
    output: Annotated[
        str | None, option("FILE.yaml", "write the workload or spec; - is stdout", "-o", "--output")
    ] = None,
    report: Annotated[
        str | None, option("FILE", "write what became of each node, a line for each; - is stdout")
    ] = None,
    json_file: JsonOption = None,
    strict: Annotated[bool, flag("--strict", "fail if anything is cut, or not explained")] = False,
    dim: Annotated[
        list[str] | None, option("NAME=SIZE", "size of a dimension that the file leaves open; may be repeated", "--dim")
    ] = None,
    batch: Annotated[int | None, option("N", "samples at once")] = None,
    bits: Annotated[str, option("BITS", "bits of a value: 8, or by set: weight=4,Other=8")] = "8",
    softmax: Annotated[
        str,
        choice(
            "cascade deferred online",
            metavar="HOW",
            help="cascade: four Einsums; deferred: the division after the product; online: one Einsum, as FlashAttention moves data",
        ),
    ] = "cascade",
    elementwise: Annotated[
        str, choice("fold keep", help="functions of one tensor are computed where it is made, or are Einsums")
    ] = "fold",
    first: Annotated[
        str | None, option("NODE|timeloop", "import from this node on; or: from files of Timeloop", "--from")
    ] = None,
    last: Annotated[str | None, option("NODE", "import up to this node", "--to")] = None,
) -> None:
    """Turn a network into a workload, or Timeloop's files into a spec, and say what became of them."""
    from fusiest.spec import NETWORKS

    check_outputs(files, output=output, report=report, json=json_file)
    if first == "timeloop" and not any(file.endswith(NETWORKS) for file in files):
        _import_timeloop(files, (output, report, json_file), strict)
        return
    if len(files) > 1:
        raise SpecError(
            f"one network at a time, but {len(files)} files are named; Timeloop's files want --from timeloop"
        )
    from fusiest.networks import ImportOptions, bits_by_set, import_network

    network = files[0]
    if network.endswith((".yaml", ".yml")):
        raise SpecError(f"{network}: networks are .onnx and .pt2 files; Timeloop's files want --from timeloop")
    options = ImportOptions(
        dims=_sizes(dim or []),
        batch=batch,
        bits=bits_by_set(bits),
        softmax=softmax,
        elementwise=elementwise,
        first=first,
        last=last,
    )
    imported = import_network(network, options)
    _deliver(imported, imported.report.text(), (output, report, json_file))
    cuts = imported.report.cuts
    if strict and cuts:
        others = f" and at {len(cuts) - 1} more" if len(cuts) > 1 else ""
        raise SpecError(f"--strict: {network} is cut at {cuts[0].operator} {cuts[0].name}{others}: {cuts[0].detail}")


def _import_timeloop(files: list[str], outputs: ImportOutputs, strict: bool) -> None:
    """Architecture, workload, mapping and constraints of Timeloop's files, and what is counted otherwise here."""
    from fusiest.timeloop import import_timeloop

    imported = import_timeloop(files)
    _deliver(imported, "\n".join(imported.report.summary()) + "\n", outputs)
    unexplained = imported.report.unexplained
    if strict and unexplained:
        c = unexplained[0]
        raise SpecError(
            f"--strict: {c.level} {c.space} {c.action}s are {c.here:,.0f}, Timeloop's are {c.timeloop:,.0f}"
        )


def _deliver(imported: NetworkImport | TimeloopImport, text: str, outputs: ImportOutputs) -> None:
    """Write the spec, the report and its JSON where they are wanted; print the summary, unless one of them is printed."""
    report = imported.report
    contents = (imported.yaml, text, json.dumps(report.to_json(), indent=1, allow_nan=False) + "\n")
    with Deliveries(*outputs) as deliveries:
        if STDOUT not in outputs:
            with deliveries.delivery():
                echo("\n".join(report.summary()))
        for file, content in zip(outputs, contents, strict=True):
            if file is not None:
                with deliveries.delivery(file):
                    write_output(file, content)


def _sizes(pairs: list[str]) -> dict[str, int]:
    """`NAME=SIZE` pairs."""
    sizes: dict[str, int] = {}
    for pair in pairs:
        name, _, size = pair.rpartition("=")
        if not name or not size.strip().isdigit():
            raise SpecError(f"--dim {pair}: expected NAME=SIZE")
        sizes[name] = int(size)
    return sizes
