"""`fusiest evaluate`: the exact cost of a given mapping."""

from __future__ import annotations

import sys

from fusiest.cli import arguments as args
from fusiest.cli.output import Deliveries, command_line, note, present, warn
from fusiest.cli.report_files import Pictures


def evaluate_command(
    arch: args.ArchArgument,
    workload: args.WorkloadArgument = None,
    mapping: args.MappingArgument = None,
    define: args.DefineOption = None,
    json_file: args.JsonOption = None,
    csv_file: args.CsvOption = None,
    csv_layers: args.CsvLayersOption = None,
    report: args.ReportOption = None,
    charts: args.ChartsOption = None,
    no_unfused: args.NoUnfusedOption = False,
    quiet: args.QuietOption = False,
) -> None:
    """Print the exact cost of a given mapping."""
    from fusiest.mapper import GIVEN, evaluation_json, given_mapping, json_text, made_now
    from fusiest.model import evaluate
    from fusiest.spec import load, size_notes
    from fusiest.terminal import ProgressLine, evaluation_parts

    files = args.given_files(arch, workload, mapping)
    args.check_outputs(files, json=json_file, csv=csv_file, csv_layers=csv_layers, report=report)
    pictures = Pictures(report, charts, not no_unfused)
    pictures.check()
    spec = load(*files, defines=args.read_defines(define))
    args.require(spec, files, "arch", "workload", "mapping")
    tree, evaluation = spec.mapping, evaluate(spec)
    assert tree is not None
    provenance = made_now(spec, GIVEN, command_line())
    note(size_notes(spec))
    warn(evaluation.warnings)
    with Deliveries(json_file, csv_file, csv_layers, report, charts) as deliveries:
        if args.STDOUT not in (json_file, csv_file, csv_layers, report):
            with deliveries.delivery():
                present(evaluation_parts(spec, tree, evaluation))
        deliveries.write(json_file, lambda: json_text(evaluation_json(spec, tree, evaluation, provenance)))
        deliveries.write(csv_file, lambda: evaluation.table().to_csv())
        if csv_layers is not None:
            from fusiest.report import layer_tables

            deliveries.write(csv_layers, layer_tables(spec, [(tree, evaluation)])[0].to_csv)
        if pictures:
            with deliveries.delivery(), ProgressLine(sys.stderr, quiet) as progress:
                title = " on ".join(files[1::-1])
                pictures.write(
                    given_mapping(spec, evaluation, provenance), title, ", ".join(define or []), progress, deliveries
                )
