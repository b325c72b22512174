"""`fusiest advise`: what to change in an architecture."""

from __future__ import annotations

import sys
from typing import Annotated

from fusiest import interrupt
from fusiest.cli.arguments import (
    ArchArgument,
    DefineOption,
    JobsOption,
    QuietOption,
    WorkloadArgument,
    choice,
    given_files,
    read_defines,
    require,
)
from fusiest.cli.output import present
from fusiest.cli.report import advice_of
from fusiest.errors import SpecError
from fusiest.objective import OBJECTIVES


def advise_command(
    arch: ArchArgument,
    workload: WorkloadArgument = None,
    define: DefineOption = None,
    objective: Annotated[str, choice(" ".join(OBJECTIVES), metavar="WHAT", help="energy, latency or edp")] = "edp",
    jobs: JobsOption = None,
    quiet: QuietOption = False,
) -> None:
    """Say what binds, and what halving and doubling every size, bandwidth, fanout and energy does."""
    from fusiest.mapper import Step
    from fusiest.spec import load
    from fusiest.terminal import ProgressLine, advice_parts

    files = given_files(arch, workload)
    spec = load(*files, defines=read_defines(define))
    require(spec, files, "arch", "workload")
    if objective not in OBJECTIVES:
        raise SpecError(f"objective '{objective}' is none of {', '.join(OBJECTIVES)}")
    with ProgressLine(sys.stderr, quiet) as progress, interrupt.deferred():
        progress(Step("loading the compiled search (compiled once, on first use)"))
        from fusiest.mapper import Options, run
        from fusiest.report import unfused_optimum

        options = Options(objective=(objective,), jobs=jobs)
        result = run(spec, options, progress)
        advice = advice_of(result, unfused_optimum(spec, options, progress), progress)
    present(advice_parts(advice.changes, advice.binds, advice.steps, objective))
