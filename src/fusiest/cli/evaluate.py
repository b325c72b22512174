"""`fusiest evaluate`: the exact cost of a given mapping."""

from __future__ import annotations

import json

from fusiest.cli.arguments import (
    ArchArgument,
    DefineOption,
    JsonOption,
    MappingArgument,
    WorkloadArgument,
    check_outputs,
    read_defines,
    require,
)
from fusiest.cli.output import Deliveries, present, warn
from fusiest.files import write_atomically


def evaluate_command(
    arch: ArchArgument,
    workload: WorkloadArgument,
    mapping: MappingArgument,
    define: DefineOption = None,
    json_file: JsonOption = None,
) -> None:
    """Print the exact cost of a given mapping."""
    from fusiest.model.evaluate import evaluate
    from fusiest.spec.load import load
    from fusiest.terminal.summary import evaluation_parts

    check_outputs((arch, workload, mapping), json=json_file)
    spec = load(arch, workload, mapping, defines=read_defines(define))
    require(spec, (arch, workload, mapping), "arch", "workload", "mapping")
    result = evaluate(spec)
    warn(result.warnings)
    assert spec.mapping is not None
    with Deliveries() as deliveries:
        with deliveries.one():
            present(evaluation_parts(spec, spec.mapping, result))
        if json_file is not None:
            with deliveries.one():
                write_atomically(json_file, json.dumps(result.to_json(), indent=1, allow_nan=False) + "\n")
