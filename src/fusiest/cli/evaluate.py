"""`fusiest evaluate`: the exact cost of a given mapping."""

from __future__ import annotations

import sys

from fusiest.cli.arguments import (
    STDOUT,
    ArchArgument,
    ChartsOption,
    CsvOption,
    DefineOption,
    JsonOption,
    MappingArgument,
    NoUnfusedOption,
    QuietOption,
    ReportOption,
    WorkloadArgument,
    check_outputs,
    given_files,
    read_defines,
    require,
)
from fusiest.cli.output import Deliveries, command_line, present, warn
from fusiest.cli.report import Pictures


def evaluate_command(
    arch: ArchArgument,
    workload: WorkloadArgument = None,
    mapping: MappingArgument = None,
    define: DefineOption = None,
    json_file: JsonOption = None,
    csv_file: CsvOption = None,
    report: ReportOption = None,
    charts: ChartsOption = None,
    no_unfused: NoUnfusedOption = False,
    quiet: QuietOption = False,
) -> None:
    """Print the exact cost of a given mapping."""
    from fusiest.mapper import GIVEN, evaluation_json, given_mapping, json_text, made_now
    from fusiest.model import evaluate
    from fusiest.spec import load
    from fusiest.terminal import ProgressLine, evaluation_parts

    files = given_files(arch, workload, mapping)
    check_outputs(files, json=json_file, csv=csv_file, report=report)
    pictures = Pictures(report, charts, not no_unfused)
    pictures.check()
    spec = load(*files, defines=read_defines(define))
    require(spec, files, "arch", "workload", "mapping")
    tree, evaluation = spec.mapping, evaluate(spec)
    assert tree is not None
    provenance = made_now(spec, GIVEN, command_line())
    warn(evaluation.warnings)
    with Deliveries(json_file, csv_file, report, charts) as deliveries:
        if STDOUT not in (json_file, csv_file, report):
            with deliveries.delivery():
                present(evaluation_parts(spec, tree, evaluation))
        deliveries.write(json_file, lambda: json_text(evaluation_json(spec, tree, evaluation, provenance)))
        deliveries.write(csv_file, lambda: evaluation.table().to_csv())
        if pictures:
            with deliveries.delivery(), ProgressLine(sys.stderr, quiet) as progress:
                title = " on ".join(files[1::-1])
                pictures.write(
                    given_mapping(spec, evaluation, provenance), title, ", ".join(define or []), progress, deliveries
                )
